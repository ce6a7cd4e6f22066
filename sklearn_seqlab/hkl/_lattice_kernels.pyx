# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sums over everything above or below each node of a lattice, in place."""


def sum_over_supersets(
    const Py_ssize_t[::1] lower,            # IN    (n_steps,) node
    const Py_ssize_t[::1] upper,            # IN    (n_steps,) the same node with one atom more
    double[:, ::1] values,                  # IN/OUT (n_nodes, n_columns)
):
    """Each node's sum over itself and all nodes that contain it; O(n_steps * n_columns).

    Steps are ordered by their atom, and atoms of a chain from its far end.
    """
    cdef Py_ssize_t n_columns = values.shape[1], k, j
    cdef double *to
    cdef double *of
    with nogil:
        for k in range(lower.shape[0]):
            to, of = &values[lower[k], 0], &values[upper[k], 0]
            for j in range(n_columns):
                to[j] += of[j]


def sum_over_subsets(
    const Py_ssize_t[::1] lower,            # IN    (n_steps,)
    const Py_ssize_t[::1] upper,            # IN    (n_steps,)
    double[:, ::1] values,                  # IN/OUT (n_nodes, n_columns)
):
    """Each node's sum over itself and all nodes that it contains: the same steps, the other way round."""
    cdef Py_ssize_t n_columns = values.shape[1], k, j
    cdef double *to
    cdef double *of
    with nogil:
        for k in range(lower.shape[0] - 1, -1, -1):
            to, of = &values[upper[k], 0], &values[lower[k], 0]
            for j in range(n_columns):
                to[j] += of[j]
