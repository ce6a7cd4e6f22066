# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Max-product over one chain with a counter of errors: the best labelling for every number of them."""
from libc.math cimport INFINITY


def best_by_errors(
    const double[:, ::1] unary,             # IN    (n_timesteps, n_labels), nats
    const double[:, :, ::1] transition,     # IN    (1 or n_timesteps, n_labels, n_labels), from row to column
    const unsigned char[:, ::1] is_error,   # IN    (n_timesteps, n_labels), 1 where the label is an error
    double[:, :, ::1] delta,                # WORK  (2, n_counts, n_labels), n_counts: errors 0 to n_counts - 1
    short[:, :, ::1] previous,              # WORK  (n_timesteps, n_counts, n_labels)
    double[::1] best,                       # OUT   (n_counts,), -inf where there is no such labelling
):
    """Score of the best labelling with exactly ``d`` errors, for every ``d``.

    O(n_timesteps * n_counts * n_labels**2); ties go to the smallest label, as in ``viterbi``. ``previous`` is
    what ``trace`` reads.
    """
    cdef Py_ssize_t n_timesteps = unary.shape[0], n_labels = unary.shape[1], n_counts = best.shape[0]
    cdef Py_ssize_t t, d, i, j, at, now, before
    cdef double value, top
    cdef short argument
    with nogil:
        for d in range(n_counts):
            for j in range(n_labels):
                delta[0, d, j] = unary[0, j] if d == is_error[0, j] else -INFINITY
        for t in range(1, n_timesteps):
            now, before = t & 1, (t - 1) & 1
            at = t if transition.shape[0] > 1 else 0
            for d in range(n_counts):
                for j in range(n_labels):
                    top, argument = -INFINITY, 0
                    if d >= is_error[t, j] and d <= t + 1:
                        for i in range(n_labels):
                            value = delta[before, d - is_error[t, j], i] + transition[at, i, j]
                            if value > top:
                                top, argument = value, <short> i
                    delta[now, d, j] = top + unary[t, j]
                    previous[t, d, j] = argument
        now = (n_timesteps - 1) & 1
        for d in range(n_counts):
            best[d] = -INFINITY
            previous[0, d, 0] = 0           # row 0 has no predecessors: it holds the last label
            for j in range(n_labels):
                if delta[now, d, j] > best[d]:
                    best[d] = delta[now, d, j]
                    previous[0, d, 0] = <short> j


def trace(
    const short[:, :, ::1] previous,        # IN    (n_timesteps, n_counts, n_labels), of ``best_by_errors``
    const unsigned char[:, ::1] is_error,   # IN    (n_timesteps, n_labels)
    Py_ssize_t n_errors,                    # IN    a count whose best score is finite
    Py_ssize_t[::1] codes,                  # OUT   (n_timesteps,)
):
    """The best labelling with ``n_errors`` errors; O(n_timesteps)."""
    cdef Py_ssize_t t, d = n_errors, label = previous[0, n_errors, 0]
    with nogil:
        for t in range(previous.shape[0] - 1, 0, -1):
            codes[t] = label
            label = previous[t, d, label]
            d = d - is_error[t, codes[t]]
        codes[0] = label
