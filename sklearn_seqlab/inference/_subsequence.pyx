# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Subsequence kernels of windows of numbered rows."""


def subsequence_kernel(
    const Py_ssize_t[:, ::1] first,         # IN    (n_first, width) rows of windows; -1 outside of the sequence
    const Py_ssize_t[:, ::1] second,        # IN    (n_second, width)
    const double[:, ::1] common,            # IN    (n_rows, n_rows_of_second) items that two rows share
    const Py_ssize_t[::1] zone,             # IN    (width,) positions match within their zone
    double decay,
    Py_ssize_t max_length,
    bint symmetric,                         # IN    first is second: half of the pairs suffices
    double[:, :, ::1] work,                 # WORK  (3, width + 1, width + 1)
    double[:, ::1] kernel,                  # OUT   (n_first, n_second)
):
    """Sums over common subsequences of at most ``max_length`` items, each weighed by ``decay`` to its two spans.

    O(max_length * width**2) for each pair of windows; positions outside, like empty rows, share nothing with others.
    Lodhi et al., "Text classification using string kernels", JMLR 2002, with gaps counted to both ends.
    """
    cdef Py_ssize_t width = first.shape[1], stride = first.shape[1] + 1, a, b, l, p, q, start
    cdef double square = decay * decay, total, shared, row, value
    cdef double *match = &work[0, 0, 0]
    cdef double *before = &work[1, 0, 0]
    cdef double *now = &work[2, 0, 0]
    cdef double *swap
    with nogil:
        for q in range(stride):  # nothing ends before the first position
            before[q] = now[q] = 0.0
            before[q * stride] = now[q * stride] = 0.0
        for a in range(first.shape[0]):
            start = a if symmetric else 0
            for b in range(start, second.shape[0]):
                shared = 0.0
                for p in range(width):
                    for q in range(width):
                        value = 0.0
                        if zone[p] == zone[q] and first[a, p] >= 0 and second[b, q] >= 0:
                            value = common[first[a, p], second[b, q]]
                        match[p * stride + q] = value
                        shared += value
                total = square * shared
                for l in range(1, max_length):
                    if shared == 0.0:
                        break
                    shared = 0.0
                    for p in range(width):
                        row = 0.0
                        for q in range(width):
                            value = match[p * stride + q]
                            if value != 0.0:
                                shared += value * now[p * stride + q]
                                # subsequences of one position may follow anything
                                row += square * value * (1.0 if l == 1 else before[p * stride + q])
                            now[(p + 1) * stride + q + 1] = decay * now[p * stride + q + 1] + row
                            row *= decay
                    total += square * shared
                    swap = before
                    before = now
                    now = swap
                kernel[a, b] = total
                if symmetric:
                    kernel[b, a] = total
