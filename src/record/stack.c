/* record/stack.c - the stack provider in use: the program's own; else native stacks by libunwind if it is
 * installed (loaded at run time, because linking it would replace the unwinder of the whole process), else by
 * the compiler's unwinder. */
#define _GNU_SOURCE
#include "record/stack.h"
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/guard.h"
#include "record/recorder.h"

#define PATH_ROOM PATH_MAX /* realpath() may write that much */
#define ID_ROOM 41         /* hexadecimal digits of a build id, and a NUL */

typedef int walk_fn(void **frames, int room);

static mtp_stack_provider custom; /* set only while nothing is recorded */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static walk_fn *libunwind_walk;
static bool orphan; /* see mtp__stack_forked */

/* The compiler's unwinder takes no locks since gcc 12, with glibc 2.35 (_dl_find_object). */
#if defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define GCC_WALKS_FREELY __GLIBC_PREREQ(2, 35)
#else
#define GCC_WALKS_FREELY 0
#endif

static void find_libunwind(void)
{
#ifndef __SANITIZE_THREAD__ /* libunwind takes a lock when a thread ends, after TSan has dropped the thread */
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

static uint32_t gcc_capture(uint64_t *frames, uint32_t room)
{
    gcc_walk w = {frames, 0, room};
    _Unwind_Backtrace(gcc_frame, &w);
    return w.count;
}

/* libunwind probes memory with write(), a cancellation point. A handler may jump out of here: then the thread's next call
 * restores the state (recorder.c: resume). Not a guard, which would triple the cost (bench: scope_stack_ns). */
static uint32_t libunwind_capture(uint64_t *frames, uint32_t room)
{
    mtp__thread *t = mtp__self.thread;
    int unregistered, *before = t != NULL ? &t->cancel : &unregistered;
    if (t != NULL)
        t->walking = true;
    atomic_signal_fence(memory_order_release);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, before);
    int n = libunwind_walk((void **)(void *)frames, (int)room);
    mtp__cancel_restore(before);
    atomic_signal_fence(memory_order_release);
    if (t != NULL)
        t->walking = false;
    return n > 0 ? (uint32_t)n : 0;
}

static uint32_t native_capture(uint64_t *frames, uint32_t room)
{
    if (!orphan)
        pthread_once(&once, find_libunwind);
    else if (!GCC_WALKS_FREELY)
        return 0;
    if (libunwind_walk != NULL && !orphan)
        return libunwind_capture(frames, room);
    return gcc_capture(frames, room);
}

/* The file that contains an address, and its build id. */
typedef struct module {
    uint64_t address;
    char path[PATH_ROOM], id[ID_ROOM];
} module;

static void take_id(const char *notes, size_t bytes, char id[ID_ROOM])
{
    ElfW(Nhdr) note;
    for (size_t at = 0; bytes - at > sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        size_t name = at + sizeof note, desc = name + ((note.n_namesz + 3u) & ~3u);
        size_t next = desc + ((note.n_descsz + 3u) & ~3u);
        if (next > bytes)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
            for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < ID_ROOM; i++)
                snprintf(id + 2 * i, 3, "%02x", (unsigned char)notes[desc + i]);
            return;
        }
        at = next;
    }
}

static int find_module(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    module *m = user;
    bool here = false;
    for (int i = 0; i < info->dlpi_phnum && !here; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        here = p->p_type == PT_LOAD && m->address - info->dlpi_addr - p->p_vaddr < p->p_memsz;
    }
    for (int i = 0; here && i < info->dlpi_phnum && m->id[0] == 0; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            take_id((const char *)NULL + (info->dlpi_addr + p->p_vaddr), p->p_memsz, m->id);
    }
    if (here && info->dlpi_name[0] == 0) { /* the program itself: has no name here */
        ssize_t n = readlink("/proc/self/exe", m->path, sizeof m->path - 1);
        m->path[n > 0 ? n : 0] = 0;
    } else if (here && realpath(info->dlpi_name, m->path) == NULL) {
        m->path[0] = 0; /* the vdso, or deleted */
    }
    return here;
}

