# One configuration, traced back through the masses that ``forward`` left; included beside _stack_inside.pxi.
#
# The including module defines ``pick``: the number of one of the candidates, the best (the first of equals) or
# a random one. Rows of a segment are computed once more along the way, so no pointers are stored.


cdef inline double start_of(const Stack *s, Py_ssize_t row, Py_ssize_t c) noexcept nogil:
    """What it scores that ``c`` starts at ``row`` as first child."""
    cdef double score = row_of(s.start, s.start_stride, row)[c]
    return times(score, row_of(s.first, s.first_stride, row)[c]) if c < s.first_stride else score


cdef inline double stop_of(const Stack *s, Py_ssize_t row, Py_ssize_t c) noexcept nogil:
    """What it scores that ``c`` ends with ``row`` as last child."""
    cdef double score = row_of(s.stop, s.stop_stride, row)[c]
    return times(score, row_of(s.last, s.last_stride, row)[c]) if c < s.last_stride else score


cdef inline void reopen(
    const Stack *s, double *outer, Py_ssize_t row, Py_ssize_t low, Py_ssize_t high,
) noexcept nogil:
    """Outside masses of levels ``high - 1`` to ``low`` that start at ``row``, from level ``high``."""
    cdef Py_ssize_t n, c
    cdef double mass
    for n in range(s.cut[high] - 1, s.cut[low] - 1, -1):
        mass = ZERO
        for c in range(s.begin[n], s.end[n]):
            mass = plus(mass, times(start_of(s, row, c), outer[c]))
        outer[n] = mass


cdef inline double moved_into(const Stack *s, const double *outer, Py_ssize_t row, Py_ssize_t u, Py_ssize_t v) noexcept nogil:
    """What comes of a move from sibling ``u`` to ``v`` at the boundary before ``row``: move and outside mass."""
    cdef Py_ssize_t n = s.parent[u]
    cdef Py_ssize_t b = s.begin[n], k = s.end[s.parent[u]] - s.begin[s.parent[u]]
    cdef double mass = times(row_of(s.move, s.move_stride, row)[s.block[n] + (u - b) * k + v - b], outer[v])
    if u < s.edge_stride:
        mass = times(times(row_of(s.leave, s.edge_stride, row - 1)[u], mass), row_of(s.enter, s.edge_stride, row)[v])
    return mass


