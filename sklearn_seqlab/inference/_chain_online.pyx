# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""One step of a stream: the forward message, and the backward messages over the last few steps.

In the log domain, with the largest entry of a message at zero: no step of a stream of any length can under- or
overflow, and no certificate is needed of a future that is not there yet. The last ``size`` steps stand in a ring;
step ``n`` has row ``n % size``.
"""
from libc.math cimport exp, log, INFINITY

from sklearn_seqlab.inference._vector cimport log_sum_exp, max_of


def forward_step(
    const double[::1] unary,            # IN    (n_labels,), nats
    const double[:, :, ::1] moves,      # IN    (1 or size, n_labels, n_labels), from row to column
    Py_ssize_t n,                       # IN    number of the step, from 0; step 0 has no move
    double[::1] row,                    # WORK  (n_labels,)
    double[:, ::1] log_alpha,           # INOUT (size, n_labels), row of this step written
    double[:, ::1] ring,                # OUT   (size, n_labels), scores of this step kept for later
    double[::1] proba,                  # OUT   (n_labels,), labels of this step given all up to it
):
    """Log of what the messages were divided by; minus infinity: infeasible, NaN or infinity: scores too large.

    O(n_labels**2) exponentials.
    """
    cdef Py_ssize_t n_labels = unary.shape[0], size = ring.shape[0], at = n % size, before = (n - 1) % size, i, j
    cdef Py_ssize_t move = at if moves.shape[0] > 1 else 0
    cdef double top, level, mass = 0.0
    cdef double *alpha = &log_alpha[at, 0]
    cdef double *last = &row[0]
    with nogil:
        # what all labels share says nothing, and would cost the messages their digits
        level = max_of(&unary[0], n_labels)
        if level - level != 0.0:
            level = 0.0
        if n == 0:
            for j in range(n_labels):
                alpha[j] = unary[j] - level
        else:
            # a ring of one step: the message is written where the last one stands
            for i in range(n_labels):
                last[i] = log_alpha[before, i]
            for j in range(n_labels):
                alpha[j] = unary[j] - level
                if unary[j] > -INFINITY:
                    top = -INFINITY
                    for i in range(n_labels):
                        row[n_labels + i] = last[i] + moves[move, i, j]
                    alpha[j] += log_sum_exp(&row[n_labels], n_labels)
        top = max_of(alpha, n_labels)
        for j in range(n_labels):
            if alpha[j] != alpha[j]:
                top = alpha[j]
        if top - top == 0.0:
            for j in range(n_labels):
                alpha[j] -= top
                ring[at, j] = unary[j] - level
                proba[j] = exp(alpha[j])
                mass += proba[j]
            for j in range(n_labels):
                proba[j] /= mass
    return top


def backward_steps(
    const double[:, ::1] ring,          # IN    (size, n_labels), nats
    const double[:, :, ::1] moves,      # IN    (1 or size, n_labels, n_labels), from row to column
    const double[:, ::1] log_alpha,     # IN    (size, n_labels)
    const double[::1] final,            # IN    (n_labels,), scores of ending at step n
    Py_ssize_t n,                       # IN    number of the last step
    Py_ssize_t n_back,                  # IN    how many steps to go back, less than size
    double[::1] row,                    # WORK  (3 * n_labels,)
    double[:, ::1] proba,               # OUT   (n_out, n_labels): labels of steps n - n_back, n - n_back + 1, ...
):
    """Probabilities given all steps up to ``n``; O(n_back * n_labels**2) exponentials.

    Returns the log of the last mass that was divided out; minus infinity where nothing is feasible.
    """
    cdef Py_ssize_t n_labels = ring.shape[1], size = ring.shape[0], n_out = proba.shape[0], t, at, move, i, j, out
    cdef double *beta = &row[0]
    cdef double *pulled = &row[n_labels]
    cdef double *terms = &row[2 * n_labels]
    cdef double top = 0.0, mass
    with nogil:
        for j in range(n_labels):
            beta[j] = final[j]
        for t in range(n, n - n_back - 1, -1):
            at = t % size
            out = t - (n - n_back)
            if out < n_out:
                for j in range(n_labels):
                    pulled[j] = log_alpha[at, j] + beta[j]
                top = max_of(pulled, n_labels)
                if not top > -INFINITY:
                    break
                mass = 0.0
                for j in range(n_labels):
                    proba[out, j] = exp(pulled[j] - top)
                    mass += proba[out, j]
                for j in range(n_labels):
                    proba[out, j] /= mass
            if out == 0:
                break
            move = at if moves.shape[0] > 1 else 0
            for j in range(n_labels):
                pulled[j] = ring[at, j] + beta[j]
            for i in range(n_labels):
                for j in range(n_labels):
                    terms[j] = moves[move, i, j] + pulled[j]
                beta[i] = log_sum_exp(terms, n_labels)
            top = max_of(beta, n_labels)
            if not top > -INFINITY:
                break
            for i in range(n_labels):
                beta[i] -= top
    return top
