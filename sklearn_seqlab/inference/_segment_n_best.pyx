# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""The n best segmentations, or labellings by segments: every cell keeps its n best beginnings of a sequence."""
from libc.math cimport INFINITY


cdef inline unsigned long long stir(unsigned long long z) noexcept nogil:
    """A number that looks random, by SplitMix64 (Steele, Lea and Flood, 2014)."""
    z += 0x9E3779B97F4A7C15ULL
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL
    return z ^ (z >> 31)


cdef inline void keep(
    double *score, Py_ssize_t *origin, unsigned long long *mark, Py_ssize_t n, double value, Py_ssize_t source,
    unsigned long long own, bint distinct,
) noexcept nogil:
    """Put a beginning into a decreasing list of n, behind its equals; of the same labels only the better stays."""
    cdef Py_ssize_t k, last = n - 1
    if distinct:
        for k in range(n):
            if score[k] == -INFINITY:
                break
            if mark[k] == own:
                if score[k] >= value:
                    return
                last = k
                break
    k = last
    while k > 0 and score[k - 1] < value:
        score[k], origin[k], mark[k] = score[k - 1], origin[k - 1], mark[k - 1]
        k -= 1
    score[k], origin[k], mark[k] = value, source, own


def n_best(
    const double[:, ::1] step,              # IN    (n_steps, n_labels), one sequence, nats
    const double[::1] start,                # IN    (n_labels,) of the first segment
    const double[::1] stop,                 # IN    (n_labels,) of the last segment
    const double[:, ::1] move,              # IN    (1 or n_steps, n_labels**2), row label before, column label after
    const double[:, ::1] enter,             # IN    (0 or n_steps, n_labels) is moved into at this row
    const double[:, ::1] leave,             # IN    (0 or n_steps, n_labels) is moved out of after this row
    const double[:, :, ::1] duration,       # IN    (1 or n_steps, max_duration, n_labels)
    const double[::1] tail,                 # IN    (0 or n_labels,) per step beyond max_duration
    const signed char[:, ::1] movers,       # IN    (2, 0 or n_steps), as PackedStacks has them
    bint distinct,                          # IN    rank labellings, each by its best segmentation
    double[:, ::1] run,                     # WORK  (n_steps, n_labels), steps of open segments, by first row
    unsigned long long[:, ::1] marks,       # WORK  (n_steps + 1, n_labels)
    double[:, :, ::1] begun,                # WORK  (n_steps, n_labels, n), a segment starts, decreasing
    double[:, :, ::1] ended,                # WORK  (n_steps, n_labels, n), a segment ends, decreasing
    Py_ssize_t[:, :, ::1] begun_from,       # WORK  (n_steps, n_labels, n), label before * n + its rank
    Py_ssize_t[:, :, ::1] ended_from,       # WORK  (n_steps, n_labels, n), first row * n + its rank
    unsigned long long[:, :, ::1] begun_mark,  # WORK (n_steps, n_labels, n), sum of the marks of the labels
    unsigned long long[:, :, ::1] ended_mark,  # WORK (n_steps, n_labels, n)
    double[:, ::1] older,                   # WORK  (n_labels, n), segments open beyond max_duration, decreasing
    Py_ssize_t[:, ::1] older_from,          # WORK  (n_labels, n), first row * n + its rank
    unsigned long long[:, ::1] older_mark,  # WORK  (n_labels, n), without those of labels up to now
    double[::1] best,                       # OUT   (n,), decreasing, -inf where no further one exists
    Py_ssize_t[::1] best_from,              # WORK  (n,), last label * n + its rank
    unsigned long long[::1] best_mark,      # WORK  (n,)
    Py_ssize_t[:, ::1] labels,              # OUT   (n, n_steps)
    unsigned char[:, ::1] ends,             # OUT   (n, n_steps), 1 where a segment ends
):
    """O(n_steps * (max_duration + n_labels) * n_labels * n).

    The best segmentation is the one of viterbi: of equal ones that of the smallest label, then of the longest
    segment, from the end. Whether two beginnings have the same labels is told by the sums of random marks of
    (row, label); that different ones agree has a probability of 5e-20 per pair.
    """
    cdef Py_ssize_t n_steps = step.shape[0], n_labels = step.shape[1], n = best.shape[0]
    cdef Py_ssize_t max_duration = duration.shape[1], n_movers = movers.shape[1]
    cdef Py_ssize_t t, i, j, u, v, k, a, at, first = 0
    cdef bint has_tail = tail.shape[0] > 0, may_end
    cdef double value, gain
    cdef unsigned long long covered
    with nogil:
        for u in range(n_labels):
            marks[0, u] = 0
            for k in range(n):
                older[u, k] = -INFINITY
            for t in range(n_steps):
                marks[t + 1, u] = marks[t, u] + stir(t * n_labels + u)
        for t in range(n_steps):
            for u in range(n_labels):
                run[t, u] = 0.0
                for k in range(n):
                    begun[t, u, k] = ended[t, u, k] = -INFINITY
            if n_movers and t > 0 and movers[1, t] <= 1:
                first = t  # whatever was open has ended
                for u in range(n_labels):
                    for k in range(n):
                        older[u, k] = -INFINITY
            # what starts here
            if t == 0:
                for u in range(n_labels):
                    begun[0, u, 0], begun_mark[0, u, 0] = start[u], 0
            elif not n_movers or movers[0, t] <= 1 <= movers[1, t]:
                at = t if move.shape[0] > 1 else 0
                for u in range(n_labels):
                    for v in range(n_labels):
                        gain = move[at, u * n_labels + v]
                        if enter.shape[0]:
                            gain += leave[t - 1, u] + enter[t, v]
                        for k in range(n):
                            value = ended[t - 1, u, k] + gain
                            if not value > begun[t, v, n - 1]:
                                break
                            keep(
                                &begun[t, v, 0], &begun_from[t, v, 0], &begun_mark[t, v, 0], n, value, u * n + k,
                                ended_mark[t - 1, u, k], False,
                            )
            # step t in what is open, and what ends with it, the longest first
            may_end = not n_movers or t + 1 == n_steps or movers[0, t + 1] <= 1
            for u in range(n_labels * has_tail):
                for k in range(n):
                    older[u, k] += step[t, u] + tail[u]
                    if may_end and older[u, k] > -INFINITY:
                        keep(
                            &ended[t, u, 0], &ended_from[t, u, 0], &ended_mark[t, u, 0], n, older[u, k],
                            older_from[u, k], older_mark[u, k] + marks[t + 1, u], False,
                        )
            for i in range(max(first, t + 1 - max_duration), t + 1):
                at = i if duration.shape[0] > 1 else 0
                a = t + 1 - i
                for u in range(n_labels):
                    run[i, u] += step[t, u]
                    gain = run[i, u] + duration[at, a - 1, u]
                    for k in range(n):
                        value = begun[i, u, k] + gain
                        if not value > -INFINITY:
                            break
                        covered = begun_mark[i, u, k] - marks[i, u]
                        if may_end and value > ended[t, u, n - 1]:
                            keep(
                                &ended[t, u, 0], &ended_from[t, u, 0], &ended_mark[t, u, 0], n, value, i * n + k,
                                covered + marks[t + 1, u], distinct,
                            )
                        if has_tail and a == max_duration and value > older[u, n - 1]:
                            keep(
                                &older[u, 0], &older_from[u, 0], &older_mark[u, 0], n, value, i * n + k, covered,
                                distinct,
                            )
                        elif not may_end or not value > ended[t, u, n - 1]:
                            break
        for k in range(n):
            best[k] = -INFINITY
        for u in range(n_labels):
            for k in range(n):
                value = ended[n_steps - 1, u, k] + stop[u]
                if not value > best[n - 1]:
                    break
                keep(
                    &best[0], &best_from[0], &best_mark[0], n, value, u * n + k, ended_mark[n_steps - 1, u, k], False,
                )
        for a in range(n):
            if best[a] == -INFINITY:
                break
            u, k = best_from[a] // n, best_from[a] % n
            j = n_steps
            while True:
                i, k = ended_from[j - 1, u, k] // n, ended_from[j - 1, u, k] % n
                for t in range(i, j):
                    labels[a, t], ends[a, t] = u, t == j - 1
                if i == 0:
                    break
                j = i
                u, k = begun_from[i, u, k] // n, begun_from[i, u, k] % n
