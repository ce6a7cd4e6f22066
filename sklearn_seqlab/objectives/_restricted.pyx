# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Products of a CSR feature matrix with weights of which only some (feature, label) pairs exist.

Features are of three kinds. A few occur with most labels and make half of the work ("hot"): their weights are stored
for all labels, in rows that vector instructions add. Most occur with one label ("single"): one weight each, no list to
walk. The others have a list of labels. Callers number the hot ones first and the single ones last, so in rows with
sorted indices the kinds stand in this order too.
"""
from sklearn_seqlab.inference._vector cimport add_rows, add_to_rows, prefetch

ctypedef fused index_t:
    int
    long long

ctypedef fused value_t:
    float
    double

# Hot features of a step that are added in one go.
cdef enum:
    N_AT_ONCE = 64


def add_scores(
    const value_t[::1] data,                # IN    (n_stored,), CSR values, or (0,) if all of them are 1
    const index_t[::1] indices,             # IN    (n_stored,), sorted within a row
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const double[:, ::1] hot_weight,        # IN    (n_hot, n_labels)
    const int[::1] pair_start,              # IN    (n_others + 1,), pairs of each feature that is not hot
    const int[::1] pair_label,              # IN    (n_pairs,)
    Py_ssize_t n_lists,                     # IN    how many of the others are not single
    const double[::1] pair_weight,          # IN    (n_pairs,)
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the scores
    double[:, ::1] scores,                  # INOUT (n_rows, n_labels)
):
    """``scores += features @ weights``; time O(stored values times pairs per feature)."""
    cdef Py_ssize_t n_rows = scores.shape[0], n_labels = scores.shape[1], t, entry, stop, ahead, n_found
    cdef int n_hot = hot_weight.shape[0], first_single = n_hot + n_lists, k, p
    cdef int shift = pair_start[n_lists] - first_single   # from a single feature to its pair
    cdef bint binary = data.shape[0] == 0
    cdef double value = 1.0
    cdef double *row
    cdef const double *hot = &hot_weight[0, 0] if n_hot else NULL
    cdef const double *found[N_AT_ONCE]
    cdef double size[N_AT_ONCE]
    with nogil:
        for t in range(n_rows):
            row = &scores[t, 0]
            entry, stop = indptr[first_row + t], indptr[first_row + t + 1]
            # weights of rare features are far apart: those of the next row are on their way while this one is summed
            for ahead in range(stop, indptr[first_row + t + 2] if t + 1 < n_rows else stop):
                if indices[ahead] >= n_hot:
                    k = indices[ahead] + shift if indices[ahead] >= first_single else pair_start[indices[ahead] - n_hot]
                    prefetch(&pair_weight[k])
                    prefetch(&pair_label[k])
            while entry < stop and indices[entry] < n_hot:
                n_found = 0
                while n_found < N_AT_ONCE and entry + n_found < stop and indices[entry + n_found] < n_hot:
                    found[n_found] = hot + indices[entry + n_found] * n_labels
                    size[n_found] = 1.0 if binary else data[entry + n_found]
                    n_found += 1
                add_rows(row, found, NULL if binary else size, n_found, n_labels)
                entry += n_found
            while entry < stop and indices[entry] < first_single:
                if not binary:
                    value = data[entry]
                p = indices[entry] - n_hot
                for k in range(pair_start[p], pair_start[p + 1]):
                    row[pair_label[k]] += value * pair_weight[k]
                entry += 1
            while entry < stop:
                k = indices[entry] + shift
                row[pair_label[k]] += pair_weight[k] if binary else data[entry] * pair_weight[k]
                entry += 1


def add_gradient(
    const value_t[::1] data,                # IN    (n_stored,), CSR values, or (0,) if all of them are 1
    const index_t[::1] indices,             # IN    (n_stored,), sorted within a row
    const index_t[::1] indptr,              # IN    (n_total + 1,)
    const double[:, ::1] residual,          # IN    (n_rows, n_labels)
    const int[::1] pair_start,              # IN    (n_others + 1,), pairs of each feature that is not hot
    const int[::1] pair_label,              # IN    (n_pairs,)
    Py_ssize_t n_lists,                     # IN    how many of the others are not single
    Py_ssize_t first_row,                   # IN    row of the features that is row 0 of the residual
    double[:, ::1] hot_gradient,            # INOUT (n_hot, n_labels)
    double[::1] pair_gradient,              # INOUT (n_pairs,)
):
    """``gradient += features.T @ residual`` on the existing pairs; time as in ``add_scores``."""
    cdef Py_ssize_t n_rows = residual.shape[0], n_labels = residual.shape[1], t, entry, stop, ahead, n_found
    cdef int n_hot = hot_gradient.shape[0], first_single = n_hot + n_lists, k, p
    cdef int shift = pair_start[n_lists] - first_single
    cdef bint binary = data.shape[0] == 0
    cdef double value = 1.0
    cdef const double *row
    cdef double *hot = &hot_gradient[0, 0] if n_hot else NULL
    cdef double *found[N_AT_ONCE]
    cdef double size[N_AT_ONCE]
    with nogil:
        for t in range(n_rows):
            row = &residual[t, 0]
            entry, stop = indptr[first_row + t], indptr[first_row + t + 1]
            # weights of rare features are far apart: those of the next row are on their way while this one is summed
            for ahead in range(stop, indptr[first_row + t + 2] if t + 1 < n_rows else stop):
                if indices[ahead] >= n_hot:
                    k = indices[ahead] + shift if indices[ahead] >= first_single else pair_start[indices[ahead] - n_hot]
                    prefetch(&pair_gradient[k])
                    prefetch(&pair_label[k])
            while entry < stop and indices[entry] < n_hot:
                n_found = 0
                while n_found < N_AT_ONCE and entry + n_found < stop and indices[entry + n_found] < n_hot:
                    found[n_found] = hot + indices[entry + n_found] * n_labels
                    size[n_found] = 1.0 if binary else data[entry + n_found]
                    n_found += 1
                add_to_rows(found, NULL if binary else size, n_found, row, n_labels)
                entry += n_found
            while entry < stop and indices[entry] < first_single:
                if not binary:
                    value = data[entry]
                p = indices[entry] - n_hot
                for k in range(pair_start[p], pair_start[p + 1]):
                    pair_gradient[k] += value * row[pair_label[k]]
                entry += 1
            while entry < stop:
                k = indices[entry] + shift
                pair_gradient[k] += row[pair_label[k]] if binary else data[entry] * row[pair_label[k]]
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
