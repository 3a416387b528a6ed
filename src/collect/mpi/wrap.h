/* collect/mpi/wrap.h - functions with the names of MPI's. Private to this folder. */
#ifndef MTP_COLLECT_MPI_WRAP_H
#define MTP_COLLECT_MPI_WRAP_H
#include "collect/mpi/mpi.h"

#define MTP__MPI_ERR_OTHER                                                                                   \
    16 /* near enough in both: a function that this MPI does not have cannot be called */

typedef struct mtp__mpi_real {
    void *function;
} mtp__mpi_real;
void *mtp__mpi_real_of(mtp__mpi_real *real, const char *pmpi); /* NULL: this MPI has none */
bool mtp__mpi_is_up(void);                                     /* between MPI_Init and MPI_Finalize */

#define AT(place) (a[(place)-1])

#define MTP__WORDS_1 mtp__word a1
#define MTP__WORDS_2 MTP__WORDS_1, mtp__word a2
#define MTP__WORDS_3 MTP__WORDS_2, mtp__word a3
#define MTP__WORDS_4 MTP__WORDS_3, mtp__word a4
#define MTP__WORDS_5 MTP__WORDS_4, mtp__word a5
#define MTP__WORDS_6 MTP__WORDS_5, mtp__word a6
#define MTP__WORDS_7 MTP__WORDS_6, mtp__word a7
#define MTP__WORDS_8 MTP__WORDS_7, mtp__word a8
#define MTP__WORDS_9 MTP__WORDS_8, mtp__word a9
#define MTP__WORDS_10 MTP__WORDS_9, mtp__word a10
#define MTP__WORDS_11 MTP__WORDS_10, mtp__word a11
#define MTP__WORDS_12 MTP__WORDS_11, mtp__word a12
#define MTP__GIVEN_1 a1
#define MTP__GIVEN_2 MTP__GIVEN_1, a2
#define MTP__GIVEN_3 MTP__GIVEN_2, a3
#define MTP__GIVEN_4 MTP__GIVEN_3, a4
#define MTP__GIVEN_5 MTP__GIVEN_4, a5
#define MTP__GIVEN_6 MTP__GIVEN_5, a6
#define MTP__GIVEN_7 MTP__GIVEN_6, a7
#define MTP__GIVEN_8 MTP__GIVEN_7, a8
#define MTP__GIVEN_9 MTP__GIVEN_8, a9
#define MTP__GIVEN_10 MTP__GIVEN_9, a10
#define MTP__GIVEN_11 MTP__GIVEN_10, a11
#define MTP__GIVEN_12 MTP__GIVEN_11, a12

/* int MPI_name(its arguments as words), which does `what` with them in a[]. */
#define MTP__MPI_WRAP(name, words, what)                                                                     \
    MTP_API int MPI_##name(MTP__WORDS_##words);                                                              \
    int MPI_##name(MTP__WORDS_##words)                                                                       \
    {                                                                                                        \
        mtp__word a[MTP__MPI_WORDS] = {MTP__GIVEN_##words};                                                  \
        return what;                                                                                         \
    }
#endif
