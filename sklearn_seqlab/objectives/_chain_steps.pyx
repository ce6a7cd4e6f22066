# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Stochastic gradient steps on the likelihood of chains, a sequence at a time.

The penalty pulls at every weight with every step, but a step touches only the features of its sequence. Weights of
a feature are caught up when it is next read: after steps of lengths that add up to ``d``, the penalty has divided
them by ``1 + rate * unit * d`` (the proximal step of that length).
"""
from libc.math cimport INFINITY, isfinite

from sklearn_seqlab.inference cimport _chain_log, _chain_scaled
from sklearn_seqlab.inference._vector cimport axpy, exp_of, max_of

ctypedef fused index_t:
    int
    long long

cdef double TINY = 1e-300


cdef struct Weights:
    Py_ssize_t n_labels
    double *node                    # all labels of a feature, or its pairs, next to each other
    const int *pair_start           # (n_features + 1,), or NULL where every pair has a weight
    const int *pair_label
    const double *unit              # (n_features,) inverse square of the typical size of a feature
    double *seen                    # (n_features,) length of all steps when the penalty was last worked in
    double length                   # of all steps so far
    double rate                     # of the penalty, per unit of length


cdef inline void catch_up(const Weights *w, Py_ssize_t p) noexcept nogil:
    cdef double kept
    cdef Py_ssize_t k, first, last
    if w.seen[p] == w.length:
        return
    kept = 1.0 / (1.0 + w.rate * w.unit[p] * (w.length - w.seen[p]))
    w.seen[p] = w.length
    first = p * w.n_labels if w.pair_start == NULL else w.pair_start[p]
    last = first + w.n_labels if w.pair_start == NULL else w.pair_start[p + 1]
    for k in range(first, last):
        w.node[k] *= kept


cdef inline void read_feature(const Weights *w, Py_ssize_t p, double x, double *scores) noexcept nogil:
    cdef Py_ssize_t k
    catch_up(w, p)
    if w.pair_start == NULL:
        axpy(scores, x, w.node + p * w.n_labels, w.n_labels)
    else:
        for k in range(w.pair_start[p], w.pair_start[p + 1]):
            scores[w.pair_label[k]] += x * w.node[k]


cdef inline void move_feature(const Weights *w, Py_ssize_t p, double step, const double *residual) noexcept nogil:
    cdef Py_ssize_t k
    if w.pair_start == NULL:
        axpy(w.node + p * w.n_labels, step, residual, w.n_labels)
    else:
        for k in range(w.pair_start[p], w.pair_start[p + 1]):
            w.node[k] += step * residual[w.pair_label[k]]


def sweep(
    const Py_ssize_t[::1] order,            # IN    numbers of the sequences, in this order
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    const double[::1] weight,               # IN    (n_sequences,)
    const double[::1] data,                 # IN    CSR values; (0,) if all of them are 1; all values of dense rows
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
    with nogil:
        for number in range(order.shape[0]):
            s = order[number]
            r0, n = offsets[s], offsets[s + 1] - offsets[s]
            # scores
            for t in range(n):
                for k in range(n_labels):
                    unary[t, k] = intercept[k] if intercept.shape[0] else 0.0
                for entry in range(indptr[r0 + t], indptr[r0 + t + 1]):
                    x = 1.0 if binary else data[entry]
                    read_feature(&w, entry - indptr[r0 + t] if dense else indices[entry], x, &unary[t, 0])
            if start.shape[0]:
                for k in range(n_labels):
                    unary[0, k] += start[k]
                    unary[n - 1, k] += end[k]
            lift_moves(transition, factors, turned, log_factors)
            # expectations of all labellings, less those of the ones that fit
            known = fits.shape[0] == 0
            if not known:
                known = True
                for t in range(n):
                    known = known and codes[r0 + t] >= 0
            loss = 0.0
            if known:
                for t in range(n):
                    loss -= unary[t, codes[r0 + t]]
                    if t:
                        loss -= transition[codes[r0 + t - 1], codes[r0 + t]]
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
                    move_feature(&w, i, -step * weight[s] * x * unit[i], &residual[t, 0])
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


cdef inline void lift_moves(
    const double[:, ::1] transition, double[:, :, ::1] factors, double[:, ::1] turned, double[::1] log_factors,
) noexcept nogil:
    cdef Py_ssize_t n = transition.shape[0], i, j
    cdef double top = max_of(&transition[0, 0], n * n)
    log_factors[0] = top
    exp_of(&factors[0, 0, 0], &transition[0, 0], top, n * n)
    for i in range(n):
        for j in range(n):
            if factors[0, i, j] < TINY:
                factors[0, i, j] = 0.0 if transition[i, j] == -INFINITY else TINY
            turned[j, i] = factors[0, i, j]


cdef inline double expect(
    const double[:, ::1] unary, double[:, ::1] transition, double[:, :, ::1] factors, double[:, ::1] turned,
    double[::1] log_factors, Py_ssize_t n_steps, double sign, double[:, ::1] node, double[:, ::1] left,
    double[:, ::1] right, double[:, :, ::1] moves, double[:, :, ::1] edge, double *rows,
) noexcept nogil:
    """Log-partition of one sequence; its marginals times ``sign`` into ``node``, and added to ``edge``."""
    cdef Py_ssize_t n = unary.shape[1], t, i, j
    cdef double log_z
    for i in range(n):
        for j in range(n):
            moves[0, i, j] = 0.0
    if _chain_scaled.one_sequence(
        unary, factors, turned, log_factors, 0, n_steps, sign, rows, rows + n, node, left, right, &log_z,
    ):
        for t in range(1, n_steps):
            for i in range(n):
                axpy(&moves[0, i, 0], left[t - 1, i], &right[t, 0], n)
        for i in range(n):
            for j in range(n):
                edge[0, i, j] += moves[0, i, j] * factors[0, i, j]
        return log_z
    for i in range(n):
        for j in range(n):
            moves[0, i, j] = transition[i, j]
    return _chain_log.one_sequence(unary, moves, 0, n_steps, sign, rows, node, edge)
