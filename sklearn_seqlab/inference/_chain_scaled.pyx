# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sum-product over chains in scaled probabilities, with a certificate.

Messages are kept at a largest entry of one, so whatever underflowed was below 1e-307 of the rest. It may matter
all the same: a label that is hopeless now can be the only one that fits later. The certificate is an interval. The
forward pass rounds what underflows down, so that its sum is a lower bound; the backward pass rounds up to ``TINY``
what is not forbidden, so that its sum is an upper bound. A sequence in which they differ, or in which forward and
backward messages hardly overlap, is handed back uncertified, for the log domain.
"""
from libc.math cimport fabs, log, INFINITY

from sklearn_seqlab.inference._vector cimport (
    add, dot, exp_of, matvec, max_of, multiply, scale, settle, share, vecmat,
)

cdef double TRUSTED = 1e-100
cdef double TINY = 1e-300
cdef double DEVIATION = 1e-9


def forward_backward(
    const double[:, ::1] unary,             # IN    (n_total, n_labels), nats
    const double[:, :, ::1] factors,        # IN    (1 or n_total, n_labels, n_labels), largest entry 1
    const double[:, ::1] factors_transposed,  # IN  (n_labels, n_labels), or (0, 0) if factors vary
    const double[::1] log_factors,          # IN    (1 or n_total,), what was divided out of each factor
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), no empty sequence
    const double[::1] weight,               # IN    (n_sequences,), multiplies the marginals
    double[:, ::1] rows,                    # WORK  (2, n_labels)
    double[:, ::1] node,                    # OUT   (n_total, n_labels), weighted marginals
    double[:, ::1] left,                    # OUT   (n_total, n_labels), see below
    double[:, ::1] right,                   # OUT   (n_total, n_labels), see below
    double[::1] log_z,                      # OUT   (n_sequences,), nats
    unsigned char[::1] certified,           # OUT   (n_sequences,), 0: wrong, redo in the log domain
):
    """Log-partition and weighted marginals; O(n_total * n_labels**2), one exp per score.

    The marginal of the move into step t is ``left[t - 1, :, None] * factors[t] * right[t]``; ``right`` is
    zero on the first step of a sequence, and both are zero throughout one that is not certified.
    """
    cdef Py_ssize_t n_labels = unary.shape[1], s, k
    with nogil:
        for s in range(offsets.shape[0] - 1):
            certified[s] = one_sequence(
                unary, factors, factors_transposed, log_factors, offsets[s], offsets[s + 1], weight[s],
                &rows[0, 0], &rows[1, 0], node, left, right, &log_z[s],
            )
            if not certified[s]:
                for k in range(offsets[s] * n_labels, offsets[s + 1] * n_labels):
                    (&node[0, 0])[k] = 0.0
                    (&left[0, 0])[k] = 0.0
                    (&right[0, 0])[k] = 0.0


cdef bint one_sequence(
    const double[:, ::1] unary, const double[:, :, ::1] factors, const double[:, ::1] factors_transposed,
    const double[::1] log_factors, Py_ssize_t start, Py_ssize_t stop, double weight,
    double *beta, double *pulled, double[:, ::1] node, double[:, ::1] left, double[:, ::1] right,
    double *log_z,
) noexcept nogil:
    """Fill the rows of one sequence; False where the certificate fails."""
    cdef Py_ssize_t n_labels = unary.shape[1], t, k
    cdef bint varying = factors.shape[0] > 1
    cdef double *local
    cdef double *alpha
    cdef double *move
    cdef double shift, size
    cdef double mass = 0.0
    cdef double lost = 0.0
    cdef double upper = 0.0      # log of what was divided out of the backward messages
    cdef double upper_lost = 0.0
    cdef double running = 1.0    # product of the scales; its log is taken only when it leaves the middle range
    log_z[0] = 0.0
    for t in range(start, stop):
        local = &node[t, 0]      # exp of the scores waits here for the backward pass
        alpha = &left[t, 0]
        shift = exponentiate(&unary[t, 0], local, n_labels)
        if shift == -INFINITY:
            return False
        if t == start:
            add(log_z, &lost, shift)
            for k in range(n_labels):
                alpha[k] = local[k]
            right[t, 0] = 1.0
            continue
        add(log_z, &lost, shift + log_factors[t if varying else 0])
        vecmat(alpha, &left[t - 1, 0], &factors[t if varying else 0, 0, 0], n_labels)
        size = settle(alpha, local, n_labels)
        if not size >= TRUSTED:
            return False
        right[t, 0] = size       # waits here for the backward pass too
        running *= size
        if not 1e-100 < running < 1e100:
            add(log_z, &lost, log(running))
            running = 1.0
    log_z[0] += log(running) + log(total(&left[stop - 1, 0], n_labels))
    for k in range(n_labels):
        beta[k] = 1.0
    running = 1.0
    for t in range(stop - 1, start - 1, -1):
        local = &node[t, 0]
        shift = max_of(&unary[t, 0], n_labels)
        alpha = &left[t, 0]
        move = &right[t, 0]
        size = move[0]
        mass = dot(alpha, beta, n_labels)
        if not (mass >= TRUSTED and mass * size >= TRUSTED):
            return False
        add(&upper, &upper_lost, shift if t == start else shift + log_factors[t if varying else 0])
        if multiply(pulled, local, beta, n_labels) < TINY:
            for k in range(n_labels):
                if pulled[k] < TINY and unary[t, k] > -INFINITY and beta[k] > 0.0:
                    pulled[k] = TINY
        share(move, weight / (mass * size), pulled, local, weight / mass, alpha, beta, n_labels)
        if t == start:
            mass = total(pulled, n_labels)
            break
        if varying:
            matvec(beta, &factors[t, 0, 0], pulled, n_labels)
        else:
            vecmat(beta, pulled, &factors_transposed[0, 0], n_labels)
        size = max_of(beta, n_labels)
        if not size >= TRUSTED:
            return False
        if scale(beta, 1.0 / size, n_labels) < TINY:
            for k in range(n_labels):
                if beta[k] < TINY and can_move(&factors[t if varying else 0, k, 0], n_labels):
                    beta[k] = TINY
        running *= size
        if not 1e-100 < running < 1e100:
            add(&upper, &upper_lost, log(running))
            running = 1.0
    upper += log(running) + log(mass)
    if not -DEVIATION * max(1.0, fabs(upper)) <= upper - log_z[0] <= DEVIATION * max(1.0, fabs(upper)):
        return False
    for k in range(n_labels):
        right[start, k] = 0.0
    return True


cdef inline bint can_move(const double *factors, Py_ssize_t n) noexcept nogil:
    """Whether some move is allowed; one to where nothing can follow counts, which errs on the safe side."""
    cdef Py_ssize_t k
    for k in range(n):
        if factors[k] > 0.0:
            return True
    return False


cdef inline double exponentiate(const double *scores, double *out, Py_ssize_t n) noexcept nogil:
    """``out = exp(scores - max)``; returns the maximum, minus infinity if no score is finite."""
    cdef Py_ssize_t k
    cdef double top = max_of(scores, n)
    if top == -INFINITY:
        for k in range(n):
            out[k] = 0.0
        return top
    exp_of(out, scores, top, n)
    return top


cdef inline double total(const double *row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    cdef double out = 0.0
    for k in range(n):
        out += row[k]
    return out
