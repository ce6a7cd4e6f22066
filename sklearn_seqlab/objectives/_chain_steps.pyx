# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Stochastic gradient steps on the likelihood of chains, a sequence at a time; see ``_sequence_steps.pxd``."""
from libc.math cimport INFINITY, isfinite

from sklearn_seqlab.inference._vector cimport axpy
from sklearn_seqlab.objectives._sequence_steps cimport (
    Weights, add_row, expect, index_t, lift_moves, score_of_labels, score_sequence, value_t,
)


def sweep(
    const Py_ssize_t[::1] order,            # IN    numbers of the sequences, in this order
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    const double[::1] weight,               # IN    (n_sequences,)
    const value_t[::1] data,                # IN    CSR values; (0,) if all of them are 1; all values of dense rows
    const index_t[::1] indices,             # IN    (n_stored,), or (0,) of dense rows
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const Py_ssize_t[::1] codes,            # IN    (n_total,), negative where the label is not known
    const unsigned char[:, ::1] fits,       # IN    (n_total, n_labels) labels that may be, or (0, .) if all are known
    const double[:, ::1] cost,              # IN    (n_total, n_labels) added for all labellings alone, or (0, .)
    const int[::1] pair_start,              # IN    (n_features + 1,), or (0,) where every pair has a weight
    const int[::1] pair_label,              # IN    (n_pairs,), or (0,)
    const double[::1] unit,                 # IN    (n_features,)
    double move_unit,                       # IN    the same for moves, starts and ends
    double intercept_unit,                  # IN
    double rate,                            # IN    of the penalty
    double eta,                             # IN    length of the first step
    double decay,                           # IN    step k has the length eta / (1 + decay * k) ** power
    double power,                           # IN
    Py_ssize_t n_before,                    # IN    steps of earlier calls
    double[::1] length,                     # INOUT (1,) of all steps so far
    double[::1] seen,                       # INOUT (n_features,)
    double[::1] node,                       # INOUT weights of features
    double[:, ::1] transition,              # INOUT (n_labels, n_labels), minus infinity where forbidden
    double[::1] start,                      # INOUT (n_labels,), or (0,)
    double[::1] end,                        # INOUT (n_labels,), or (0,)
    double[::1] intercept,                  # INOUT (n_labels,), or (0,)
    double[:, ::1] unary,                   # WORK  (longest, n_labels)
    double[:, ::1] marginal,                # WORK  (longest, n_labels)
    double[:, ::1] residual,                # WORK  (longest, n_labels)
    double[:, ::1] left,                    # WORK  (longest, n_labels)
    double[:, ::1] right,                   # WORK  (longest, n_labels)
    double[:, :, ::1] factors,              # WORK  (1, n_labels, n_labels)
    double[:, ::1] turned,                  # WORK  (n_labels, n_labels)
    double[:, :, ::1] moves,                # WORK  (1, n_labels, n_labels)
    double[:, :, ::1] edge,                 # WORK  (1, n_labels, n_labels)
    double[::1] log_factors,                # WORK  (1,)
    double[::1] rows,                       # WORK  (3 * n_labels,)
):
    """One step per sequence; the sum of their losses, each before its step, or NaN where one is not finite.

    O(stored values * labels or pairs of a feature + n_steps * n_labels**2).
    """
    cdef Weights w
    cdef Py_ssize_t n_labels = unary.shape[1], number, s, t, r0, n, k, i, j, entry
    cdef bint dense = indices.shape[0] == 0, binary = data.shape[0] == 0, known
    cdef double total = 0.0, loss = 0.0, step, x, kept
    w.n_labels = n_labels
    w.node = &node[0] if node.shape[0] else NULL
    w.pair_start = &pair_start[0] if pair_start.shape[0] else NULL
    w.pair_label = &pair_label[0] if pair_label.shape[0] else NULL
    w.unit, w.seen = &unit[0], &seen[0]
    w.length, w.rate = length[0], rate
    w.average, w.share = NULL, 0.0
    with nogil:
        for number in range(order.shape[0]):
            s = order[number]
            r0, n = offsets[s], offsets[s + 1] - offsets[s]
            score_sequence(&w, data, indices, indptr, r0, n, start, end, intercept, unary)
            lift_moves(transition, factors, turned, log_factors)
            # expectations of all labellings, less those of the ones that fit
            known = fits.shape[0] == 0
            if not known:
                known = True
                for t in range(n):
                    known = known and codes[r0 + t] >= 0
            loss = 0.0
            if known:
                loss -= score_of_labels(unary, transition, codes, r0, n)
            if cost.shape[0]:
                for t in range(n):
                    for k in range(n_labels):
                        unary[t, k] += cost[r0 + t, k]
            for i in range(n_labels):
                for j in range(n_labels):
                    edge[0, i, j] = 0.0
            loss += expect(
                unary, transition, factors, turned, log_factors, n, 1.0, residual, left, right, moves, edge, &rows[0],
            )
            if known:
                for t in range(n):
                    residual[t, codes[r0 + t]] -= 1.0
                    if t:
                        edge[0, codes[r0 + t - 1], codes[r0 + t]] -= 1.0
            else:
                for t in range(n):
                    for k in range(n_labels):
                        if not fits[r0 + t, k]:
                            unary[t, k] = -INFINITY
                        elif cost.shape[0]:
                            unary[t, k] -= cost[r0 + t, k]
                loss -= expect(
                    unary, transition, factors, turned, log_factors, n, -1.0, marginal, left, right, moves, edge,
                    &rows[0],
                )
                for t in range(n):
                    for k in range(n_labels):
                        residual[t, k] += marginal[t, k]
            total += weight[s] * loss
            if not isfinite(loss):
                break
            # the step
            step = eta / (1.0 + decay * <double> (n_before + number)) ** power
            for t in range(n):
                for entry in range(indptr[r0 + t], indptr[r0 + t + 1]):
                    i = entry - indptr[r0 + t] if dense else indices[entry]
                    x = 1.0 if binary else data[entry]
                    add_row(&w, w.node, i, -step * weight[s] * x * unit[i], &residual[t, 0])
            w.length += step
            kept = 1.0 / (1.0 + rate * move_unit * step)
            for i in range(n_labels):
                for j in range(n_labels):
                    transition[i, j] = (transition[i, j] - step * move_unit * weight[s] * edge[0, i, j]) * kept
            for k in range(start.shape[0]):
                start[k] = (start[k] - step * move_unit * weight[s] * residual[0, k]) * kept
                end[k] = (end[k] - step * move_unit * weight[s] * residual[n - 1, k]) * kept
            for t in range(n if intercept.shape[0] else 0):
                axpy(&intercept[0], -step * intercept_unit * weight[s], &residual[t, 0], n_labels)
    length[0] = w.length
    return total if isfinite(loss) else INFINITY - INFINITY
