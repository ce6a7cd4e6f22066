# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What steps on one sequence at a time are made of, whatever they do with the expectations.

The penalty pulls at every weight with every step, but a step touches only the features of its sequence. Weights of
a feature are caught up when it is next read: after steps of lengths that add up to ``d``, the penalty has divided
them by ``1 + rate * unit * d`` (the proximal step of that length). With an average gradient, whose entries of the
feature were the same all the while, the step of that length along it comes first.
"""
from libc.math cimport INFINITY

from sklearn_seqlab.inference cimport _chain_log, _chain_scaled
from sklearn_seqlab.inference._vector cimport axpy, exp_of, max_of

ctypedef fused index_t:
    int
    long long

ctypedef fused value_t:
    float
    double


cdef struct Weights:
    Py_ssize_t n_labels
    double *node                    # all labels of a feature, or its pairs, next to each other
    const int *pair_start           # (n_features + 1,), or NULL where every pair has a weight
    const int *pair_label
    const double *unit              # (n_features,) inverse square of the typical size of a feature
    double *seen                    # (n_features,) length of all steps when last caught up; NULL: nothing is due
    double *average                 # like ``node``, the summed gradients of which ``share`` is a step; or NULL
    double length                   # of all steps so far
    double rate                     # of the penalty, per unit of length
    double share


cdef inline Py_ssize_t first_pair(const Weights *w, Py_ssize_t p) noexcept nogil:
    return p * w.n_labels if w.pair_start == NULL else w.pair_start[p]


cdef inline void catch_up(const Weights *w, Py_ssize_t p) noexcept nogil:
    cdef double kept, pulled
    cdef Py_ssize_t k, first, last
    if w.seen == NULL or w.seen[p] == w.length:
        return
    kept = 1.0 / (1.0 + w.rate * w.unit[p] * (w.length - w.seen[p]))
    pulled = w.share * w.unit[p] * (w.length - w.seen[p])
    w.seen[p] = w.length
    first, last = first_pair(w, p), first_pair(w, p + 1)
    if w.average == NULL:
        for k in range(first, last):
            w.node[k] *= kept
    else:
        for k in range(first, last):
            w.node[k] = (w.node[k] - pulled * w.average[k]) * kept


cdef inline void add_row(
    const Weights *w, double *values, Py_ssize_t p, double step, const double *row
) noexcept nogil:
    """Add ``step * row`` (n_labels,) to what an array like the weights has for feature ``p``."""
    cdef Py_ssize_t k
    if w.pair_start == NULL:
        axpy(values + p * w.n_labels, step, row, w.n_labels)
    else:
        for k in range(w.pair_start[p], w.pair_start[p + 1]):
            values[k] += step * row[w.pair_label[k]]


cdef inline void score_sequence(
    const Weights *w, const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, Py_ssize_t r0,
    Py_ssize_t n_steps, const double[::1] start, const double[::1] end, const double[::1] intercept,
    double[:, ::1] unary,
) noexcept nogil:
    """Scores of the labels of rows ``r0:r0 + n_steps``; weights that are read are caught up."""
    cdef Py_ssize_t n_labels = w.n_labels, t, k, p, entry
    cdef bint dense = indices.shape[0] == 0
    cdef double x
    for t in range(n_steps):
        for k in range(n_labels):
            unary[t, k] = intercept[k] if intercept.shape[0] else 0.0
        for entry in range(indptr[r0 + t], indptr[r0 + t + 1]):
            x = data[entry] if data.shape[0] else 1.0
            p = entry - indptr[r0 + t] if dense else indices[entry]
            catch_up(w, p)
            if w.pair_start == NULL:
                axpy(&unary[t, 0], x, w.node + p * n_labels, n_labels)
            else:
                for k in range(w.pair_start[p], w.pair_start[p + 1]):
                    unary[t, w.pair_label[k]] += x * w.node[k]
    if start.shape[0]:
        for k in range(n_labels):
            unary[0, k] += start[k]
            unary[n_steps - 1, k] += end[k]


cdef inline double score_of_labels(
    const double[:, ::1] unary, const double[:, ::1] transition, const Py_ssize_t[::1] codes, Py_ssize_t r0,
    Py_ssize_t n_steps,
) noexcept nogil:
    """Of the labels at rows ``r0:r0 + n_steps``, all of them known."""
    cdef Py_ssize_t t
    cdef double score = 0.0
    for t in range(n_steps):
        score += unary[t, codes[r0 + t]]
        if t:
            score += transition[codes[r0 + t - 1], codes[r0 + t]]
    return score


cdef inline Py_ssize_t gather(
    const Weights *w, const value_t[::1] data, const index_t[::1] indices, const index_t[::1] indptr, Py_ssize_t r0,
    Py_ssize_t n_steps, const double[:, ::1] rows, Py_ssize_t *place, Py_ssize_t *touched, double *sums,
) noexcept nogil:
    """Products of the features with ``rows`` (n_steps, n_labels), summed over steps; how many features there are.

    The sums of feature ``touched[m]`` go to row ``m`` of ``sums``. ``place`` (n_features,) is -1 before and after.
    """
    cdef Py_ssize_t n_labels = w.n_labels, n_touched = 0, t, k, m, p, entry
    cdef bint dense = indices.shape[0] == 0
    for t in range(n_steps):
        for entry in range(indptr[r0 + t], indptr[r0 + t + 1]):
            p = entry - indptr[r0 + t] if dense else indices[entry]
            if place[p] < 0:
                place[p] = n_touched
                touched[n_touched] = p
                for k in range(n_labels):
                    sums[n_touched * n_labels + k] = 0.0
                n_touched += 1
            axpy(sums + place[p] * n_labels, data[entry] if data.shape[0] else 1.0, &rows[t, 0], n_labels)
    for m in range(n_touched):
        place[touched[m]] = -1
    return n_touched


cdef inline double squared_sum(const Weights *w, Py_ssize_t p, const double *sums) noexcept nogil:
    """Of those of a row of sums of feature ``p`` that have a weight."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    if w.pair_start == NULL:
        for k in range(w.n_labels):
            total += sums[k] * sums[k]
    else:
        for k in range(w.pair_start[p], w.pair_start[p + 1]):
            total += sums[w.pair_label[k]] * sums[w.pair_label[k]]
    return total


