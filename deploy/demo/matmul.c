/* Multiplies two n x n matrices of doubles, row by row in tiles that stay in the cache. */
#include <stdio.h>
#include <stdlib.h>

enum { TILE = 32 };

static void multiply_tile(size_t n, size_t i0, size_t k0, const double *a, const double *b, double *c) {
    for (size_t i = i0; i < i0 + TILE; i++)
        for (size_t k = k0; k < k0 + TILE; k++) {
            const double factor = a[i * n + k];
            for (size_t j = 0; j < n; j++)
                c[i * n + j] += factor * b[k * n + j];
        }
}

int main(int argc, char **argv) {
    const size_t n = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1792) / TILE * TILE;
    double *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b), *c = calloc(n * n, sizeof *c);
    if (!a || !b || !c) {
        fputs("matmul: not enough memory\n", stderr);
        return 1;
    }
    for (size_t i = 0; i < n * n; i++) {
        a[i] = (double)(i % 7);
        b[i] = (double)(i % 5);
    }
#pragma omp parallel for
    for (size_t i0 = 0; i0 < n; i0 += TILE)
        for (size_t k0 = 0; k0 < n; k0 += TILE)
            multiply_tile(n, i0, k0, a, b, c);
    printf("matmul: last element %g\n", c[n * n - 1]);
    free(a);
    free(b);
    free(c);
    return 0;
}
