/* What the engines are measured against: multiply-adds with the same trip counts, and nothing else. */

void multiply_adds(double *sums, const double *matrix, const double *factors, long n_outer, long n_rows, long n)
{
    for (long outer = 0; outer < n_outer; outer++) {
        for (long i = 0; i < n_rows; i++) {
            const double factor = factors[i];
            const double *row = matrix + i * n;
            for (long j = 0; j < n; j++)
                sums[j] += factor * row[j];
        }
    }
}
