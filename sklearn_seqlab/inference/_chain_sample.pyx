# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Draws from the distribution of a chain's labellings: backwards, given the forward messages."""
from libc.math cimport exp

from sklearn_seqlab.inference._vector cimport max_of


def sample_backward(
    const double[:, ::1] log_alpha,         # IN    (n_total, n_labels), forward messages, nats
    const double[:, :, ::1] transition,     # IN    (1 or n_total, n_labels, n_labels), from row to column
    const Py_ssize_t[::1] offsets,          # IN    (n_sequences + 1,), every sequence feasible
    const double[::1] uniform,              # IN    (n_total,), in [0, 1)
    double[::1] row,                        # WORK  (n_labels,)
    Py_ssize_t[::1] codes,                  # OUT   (n_total,)
):
    """One labelling of every chain; O(n_total * n_labels)."""
    cdef Py_ssize_t n_labels = log_alpha.shape[1], s, t, i, at, chosen
    cdef double top, mass, threshold
    with nogil:
        for s in range(offsets.shape[0] - 1):
            for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
                at = t + 1 if transition.shape[0] > 1 else 0
                for i in range(n_labels):
                    row[i] = log_alpha[t, i]
                    if t + 1 < offsets[s + 1]:
                        row[i] += transition[at, i, codes[t + 1]]
                top = max_of(&row[0], n_labels)
                mass = 0.0
                for i in range(n_labels):
                    row[i] = exp(row[i] - top)
                    mass += row[i]
                threshold = uniform[t] * mass
                chosen = 0
                mass = 0.0
                for i in range(n_labels):
                    if row[i] > 0.0:
                        chosen = i       # the last label with any mass, should rounding overrun the sum
                        mass += row[i]
                        if threshold < mass:
                            break
                codes[t] = chosen
