# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Scores of states to scores of stacks of states, and the transposed sum."""


def gather(
    const double[:, ::1] scores,        # IN    (n_rows, n_nodes)
    const Py_ssize_t[:, ::1] nodes,     # IN    (n_stacks, n_terms), what each stack sums
    double[:, ::1] out,                 # OUT   (n_rows, n_stacks)
):
    """``out[t, k] = scores[t, nodes[k]].sum()``."""
    cdef Py_ssize_t t, k, j
    cdef double total
    with nogil:
        for t in range(out.shape[0]):
            for k in range(out.shape[1]):
                total = 0.0
                for j in range(nodes.shape[1]):
                    total += scores[t, nodes[k, j]]
                out[t, k] = total


def scatter(
    const double[:, ::1] shares,        # IN    (n_rows, n_stacks)
    const Py_ssize_t[:, ::1] nodes,     # IN    (n_stacks, n_terms)
    double[:, ::1] out,                 # IN/OUT (n_rows, n_nodes), added to
):
    """``out[t, nodes[k, j]] += shares[t, k]`` for all ``k`` and ``j``."""
    cdef Py_ssize_t t, k, j
    with nogil:
        for t in range(shares.shape[0]):
            for k in range(shares.shape[1]):
                for j in range(nodes.shape[1]):
                    out[t, nodes[k, j]] += shares[t, k]
