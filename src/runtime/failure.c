/* runtime/failure.c - the message of the last failure, per thread, and formatting of parts of messages.
 *
 * Messages are on the heap, allocated at a thread's first failure: a library loaded by Python has little room
 * for thread-local variables. If the allocation fails, the message says so.
 */
#include "runtime/runtime.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/plain.h"

typedef struct texts {
    char message[2048];
    char shapes[8][192], devices[4][16];
    unsigned shape_turn, device_turn;
} texts;

static MT__FAST_TLS texts *mine;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_thread(void *gone)
{
    mine = NULL;
    free(gone);
}

static void make_key(void)
{
    pthread_key_create(&key, end_thread);
}

/* NULL: out of memory. */
static texts *texts_of_thread(void)
{
    if (mine == NULL) {
        pthread_once(&once, make_key);
        mine = calloc(1, sizeof *mine);
        if (mine != NULL)
            pthread_setspecific(key, mine);
    }
    return mine;
}

mt_status mt__fail(mt_status status, const char *format, ...)
{
    texts *t = texts_of_thread();
    if (t == NULL)
        return status;
    va_list args;
    va_start(args, format);
    char text[sizeof t->message]; /* an argument may be the old message */
    mtp__format_list(text, sizeof text, format, args);
    va_end(args);
    memcpy(t->message, text, sizeof text);
    return status;
}

const char *mt_last_error(void)
{
    return mine != NULL ? mine->message : "";
}

const char *mt__shape_text(const int64_t *dims, int rank)
{
    texts *t = texts_of_thread();
    if (t == NULL)
        return "[...]";
    char *out = t->shapes[t->shape_turn++ % 8];
    size_t at = 0, room = sizeof t->shapes[0];
    out[at++] = '[';
    for (int i = 0; i < rank && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, i == 0 ? "%lld" : ", %lld", (long long)dims[i]);
    if (at > room - 2)
        at = room - 2;
    out[at] = ']';
    out[at + 1] = 0;
    return out;
}

const char *mt__device_text(mt_device device)
{
    texts *t = MT_DEVICE_TYPE(device) != 0 ? texts_of_thread() : NULL;
    if (t == NULL)
        return MT_DEVICE_TYPE(device) == 0 ? "cpu" : "npu";
    char *out = t->devices[t->device_turn++ % 4];
    snprintf(out, sizeof t->devices[0], "npu:%u", MT_DEVICE_INDEX(device));
    return out;
}
