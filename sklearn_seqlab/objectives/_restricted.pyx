# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Products of a CSR feature matrix with weights of which only some (feature, label) pairs exist.

A few features occur with most labels and make most of the work; their weights are stored for all labels,
in rows that vector instructions add. The others are compressed, and added one pair at a time. Callers
number the first kind ("hot") first, so in rows with sorted indices it comes first too.
"""
from sklearn_seqlab.inference._vector cimport axpy, axpy4

ctypedef fused index_t:
    int
    long long


def add_scores(
    const double[::1] data,                 # IN    (n_stored,), CSR values, or (0,) if all of them are 1
    const index_t[::1] indices,             # IN    (n_stored,), sorted within a row
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const double[:, ::1] hot_weight,        # IN    (n_hot, n_labels)
    const int[::1] pair_start,              # IN    (n_features - n_hot + 1,), pairs of each other feature
    const int[::1] pair_label,              # IN    (n_pairs,)
    const double[::1] pair_weight,          # IN    (n_pairs,)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the scores
    double[:, ::1] scores,                  # INOUT (n_rows, n_labels)
):
    """``scores += features @ weights``; time O(stored values times pairs per feature)."""
    cdef Py_ssize_t n_labels = scores.shape[1], t, entry, stop
    cdef int n_hot = hot_weight.shape[0], k, p
    cdef bint binary = data.shape[0] == 0
    cdef double value = 1.0
    cdef double *row
    cdef const double *hot = &hot_weight[0, 0] if n_hot else NULL
    with nogil:
        for t in range(scores.shape[0]):
            row = &scores[t, 0]
            entry, stop = indptr[first_row + t], indptr[first_row + t + 1]
            while entry + 3 < stop and indices[entry + 3] < n_hot:
                axpy4(
                    row,
                    1.0 if binary else data[entry], hot + indices[entry] * n_labels,
                    1.0 if binary else data[entry + 1], hot + indices[entry + 1] * n_labels,
                    1.0 if binary else data[entry + 2], hot + indices[entry + 2] * n_labels,
                    1.0 if binary else data[entry + 3], hot + indices[entry + 3] * n_labels,
                    n_labels,
                )
                entry += 4
            while entry < stop and indices[entry] < n_hot:
                axpy(row, 1.0 if binary else data[entry], hot + indices[entry] * n_labels, n_labels)
                entry += 1
            while entry < stop:
                if not binary:
                    value = data[entry]
                p = indices[entry] - n_hot
                for k in range(pair_start[p], pair_start[p + 1]):
                    row[pair_label[k]] += value * pair_weight[k]
                entry += 1


def add_gradient(
    const double[::1] data,                 # IN    (n_stored,), CSR values, or (0,) if all of them are 1
    const index_t[::1] indices,             # IN    (n_stored,), sorted within a row
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const double[:, ::1] residual,          # IN    (n_rows, n_labels)
    const int[::1] pair_start,              # IN    (n_features - n_hot + 1,), pairs of each other feature
    const int[::1] pair_label,              # IN    (n_pairs,)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the residual
    double[:, ::1] hot_gradient,            # INOUT (n_hot, n_labels)
    double[::1] pair_gradient,              # INOUT (n_pairs,)
):
    """``gradient += features.T @ residual`` on the existing pairs; time as in ``add_scores``."""
    cdef Py_ssize_t n_labels = residual.shape[1], t, entry, stop
    cdef int n_hot = hot_gradient.shape[0], k, p
    cdef bint binary = data.shape[0] == 0
    cdef double value = 1.0
    cdef const double *row
    cdef double *hot = &hot_gradient[0, 0] if n_hot else NULL
    with nogil:
        for t in range(residual.shape[0]):
            row = &residual[t, 0]
            entry, stop = indptr[first_row + t], indptr[first_row + t + 1]
            while entry < stop and indices[entry] < n_hot:
                axpy(hot + indices[entry] * n_labels, 1.0 if binary else data[entry], row, n_labels)
                entry += 1
            while entry < stop:
                if not binary:
                    value = data[entry]
                p = indices[entry] - n_hot
                for k in range(pair_start[p], pair_start[p + 1]):
                    pair_gradient[k] += value * row[pair_label[k]]
                entry += 1


def pair_numbers(
    const int[::1] indptr,                  # IN    (n_features + 1,)
    const int[::1] label,                   # IN    (n_pairs,), increasing within a feature
    const index_t[::1] ranks,               # IN    (n,), features
    const Py_ssize_t[::1] wanted,           # IN    (n,), labels
    Py_ssize_t[::1] number,                 # OUT   (n,), place of each pair; -1 where it has no weight
):
    """Look up pairs of feature and label; O(log n_labels) each."""
    cdef Py_ssize_t k, low, high, middle
    with nogil:
        for k in range(ranks.shape[0]):
            low, high = indptr[ranks[k]], indptr[ranks[k] + 1]
            number[k] = -1
            while low < high:
                middle = (low + high) // 2
                if label[middle] < wanted[k]:
                    low = middle + 1
                else:
                    high = middle
            if low < indptr[ranks[k] + 1] and label[low] == wanted[k]:
                number[k] = low
