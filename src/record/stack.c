/* record/stack.c - the provider in use: the program's own, or native stacks by libunwind where it is installed (found
 * at run time; linking it would put its unwinder under everything else in the process), else by the compiler's. */
#define _GNU_SOURCE
#include "record/stack.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>
#include "base/error.h"
#include "record/recorder.h"

typedef int walk_fn(void **frames, int room);

static mtp_stack_provider custom; /* set only while nothing is recorded */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static walk_fn *libunwind_walk;

static void find_libunwind(void)
{
#ifndef __SANITIZE_THREAD__ /* libunwind locks as a thread ends, when TSan has forgotten the thread */
    void *lib = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (lib != NULL)
        *(void **)&libunwind_walk = dlsym(lib, "unw_backtrace");
#endif
}

typedef struct gcc_walk {
    uint64_t *frames;
    uint32_t count, room;
} gcc_walk;

static _Unwind_Reason_Code gcc_frame(struct _Unwind_Context *context, void *user)
{
    gcc_walk *w = user;
    if (w->count == w->room)
        return _URC_END_OF_STACK;
    w->frames[w->count++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static uint32_t native_capture(uint64_t *frames, uint32_t room)
{
    pthread_once(&once, find_libunwind);
    if (libunwind_walk != NULL) {
        int n = libunwind_walk((void **)(void *)frames, (int)room);
        return n > 0 ? (uint32_t)n : 0;
    }
    gcc_walk w = {frames, 0, room};
    _Unwind_Backtrace(gcc_frame, &w);
    return w.count;
}

/* "module:+offset:symbol": the line needs debug information, which is a reader's business. */
static void native_describe(uint64_t frame, char *out, size_t room)
{
    Dl_info info;
    void *at = (char *)NULL + frame - 1; /* the call, not where it returns to */
    if (dladdr(at, &info) == 0 || info.dli_fname == NULL) {
        snprintf(out, room, "?:+0x%llx:?", (unsigned long long)frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(out, room, "%s:+0x%llx:%s", slash != NULL ? slash + 1 : info.dli_fname,
             (unsigned long long)((char *)at - (char *)info.dli_fbase),
             info.dli_sname != NULL ? info.dli_sname : "?");
}

uint32_t mtp__stack_capture(const void *caller, uint64_t *frames, uint32_t room, uint32_t *from)
{
    *from = 0;
    if (custom.capture != NULL) {
        uint32_t n = custom.capture(custom.user, frames, room);
        return n < room ? n : room;
    }
    uint32_t count = native_capture(frames, room);
    for (uint32_t i = 0; i < count; i++)
        if (frames[i] == (uint64_t)(uintptr_t)caller) {
            *from = i;
            break;
        }
    return count;
}

void mtp__stack_describe(uint64_t frame, char *out, size_t room)
{
    out[0] = 0;
    if (custom.capture == NULL)
        native_describe(frame, out, room);
    else if (custom.describe != NULL)
        custom.describe(custom.user, frame, out, room);
    out[room - 1] = 0;
}

void mtp__stack_prepare(void)
{
    uint64_t frames[8];
    uint32_t from;
    if (custom.capture == NULL)
        mtp__stack_capture(NULL, frames, 8, &from);
}

mtp_status mtp_stack_provider_set(const mtp_stack_provider *provider)
{
    if (mtp__recorder_current() != NULL)
        return MTP_FAIL(MTP_E_STATE, "a profile is active: set the stack provider before it starts");
    if (provider == NULL) {
        memset(&custom, 0, sizeof custom);
        return MTP_OK;
    }
    if (provider->size < sizeof *provider)
        return MTP_FAIL(MTP_E_ABI, "provider size %zu, oldest known is %zu", provider->size,
                        sizeof *provider);
    if (provider->capture == NULL || provider->describe == NULL)
        return MTP_FAIL(MTP_E_ARG, "a stack provider needs both capture and describe");
    custom = *provider;
    return MTP_OK;
}

const char *mtp_stack_provider_name(void)
{
    pthread_once(&once, find_libunwind);
    return custom.capture != NULL ? "custom" : libunwind_walk != NULL ? "libunwind" : "gcc";
}
