/* Multiplies small matrices of doubles, which stay in the first-level cache of a core: chains of products. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 32, STEPS = 100 };

static double chain(long seed) {
    double a[N][N], b[N][N], c[N][N], trace = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (double)((seed + i + j) % 7);
            b[i][j] = (double)((seed + i * j) % 5) / (3 * N); /* products neither vanish nor overflow */
        }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) {
            double row[N] = {0.0};
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++)
                    row[j] += a[i][k] * b[k][j];
            for (int j = 0; j < N; j++)
                c[i][j] = row[j];
        }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                a[i][j] = c[i][j];
    }
    for (int i = 0; i < N; i++)
        trace += a[i][i];
    return trace;
}

int main(int argc, char **argv) {
    const long chains = argc > 1 ? strtol(argv[1], NULL, 10) : 8000;
    double traces = 0.0;
#pragma omp parallel for reduction(+ : traces)
    for (long seed = 0; seed < chains; seed++)
        traces += chain(seed);
    printf("matmul: sum of all traces %g\n", traces);
    return 0;
}
