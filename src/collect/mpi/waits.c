/* collect/mpi/waits.c - MPI_Wait, MPI_Test and their like: what they waited for, and what came. See mpi.h. */
#include <stdlib.h>
#include <string.h>
#include "collect/mpi/wrap.h"

enum {
    NEAR = 32,  /* requests without an allocation */
    LISTED = 16 /* numbers of requests that are listed */
};

/* Which of its requests are complete when it returns */
enum ends {
    ALL,
    ANY,
    SOME
};

/* X(name, words, what, how many, requests, which end, flag, index or indices, their count, status or statuses) */
#define WAITS(X)                                                                                             \
    X(Wait, 2, "wait", 0, 1, ALL, 0, 0, 0, 2)                                                                \
    X(Waitall, 3, "wait", 1, 2, ALL, 0, 0, 0, 3)                                                             \
    X(Waitany, 4, "wait", 1, 2, ANY, 0, 3, 0, 4)                                                             \
    X(Waitsome, 5, "wait", 1, 2, SOME, 0, 4, 3, 5)                                                           \
    X(Test, 3, "test", 0, 1, ALL, 2, 0, 0, 3)                                                                \
    X(Testall, 4, "test", 1, 2, ALL, 3, 0, 0, 4)                                                             \
    X(Testany, 5, "test", 1, 2, ANY, 4, 3, 0, 5)                                                             \
    X(Testsome, 5, "test", 1, 2, SOME, 0, 4, 3, 5)

typedef struct wait_call {
    const char *name, *pmpi, *what;
    uint8_t words, many, requests, ends, flag, index, count, status;
} wait_call;

enum {
#define X(name, ...) CALL_##name,
    WAITS(X)
#undef X
    CALLS
};

