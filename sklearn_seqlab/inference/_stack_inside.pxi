# The recursions of the stack engine, written once for every algebra.
#
# A module that includes this text first defines what the recursions calculate with:
#
#   ZERO, ONE           neutral elements of plus and times
#   plus, times         the algebra: (+, *) on scaled masses, (logaddexp, +) on logs, (max, +) for best paths
#   is_zero             whether a mass is nothing
#   lift_row            scores of one step -> masses divided by a gauge; returns the log of the gauge
#   share               a mass as a probability: divided by the partition function, times a weight
#   leaf_open, leaf_begin, leaf_forward, leaf_mass, leaf_backward
#                       open segments with nothing below them, and the innermost loops over their stacks
#   block_forward, block_backward   those over the moves among the children of one parent
#   times_up            as times, but for the outside pass: a product of somethings is never rounded to nothing
#   raise_steps         the same for the factors of the steps, between the passes
#   least_of            a bound below all masses that are not nothing, if the algebra can lose masses by rounding
#   trusted             whether the masses of a sequence certify its probabilities
#
# Words: a *prefix* is an admissible stack (s_0 .. s_q) of states down to some level q; prefixes are numbered
# level by level, the children of a prefix next to each other. The *segment level* m is the one whose segments
# have explicit durations; levels above it are Markov, and so are those below, which move inside its segments.
# A boundary belongs to the row after it; "ended" masses are before a boundary, "started" ones behind it.



cdef inline const double *row_of(const double *scores, Py_ssize_t stride, Py_ssize_t row) noexcept nogil:
    return scores + row * stride


cdef inline void sweep_up(
    const Stack *s, double *ended, Py_ssize_t row, Py_ssize_t low, Py_ssize_t high,
) noexcept nogil:
    """Masses of the prefixes of levels ``low`` to ``high - 1`` that end with step ``row``, from level ``high``."""
    cdef const double *stop = row_of(s.stop, s.stop_stride, row)
    cdef const double *last = row_of(s.last, s.last_stride, row)
    cdef Py_ssize_t n, c
    cdef double mass
    for n in range(s.cut[high] - 1, s.cut[low] - 1, -1):
        mass = ZERO
        if s.begin[n] < s.last_stride:
            for c in range(s.begin[n], s.end[n]):
                mass = plus(mass, times(times(ended[c], stop[c]), last[c]))
        else:
            for c in range(s.begin[n], s.end[n]):
                mass = plus(mass, times(ended[c], stop[c]))
        ended[n] = mass


cdef inline void sweep_down(
    const Stack *s, const double *ended, double *started, double *moved, Py_ssize_t row,
    Py_ssize_t low, Py_ssize_t high, Py_ssize_t first_move, Py_ssize_t last_move,
) noexcept nogil:
    """Masses of the prefixes of levels ``low`` to ``high`` that start at ``row``.

    Level ``low - 1`` of ``started`` is given. Moves happen at levels ``first_move`` to ``last_move``.
    """
    cdef const double *start = row_of(s.start, s.start_stride, row)
    cdef const double *first = row_of(s.first, s.first_stride, row)
    cdef const double *move = row_of(s.move, s.move_stride, row)
    cdef const double *enter = row_of(s.enter, s.edge_stride, row)
    cdef const double *leave = row_of(s.leave, s.edge_stride, row - 1)
    cdef Py_ssize_t q, n, b, k, u, v
    cdef double mass
    for q in range(low, high + 1):
        for n in range(s.cut[q - 1], s.cut[q]):
            b = s.begin[n]
            k = s.end[n] - b
            for v in range(k):
                started[b + v] = times(started[n], start[b + v])
            if b < s.first_stride:
                for v in range(k):
                    started[b + v] = times(started[b + v], first[b + v])
            if q < first_move or q > last_move:
                continue
            if b < s.edge_stride:
                for u in range(k):
                    s.before[u] = times(ended[b + u], leave[b + u])
                block_forward(moved, s.before, move + s.block[n], k)
            else:
                block_forward(moved, ended + b, move + s.block[n], k)
            for v in range(k):
                mass = times(moved[v], enter[b + v]) if b < s.edge_stride else moved[v]
                started[b + v] = plus(mass, started[b + v])


