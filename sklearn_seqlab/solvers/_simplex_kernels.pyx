# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, freethreading_compatible=True
"""Active-set method for multipliers in groups of fixed sum, on a Cholesky factor that follows the active set.

Every group has a plane of zeros, numbered after all others, which takes what the group does not spend: the sums are
then fixed, and ``unit`` times the square of each may be added to the objective, which makes the system on the active
planes definite in the directions that the sums alone determine.
"""
from libc.math cimport sqrt


cdef inline double dot(const double *a, const double *b, Py_ssize_t n) noexcept nogil:
    """Four running sums, so that the processor need not wait for one addition after the other."""
    cdef double s = 0.0, t = 0.0, u = 0.0, v = 0.0
    cdef Py_ssize_t i = 0
    while i + 3 < n:
        s += a[i] * b[i]
        t += a[i + 1] * b[i + 1]
        u += a[i + 2] * b[i + 2]
        v += a[i + 3] * b[i + 3]
        i += 4
    while i < n:
        s += a[i] * b[i]
        i += 1
    return (s + t) + (u + v)


cdef inline void add_scaled(double *out, double factor, const double *x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] += factor * x[i]


cdef void append(
    Py_ssize_t v,                           # IN    plane that enters
    const double[:, ::1] gram,
    const double[::1] linear,
    const Py_ssize_t[::1] group,            # IN    (n_planes + n_groups,)
    double unit,
    double ridge,
    const Py_ssize_t[::1] active,           # IN    (k,) of those that are in
    Py_ssize_t k,
    double[:, ::1] factor,                  # IN/OUT lower triangle; row k is new
    double[:, ::1] sides,                   # IN/OUT the factor's inverse times (linear, membership of groups)
) noexcept nogil:
    cdef Py_ssize_t n_planes = linear.shape[0], n_sides = sides.shape[1], i, j
    cdef double value, pivot
    for i in range(k):
        value = unit if group[active[i]] == group[v] else 0.0
        if active[i] < n_planes and v < n_planes:
            value += gram[v, active[i]]
        factor[k, i] = (value - dot(&factor[i, 0], &factor[k, 0], i)) / factor[i, i]
    pivot = unit + ridge
    if v < n_planes:
        pivot += gram[v, v]
    pivot -= dot(&factor[k, 0], &factor[k, 0], k)
    if not pivot > ridge:
        pivot = ridge
    factor[k, k] = sqrt(pivot)
    for j in range(n_sides):
        sides[k, j] = 0.0
    sides[k, 0] = linear[v] if v < n_planes else 0.0
    sides[k, 1 + group[v]] = 1.0
    for i in range(k):
        add_scaled(&sides[k, 0], -factor[k, i], &sides[i, 0], n_sides)
    for j in range(n_sides):
        sides[k, j] /= factor[k, k]


cdef void remove(
    Py_ssize_t place,                       # IN    of the plane that leaves, among the active ones
    Py_ssize_t[::1] active,                 # IN/OUT
    Py_ssize_t k,                           # IN    how many were active
    double[:, ::1] factor,
    double[:, ::1] sides,
    double[::1] cosine,                     # WORK  (k,)
    double[::1] sine,                       # WORK  (k,)
) noexcept nogil:
    """Rotations turn what is left of the factor back into a triangle; O(k**2)."""
    cdef Py_ssize_t n_sides = sides.shape[1], r, j, below, right
    cdef double c, s, a, b, size
    for r in range(place, k - 1):
        below = r + 1
        active[r] = active[below]
        for j in range(below + 1):
            factor[r, j] = factor[below, j]
        for j in range(place, r):
            right = j + 1
            a, b = factor[r, j], factor[r, right]
            factor[r, j] = cosine[j] * a + sine[j] * b
            factor[r, right] = cosine[j] * b - sine[j] * a
        a, b = factor[r, r], factor[r, below]
        size = sqrt(a * a + b * b)
        c, s = a / size, b / size
        cosine[r], sine[r] = c, s
        factor[r, r] = size
        for j in range(n_sides):
            a, b = sides[r, j], sides[below, j]
            sides[r, j] = c * a + s * b
            sides[below, j] = c * b - s * a


