# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Sparse planes against dense coefficients, and exact ascent on the multipliers of one block."""


def products(
    const Py_ssize_t[::1] indptr,           # IN    (n_planes + 1,)
    const Py_ssize_t[::1] indices,          # IN    (n_stored,)
    const double[::1] values,               # IN    (n_stored,)
    const double[::1] coef,                 # IN    (n_coef,)
    double[::1] out,                        # OUT   (n_planes,)
):
    """Product of every plane with the coefficients."""
    cdef Py_ssize_t p, k
    cdef double total
    with nogil:
        for p in range(out.shape[0]):
            total = 0.0
            for k in range(indptr[p], indptr[p + 1]):
                total += values[k] * coef[indices[k]]
            out[p] = total


def add_scaled(
    const Py_ssize_t[::1] indices,          # IN    (n_stored,)
    const double[::1] values,               # IN    (n_stored,)
    double factor,
    double[::1] coef,                       # IN/OUT (n_coef,)
):
    """``coef[indices] += factor * values``; no index occurs twice."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(indices.shape[0]):
            coef[indices[k]] += factor * values[k]


def weighted_sum(
    const Py_ssize_t[::1] indices,          # IN    (n_stored,), increasing
    const double[::1] values,               # IN    (n_stored,)
    double factor,
    const Py_ssize_t[::1] more_indices,     # IN    (n_more,), increasing
    const double[::1] more_values,          # IN    (n_more,)
    double more_factor,
    Py_ssize_t[::1] sum_indices,            # OUT   (n_stored + n_more,), as many as are returned
    double[::1] sum_values,                 # OUT   the same
):
    """Two sparse vectors in one, each times a factor; one whose factor is nought takes no room. Returns the length."""
    cdef Py_ssize_t n = indices.shape[0] if factor != 0.0 else 0
    cdef Py_ssize_t n_more = more_indices.shape[0] if more_factor != 0.0 else 0
    cdef Py_ssize_t i = 0, k = 0, length = 0
    with nogil:
        while i < n or k < n_more:
            if k == n_more or (i < n and indices[i] < more_indices[k]):
                sum_indices[length] = indices[i]
                sum_values[length] = factor * values[i]
                i += 1
            elif i == n or more_indices[k] < indices[i]:
                sum_indices[length] = more_indices[k]
                sum_values[length] = more_factor * more_values[k]
                k += 1
            else:
                sum_indices[length] = indices[i]
                sum_values[length] = factor * values[i] + more_factor * more_values[k]
                i += 1
                k += 1
            length += 1
    return length


def ascend_block(
    const Py_ssize_t[::1] indptr,           # IN    (n_planes + 1,)
    const Py_ssize_t[::1] indices,          # IN    (n_stored,)
    const double[::1] values,               # IN    (n_stored,)
    const double[::1] offset,               # IN    (n_planes,)
    const double[:, ::1] gram,              # IN    (n_planes, n_planes), products of planes
    double cap,                             # IN    largest sum of the multipliers
    int n_steps,
    double tol,                             # IN    no step where the gain of a unit is below it
    double[::1] multiplier,                 # IN/OUT (n_planes,)
    double[::1] gain,                       # WORK/OUT (n_planes,), offsets less products, after the steps
    double[::1] change,                     # WORK  (n_planes,)
    double[::1] coef,                       # IN/OUT (n_coef,)
):
    """Exact pairwise steps on the multipliers of one block; returns the block's gap before them.

    A step moves weight from the plane (or the slack, a plane of zeros) of least gain that has some to the one of
    largest gain, as far as the dual rises. The gap is ``cap`` times the largest gain less the weighted gains.
    """
    cdef Py_ssize_t n_planes = offset.shape[0], p, k, up, down
    cdef double slack = cap, total, high, low, step, curve, room, gap = 0.0
    cdef int n
    with nogil:
        high = 0.0
        for p in range(n_planes):
            total = 0.0
            for k in range(indptr[p], indptr[p + 1]):
                total += values[k] * coef[indices[k]]
            gain[p] = offset[p] - total
            change[p] = 0.0
            slack -= multiplier[p]
            gap -= multiplier[p] * gain[p]
            if gain[p] > high:
                high = gain[p]
        gap += cap * high
        if slack < 0.0:                     # rounding
            slack = 0.0
        for n in range(n_steps):
            up, down = -1, -1               # -1 is the slack, whose gain is nought
            high = 0.0
            low = 0.0 if slack > 0.0 else 1e300
            for p in range(n_planes):
                if gain[p] > high:
                    high, up = gain[p], p
                if multiplier[p] > 0.0 and gain[p] < low:
                    low, down = gain[p], p
            if not high - low > tol or up == down:
                break
            curve = 0.0
            if up >= 0:
                curve += gram[up, up]
            if down >= 0:
                curve += gram[down, down]
            if up >= 0 and down >= 0:
                curve -= 2.0 * gram[up, down]
            room = slack if down < 0 else multiplier[down]
            step = room
            if curve > 0.0 and (high - low) < room * curve:
                step = (high - low) / curve
            if up >= 0:
                multiplier[up] += step
                change[up] += step
            else:
                slack += step
            if down >= 0:
                multiplier[down] = 0.0 if step == room else multiplier[down] - step
                change[down] -= step
            else:
                slack = 0.0 if step == room else slack - step
            for p in range(n_planes):
                if up >= 0:
                    gain[p] -= step * gram[p, up]
                if down >= 0:
                    gain[p] += step * gram[p, down]
        for p in range(n_planes):
            if change[p] != 0.0:
                for k in range(indptr[p], indptr[p + 1]):
                    coef[indices[k]] += change[p] * values[k]
    return gap
