# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Products of a CSR feature matrix with weights of which only some (feature, label) pairs exist."""

ctypedef fused index_t:
    int
    long long


def add_scores(
    const double[::1] data,                 # IN    (n_stored,), CSR values of the features
    const index_t[::1] indices,             # IN    (n_stored,)
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const Py_ssize_t[::1] pair_start,       # IN    (n_features + 1,), pairs of each feature
    const int[::1] pair_label,              # IN    (n_pairs,)
    const double[::1] weight,               # IN    (n_pairs,)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the scores
    double[:, ::1] scores,                  # INOUT (n_rows, n_labels)
):
    """``scores += features @ weights``; time O(stored values times pairs per feature)."""
    cdef Py_ssize_t t, entry, k
    cdef double value
    cdef double *row
    with nogil:
        for t in range(scores.shape[0]):
            row = &scores[t, 0]
            for entry in range(indptr[first_row + t], indptr[first_row + t + 1]):
                value = data[entry]
                for k in range(pair_start[indices[entry]], pair_start[indices[entry] + 1]):
                    row[pair_label[k]] += value * weight[k]


def add_gradient(
    const double[::1] data,                 # IN    (n_stored,), CSR values of the features
    const index_t[::1] indices,             # IN    (n_stored,)
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const Py_ssize_t[::1] pair_start,       # IN    (n_features + 1,), pairs of each feature
    const int[::1] pair_label,              # IN    (n_pairs,)
    const double[:, ::1] residual,          # IN    (n_rows, n_labels)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the residual
    double[::1] gradient,                   # INOUT (n_pairs,)
):
    """``gradient += features.T @ residual`` on the existing pairs; time as in ``add_scores``."""
    cdef Py_ssize_t t, entry, k
    cdef double value
    cdef const double *row
    with nogil:
        for t in range(residual.shape[0]):
            row = &residual[t, 0]
            for entry in range(indptr[first_row + t], indptr[first_row + t + 1]):
                value = data[entry]
                for k in range(pair_start[indices[entry]], pair_start[indices[entry] + 1]):
                    gradient[k] += value * row[pair_label[k]]
