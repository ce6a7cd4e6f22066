# What the algebras on scores in nats share, (logaddexp, +) and (max, +): all but ``plus``, which is defined before.


cdef inline double times(double a, double b) noexcept nogil:
    return a + b


cdef inline bint is_zero(double a) noexcept nogil:
    return a == -INFINITY


cdef inline double nats(double mass) noexcept nogil:
    return mass


cdef inline double lift_row(const double *scores, double *out, double mass, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        out[k] = scores[k]
    return 0.0


cdef inline void leaf_open(const Stack *s, const double *started, double *inner) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(s.n_leaves):
        inner[k] = started[k]


cdef inline void leaf_begin(const Stack *s, const double *local, Py_ssize_t head, Py_ssize_t n_open) noexcept nogil:
    pass


cdef inline double leaf_mass(const Stack *s, Py_ssize_t head, Py_ssize_t n_open) noexcept nogil:
    return 0.0  # no gauge is taken


cdef inline void leaf_expire(const Stack *s, Py_ssize_t n, double mass) noexcept nogil:
    pass


cdef inline void leaf_forward(
    double *inner, const double *local, const double *duration, double *upper, Py_ssize_t n,
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        inner[k] += local[k]
        upper[k] = plus(upper[k], inner[k] + duration[k])


cdef inline void block_forward(double *moved, const double *before, const double *block, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t u, v
    for v in range(k):
        moved[v] = -INFINITY
    for u in range(k):
        if before[u] > -INFINITY:
            for v in range(k):
                moved[v] = plus(moved[v], before[u] + block[u * k + v])
