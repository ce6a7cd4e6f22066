# cython: language_level=3
"""For kernels that go through a batch one sequence at a time; see ``_chain_log.pyx``."""


cdef double one_sequence(
    const double[:, ::1] unary, const double[:, :, ::1] transition, Py_ssize_t start, Py_ssize_t stop, double weight,
    double *rows, double[:, ::1] node, double[:, :, ::1] edge,
) noexcept nogil
