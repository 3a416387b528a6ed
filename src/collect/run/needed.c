/* collect/run/needed.c - can this process record? See run.h.
 *
 * What records is either told to us (collectors, Python), or uses libmtprof: then some library of the process, or the
 * program, asks the loader for it by name.
 */
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
#include "collect/run/run.h"

#define LIBRARY "libmtprof.so"
#define OURS "libmtprof"

static int uses_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash != NULL ? slash + 1 : info->dlpi_name;
    const ElfW(Dyn) *dynamic = NULL;
    const char *names = NULL;
    (void)size, (void)unused;
    if (strncmp(name, OURS, sizeof OURS - 1) == 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (const ElfW(Dyn) *d = dynamic; d != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB &&
            d->d_un.d_ptr > info->dlpi_addr) /* the kernel's own object has an offset */
            names = (const char *)d->d_un.d_ptr;
    for (const ElfW(Dyn) *d = dynamic; names != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && strncmp(names + d->d_un.d_val, LIBRARY, sizeof LIBRARY - 1) == 0)
            return 1;
    return 0;
}

bool mtp__run_can_record(void)
{
    return dl_iterate_phdr(uses_library, NULL) != 0;
}
