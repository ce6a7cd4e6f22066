# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sum-product over one level of nested segments, in plain masses.

A gauge (numbers of nats per time step, taken off the persistence of the levels) keeps masses in range; any gauge
gives the same probabilities. The kernels report how small and how large masses became, from which the caller
tells whether anything of weight can have been lost; what cannot be certified is done in the log domain.

A level is a parent and the children that tile it. ``span`` and ``child_span`` hold the longest live segment
from each start, 0 where none starts: known labels and ends make them short, and loops stop there.
Durations of the parent run from ``shortest``: the root, one segment over everything, is a level with a
single start and a single duration.
"""
from libc.math cimport exp, INFINITY
from libc.string cimport memset

from sklearn_seqlab.inference._nested_rows cimport (
    count4, end, keep_high, keep_low, move, pull, scaled_row, stop,
)
from sklearn_seqlab.inference._vector cimport axpy

cdef enum:
    BLOCK = 4


def live(
    const double[:, :, ::1] persistence,            # IN    (n_starts, n_durations, n_states), nats
    Py_ssize_t shortest,                            # duration of persistence[:, 0]
    Py_ssize_t n_total,
    Py_ssize_t[:, ::1] briefest,                    # OUT   (n_starts, n_states), shortest duration that is not
                                                    #       forbidden, 0 for none
    Py_ssize_t[:, ::1] longest,                     # OUT   (n_starts, n_states), the longest
):
    """Durations between which segments of a level live; looks no further than it has to."""
    cdef Py_ssize_t i, n, s, last
    with nogil:
        for i in range(persistence.shape[0]):
            last = min(n_total - i, shortest + persistence.shape[1] - 1)
            for s in range(persistence.shape[2]):
                briefest[i, s] = longest[i, s] = 0
                for n in range(last, shortest - 1, -1):
                    if persistence[i, n - shortest, s] > -INFINITY:
                        longest[i, s] = n
                        break
                if longest[i, s] == 0:
                    continue
                for n in range(shortest, last + 1):
                    if persistence[i, n - shortest, s] > -INFINITY:
                        briefest[i, s] = n
                        break


def weigh(
    const double[:, :, ::1] persistence,            # IN    (n_starts, n_durations, n_states), nats
    const double[::1] taken,                        # IN    (n_total + 1,), gauge of the level, cumulated from 0
    const Py_ssize_t[::1] span,                     # IN    (n_starts,), longest live segment, 0 for none
    Py_ssize_t shortest,                            # duration of persistence[:, 0]
    double[::1] extremes,                           # INOUT (2,), smallest finite exponent and the largest
    double[:, :, ::1] weight,                       # INOUT like persistence, zeros
):
    """Exponentiated persistence less the gauge; O(segments * n_states)."""
    cdef Py_ssize_t i, n, s
    cdef double value, off
    with nogil:
        for i in range(span.shape[0]):
            for n in range(shortest, span[i] + 1):
                off = taken[i + n] - taken[i]
                for s in range(persistence.shape[2]):
                    value = persistence[i, n - shortest, s] - off
                    weight[i, n - shortest, s] = exp(value)
                    if value > extremes[1]:
                        extremes[1] = value
                    if -INFINITY < value < extremes[0]:
                        extremes[0] = value


def inside(
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), exponentiated
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, ::1] ending,                 # IN    (n_total, n_states, n_children)
    const double[:, :, ::1] weight,                 # IN    (n_starts, n_durations, n_states), persistence
    const Py_ssize_t[::1] span,                     # IN    (n_starts,), longest live parent, 0 for none
    Py_ssize_t shortest,                            # duration of weight[:, 0]
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass
    const Py_ssize_t[::1] child_span,               # IN    (n_total,)
    double[:, :, ::1] alpha,                        # WORK  (longest span + 1, n_states, n_children)
    double[:, :, ::1] beta,                         # WORK  the same
    double[:, ::1] low,                             # INOUT (n_states, n_children), smallest positive alpha
    double[::1] high,                               # INOUT (n_states,), largest mass inside, without persistence
    double[:, :, ::1] full,                         # INOUT like weight, zeros; whole mass of each segment
):
    """Mass of every segment of the parent level, its own persistence included.

    Time O(starts * span * (child_span * n_states * n_children + n_states * n_children**2)).
    """
    cdef Py_ssize_t n_states = initialisation.shape[1], n_children = initialisation.shape[2], i, n, s
    cdef double *mass
    with nogil:
        for i in range(span.shape[0]):
            if span[i] == 0:
                continue
            scaled_row(i, i + span[i], initialisation, transition, child, child_span, &alpha[0, 0, 0], &beta[0, 0, 0])
            for n in range(1, span[i] + 1):
                keep_low(&low[0, 0], &alpha[n, 0, 0], n_states * n_children)
                if n < shortest:
                    continue
                mass = &full[i, n - shortest, 0]
                end(mass, &alpha[n, 0, 0], &ending[i + n - 1, 0, 0], n_states, n_children)
                for s in range(n_states):
                    high[s] = max(high[s], mass[s])
                    mass[s] *= weight[i, n - shortest, s]


def outside(
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), exponentiated
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, :, ::1] transposed,          # IN    the same with the last two axes exchanged
    const double[:, :, ::1] ending,                 # IN    (n_total, n_states, n_children)
    const double[:, :, ::1] own,                    # IN    (n_starts, n_durations, n_states), mass around each
                                                    #       parent times its persistence, divided by Z
    const Py_ssize_t[::1] span,                     # IN    (n_starts,), longest live parent, 0 for none
    Py_ssize_t shortest,                            # duration of own[:, 0]
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass
    const Py_ssize_t[::1] child_span,               # IN    (n_total,)
    double[:, :, :, ::1] alpha,                     # WORK  (4, longest span + 1, n_states, n_children)
    double[:, :, :, ::1] zeta,                      # WORK  the same
    double[:, :, ::1] beta,                         # WORK  (longest span + 1, n_states, n_children)
    double[:, :, ::1] lam,                          # WORK  the same
    double[:, ::1] high,                            # INOUT (n_states, n_children), largest mass of any row
    double[:, :, ::1] around,                       # INOUT like child, zeros; mass around each child, over Z
    double[:, :, ::1] starts,                       # OUT   like initialisation, probabilities
    double[:, :, :, ::1] moves,                     # INOUT like transition, zeros; lacks the factor transition
    double[:, :, ::1] stops,                        # INOUT like ending, zeros; probabilities
):
    """Mass around every child, and the expected initialisations, transitions and endings of the level.

    ``lam[n]`` is what surrounds a child that ends at boundary ``i + n``, ``zeta[n]`` what surrounds one that starts
    there. Transitions are added up four rows at a time: loads and stores of ``moves`` bound that loop.
    About three times the time of the inside pass.
    """
    cdef Py_ssize_t n_states = initialisation.shape[1], n_children = initialisation.shape[2]
    cdef Py_ssize_t width = n_states * n_children, i, k, n, s, u, n_lengths, reach, filled = 0
    cdef Py_ssize_t[BLOCK] first, last
    cdef double *a
    cdef double *z
    cdef double *l
    with nogil:
        for i in range(span.shape[0]):
            if span[i] == 0:
                continue
            reach = i + span[i]
            a, z, l = &alpha[filled, 0, 0, 0], &zeta[filled, 0, 0, 0], &lam[0, 0, 0]
            first[filled], last[filled] = i, reach - 1
            scaled_row(i, reach, initialisation, transition, child, child_span, a, &beta[0, 0, 0])
            memset(l, 0, min(shortest, reach - i + 1) * width * sizeof(double))
            for n in range(shortest, span[i] + 1):
                stop(l + n * width, &stops[i + n - 1, 0, 0], &own[i, n - shortest, 0], a + n * width,
                     &ending[i + n - 1, 0, 0], n_states, n_children)
            for k in range(reach - 1, i - 1, -1):
                n = (k - i + 1) * width
                if child_span[k] == 0:
                    keep_high(&high[0, 0], a + n, l + n, a + n, l + n, width)
                    continue
                for u in range(width):
                    z[(k - i) * width + u] = 0.0
                n_lengths = min(child_span[k], reach - k)
                for n in range(n_lengths):
                    pull(z + (k - i) * width, &around[k, n, 0], l + (k - i + n + 1) * width, &child[k, n, 0],
                         &beta[k - i, 0, 0], n_states, n_children)
                if k > i:
                    move(l + (k - i) * width, z + (k - i) * width, &transposed[k, 0, 0, 0], n_states, n_children)
                n = (k - i + 1) * width
                keep_high(&high[0, 0], a + n, l + n, &beta[k - i, 0, 0], z + n - width, width)
            for s in range(n_states):
                for u in range(n_children):
                    starts[i, s, u] = initialisation[i, s, u] * z[s * n_children + u] if child_span[i] else 0.0
            filled += 1
            if filled == BLOCK:
                add_moves(first, last, filled, child_span, alpha, zeta, moves)
                filled = 0
        add_moves(first, last, filled, child_span, alpha, zeta, moves)


cdef void add_moves(
    const Py_ssize_t *first,                        # IN    (filled,), starts of the rows
    const Py_ssize_t *last,                         # IN    (filled,), last boundary that a child can start at
    Py_ssize_t filled,
    const Py_ssize_t[::1] child_span,               # IN    (n_total,)
    const double[:, :, :, ::1] alpha,               # IN    (4, longest span + 1, n_states, n_children)
    const double[:, :, :, ::1] zeta,                # IN    the same
    double[:, :, :, ::1] moves,                     # INOUT (n_total, n_states, n_children, n_children)
) noexcept nogil:
    """``moves[j, s, u, v] += alpha[j, s, u] * zeta[j, s, v]`` of every row that passes boundary ``j``."""
    cdef Py_ssize_t n_states = alpha.shape[2], n_children = alpha.shape[3], j, s, u, b, beyond = 0, passing
    cdef const double *x[BLOCK]
    cdef const double *y[BLOCK]
    if filled == 0:
        return
    for b in range(filled):
        beyond = max(beyond, last[b] + 1)
    for j in range(first[0] + 1, beyond):
        if child_span[j] == 0:
            continue
        passing = 0
        for b in range(filled):
            if first[b] < j <= last[b]:
                x[passing], y[passing] = &alpha[b, j - first[b], 0, 0], &zeta[b, j - first[b], 0, 0]
                passing += 1
        if passing == BLOCK:
            count4(&moves[j, 0, 0, 0], x, y, n_states, n_children)
            continue
        for b in range(passing):
            for s in range(n_states):
                for u in range(n_children):
                    axpy(&moves[j, s, u, 0], x[b][s * n_children + u], y[b] + s * n_children, n_children)


def cover(
    const double[:, :, ::1] segment,                # IN    (n_starts, n_durations, n_states), probabilities
    const Py_ssize_t[::1] span,                     # IN    (n_starts,), longest live segment, 0 for none
    Py_ssize_t shortest,                            # duration of segment[:, 0]
    double[::1] running,                            # WORK  (n_states,)
    double[:, ::1] state,                           # INOUT (n_total, n_states), zeros
    double[::1] ends,                               # INOUT (n_total,), zeros
):
    """Probability of each state at each step, and of an end there, of one level; O(segments * n_states).

    Segments from one start are summed from the longest down: nothing is subtracted, so nothing cancels.
    """
    cdef Py_ssize_t n_states = segment.shape[2], i, n, s
    with nogil:
        for i in range(span.shape[0]):
            for s in range(n_states):
                running[s] = 0.0
            for n in range(span[i], 0, -1):
                for s in range(n_states):
                    if n >= shortest:
                        running[s] += segment[i, n - shortest, s]
                        ends[i + n - 1] += segment[i, n - shortest, s]
                    state[i + n - 1, s] += running[s]
