# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums over the configurations of stacks in scaled masses, with a certificate.

Before each step all open masses are divided by their sum; what is then too small for a double is lost. It may
have mattered: a state that is hopeless now can be the only one that survives later. The certificate is an
interval. The inside pass rounds what is too small down to nothing, so that its sum over all configurations is a
lower bound. The outside pass rounds up to ``TINY`` whatever is not forbidden, so that its sum, the outside masses
of the first step, is an upper bound. Where both agree, neither has lost or added anything that matters: the errors
of all steps have one sign, and their sum is the difference.
"""
from libc.math cimport log, INFINITY

from sklearn_seqlab.inference._stack_types cimport Shares, Stack
from sklearn_seqlab.inference._vector cimport add, axpy, exp_of, matvec, max_of, vecmat

cdef extern from *:
    """
    #define SEQLAB_TINY 1e-300

    /* The product of two masses, each nothing or at least TINY; never nothing unless one of them is. NaN stays. */
    static CYTHON_INLINE double seqlab_times_up(double a, double b)
    {
        double least = a < b ? a : b;
        const double product = a * b;
        least = least < SEQLAB_TINY ? least : SEQLAB_TINY;
        return product < least ? least : product;
    }

    static CYTHON_INLINE void seqlab_leaf_forward(
        const double *CYTHON_RESTRICT inner, const double *CYTHON_RESTRICT duration,
        double *CYTHON_RESTRICT upper, Py_ssize_t n)
    {
        Py_ssize_t k;
        for (k = 0; k < n; k++) upper[k] += inner[k] * duration[k];
    }

    static CYTHON_INLINE void seqlab_leaf_backward_plain(
        double *CYTHON_RESTRICT run, const double *CYTHON_RESTRICT local,
        const double *CYTHON_RESTRICT duration, const double *CYTHON_RESTRICT closing,
        const double *CYTHON_RESTRICT started, double *CYTHON_RESTRICT outer,
        double *CYTHON_RESTRICT share, double unit, Py_ssize_t n)
    {
        Py_ssize_t k;
        for (k = 0; k < n; k++) {
            const double x = run[k] * local[k];
            const double y = x * duration[k] * closing[k];
            run[k] = x;
            outer[k] += y;
            share[k] += y * started[k] * unit;
        }
    }

    static CYTHON_INLINE void seqlab_leaf_backward_up(
        double *CYTHON_RESTRICT run, const double *CYTHON_RESTRICT local,
        const double *CYTHON_RESTRICT duration, const double *CYTHON_RESTRICT closing,
        const double *CYTHON_RESTRICT started, double *CYTHON_RESTRICT outer,
        double *CYTHON_RESTRICT share, double unit, Py_ssize_t n)
    {
        Py_ssize_t k;
        for (k = 0; k < n; k++) {
            const double x = seqlab_times_up(run[k], local[k]);
            const double y = seqlab_times_up(seqlab_times_up(x, duration[k]), closing[k]);
            run[k] = x;
            outer[k] += y;
            share[k] += y * started[k] * unit;
        }
    }
    """
    double times_up "seqlab_times_up"(double a, double b) noexcept nogil
    void leaf_forward_by "seqlab_leaf_forward"(
        const double *inner, const double *duration, double *upper, Py_ssize_t n,
    ) noexcept nogil
    void leaf_backward_plain "seqlab_leaf_backward_plain"(
        double *run, const double *local, const double *duration, const double *closing,
        const double *started, double *outer, double *share, double unit, Py_ssize_t n,
    ) noexcept nogil
    void leaf_backward_up "seqlab_leaf_backward_up"(
        double *run, const double *local, const double *duration, const double *closing,
        const double *started, double *outer, double *share, double unit, Py_ssize_t n,
    ) noexcept nogil

cdef double ZERO = 0.0
cdef double ONE = 1.0
cdef double SMALLEST_SUM = 1e-250
cdef double TINY = 1e-300
cdef double SMALL = 1e-280
cdef double DEVIATION = 1e-9


cdef inline double plus(double a, double b) noexcept nogil:
    return a + b


cdef inline double times(double a, double b) noexcept nogil:
    return a * b


cdef inline bint is_zero(double a) noexcept nogil:
    return a == 0.0


cdef inline double nats(double mass) noexcept nogil:
    return log(mass) if mass > 0.0 else -INFINITY


cdef inline double lift_row(const double *scores, double *out, double mass, Py_ssize_t n) noexcept nogil:
    """Divide by the open mass and by the largest factor; minus infinity if nothing is left."""
    cdef Py_ssize_t k
    cdef double unit, top = max_of(scores, n)
    if top == -INFINITY or not 0.0 < mass < INFINITY:
        for k in range(n):
            out[k] = 0.0
        return -INFINITY
    exp_of(out, scores, top, n)
    unit = 1.0 / mass
    for k in range(n):
        out[k] = out[k] * unit if out[k] >= TINY else 0.0
    return top + log(mass)


# Open segments are held divided by the product of what they have passed since they started, so that a step costs
# them nothing; the product is multiplied in before it leaves this range.
cdef double LEAST_PREFIX = 1e-100
cdef double GREATEST_PREFIX = 1e100


cdef inline void leaf_open(const Stack *s, const double *started, double *inner) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(s.n_leaves):
        # a denormal would round up at its very end, and is slow
        inner[k] = started[k] / s.prefix[k] if started[k] / s.prefix[k] >= TINY else 0.0
        s.open_mass[k] += started[k]


cdef inline void leaf_begin(const Stack *s, const double *local, Py_ssize_t head, Py_ssize_t n_open) noexcept nogil:
    cdef Py_ssize_t base = s.n_prefixes - s.n_stacks, k, j
    cdef double *entry
    for k in range(s.n_leaves):
        s.prefix[k] *= local[k]
        s.open_mass[k] *= local[k]
        if not LEAST_PREFIX < s.prefix[k] < GREATEST_PREFIX:
            for j in range(n_open):
                entry = s.ring + ((head + j) % s.max_duration) * s.n_prefixes + base
                entry[k] = entry[k] * s.prefix[k] if entry[k] * s.prefix[k] >= TINY else 0.0
            s.prefix[k] = 1.0


cdef inline double leaf_mass(const Stack *s, Py_ssize_t head, Py_ssize_t n_open) noexcept nogil:
    """All open mass; any positive value is right for the gauge, which this is for."""
    cdef Py_ssize_t base = s.n_prefixes - s.n_stacks, k, j
    cdef double mass = 0.0
    for k in range(s.n_leaves):
        mass += s.open_mass[k]
    if mass > 0.0:
        return mass
    mass = 0.0  # nothing, or all of it was lost in subtracting what expired
    for k in range(s.n_leaves):
        s.open_mass[k] = 0.0
        for j in range(n_open):
            s.open_mass[k] += s.ring[((head + j) % s.max_duration) * s.n_prefixes + base + k]
        s.open_mass[k] *= s.prefix[k]
        mass += s.open_mass[k]
    return mass


cdef inline void leaf_expire(const Stack *s, Py_ssize_t n, double mass) noexcept nogil:
    s.open_mass[n] = max(s.open_mass[n] - mass, 0.0)


cdef inline void leaf_forward(
    double *inner, const double *local, const double *duration, double *upper, Py_ssize_t n,
) noexcept nogil:
    leaf_forward_by(inner, duration, upper, n)


cdef inline double share(double mass, const Shares *p) noexcept nogil:
    return mass * p.unit


cdef inline void leaf_backward(
    double *run, const double *local, const double *duration, const double *closing, const double *started,
    double *outer, double *duration_share, Py_ssize_t n, const Shares *p,
    double least, double least_duration, double least_closing,
) noexcept nogil:
    cdef bint plain = least >= TINY and least * least_duration >= TINY
    plain = plain and least * least_duration * least_closing >= TINY
    if plain:  # then the same, faster
        leaf_backward_plain(run, local, duration, closing, started, outer, duration_share, p.unit, n)
    else:
        leaf_backward_up(run, local, duration, closing, started, outer, duration_share, p.unit, n)


cdef inline void block_forward(double *moved, const double *before, const double *block, Py_ssize_t k) noexcept nogil:
    vecmat(moved, before, block, k)


cdef inline void block_backward(
    const double *before, const double *behind, const double *block, const double *turned, double *through,
    double *block_share, double *enter_share, bint shared, Py_ssize_t k, const Shares *p,
) noexcept nogil:
    """Where all rows share the scores of moves, their shares wait for ``finish_moves`` to be multiplied by them."""
    cdef Py_ssize_t u, v
    if turned != NULL:
        vecmat(through, behind, turned, k)
    else:
        matvec(through, block, behind, k)
    for u in range(k):
        if through[u] < SMALL:  # what it lost may be more than rounding
            through[u] = 0.0
            for v in range(k):
                through[u] += times_up(block[u * k + v], behind[v])
    for u in range(k):
        if before[u] == 0.0:
            continue
        if shared:
            axpy(block_share + u * k, before[u] * p.unit, behind, k)
        else:
            for v in range(k):
                block_share[u * k + v] += before[u] * p.unit * block[u * k + v] * behind[v]
        if enter_share != NULL:
            for v in range(k):
                enter_share[v] += before[u] * p.unit * block[u * k + v] * behind[v]


cdef inline void finish_moves(double *move_share, const double *move, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        move_share[k] = move_share[k] * move[k] if move[k] > 0.0 else 0.0  # a factor of zero may meet infinity


cdef inline double least_of(const double *masses, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    cdef double least = INFINITY
    for k in range(n):
        if 0.0 < masses[k] < least:
            least = masses[k]
    return least


cdef inline bint prepare_shares(Shares *p, double mass, double weight) noexcept nogil:
    if not SMALLEST_SUM < mass < 1 / SMALLEST_SUM:
        return False
    p.unit = weight / mass
    p.inside = mass
    return True


cdef inline void raise_steps(const Stack *s, Py_ssize_t r0, Py_ssize_t r1) noexcept nogil:
    """Between the passes: factors of allowed stacks that ``lift_row`` has rounded down are rounded up."""
    cdef const double *scores
    cdef double *local
    cdef double least
    cdef Py_ssize_t t, n
    for t in range(r0, r1):
        scores = s.step + t * s.n_stacks
        local = s.local + t * s.n_stacks
        least = max(TINY, TINY * max_of(local, s.n_stacks))  # the best stack has a factor of one, but for the mass
        for n in range(s.n_stacks):
            if local[n] < least and scores[n] > -INFINITY:
                local[n] = least


cdef inline bint trusted(
    const Stack *s, const Shares *p, Py_ssize_t r0, Py_ssize_t r1, double weight,
) noexcept nogil:
    cdef Py_ssize_t t, n
    cdef double covered
    if not -DEVIATION * p.inside <= p.outside - p.inside <= DEVIATION * p.inside:
        return False
    for t in range(r0, r1):
        covered = 0.0
        for n in range(s.n_stacks):
            covered += p.step[t * s.n_stacks + n]
        if not -DEVIATION * weight <= covered - weight <= DEVIATION * weight:
            return False
    return True


include "_stack_inside.pxi"
include "_stack_outside.pxi"