/* "module:+offset:symbol"; line numbers need debug information and are left to readers. So are static
 * functions, which the dynamic linker does not know: for these, "/path/module@build-id:+offset:?" says where
 * to look (trace/symbols.h). */
static void native_describe(uint64_t frame, char *out, size_t room)
{
    Dl_info info;
    void *at = (char *)NULL + frame - 1; /* the call, not its return address */
    if (dladdr(at, &info) == 0 || info.dli_fname == NULL) {
        snprintf(out, room, "?:+0x%llx:?", (unsigned long long)frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    unsigned long long offset = (unsigned long long)((char *)at - (char *)info.dli_fbase);
    module m = {.address = frame - 1};
    int error = errno; /* the program's, which recording preserves */
    if (info.dli_sname == NULL && !orphan && dl_iterate_phdr(find_module, &m) != 0 && m.path[0] == '/' &&
        strlen(m.path) + sizeof m.id + 32 < room)
        snprintf(out, room, "%s%s%s:+0x%llx:?", m.path, m.id[0] != 0 ? "@" : "", m.id, offset);
    else
        snprintf(out, room, "%s:+0x%llx:%s", slash != NULL ? slash + 1 : info.dli_fname, offset,
                 info.dli_sname != NULL ? info.dli_sname : "?");
    errno = error;
}

/* The caller's place among the frames; 0: it is not there. libunwind 1.6 for arm64 tells addresses inside the calls, not those
 * that they return to: made the same here, as our callers and readers know the latter. */
static uint32_t find_caller(uint64_t caller, uint64_t *frames, uint32_t count)
{
    uint32_t i = 0;
#if defined(__x86_64__)
    const uint64_t inside = 0;
#else
    const uint64_t inside = 1;
#endif
    while (i < count && frames[i] != caller && frames[i] + inside != caller)
        i++;
    for (uint32_t k = i, off = i < count && frames[i] != caller; off != 0 && k < count; k++)
        frames[k] += inside;
    return i < count ? i : 0;
}

uint32_t mtp__stack_capture(const void *caller, uint64_t *frames, uint32_t room, uint32_t most,
                            uint32_t *from)
{
    *from = 0;
    if (custom.capture != NULL) {
        uint32_t n = custom.capture(custom.user, frames, most);
        return n < most ? n : most;
    }
    uint32_t count = native_capture(frames, room);
    *from = find_caller((uint64_t)(uintptr_t)caller, frames, count);
    return count - *from < most ? count : *from + most;
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
    if (custom.capture != NULL)
        return;
    mtp__stack_capture(NULL, frames, 8, 8, &from);
    if (!orphan)
        gcc_capture(frames, 8); /* a forked child will use it */
}

void mtp__stack_forked(void)
{
    orphan = true;
}

mtp_status mtp_stack_provider_set(const mtp_stack_provider *provider)
{
    if (mtp__recorder_current() != NULL)
        return MTP_FAIL(MTP_E_STATE, "a profile is active: set the stack provider before it starts");
    if (provider == NULL) {
        memset(&custom, 0, sizeof custom);
        return MTP_OK;
    }
    mtp_stack_provider known = {.size = sizeof known};
    mtp_status status = MTP__ABI_READ(&known, provider, mtp_stack_provider, user);
    if (status != MTP_OK)
        return status;
    if (known.capture == NULL || known.describe == NULL)
        return MTP_FAIL(MTP_E_ARG, "a stack provider needs both capture and describe");
    custom = known;
    return MTP_OK;
}

const char *mtp_stack_provider_name(void)
{
    if (!orphan)
        pthread_once(&once, find_libunwind);
    return custom.capture != NULL ? "custom" : libunwind_walk != NULL && !orphan ? "libunwind" : "gcc";
}
