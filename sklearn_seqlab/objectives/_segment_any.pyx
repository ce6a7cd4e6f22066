# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Scores of segments for what occurs in them at least once, and their transposed sum.

Every stored value knows the row of the same column's occurrence before it: in a segment that starts later than
that, it is the first, and counts.
"""


def add_any_scores(
    const int[::1] indices,             # IN    (n_stored,) columns
    const int[::1] indptr,              # IN    (n_rows + 1,)
    const Py_ssize_t[::1] before,       # IN    (n_stored,) row of the occurrence before, -1 if none
    const Py_ssize_t[::1] stops,        # IN    (n_rows,) where the sequence of a row ends
    const double[:, ::1] coef,          # IN    (n_features, n_labels)
    double[::1] running,                # WORK  (n_labels,)
    double[:, :, ::1] out,              # IN/OUT (n_rows, max_duration, n_labels), added to
):
    """``out[i, n - 1]`` gets the weights of all columns that occur in ``i:i + n``."""
    cdef Py_ssize_t i, t, n, k, u, n_labels = coef.shape[1]
    with nogil:
        for i in range(out.shape[0]):
            for u in range(n_labels):
                running[u] = 0.0
            for n in range(min(out.shape[1], stops[i] - i)):
                t = i + n
                for k in range(indptr[t], indptr[t + 1]):
                    if before[k] < i:
                        for u in range(n_labels):
                            running[u] += coef[indices[k], u]
                for u in range(n_labels):
                    out[i, n, u] += running[u]


def add_any_gradient(
    const int[::1] indices,
    const int[::1] indptr,
    const Py_ssize_t[::1] before,
    const Py_ssize_t[::1] stops,
    const double[:, :, ::1] share,      # IN    (n_rows, max_duration, n_labels)
    double[::1] running,                # WORK  (n_labels,)
    double[:, ::1] out,                 # IN/OUT (n_features, n_labels), added to
):
    """The transposed sum: each share counts for every column that occurs in its segment."""
    cdef Py_ssize_t i, t, n, k, u, n_labels = out.shape[1]
    with nogil:
        for i in range(share.shape[0]):
            for u in range(n_labels):
                running[u] = 0.0
            for n in range(min(share.shape[1], stops[i] - i) - 1, -1, -1):
                t = i + n
                for u in range(n_labels):
                    running[u] += share[i, n, u]
                for k in range(indptr[t], indptr[t + 1]):
                    if before[k] < i:
                        for u in range(n_labels):
                            out[indices[k], u] += running[u]
