# cython: language_level=3
"""For kernels that go through a batch one sequence at a time; see ``_chain_scaled.pyx``."""


cdef bint one_sequence(
    const double[:, ::1] unary, const double[:, :, ::1] factors, const double[:, ::1] factors_transposed,
    const double[::1] log_factors, Py_ssize_t start, Py_ssize_t stop, double weight,
    double *beta, double *pulled, double[:, ::1] node, double[:, ::1] left, double[:, ::1] right,
    double *log_z,
) noexcept nogil
