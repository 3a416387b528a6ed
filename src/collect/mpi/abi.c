/* collect/mpi/abi.c - which MPI the program uses, and what its constants are: see mpi.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include "collect/mpi/mpi.h"

mtp__mpi_abi mtp__mpi;
mtp__mpi_own mtp__pmpi;

static void *library; /* of a program that loaded it for itself alone, as Python does */

static int is_mpi(struct dl_phdr_info *info, size_t size, void *found)
{
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash != NULL ? slash + 1 : info->dlpi_name;
    (void)size;
    if (strncmp(name, "libmpi.so", 9) != 0 && strncmp(name, "libmpich.so", 11) != 0 &&
        strncmp(name, "libmpi_cray.so", 14) != 0)
        return 0;
    snprintf(found, 4096, "%s", info->dlpi_name);
    return 1;
}

void *mtp__mpi_symbol(const char *name)
{
    void *at = dlsym(RTLD_NEXT, name);
    if (at == NULL && library == NULL) {
        char path[4096];
        if (dl_iterate_phdr(is_mpi, path) != 0)
            library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    }
    return at == NULL && library != NULL ? dlsym(library, name) : at;
}

/* Objects of the library's: the program may have them (copy relocations), and then the library uses those, too. */
static const void *object(const char *name)
{
    const void *at = dlsym(RTLD_DEFAULT, name);
    return at != NULL ? at : mtp__mpi_symbol(name);
}

/* Both have kept these since their ABI was fixed: Open MPI since 1.7, MPICH and those that are like it since 3.1. */
static void set_open_mpi(const void *world)
{
    mtp__mpi = (mtp__mpi_abi){.name = "Open MPI", .handle_bytes = sizeof(void *), .world = (mtp__word)world};
    mtp__mpi.byte = (mtp__word)object("ompi_mpi_byte");
    mtp__mpi.request_null = (mtp__word)object("ompi_request_null");
    mtp__mpi.comm_null = (mtp__word)object("ompi_mpi_comm_null");
    mtp__mpi.in_place = 1;
    mtp__mpi.status_ignore = 0;
    mtp__mpi.any_source = -1, mtp__mpi.any_tag = -1, mtp__mpi.proc_null = -2, mtp__mpi.root = -4;
    mtp__mpi.status_bytes = 24, mtp__mpi.source_at = 0, mtp__mpi.tag_at = 4;
}

static void set_mpich(void)
{
    mtp__mpi = (mtp__mpi_abi){.name = "MPICH", .handle_bytes = sizeof(uint32_t), .world = 0x44000000};
    mtp__mpi.byte = 0x4c00010d;
    mtp__mpi.request_null = 0x2c000000;
    mtp__mpi.comm_null = 0x04000000;
    mtp__mpi.in_place = (mtp__word)-1;
    mtp__mpi.status_ignore = 1;
    mtp__mpi.any_source = -2, mtp__mpi.any_tag = -1, mtp__mpi.proc_null = -1, mtp__mpi.root = -3;
    mtp__mpi.status_bytes = 20, mtp__mpi.source_at = 8, mtp__mpi.tag_at = 12;
}

static bool is_like_mpich(void)
{
    static const char *const names[] = {"MPICH", "MVAPICH", "Intel(R) MPI", "CRAY MPICH"};
    char text[8192] = "";
    int length = 0;
    int (*version)(char *, int *);
    *(void **)&version = mtp__mpi_symbol("PMPI_Get_library_version");
    if (version == NULL || version(text, &length) != 0)
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(text, names[i]) != NULL)
            return true;
    return false;
}

void mtp__mpi_find(void)
{
    const void *world = object("ompi_mpi_comm_world");
    bool all = true;
#define X(name, arguments)                                                                                   \
    *(void **)&mtp__pmpi.name = mtp__mpi_symbol("PMPI_" #name);                                              \
    all &= mtp__pmpi.name != NULL;
    MTP__MPI_OWN_LIST(X)
#undef X
    if (all && world != NULL)
        set_open_mpi(world);
    else if (all && is_like_mpich())
        set_mpich();
}

int mtp__mpi_apply(void *function, unsigned count, const mtp__word *a)
{
    typedef mtp__word w;
    union {
        void *p;
        int (*n0)(void);
        int (*n4)(w, w, w, w);
        int (*n6)(w, w, w, w, w, w);
        int (*n8)(w, w, w, w, w, w, w, w);
        int (*n10)(w, w, w, w, w, w, w, w, w, w);
        int (*n12)(w, w, w, w, w, w, w, w, w, w, w, w);
    } f = {function};
    if (count == 0)
        return f.n0();
    if (count <= 4) /* registers that a function does not read do no harm */
        return f.n4(a[0], a[1], a[2], a[3]);
    if (count <= 6)
        return f.n6(a[0], a[1], a[2], a[3], a[4], a[5]);
    if (count <= 8)
        return f.n8(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    if (count <= 10)
        return f.n10(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9]);
    return f.n12(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}
