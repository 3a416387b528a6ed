/* Uses MPI in many ways, knows nothing of mtprof, and writes what it did to KNOWN.RANK: bytes by peer, collectives.
 *
 *     mpi_calls MODE KNOWN      halo, workers, straggler, splits, odd, threads, dies, killed, aborts
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEERS 64
#define STEPS 20

static int rank, size;
static long sent[PEERS], received[PEERS]; /* bytes */
static int failed;

#define EXPECT(good) ((good) ? (void)0 : (void)(failed = __LINE__))

static void write_known(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.%d", path, rank);
    FILE *file = fopen(name, "w");
    if (file == NULL)
        return;
    fprintf(file, "{\"failed\": %d, \"sent\": [", failed);
    for (int i = 0; i < size; i++)
        fprintf(file, "%s%ld", i > 0 ? ", " : "", sent[i]);
    fprintf(file, "], \"received\": [");
    for (int i = 0; i < size; i++)
        fprintf(file, "%s%ld", i > 0 ? ", " : "", received[i]);
    fprintf(file, "]}\n");
    fclose(file);
}

static void halo(void)
{
    double in[200], out[200] = {0}, sum = rank, all;
    MPI_Request request[4];
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int i = 0; i < STEPS; i++) {
        MPI_Irecv(in, 100, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(in + 100, 100, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &request[1]);
        MPI_Isend(out, 100, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &request[2]);
        MPI_Isend(out + 100, 100, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &request[3]);
        received[left] += 800, received[right] += 800;
        sent[left] += 800, sent[right] += 800;
        MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
        for (int k = 0; k < 4; k++)
            EXPECT(request[k] == MPI_REQUEST_NULL);
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        EXPECT(all == size * (size - 1) / 2.0);
    }
}

/* The master hands out work of different sizes to whoever asks. */
static void workers(void)
{
    int data[64] = {0}, left = 3 * STEPS, busy = size - 1;
    MPI_Status status;
    while (rank == 0 && busy > 0) {
        MPI_Recv(data, 64, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        int count = 0, worker = status.MPI_SOURCE;
        MPI_Get_count(&status, MPI_INT, &count);
        EXPECT(status.MPI_TAG == 10 + worker && count == worker);
        received[worker] += 4 * count;
        int tag = left-- > 0 ? 1 : 2;
        busy -= tag == 2;
        MPI_Send(data, 16, MPI_INT, worker, tag, MPI_COMM_WORLD);
        sent[worker] += 64;
    }
    for (int tag = 1; rank > 0 && tag == 1;) {
        MPI_Send(data, rank, MPI_INT, 0, 10 + rank, MPI_COMM_WORLD);
        sent[0] += 4 * rank;
        MPI_Request request;
        MPI_Irecv(data, 16, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
        tag = status.MPI_TAG;
        received[0] += 64;
    }
}

static void straggler(void)
{
    double sum = 1, all;
    for (int i = 0; i < STEPS; i++) {
        if (rank == 2)
            usleep(3000);
        MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void splits(void)
{
    int value = rank, all[PEERS], counts[PEERS], displs[PEERS];
    MPI_Comm half, again, created, inter, merged;
    MPI_Group world, front;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(half, &again);
    MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, again);
    for (int i = 0; i < STEPS; i++) { /* the handle comes back */
        MPI_Comm copy;
        MPI_Comm_dup(half, &copy);
        MPI_Barrier(copy);
        MPI_Comm_free(&copy);
    }
    int first[2] = {0, 1};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, first, &front);
    MPI_Comm_create(MPI_COMM_WORLD, front, &created);
    EXPECT((created == MPI_COMM_NULL) == (rank > 1));
    if (created != MPI_COMM_NULL) {
        MPI_Bcast(&value, 1, MPI_INT, 1, created);
        MPI_Comm_free(&created);
    }
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (rank + 1) % 2, 5, &inter);
    MPI_Bcast(all, 3, MPI_INT, rank == 0 ? MPI_ROOT : rank == 2 ? MPI_PROC_NULL : 0, inter);
    MPI_Send(&value, 1, MPI_INT, rank / 2, 3, inter); /* to the same place in the other half */
    MPI_Recv(&value, 1, MPI_INT, rank / 2, 3, inter, MPI_STATUS_IGNORE);
    int peer = rank ^ 1;
    sent[peer] += 4, received[peer] += 4;
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    MPI_Barrier(merged);
    for (int i = 0; i < size; i++)
        counts[i] = i + 1, displs[i] = i * (i + 1) / 2;
    int mine[PEERS] = {0}, many[PEERS * PEERS] = {0};
    MPI_Gatherv(mine, rank + 1, MPI_INT, many, rank == 0 ? counts : NULL, rank == 0 ? displs : NULL, MPI_INT,
                0, MPI_COMM_WORLD);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&again);
    MPI_Comm_free(&half);
    MPI_Group_free(&front);
    MPI_Group_free(&world);
}

