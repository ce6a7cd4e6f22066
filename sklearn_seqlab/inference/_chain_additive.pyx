# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Expectations of a sum over the steps of a chain, given the label of one step: first-order moments by two passes.

Moves have the distribution ``left[t - 1, :, None] * factors[t] * right[t]`` up to a constant, as the scaled
forward-backward pass leaves it. Li and Eisner, "First- and second-order expectation semirings", EMNLP 2009.
"""
from sklearn_seqlab.inference._vector cimport matvec, vecmat


def additive_means(
    const double[:, :, ::1] factors,        # IN    (1 or n_total, n_labels, n_labels)
    const double[:, ::1] factors_transposed,  # IN  (n_labels, n_labels), or (0, 0) if factors vary
    const double[:, ::1] left,              # IN    (n_total, n_labels), at least 0
    const double[:, ::1] right,             # IN    (n_total, n_labels), at least 0
    const double[:, ::1] gain,              # IN    (n_total, n_labels), the terms of the sum
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,)
    double[:, ::1] rows,                    # WORK  (3, n_labels)
    double[:, ::1] before,                  # OUT   (n_total, n_labels), of the terms up to this step
    double[:, ::1] after,                   # OUT   (n_total, n_labels), of the terms behind this step
):
    """Means of both parts of the sum given each label of each step; 0 for a label that cannot be.

    O(n_total * n_labels**2).
    """
    cdef Py_ssize_t n = left.shape[1], s, t, k
    cdef bint varying = factors.shape[0] > 1
    cdef double *weighted = &rows[0, 0]
    cdef double *mass = &rows[1, 0]
    cdef double *total = &rows[2, 0]
    with nogil:
        for s in range(offsets.shape[0] - 1):
            for k in range(n):
                before[offsets[s], k] = gain[offsets[s], k]
                after[offsets[s + 1] - 1, k] = 0.0
            for t in range(offsets[s] + 1, offsets[s + 1]):
                for k in range(n):
                    weighted[k] = left[t - 1, k] * before[t - 1, k]
                vecmat(mass, &left[t - 1, 0], &factors[t if varying else 0, 0, 0], n)
                vecmat(total, weighted, &factors[t if varying else 0, 0, 0], n)
                for k in range(n):
                    before[t, k] = gain[t, k] + (total[k] / mass[k] if mass[k] > 0.0 else 0.0)
            for t in range(offsets[s + 1] - 1, offsets[s], -1):
                for k in range(n):
                    weighted[k] = right[t, k] * (gain[t, k] + after[t, k])
                if varying:
                    matvec(mass, &factors[t, 0, 0], &right[t, 0], n)
                    matvec(total, &factors[t, 0, 0], weighted, n)
                else:
                    vecmat(mass, &right[t, 0], &factors_transposed[0, 0], n)
                    vecmat(total, weighted, &factors_transposed[0, 0], n)
                for k in range(n):
                    after[t - 1, k] = total[k] / mass[k] if mass[k] > 0.0 else 0.0
