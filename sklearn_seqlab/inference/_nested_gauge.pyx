# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""How fast the mass of a nested segment model grows: the gauge of ``_nested_scaled``.

Every level is taken for Markov, with one factor for a segment that begins at a step and one for a segment that
goes on. Of the distribution over stacks of states only that of neighbouring levels is kept. With two levels, or
three under a single root state, nothing is lost by this; elsewhere a gauge need not be exact.
"""
from libc.math cimport log, INFINITY


def growth(
    const double[:, ::1] begin,             # IN    (n_total, sum of sizes), levels side by side, exponentiated
    const double[:, ::1] stay,              # IN    (n_total, sum of sizes)
    const double[:, ::1] initialisation,    # IN    (n_total, sum of sizes[d] * sizes[d + 1])
    const double[:, ::1] transition,        # IN    (n_total, sum of sizes[d] * sizes[d + 1]**2)
    const double[:, ::1] ending,            # IN    (n_total, sum of sizes[d] * sizes[d + 1])
    const Py_ssize_t[::1] sizes,            # IN    (n_levels,), states of each level
    double[:, ::1] state_work,              # WORK  (5, sum of sizes)
    double[:, ::1] pair_work,               # WORK  (2, sum of sizes[d] * sizes[d + 1])
    double[:, ::1] forward,                 # INOUT (n_total, sum of sizes), zeros; distribution of each level's
                                            #       state given what came before
    double[::1] gauge,                      # OUT   (n_total,), nats; 0 where the mass vanished
):
    """Growth of the forward mass at each step; O(n_total * sum of sizes[d] * sizes[d + 1]**2)."""
    cdef Py_ssize_t t, s, n_total = begin.shape[0], n_roots = sizes[0]
    cdef double total
    cdef bint fresh = True
    cdef double *fresh_mass = &state_work[0, 0]     # of a segment that begins, with all that begins in it
    cdef double *kept_mass = &state_work[1, 0]      # of a segment that goes on, whatever its children do
    cdef double *done = &state_work[2, 0]           # of the endings of all that is below a segment
    cdef double *persisted = &state_work[3, 0]      # forward mass of segments that went on
    cdef double *begun = &state_work[4, 0]          # forward mass of segments that began
    cdef double *given = &pair_work[0, 0]           # distribution of the child given its parent
    cdef double *moved = &pair_work[1, 0]           # mass of moves into each child
    with nogil:
        for t in range(n_total):
            upwards(begin, stay, initialisation, transition, ending, sizes, t, fresh,
                    fresh_mass, kept_mass, done, given, moved)
            total = 0.0
            for s in range(n_roots):
                if fresh:
                    begun[s], persisted[s] = fresh_mass[s], 0.0
                else:
                    begun[s], persisted[s] = 0.0, persisted[s] * kept_mass[s]
                total += begun[s] + persisted[s]
            if not 0.0 < total < INFINITY:
                gauge[t], fresh = 0.0, True
                continue
            gauge[t], fresh = log(total), False
            for s in range(n_roots):
                begun[s] /= total
                persisted[s] /= total
            downwards(begin, stay, initialisation, sizes, t, fresh_mass, kept_mass, persisted, begun, given, moved)
            for s in range(begin.shape[1]):
                forward[t, s] = persisted[s] + begun[s]
            for s in range(n_roots):
                persisted[s] += begun[s]


cdef void upwards(
    const double[:, ::1] begin, const double[:, ::1] stay, const double[:, ::1] initialisation,
    const double[:, ::1] transition, const double[:, ::1] ending, const Py_ssize_t[::1] sizes,
    Py_ssize_t t,
    bint fresh,                             # nothing is known of the step before
    double *fresh_mass,                     # OUT   (sum of sizes,)
    double *kept_mass,                      # OUT   (sum of sizes,)
    double *done,                           # OUT   (sum of sizes,)
    const double *given,                    # IN    (sum of pairs,)
    double *moved,                          # OUT   (sum of pairs,)
) noexcept nogil:
    """Masses of segments that begin and that go on at step ``t``, from the bottom up."""
    cdef Py_ssize_t d, s, u, v, n, m, state = begin.shape[1], pair = initialisation.shape[1]
    cdef Py_ssize_t triple = transition.shape[1], below, here
    cdef double mass
    for d in range(sizes.shape[0] - 1, -1, -1):
        n = sizes[d]
        below, state = state, state - n
        if d == sizes.shape[0] - 1:
            for s in range(n):
                fresh_mass[state + s], kept_mass[state + s] = begin[t, state + s], stay[t, state + s]
                done[state + s] = 1.0
            continue
        m = sizes[d + 1]
        pair, triple = pair - n * m, triple - n * m * m
        for s in range(n):
            here = pair + s * m
            mass = 0.0
            for u in range(m):
                mass += initialisation[t, here + u] * fresh_mass[below + u]
            fresh_mass[state + s] = begin[t, state + s] * mass
            if fresh:
                continue
            done[state + s] = mass = 0.0
            for v in range(m):
                moved[here + v] = 0.0
            for u in range(m):
                done[state + s] += given[here + u] * done[below + u] * ending[t - 1, here + u]
                for v in range(m):
                    moved[here + v] += given[here + u] * done[below + u] * transition[t, triple + (s * m + u) * m + v]
            for u in range(m):
                mass += given[here + u] * kept_mass[below + u] + moved[here + u] * fresh_mass[below + u]
            kept_mass[state + s] = stay[t, state + s] * mass


cdef void downwards(
    const double[:, ::1] begin, const double[:, ::1] stay, const double[:, ::1] initialisation,
    const Py_ssize_t[::1] sizes,
    Py_ssize_t t,
    const double *fresh_mass,               # IN    (sum of sizes,)
    const double *kept_mass,                # IN    (sum of sizes,)
    double *persisted,                      # INOUT (sum of sizes,), the root's given
    double *begun,                          # INOUT (sum of sizes,), the root's given
    double *given,                          # INOUT (sum of pairs,)
    const double *moved,                    # IN    (sum of pairs,)
) noexcept nogil:
    """Where the mass went at step ``t``, from the root down."""
    cdef Py_ssize_t d, s, u, n, m, state = 0, pair = 0, below
    cdef double on, anew, kept, entered, mass
    for d in range(sizes.shape[0] - 1):
        n, m = sizes[d], sizes[d + 1]
        below = state + n
        for u in range(m):
            persisted[below + u] = begun[below + u] = 0.0
        for s in range(n):
            on = anew = mass = 0.0
            if persisted[state + s] > 0.0:
                on = persisted[state + s] * stay[t, state + s] / kept_mass[state + s]
            if begun[state + s] > 0.0:
                anew = begun[state + s] * begin[t, state + s] / fresh_mass[state + s]
            for u in range(m):
                kept = entered = 0.0
                if on > 0.0:
                    kept = on * given[pair + u] * kept_mass[below + u]
                    entered = on * moved[pair + u] * fresh_mass[below + u]
                if anew > 0.0:
                    entered += anew * initialisation[t, pair + u] * fresh_mass[below + u]
                persisted[below + u] += kept
                begun[below + u] += entered
                given[pair + u] = kept + entered
                mass += kept + entered
            for u in range(m):
                given[pair + u] = given[pair + u] / mass if mass > 0.0 else 0.0
            pair += m
        state = below
