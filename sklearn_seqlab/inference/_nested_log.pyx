# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sum-product and max-product over one level of nested segments, in nats: nothing over- or underflows.

The schedule is that of ``_nested_scaled``, whose docstring says what a level, a span and ``shortest`` are. One
exponential per product makes this five to twenty times slower.
"""
from libc.math cimport exp, log1p, INFINITY

from sklearn_seqlab.inference._nested_rows cimport log_row
from sklearn_seqlab.inference._vector cimport log_sum_exp, max_of


cdef inline double log_add(double a, double b) noexcept nogil:
    """``log(exp(a) + exp(b))``."""
    if a < b:
        a, b = b, a
    return a if b == -INFINITY else a + log1p(exp(b - a))


def inside(
    bint maximum,                                   # IN    best child in place of the sum over children
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), nats
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, ::1] ending,                 # IN    (n_total, n_states, n_children)
    const double[:, :, ::1] persistence,            # IN    (n_starts, n_durations, n_states)
    const Py_ssize_t[::1] span,                     # IN    (n_starts,), longest live parent, 0 for none
    Py_ssize_t shortest,                            # duration of persistence[:, 0]
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass
    const Py_ssize_t[::1] child_span,               # IN    (n_total,)
    double[:, :, :, ::1] rows,                      # WORK  (3, longest span + 1, n_states, n_children)
    double[::1] terms,                              # WORK  (n_children,)
    double[:, :, ::1] full,                         # INOUT like persistence, -inf; whole mass of each segment
):
    """Log-mass of every segment of the parent level, its own persistence included; best score if ``maximum``.

    Time O(starts * span * (child_span * n_states * n_children + n_states * n_children**2)).
    """
    cdef Py_ssize_t n_states = initialisation.shape[1], n_children = initialisation.shape[2], i, n, s, u
    cdef double[:, :, ::1] alpha = rows[0], beta = rows[1], mass = rows[2]
    with nogil:
        for i in range(span.shape[0]):
            if span[i] == 0:
                continue
            log_row(maximum, i, i + span[i], 0, n_states - 1, initialisation, transition, child, child_span,
                    alpha, beta, mass, &terms[0])
            for n in range(shortest, span[i] + 1):
                for s in range(n_states):
                    if persistence[i, n - shortest, s] == -INFINITY:
                        continue
                    for u in range(n_children):
                        terms[u] = alpha[n, s, u] + ending[i + n - 1, s, u]
                    full[i, n - shortest, s] = persistence[i, n - shortest, s] + (
                        max_of(&terms[0], n_children) if maximum else log_sum_exp(&terms[0], n_children))


def outside(
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), nats
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, ::1] ending,                 # IN    (n_total, n_states, n_children)
    const double[:, :, ::1] own,                    # IN    (n_starts, n_durations, n_states), log-mass around each
                                                    #       parent plus its persistence less log Z
    const Py_ssize_t[::1] span,                     # IN    (n_starts,), longest live parent, 0 for none
    Py_ssize_t shortest,                            # duration of own[:, 0]
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass
    const Py_ssize_t[::1] child_span,               # IN    (n_total,)
    double[:, :, :, ::1] rows,                      # WORK  (5, longest span + 1, n_states, n_children)
    double[::1] terms,                              # WORK  (max(n_states, n_children, max_duration),)
    double[:, :, ::1] around,                       # INOUT like child, -inf; log-mass around each child, less log Z
    double[:, :, ::1] starts,                       # INOUT like initialisation, zeros; probabilities
    double[:, :, :, ::1] moves,                     # INOUT like transition, zeros; probabilities
    double[:, :, ::1] stops,                        # INOUT like ending, zeros; probabilities
):
    """Log-mass around every child, and the expected initialisations, transitions and endings of the level."""
    cdef Py_ssize_t n_states = initialisation.shape[1], n_children = initialisation.shape[2]
    cdef Py_ssize_t i, k, n, s, u, v, n_lengths, reach
    cdef double[:, :, ::1] alpha = rows[0], beta = rows[1], mass = rows[2], lam = rows[3], zeta = rows[4]
    cdef double follows
    with nogil:
        for i in range(span.shape[0]):
            if span[i] == 0:
                continue
            reach = i + span[i]
            log_row(False, i, reach, 0, n_states - 1, initialisation, transition, child, child_span,
                    alpha, beta, mass, &terms[0])
            for n in range(1, span[i] + 1):
                for s in range(n_states):
                    for u in range(n_children):
                        lam[n, s, u] = -INFINITY
                        if n >= shortest:
                            lam[n, s, u] = own[i, n - shortest, s] + ending[i + n - 1, s, u]
                            stops[i + n - 1, s, u] += exp(alpha[n, s, u] + lam[n, s, u])
            for k in range(reach - 1, i - 1, -1):
                if child_span[k] == 0:
                    continue
                n_lengths = min(child_span[k], reach - k)
                for s in range(n_states):
                    for u in range(n_children):
                        for n in range(n_lengths):
                            terms[n] = child[k, n, u] + lam[k - i + n + 1, s, u]
                        zeta[k - i, s, u] = log_sum_exp(&terms[0], n_lengths)
                for n in range(n_lengths):
                    for u in range(n_children):
                        for s in range(n_states):
                            terms[s] = beta[k - i, s, u] + lam[k - i + n + 1, s, u]
                        around[k, n, u] = log_add(around[k, n, u], log_sum_exp(&terms[0], n_states))
                for s in range(n_states):
                    for u in range(n_children):
                        if k == i:
                            starts[i, s, u] = exp(initialisation[i, s, u] + zeta[0, s, u])
                            continue
                        for v in range(n_children):
                            terms[v] = transition[k, s, u, v] + zeta[k - i, s, v]
                            follows = alpha[k - i, s, u] + terms[v]
                            if follows > -745.0:
                                moves[k, s, u, v] += exp(follows)
                        lam[k - i, s, u] = log_add(lam[k - i, s, u], log_sum_exp(&terms[0], n_children))