cdef void solve(
    const double[::1] caps,
    Py_ssize_t k,
    const double[:, ::1] factor,
    const double[:, ::1] sides,
    double[:, ::1] schur,                   # WORK  (n_groups, n_groups + 1)
    double[::1] goal,                       # OUT   (k,), the optimum over the active planes
) noexcept nogil:
    cdef Py_ssize_t n_groups = caps.shape[0], i, j, g, h
    cdef double ratio
    for g in range(n_groups):
        for h in range(n_groups + 1):
            schur[g, h] = 0.0
        schur[g, n_groups] = -caps[g]
    for i in range(k):
        for g in range(n_groups):
            if sides[i, 1 + g] != 0.0:
                add_scaled(&schur[g, 0], sides[i, 1 + g], &sides[i, 1], n_groups)
                schur[g, n_groups] += sides[i, 1 + g] * sides[i, 0]
    for g in range(n_groups):               # positive definite: no pivoting
        for h in range(g + 1, n_groups):
            ratio = schur[h, g] / schur[g, g]
            if ratio != 0.0:
                add_scaled(&schur[h, g], -ratio, &schur[g, g], n_groups + 1 - g)
    for g in range(n_groups - 1, -1, -1):
        for h in range(g + 1, n_groups):
            schur[g, n_groups] -= schur[g, h] * schur[h, n_groups]
        schur[g, n_groups] /= schur[g, g]
    for i in range(k):
        goal[i] = sides[i, 0]
        for g in range(n_groups):
            goal[i] -= sides[i, 1 + g] * schur[g, n_groups]
    for i in range(k - 1, -1, -1):
        goal[i] /= factor[i, i]
        add_scaled(&goal[0], -goal[i], &factor[i, 0], i)


def ascend(
    const double[:, ::1] gram,              # IN    (n_planes, n_planes)
    const double[::1] linear,               # IN    (n_planes,)
    const Py_ssize_t[::1] group,            # IN    (n_planes + n_groups,), the planes of zeros last
    const double[::1] caps,                 # IN    (n_groups,)
    double unit,                            # IN    weight of the squared sums
    double ridge,
    double allowance,                       # IN    no plane enters for a smaller gain per unit
    Py_ssize_t max_iter,
    double[::1] multiplier,                 # IN/OUT (n_planes + n_groups,), sums at the caps
    double[:, ::1] factor,                  # WORK  (n_planes + n_groups, n_planes + n_groups)
    double[:, ::1] sides,                   # WORK  (n_planes + n_groups, n_groups + 1)
    double[:, ::1] schur,                   # WORK  (n_groups, n_groups + 1)
    double[:, ::1] rows,                    # WORK  (4, n_planes + n_groups)
    Py_ssize_t[::1] active,                 # WORK  (n_planes + n_groups,)
    unsigned char[::1] state,               # WORK  (n_planes + n_groups,): 1 active, 2 of no use for now
    double[::1] price,                      # WORK  (n_groups,)
):
    """Move the multipliers to the optimum; returns how often the active set changed.

    A change takes O(n_active**2 + n_planes * n_active) time.
    """
    cdef Py_ssize_t n_planes = linear.shape[0], n_groups = caps.shape[0], n = n_planes + n_groups
    cdef Py_ssize_t k = 0, i, v, place, entered = -1, n_changes = 0
    cdef double[::1] goal = rows[0], gain = rows[1], cosine = rows[2], sine = rows[3]
    cdef double step, ratio, top
    with nogil:
        for v in range(n):
            state[v] = 0
            if multiplier[v] > 0.0:
                append(v, gram, linear, group, unit, ridge, active, k, factor, sides)
                active[k] = v
                state[v] = 1
                k += 1
        while n_changes < max_iter:
            solve(caps, k, factor, sides, schur, goal)
            step, place = 1.0, -1
            for i in range(k):
                if goal[i] < 0.0:
                    ratio = multiplier[active[i]] / (multiplier[active[i]] - goal[i])
                    if ratio < step:
                        step, place = ratio, i
            for i in range(k):
                v = active[i]
                multiplier[v] += step * (goal[i] - multiplier[v])
            if place >= 0:
                v = active[place]
                multiplier[v] = 0.0
                # one that would leave at once is of no use until something else has moved
                state[v] = 2 if v == entered and step == 0.0 else 0
                remove(place, active, k, factor, sides, cosine, sine)
                k -= 1
                n_changes += 1
                continue
            for i in range(n_planes):
                gain[i] = linear[i]
            for i in range(n_groups):
                gain[n_planes + i] = 0.0
                price[i] = 0.0
            for i in range(k):
                if active[i] < n_planes:
                    add_scaled(&gain[0], -multiplier[active[i]], &gram[active[i], 0], n_planes)
            for i in range(k):
                price[group[active[i]]] += multiplier[active[i]] * gain[active[i]] / caps[group[active[i]]]
            top, entered = allowance, -1
            for v in range(n):
                if state[v] == 0 and gain[v] - price[group[v]] > top:
                    top, entered = gain[v] - price[group[v]], v
            if entered < 0:
                break
            append(entered, gram, linear, group, unit, ridge, active, k, factor, sides)
            active[k] = entered
            state[entered] = 1
            k += 1
            n_changes += 1
    return n_changes
