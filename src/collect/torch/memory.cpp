/* collect/torch/memory.cpp - allocations and frees of PyTorch's allocators, on all threads.
 *
 * The allocators ask c10::memoryProfilingEnabled() and report to c10::reportMemoryUsageToProfiler(), which pass
 * it on to torch.profiler's state of the thread. We cannot be that state: torch.profiler would refuse to start
 * beside us. So the calls are diverted: where PyTorch's libraries jump to these functions through their tables
 * (the PLT), the entry is replaced by a function of ours that records, and calls PyTorch's.
 */
#include <c10/core/Allocator.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "collect/torch/inputs.h"

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOBAL_DATA R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOBAL_DATA R_AARCH64_GLOB_DAT
#endif

namespace
{

bool is_enabled()
{
    return (mtp_recording() & MTP_WITH_MEMORY) != 0 || c10::memoryProfilingEnabled();
}

void on_usage(void *at, int64_t bytes, size_t allocated, size_t reserved, c10::Device device)
{
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

} // namespace

bool mtp__torch_memory_attach(void)
{
    task t = {true, 0};
    dl_iterate_phdr(visit, &t);
    diverted = t.reports > 0;
    return diverted;
}

void mtp__torch_memory_detach(void)
{
    task t = {false, 0};
    if (diverted)
        dl_iterate_phdr(visit, &t);
    diverted = false;
}
