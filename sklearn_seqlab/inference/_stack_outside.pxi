# The outside half of the recursions of the stack engine; see ``_stack_inside.pxi``.


cdef inline void open_back(
    const Stack *s, Shares *p, const double *started, double *outer, Py_ssize_t row,
    Py_ssize_t low, Py_ssize_t high,
) noexcept nogil:
    """Outside masses of what starts at ``row``: levels ``high - 1`` to ``low`` from ``high``, as first children."""
    cdef const double *start = row_of(s.start, s.start_stride, row)
    cdef const double *first = row_of(s.first, s.first_stride, row)
    cdef double *share_of = p.start + row * s.start_stride
    cdef double *first_share = p.first + row * s.first_stride
    cdef Py_ssize_t n, c
    cdef bint starts
    cdef double mass, branch, through
    for n in range(s.cut[high] - 1, s.cut[low] - 1, -1):
        mass = ZERO
        starts = not is_zero(started[n])
        for c in range(s.begin[n], s.end[n]):
            branch = times_up(start[c], outer[c])
            if c < s.first_stride:
                branch = times_up(branch, first[c])
            mass = plus(mass, branch)
            if not starts:
                continue
            through = share(times(started[n], branch), p)
            share_of[c] += through
            if c < s.first_stride:
                first_share[c] += through
        outer[n] = mass


cdef inline void close_back(
    const Stack *s, Shares *p, const double *ended, double *outer, Py_ssize_t row,
    Py_ssize_t low, Py_ssize_t high,
) noexcept nogil:
    """Outside masses of what ends with step ``row``: levels ``low`` to ``high`` from ``low - 1``, as last children."""
    cdef const double *stop = row_of(s.stop, s.stop_stride, row)
    cdef const double *last = row_of(s.last, s.last_stride, row)
    cdef double *share_of = p.stop + row * s.stop_stride
    cdef double *last_share = p.last + row * s.last_stride
    cdef Py_ssize_t c
    cdef double through
    for c in range(s.cut[low], s.cut[high + 1]):
        outer[c] = times_up(outer[s.parent[c]], stop[c])
        if c < s.last_stride:
            outer[c] = times_up(outer[c], last[c])
        through = share(times(ended[c], outer[c]), p)
        share_of[c] += through
        if c < s.last_stride:
            last_share[c] += through


cdef inline void move_back(
    const Stack *s, Shares *p, const double *ended, const double *started, double *outer_end,
    double *outer_start, Py_ssize_t row, Py_ssize_t low, Py_ssize_t high,
    Py_ssize_t first_move, Py_ssize_t last_move,
) noexcept nogil:
    """The boundary before ``row`` at levels ``low`` to ``high``, the converse of up- and down-sweep.

    ``outer_start`` of level ``high`` and ``outer_end`` of level ``low - 1`` are given; the others are filled.
    """
    cdef const double *move = row_of(s.move, s.move_stride, row)
    cdef const double *enter = row_of(s.enter, s.edge_stride, row)
    cdef const double *leave = row_of(s.leave, s.edge_stride, row - 1)
    cdef const double *stop = row_of(s.stop, s.stop_stride, row - 1)
    cdef const double *last = row_of(s.last, s.last_stride, row - 1)
    cdef double *stop_share = p.stop + (row - 1) * s.stop_stride
    cdef double *last_share = p.last + (row - 1) * s.last_stride
    cdef double *move_share = p.move + row * s.move_stride
    cdef double *behind = s.moved
    cdef double *before = s.before
    cdef double *through = s.through
    cdef Py_ssize_t q, n, b, k, u, v
    cdef double mass
    open_back(s, p, started, outer_start, row, low, high)
    for q in range(low, high + 1):
        for n in range(s.cut[q - 1], s.cut[q]):
            b = s.begin[n]
            k = s.end[n] - b
            for u in range(k):
                if is_zero(outer_end[n]):  # as of every open segment
                    outer_end[b + u] = ZERO
                    continue
                outer_end[b + u] = times_up(outer_end[n], stop[b + u])
                if b < s.last_stride:
                    outer_end[b + u] = times_up(outer_end[b + u], last[b + u])
                mass = share(times(ended[b + u], outer_end[b + u]), p)
                stop_share[b + u] += mass
                if b < s.last_stride:
                    last_share[b + u] += mass
            if q < first_move or q > last_move:
                continue
            for v in range(k):
                behind[v] = times_up(outer_start[b + v], enter[b + v]) if b < s.edge_stride else outer_start[b + v]
                before[v] = times(ended[b + v], leave[b + v]) if b < s.edge_stride else ended[b + v]
            block_backward(
                before, behind, move + s.block[n], s.turned + s.block[n] if s.turned != NULL else NULL,
                through, move_share + s.block[n],
                p.enter + row * s.edge_stride + b if b < s.edge_stride else NULL, s.move_stride == 0, k, p,
            )
            for u in range(k):
                mass = through[u]
                if b < s.edge_stride:
                    mass = times_up(mass, leave[b + u])
                    p.leave[(row - 1) * s.edge_stride + b + u] += share(times(ended[b + u], mass), p)
                outer_end[b + u] = plus(outer_end[b + u], mass)


