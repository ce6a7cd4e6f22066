# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""The tilted bound on the expected log-sum-exp of independent normal scores, row by row.

``min_a sum_j a_j**2 * nu_j / 2 + log sum_j exp(mu_j + (1/2 - a_j) * nu_j)``, strictly convex in ``a`` where ``nu > 0``.
Newton's method: the Jacobian of ``a - p(a)`` is diagonal plus rank one, so that a step costs O(n_labels). The plain
iteration ``a <- p(a)`` oscillates once a variance exceeds 2.
"""
from libc.math cimport exp, fabs, log


cdef double evaluate(
    const double *mu, const double *nu, const double *a, double *p, Py_ssize_t n
) noexcept nogil:
    """The bound at ``a``, and the probabilities that tilting gives there."""
    cdef double top, total = 0.0, square = 0.0, score
    cdef Py_ssize_t j
    top = mu[0] + (0.5 - a[0]) * nu[0]
    for j in range(n):
        score = mu[j] + (0.5 - a[j]) * nu[j]
        p[j] = score
        if score > top:
            top = score
        square += a[j] * a[j] * nu[j]
    for j in range(n):
        p[j] = exp(p[j] - top)
        total += p[j]
    for j in range(n):
        p[j] /= total
    return 0.5 * square + top + log(total)


def tilt(
    const double[:, ::1] mu,        # IN    (n_rows, n_labels), means of scores, nats
    const double[:, ::1] nu,        # IN    (n_rows, n_labels), their variances, at least 0
    double[:, ::1] a,               # INOUT (n_rows, n_labels), start and optimum
    double[:, ::1] p,               # OUT   (n_rows, n_labels), derivative of the bound by mu
    double[::1] value,              # OUT   (n_rows,), the bound, nats
    double[:, ::1] work,            # WORK  (3, n_labels)
    double tol,
    int max_newton,
):
    """Optimal tilts; O(n_labels) exponentials a Newton step, of which there are two to eight."""
    cdef Py_ssize_t n = mu.shape[1], i, j
    cdef int round, halving
    cdef double *step = &work[0, 0]
    cdef double *trial = &work[1, 0]
    cdef double *trial_p = &work[2, 0]
    cdef double gap, curve, dot, rest, length, bound, candidate, share
    with nogil:
        for i in range(mu.shape[0]):
            bound = evaluate(&mu[i, 0], &nu[i, 0], &a[i, 0], &p[i, 0], n)
            for round in range(max_newton):
                gap, dot, rest = 0.0, 0.0, 0.0
                for j in range(n):
                    step[j] = a[i, j] - p[i, j]
                    if fabs(step[j]) > gap:
                        gap = fabs(step[j])
                    curve = 1.0 + nu[i, j] * p[i, j]
                    step[j] /= curve
                    dot += nu[i, j] * p[i, j] * step[j]
                    rest += p[i, j] / curve
                if not gap > tol:
                    break
                share = dot / rest
                for j in range(n):
                    step[j] += share * p[i, j] / (1.0 + nu[i, j] * p[i, j])
                length = 1.0
                for halving in range(40):
                    for j in range(n):
                        trial[j] = a[i, j] - length * step[j]
                    candidate = evaluate(&mu[i, 0], &nu[i, 0], trial, trial_p, n)
                    if candidate <= bound + 1e-14 * (1.0 + fabs(bound)):
                        break
                    length *= 0.5
                else:
                    break
                bound = candidate
                for j in range(n):
                    a[i, j] = trial[j]
                    p[i, j] = trial_p[j]
            value[i] = bound
