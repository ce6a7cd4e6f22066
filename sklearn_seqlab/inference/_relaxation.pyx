# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Labels of steps that depend on the labels of other steps, relaxed to a fixed point.

Every step holds a distribution over its labels; a round recomputes it from the step's own scores and the expected
scores under the distributions of the steps around it. Nothing guarantees a fixed point: two steps may swap for ever,
so rounds are counted and the last change is reported.
"""
from libc.math cimport exp, fabs, INFINITY

from sklearn_seqlab.inference._vector cimport axpy


cdef void refresh(
    const double[:, ::1] base, const double[:, :, ::1] coupling, const Py_ssize_t[::1] lags,
    const unsigned char[:, ::1] allowed, const double[:, ::1] r,
    Py_ssize_t t, Py_ssize_t start, Py_ssize_t stop, double *out,
) noexcept nogil:
    """The distribution of step ``t`` given those around it; O(n_lags * n_labels**2)."""
    cdef Py_ssize_t n_labels = base.shape[1], d, k, j
    cdef double top = -INFINITY, total = 0.0
    for j in range(n_labels):
        out[j] = base[t, j]
    for d in range(lags.shape[0]):
        k = t + lags[d]
        if start <= k < stop:
            for j in range(n_labels):
                if r[k, j] != 0.0:
                    axpy(out, r[k, j], &coupling[d, j, 0], n_labels)
    for j in range(n_labels):
        if allowed[t, j] and out[j] > top:
            top = out[j]
    for j in range(n_labels):
        out[j] = exp(out[j] - top) if allowed[t, j] else 0.0
        total += out[j]
    for j in range(n_labels):
        out[j] /= total


def relax(
    const double[:, ::1] base,              # IN    (n_total, n_labels), nats, finite
    const double[:, :, ::1] coupling,       # IN    (n_lags, n_labels, n_labels), label there to label here
    const Py_ssize_t[::1] lags,             # IN    (n_lags,), other than 0
    const unsigned char[:, ::1] allowed,    # IN    (n_total, n_labels), at least one label each
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    const Py_ssize_t[::1] chosen,           # IN    sequences to work on
    bint sequential,                        # whether a step sees those before it as they are in this round
    double damping,                         # share of the old distribution that is kept
    double tol,
    int max_rounds,
    double[:, ::1] r,                       # INOUT (n_total, n_labels)
    double[:, ::1] fresh,                   # WORK  (longest, n_labels)
    int[::1] n_rounds,                      # INOUT (n_sequences,), rounds are added
    double[::1] change,                     # OUT   (n_sequences,), largest undamped change in the last round
):
    """Relax until no probability would change by more than ``tol``; O(n_total * n_lags * n_labels**2) a round."""
    cdef Py_ssize_t n_labels = base.shape[1], c, s, t, j, start, stop
    cdef int round
    cdef double value, gap
    with nogil:
        for c in range(chosen.shape[0]):
            s = chosen[c]
            start, stop = offsets[s], offsets[s + 1]
            for round in range(max_rounds):
                gap = 0.0
                if not sequential:
                    for t in range(start, stop):
                        refresh(base, coupling, lags, allowed, r, t, start, stop, &fresh[t - start, 0])
                for t in range(start, stop):
                    if sequential:
                        refresh(base, coupling, lags, allowed, r, t, start, stop, &fresh[t - start, 0])
                    for j in range(n_labels):
                        value = fresh[t - start, j]
                        # measured without the damping, which makes any change small
                        if fabs(value - r[t, j]) > gap:
                            gap = fabs(value - r[t, j])
                        r[t, j] = damping * r[t, j] + (1.0 - damping) * value
                n_rounds[s] += 1
                change[s] = gap
                if gap <= tol:
                    break