cdef inline void retreat(
    const Stack *s, Shares *p, const double *ended, const double *started, double *inner, Py_ssize_t row,
) noexcept nogil:
    """The converse of ``cross``: outside masses of an open segment's stacks, back over the boundary at ``row``."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], k, n
    cdef Py_ssize_t low = s.segment_level + 1
    cdef Py_ssize_t last_move = s.n_levels - 1
    cdef Py_ssize_t first_move = low
    cdef bint may_stay = s.persists
    if low == s.n_levels:
        return
    if s.lowest != NULL:
        first_move = max(first_move, s.lowest[row])
        last_move = min(last_move, s.highest[row])
        may_stay = may_stay and s.highest[row] == s.n_levels
    for k in range(s.n_stacks):
        s.outer_start[base + k] = inner[k]
    for n in range(s.cut[low - 1], s.cut[low]):
        s.outer_end[n] = ZERO
    move_back(s, p, ended, started, s.outer_end, s.outer_start, row, low, s.n_levels - 1, first_move, last_move)
    for k in range(s.n_stacks):
        inner[k] = plus(s.outer_end[base + k], inner[k]) if may_stay else s.outer_end[base + k]


cdef inline void row_back(
    const Stack *s, Shares *p, Py_ssize_t i, Py_ssize_t r0, Py_ssize_t r1, double *outer_start,
) noexcept nogil:
    """Outside masses of the segments that start at row ``i``, into level m of ``outer_start``; levels below m exist."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], leaf = s.cut[s.segment_level]
    cdef Py_ssize_t n_upper = s.cut[s.segment_level + 1], low = s.segment_level + 1
    cdef Py_ssize_t a, n, t, n_steps = 0
    cdef double *inner
    cdef double *ended
    cdef double *started
    cdef double *back = s.inner
    cdef double *closing
    cdef const double *duration
    cdef double *duration_share
    cdef const double *local
    cdef double mass
    # the row itself once more: its stacks, and what ends and starts at each of its steps
    for t in range(i, min(r1, i + s.max_duration)):
        if t > i and s.lowest != NULL and s.highest[t] <= s.segment_level:
            break
        ended = s.row_ended + n_steps * s.n_prefixes
        started = s.row_started + n_steps * s.n_prefixes
        if t == i:
            open_segment(s, s.started + i * n_upper, ended, started, s.moved, i)
        else:
            for n in range(s.cut[low], s.n_prefixes):
                ended[n] = (ended - s.n_prefixes)[n]
            cross(s, ended, started, s.moved, t)
            # of this row only the last level is new; what was swept up belongs to the step before
        for n in range(base, s.n_prefixes):
            ended[n] = times(ended[n], s.local[t * s.n_stacks + n - base])
        sweep_up(s, ended, t, s.segment_level, s.n_levels - 1)
        n_steps += 1
    for n in range(s.n_stacks):
        back[n] = ZERO
    for a in range(n_steps - 1, -1, -1):
        t = i + a
        ended = s.row_ended + a * s.n_prefixes
        inner = ended + base
        local = s.local + t * s.n_stacks
        closing = s.closing + (t + 1 - r0) * s.n_leaves
        duration = s.duration_up + i * s.duration_stride + a * s.n_leaves
        duration_share = p.duration + i * s.duration_stride + a * s.n_leaves
        for n in range(s.n_leaves):
            s.outer_end[leaf + n] = times_up(closing[n], duration[n])
            duration_share[n] += share(times(ended[leaf + n], s.outer_end[leaf + n]), p)
        close_back(s, p, ended, s.outer_end, t, low, s.n_levels - 1)
        for n in range(s.n_stacks):
            back[n] = plus(back[n], s.outer_end[base + n])
        if s.has_tail and a == s.max_duration - 1:
            for n in range(s.n_stacks):
                mass = times_up(duration[s.leaf[n]], (s.outer_tail + (t + 1 - r0) * s.n_stacks)[n])
                duration_share[s.leaf[n]] += share(times(inner[n], mass), p)
                back[n] = plus(back[n], mass)
        for n in range(s.n_stacks):
            (p.step + t * s.n_stacks)[n] += share(times(inner[n], back[n]), p)
            back[n] = times_up(back[n], local[n])
        if a:
            retreat(
                s, p, s.row_ended + (a - 1) * s.n_prefixes, s.row_started + a * s.n_prefixes, back, t
            )
    for n in range(s.n_stacks):
        outer_start[base + n] = back[n]
    open_back(s, p, s.row_started, outer_start, i, s.segment_level, s.n_levels - 1)


