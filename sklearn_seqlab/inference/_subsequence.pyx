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
    cdef Py_ssize_t width = first.shape[1], a, b, l, p, q, start
    cdef double square = decay * decay, total, shared, row
    cdef double[:, ::1] match = work[0], before = work[1], now = work[2], swap
    with nogil:
        for a in range(first.shape[0]):
            start = a if symmetric else 0
            for b in range(start, second.shape[0]):
                for p in range(width):
                    for q in range(width):
                        match[p, q] = 0.0
                        if zone[p] == zone[q] and first[a, p] >= 0 and second[b, q] >= 0:
                            match[p, q] = common[first[a, p], second[b, q]]
                for p in range(width + 1):
                    for q in range(width + 1):
                        before[p, q] = 1.0
                total = 0.0
                for l in range(max_length):
                    for q in range(width + 1):
                        now[0, q] = 0.0
                    shared = 0.0
                    for p in range(width):
                        row = 0.0
                        now[p + 1, 0] = 0.0
                        for q in range(width):
                            shared += match[p, q] * before[p, q]
                            row = decay * row + square * match[p, q] * before[p, q]
                            now[p + 1, q + 1] = decay * now[p, q + 1] + row
                    total += square * shared
                    if shared == 0.0:
                        break
                    swap = before
                    before = now
                    now = swap
                kernel[a, b] = total
                if symmetric:
                    kernel[b, a] = total
