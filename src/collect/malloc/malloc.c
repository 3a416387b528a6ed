/* collect/malloc/malloc.c - records the heap of any program.
 *
 *     LD_PRELOAD=/path/libmtprof_malloc.so MTPROF_OUT=trace.mtp program
 *
 * Stands in front of the C library's allocator (or of the one that the program brings), and reports what it hands
 * out and takes back as memory events of the profile that runs. Without one, each call costs a load and a branch.
 * C++'s new and delete come here through malloc and free. See docs/collectors.md.
 *
 * Sizes are those of the blocks (malloc_usable_size), because a free does not know what was asked for. A block is
 * reported as allocated after the allocator has handed it out, and as freed before it is taken back: between the
 * two, no other thread can have it.
 *
 * Not reported: what libmtprof itself allocates, known by the caller's address; what is allocated for it while it reads
 * a stack (memory_again of record/events.c); and what the C library allocates while a thread makes its first record.
 * Signal handlers: as the allocator itself, which must not be called there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <mtprof.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "collect/own.h"

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)
#define EARLY_BYTES 16384
#define ALIGNMENT alignof(max_align_t)

/* ------------------------------------------------------------------------------- the real allocator */

static void *first_malloc(size_t bytes);
static void first_free(void *block);
static void *first_calloc(size_t count, size_t bytes);
static void *first_realloc(void *block, size_t bytes);

/* Until it has been looked up, calls go through first_*: the dynamic linker itself may allocate then. */
static struct {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*usable)(void *);
    struct mallinfo2 (*info)(void); /* NULL: the allocator is not the C library's */
} next = {.malloc = first_malloc, .free = first_free, .calloc = first_calloc, .realloc = first_realloc};

/* Memory for the lookup's own calls; never freed. One thread runs then, or the lookup is not the first. */
static struct {
    alignas(max_align_t) char bytes[EARLY_BYTES];
    size_t used;
} early;

static void *early_malloc(size_t bytes)
{
    size_t size =
        (bytes + 2 * ALIGNMENT - 1) & ~(ALIGNMENT - 1); /* with a word before it that holds its size */
    size_t at = bytes < EARLY_BYTES ? __atomic_fetch_add(&early.used, size, __ATOMIC_RELAXED) : EARLY_BYTES;
    if (at + size > EARLY_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(early.bytes + at, &bytes, sizeof bytes);
    return early.bytes + at + ALIGNMENT;
}

static bool is_early(const void *block)
{
    return (const char *)block >= early.bytes && (const char *)block < early.bytes + EARLY_BYTES;
}

static size_t early_size(const void *block)
{
    size_t bytes;
    memcpy(&bytes, (const char *)block - ALIGNMENT, sizeof bytes);
    return bytes;
}

/* Is it in the same library as `other`? */
static bool is_beside(const void *one, const void *other)
{
    Dl_info a, b;
    return one != NULL && other != NULL && dladdr(one, &a) != 0 && dladdr(other, &b) != 0 &&
           a.dli_fbase == b.dli_fbase;
}

static void look_up(void **place, const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found != NULL)
        __atomic_store_n(place, found, __ATOMIC_RELEASE);
}

/* More than one thread may do this; all find the same. free comes last: it must know early blocks until then. */
static void find_next(void)
{
    static _Thread_local bool inside __attribute__((tls_model("initial-exec")));
    if (inside)
        return;
    inside = true;
    look_up((void **)&next.usable, "malloc_usable_size");
    look_up((void **)&next.aligned_alloc, "aligned_alloc");
    look_up((void **)&next.posix_memalign, "posix_memalign");
    look_up((void **)&next.memalign, "memalign");
    look_up((void **)&next.valloc, "valloc");
    look_up((void **)&next.pvalloc, "pvalloc");
    void *info = dlsym(RTLD_NEXT, "mallinfo2"), *malloc_of = dlsym(RTLD_NEXT, "malloc");
    if (is_beside(info, malloc_of))
        *(void **)&next.info = info;
    look_up((void **)&next.calloc, "calloc");
    look_up((void **)&next.realloc, "realloc");
    look_up((void **)&next.free, "free");
    look_up((void **)&next.malloc, "malloc");
    inside = false;
}

