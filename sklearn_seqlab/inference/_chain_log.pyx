# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sum-product over chains in the log domain: slow, and right for any scores.

Messages are shifted to a largest entry of zero at every step, so that the rounding error of a marginal
depends on the scores around it and not on the length of the sequence.
"""
from libc.math cimport exp, INFINITY

from sklearn_seqlab.inference._vector cimport add, log_sum_exp, max_of


def forward(
    const double[:, ::1] unary,             # IN    (n_total, n_labels), nats
    const double[:, :, ::1] transition,     # IN    (1 or n_total, n_labels, n_labels), from row to column
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), no empty sequence
    const Py_ssize_t[::1] sequences,        # IN    which sequences to work on
    double[::1] row,                        # WORK  (n_labels,)
    double[:, ::1] log_alpha,               # OUT   (n_total, n_labels), largest entry of a row 0
    double[::1] log_z,                      # OUT   (n_sequences,), -inf where infeasible
):
    """Forward messages and log-partition; O(n_steps * n_labels**2) exponentials."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(sequences.shape[0]):
            log_z[sequences[k]] = forward_one(
                unary, transition, offsets[sequences[k]], offsets[sequences[k] + 1], &row[0], log_alpha
            )


def forward_backward(
    const double[:, ::1] unary,             # IN    (n_total, n_labels), nats
    const double[:, :, ::1] transition,     # IN    (1 or n_total, n_labels, n_labels), from row to column
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), no empty sequence
    const Py_ssize_t[::1] sequences,        # IN    which sequences to work on
    const double[::1] weight,               # IN    (n_sequences,), multiplies the marginals
    double[:, ::1] rows,                    # WORK  (3, n_labels)
    double[:, ::1] node,                    # OUT   (n_total, n_labels), weighted marginals, 0 if infeasible
    double[:, :, ::1] edge,                 # INOUT (1 or n_total, n_labels, n_labels), marginals added here
    double[::1] log_z,                      # OUT   (n_sequences,), -inf where infeasible
):
    """Log-partition and weighted marginals; O(n_steps * n_labels**2) exponentials."""
    cdef Py_ssize_t k, s
    with nogil:
        for k in range(sequences.shape[0]):
            s = sequences[k]
            log_z[s] = one_sequence(unary, transition, offsets[s], offsets[s + 1], weight[s], &rows[0, 0], node, edge)


cdef double one_sequence(
    const double[:, ::1] unary, const double[:, :, ::1] transition, Py_ssize_t start, Py_ssize_t stop, double weight,
    double *rows, double[:, ::1] node, double[:, :, ::1] edge,
) noexcept nogil:
    """Fill the rows of one sequence, add to ``edge``; returns the log-partition."""
    cdef Py_ssize_t n_labels = unary.shape[1], t, i, j, at
    cdef double *beta = rows
    cdef double *pulled = rows + n_labels
    cdef double *row = rows + 2 * n_labels
    cdef double top, mass, log_z = forward_one(unary, transition, start, stop, row, node)
    if log_z == -INFINITY:
        for t in range(start, stop):
            for j in range(n_labels):
                node[t, j] = 0.0
        return log_z
    for j in range(n_labels):
        beta[j] = 0.0
    for t in range(stop - 1, start - 1, -1):
        for j in range(n_labels):
            pulled[j] = unary[t, j] + beta[j]
            row[j] = node[t, j] + beta[j]
        # divided by sums, not by exp of a log: that of a large score has lost the small digits
        top, mass = max_of(row, n_labels), 0.0
        for j in range(n_labels):
            node[t, j] = exp(row[j] - top)
            mass += node[t, j]
        for j in range(n_labels):
            node[t, j] *= weight / mass
        if t == start:
            break
        at = t if transition.shape[0] > 1 else 0
        top, mass = -INFINITY, 0.0
        for i in range(n_labels):
            for j in range(n_labels):
                row[j] = transition[at, i, j] + pulled[j]
            beta[i] = log_sum_exp(row, n_labels)
            top = max(top, node[t - 1, i] + max_of(row, n_labels))
        for i in range(n_labels):
            for j in range(n_labels):
                mass += exp(((node[t - 1, i] - top) + transition[at, i, j]) + pulled[j])
        for i in range(n_labels):
            if node[t - 1, i] == -INFINITY:
                continue
            for j in range(n_labels):
                edge[at, i, j] += weight / mass * exp(
                    ((node[t - 1, i] - top) + transition[at, i, j]) + pulled[j]
                )
        top = max_of(beta, n_labels)
        for i in range(n_labels):
            beta[i] -= top
    return log_z


cdef double forward_one(
    const double[:, ::1] unary, const double[:, :, ::1] transition, Py_ssize_t start, Py_ssize_t stop,
    double *row, double[:, ::1] log_alpha,
) noexcept nogil:
    """Forward messages of rows ``start:stop``; returns the log-partition."""
    cdef Py_ssize_t n_labels = unary.shape[1], t, i, j, at
    cdef double log_z = 0.0, lost = 0.0, top
    for t in range(start, stop):
        at = t if transition.shape[0] > 1 else 0
        for j in range(n_labels):
            if t == start:
                log_alpha[t, j] = unary[t, j]
                continue
            for i in range(n_labels):
                row[i] = log_alpha[t - 1, i] + transition[at, i, j]
            log_alpha[t, j] = unary[t, j] + log_sum_exp(row, n_labels)
        top = max_of(&log_alpha[t, 0], n_labels)
        if top == -INFINITY:
            return top
        for j in range(n_labels):
            log_alpha[t, j] -= top
        add(&log_z, &lost, top)
    return log_z + log_sum_exp(&log_alpha[stop - 1, 0], n_labels)
