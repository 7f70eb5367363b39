/* Latency, bandwidth and all-reduce between the ranks of an MPI launch. */
#include "link.h"
#include <mpi.h>

void exchange(int first, void *bytes, size_t count)
{
    if (first) {
        MPI_Send(bytes, (int)count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(bytes, (int)count, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(bytes, (int)count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(bytes, (int)count, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

void reduce_all(double *values, size_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, ranks, length, wanted = argc > 1 ? atoi(argv[1]) : 0, status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = 0;
    if (ranks != wanted) { /* each rank was started as a program of its own */
        fprintf(stderr, "the launcher and this MPI do not fit: %d ranks, not %d\n", ranks, wanted);
        MPI_Finalize();
        return 3;
    }
    status = measure(rank, ranks, library);
    MPI_Finalize();
    return status;
}