cdef inline void recross(
    const Stack *s, const double *outer_start, double *back, Py_ssize_t row,
) noexcept nogil:
    """Outside masses at the end of step ``row - 1``, from those at the start of ``row``, inside one segment."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], low = s.segment_level + 1
    cdef Py_ssize_t first_move = low, last_move = s.n_levels - 1
    cdef double *outer_end = s.outer_end
    cdef Py_ssize_t q, n, u, v
    cdef double mass
    cdef bint may_stay = s.persists
    if s.lowest != NULL:
        first_move = max(first_move, s.lowest[row])
        last_move = min(last_move, s.highest[row])
        may_stay = may_stay and s.highest[row] == s.n_levels
    for n in range(s.cut[low - 1], s.cut[low]):
        outer_end[n] = ZERO
    for q in range(low, s.n_levels):
        for n in range(s.cut[q - 1], s.cut[q]):
            for u in range(s.begin[n], s.end[n]):
                mass = times(outer_end[n], stop_of(s, row - 1, u))
                if first_move <= q <= last_move:
                    for v in range(s.begin[n], s.end[n]):
                        mass = plus(mass, moved_into(s, outer_start, row, u, v))
                outer_end[u] = mass
    for n in range(s.n_stacks):
        back[n] = plus(outer_end[base + n], outer_start[base + n]) if may_stay else outer_end[base + n]


cdef inline Py_ssize_t trace_segment(
    const Stack *s, Py_ssize_t leaf, Py_ssize_t j, Py_ssize_t r0, Py_ssize_t *codes, signed char *movers,
    unsigned long long *seed,
) noexcept nogil:
    """Choose the start of the segment of prefix ``leaf`` that ends before row ``j``, and what is inside it."""
    cdef Py_ssize_t n_upper = s.cut[s.segment_level + 1], base = s.cut[s.n_levels - 1]
    cdef Py_ssize_t i, t, n, a, c, q, k, u, low = s.segment_level + 1, last = j - 1, chosen = -1
    cdef Py_ssize_t member = leaf - s.cut[s.segment_level]
    cdef bint is_leaf = low == s.n_levels
    cdef double *back = s.inner
    cdef double *outer
    cdef double mass
    cdef double extra = ONE
    # outside masses of the stacks of this segment, backwards; candidates are starts, the earliest first
    for n in range(s.n_prefixes):
        s.outer_end[n] = ZERO
    s.outer_end[leaf] = ONE
    for n in range(s.cut[low], s.n_prefixes):
        s.outer_end[n] = times(s.outer_end[s.parent[n]], stop_of(s, j - 1, n))
    for n in range(s.n_stacks):
        back[n] = s.outer_end[base + n]
    i = j
    for a in range(1, j - r0 + 1):
        i = j - a
        outer = s.outer_rows + (i - r0) * s.n_prefixes
        for n in range(s.n_stacks):
            outer[base + n] = times(back[n], s.local[i * s.n_stacks + n])
        reopen(s, outer, i, s.segment_level, s.n_levels - 1)
        if a > s.max_duration:
            extra = times(extra, s.tail[member])
        mass = s.duration[i * s.duration_stride + (min(a, s.max_duration) - 1) * s.n_leaves + member]
        s.candidates[1 + i - r0] = times(times(times(s.started[i * n_upper + leaf], outer[leaf]), mass), extra)
        if i == r0 or (s.lowest != NULL and s.highest[i] <= s.segment_level):
            break
        if a == s.max_duration:
            if not s.has_tail:
                break
            # longer still? the tail knows, without a look at every start
            tail_entry(s, j - 1)
            s.candidates[i - r0] = ZERO
            for n in range(s.n_stacks):
                if s.leaf[n] == member:
                    mass = times(s.up[base + n], s.outer_rows[(j - 1 - r0) * s.n_prefixes + base + n])
                    s.candidates[i - r0] = plus(s.candidates[i - r0], times(mass, s.tail[member]))
            chosen = pick(s.candidates + i - r0, s.max_duration + 1, seed)
            if chosen > 0:
                chosen += i - 1
                break
            last = i - 1  # the start is one of r0 .. i - 1
        if is_leaf:
            for n in range(s.n_stacks):
                back[n] = outer[base + n]
        else:
            recross(s, outer, back, i)
    if chosen <= 0:
        chosen = i + pick(s.candidates + 1 + i - r0, last - i + 1, seed)
    i = chosen
    # down into the segment, forwards
    c = leaf
    for t in range(i, j):
        outer = s.outer_rows + (t - r0) * s.n_prefixes
        q = s.segment_level
        if t > i:
            u = c  # stays, or one of its ancestors below m moves to a sibling
            k = 0
            s.candidates[0] = outer[c] if s.persists and (s.lowest == NULL or s.highest[t] == s.n_levels) else ZERO
            mass = ONE
            for q in range(s.n_levels - 1, low - 1, -1):
                for n in range(s.begin[s.parent[u]], s.end[s.parent[u]]):
                    k += 1
                    s.candidates[k] = ZERO
                    if s.lowest == NULL or s.lowest[t] <= q <= s.highest[t]:
                        s.candidates[k] = times(mass, moved_into(s, outer, t, u, n))
                mass = times(mass, stop_of(s, t - 1, u))
                u = s.parent[u]
            k = pick(s.candidates, k + 1, seed) - 1
            q = s.n_levels
            while k >= 0:  # which level, which sibling
                q -= 1
                if k < s.end[s.parent[c]] - s.begin[s.parent[c]]:
                    c = s.begin[s.parent[c]] + k
                    break
                k -= s.end[s.parent[c]] - s.begin[s.parent[c]]
                c = s.parent[c]
            movers[t - 1] = q
        while q < s.n_levels - 1:  # first children
            for n in range(s.begin[c], s.end[c]):
                s.candidates[n - s.begin[c]] = times(start_of(s, t, n), outer[n])
            c = s.begin[c] + pick(s.candidates, s.end[c] - s.begin[c], seed)
            q += 1
        codes[t] = c - base
    return i


cdef void trace(
    const Stack *s, Py_ssize_t r0, Py_ssize_t r1, Py_ssize_t *codes, signed char *movers,
    unsigned long long *seed,
) noexcept nogil:
    """Write one configuration: the stack of every step, and the highest level that ends with it."""
    cdef Py_ssize_t n_upper = s.cut[s.segment_level + 1]
    cdef Py_ssize_t j = r1, i, c, n, k, q, u
    cdef const double *ended = s.ended + (r1 - 1) * n_upper
    cdef double mass
    for n in range(s.cut[1]):
        s.candidates[n] = ended[n]
    c = pick(s.candidates, s.cut[1], seed)
    q = 0
    while True:
        # c of level q has ended before row j: down to level m by last children
        movers[j - 1] = q
        ended = s.ended + (j - 1) * n_upper
        while q < s.segment_level:
            for n in range(s.begin[c], s.end[c]):
                s.candidates[n - s.begin[c]] = times(ended[n], stop_of(s, j - 1, n))
            c = s.begin[c] + pick(s.candidates, s.end[c] - s.begin[c], seed)
            q += 1
        i = trace_segment(s, c, j, r0, codes, movers, seed)
        if i == r0:
            return
        # how c came to start at i: moved into, or as the first child of a parent that started there
        ended = s.ended + (i - 1) * n_upper
        while True:
            k = s.end[s.parent[c]] - s.begin[s.parent[c]]
            for n in range(k):
                u = s.begin[s.parent[c]] + n
                s.candidates[n] = ZERO
                if s.lowest == NULL or s.lowest[i] <= q <= s.highest[i]:
                    mass = row_of(s.move, s.move_stride, i)[s.block[s.parent[c]] + n * k + c - s.begin[s.parent[c]]]
                    s.candidates[n] = times(ended[u], mass)
                    if u < s.edge_stride:
                        mass = row_of(s.leave, s.edge_stride, i - 1)[u]
                        s.candidates[n] = times(s.candidates[n], mass)
                        s.candidates[n] = times(s.candidates[n], row_of(s.enter, s.edge_stride, i)[c])
            s.candidates[k] = ZERO
            if q > 1:
                s.candidates[k] = times(s.started[i * n_upper + s.parent[c]], start_of(s, i, c))
            n = pick(s.candidates, k + 1, seed)
            if n < k:
                c = s.begin[s.parent[c]] + n
                break
            c = s.parent[c]
            q -= 1
        j = i


def trace_back(
    const Py_ssize_t[::1] offsets,
    const Py_ssize_t[:, ::1] prefixes,
    const Py_ssize_t[::1] cut,
    const Py_ssize_t[::1] leaf,
    Py_ssize_t segment_level,
    bint persists,
    const double[:, ::1] step,
    const double[:, ::1] start,
    const double[:, ::1] stop,
    const double[:, ::1] move,
    const double[:, ::1] enter,
    const double[:, ::1] leave,
    const double[:, ::1] first,
    const double[:, ::1] last,
    const double[:, :, ::1] duration,
    const double[::1] tail,
    const signed char[:, ::1] movers,
    double[:, ::1] local,                   # IN    as `inside` left them, these and the next three
    double[:, ::1] started,
    double[:, ::1] ended,
    double[:, ::1] tails,
    double[:, ::1] ring,
    Py_ssize_t[::1] live,
    double[:, ::1] rows,
    double[::1] candidates,                 # WORK  (longest + n_prefixes + 1,)
    double[:, ::1] outer_rows,              # WORK  (longest, n_prefixes)
    unsigned long long[::1] seeds,          # IN/OUT (n_sequences,) state of the random numbers
    Py_ssize_t[::1] codes,                  # OUT   (n_rows,) number of the stack of each step
    signed char[::1] ends,                  # OUT   (n_rows,) highest level that ends with each step; n_levels: none
):
    """One configuration of every sequence, each of which must have one; O(n_rows * moves of one step) and more
    where segments are long: a segment is traced over its longest possible duration."""
    cdef Stack s
    cdef Py_ssize_t q
    bind(
        &s, prefixes, cut, leaf, segment_level, persists, step, start, stop, move, enter, leave, first, last,
        duration, tail, movers, local, started, ended, tails, ring, live, rows,
    )
    s.candidates = &candidates[0]
    s.outer_rows = &outer_rows[0, 0]
    with nogil:
        for q in range(offsets.shape[0] - 1):
            trace(&s, offsets[q], offsets[q + 1], &codes[0], &ends[0], &seeds[q])
