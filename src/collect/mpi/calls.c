/* collect/mpi/calls.c - the functions that the program calls instead of MPI's: see mpi.h and calls.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include "collect/mpi/calls.h"
#include "collect/mpi/wrap.h"

enum {
#define X(name, words, what, ...) CALL_##name, CALL_##name##_c,
    MTP__MPI_COUNTED_LIST(X)
#undef X
#define X(name, words, what, ...) CALL_##name,
    MTP__MPI_OTHER_LIST(X)
#undef X
        CALLS
};

static const mtp__mpi_call calls[CALLS] = {
#define X(n, w, what, ...)                                                                                   \
    [CALL_##n] = {"MPI_" #n, "PMPI_" #n, what, w, __VA_ARGS__},                                              \
    [CALL_##n##_c] = {"MPI_" #n "_c", "PMPI_" #n "_c", what, w, __VA_ARGS__, .wide = true},
    MTP__MPI_COUNTED_LIST(X)
#undef X
#define X(n, w, what, ...) [CALL_##n] = {"MPI_" #n, "PMPI_" #n, what, w, __VA_ARGS__},
        MTP__MPI_OTHER_LIST(X)
#undef X
};

static mtp__mpi_real reals[CALLS];
static uint32_t names[CALLS];

static pthread_once_t once = PTHREAD_ONCE_INIT;

void *mtp__mpi_real_of(mtp__mpi_real *real, const char *pmpi)
{
    void *function = __atomic_load_n(&real->function, __ATOMIC_ACQUIRE); /* pairs: below */
    if (MTP__UNLIKELY(function == NULL)) {
        pthread_once(&once, mtp__mpi_find);
        function = mtp__mpi_symbol(pmpi);
        __atomic_store_n(&real->function, function, __ATOMIC_RELEASE);
    }
    return function;
}

/* Is this a meeting of all ranks of its communicator? */
static bool is_collective(const mtp__mpi_call *call)
{
    return call->form >= MTP__MPI_SAME || (call->form == MTP__MPI_PLAIN && call->comm > 0);
}

static bool is_open(const mtp__mpi_call *call, const mtp__word *a)
{
    uint8_t peer = call->source > 0 ? call->source : call->peer,
            tag = call->source > 0 ? call->source_tag : call->tag;
    return (call->form == MTP__MPI_RECV || call->form == MTP__MPI_SENDRECV) &&
           ((int)AT(peer) == mtp__mpi.any_source || (int)AT(tag) == mtp__mpi.any_tag);
}

static mtp__word type_of(const mtp__mpi_call *call, const mtp__word *a)
{
    return call->type > 0 ? mtp__mpi_handle(AT(call->type)) : mtp__mpi.byte;
}

/* More or fewer than the call could take? */
static bool is_short(const mtp__mpi_call *call, const mtp__word *a, const void *status)
{
    int elements = 0;
    if (call->count == 0 || call->wide)
        return false;
    return mtp__pmpi.Get_count(status, type_of(call, a), &elements) != 0 || elements != (int)AT(call->count);
}

static int run(const mtp__mpi_call *call, mtp__word *a, void *real, uint32_t name, mtp__comm *c,
               uint64_t sequence)
{
    mtp__mpi_text t;
    uint64_t own[8] = {0};
    mtp__mpi_describe(&t, call, a, c, sequence);
    mtp__mpi_pending *made = call->request > 0 ? mtp__mpi_request_new() : NULL;
    if (made != NULL) {
        made->type = type_of(call, a), made->comm = c;
        made->is_open = is_open(call, a), made->is_persistent = call->starts_later;
        mtp__mpi_put_number(&t, "Request", (int64_t)made->id);
        mtp__mpi_put(&t, ", \"Is asynchronized op\": true");
    }
    if (call->status > 0 && AT(call->status) == mtp__mpi.status_ignore)
        AT(call->status) = (mtp__word)own;
    mtp_token token = mtp__mpi_begin(name, &t);
    int code = mtp__mpi_apply(real, call->words, a);
    if (code == 0 && call->status > 0 &&
        (is_open(call, a) || is_short(call, a, (const void *)AT(call->status))))
        mtp__mpi_message(c, (const void *)AT(call->status), type_of(call, a));
    mtp_scope_end(token);
    if (made != NULL)
        mtp__mpi_request_add(
            made, code == 0 ? mtp__mpi_handle_at((const void *)AT(call->request), 0) : mtp__mpi.request_null,
            &t);
    return code;
}

static int take(int which, mtp__word *a)
{
    const mtp__mpi_call *call = &calls[which];
    void *real = mtp__mpi_real_of(&reals[which], call->pmpi);
    if (real == NULL)
        return MTP__MPI_ERR_OTHER;
    bool is_wanted = mtp__mpi_wanted(), counts = is_collective(call);
    if (mtp__mpi.name == NULL || !(is_wanted || counts) || !mtp__mpi_is_up())
        return mtp__mpi_apply(real, call->words, a);
    mtp__comm *c = call->comm > 0 ? mtp__comm_find(mtp__mpi_handle(AT(call->comm))) : NULL;
    uint64_t sequence = counts ? mtp__comm_next(c) : 0;
    if (!is_wanted)
        return mtp__mpi_apply(real, call->words, a);
    return run(call, a, real, mtp__mpi_name(call->name, &names[which]), c, sequence);
}

#define X(name, words, what, ...)                                                                            \
    MTP__MPI_WRAP(name, words, take(CALL_##name, a))                                                         \
    MTP__MPI_WRAP(name##_c, words, take(CALL_##name##_c, a))
MTP__MPI_COUNTED_LIST(X)
#undef X
#define X(name, words, what, ...) MTP__MPI_WRAP(name, words, take(CALL_##name, a))
MTP__MPI_OTHER_LIST(X)
#undef X