cdef inline void cross(
    const Stack *s, double *entry, double *started, double *moved, Py_ssize_t row,
) noexcept nogil:
    """An open segment from the end of step ``row - 1`` to the start of ``row``: levels below m move.

    ``entry`` holds masses by prefix, swept up at step ``row - 1``; those of the last level are written anew.
    """
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], k, n
    cdef Py_ssize_t low = s.segment_level + 1
    cdef Py_ssize_t last_move = s.n_levels - 1
    cdef Py_ssize_t first_move = low
    cdef bint may_stay = s.persists
    if low == s.n_levels:  # there is nothing below: the segment just goes on
        return
    if s.lowest != NULL:
        first_move = max(first_move, s.lowest[row])
        last_move = min(last_move, s.highest[row])
        may_stay = may_stay and s.highest[row] == s.n_levels
    for n in range(s.cut[low - 1], s.cut[low]):
        started[n] = ZERO
    sweep_down(s, entry, started, moved, row, low, s.n_levels - 1, first_move, last_move)
    for k in range(base, base + s.n_stacks):
        entry[k] = plus(started[k], entry[k]) if may_stay else started[k]


cdef inline void open_segment(
    const Stack *s, const double *upper, double *entry, double *started, double *moved, Py_ssize_t row,
) noexcept nogil:
    """Stacks of a segment that starts at ``row``, from the masses of the prefixes down to level m."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], k, n
    cdef Py_ssize_t low = s.segment_level + 1
    for n in range(s.cut[low - 1], s.cut[low]):
        started[n] = upper[n]
    if low < s.n_levels:
        sweep_down(s, upper, started, moved, row, low, s.n_levels - 1, 1, 0)
    for k in range(base, base + s.n_stacks):
        entry[k] = started[k]


cdef inline double close_segments(
    const Stack *s, double *entry, double *upper, const double *duration, const double *local,
    const double *extra, Py_ssize_t row,
) noexcept nogil:
    """Step ``row`` in an open segment, and what ends with it; returns the mass that is open after the step."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], n, leaf = s.cut[s.segment_level]
    cdef double mass = ZERO
    for n in range(s.n_stacks):
        entry[base + n] = times(entry[base + n], local[n])
        if extra != NULL:
            entry[base + n] = times(entry[base + n], extra[s.leaf[n]])
        mass = plus(mass, entry[base + n])
    sweep_up(s, entry, row, s.segment_level, s.n_levels - 1)
    for n in range(s.n_leaves):
        if duration == NULL:
            upper[leaf + n] = plus(upper[leaf + n], entry[leaf + n])
        else:
            upper[leaf + n] = plus(upper[leaf + n], times(entry[leaf + n], duration[n]))
    return mass


cdef inline void end_row(const Stack *s, double *upper, Py_ssize_t row, Py_ssize_t r1) noexcept nogil:
    """What ends with step ``row``, from level m of ``upper`` to the levels above it."""
    cdef Py_ssize_t n
    if s.lowest != NULL and row + 1 < r1 and s.lowest[row + 1] > s.segment_level:  # nothing may end here
        for n in range(s.cut[s.segment_level + 1]):
            upper[n] = ZERO
    else:
        sweep_up(s, upper, row, 0, s.segment_level)


