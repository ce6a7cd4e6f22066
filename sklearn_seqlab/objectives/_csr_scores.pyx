# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Products of CSR rows with CSR weights, as dense scores: for prediction, where no layout is worth its making."""

from sklearn_seqlab.inference._vector cimport prefetch

cdef enum:
    AHEAD = 16                              # entries between asking for the weights of a feature and adding them

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
    const weight_index_t[::1] label,        # IN    (n_pairs,), increasing within a feature
    const weight_index_t[::1] pair_start,   # IN    (n_features + 1,)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the scores
    double[:, ::1] scores,                  # INOUT (n_rows, n_labels)
):
    """``scores += features @ weights``, terms in the order of the entries; time O(stored values times pairs)."""
    cdef Py_ssize_t n_rows = scores.shape[0], n_labels = scores.shape[1], t, entry, k, start, stop, ahead, last
    cdef double value
    cdef double *row
    if n_rows == 0 or weight.shape[0] == 0:
        return
    with nogil:
        last = indptr[first_row + n_rows]
        for t in range(n_rows):
            row = &scores[t, 0]
            for entry in range(indptr[first_row + t], indptr[first_row + t + 1]):
                if entry + 2 * AHEAD < last:
                    prefetch(&pair_start[0] + indices[entry + 2 * AHEAD])
                if entry + AHEAD < last:
                    ahead = pair_start[indices[entry + AHEAD]]
                    prefetch(&label[0] + ahead)
                    prefetch(&weight[0] + ahead)
                value = data[entry]
                start, stop = pair_start[indices[entry]], pair_start[indices[entry] + 1]
                if stop - start == n_labels:  # a weight for each label, in their order
                    for k in range(n_labels):
                        row[k] += value * weight[start + k]
                else:
                    for k in range(start, stop):
                        row[label[k]] += value * weight[k]
