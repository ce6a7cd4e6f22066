# cython: language_level=3
"""The few vector operations that every recursion is made of, as C that any compiler can vectorise.

Each loop runs over the contiguous label axis with one accumulator per label (sums and maxima of a row have four), so
no re-association is needed and results do not depend on compiler flags. Four rows share one pass over the output:
loads and stores, not arithmetic, bound these loops.

Where compiler and loader allow, an operation is compiled a second time for wider vectors, and the loader takes what the
processor has. The bits are the same: wider registers do the same operations, and no multiply-adds are fused. Rows of
fewer than ``SEQLAB_SHORT`` labels are not worth the call.
"""

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    #ifndef SEQLAB_VECTOR
    #define SEQLAB_VECTOR

    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
        #define SEQLAB_WIDE __attribute__((target_clones("avx2", "default"), noinline, unused)) static
    #else
        #define SEQLAB_WIDE static CYTHON_UNUSED
    #endif
    #define SEQLAB_INLINE static CYTHON_UNUSED CYTHON_INLINE
    #define SEQLAB_SHORT 16

    #ifdef __GNUC__
        #define seqlab_prefetch(address) __builtin_prefetch(address)
    #else
        #define seqlab_prefetch(address) ((void)(address))
    #endif

    /* Define `name`, which calls `name_body` inline for short rows and compiled for wide vectors else. */
    #define SEQLAB_DISPATCH(name, parameters, arguments)                                      \\
        SEQLAB_WIDE void name##_wide parameters { name##_body arguments; }                    \\
        SEQLAB_INLINE void name parameters                                                    \\
        { if (n < SEQLAB_SHORT) name##_body arguments; else name##_wide arguments; }
    #define SEQLAB_DISPATCH_DOUBLE(name, parameters, arguments)                               \\
        SEQLAB_WIDE double name##_wide parameters { return name##_body arguments; }           \\
        SEQLAB_INLINE double name parameters                                                  \\
        { return n < SEQLAB_SHORT ? name##_body arguments : name##_wide arguments; }

    /* out = matrix @ x: four rows at a time, one running sum each. */
    SEQLAB_INLINE void seqlab_matvec(
        double *CYTHON_RESTRICT out, const double *CYTHON_RESTRICT matrix,
        const double *CYTHON_RESTRICT x, Py_ssize_t n)
    {
        Py_ssize_t i = 0, j;
        for (; i + 3 < n; i += 4) {
            const double *CYTHON_RESTRICT p = matrix + i * n;
            double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
            for (j = 0; j < n; j++) {
                a += p[j] * x[j];
                b += p[n + j] * x[j];
                c += p[2 * n + j] * x[j];
                d += p[3 * n + j] * x[j];
            }
            out[i] = a; out[i + 1] = b; out[i + 2] = c; out[i + 3] = d;
        }
        for (; i < n; i++) {
            const double *CYTHON_RESTRICT p = matrix + i * n;
            double a = 0.0;
            for (j = 0; j < n; j++) a += p[j] * x[j];
            out[i] = a;
        }
    }

    /* out += a * x */
    SEQLAB_INLINE void seqlab_axpy_body(
        double *CYTHON_RESTRICT out, double a, const double *CYTHON_RESTRICT x, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) out[j] += a * x[j];
    }
    SEQLAB_DISPATCH(seqlab_axpy,
        (double *out, double a, const double *x, Py_ssize_t n),
        (out, a, x, n))

    /* out += a * x + b * y + c * z + d * w */
    SEQLAB_INLINE void seqlab_axpy4(
        double *CYTHON_RESTRICT out,
        double a, const double *CYTHON_RESTRICT x, double b, const double *CYTHON_RESTRICT y,
        double c, const double *CYTHON_RESTRICT z, double d, const double *CYTHON_RESTRICT w, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) out[j] += (a * x[j] + b * y[j]) + (c * z[j] + d * w[j]);
    }

    /* out += sum(weight[k] * rows[k]); weights NULL: all one. */
    SEQLAB_INLINE void seqlab_add_rows_body(
        double *CYTHON_RESTRICT out, const double *const *rows, const double *weight, Py_ssize_t n_rows, Py_ssize_t n)
    {
        Py_ssize_t k = 0, j;
        for (; k + 3 < n_rows; k += 4) {
            const double *CYTHON_RESTRICT p = rows[k];
            const double *CYTHON_RESTRICT q = rows[k + 1];
            const double *CYTHON_RESTRICT r = rows[k + 2];
            const double *CYTHON_RESTRICT s = rows[k + 3];
            if (weight) seqlab_axpy4(out, weight[k], p, weight[k + 1], q, weight[k + 2], r, weight[k + 3], s, n);
            else for (j = 0; j < n; j++) out[j] += (p[j] + q[j]) + (r[j] + s[j]);
        }
        for (; k < n_rows; k++) seqlab_axpy_body(out, weight ? weight[k] : 1.0, rows[k], n);
    }
    SEQLAB_DISPATCH(seqlab_add_rows,
        (double *out, const double *const *rows, const double *weight, Py_ssize_t n_rows, Py_ssize_t n),
        (out, rows, weight, n_rows, n))

    /* rows[k] += weight[k] * x for all k; weights NULL: all one. */
    SEQLAB_INLINE void seqlab_add_to_rows_body(
        double *const *rows, const double *weight, Py_ssize_t n_rows, const double *x, Py_ssize_t n)
    {
        Py_ssize_t k;
        for (k = 0; k < n_rows; k++) seqlab_axpy_body(rows[k], weight ? weight[k] : 1.0, x, n);
    }
    SEQLAB_DISPATCH(seqlab_add_to_rows,
        (double *const *rows, const double *weight, Py_ssize_t n_rows, const double *x, Py_ssize_t n),
        (rows, weight, n_rows, x, n))

    /* out = x @ matrix, matrix (n, n) in C order; rows whose weight is zero cost nothing. */
    SEQLAB_INLINE void seqlab_vecmat_body(
        double *CYTHON_RESTRICT out, const double *CYTHON_RESTRICT x,
        const double *CYTHON_RESTRICT matrix, Py_ssize_t n)
    {
        Py_ssize_t i = 0, j;
        for (j = 0; j < n; j++) out[j] = 0.0;
        for (; i + 3 < n; i += 4) {
            const double a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
            const double *CYTHON_RESTRICT p = matrix + i * n;
            const double *CYTHON_RESTRICT q = p + n;
            const double *CYTHON_RESTRICT r = q + n;
            const double *CYTHON_RESTRICT s = r + n;
            if (a == 0.0 && b == 0.0 && c == 0.0 && d == 0.0) continue;
            seqlab_axpy4(out, a, p, b, q, c, r, d, s, n);
        }
        for (; i < n; i++) {
            const double a = x[i];
            const double *CYTHON_RESTRICT p = matrix + i * n;
            if (a == 0.0) continue;
            seqlab_axpy_body(out, a, p, n);
        }
    }
    SEQLAB_DISPATCH(seqlab_vecmat,
        (double *out, const double *x, const double *matrix, Py_ssize_t n),
        (out, x, matrix, n))

    /* best[j] = the largest of delta[i] + matrix[i, j], and previous[j] the smallest i that gives it. */
    SEQLAB_INLINE void seqlab_max_plus_body(
        double *CYTHON_RESTRICT best, Py_ssize_t *CYTHON_RESTRICT previous, const double *CYTHON_RESTRICT delta,
        const double *CYTHON_RESTRICT matrix, Py_ssize_t n)
    {
        Py_ssize_t i, j;
        for (j = 0; j < n; j++) { best[j] = delta[0] + matrix[j]; previous[j] = 0; }
        for (i = 1; i < n; i++) {
            const double own = delta[i];
            const double *CYTHON_RESTRICT row = matrix + i * n;
            for (j = 0; j < n; j++) {
                const double value = own + row[j];
                previous[j] = value > best[j] ? i : previous[j];
                best[j] = value > best[j] ? value : best[j];
            }
        }
    }
    SEQLAB_DISPATCH(seqlab_max_plus,
        (double *best, Py_ssize_t *previous, const double *delta, const double *matrix, Py_ssize_t n),
        (best, previous, delta, matrix, n))

    SEQLAB_INLINE double seqlab_max_body(const double *x, Py_ssize_t n)
    {
        double a = x[0], b = a, c = a, d = a;
        Py_ssize_t j = 0;
        for (; j + 3 < n; j += 4) {
            a = x[j] > a ? x[j] : a;
            b = x[j + 1] > b ? x[j + 1] : b;
            c = x[j + 2] > c ? x[j + 2] : c;
            d = x[j + 3] > d ? x[j + 3] : d;
        }
        for (; j < n; j++) a = x[j] > a ? x[j] : a;
        a = b > a ? b : a;
        c = d > c ? d : c;
        return c > a ? c : a;
    }
    SEQLAB_DISPATCH_DOUBLE(seqlab_max, (const double *x, Py_ssize_t n), (x, n))

    SEQLAB_INLINE double seqlab_min_body(const double *x, Py_ssize_t n)
    {
        double a = x[0], b = a, c = a, d = a;
        Py_ssize_t j = 0;
        for (; j + 3 < n; j += 4) {
            a = x[j] < a ? x[j] : a;
            b = x[j + 1] < b ? x[j + 1] : b;
            c = x[j + 2] < c ? x[j + 2] : c;
            d = x[j + 3] < d ? x[j + 3] : d;
        }
        for (; j < n; j++) a = x[j] < a ? x[j] : a;
        a = b < a ? b : a;
        c = d < c ? d : c;
        return c < a ? c : a;
    }

    SEQLAB_INLINE double seqlab_dot_body(const double *x, const double *y, Py_ssize_t n)
    {
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
        Py_ssize_t j = 0;
        for (; j + 3 < n; j += 4) {
            a += x[j] * y[j];
            b += x[j + 1] * y[j + 1];
            c += x[j + 2] * y[j + 2];
            d += x[j + 3] * y[j + 3];
        }
        for (; j < n; j++) a += x[j] * y[j];
        return (a + b) + (c + d);
    }
    SEQLAB_DISPATCH_DOUBLE(seqlab_dot, (const double *x, const double *y, Py_ssize_t n), (x, y, n))

    /* out = x * y; returns the smallest product. */
    SEQLAB_INLINE double seqlab_multiply_body(
        double *CYTHON_RESTRICT out, const double *CYTHON_RESTRICT x, const double *CYTHON_RESTRICT y, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) out[j] = x[j] * y[j];
        return seqlab_min_body(out, n);
    }
    SEQLAB_DISPATCH_DOUBLE(seqlab_multiply, (double *out, const double *x, const double *y, Py_ssize_t n), (out, x, y, n))

    /* out = a * x, and other = b * y * z. */
    SEQLAB_INLINE void seqlab_share_body(
        double *CYTHON_RESTRICT out, double a, const double *CYTHON_RESTRICT x, double *CYTHON_RESTRICT other, double b,
        const double *CYTHON_RESTRICT y, const double *CYTHON_RESTRICT z, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) out[j] = a * x[j];
        for (j = 0; j < n; j++) other[j] = y[j] * z[j] * b;
    }
    SEQLAB_DISPATCH(seqlab_share,
        (double *out, double a, const double *x, double *other, double b, const double *y, const double *z, Py_ssize_t n),
        (out, a, x, other, b, y, z, n))

    /* x *= y, then divided by its largest entry, which is returned. */
    SEQLAB_INLINE double seqlab_settle_body(double *CYTHON_RESTRICT x, const double *CYTHON_RESTRICT y, Py_ssize_t n)
    {
        double size, unit;
        Py_ssize_t j;
        for (j = 0; j < n; j++) x[j] *= y[j];
        size = seqlab_max_body(x, n);
        unit = 1.0 / size;
        for (j = 0; j < n; j++) x[j] *= unit;
        return size;
    }
    SEQLAB_DISPATCH_DOUBLE(seqlab_settle, (double *x, const double *y, Py_ssize_t n), (x, y, n))

    /* x *= a; returns the smallest product. */
    SEQLAB_INLINE double seqlab_scale_body(double *x, double a, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) x[j] *= a;
        return seqlab_min_body(x, n);
    }
    SEQLAB_DISPATCH_DOUBLE(seqlab_scale, (double *x, double a, Py_ssize_t n), (x, a, n))

    /* *sum += term, what rounding drops kept in *lost (Kahan): long sequences keep their digits. */
    SEQLAB_INLINE void seqlab_add(double *sum, double *lost, double term)
    {
        const double y = term - *lost, t = *sum + y;
        *lost = (t - *sum) - y;
        *sum = t;
    }

    /* out = exp(x - shift) within 2 units in the last place; 0 for arguments below -708, NaN stays. No loop has a branch
       or a call, so that they vectorise: exp(z) = 2^k exp(r), k whole and |r| <= log(2)/2. */
    SEQLAB_INLINE void seqlab_exp_body(
        double *CYTHON_RESTRICT out, const double *CYTHON_RESTRICT x, double shift, Py_ssize_t n)
    {
        const double whole = 6755399441055744.0;  /* 1.5 * 2^52: what is added to it is rounded to an integer */
        Py_ssize_t j;
        for (j = 0; j < n; j++) {
            const double z = x[j] - shift;
            out[j] = z < -708.0 ? -708.0 : z;
        }
        for (j = 0; j < n; j++) {
            const double z = out[j];
            const double sum = z * 1.4426950408889634 + whole, k = sum - whole;
            const double r = (z - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
            double p = 1.0 / 479001600.0, power;
            int64_t bits;
            memcpy(&bits, &sum, sizeof bits);
            bits = (int64_t)((uint64_t)(bits + 1023) << 52);
            memcpy(&power, &bits, sizeof power);
            p = p * r + 1.0 / 39916800.0;
            p = p * r + 1.0 / 3628800.0;
            p = p * r + 1.0 / 362880.0;
            p = p * r + 1.0 / 40320.0;
            p = p * r + 1.0 / 5040.0;
            p = p * r + 1.0 / 720.0;
            p = p * r + 1.0 / 120.0;
            p = p * r + 1.0 / 24.0;
            p = p * r + 1.0 / 6.0;
            p = p * r + 0.5;
            p = p * r * r + r;
            out[j] = power + power * p;
        }
        for (j = 0; j < n; j++) out[j] = x[j] - shift < -708.0 ? 0.0 : out[j];
    }
    SEQLAB_WIDE void seqlab_exp_wide(double *out, const double *x, double shift, Py_ssize_t n)
    { seqlab_exp_body(out, x, shift, n); }
    SEQLAB_INLINE void seqlab_exp(double *out, const double *x, double shift, Py_ssize_t n)
    {
        Py_ssize_t j;
        if (n >= SEQLAB_SHORT) seqlab_exp_wide(out, x, shift, n);
        else for (j = 0; j < n; j++) out[j] = x[j] - shift < -708.0 ? 0.0 : exp(x[j] - shift);
    }

    /* log(sum(exp(x))); minus infinity if every entry is. */
    SEQLAB_INLINE double seqlab_log_sum_exp(const double *x, Py_ssize_t n)
    {
        const double top = seqlab_max(x, n);
        double total = 0.0;
        Py_ssize_t j;
        if (top == -INFINITY) return top;
        for (j = 0; j < n; j++) total += exp(x[j] - top);
        return top + log(total);
    }

    #endif
    """
    void vecmat "seqlab_vecmat"(double *out, const double *x, const double *matrix, Py_ssize_t n) noexcept nogil
    void matvec "seqlab_matvec"(double *out, const double *matrix, const double *x, Py_ssize_t n) noexcept nogil
    void max_plus "seqlab_max_plus"(
        double *best, Py_ssize_t *previous, const double *delta, const double *matrix, Py_ssize_t n) noexcept nogil
    double dot "seqlab_dot"(const double *x, const double *y, Py_ssize_t n) noexcept nogil
    double multiply "seqlab_multiply"(double *out, const double *x, const double *y, Py_ssize_t n) noexcept nogil
    void share "seqlab_share"(
        double *out, double a, const double *x, double *other, double b, const double *y, const double *z,
        Py_ssize_t n) noexcept nogil
    double settle "seqlab_settle"(double *x, const double *y, Py_ssize_t n) noexcept nogil
    double scale "seqlab_scale"(double *x, double a, Py_ssize_t n) noexcept nogil
    double max_of "seqlab_max"(const double *x, Py_ssize_t n) noexcept nogil
    void exp_of "seqlab_exp"(double *out, const double *x, double shift, Py_ssize_t n) noexcept nogil
    double log_sum_exp "seqlab_log_sum_exp"(const double *x, Py_ssize_t n) noexcept nogil
    void add "seqlab_add"(double *sum, double *lost, double term) noexcept nogil
    void axpy "seqlab_axpy"(double *out, double a, const double *x, Py_ssize_t n) noexcept nogil
    void prefetch "seqlab_prefetch"(const void *address) noexcept nogil
    void add_rows "seqlab_add_rows"(
        double *out, const double **rows, const double *weight, Py_ssize_t n_rows, Py_ssize_t n) noexcept nogil
    void add_to_rows "seqlab_add_to_rows"(
        double **rows, const double *weight, Py_ssize_t n_rows, const double *x, Py_ssize_t n) noexcept nogil