static void *first_malloc(size_t bytes)
{
    find_next();
    return next.malloc != first_malloc ? next.malloc(bytes) : early_malloc(bytes);
}

static void *first_calloc(size_t count, size_t bytes)
{
    size_t all;
    find_next();
    if (next.calloc != first_calloc)
        return next.calloc(count, bytes);
    return __builtin_mul_overflow(count, bytes, &all) ? NULL : early_malloc(all); /* zero from the start */
}

static void *first_realloc(void *block, size_t bytes)
{
    find_next();
    if (next.realloc != first_realloc)
        return next.realloc(block, bytes);
    void *moved = early_malloc(bytes);
    if (moved != NULL && block != NULL && is_early(block)) {
        size_t old = early_size(block);
        memcpy(moved, block, old < bytes ? old : bytes);
    }
    return moved;
}

static void first_free(void *block)
{
    find_next();
    if (next.free != first_free)
        next.free(block);
}

/* ---------------------------------------------------------------------------------------- reporting */

static uintptr_t our_text, our_text_end; /* libmtprof's code */
static uint32_t session;                 /* atomic: the recording that `live` belongs to */
static int64_t live;                     /* atomic: bytes allocated now */
static bool recorded;

/* The thread's first event of a recording may make the C library allocate for it. */
static _Thread_local struct {
    uint32_t trying, joined; /* recordings */
} self __attribute__((tls_model("initial-exec")));

static bool is_wanted(const void *caller)
{
    return MTP__UNLIKELY(mtp_recording() & MTP_WITH_MEMORY) &&
           (uintptr_t)caller - our_text >= our_text_end - our_text;
}

