# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums over the configurations of stacks in scaled masses, with a certificate.

Before each step all open masses are divided by their sum. Whatever underflowed was then below 2.3e-308, and its
share of the result is at most that times its outside mass, which is computed anyway: a sequence with an outside
mass above ``LARGEST`` (relative to the result), or whose probabilities do not sum to one, is not certified.
"""
from libc.math cimport exp, isfinite, log, INFINITY

from sklearn_seqlab.inference._stack_types cimport Shares, Stack
from sklearn_seqlab.inference._vector cimport add, axpy, matvec, max_of, vecmat

cdef extern from *:
    """
    static CYTHON_INLINE void seqlab_leaf_forward(
        double *CYTHON_RESTRICT inner, const double *CYTHON_RESTRICT local,
        const double *CYTHON_RESTRICT duration, double *CYTHON_RESTRICT upper,
        double *CYTHON_RESTRICT open, Py_ssize_t n)
    {
        Py_ssize_t k;
        for (k = 0; k < n; k++) {
            const double x = inner[k] * local[k];
            inner[k] = x;
            open[k] += x;
            upper[k] += x * duration[k];
        }
    }

    static CYTHON_INLINE void seqlab_leaf_backward(
        double *CYTHON_RESTRICT run, const double *CYTHON_RESTRICT local,
        const double *CYTHON_RESTRICT duration, const double *CYTHON_RESTRICT closing,
        const double *CYTHON_RESTRICT started, double *CYTHON_RESTRICT outer,
        double *CYTHON_RESTRICT share, double unit, Py_ssize_t n)
    {
        Py_ssize_t k;
        for (k = 0; k < n; k++) {
            const double x = run[k] * local[k], y = x * duration[k] * closing[k];
            run[k] = x;
            outer[k] += y;
            share[k] += y * started[k] * unit;
        }
    }
    """
    void leaf_forward "seqlab_leaf_forward"(
        double *inner, const double *local, const double *duration, double *upper, double *open, Py_ssize_t n,
    ) noexcept nogil
    void leaf_backward_by "seqlab_leaf_backward"(
        double *run, const double *local, const double *duration, const double *closing,
        const double *started, double *outer, double *share, double unit, Py_ssize_t n,
    ) noexcept nogil

cdef double ZERO = 0.0
cdef double ONE = 1.0
cdef double SMALLEST_SUM = 1e-250
cdef double LARGEST = 1e280
cdef double DEVIATION = 1e-8


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
    cdef double top = max_of(scores, n)
    if top == -INFINITY or not 0.0 < mass < INFINITY:
        for k in range(n):
            out[k] = 0.0
        return -INFINITY
    for k in range(n):
        out[k] = exp(scores[k] - top) * (1.0 / mass)
    return top + log(mass)


cdef inline double share(double mass, const Shares *p) noexcept nogil:
    return mass * p.unit


cdef inline void leaf_backward(
    double *run, const double *local, const double *duration, const double *closing, const double *started,
    double *outer, double *duration_share, Py_ssize_t n, const Shares *p,
) noexcept nogil:
    leaf_backward_by(run, local, duration, closing, started, outer, duration_share, p.unit, n)


cdef inline void block_forward(double *moved, const double *before, const double *block, Py_ssize_t k) noexcept nogil:
    vecmat(moved, before, block, k)


cdef inline void block_backward(
    const double *before, const double *behind, const double *block, double *through, double *block_share,
    double *enter_share, bint shared, Py_ssize_t k, const Shares *p,
) noexcept nogil:
    """Where all rows share the scores of moves, their shares wait for ``finish_moves`` to be multiplied by them."""
    cdef Py_ssize_t u, v
    matvec(through, block, behind, k)
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
        move_share[k] *= move[k]


cdef inline bint prepare_shares(Shares *p, double mass, double weight) noexcept nogil:
    p.largest = 0.0
    if not SMALLEST_SUM < mass < 1 / SMALLEST_SUM:
        return False
    p.unit = weight / mass
    p.weight = mass  # what outside masses are compared with
    return True


cdef inline bint trusted(
    const Stack *s, const Shares *p, Py_ssize_t r0, Py_ssize_t r1, double weight,
) noexcept nogil:
    cdef Py_ssize_t t, n
    cdef double covered
    if not p.largest / p.weight < LARGEST:
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
