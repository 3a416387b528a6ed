/* collect/torch/memory.cpp - allocations and frees of PyTorch's allocators, on all threads.
 *
 * The allocators ask c10::memoryProfilingEnabled() and report to c10::reportMemoryUsageToProfiler(), which pass
 * it on to torch.profiler's state of the thread. We cannot be that state: torch.profiler would refuse to start
 * beside us. So the calls are diverted: where PyTorch's libraries jump to these functions through their tables
 * (the PLT), the entry is replaced by a function of ours that records, and calls PyTorch's.
 *
 * PyTorch has its CPU memory from posix_memalign. Where the malloc collector reports that, these blocks are there
 * already; only shared memory, which is mapped, is reported here then.
 */
#include <c10/core/Allocator.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include "collect/torch/inputs.h"

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOBAL_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOBAL_DATA R_AARCH64_GLOB_DAT
#else /* memory is not recorded: no relocation has this type */
#define JUMP_SLOT UINT32_MAX
#define GLOBAL_DATA UINT32_MAX
#endif

namespace
{

bool is_enabled()
{
    return (mtp_recording() & MTP_WITH_MEMORY) != 0 || c10::memoryProfilingEnabled();
}

std::atomic<bool> heap_is_recorded; /* by the malloc collector */
std::atomic<size_t> mapped_count;   /* of `mapped` */
std::mutex mapped_lock;
std::unordered_set<void *> mapped; /* blocks of shared memory */

/* Is it one of the blocks that come from posix_memalign? PyTorch reports others as reserved. */
bool is_of_heap(void *at, int64_t bytes, size_t reserved)
{
    if (bytes > 0 && reserved == 0)
        return true;
    if (bytes <= 0 && mapped_count.load(std::memory_order_relaxed) == 0)
        return true;
    std::lock_guard<std::mutex> lock(mapped_lock);
    if (bytes > 0)
        mapped.insert(at);
    bool heap = bytes <= 0 && mapped.erase(at) == 0;
    mapped_count.store(mapped.size(), std::memory_order_relaxed);
    return heap;
}

void on_usage(void *at, int64_t bytes, size_t allocated, size_t reserved, c10::Device device)
{
    if (!heap_is_recorded.load(std::memory_order_relaxed) || !device.is_cpu() ||
        !is_of_heap(at, bytes, reserved))
        mtp_memory_event(mtp__torch_device(device), at, bytes, allocated, reserved);
    c10::reportMemoryUsageToProfiler(at, bytes, allocated, reserved, device);
}

void on_exhausted(int64_t bytes, size_t allocated, size_t reserved, c10::Device device)
{
    mtp_mark(MTP_NAME("[OutOfMemory]"));
    c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, device);
}

struct diversion {
    const char *symbol;
    void *ours, *theirs;
};
const diversion diversions[] = {
    {"_ZN3c1022memoryProfilingEnabledEv", (void *)is_enabled, (void *)c10::memoryProfilingEnabled},
    {"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", (void *)on_usage,
     (void *)c10::reportMemoryUsageToProfiler},
    {"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", (void *)on_exhausted,
     (void *)c10::reportOutOfMemoryToProfiler},
};

/* One loaded library. */
struct library {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * jumps, *others; /* relocations */
    size_t jump_count, other_count;
    uintptr_t readonly, readonly_end; /* what the loader protected after relocation */
};

struct task {
    bool divert;      /* else restore */
    unsigned reports; /* entries of reportMemoryUsageToProfiler that now have the wanted value */
    bool uses_heap;   /* PyTorch's allocator calls posix_memalign: not in builds with one of their own */
};