/* A recording begins: what is allocated already is part of the total. */
static __attribute__((noinline)) void count_from_here(uint32_t now)
{
    uint32_t before = __atomic_load_n(&session, __ATOMIC_RELAXED);
    if (before == now ||
        !__atomic_compare_exchange_n(&session, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    struct mallinfo2 info = {0};
    if (next.info != NULL)
        info = next.info();
    __atomic_store_n(&live, (int64_t)(info.uordblks + info.hblkhd), __ATOMIC_RELAXED);
    recorded = true;
}

static void report(const void *block, int64_t bytes)
{
    int64_t total = __atomic_add_fetch(&live, bytes, __ATOMIC_RELAXED);
    mtp__memory_event(MTP_DEVICE_CPU, block, bytes, total > 0 ? (uint64_t)total : 0, 0);
}

static __attribute__((noinline)) void report_first(const void *block, int64_t bytes, uint32_t now)
{
    if (self.trying == now)
        return; /* from inside the call below */
    int its_errno = errno;
    self.trying = now;
    count_from_here(now);
    report(block, bytes);
    self.trying = 0;
    self.joined = now;
    errno = its_errno;
}

static void note(const void *block, int64_t bytes)
{
    uint32_t now = MTP_SESSION(mtp_recording());
    if (block == NULL || bytes == 0)
        return;
    if (__builtin_expect(self.joined == now, 1))
        report(block, bytes);
    else
        report_first(block, bytes, now);
}

static size_t size_of(void *block)
{
    if (is_early(block))
        return 0;
    return block != NULL && next.usable != NULL ? next.usable(block) : 0;
}

static void *noted(void *block)
{
    if (block != NULL)
        note(block, (int64_t)size_of(block));
    return block;
}

/* ------------------------------------------------------------------------------- what the program calls */

EXPORT void *malloc(size_t bytes)
{
    if (MTP__UNLIKELY(is_wanted(CALLER)))
        return noted(next.malloc(bytes));
    return next.malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    if (MTP__UNLIKELY(is_wanted(CALLER)))
        return noted(next.calloc(count, bytes));
    return next.calloc(count, bytes);
}

EXPORT void free(void *block)
{
    if (MTP__UNLIKELY(is_early(block)))
        return;
    if (MTP__UNLIKELY(is_wanted(CALLER)) && block != NULL)
        note(block, -(int64_t)size_of(block));
    next.free(block);
}

/* An early block moves into the real heap. */
static void *move_early(void *block, size_t bytes)
{
    void *moved = next.malloc(bytes);
    size_t old = early_size(block);
    if (moved != NULL)
        memcpy(moved, block, old < bytes ? old : bytes);
    return moved;
}

/* The old block is reported as freed first; if it stays, it is reported again. */
static void *realloc_noted(void *block, size_t bytes)
{
    size_t old = size_of(block);
    note(block, -(int64_t)old);
    void *moved = is_early(block) ? move_early(block, bytes) : next.realloc(block, bytes);
    if (moved != NULL)
        return noted(moved);
    if (bytes != 0)
        note(block, (int64_t)old);
    return NULL;
}

EXPORT void *realloc(void *block, size_t bytes)
{
    if (MTP__UNLIKELY(is_wanted(CALLER)))
        return realloc_noted(block, bytes);
    return MTP__UNLIKELY(is_early(block)) ? move_early(block, bytes) : next.realloc(block, bytes);
}

EXPORT void *reallocarray(void *block, size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    if (MTP__UNLIKELY(is_wanted(CALLER)))
        return realloc_noted(block, all);
    return MTP__UNLIKELY(is_early(block)) ? move_early(block, all) : next.realloc(block, all);
}

/* The rest is not called before the lookup by anyone we know of; it is looked up then. */
#define NEXT(name) (next.name != NULL ? (void)0 : find_next(), next.name)

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *block = NEXT(aligned_alloc)(alignment, bytes);
    return is_wanted(CALLER) ? noted(block) : block;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    int code = NEXT(posix_memalign)(out, alignment, bytes);
    if (code == 0 && is_wanted(CALLER))
        noted(*out);
    return code;
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
    void *block = NEXT(memalign)(alignment, bytes);
    return is_wanted(CALLER) ? noted(block) : block;
}

EXPORT void *valloc(size_t bytes)
{
    void *block = NEXT(valloc)(bytes);
    return is_wanted(CALLER) ? noted(block) : block;
}

EXPORT void *pvalloc(size_t bytes)
{
    void *block = NEXT(pvalloc)(bytes);
    return is_wanted(CALLER) ? noted(block) : block;
}

EXPORT size_t malloc_usable_size(void *block)
{
    return is_early(block) ? early_size(block) : NEXT(usable)(block);
}

/* ------------------------------------------------------------------------------------------ the start */

static int find_text(struct dl_phdr_info *info, size_t size, void *inside)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = (uintptr_t)(info->dlpi_addr + p->p_vaddr);
        if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0 || (uintptr_t)inside - from >= p->p_memsz)
            continue;
        our_text = from;
        our_text_end = from + p->p_memsz;
        return 1;
    }
    return 0;
}

static bool has_recorded(void)
{
    return __atomic_load_n(&recorded, __ATOMIC_RELAXED);
}

static void report_nothing(void)
{
}

static const mtp__collector heap = {"the malloc collector", has_recorded, report_nothing};

/* Found by name: a framework's collector does not report again what it has from malloc. */
EXPORT extern const bool mtp_malloc_is_recorded;
const bool mtp_malloc_is_recorded = true;

static __attribute__((constructor)) void start(void)
{
    if (next.malloc == first_malloc)
        find_next();
    dl_iterate_phdr(find_text, (void *)(uintptr_t)&mtp_version);
    mtp__own_start(&heap);
}
