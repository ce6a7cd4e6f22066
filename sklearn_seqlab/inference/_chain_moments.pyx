# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Mean and variance, under a chain, of a quantity that is a sum over time steps and moves.

The moments of what lies behind a step, given the label of that step, follow from those of the step before: means are
mixed, and variances are mixed and gain the spread of the means. Nothing is subtracted, so small variances keep their
digits.
"""
from libc.math cimport exp, log, INFINITY

from sklearn_seqlab.inference._vector cimport add, max_of


def moments(
    const double[:, ::1] unary,             # IN    (n_total, n_labels), nats
    const double[:, :, ::1] transition,     # IN    (1 or n_total, n_labels, n_labels), from row to column
    const double[:, ::1] step_gain,         # IN    (n_total, n_labels), what a label adds to the quantity
    const double[:, :, ::1] move_gain,      # IN    (1 or n_total, n_labels, n_labels), what a move adds
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), no empty sequence
    double[:, ::1] rows,                    # WORK  (7, n_labels)
    double[::1] log_z,                      # OUT   (n_sequences,), nats; -inf where infeasible
    double[::1] mean,                       # OUT   (n_sequences,), 0 where infeasible
    double[::1] variance,                   # OUT   (n_sequences,), 0 where infeasible
):
    """Log-partition and the moments; O(n_total * n_labels**2) exponentials."""
    cdef Py_ssize_t n_labels = unary.shape[1], s, t, i, j, at, to
    cdef double *alpha = &rows[0, 0]        # forward message, largest entry 0
    cdef double *centre = &rows[1, 0]       # mean up to this step, given its label
    cdef double *spread = &rows[2, 0]       # variance likewise
    cdef double *share = &rows[3, 0]
    cdef double *next_alpha = &rows[4, 0]
    cdef double *next_centre = &rows[5, 0]
    cdef double *next_spread = &rows[6, 0]
    cdef double top, total, first, second, lost, gap
    with nogil:
        for s in range(offsets.shape[0] - 1):
            log_z[s] = 0.0
            lost = 0.0
            for j in range(n_labels):
                alpha[j] = unary[offsets[s], j]
                centre[j] = step_gain[offsets[s], j]
                spread[j] = 0.0
            for t in range(offsets[s] + 1, offsets[s + 1]):
                top = max_of(alpha, n_labels)
                if top == -INFINITY:
                    break
                add(&log_z[s], &lost, top)
                for j in range(n_labels):
                    alpha[j] -= top
                at = t if transition.shape[0] > 1 else 0
                to = t if move_gain.shape[0] > 1 else 0
                for j in range(n_labels):
                    next_alpha[j], next_centre[j], next_spread[j] = -INFINITY, 0.0, 0.0
                    if unary[t, j] == -INFINITY:
                        continue
                    for i in range(n_labels):
                        share[i] = alpha[i] + transition[at, i, j]
                    top = max_of(share, n_labels)
                    if top == -INFINITY:
                        continue
                    total, first = 0.0, 0.0
                    for i in range(n_labels):
                        share[i] = exp(share[i] - top)
                        total += share[i]
                        first += share[i] * (centre[i] + move_gain[to, i, j])
                    first /= total
                    second = 0.0
                    for i in range(n_labels):
                        gap = centre[i] + move_gain[to, i, j] - first
                        second += share[i] * (spread[i] + gap * gap)
                    next_alpha[j] = top + log(total) + unary[t, j]
                    next_centre[j] = first + step_gain[t, j]
                    next_spread[j] = second / total
                for j in range(n_labels):
                    alpha[j], centre[j], spread[j] = next_alpha[j], next_centre[j], next_spread[j]
            mean[s], variance[s] = 0.0, 0.0
            top = max_of(alpha, n_labels)
            if top == -INFINITY:
                log_z[s] = top
                continue
            total, first, second = 0.0, 0.0, 0.0
            for j in range(n_labels):
                share[j] = exp(alpha[j] - top)
                total += share[j]
                first += share[j] * centre[j]
            first /= total
            for j in range(n_labels):
                gap = centre[j] - first
                second += share[j] * (spread[j] + gap * gap)
            add(&log_z[s], &lost, top + log(total))
            mean[s], variance[s] = first, second / total