bool read_library(const dl_phdr_info *info, library *lib)
{
    const ElfW(Dyn) *dynamic = nullptr;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    *lib = library();
    lib->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(lib->base + p->p_vaddr);
        if (p->p_type == PT_GNU_RELRO) {
            lib->readonly = (lib->base + p->p_vaddr) & ~(page - 1);
            lib->readonly_end = (lib->base + p->p_vaddr + p->p_memsz) & ~(page - 1);
        }
    }
    size_t relative = 0;
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            lib->symbols = (const ElfW(Sym) *)value;
            break;
        case DT_STRTAB:
            lib->names = (const char *)value;
            break;
        case DT_JMPREL:
            lib->jumps = (const ElfW(Rela) *)value;
            break;
        case DT_PLTRELSZ:
            lib->jump_count = value / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            lib->others = (const ElfW(Rela) *)value;
            break;
        case DT_RELASZ:
            lib->other_count = value / sizeof(ElfW(Rela));
            break;
        case DT_RELACOUNT:
            relative = value;
            break;
        default:
            break;
        }
    }
    if (lib->others != nullptr && relative <= lib->other_count) {
        lib->others += relative;
        lib->other_count -= relative;
    }
    return lib->symbols != nullptr && lib->names != nullptr;
}

/* Entries are written whole: another thread jumps through the old value or the new one. */
bool write_entry(const library *lib, void **entry, void *value)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)entry & ~(page - 1);
    bool protected_ = (uintptr_t)entry >= lib->readonly && (uintptr_t)entry < lib->readonly_end;
    if (__atomic_load_n(entry, __ATOMIC_RELAXED) == value)
        return true;
    if (protected_ && mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n(entry, value, __ATOMIC_RELEASE);
    if (protected_)
        mprotect((void *)at, page, PROT_READ);
    return true;
}

void write_entries(const library *lib, const ElfW(Rela) * relocations, size_t count, task *t)
{
    for (size_t i = 0; relocations != nullptr && i < count; i++) {
        unsigned type = (unsigned)ELF64_R_TYPE(relocations[i].r_info);
        if (type != JUMP_SLOT && type != GLOBAL_DATA)
            continue;
        const char *name = lib->names + lib->symbols[ELF64_R_SYM(relocations[i].r_info)].st_name;
        t->uses_heap |= strcmp(name, "posix_memalign") == 0;
        if (strncmp(name, "_ZN3c102", 8) != 0)
            continue;
        for (const diversion &d : diversions)
            if (strcmp(name, d.symbol) == 0) {
                bool written = write_entry(lib, (void **)(lib->base + relocations[i].r_offset),
                                           t->divert ? d.ours : d.theirs);
                t->reports += written && d.ours == (void *)on_usage;
            }
    }
}

/* Only PyTorch's libraries have such calls; ours must keep its own. */
int visit(dl_phdr_info *info, size_t, void *user)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash != nullptr ? slash + 1 : info->dlpi_name;
    library lib;
    if ((strncmp(name, "libc10", 6) == 0 || strncmp(name, "libtorch", 8) == 0) && read_library(info, &lib)) {
        write_entries(&lib, lib.jumps, lib.jump_count, static_cast<task *>(user));
        write_entries(&lib, lib.others, lib.other_count, static_cast<task *>(user));
    }
    return 0;
}

bool diverted;

/* Does posix_memalign lead to the malloc collector, if that is here at all? */
bool is_collected(void)
{
    Dl_info of_collector, of_function;
    void *collector = dlsym(RTLD_DEFAULT, "mtp_malloc_is_recorded"),
         *function = dlsym(RTLD_DEFAULT, "posix_memalign");
    return collector != nullptr && function != nullptr && dladdr(collector, &of_collector) != 0 &&
           dladdr(function, &of_function) != 0 && of_collector.dli_fbase == of_function.dli_fbase;
}

} // namespace

bool mtp__torch_memory_attach(void)
{
    task t = {true, 0, false};
    dl_iterate_phdr(visit, &t);
    heap_is_recorded = t.uses_heap && is_collected();
    diverted = t.reports > 0;
    return diverted;
}

void mtp__torch_memory_detach(void)
{
    task t = {false, 0, false};
    if (diverted)
        dl_iterate_phdr(visit, &t);
    diverted = false;
}