cdef inline void lift_moves(
    const double[:, ::1] transition, double[:, :, ::1] factors, double[:, ::1] turned, double[::1] log_factors,
) noexcept nogil:
    """Moves as factors with a largest entry of one; none that is allowed is lost to underflow."""
    cdef Py_ssize_t n = transition.shape[0], i, j
    cdef double top = max_of(&transition[0, 0], n * n), tiny = 1e-300
    log_factors[0] = top
    exp_of(&factors[0, 0, 0], &transition[0, 0], top, n * n)
    for i in range(n):
        for j in range(n):
            if factors[0, i, j] < tiny:
                factors[0, i, j] = 0.0 if transition[i, j] == -INFINITY else tiny
            turned[j, i] = factors[0, i, j]


cdef inline double expect(
    const double[:, ::1] unary, double[:, ::1] transition, double[:, :, ::1] factors, double[:, ::1] turned,
    double[::1] log_factors, Py_ssize_t n_steps, double sign, double[:, ::1] node, double[:, ::1] left,
    double[:, ::1] right, double[:, :, ::1] moves, double[:, :, ::1] edge, double *rows,
) noexcept nogil:
    """Log-partition of one sequence; its marginals times ``sign`` into ``node``, and added to ``edge``.

    ``moves`` and ``edge`` have one matrix for all steps, or one for each.
    """
    cdef Py_ssize_t n = unary.shape[1], t, i, j
    cdef bint each = edge.shape[0] > 1
    cdef double log_z
    if _chain_scaled.one_sequence(
        unary, factors, turned, log_factors, 0, n_steps, sign, rows, rows + n, node, left, right, &log_z,
    ):
        if each:
            for t in range(1, n_steps):
                for i in range(n):
                    for j in range(n):
                        edge[t, i, j] += left[t - 1, i] * factors[0, i, j] * right[t, j]
            return log_z
        for i in range(n):
            for j in range(n):
                moves[0, i, j] = 0.0
        for t in range(1, n_steps):
            for i in range(n):
                axpy(&moves[0, i, 0], left[t - 1, i], &right[t, 0], n)
        for i in range(n):
            for j in range(n):
                edge[0, i, j] += moves[0, i, j] * factors[0, i, j]
        return log_z
    for t in range(n_steps if each else 1):
        for i in range(n):
            for j in range(n):
                moves[t, i, j] = transition[i, j]
    return _chain_log.one_sequence(unary, moves, 0, n_steps, sign, rows, node, edge)


cdef inline void set_priority(double *tree, Py_ssize_t n_leaves, Py_ssize_t s, double priority) noexcept nogil:
    """Set a leaf of a tree of sums (2 * n_leaves,), whose root is entry 1; ``n_leaves`` is a power of two."""
    cdef Py_ssize_t at = n_leaves + s
    tree[at] = priority
    while at > 1:
        at //= 2
        tree[at] = tree[2 * at] + tree[2 * at + 1]


cdef inline Py_ssize_t pick(
    const double *tree, Py_ssize_t n_leaves, Py_ssize_t n_sequences, double share, double draw
) noexcept nogil:
    """A sequence by a number drawn from [0, 1): the part below ``share`` by priority, the rest uniformly."""
    cdef Py_ssize_t at = 1
    cdef double left
    if draw >= share or not tree[1] > 0.0:
        draw = (draw - share) / (1.0 - share) if draw >= share else draw / share
        return min(<Py_ssize_t> (draw * n_sequences), n_sequences - 1)
    draw *= tree[1] / share
    while at < n_leaves:
        left = tree[2 * at]
        if draw < left or not tree[2 * at + 1] > 0.0:
            at = 2 * at
        else:
            draw -= left
            at = 2 * at + 1
    return at - n_leaves
