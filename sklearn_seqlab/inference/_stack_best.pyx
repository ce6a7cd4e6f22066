# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Best configurations of stacks: the inside pass in the (max, +) algebra. What it fills, ``_stack_trace`` reads."""
from libc.math cimport INFINITY

from sklearn_seqlab.inference._stack_types cimport Shares, Stack
from sklearn_seqlab.inference._vector cimport add

cdef double ZERO = -INFINITY
cdef double ONE = 0.0


cdef inline double plus(double a, double b) noexcept nogil:
    return a if a > b else b


include "_stack_nats.pxi"


include "_stack_inside.pxi"


cdef inline Py_ssize_t pick(const double *candidates, Py_ssize_t n, unsigned long long *seed) noexcept nogil:
    """The best; the first of equals."""
    cdef Py_ssize_t k, best = 0
    for k in range(1, n):
        if candidates[k] > candidates[best]:
            best = k
    return best


include "_stack_trace.pxi"
