# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Coordinate ascent on the dual of the likelihood of chains, a sequence at a time.

The dual variables of a sequence are the marginals of a distribution over its labellings. The weights are ``C`` times
the summed features of the known labels, less those that the distributions expect. See ``_sequence_steps.pxd``.
"""
from libc.math cimport INFINITY, fabs, isfinite, log

from sklearn_seqlab.objectives._sequence_steps cimport (
    Weights, add_row, expect, gather, index_t, lift_moves, pick, score_of_labels, score_sequence, set_priority,
    squared_sum, value_t,
)

cdef double TINY = 1e-300
cdef double NEAR = 0.02                     # a line search ends where the slope is this share of that at its start
cdef int N_TRIALS = 40


cdef struct Along:                          # entropy on the way from one distribution to another
    double entropy                          # nats
    double slope
    double curvature


def sweep(
    const Py_ssize_t[::1] order,            # IN    numbers of the sequences, in this order; then
    const double[::1] draws,                # IN    numbers from [0, 1), each of which picks a sequence
    double share,                           # IN    of the picks that go by the gaps
    bint is_still,                          # IN    whether there are no steps: gaps and losses alone
    double C,                               # IN
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    const double[::1] weight,               # IN    (n_sequences,)
    const value_t[::1] data,                # IN    CSR values; (0,) if all of them are 1; all values of dense rows
    const index_t[::1] indices,             # IN    (n_stored,), or (0,) of dense rows
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const Py_ssize_t[::1] codes,            # IN    (n_total,)
    const double[:, ::1] cost,              # IN    (n_total, n_labels) added for all labellings alone, or (0, .)
    const int[::1] pair_start,              # IN    (n_features + 1,), or (0,) where every pair has a weight
    const int[::1] pair_label,              # IN    (n_pairs,), or (0,)
    double[::1] node,                       # INOUT weights of features
    double[:, ::1] transition,              # INOUT (n_labels, n_labels), minus infinity where forbidden
    double[::1] start,                      # INOUT (n_labels,), or (0,)
    double[::1] end,                        # INOUT (n_labels,), or (0,)
    double[:, ::1] dual_node,               # INOUT (n_total, n_labels) marginals of labels
    double[:, :, ::1] dual_edge,            # INOUT (n_total, n_labels, n_labels) of the move into each step
    double[::1] entropy,                    # INOUT (n_sequences,) of these distributions, nats
    double[::1] tree,                       # INOUT (2 * n_leaves,) sums of gaps, nats times C and weight
    double[:, ::1] unary,                   # WORK  (longest, n_labels)
    double[:, ::1] marginal,                # WORK  (longest, n_labels)
    double[:, ::1] left,                    # WORK  (longest, n_labels)
    double[:, ::1] right,                   # WORK  (longest, n_labels)
    double[:, :, ::1] factors,              # WORK  (1, n_labels, n_labels)
    double[:, ::1] turned,                  # WORK  (n_labels, n_labels)
    double[:, :, ::1] moves,                # WORK  (max(longest, 2), n_labels, n_labels)
    double[:, :, ::1] edge,                 # WORK  (max(longest, 2), n_labels, n_labels)
    double[:, ::1] change,                  # WORK  (n_labels, n_labels)
    double[::1] log_factors,                # WORK  (1,)
    double[::1] rows,                       # WORK  (3 * n_labels,)
    Py_ssize_t[::1] place,                  # WORK  (n_features,), -1
    Py_ssize_t[::1] touched,                # WORK  most features of a sequence
    double[:, ::1] sums,                    # WORK  (most features of a sequence, n_labels)
):
    """A step on each of some sequences; the sum of their losses, each before its step, or NaN where one is not finite.

    O(stored values * labels or pairs of a feature + n_steps * n_labels**2), with a few logarithms per move.
    """
    cdef Weights w
    cdef Py_ssize_t n_labels = unary.shape[1], n_sequences = offsets.shape[0] - 1, n_leaves = tree.shape[0] // 2
    cdef Py_ssize_t number, s, t, r0, n, k, i, j, m, n_touched
    cdef double total = 0.0, log_z = 0.0, loss, scale, gap, held, rise, squares, gamma
    cdef const double[::1] nothing = start[:0]
    cdef Along at
    w.n_labels = n_labels
    w.node = &node[0] if node.shape[0] else NULL
    w.pair_start = &pair_start[0] if pair_start.shape[0] else NULL
    w.pair_label = &pair_label[0] if pair_label.shape[0] else NULL
    w.seen, w.average = NULL, NULL
    with nogil:
        for number in range(order.shape[0] + draws.shape[0]):
            if number < order.shape[0]:
                s = order[number]
            else:
                s = pick(&tree[0], n_leaves, n_sequences, share, draws[number - order.shape[0]])
            r0, n, scale = offsets[s], offsets[s + 1] - offsets[s], C * weight[s]
            score_sequence(&w, data, indices, indptr, r0, n, start, end, nothing, unary)
            loss = -score_of_labels(unary, transition, codes, r0, n)
            for t in range(n if cost.shape[0] else 0):
                for k in range(n_labels):
                    unary[t, k] += cost[r0 + t, k]
            lift_moves(transition, factors, turned, log_factors)
            for t in range(n):
                for i in range(n_labels):
                    for j in range(n_labels):
                        edge[t, i, j] = 0.0
            log_z = expect(
                unary, transition, factors, turned, log_factors, n, 1.0, marginal, left, right, moves, edge, &rows[0],
            )
            loss += log_z
            total += weight[s] * loss
            if not isfinite(loss):
                break
            # the score that the dual distribution expects, and how much more that of the weights does
            held = rise = 0.0
            for i in range(n_labels):
                for j in range(n_labels):
                    change[i, j] = 0.0
            for t in range(n):
                for k in range(n_labels):
                    held += dual_node[r0 + t, k] * unary[t, k]
                    marginal[t, k] -= dual_node[r0 + t, k]
                    rise += marginal[t, k] * unary[t, k]
            for t in range(1, n):
                for i in range(n_labels):
                    for j in range(n_labels):
                        change[i, j] += dual_edge[r0 + t, i, j]
            for i in range(n_labels):
                for j in range(n_labels):
                    if transition[i, j] > -INFINITY:
                        held += change[i, j] * transition[i, j]
                    change[i, j] = 0.0
            gap = max(log_z - held - entropy[s], 0.0)
            set_priority(&tree[0], n_leaves, s, scale * gap)
            if is_still or gap == 0.0:
                continue
            # from here on ``marginal`` and ``edge`` are directions
            for t in range(1, n):
                for i in range(n_labels):
                    for j in range(n_labels):
                        edge[t, i, j] -= dual_edge[r0 + t, i, j]
                        change[i, j] += edge[t, i, j]
            squares = 0.0
            for i in range(n_labels):
                for j in range(n_labels):
                    if transition[i, j] > -INFINITY:
                        rise += change[i, j] * transition[i, j]
                    squares += change[i, j] * change[i, j]
            for k in range(start.shape[0]):
                squares += marginal[0, k] * marginal[0, k] + marginal[n - 1, k] * marginal[n - 1, k]
            n_touched = gather(
                &w, data, indices, indptr, r0, n, marginal, &place[0], &touched[0], &sums[0, 0],
            )
            for m in range(n_touched):
                squares += squared_sum(&w, touched[m], &sums[m, 0])
            gamma = search(dual_node, dual_edge, r0, n, marginal, edge, rise, scale * squares, gap, &at)
            if gamma == 0.0:
                continue
            # the step
            entropy[s] = at.entropy
            for t in range(n):
                for k in range(n_labels):
                    dual_node[r0 + t, k] = max(dual_node[r0 + t, k] + gamma * marginal[t, k], 0.0)
                    for j in range(n_labels if t else 0):
                        dual_edge[r0 + t, k, j] = max(dual_edge[r0 + t, k, j] + gamma * edge[t, k, j], 0.0)
            for m in range(n_touched):
                add_row(&w, w.node, touched[m], -scale * gamma, &sums[m, 0])
            for i in range(n_labels):
                for j in range(n_labels):
                    transition[i, j] -= scale * gamma * change[i, j]
            for k in range(start.shape[0]):
                start[k] -= scale * gamma * marginal[0, k]
                end[k] -= scale * gamma * marginal[n - 1, k]
    return total if isfinite(total) else INFINITY - INFINITY


cdef inline double search(
    const double[:, ::1] node, const double[:, :, ::1] edge, Py_ssize_t r0, Py_ssize_t n_steps,
    const double[:, ::1] node_way, const double[:, :, ::1] edge_way, double rise, double bend, double gap, Along *at,
) noexcept nogil:
    """The share of a way to go, which maximises the entropy plus ``rise * gamma - bend * gamma**2 / 2``.

    By Newton steps that are kept between bounds; ``at`` says what the entropy is there. The first guess is right near
    the optimum, where the slope at the start is twice the gap, and the curvature of the entropy as much.
    """
    cdef double low = 0.0, high = 1.0, gamma = 2.0 * gap / (2.0 * gap + bend), slope, newton
    cdef int trial
    for trial in range(N_TRIALS):
        at[0] = entropy_along(node, edge, r0, n_steps, node_way, edge_way, gamma)
        slope = at.slope + rise - bend * gamma
        if fabs(slope) <= NEAR * gap or (gamma == 1.0 and slope >= 0.0):
            return gamma
        if slope > 0.0:
            low = gamma
        else:
            high = gamma
        newton = gamma - slope / (at.curvature - bend)
        if newton >= 1.0 and high == 1.0:
            gamma = 1.0
        elif low < newton < high:
            gamma = newton
        else:
            gamma = 0.5 * (low + high) if low > 0.0 else 0.1 * high
    if low > 0.0:
        at[0] = entropy_along(node, edge, r0, n_steps, node_way, edge_way, low)
    return low


cdef inline Along entropy_along(
    const double[:, ::1] node, const double[:, :, ::1] edge, Py_ssize_t r0, Py_ssize_t n_steps,
    const double[:, ::1] node_way, const double[:, :, ::1] edge_way, double gamma,
) noexcept nogil:
    """Of a chain with these marginals plus ``gamma`` times the way: that of its moves, less that of its inner steps."""
    cdef Py_ssize_t n = node.shape[1], t
    cdef Along at
    at.entropy = at.slope = at.curvature = 0.0
    if n_steps == 1:
        add_entropy(&node[r0, 0], &node_way[0, 0], gamma, 1.0, n, &at)
    for t in range(1, n_steps):
        add_entropy(&edge[r0 + t, 0, 0], &edge_way[t, 0, 0], gamma, 1.0, n * n, &at)
        if t > 1:
            add_entropy(&node[r0 + t - 1, 0], &node_way[t - 1, 0], gamma, -1.0, n, &at)
    return at


cdef inline void add_entropy(
    const double *mass, const double *way, double gamma, double sign, Py_ssize_t n, Along *at
) noexcept nogil:
    cdef double entropy = 0.0, slope = 0.0, curvature = 0.0, moved, log_moved
    cdef Py_ssize_t k
    for k in range(n):
        moved = mass[k] + gamma * way[k]
        if not moved > TINY:
            moved = TINY
        log_moved = log(moved)
        entropy -= moved * log_moved
        slope -= way[k] * log_moved
        curvature -= way[k] * way[k] / moved
    at.entropy += sign * entropy
    at.slope += sign * slope
    at.curvature += sign * curvature
