# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums over the configurations of stacks in the log domain: exact at any scale, ten times slower than scaled."""
from libc.math cimport exp, log1p, INFINITY

from sklearn_seqlab.inference._stack_types cimport Shares, Stack
from sklearn_seqlab.inference._vector cimport add, max_of

cdef double ZERO = -INFINITY
cdef double ONE = 0.0


cdef inline double plus(double a, double b) noexcept nogil:
    if a < b:
        a, b = b, a
    return a if b == -INFINITY else a + log1p(exp(b - a))


include "_stack_nats.pxi"


cdef inline double times_up(double a, double b) noexcept nogil:
    return a + b


cdef inline double share(double mass, const Shares *p) noexcept nogil:
    return p.weight * exp(mass - p.unit)


cdef inline void leaf_backward(
    double *run, const double *local, const double *duration, const double *closing, const double *started,
    double *outer, double *duration_share, Py_ssize_t n, const Shares *p,
    double least, double least_duration, double least_closing,
) noexcept nogil:
    cdef Py_ssize_t k
    cdef double mass
    for k in range(n):
        run[k] += local[k]
        mass = run[k] + duration[k] + closing[k]
        outer[k] = plus(outer[k], mass)
        duration_share[k] += share(mass + started[k], p)


cdef inline void block_backward(
    const double *before, const double *behind, const double *block, const double *turned, double *through,
    double *block_share, double *enter_share, bint shared, Py_ssize_t k, const Shares *p,
) noexcept nogil:
    cdef Py_ssize_t u, v
    cdef double mass
    for u in range(k):
        through[u] = -INFINITY
        for v in range(k):
            mass = block[u * k + v] + behind[v]
            through[u] = plus(through[u], mass)
            mass = share(before[u] + mass, p)
            block_share[u * k + v] += mass
            if enter_share != NULL:
                enter_share[v] += mass


cdef inline void finish_moves(double *move_share, const double *move, Py_ssize_t n) noexcept nogil:
    pass


cdef inline double least_of(const double *masses, Py_ssize_t n) noexcept nogil:
    return -INFINITY


cdef inline bint prepare_shares(Shares *p, double mass, double weight) noexcept nogil:
    p.unit = mass
    p.weight = weight
    return -INFINITY < mass < INFINITY


cdef inline void raise_steps(const Stack *s, Py_ssize_t r0, Py_ssize_t r1) noexcept nogil:
    pass


cdef inline bint trusted(
    const Stack *s, const Shares *p, Py_ssize_t r0, Py_ssize_t r1, double weight,
) noexcept nogil:
    return True


include "_stack_inside.pxi"
include "_stack_outside.pxi"


cdef inline double uniform(unsigned long long *state) noexcept nogil:
    """In [0, 1), by the generator SplitMix64 (Steele, Lea and Flood, 2014)."""
    cdef unsigned long long z
    state[0] += 0x9E3779B97F4A7C15ULL
    z = state[0]
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL
    return ((z ^ (z >> 31)) >> 11) * 1.1102230246251565e-16


cdef inline Py_ssize_t pick(const double *candidates, Py_ssize_t n, unsigned long long *seed) noexcept nogil:
    """One at random, in proportion to its mass."""
    cdef Py_ssize_t k, last = 0
    cdef double top = max_of(candidates, n)
    cdef double total = 0.0, left
    for k in range(n):
        total += exp(candidates[k] - top)
    left = uniform(seed) * total
    for k in range(n):
        if candidates[k] > -INFINITY:
            last = k
            left -= exp(candidates[k] - top)
            if left < 0.0:
                return k
    return last


include "_stack_trace.pxi"
