# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""The n best labellings of a chain: every cell keeps its n best partial labellings."""
from libc.math cimport INFINITY


def n_best(
    const double[:, ::1] unary,             # IN    (n_steps, n_labels), one sequence, nats
    const double[:, :, ::1] transition,     # IN    (1 or n_steps, n_labels, n_labels), from row to column
    Py_ssize_t[::1] head,                   # WORK  (n_labels,), next rank to take from each previous label
    double[:, :, ::1] score,                # WORK  (n_steps, n_labels, n), decreasing along the last axis
    Py_ssize_t[:, :, ::1] previous,         # WORK  (n_steps, n_labels, n), previous label * n + its rank
    Py_ssize_t[:, ::1] codes,               # OUT   (n, n_steps)
    double[::1] best,                       # OUT   (n,), decreasing, -inf where no further labelling exists
):
    """O(n_steps * n_labels**2 * n); ties go to the smallest label, at the last step first.

    A cell merges the decreasing lists of the previous labels: the next best is always at one of the
    n_labels heads. Partial labellings of score minus infinity are never entered.
    """
    cdef Py_ssize_t n_steps = unary.shape[0], n_labels = unary.shape[1], n = best.shape[0]
    cdef Py_ssize_t t, i, j, k, at, top, cell
    cdef double value, largest
    with nogil:
        for j in range(n_labels):
            for k in range(n):
                score[0, j, k] = -INFINITY
            score[0, j, 0] = unary[0, j]
        for t in range(1, n_steps):
            at = t if transition.shape[0] > 1 else 0
            for j in range(n_labels):
                for i in range(n_labels):
                    head[i] = 0
                for k in range(n):
                    largest, top = -INFINITY, -1
                    for i in range(n_labels):
                        if head[i] < n:
                            value = score[t - 1, i, head[i]] + transition[at, i, j]
                            if value > largest:
                                largest, top = value, i
                    score[t, j, k] = -INFINITY
                    if top >= 0:
                        score[t, j, k] = largest + unary[t, j]
                        previous[t, j, k] = top * n + head[top]
                        head[top] += 1
        for i in range(n_labels):
            head[i] = 0
        for k in range(n):
            largest, top = -INFINITY, -1
            for i in range(n_labels):
                if head[i] < n and score[n_steps - 1, i, head[i]] > largest:
                    largest, top = score[n_steps - 1, i, head[i]], i
            best[k] = largest
            if top < 0:
                continue
            cell = top * n + head[top]
            head[top] += 1
            for t in range(n_steps - 1, -1, -1):
                codes[k, t] = cell // n
                if t > 0:
                    cell = previous[t, cell // n, cell % n]
