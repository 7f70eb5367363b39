/* Heat on a square grid by rows over the ranks; each step exchanges one row with each neighbour. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
   int n = atoi(argv[1]), steps = atoi(argv[2]), rank, ranks, rows, i, j, step;
   double *now, *next, *swap, change = 0, largest = 0;
   (void)argc;
   MPI_Init(NULL, NULL);
   MPI_Comm_rank(MPI_COMM_WORLD, &rank);
   MPI_Comm_size(MPI_COMM_WORLD, &ranks);
   rows = n / ranks;
   now = calloc((size_t)(rows + 2) * n, sizeof *now);
   next = calloc((size_t)(rows + 2) * n, sizeof *next);
   for (j = 0; rank == 0 && j < n; j++)
      now[j] = next[j] = 100;
   for (step = 0; step < steps; step++) {
      int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
      MPI_Sendrecv(now + n, n, MPI_DOUBLE, up, 0, now + (size_t)(rows + 1) * n, n, MPI_DOUBLE, down,
                   0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Sendrecv(now + (size_t)rows * n, n, MPI_DOUBLE, down, 1, up == MPI_PROC_NULL ? next : now,
                   up == MPI_PROC_NULL ? 0 : n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      change = 0;
      for (i = 1; i <= rows; i++)
         for (j = 1; j < n - 1; j++) {
            size_t at = (size_t)i * n + j;
            next[at] = 0.25 * (now[at - 1] + now[at + 1] + now[at - n] + now[at + n]);
            change = fmax(change, fabs(next[at] - now[at]));
         }
      swap = now, now = next, next = swap;
      MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
   }
   if (rank == 0)
      printf("%g\n", largest);
   MPI_Finalize();
   return 0;
}
