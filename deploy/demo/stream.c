/* Streams memory: a[i] = b[i] + s * c[i] over arrays far larger than any cache. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 40000000;
    const int repeats = argc > 2 ? atoi(argv[2]) : 80;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c) {
        fputs("stream: not enough memory\n", stderr);
        return 1;
    }
#pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        a[i] = 0.0;
        b[i] = 1.0;
        c[i] = (double)i;
    }
    for (int repeat = 0; repeat < repeats; repeat++) {
        const double s = 1.0 / (1.0 + repeat);
#pragma omp parallel for
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] + s * c[i];
        double *const previous = b; /* the next repeat reads what this one wrote */
        b = a;
        a = previous;
    }
    printf("stream: last element %g\n", b[n - 1]);
    free(a);
    free(b);
    free(c);
    return 0;
}