cdef double forward(
    const Stack *s, Py_ssize_t r0, Py_ssize_t r1, double *log_scale,
) noexcept nogil:
    """Inside pass over the rows of one sequence; fills ``local``, ``ended``, ``started`` and ``tails``.

    Returns the mass of all configurations, of which ``log_scale`` nats were divided out.
    """
    cdef Py_ssize_t n_upper = s.cut[s.segment_level + 1], leaf = s.cut[s.segment_level]
    cdef Py_ssize_t base = s.cut[s.n_levels - 1]
    cdef Py_ssize_t t, k, n, i, slot, head = 0, n_open = 0
    cdef bint is_leaf = s.segment_level == s.n_levels - 1
    cdef bint one_step = is_leaf and s.max_duration == 1 and not s.has_tail
    cdef double *upper = NULL
    cdef double *before = NULL
    cdef double *started
    cdef double *local
    cdef double *entry
    cdef double *tail
    cdef const double *duration
    cdef double opened, lost = 0.0
    cdef double mass = ZERO
    log_scale[0] = 0.0
    for n in range(s.n_leaves):
        s.prefix[n] = ONE
        s.open_mass[n] = ZERO
    for t in range(r0, r1):
        started = s.started + t * n_upper
        upper = s.ended + t * n_upper
        local = s.local + t * s.n_stacks
        # what starts here
        if t == r0:
            for n in range(s.cut[1]):
                started[n] = row_of(s.start, s.start_stride, t)[n]
            sweep_down(s, started, started, s.moved, t, 1, s.segment_level, 1, 0)
        else:
            for n in range(s.cut[1]):
                started[n] = ZERO
            if s.lowest == NULL:
                sweep_down(s, before, started, s.moved, t, 1, s.segment_level, 1, s.segment_level)
            else:
                sweep_down(s, before, started, s.moved, t, 1, s.segment_level, s.lowest[t], s.highest[t])
            if s.lowest != NULL and s.highest[t] <= s.segment_level:  # whatever was open has ended
                n_open = 0
                for n in range(s.n_leaves):
                    s.open_mass[n] = ZERO
            elif not is_leaf:
                slot = head
                for k in range(n_open):
                    cross(s, s.ring + slot * s.n_prefixes, s.down, s.moved, t)
                    slot = slot + 1 if slot + 1 < s.max_duration else 0
        opened = ZERO
        for n in range(leaf, n_upper):
            opened = plus(opened, started[n])
        if one_step:  # every segment ends where it starts: none is ever open
            add(log_scale, &lost, lift_row(s.step + t * s.n_stacks, local, opened, s.n_stacks))
            duration = s.duration + t * s.duration_stride
            for n in range(s.n_leaves):
                upper[leaf + n] = times(times(started[leaf + n], local[n]), duration[n])
            end_row(s, upper, t, r1)
            before = upper
            continue
        if not is_zero(opened):
            slot = head + n_open if head + n_open < s.max_duration else head + n_open - s.max_duration
            s.live[slot] = t
            n_open += 1
            if is_leaf:
                leaf_open(s, started + leaf, s.ring + slot * s.n_prefixes + base)
            else:
                open_segment(s, started, s.ring + slot * s.n_prefixes, s.down, s.moved, t)
        # step t in every open segment
        add(log_scale, &lost, lift_row(s.step + t * s.n_stacks, local, plus(mass, opened), s.n_stacks))
        for n in range(n_upper):
            upper[n] = ZERO
        mass = ZERO
        if is_leaf:
            leaf_begin(s, local, head, n_open)
        slot = head
        for k in range(n_open):
            i = s.live[slot]
            entry = s.ring + slot * s.n_prefixes
            slot = slot + 1 if slot + 1 < s.max_duration else 0
            duration = s.duration + i * s.duration_stride + (t - i) * s.n_leaves
            if is_leaf:
                leaf_forward(entry + base, local, duration, upper + leaf, s.n_leaves)
            else:
                mass = plus(mass, close_segments(s, entry, upper, duration, local, NULL, t))
        if is_leaf:
            for n in range(s.n_leaves):
                upper[leaf + n] = times(upper[leaf + n], s.prefix[n])
            mass = leaf_mass(s, head, n_open)
        if s.has_tail:  # segments longer than the longest explicit duration are one mass
            tail = s.tails + t * s.n_stacks
            for n in range(s.n_stacks):
                tail[n] = ZERO
            if t > r0 and (s.lowest == NULL or s.highest[t] > s.segment_level):
                tail_entry(s, t)
                mass = plus(mass, close_segments(s, s.up, upper, NULL, local, s.tail, t))
                for n in range(s.n_stacks):
                    tail[n] = s.up[base + n]
        if n_open and t - s.live[head] + 1 == s.max_duration:  # too old to stay explicit
            i = s.live[head]
            entry = s.ring + head * s.n_prefixes + base
            duration = s.duration + i * s.duration_stride + (t - i) * s.n_leaves
            for n in range(s.n_stacks):
                opened = times(entry[n], s.prefix[n]) if is_leaf else entry[n]
                if s.has_tail:
                    tail[n] = plus(tail[n], times(opened, duration[s.leaf[n]]))
                if is_leaf:
                    leaf_expire(s, n, opened)
            head = head + 1 if head + 1 < s.max_duration else 0
            n_open -= 1
        end_row(s, upper, t, r1)
        before = upper
    mass = ZERO
    for n in range(s.cut[1]):
        mass = plus(mass, upper[n])
    return mass


