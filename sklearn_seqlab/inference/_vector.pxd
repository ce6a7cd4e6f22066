# cython: language_level=3
"""The few vector operations that every recursion is made of, as C that any compiler can vectorise.

Each loop runs over the contiguous label axis with one accumulator per label, so no re-association is
needed and results do not depend on compiler flags. Four rows share one pass over the output: loads and
stores, not arithmetic, bound these loops.
"""

cdef extern from *:
    """
    #include <math.h>
    #include <stdint.h>
    #include <string.h>

    /* out = matrix @ x: four rows at a time, one running sum each. */
    static CYTHON_INLINE void seqlab_matvec(
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
    static CYTHON_INLINE void seqlab_axpy(
        double *CYTHON_RESTRICT out, double a, const double *CYTHON_RESTRICT x, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) out[j] += a * x[j];
    }

    /* out += a * x + b * y + c * z + d * w */
    static CYTHON_INLINE void seqlab_axpy4(
        double *CYTHON_RESTRICT out,
        double a, const double *CYTHON_RESTRICT x, double b, const double *CYTHON_RESTRICT y,
        double c, const double *CYTHON_RESTRICT z, double d, const double *CYTHON_RESTRICT w, Py_ssize_t n)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) out[j] += (a * x[j] + b * y[j]) + (c * z[j] + d * w[j]);
    }

    /* out = x @ matrix, matrix (n, n) in C order; rows whose weight is zero cost nothing. */
    static CYTHON_INLINE void seqlab_vecmat(
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
            seqlab_axpy(out, a, p, n);
        }
    }

    static CYTHON_INLINE double seqlab_max(const double *x, Py_ssize_t n)
    {
        double top = x[0];
        Py_ssize_t j;
        for (j = 1; j < n; j++) top = x[j] > top ? x[j] : top;
        return top;
    }

    /* *sum += term, what rounding drops kept in *lost (Kahan): long sequences keep their digits. */
    static CYTHON_INLINE void seqlab_add(double *sum, double *lost, double term)
    {
        const double y = term - *lost, t = *sum + y;
        *lost = (t - *sum) - y;
        *sum = t;
    }

    /* out = exp(x - shift) within 2 units in the last place; arguments below -708 count as -708, NaN stays. The
       second loop has no branch and no call, so that it vectorises: exp(z) = 2^k exp(r), k whole and |r| <= log(2)/2. */
    static CYTHON_INLINE void seqlab_exp(
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
    }

    /* log(sum(exp(x))); minus infinity if every entry is. */
    static CYTHON_INLINE double seqlab_log_sum_exp(const double *x, Py_ssize_t n)
    {
        const double top = seqlab_max(x, n);
        double total = 0.0;
        Py_ssize_t j;
        if (top == -INFINITY) return top;
        for (j = 0; j < n; j++) total += exp(x[j] - top);
        return top + log(total);
    }
    """
    void vecmat "seqlab_vecmat"(double *out, const double *x, const double *matrix, Py_ssize_t n) noexcept nogil
    void matvec "seqlab_matvec"(double *out, const double *matrix, const double *x, Py_ssize_t n) noexcept nogil
    double max_of "seqlab_max"(const double *x, Py_ssize_t n) noexcept nogil
    void exp_of "seqlab_exp"(double *out, const double *x, double shift, Py_ssize_t n) noexcept nogil
    double log_sum_exp "seqlab_log_sum_exp"(const double *x, Py_ssize_t n) noexcept nogil
    void add "seqlab_add"(double *sum, double *lost, double term) noexcept nogil
    void axpy "seqlab_axpy"(double *out, double a, const double *x, Py_ssize_t n) noexcept nogil
    void axpy4 "seqlab_axpy4"(
        double *out, double a, const double *x, double b, const double *y,
        double c, const double *z, double d, const double *w, Py_ssize_t n) noexcept nogil
