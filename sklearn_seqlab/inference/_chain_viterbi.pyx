# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Max-product over chains: the best labelling, and the best score through every label of every step."""
from libc.math cimport INFINITY

from sklearn_seqlab.inference._vector cimport max_of, max_plus


def viterbi(
    const double[:, ::1] unary,             # IN    (n_total, n_labels), nats
    const double[:, :, ::1] transition,     # IN    (1 or n_total, n_labels, n_labels), from row to column
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), no empty sequence
    double[:, ::1] delta,                   # WORK  (2, n_labels)
    Py_ssize_t[:, ::1] previous,            # WORK  (longest sequence, n_labels)
    Py_ssize_t[::1] codes,                  # OUT   (n_total,), undefined where infeasible
    double[::1] best,                       # OUT   (n_sequences,), -inf where infeasible
):
    """Best labelling of every chain; O(n_total * n_labels**2); ties go to the smallest label.

    The tie is settled at the last step first and then backwards.
    """
    cdef Py_ssize_t n_labels = unary.shape[1], s, t, j, start, stop
    with nogil:
        for s in range(offsets.shape[0] - 1):
            start, stop = offsets[s], offsets[s + 1]
            for j in range(n_labels):
                delta[0, j] = unary[start, j]
            for t in range(start + 1, stop):
                advance(
                    &delta[(t - start - 1) & 1, 0], &transition[t if transition.shape[0] > 1 else 0, 0, 0],
                    &unary[t, 0], &delta[(t - start) & 1, 0], &previous[t - start, 0], n_labels,
                )
            codes[stop - 1] = 0          # in range whatever the scores are
            best[s] = max_of(&delta[(stop - 1 - start) & 1, 0], n_labels)
            if best[s] == -INFINITY:
                continue
            for j in range(n_labels):
                if delta[(stop - 1 - start) & 1, j] == best[s]:
                    codes[stop - 1] = j
                    break
            for t in range(stop - 1, start, -1):
                codes[t - 1] = previous[t - start, codes[t]]


def max_marginals(
    const double[:, ::1] unary,             # IN    (n_total, n_labels), nats
    const double[:, :, ::1] transition,     # IN    (1 or n_total, n_labels, n_labels), from row to column
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), no empty sequence
    Py_ssize_t[::1] previous,               # WORK  (n_labels,)
    double[:, ::1] rows,                    # WORK  (2, n_labels)
    double[:, ::1] best_through,            # OUT   (n_total, n_labels), nats
):
    """Score of the best labelling through each label of each step; O(n_total * n_labels**2)."""
    cdef Py_ssize_t n_labels = unary.shape[1], s, t, i, j, start, stop, at
    cdef double *beta = &rows[0, 0]
    cdef double *pulled = &rows[1, 0]
    cdef double value
    with nogil:
        for s in range(offsets.shape[0] - 1):
            start, stop = offsets[s], offsets[s + 1]
            for j in range(n_labels):
                best_through[start, j] = unary[start, j]
                beta[j] = 0.0
            for t in range(start + 1, stop):
                advance(
                    &best_through[t - 1, 0], &transition[t if transition.shape[0] > 1 else 0, 0, 0],
                    &unary[t, 0], &best_through[t, 0], &previous[0], n_labels,
                )
            for t in range(stop - 1, start, -1):
                at = t if transition.shape[0] > 1 else 0
                for j in range(n_labels):
                    best_through[t, j] += beta[j]
                    pulled[j] = unary[t, j] + beta[j]
                for i in range(n_labels):
                    value = -INFINITY
                    for j in range(n_labels):
                        if transition[at, i, j] + pulled[j] > value:
                            value = transition[at, i, j] + pulled[j]
                    beta[i] = value
            for j in range(n_labels):
                best_through[start, j] += beta[j]


cdef inline void advance(
    const double *delta,                    # IN    (n_labels,)
    const double *transition,               # IN    (n_labels, n_labels)
    const double *unary,                    # IN    (n_labels,)
    double *best,                           # OUT   (n_labels,)
    Py_ssize_t *previous,                   # OUT   (n_labels,)
    Py_ssize_t n_labels,
) noexcept nogil:
    """One step of the max-product; the strict comparison keeps the smallest previous label."""
    cdef Py_ssize_t j
    max_plus(best, previous, delta, transition, n_labels)
    for j in range(n_labels):
        best[j] += unary[j]