cdef inline void tail_entry(const Stack *s, Py_ssize_t row) noexcept nogil:
    """The tail at the start of step ``row``, into ``up``; what ended before and started, in ``up`` and ``down``."""
    cdef Py_ssize_t base = s.cut[s.n_levels - 1], n
    for n in range(s.n_stacks):
        s.up[base + n] = (s.tails + (row - 1) * s.n_stacks)[n]
    sweep_up(s, s.up, row - 1, s.segment_level + 1, s.n_levels - 1)
    cross(s, s.up, s.down, s.moved, row)


cdef void bind(
    Stack *s, const Py_ssize_t[:, ::1] prefixes, const Py_ssize_t[::1] cut, const Py_ssize_t[::1] leaf,
    Py_ssize_t segment_level, bint persists, const double[:, ::1] step, const double[:, ::1] start,
    const double[:, ::1] stop, const double[:, ::1] move, const double[:, ::1] enter,
    const double[:, ::1] leave, const double[:, ::1] first, const double[:, ::1] last,
    const double[:, :, ::1] duration, const double[::1] tail, const signed char[:, ::1] movers, double[:, ::1] local, double[:, ::1] started, double[:, ::1] ended,
    double[:, ::1] tails, double[:, ::1] ring, Py_ssize_t[::1] live, double[:, ::1] rows,
) noexcept nogil:
    """Sizes and addresses of arrays that ``PackedStacks`` has made to fit."""
    s.n_levels = cut.shape[0] - 1
    s.segment_level = segment_level
    s.n_prefixes = prefixes.shape[1]
    s.n_stacks = step.shape[1]
    s.n_leaves = duration.shape[2]
    s.max_duration = duration.shape[1]
    s.has_tail = tail.shape[0] > 0
    s.persists = persists
    s.cut = &cut[0]
    s.parent = &prefixes[0, 0]
    s.begin = &prefixes[1, 0]
    s.end = &prefixes[2, 0]
    s.block = &prefixes[3, 0]
    s.leaf = &leaf[0]
    s.step = &step[0, 0]
    s.start = &start[0, 0]
    s.stop = &stop[0, 0]
    s.move = &move[0, 0] if move.shape[1] else NULL
    s.enter = &enter[0, 0] if enter.shape[0] else NULL
    s.leave = &leave[0, 0] if leave.shape[0] else NULL
    s.first = &first[0, 0] if first.shape[0] else NULL
    s.last = &last[0, 0] if last.shape[0] else NULL
    s.duration = &duration[0, 0, 0]
    s.tail = &tail[0] if s.has_tail else NULL
    s.start_stride = start.shape[1] if start.shape[0] > 1 else 0
    s.stop_stride = stop.shape[1] if stop.shape[0] > 1 else 0
    s.move_stride = move.shape[1] if move.shape[0] > 1 else 0
    s.edge_stride = enter.shape[1] if enter.shape[0] > 0 else 0
    s.first_stride = first.shape[1] if first.shape[0] > 0 else 0
    s.last_stride = last.shape[1] if last.shape[0] > 0 else 0
    s.duration_stride = duration.shape[1] * duration.shape[2] if duration.shape[0] > 1 else 0
    s.lowest = &movers[0, 0] if movers.shape[1] else NULL
    s.highest = &movers[1, 0] if movers.shape[1] else NULL
    s.local = &local[0, 0]
    s.started = &started[0, 0]
    s.ended = &ended[0, 0]
    s.tails = &tails[0, 0] if s.has_tail else NULL
    s.ring = &ring[0, 0]
    s.live = &live[0]
    s.up = &rows[0, 0]
    s.down = &rows[1, 0]
    s.moved = &rows[2, 0]
    s.outer_end = &rows[3, 0]
    s.outer_start = &rows[4, 0]
    s.inner = &rows[5, 0]
    s.before = &rows[6, 0]
    s.through = &rows[7, 0]
    s.prefix = &rows[8, 0]
    s.open_mass = &rows[9, 0]


