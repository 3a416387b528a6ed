/* bench/mpi_cost.c - what calls of MPI cost in a program of one rank; compiled and run by bench_mpi.py. Prints name and ns. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

#define SHORT 300
#define REPEATS 300

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#define MEASURE(name, calls)                                                                                 \
    do {                                                                                                     \
        double least = 1e18;                                                                                 \
        for (int r = 0; r < REPEATS; r++) {                                                                  \
            double from = now_ns();                                                                          \
            for (int i = 0; i < SHORT; i++) {                                                                \
                calls;                                                                                       \
            }                                                                                                \
            double took = (now_ns() - from) / SHORT;                                                         \
            least = took < least ? took : least;                                                             \
        }                                                                                                    \
        printf("%s %.2f\n", name, least);                                                                    \
    } while (0)

int main(int argc, char **argv)
{
    double x = 1, y;
    int flag;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MEASURE("probe", MPI_Iprobe(0, 5, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    MEASURE("allreduce", MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF));
    MEASURE("message", MPI_Irecv(&y, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF, &request);
            MPI_Send(&x, 1, MPI_DOUBLE, 0, 1, MPI_COMM_SELF); MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_Finalize();
    return 0;
}
