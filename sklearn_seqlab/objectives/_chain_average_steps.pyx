# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Steps along the average of the last known gradients of all sequences; see ``_sequence_steps.pxd``.

Of each sequence the residuals of its steps and moves are remembered, not their products with the features.
"""
from libc.math cimport INFINITY, fabs, isfinite

from sklearn_seqlab.inference._vector cimport axpy
from sklearn_seqlab.objectives._sequence_steps cimport (
    Weights, add_row, expect, gather, index_t, lift_moves, pick, score_of_labels, score_sequence, set_priority,
    squared_sum, value_t,
)

cdef double SHRINK = 0.8                    # of an estimate of curvature that held at once
cdef int LONGEST_WAIT = 8                   # visits of a sequence from one test of its estimate to the next
cdef int N_TRIALS = 60
cdef double ROUNDING = 1e-13


def sweep(
    const double[::1] draws,                # IN    numbers from [0, 1), each of which picks a sequence
    double share,                           # IN    of the picks that go by the curvatures
    bint is_still,                          # IN    no draws and no steps: fill the memory, in order
    double eta,                             # IN    steps in units of what the curvatures suggest
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    const double[::1] weight,               # IN    (n_sequences,)
    const value_t[::1] data,                # IN    CSR values; (0,) if all of them are 1; all values of dense rows
    const index_t[::1] indices,             # IN    (n_stored,), or (0,) of dense rows
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const Py_ssize_t[::1] codes,            # IN    (n_total,)
    const double[:, ::1] cost,              # IN    (n_total, n_labels) added for all labellings alone, or (0, .)
    const int[::1] pair_start,              # IN    (n_features + 1,), or (0,) where every pair has a weight
    const int[::1] pair_label,              # IN    (n_pairs,), or (0,)
    const double[::1] unit,                 # IN    (n_features,)
    double move_unit,                       # IN    the same for moves, starts and ends
    double intercept_unit,                  # IN
    double rate,                            # IN    of the penalty
    double[::1] length,                     # INOUT (1,) of all steps so far
    double[::1] seen,                       # INOUT (n_features,)
    double[::1] node,                       # INOUT weights of features
    double[:, ::1] transition,              # INOUT (n_labels, n_labels), minus infinity where forbidden
    double[::1] start,                      # INOUT (n_labels,), or (0,)
    double[::1] end,                        # INOUT (n_labels,), or (0,)
    double[::1] intercept,                  # INOUT (n_labels,), or (0,)
    double[::1] node_sum,                   # INOUT like the weights: summed gradients
    double[:, ::1] move_sum,                # INOUT (n_labels, n_labels)
    double[:, ::1] row_sums,                # INOUT (3, n_labels) of first, last and all steps
    double[:, ::1] node_memory,             # INOUT (n_total, n_labels) residuals times weights
    double[:, :, ::1] move_memory,          # INOUT (n_sequences, n_labels, n_labels)
    double[::1] losses,                     # INOUT (n_sequences,) times weights, as last seen
    double[::1] tree,                       # INOUT (2 * n_leaves,) sums of curvatures
    int[:, ::1] wait,                       # INOUT (n_sequences, 2) visits until the next test, and between tests
    double[:, ::1] unary,                   # WORK  (longest, n_labels)
    double[:, ::1] residual,                # WORK  (longest, n_labels)
    double[:, ::1] way,                     # WORK  (longest, n_labels)
    double[:, ::1] trial,                   # WORK  (longest, n_labels)
    double[:, ::1] marginal,                # WORK  (longest, n_labels)
    double[:, ::1] left,                    # WORK  (longest, n_labels)
    double[:, ::1] right,                   # WORK  (longest, n_labels)
    double[:, :, ::1] factors,              # WORK  (1, n_labels, n_labels)
    double[:, ::1] turned,                  # WORK  (n_labels, n_labels)
    double[:, :, ::1] moves,                # WORK  (1, n_labels, n_labels)
    double[:, :, ::1] edge,                 # WORK  (1, n_labels, n_labels)
    double[:, :, ::1] trial_edge,           # WORK  (1, n_labels, n_labels)
    double[:, ::1] trial_transition,        # WORK  (n_labels, n_labels)
    double[::1] log_factors,                # WORK  (1,)
    double[::1] rows,                       # WORK  (3 * n_labels,)
    Py_ssize_t[::1] place,                  # WORK  (n_features,), -1
    Py_ssize_t[::1] touched,                # WORK  most features of a sequence
    double[:, ::1] sums,                    # WORK  (most features of a sequence, n_labels)
):
    """A step per draw; False where a loss is not finite. O(stored values * labels or pairs + n_steps * n_labels**2)."""
    cdef Weights w
    cdef Py_ssize_t n_labels = unary.shape[1], n_sequences = offsets.shape[0] - 1, n_leaves = tree.shape[0] // 2
    cdef Py_ssize_t number, s, t, r0, n, k, i, j, p, entry
    cdef bint dense = indices.shape[0] == 0, is_tested
    cdef double loss = 0.0, x, step, kept, change, steepest = 0.0, curvature = 1.0
    w.n_labels = n_labels
    w.node = &node[0] if node.shape[0] else NULL
    w.average = &node_sum[0] if node.shape[0] else NULL
    w.pair_start = &pair_start[0] if pair_start.shape[0] else NULL
    w.pair_label = &pair_label[0] if pair_label.shape[0] else NULL
    w.unit, w.seen = &unit[0], &seen[0]
    w.length, w.rate, w.share = length[0], rate, 1.0 / n_sequences
    with nogil:
        for s in range(n_sequences):
            steepest = max(steepest, tree[n_leaves + s])
        for number in range(n_sequences if is_still else draws.shape[0]):
            s = number if is_still else pick(&tree[0], n_leaves, n_sequences, share, draws[number])
            r0, n = offsets[s], offsets[s + 1] - offsets[s]
            score_sequence(&w, data, indices, indptr, r0, n, start, end, intercept, unary)
            loss = -score_of_labels(unary, transition, codes, r0, n)
            for t in range(n if cost.shape[0] else 0):
                for k in range(n_labels):
                    unary[t, k] += cost[r0 + t, k]
            lift_moves(transition, factors, turned, log_factors)
            for i in range(n_labels):
                for j in range(n_labels):
                    edge[0, i, j] = 0.0
            loss += expect(
                unary, transition, factors, turned, log_factors, n, 1.0, residual, left, right, moves, edge, &rows[0],
            )
            if not isfinite(loss):
                break
            losses[s] = weight[s] * loss
            for t in range(n):
                residual[t, codes[r0 + t]] -= 1.0
                if t:
                    edge[0, codes[r0 + t - 1], codes[r0 + t]] -= 1.0
            # the gradient takes the place of the last known one
            for t in range(n):
                for k in range(n_labels):
                    residual[t, k] *= weight[s]
                    way[t, k] = residual[t, k] - node_memory[r0 + t, k]
                    node_memory[r0 + t, k] = residual[t, k]
                    row_sums[2, k] += way[t, k]
                for entry in range(indptr[r0 + t], indptr[r0 + t + 1]):
                    p = entry - indptr[r0 + t] if dense else indices[entry]
                    x = data[entry] if data.shape[0] else 1.0
                    add_row(&w, w.average, p, x, &way[t, 0])
            for k in range(n_labels):
                row_sums[0, k] += way[0, k]
                row_sums[1, k] += way[n - 1, k]
                for j in range(n_labels):
                    edge[0, k, j] *= weight[s]
                    move_sum[k, j] += edge[0, k, j] - move_memory[s, k, j]
                    move_memory[s, k, j] = edge[0, k, j]
            # how steep the loss of the sequence is, on the way down its gradient
            is_tested = wait[s, 0] <= 0
            wait[s, 0] -= 1
            if is_tested:
                curvature = tree[n_leaves + s] if tree[n_leaves + s] > 0.0 else curvature
                change = curvature_of(
                    &w, data, indices, indptr, codes, r0, n, weight[s], loss, start.shape[0] > 0,
                    intercept.shape[0] > 0, move_unit, intercept_unit, curvature, is_still, unary, transition,
                    residual, edge, way, trial, marginal, left, right, factors, turned, moves, trial_edge,
                    trial_transition, log_factors, &rows[0], &place[0], &touched[0], &sums[0, 0],
                )
                wait[s, 1] = min(2 * wait[s, 1], LONGEST_WAIT) if change <= curvature else 1
                wait[s, 0] = wait[s, 1]
                curvature = change
                steepest = max(steepest, curvature)
                set_priority(&tree[0], n_leaves, s, curvature)
            if is_still:
                continue
            # the step
            step = eta * (0.5 / steepest + 0.5 * n_sequences / tree[1])
            w.length += step
            kept = 1.0 / (1.0 + rate * move_unit * step)
            x = step * move_unit * w.share
            for i in range(n_labels):
                for j in range(n_labels):
                    transition[i, j] = (transition[i, j] - x * move_sum[i, j]) * kept
            for k in range(start.shape[0]):
                start[k] = (start[k] - x * row_sums[0, k]) * kept
                end[k] = (end[k] - x * row_sums[1, k]) * kept
            for k in range(intercept.shape[0]):
                intercept[k] -= step * intercept_unit * w.share * row_sums[2, k]
    length[0] = w.length
    return bool(isfinite(loss))


cdef inline double curvature_of(
    Weights *w, const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr,
    const Py_ssize_t[::1] codes, Py_ssize_t r0, Py_ssize_t n, double weight, double loss, bint has_ends,
    bint has_intercept, double move_unit, double intercept_unit, double guess, bint is_first,
    double[:, ::1] unary, double[:, ::1] transition, double[:, ::1] residual,
    double[:, :, ::1] edge, double[:, ::1] way, double[:, ::1] trial, double[:, ::1] marginal, double[:, ::1] left,
    double[:, ::1] right, double[:, :, ::1] factors, double[:, ::1] turned, double[:, :, ::1] moves,
    double[:, :, ::1] trial_edge, double[:, ::1] trial_transition, double[::1] log_factors, double *rows,
    Py_ssize_t *place, Py_ssize_t *touched, double *sums,
) noexcept nogil:
    """``guess`` times a power of two, such that a step of the inverse length lowers the loss as it should.

    That is by half the squared gradient times the length or more, in scaled variables. A guess that is right at once
    is shrunk a little, or, the first time, halved while it is right.
    """
    cdef Py_ssize_t n_labels = w.n_labels, n_touched, t, k, i, j, m, p, entry
    cdef bint dense = indices.shape[0] == 0, rose = False, fell = False
    cdef double squares = 0.0, x, moved, size
    cdef int count
    n_touched = gather(w, data, indices, indptr, r0, n, residual, place, touched, sums)
    for m in range(n_touched):
        squares += w.unit[touched[m]] * squared_sum(w, touched[m], sums + m * n_labels)
        place[touched[m]] = m
    for i in range(n_labels):
        for j in range(n_labels):
            squares += move_unit * edge[0, i, j] * edge[0, i, j]
    for k in range(n_labels if has_ends else 0):
        squares += move_unit * (residual[0, k] * residual[0, k] + residual[n - 1, k] * residual[n - 1, k])
    for k in range(n_labels):
        rows[k] = 0.0
    for t in range(n if has_intercept else 0):
        axpy(rows, intercept_unit, &residual[t, 0], n_labels)
    for k in range(n_labels):
        squares += rows[k] * rows[k] / intercept_unit
    if squares == 0.0:
        for m in range(n_touched):
            place[touched[m]] = -1
        return guess
    # what a step of length one takes from the scores
    for t in range(n):
        for k in range(n_labels):
            way[t, k] = rows[k]
        for entry in range(indptr[r0 + t], indptr[r0 + t + 1]):
            p = entry - indptr[r0 + t] if dense else indices[entry]
            x = (data[entry] if data.shape[0] else 1.0) * w.unit[p]
            if w.pair_start == NULL:
                axpy(&way[t, 0], x, sums + place[p] * n_labels, n_labels)
            else:
                for k in range(w.pair_start[p], w.pair_start[p + 1]):
                    i = w.pair_label[k]
                    way[t, i] += x * sums[place[p] * n_labels + i]
    for m in range(n_touched):
        place[touched[m]] = -1
    for k in range(n_labels if has_ends else 0):
        way[0, k] += move_unit * residual[0, k]
        way[n - 1, k] += move_unit * residual[n - 1, k]
    for count in range(N_TRIALS):
        for t in range(n):
            for k in range(n_labels):
                trial[t, k] = unary[t, k] - way[t, k] / guess
        for i in range(n_labels):
            for j in range(n_labels):
                trial_edge[0, i, j] = 0.0
                trial_transition[i, j] = transition[i, j] - move_unit * edge[0, i, j] / guess
        lift_moves(trial_transition, factors, turned, log_factors)
        moved = -score_of_labels(trial, trial_transition, codes, r0, n)
        size = fabs(moved)       # losses are differences of such sums, which leave their rounding
        moved += expect(
            trial, trial_transition, factors, turned, log_factors, n, 1.0, marginal, left, right, moves, trial_edge,
            rows,
        )
        if weight * (moved - loss) <= -0.5 * squares / guess + ROUNDING * weight * (fabs(moved) + 2.0 * size):
            if not is_first or rose:
                return guess if rose else SHRINK * guess
            guess *= 0.5
            fell = True
        elif fell:
            return 2.0 * guess
        else:
            guess *= 2.0
            rose = True
    return guess