def inside(
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    const Py_ssize_t[::1] chosen,           # IN    numbers of the sequences to do
    const Py_ssize_t[:, ::1] prefixes,      # IN    (4, n_prefixes) parent, first and last child, block of moves
    const Py_ssize_t[::1] cut,              # IN    (n_levels + 1,) prefixes by level
    const Py_ssize_t[::1] leaf,             # IN    (n_stacks,) segment-level prefix of a stack
    Py_ssize_t segment_level,               # IN
    bint persists,                          # IN
    const double[:, ::1] step,              # IN    (n_rows, n_stacks), nats
    const double[:, ::1] start,             # IN    (1 or n_rows, n_prefixes), lifted, as all that follow
    const double[:, ::1] stop,              # IN    (1 or n_rows, n_prefixes)
    const double[:, ::1] move,              # IN    (1 or n_rows, n_moves)
    const double[:, ::1] enter,             # IN    (0 or n_rows, prefixes of the first levels)
    const double[:, ::1] leave,             # IN    (0 or n_rows, prefixes of the first levels)
    const double[:, ::1] first,             # IN    (0 or n_rows, prefixes of the first levels)
    const double[:, ::1] last,              # IN    (0 or n_rows, prefixes of the first levels)
    const double[:, :, ::1] duration,       # IN    (1 or n_rows, max_duration, n_leaves)
    const double[::1] tail,                 # IN    (0 or n_leaves,)
    const signed char[:, ::1] movers,       # IN    (2, 0 or n_rows) lowest and highest level that may move
    double[:, ::1] local,                   # OUT   (n_rows, n_stacks)
    double[:, ::1] started,                 # OUT   (n_rows, n_upper)
    double[:, ::1] ended,                   # OUT   (n_rows, n_upper)
    double[:, ::1] tails,                   # OUT   (0 or n_rows, n_stacks)
    double[:, ::1] ring,                    # WORK  (max_duration, n_prefixes)
    Py_ssize_t[::1] live,                   # WORK  (max_duration,)
    double[:, ::1] rows,                    # WORK  (10, n_prefixes)
    double[::1] log_z,                      # OUT   (n_sequences,), nats
):
    """Mass of all configurations of the chosen sequences, O(n_rows * max_duration * moves of one step)."""
    cdef Stack s
    cdef Py_ssize_t k, q
    cdef double log_scale, mass
    bind(
        &s, prefixes, cut, leaf, segment_level, persists, step, start, stop, move, enter, leave, first, last,
        duration, tail, movers, local, started, ended, tails, ring, live, rows,
    )
    with nogil:
        for k in range(chosen.shape[0]):
            q = chosen[k]
            mass = forward(&s, offsets[q], offsets[q + 1], &log_scale)
            log_z[q] = log_scale + nats(mass)