static void odd(void)
{
    double v[8] = {1, 1}, w[8 * PEERS] = {0};
    int flag = 0, index = 0, count = 0;
    MPI_Request request = MPI_REQUEST_NULL, several[2];
    MPI_Status status;
    MPI_Allreduce(MPI_IN_PLACE, v, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(v[0] == size);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, w, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : v, 1, MPI_DOUBLE, w, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Reduce(v, w, 2, MPI_DOUBLE, MPI_MAX, 1, MPI_COMM_WORLD);
    MPI_Iallreduce(v, w, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    MPI_Sendrecv(v, 2, MPI_DOUBLE, MPI_PROC_NULL, 0, w, 2, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                 &status);
    MPI_Sendrecv(v, 2, MPI_DOUBLE, (rank + 1) % size, 0, w, 8, MPI_DOUBLE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    sent[(rank + 1) % size] += 16, received[(rank + size - 1) % size] += 16;
    MPI_Send_init(v, 1, MPI_DOUBLE, rank, 4, MPI_COMM_WORLD, &several[0]); /* to itself, three times */
    MPI_Recv_init(w, 1, MPI_DOUBLE, rank, 4, MPI_COMM_WORLD, &several[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, several);
        MPI_Waitany(2, several, &index, MPI_STATUS_IGNORE);
        MPI_Waitall(2, several, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&several[0]);
    MPI_Request_free(&several[1]);
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
    MPI_Datatype pair;
    MPI_Type_contiguous(3, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Bcast(w, 2, pair, 0, MPI_COMM_WORLD);
    MPI_Type_free(&pair);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Isend(v, 2, MPI_DOUBLE, rank, 9, MPI_COMM_WORLD, &request); /* more than there is room for */
    EXPECT(MPI_Recv(w, 1, MPI_DOUBLE, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    EXPECT(MPI_Get_count(&status, MPI_DOUBLE, &count) == MPI_SUCCESS);
}

static void *talk(void *of)
{
    MPI_Comm comm = *(MPI_Comm *)of;
    int value = rank, other, sum;
    for (int i = 0; i < STEPS; i++) {
        MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % size, 0, &other, 1, MPI_INT, (rank + size - 1) % size,
                     0, comm, MPI_STATUS_IGNORE);
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[3];
    MPI_Comm comm[3];
    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, talk, &comm[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        MPI_Comm_free(&comm[i]);
    }
    sent[(rank + 1) % size] += 3 * STEPS * 4, received[(rank + size - 1) % size] += 3 * STEPS * 4;
}

static void die(const char *mode)
{
    halo();
    if (rank == 1 && strcmp(mode, "dies") == 0)
        *(volatile int *)(sizeof(int) * (size_t)failed) = 1;
    if (rank == 1 && strcmp(mode, "killed") == 0)
        kill(getpid(), SIGKILL);
    if (rank == 1 && strcmp(mode, "aborts") == 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"halo", halo},     {"workers", workers}, {"straggler", straggler},
                 {"splits", splits}, {"odd", odd},         {"threads", threads}};
    const char *mode = argc > 1 ? argv[1] : "halo";
    int provided = 0;
    if (strcmp(mode, "threads") == 0)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].name) == 0)
            modes[i].run();
    if (strcmp(mode, "dies") == 0 || strcmp(mode, "killed") == 0 || strcmp(mode, "aborts") == 0)
        die(mode);
    if (argc > 2)
        write_known(argv[2]);
    MPI_Finalize();
    return failed != 0;
}