static const wait_call calls[CALLS] = {
#define X(n, words, what, many, requests, ends, flag, index, count, status)                                  \
    [CALL_##n] = {"MPI_" #n, "PMPI_" #n, what, words, many, requests, ends, flag, index, count, status},
    WAITS(X)
#undef X
};
static mtp__mpi_real reals[CALLS];
static uint32_t names[CALLS];

typedef struct waiting {
    const wait_call *call;
    mtp__word *a;
    mtp__word near[NEAR], *handle; /* as they were before */
    int n;
    bool is_wanted, any_open;
    void *statuses; /* owned: instead of those that the program does not want; NULL: the program's own */
    uint64_t one[8];
} waiting;

/* ----------------------------------------------------------------------------------------------------- before */

/* The args of the call that made the request, with our name for the wait. */
static void tell_one(mtp__mpi_text *t, const char *what, const mtp__mpi_pending *p)
{
    static const char key[] = "\"Collective name\": \"";
    const char *name = NULL;
    for (size_t i = 0; i + sizeof key < p->n && name == NULL; i++)
        if (memcmp(p->args + i, key, sizeof key - 1) == 0)
            name = p->args + i;
    t->n = 0;
    t->sequence = p->sequence;
    if (name == NULL) {
        t->sequence = -1;
        mtp__mpi_put(t, MTP_ARGS_MEMBERS);
        mtp__mpi_put(t, key);
        mtp__mpi_put(t, what);
        mtp__mpi_put(t, "\"");
        return;
    }
    const char *of = name + sizeof key - 1; /* the name, its quote, and what follows */
    mtp__mpi_put_bytes(t, p->args, (size_t)(of - p->args));
    mtp__mpi_put(t, what);
    mtp__mpi_put(t, "\", \"Of\": \"");
    static const char async[] = ", \"Is asynchronized op\": true"; /* the wait is not */
    size_t left = (size_t)(p->args + p->n - of), last = sizeof async - 1;
    if (left > last && memcmp(of + left - last, async, last) == 0)
        left -= last;
    mtp__mpi_put_bytes(t, of, left);
}

static void tell_many(mtp__mpi_text *t, const waiting *w)
{
    mtp__mpi_pending p;
    int listed = 0;
    mtp__mpi_put(t, MTP_ARGS_MEMBERS "\"Collective name\": \"");
    mtp__mpi_put(t, w->call->what);
    mtp__mpi_put(t, "\", \"Requests\": \"[");
    for (int i = 0; i < w->n && listed <= LISTED; i++) {
        if (!mtp__mpi_request_get(w->handle[i], &p))
            continue;
        if (listed == LISTED)
            mtp__mpi_put(t, ", ...");
        else
            mtp__mpi_put_integer(t, listed > 0 ? ", " : "", (int64_t)p.id);
        listed++;
    }
    mtp__mpi_put(t, "]\"");
}

static void describe(mtp__mpi_text *t, waiting *w)
{
    mtp__mpi_pending p;
    int known = 0, last = 0;
    for (int i = 0; i < w->n; i++)
        if (mtp__mpi_request_get(w->handle[i], &p)) {
            w->any_open |= p.is_open;
            known++;
            last = i;
        }
    t->n = 0;
    t->sequence = -1;
    if (known == 1 && w->n == 1 && mtp__mpi_request_get(w->handle[last], &p))
        tell_one(t, w->call->what, &p);
    else
        tell_many(t, w);
}

static bool look(waiting *w)
{
    const mtp__word *a = w->a;
    w->n = w->call->many > 0 ? (int)AT(w->call->many) : 1;
    const void *list = (const void *)AT(w->call->requests);
    if (w->n < 0 || list == NULL)
        return false;
    w->handle = w->n <= NEAR ? w->near : malloc((size_t)w->n * sizeof *w->handle);
    if (w->handle == NULL)
        return false;
    for (int i = 0; i < w->n; i++)
        w->handle[i] = mtp__mpi_handle_at(list, (size_t)i);
    return true;
}

static void want_statuses(waiting *w)
{
    mtp__word *a = w->a;
    if (!w->any_open || AT(w->call->status) != mtp__mpi.status_ignore)
        return;
    bool one = w->call->ends == ANY || w->call->many == 0;
    w->statuses = one ? NULL : calloc((size_t)w->n + 1, mtp__mpi.status_bytes);
    if (one)
        AT(w->call->status) = (mtp__word)w->one;
    else if (w->statuses != NULL)
        AT(w->call->status) = (mtp__word)w->statuses;
    else
        w->any_open = false;
}

/* ------------------------------------------------------------------------------------------------------ after */

/* Request i has completed, with the status at place k. */
static void ended(const waiting *w, int i, int k)
{
    mtp__mpi_pending p;
    const mtp__word *a = w->a;
    if (i < 0 || i >= w->n)
        return;
    if (w->is_wanted && w->any_open && mtp__mpi_request_get(w->handle[i], &p) && p.is_open)
        mtp__mpi_message(p.comm, (const char *)AT(w->call->status) + (size_t)k * mtp__mpi.status_bytes,
                         p.type);
    mtp__mpi_request_done(w->handle[i]);
}

static void finish(const waiting *w)
{
    const mtp__word *a = w->a;
    if (w->call->flag > 0 && *(const int *)AT(w->call->flag) == 0)
        return;
    const int *index = w->call->index > 0 ? (const int *)AT(w->call->index) : NULL;
    if (w->call->ends == ALL)
        for (int i = 0; i < w->n; i++)
            ended(w, i, i);
    else if (w->call->ends == ANY)
        ended(w, *index, 0);
    else
        for (int k = 0, count = *(const int *)AT(w->call->count); k < count; k++)
            ended(w, index[k], k);
}

static int wait_for(int which, void *real, mtp__word *a)
{
    const wait_call *call = &calls[which];
    mtp__mpi_text t;
    mtp_token token = 0;
    waiting w; /* is large: not all of it is set */
    w.call = call, w.a = a, w.is_wanted = mtp__mpi_wanted(), w.any_open = false, w.statuses = NULL;
    if (!look(&w))
        return mtp__mpi_apply(real, call->words, a);
    if (w.is_wanted) {
        describe(&t, &w);
        want_statuses(&w);
        token = mtp__mpi_begin(mtp__mpi_name(call->name, &names[which]), &t);
    }
    int code = mtp__mpi_apply(real, call->words, a);
    if (code == 0)
        finish(&w);
    mtp_scope_end(token);
    if (w.handle != w.near)
        free(w.handle);
    free(w.statuses);
    return code;
}

static int take(int which, mtp__word *a)
{
    void *real = mtp__mpi_real_of(&reals[which], calls[which].pmpi);
    if (real == NULL)
        return MTP__MPI_ERR_OTHER;
    if (mtp__mpi.name == NULL || !(mtp__mpi_wanted() || mtp__mpi_requests_any()))
        return mtp__mpi_apply(real, calls[which].words, a);
    return wait_for(which, real, a);
}

#define X(name, words, ...) MTP__MPI_WRAP(name, words, take(CALL_##name, a))
WAITS(X)
#undef X
