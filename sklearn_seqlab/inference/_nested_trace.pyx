# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Backtracking through nested segments, one level at a time: the best children of known parents, or a draw.

No pointers are kept. The row of each parent on the path is computed again, for its one state and up to its one
end, and the steps that led there are compared anew.
"""
from libc.math cimport exp, INFINITY

from sklearn_seqlab.inference._nested_rows cimport log_row
from sklearn_seqlab.inference._vector cimport max_of


cdef inline Py_ssize_t choose(bint maximum, double *terms, Py_ssize_t n, double uniform) noexcept nogil:
    """The first largest of ``terms``, or one of them in proportion to its exponential; overwrites them."""
    cdef Py_ssize_t j, chosen = 0
    cdef double top, mass = 0.0, threshold
    if maximum:
        for j in range(1, n):
            if terms[j] > terms[chosen]:
                chosen = j
        return chosen
    top = max_of(terms, n)
    for j in range(n):
        terms[j] = exp(terms[j] - top)
        mass += terms[j]
    threshold = uniform * mass
    mass = 0.0
    for j in range(n):
        if terms[j] > 0.0:
            chosen = j       # the last one with any mass, should rounding overrun the sum
            mass += terms[j]
            if threshold < mass:
                break
    return chosen


def trace(
    bint maximum,                                   # IN    the best children, or children drawn at random
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), nats
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, ::1] ending,                 # IN    (n_total, n_states, n_children)
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass by the
                                                    #       same maximum or sum
    const Py_ssize_t[::1] child_span,               # IN    (n_total,), longest live child by start, 0 for none
    const Py_ssize_t[::1] parent,                   # IN    (n_total,), states of segments with a finite score
    const signed char[::1] parent_ends,             # IN    (n_total,), 1 at the last step of a parent segment
    const double[::1] uniform,                      # IN    (2 * n_total,), in [0, 1); not read if maximum
    double[:, :, :, ::1] rows,                      # WORK  (3, longest parent + 1, n_states, n_children)
    double[::1] terms,                              # WORK  (max(n_children, max_duration),)
    Py_ssize_t[::1] codes,                          # OUT   (n_total,), states of the children
    signed char[::1] ends,                          # INOUT (n_total,), zeros
):
    """Children of every parent segment, from its end backwards.

    Of equal scores the smallest last child is taken, then its earliest start, then the smallest child before it,
    and so on. Time O(n_total * (child_span * n_children + n_children**2)), memory one row.
    """
    cdef Py_ssize_t n_total = parent.shape[0], n_children = initialisation.shape[2]
    cdef Py_ssize_t i = 0, j, s, u, v, k, t, b, first, drawn = 0
    cdef double[:, :, ::1] alpha = rows[0], beta = rows[1], mass = rows[2]
    with nogil:
        for j in range(1, n_total + 1):
            if not parent_ends[j - 1]:
                continue
            s = parent[i]
            log_row(maximum, i, j, s, s, initialisation, transition, child, child_span, alpha, beta, mass, &terms[0])
            for v in range(n_children):
                terms[v] = alpha[j - i, s, v] + ending[j - 1, s, v]
            u = choose(maximum, &terms[0], n_children, uniform[drawn])
            drawn += 1
            b = j
            while True:
                first = max(i, b - child.shape[1])
                for k in range(first, b):
                    terms[k - first] = -INFINITY
                    if b - k <= child_span[k]:
                        terms[k - first] = beta[k - i, s, u] + child[k, b - k - 1, u]
                k = first + choose(maximum, &terms[0], b - first, uniform[drawn])
                drawn += 1
                for t in range(k, b):
                    codes[t] = u
                ends[b - 1] = 1
                if k == i:
                    break
                for v in range(n_children):
                    terms[v] = alpha[k - i, s, v] + transition[k, s, v, u]
                u = choose(maximum, &terms[0], n_children, uniform[drawn])
                drawn += 1
                b = k
            i = j