cdef inline void leaf_row_back(
    const Stack *s, Shares *p, Py_ssize_t i, Py_ssize_t r0, Py_ssize_t r1, double *outer_start,
) noexcept nogil:
    """As ``row_back`` where segments of level m have nothing below them."""
    cdef Py_ssize_t leaf = s.cut[s.segment_level], n_upper = s.cut[s.segment_level + 1]
    cdef Py_ssize_t a, n, t
    cdef double *run = s.inner
    cdef double *started = s.started + i * n_upper + leaf
    cdef double *outer = outer_start + leaf
    cdef const double *duration = s.duration_up + i * s.duration_stride
    cdef double *duration_share = p.duration + i * s.duration_stride
    cdef double *beyond
    cdef double mass, least = ONE
    for n in range(s.n_leaves):
        outer[n] = ZERO
        run[n] = ONE
    for a in range(min(r1 - i, s.max_duration)):
        t = i + a
        if a and s.lowest != NULL and s.highest[t] <= s.segment_level:
            return
        if a % 8 == 7:  # products of bounds fall faster than any product
            least = least_of(run, s.n_leaves)
        least = times(least, s.least_local[t - r0])
        leaf_backward(
            run, s.local + t * s.n_stacks, duration + a * s.n_leaves, s.closing + (t + 1 - r0) * s.n_leaves,
            started, outer, duration_share + a * s.n_leaves, s.n_leaves, p,
            least, s.least_duration, s.least_closing[t + 1 - r0],
        )
        if is_zero(run[0]):
            n = 1
            while n < s.n_leaves and is_zero(run[n]):
                n += 1
            if n == s.n_leaves:
                return
    if s.has_tail and a == s.max_duration - 1:
        beyond = s.outer_tail + (i + s.max_duration - r0) * s.n_stacks
        for n in range(s.n_leaves):
            mass = times_up(times_up(run[n], duration[a * s.n_leaves + n]), beyond[n])
            outer[n] = plus(outer[n], mass)
            duration_share[a * s.n_leaves + n] += share(times(started[n], mass), p)


