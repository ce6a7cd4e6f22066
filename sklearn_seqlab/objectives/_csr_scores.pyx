# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Products of CSR rows with CSR weights, as dense scores: for prediction, where no layout is worth its making."""

ctypedef fused index_t:
    int
    long long

ctypedef fused value_t:
    float
    double

ctypedef fused weight_index_t:
    int
    long long


def add_csr_scores(
    const value_t[::1] data,                # IN    (n_stored,), CSR values of the features
    const index_t[::1] indices,             # IN    (n_stored,)
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const double[::1] weight,               # IN    (n_pairs,), CSR values of the weights
    const weight_index_t[::1] label,        # IN    (n_pairs,)
    const weight_index_t[::1] pair_start,   # IN    (n_features + 1,)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the scores
    double[:, ::1] scores,                  # INOUT (n_rows, n_labels)
):
    """``scores += features @ weights``, terms in the order of the entries; time O(stored values times pairs)."""
    cdef Py_ssize_t t, entry, feature, k
    cdef double value
    cdef double *row
    with nogil:
        for t in range(scores.shape[0]):
            row = &scores[t, 0]
            for entry in range(indptr[first_row + t], indptr[first_row + t + 1]):
                feature, value = indices[entry], data[entry]
                for k in range(pair_start[feature], pair_start[feature + 1]):
                    row[label[k]] += value * weight[k]
