# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One row of a nested segment model: everything that a parent segment started at ``i`` can contain.

A row holds, for every boundary ``i + n`` and every pair (parent state s, child state u),

- ``alpha[n, s, u]``: a child u ends there, summed over all that came before it in the parent;
- ``beta[n, s, u]``: a child u starts there. This entry mass keeps a sum over pairs of child states out of
  the loop over child durations.

Neither holds the parent's own score or its ending. Rows are recomputed where they are needed again: all of
them together would be a tensor over two times and two states.
"""
from libc.math cimport exp, log, INFINITY
from libc.string cimport memcpy, memset

from sklearn_seqlab.inference._vector cimport log_sum_exp, max_of

cdef extern from *:
    """
    /* A loop over few child states costs more than what it adds up unless its length is a constant. */
    #define SEQLAB_BY_LENGTH(n, BODY) switch (n) { \
        case 1: BODY(1) break; case 2: BODY(2) break; case 3: BODY(3) break; case 4: BODY(4) break; \
        case 5: BODY(5) break; case 6: BODY(6) break; case 7: BODY(7) break; case 8: BODY(8) break; \
        case 12: BODY(12) break; case 16: BODY(16) break; default: BODY(n) break; }

    /* out[s, u] += x[s, u] * child[u] */
    static CYTHON_INLINE void seqlab_push(
        double *CYTHON_RESTRICT out, const double *CYTHON_RESTRICT x,
        const double *CYTHON_RESTRICT child, Py_ssize_t n_states, Py_ssize_t n)
    {
        Py_ssize_t s, u;
        #define SEQLAB_PUSH(N) for (s = 0; s < n_states; s++) for (u = 0; u < N; u++) \
            out[s * N + u] += x[s * N + u] * child[u];
        SEQLAB_BY_LENGTH(n, SEQLAB_PUSH)
    }

    /* into[s, u] += lam[s, u] * child[u] and around[u] += sum over s of beta[s, u] * lam[s, u] */
    static CYTHON_INLINE void seqlab_pull(
        double *CYTHON_RESTRICT into, double *CYTHON_RESTRICT around,
        const double *CYTHON_RESTRICT lam, const double *CYTHON_RESTRICT child,
        const double *CYTHON_RESTRICT beta, Py_ssize_t n_states, Py_ssize_t n)
    {
        Py_ssize_t s, u;
        #define SEQLAB_PULL(N) for (s = 0; s < n_states; s++) for (u = 0; u < N; u++) { \
            into[s * N + u] += lam[s * N + u] * child[u]; \
            around[u] += beta[s * N + u] * lam[s * N + u]; }
        SEQLAB_BY_LENGTH(n, SEQLAB_PULL)
    }

    /* out[s] += x[s] @ matrix[s], a product for each parent state */
    static CYTHON_INLINE void seqlab_move(
        double *CYTHON_RESTRICT out, const double *CYTHON_RESTRICT x,
        const double *CYTHON_RESTRICT matrix, Py_ssize_t n_states, Py_ssize_t n)
    {
        Py_ssize_t s, u, v;
        #define SEQLAB_MOVE(N) for (s = 0; s < n_states; s++) { \
            double *CYTHON_RESTRICT o = out + s * N; \
            const double *CYTHON_RESTRICT a = x + s * N; \
            const double *CYTHON_RESTRICT m = matrix + s * N * N; \
            for (v = 0; v + 3 < N; v += 4) for (u = 0; u < N; u++) \
                o[u] += (a[v] * m[v * N + u] + a[v + 1] * m[(v + 1) * N + u]) \
                      + (a[v + 2] * m[(v + 2) * N + u] + a[v + 3] * m[(v + 3) * N + u]); \
            for (; v < N; v++) for (u = 0; u < N; u++) o[u] += a[v] * m[v * N + u]; }
        SEQLAB_BY_LENGTH(n, SEQLAB_MOVE)
    }

    /* delta[s] = sum over u of alpha[s, u] * ending[s, u] */
    static CYTHON_INLINE void seqlab_end(
        double *CYTHON_RESTRICT delta, const double *CYTHON_RESTRICT alpha,
        const double *CYTHON_RESTRICT ending, Py_ssize_t n_states, Py_ssize_t n)
    {
        Py_ssize_t s, u;
        #define SEQLAB_END(N) for (s = 0; s < n_states; s++) { \
            double even = 0.0, odd = 0.0; \
            for (u = 0; u + 1 < N; u += 2) { \
                even += alpha[s * N + u] * ending[s * N + u]; \
                odd += alpha[s * N + u + 1] * ending[s * N + u + 1]; } \
            if (u < N) even += alpha[s * N + u] * ending[s * N + u]; \
            delta[s] = even + odd; }
        SEQLAB_BY_LENGTH(n, SEQLAB_END)
    }

    /* lam[s, u] = own[s] * ending[s, u] and stops[s, u] += alpha[s, u] * lam[s, u] */
    static CYTHON_INLINE void seqlab_stop(
        double *CYTHON_RESTRICT lam, double *CYTHON_RESTRICT stops, const double *CYTHON_RESTRICT own,
        const double *CYTHON_RESTRICT alpha, const double *CYTHON_RESTRICT ending,
        Py_ssize_t n_states, Py_ssize_t n)
    {
        Py_ssize_t s, u;
        #define SEQLAB_STOP(N) for (s = 0; s < n_states; s++) for (u = 0; u < N; u++) { \
            lam[s * N + u] = own[s] * ending[s * N + u]; \
            stops[s * N + u] += alpha[s * N + u] * lam[s * N + u]; }
        SEQLAB_BY_LENGTH(n, SEQLAB_STOP)
    }

    /* moves[s, u, v] += x[s, u] * y[s, v], over four pairs of x and y: loads and stores of moves bound this loop */
    static CYTHON_INLINE void seqlab_count4(
        double *CYTHON_RESTRICT moves, const double *const *x, const double *const *y,
        Py_ssize_t n_states, Py_ssize_t n)
    {
        const double *CYTHON_RESTRICT a = x[0], *CYTHON_RESTRICT b = x[1];
        const double *CYTHON_RESTRICT c = x[2], *CYTHON_RESTRICT d = x[3];
        const double *CYTHON_RESTRICT p = y[0], *CYTHON_RESTRICT q = y[1];
        const double *CYTHON_RESTRICT r = y[2], *CYTHON_RESTRICT w = y[3];
        Py_ssize_t s, u, v;
        #define SEQLAB_COUNT4(N) for (s = 0; s < n_states; s++) for (u = 0; u < N; u++) { \
            const Py_ssize_t m = s * N; \
            double *CYTHON_RESTRICT o = moves + (m + u) * N; \
            for (v = 0; v < N; v++) o[v] += (a[m + u] * p[m + v] + b[m + u] * q[m + v]) \
                                          + (c[m + u] * r[m + v] + d[m + u] * w[m + v]); }
        SEQLAB_BY_LENGTH(n, SEQLAB_COUNT4)
    }

    /* low[m] = smallest positive x[m] so far */
    static CYTHON_INLINE void seqlab_keep_low(
        double *CYTHON_RESTRICT low, const double *CYTHON_RESTRICT x, Py_ssize_t n)
    {
        Py_ssize_t m;
        for (m = 0; m < n; m++) {
            const double y = x[m] > 0.0 ? x[m] : 1.0;
            low[m] = y < low[m] ? y : low[m];
        }
    }

    /* high[m] = largest sum of the four so far: none of them is negative, so none is above it */
    static CYTHON_INLINE void seqlab_keep_high(
        double *CYTHON_RESTRICT high, const double *CYTHON_RESTRICT a, const double *CYTHON_RESTRICT b,
        const double *CYTHON_RESTRICT c, const double *CYTHON_RESTRICT d, Py_ssize_t n)
    {
        Py_ssize_t m;
        for (m = 0; m < n; m++) {
            const double y = (a[m] + b[m]) + (c[m] + d[m]);
            high[m] = y > high[m] ? y : high[m];
        }
    }
    """
    void push "seqlab_push"(
        double *out, const double *x, const double *child, Py_ssize_t n_states, Py_ssize_t n) noexcept nogil
    void pull "seqlab_pull"(
        double *into, double *around, const double *lam, const double *child, const double *beta,
        Py_ssize_t n_states, Py_ssize_t n) noexcept nogil
    void move "seqlab_move"(
        double *out, const double *x, const double *matrix, Py_ssize_t n_states, Py_ssize_t n) noexcept nogil
    void end "seqlab_end"(
        double *delta, const double *alpha, const double *ending, Py_ssize_t n_states, Py_ssize_t n) noexcept nogil
    void stop "seqlab_stop"(
        double *lam, double *stops, const double *own, const double *alpha, const double *ending,
        Py_ssize_t n_states, Py_ssize_t n) noexcept nogil
    void count4 "seqlab_count4"(
        double *moves, const double **x, const double **y, Py_ssize_t n_states, Py_ssize_t n) noexcept nogil
    void keep_low "seqlab_keep_low"(double *low, const double *x, Py_ssize_t n) noexcept nogil
    void keep_high "seqlab_keep_high"(
        double *high, const double *a, const double *b, const double *c, const double *d,
        Py_ssize_t n) noexcept nogil


cdef inline void scaled_row(
    Py_ssize_t i,                                   # start of the parent
    Py_ssize_t reach,                               # its last possible end, above i
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), exponentiated
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass
    const Py_ssize_t[::1] child_span,               # IN    (n_total,), longest live child by start, 0 for none
    double *alpha,                                  # OUT   (reach - i + 1, n_states, n_children)
    double *beta,                                   # OUT   the same; undefined where no child can start
) noexcept nogil:
    """Row ``i`` of plain masses."""
    cdef Py_ssize_t n_states = initialisation.shape[1], n_children = initialisation.shape[2]
    cdef Py_ssize_t width = n_states * n_children, k, n, n_lengths
    cdef double *a
    cdef double *b
    memset(alpha, 0, (reach - i + 1) * width * sizeof(double))
    for k in range(i, reach):
        if child_span[k] == 0:
            continue
        a, b = alpha + (k - i) * width, beta + (k - i) * width
        if k == i:
            memcpy(b, &initialisation[i, 0, 0], width * sizeof(double))
        else:
            memset(b, 0, width * sizeof(double))
            move(b, a, &transition[k, 0, 0, 0], n_states, n_children)
        n_lengths = min(child_span[k], reach - k)
        for n in range(n_lengths):
            push(a + (n + 1) * width, b, &child[k, n, 0], n_states, n_children)


cdef inline void log_row(
    bint maximum,                                   # the best child in place of the sum over children
    Py_ssize_t i,                                   # start of the parent
    Py_ssize_t reach,                               # its last possible end, above i
    Py_ssize_t first_state,                         # parent states first_state..last_state are filled
    Py_ssize_t last_state,
    const double[:, :, ::1] initialisation,         # IN    (n_total, n_states, n_children), nats
    const double[:, :, :, ::1] transition,          # IN    (n_total, n_states, n_children, n_children)
    const double[:, :, ::1] child,                  # IN    (n_total, max_duration, n_children), whole mass
    const Py_ssize_t[::1] child_span,               # IN    (n_total,), longest live child by start, 0 for none
    double[:, :, ::1] alpha,                        # OUT   (reach - i + 1 or more, n_states, n_children)
    double[:, :, ::1] beta,                         # OUT   the same; undefined where no child can start
    double[:, :, ::1] mass,                         # WORK  the same
    double *row,                                    # WORK  (n_children,)
) noexcept nogil:
    """Row ``i`` in nats, by sum or by maximum.

    What ends at a boundary is added up as it comes: ``alpha`` holds the largest term so far and ``mass`` the sum
    relative to it.
    """
    cdef Py_ssize_t n_children = initialisation.shape[2], k, n, s, u, v, n_lengths
    cdef double term, top
    for n in range(reach - i + 1):
        for s in range(first_state, last_state + 1):
            for u in range(n_children):
                alpha[n, s, u] = -INFINITY
                mass[n, s, u] = 0.0
    for k in range(i, reach + 1):
        if k > i and not maximum:
            for s in range(first_state, last_state + 1):
                for u in range(n_children):
                    if alpha[k - i, s, u] > -INFINITY:
                        alpha[k - i, s, u] += log(mass[k - i, s, u])
        if k == reach or child_span[k] == 0:
            continue
        n_lengths = min(child_span[k], reach - k)
        for s in range(first_state, last_state + 1):
            for u in range(n_children):
                if k == i:
                    beta[0, s, u] = initialisation[i, s, u]
                else:
                    for v in range(n_children):
                        row[v] = alpha[k - i, s, v] + transition[k, s, v, u]
                    beta[k - i, s, u] = max_of(row, n_children) if maximum else log_sum_exp(row, n_children)
        for n in range(n_lengths):
            for s in range(first_state, last_state + 1):
                for u in range(n_children):
                    term = beta[k - i, s, u] + child[k, n, u]
                    if term == -INFINITY:
                        continue
                    top = alpha[k - i + n + 1, s, u]
                    if term > top:
                        alpha[k - i + n + 1, s, u] = term
                        if not maximum:
                            mass[k - i + n + 1, s, u] = mass[k - i + n + 1, s, u] * exp(top - term) + 1.0
                    elif not maximum:
                        mass[k - i + n + 1, s, u] += exp(term - top)