cdef inline void tail_back(
    const Stack *s, Shares *p, Py_ssize_t row, Py_ssize_t r0,
) noexcept nogil:
    """Outside masses of the tail, back over the boundary before ``row``."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], leaf = s.cut[s.segment_level], n
    cdef Py_ssize_t low = s.segment_level + 1
    cdef const double *local = s.local + row * s.n_stacks
    cdef const double *closing = s.closing + (row + 1 - r0) * s.n_leaves
    cdef const double *beyond = s.outer_tail + (row + 1 - r0) * s.n_stacks
    cdef double *back = s.outer_tail + (row - r0) * s.n_stacks
    cdef double passed
    if s.lowest != NULL and s.highest[row] <= s.segment_level:
        for n in range(s.n_stacks):
            back[n] = ZERO
        return
    tail_entry(s, row)
    for n in range(s.cut[low], s.n_prefixes):  # what ended at the boundary, before it is overwritten
        s.row_ended[n] = s.up[n]
    for n in range(s.n_stacks):
        s.row_ended[base + n] = (s.tails + (row - 1) * s.n_stacks)[n]
        s.up[base + n] = times(times(s.up[base + n], local[n]), s.tail[s.leaf[n]])
    sweep_up(s, s.up, row, s.segment_level, s.n_levels - 1)
    for n in range(s.n_leaves):
        s.outer_end[leaf + n] = closing[n]
    close_back(s, p, s.up, s.outer_end, row, low, s.n_levels - 1)
    for n in range(s.n_stacks):
        back[n] = plus(s.outer_end[base + n], beyond[n])
        passed = share(times(s.up[base + n], back[n]), p)
        p.tail[s.leaf[n]] += passed
        if low < s.n_levels:
            (p.step + row * s.n_stacks)[n] += passed
        back[n] = times_up(times_up(back[n], local[n]), s.tail[s.leaf[n]])
    retreat(s, p, s.row_ended, s.down, back, row)


cdef inline void keep_closing(const Stack *s, Py_ssize_t boundary, const double *masses) noexcept nogil:
    cdef Py_ssize_t n
    for n in range(s.n_leaves):
        s.closing[boundary * s.n_leaves + n] = masses[n]
    s.least_closing[boundary] = least_of(masses, s.n_leaves)


cdef void backward(const Stack *s, Shares *p, Py_ssize_t r0, Py_ssize_t r1) noexcept nogil:
    """Outside pass and all probabilities of one sequence, after ``forward``."""
    cdef Py_ssize_t leaf = s.cut[s.segment_level], n_upper = s.cut[s.segment_level + 1]
    cdef Py_ssize_t i, n
    cdef bint is_leaf = s.segment_level == s.n_levels - 1
    cdef double *outer_start = s.outer_start
    cdef double *outer_end = s.outer_end
    cdef double *started
    cdef double *ended
    cdef double *covered = s.inner
    p.outside = ZERO
    raise_steps(s, r0, r1)
    for n in range(s.cut[1]):
        outer_end[n] = ONE
    close_back(s, p, s.ended + (r1 - 1) * n_upper, outer_end, r1 - 1, 1, s.segment_level)
    keep_closing(s, r1 - r0, outer_end + leaf)
    if is_leaf:
        for i in range(r0, r1):
            s.least_local[i - r0] = least_of(s.local + i * s.n_stacks, s.n_stacks)
    for n in range(s.n_stacks * s.has_tail):
        (s.outer_tail + (r1 - r0) * s.n_stacks)[n] = ZERO
    for i in range(r1 - 1, r0 - 1, -1):
        started = s.started + i * n_upper
        if s.has_tail and i > r0:
            tail_back(s, p, i, r0)
        if i > r0 and s.lowest != NULL and s.lowest[i] > s.segment_level:
            for n in range(leaf, n_upper):  # nothing starts here
                outer_start[n] = ZERO
        elif is_leaf:
            leaf_row_back(s, p, i, r0, r1, outer_start)
        else:
            row_back(s, p, i, r0, r1, outer_start)
        if is_leaf:  # for now the starts alone; the loop below makes them coverages
            for n in range(s.n_leaves):
                (p.step + i * s.n_stacks)[n] = share(times(started[leaf + n], outer_start[leaf + n]), p)
        if i == r0:
            open_back(s, p, started, outer_start, i, 0, s.segment_level)
            for n in range(s.cut[1]):
                (p.start + i * s.start_stride)[n] += share(times(started[n], outer_start[n]), p)
                p.outside = plus(p.outside, times(started[n], outer_start[n]))
            break
        for n in range(s.cut[1]):
            outer_end[n] = ZERO
        if s.lowest == NULL:
            move_back(
                s, p, s.ended + (i - 1) * n_upper, started, outer_end, outer_start, i, 1, s.segment_level,
                1, s.segment_level,
            )
        else:
            move_back(
                s, p, s.ended + (i - 1) * n_upper, started, outer_end, outer_start, i, 1, s.segment_level,
                s.lowest[i], s.highest[i],
            )
        if s.lowest != NULL and s.lowest[i] > s.segment_level:
            for n in range(s.n_leaves):
                outer_end[leaf + n] = ZERO
        keep_closing(s, i - r0, outer_end + leaf)
    if not is_leaf:
        return
    for n in range(s.n_leaves):
        covered[n] = 0.0
    for i in range(r0, r1):
        ended = s.ended + i * n_upper + leaf
        started = p.step + i * s.n_stacks
        for n in range(s.n_leaves):
            covered[n] += started[n]
            started[n] = max(covered[n], 0.0)
            covered[n] -= share(times(ended[n], (s.closing + (i + 1 - r0) * s.n_leaves)[n]), p)


cdef void turn_moves(const Stack *s) noexcept nogil:
    cdef Py_ssize_t n, k, u, v
    for n in range(s.cut[s.n_levels - 1]):
        k = s.end[n] - s.begin[n]
        for u in range(k):
            for v in range(k):
                s.turned[s.block[n] + v * k + u] = s.move[s.block[n] + u * k + v]


def inside_outside(
    const Py_ssize_t[::1] offsets,
    const Py_ssize_t[::1] chosen,
    const double[::1] weight,               # IN    (n_sequences,), multiplies the probabilities
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
    double[:, ::1] local,
    double[:, ::1] started,
    double[:, ::1] ended,
    double[:, ::1] tails,
    double[:, ::1] ring,
    Py_ssize_t[::1] live,
    double[:, ::1] rows,
    const double[:, :, ::1] duration_up,    # IN    as duration, see `raise_steps`
    double[:, ::1] closing,                 # WORK  (longest + 1, n_leaves)
    double[:, ::1] outer_tail,              # WORK  (longest + 1, n_stacks), or (1, .) without a tail
    double[:, ::1] row_ended,               # WORK  (max_duration, n_prefixes)
    double[:, ::1] row_started,             # WORK  (max_duration, n_prefixes)
    double[::1] turned,                     # WORK  (n_moves,), or (0,) where moves differ by row
    double[:, ::1] least,                   # WORK  (2, longest + 1)
    double[::1] log_z,                      # OUT   (n_sequences,), nats
    unsigned char[::1] certified,           # OUT   (n_sequences,), 0: wrong, and so is what was added
    double[:, ::1] step_share,              # IN/OUT probabilities are added, shapes as above
    double[:, ::1] start_share,
    double[:, ::1] stop_share,
    double[:, ::1] move_share,
    double[:, ::1] enter_share,
    double[:, ::1] leave_share,
    double[:, ::1] first_share,
    double[:, ::1] last_share,
    double[:, :, ::1] duration_share,
    double[::1] tail_share,
):
    """Log-partition and the weighted probability of everything that scores."""
    cdef Stack s
    cdef Shares p
    cdef Py_ssize_t k, q
    cdef double log_scale, mass
    bind(
        &s, prefixes, cut, leaf, segment_level, persists, step, start, stop, move, enter, leave, first, last,
        duration, tail, movers, local, started, ended, tails, ring, live, rows,
    )
    s.duration_up = &duration_up[0, 0, 0]
    s.closing = &closing[0, 0]
    s.outer_tail = &outer_tail[0, 0]
    s.row_ended = &row_ended[0, 0]
    s.row_started = &row_started[0, 0]
    s.least_local = &least[0, 0]
    s.least_closing = &least[1, 0]
    s.least_duration = least_of(s.duration_up, duration_up.shape[0] * duration_up.shape[1] * s.n_leaves)
    s.turned = &turned[0] if turned.shape[0] else NULL
    if s.turned != NULL:
        turn_moves(&s)
    p.step = &step_share[0, 0]
    p.start = &start_share[0, 0]
    p.stop = &stop_share[0, 0]
    p.move = &move_share[0, 0] if move.shape[1] else NULL
    p.enter = &enter_share[0, 0] if s.edge_stride else NULL
    p.leave = &leave_share[0, 0] if s.edge_stride else NULL
    p.first = &first_share[0, 0] if s.first_stride else NULL
    p.last = &last_share[0, 0] if s.last_stride else NULL
    p.duration = &duration_share[0, 0, 0]
    p.tail = &tail_share[0] if s.has_tail else NULL
    with nogil:
        for k in range(chosen.shape[0]):
            q = chosen[k]
            mass = forward(&s, offsets[q], offsets[q + 1], &log_scale)
            log_z[q] = log_scale + nats(mass)
            certified[q] = prepare_shares(&p, mass, weight[q])
            if not certified[q]:
                continue
            backward(&s, &p, offsets[q], offsets[q + 1])
            certified[q] = trusted(&s, &p, offsets[q], offsets[q + 1], weight[q])
        if s.move_stride == 0:
            finish_moves(p.move, s.move, move.shape[1])
