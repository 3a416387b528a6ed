/* collect/mpi/made.c - calls that make and free what other calls use: communicators, datatypes, requests. See mpi.h. */
#include <stdio.h>
#include "collect/mpi/wrap.h"

/* X(name, words, parent, new one, how it is named, how: of disjoint groups, number of the group) */
#define MAKERS(X)                                                                                            \
    X(Comm_dup, 2, 1, 2, "dup", false, 0)                                                                    \
    X(Comm_dup_with_info, 3, 1, 3, "dup", false, 0)                                                          \
    X(Comm_split, 4, 1, 4, "split", true, 2)                                                                 \
    X(Comm_split_type, 5, 1, 5, "split", true, 0)                                                            \
    X(Comm_create, 3, 1, 3, "create", true, 0)                                                               \
    X(Cart_create, 6, 1, 6, "cart", false, 0)                                                                \
    X(Cart_sub, 3, 1, 3, "sub", true, 0)                                                                     \
    X(Graph_create, 6, 1, 6, "graph", false, 0)                                                              \
    X(Dist_graph_create, 9, 1, 9, "graph", false, 0)                                                         \
    X(Dist_graph_create_adjacent, 10, 1, 10, "graph", false, 0)                                              \
    X(Intercomm_merge, 3, 1, 3, "merge", false, 0)                                                           \
    X(Comm_create_group, 4, 0, 4, "group", true, 3)                                                          \
    X(Intercomm_create, 6, 0, 6, "inter", true, 5)

/* X(name, words, the handle's place, what happens to it) */
#define ENDERS(X)                                                                                            \
    X(Comm_free, 1, 1, mtp__comm_gone(handle))                                                               \
    X(Comm_disconnect, 1, 1, mtp__comm_gone(handle))                                                         \
    X(Request_free, 1, 1, mtp__mpi_request_gone(handle))                                                     \
    X(Type_free, 1, 1, mtp__mpi_types_changed())

typedef struct maker {
    const char *name, *pmpi, *how;
    uint8_t words, parent, made, number; /* parent 0: only those of the group call it */
    bool disjoint;
} maker;

enum {
#define X(name, ...) CALL_##name,
    MAKERS(X)
    ENDERS(X)
#undef X
        CALLS
};

static const maker makers[] = {
#define X(n, words, parent, made, how, disjoint, number)                                                     \
    [CALL_##n] = {"MPI_" #n, "PMPI_" #n, how, words, parent, made, number, disjoint},
    MAKERS(X)
#undef X
};
static mtp__mpi_real reals[CALLS];
static uint32_t names[CALLS];

static void name_it(const maker *m, const mtp__word *a, mtp__comm *parent, uint64_t number)
{
    char how[32];
    if (m->number > 0)
        snprintf(how, sizeof how, "%s:%d", m->how, (int)AT(m->number));
    else
        snprintf(how, sizeof how, "%s", m->how);
    mtp__comm_made(parent, number, how, m->disjoint, mtp__mpi_handle_at((const void *)AT(m->made), 0));
}

static int make(int which, mtp__word *a)
{
    const maker *m = &makers[which];
    mtp__mpi_text t;
    mtp_token token = 0;
    void *real = mtp__mpi_real_of(&reals[which], m->pmpi);
    if (real == NULL)
        return MTP__MPI_ERR_OTHER;
    if (mtp__mpi.name == NULL || !mtp__mpi_is_up())
        return mtp__mpi_apply(real, m->words, a);
    mtp__comm *parent = mtp__comm_find(mtp__mpi_handle(AT(m->parent > 0 ? m->parent : 1)));
    uint64_t number = m->parent > 0 ? mtp__comm_making(parent) : 0;
    if (mtp__mpi_wanted()) {
        const mtp__mpi_call call = {.what = "make"};
        mtp__mpi_describe(&t, &call, a, parent, 0);
        token = mtp__mpi_begin(mtp__mpi_name(m->name, &names[which]), &t);
    }
    int code = mtp__mpi_apply(real, m->words, a);
    if (code == 0)
        name_it(m, a, parent, number);
    mtp_scope_end(token);
    return code;
}

#define X(name, words, ...) MTP__MPI_WRAP(name, words, make(CALL_##name, a))
MAKERS(X)
#undef X

#define X(n, words, place, what)                                                                             \
    static int end_##n(mtp__word *a)                                                                         \
    {                                                                                                        \
        void *real = mtp__mpi_real_of(&reals[CALL_##n], "PMPI_" #n);                                         \
        if (real == NULL)                                                                                    \
            return MTP__MPI_ERR_OTHER;                                                                       \
        if (mtp__mpi.name != NULL && AT(place) != 0) {                                                       \
            mtp__word handle = mtp__mpi_handle_at((const void *)AT(place), 0);                               \
            (void)handle;                                                                                    \
            what;                                                                                            \
        }                                                                                                    \
        mtp_token token =                                                                                    \
            mtp__mpi_wanted() ? mtp__mpi_begin(mtp__mpi_name("MPI_" #n, &names[CALL_##n]), NULL) : 0;        \
        int code = mtp__mpi_apply(real, words, a);                                                           \
        mtp_scope_end(token);                                                                                \
        return code;                                                                                         \
    }                                                                                                        \
    MTP__MPI_WRAP(n, words, end_##n(a))
ENDERS(X)
#undef X
