/* trace/symbols.c - see symbols.h. A small reader of ELF's symbol tables. Files are untrusted: each number is
 * checked against the file's size before use, and tables are read, not mapped, since a file may shrink
 * meanwhile.
 */
#define _GNU_SOURCE
#include "trace/symbols.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/bisect.h"
#include "base/os.h"

#define PATH_ROOM 4096
#define ID_ROOM 41 /* hexadecimal digits of a build id, and a NUL */
#define SECTIONS_MAX 65535u
#define SEGMENTS_MAX 1024u
#define TABLE_MAX ((uint64_t)1 << 31)
#define PAGE_MASK (~(uint64_t)4095)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif

typedef struct function {
    uint64_t at, size; /* size 0: up to the next */
    uint32_t name;     /* offset into names */
} function;

struct mtp__module {
    mtp__module *next;
    char path[PATH_ROOM], id[ID_ROOM];
    uint64_t base;       /* load address of the file's first byte */
    function *functions; /* owned: sorted by address */
    size_t count;
    char *names; /* owned; ends with a NUL */
    size_t names_size;
};

typedef struct elf_file {
    int fd;
    uint64_t size;
    Elf64_Ehdr head;
    bool out_of_memory;
} elf_file;

/* ------------------------------------------------------------------------------------------------- reading */

/* A range of the file, NUL-terminated; NULL: not in the file, or out of memory. */
static void *read_part(elf_file *f, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0 || bytes > TABLE_MAX || offset > f->size || bytes > f->size - offset)
        return NULL;
    char *part = mtp__calloc(1, (size_t)bytes + 1);
    f->out_of_memory |= part == NULL;
    if (part != NULL && mtp__pread(f->fd, part, (size_t)bytes, offset) != (ssize_t)bytes) {
        mtp__free(part);
        part = NULL;
    }
    return part;
}

static bool elf_open(elf_file *f, const char *path)
{
    struct stat st;
    *f = (elf_file){.fd = mtp__open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)};
    if (f->fd < 0)
        return false;
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > (off_t)sizeof f->head) {
        f->size = (uint64_t)st.st_size;
        if (mtp__pread(f->fd, &f->head, sizeof f->head, 0) == (ssize_t)sizeof f->head &&
            memcmp(f->head.e_ident, ELFMAG, SELFMAG) == 0 && f->head.e_ident[EI_CLASS] == ELFCLASS64 &&
            f->head.e_ident[EI_DATA] == NATIVE_DATA)
            return true;
    }
    mtp__close(f->fd);
    return false;
}

/* The build id from the notes, in hexadecimal, or "". */
static void find_id(const unsigned char *notes, uint64_t bytes, uint64_t align, char id[ID_ROOM])
{
    Elf64_Nhdr note;
    align = align == 8 ? 8 : 4;
    for (uint64_t at = 0; bytes - at > sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        uint64_t name = at + sizeof note,
                 desc = name + (((uint64_t)note.n_namesz + align - 1) & ~(align - 1));
        uint64_t next = desc + (((uint64_t)note.n_descsz + align - 1) & ~(align - 1));
        if (desc + note.n_descsz > bytes)
            return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0) {
            for (uint32_t i = 0; i < note.n_descsz && 2 * i + 2 < ID_ROOM; i++)
                snprintf(id + 2 * i, 3, "%02x", notes[desc + i]);
            return;
        }
        if (next >= bytes)
            return;
        at = next;
    }
}

static void read_segments(elf_file *f, uint64_t *base, char id[ID_ROOM])
{
    uint32_t count = f->head.e_phnum;
    bool first = true;
    Elf64_Phdr *segments = f->head.e_phentsize == sizeof *segments && count <= SEGMENTS_MAX
                               ? read_part(f, f->head.e_phoff, (uint64_t)count * sizeof *segments)
                               : NULL;
    for (uint32_t i = 0; segments != NULL && i < count; i++) {
        const Elf64_Phdr *p = &segments[i];
        if (p->p_type == PT_LOAD && (first || p->p_vaddr < *base)) {
            *base = p->p_vaddr;
            first = false;
        }
        if (p->p_type == PT_NOTE && id[0] == 0) {
            unsigned char *notes = read_part(f, p->p_offset, p->p_filesz);
            if (notes != NULL)
                find_id(notes, p->p_filesz, p->p_align, id);
            mtp__free(notes);
        }
    }
    *base &= PAGE_MASK;
    mtp__free(segments);
}

static int by_address(const void *a, const void *b)
{
    const function *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->size < y->size) - (x->size > y->size); /* longest first, so that it is found last */
}

static void take_functions(mtp__module *m, const Elf64_Sym *symbols, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned type = ELF64_ST_TYPE(symbols[i].st_info);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbols[i].st_shndx != SHN_UNDEF &&
            symbols[i].st_name < m->names_size && m->names[symbols[i].st_name] != 0)
            m->functions[m->count++] =
                (function){symbols[i].st_value, symbols[i].st_size, symbols[i].st_name};
    }
    qsort(m->functions, m->count, sizeof *m->functions, by_address);
}

static bool read_table(elf_file *f, mtp__module *m, const Elf64_Shdr *sections, uint32_t count, uint32_t type)
{
    for (uint32_t i = 0; i < count; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_type != type || s->sh_link >= count || s->sh_size < sizeof(Elf64_Sym))
            continue;
        Elf64_Sym *symbols = read_part(f, s->sh_offset, s->sh_size);
        size_t n = (size_t)(s->sh_size / sizeof *symbols);
        m->names = read_part(f, sections[s->sh_link].sh_offset, sections[s->sh_link].sh_size);
        m->names_size = m->names != NULL ? (size_t)sections[s->sh_link].sh_size : 0;
        m->functions = symbols != NULL && m->names != NULL ? mtp__calloc(n, sizeof *m->functions) : NULL;
        f->out_of_memory |= symbols != NULL && m->names != NULL && m->functions == NULL;
        if (m->functions != NULL)
            take_functions(m, symbols, n);
        mtp__free(symbols);
        if (m->count > 0)
            return true;
        mtp__free(m->names);
        mtp__free(m->functions);
        m->names = NULL;
        m->functions = NULL;
    }
    return false;
}

/* The full table, or for a stripped file what the dynamic linker knows. */
static bool read_functions(elf_file *f, mtp__module *m, bool whole)
{
    uint32_t count = f->head.e_shnum;
    Elf64_Shdr *sections = f->head.e_shentsize == sizeof *sections && count <= SECTIONS_MAX
                               ? read_part(f, f->head.e_shoff, (uint64_t)count * sizeof *sections)
                               : NULL;
    bool found = sections != NULL && read_table(f, m, sections, count, whole ? SHT_SYMTAB : SHT_DYNSYM);
    mtp__free(sections);
    return found;
}

/* ------------------------------------------------------------------------------------------------- modules */

/* The debug file that distributions install for a stripped one. */
static void read_debug_file(mtp__module *m, bool *out_of_memory)
{
    char path[128];
    elf_file f;
    snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%.2s/%s.debug", m->id, m->id + 2);
    if (strlen(m->id) < 3 || !elf_open(&f, path))
        return;
    read_functions(&f, m, true);
    *out_of_memory |= f.out_of_memory;
    mtp__close(f.fd);
}

static void load(mtp__symbols *s, mtp__module *m)
{
    elf_file f;
    char id[ID_ROOM] = "";
    bool opened = elf_open(&f, m->path);
    if (opened) {
        read_segments(&f, &m->base, id);
        if (m->id[0] == 0 || strcmp(id, m->id) == 0) { /* else the file is not the one that ran */
            if (!read_functions(&f, m, true))
                read_debug_file(m, &f.out_of_memory);
            if (m->count == 0)
                read_functions(&f, m, false);
        }
        mtp__close(f.fd);
        s->out_of_memory |= f.out_of_memory;
    }
}

static mtp__module *module_of(mtp__symbols *s, const char *path, size_t length, const char *id, size_t digits)
{
    if (length >= PATH_ROOM || digits >= ID_ROOM)
        return NULL;
    for (mtp__module *m = s->modules; m != NULL; m = m->next)
        if (strlen(m->path) == length && memcmp(m->path, path, length) == 0 && strlen(m->id) == digits &&
            memcmp(m->id, id, digits) == 0)
            return m;
    mtp__module *m = mtp__calloc(1, sizeof *m);
    if (m == NULL) {
        s->out_of_memory = true;
        return NULL;
    }
    memcpy(m->path, path, length);
    memcpy(m->id, id, digits);
    m->next = s->modules;
    s->modules = m;
    load(s, m);
    return m;
}

void mtp__symbols_fini(mtp__symbols *s)
{
    while (s->modules != NULL) {
        mtp__module *m = s->modules;
        s->modules = m->next;
        mtp__free(m->functions);
        mtp__free(m->names);
        mtp__free(m);
    }
}

/* The last function that begins at or before the address, if it extends that far. */
static const char *name_at(const mtp__module *m, uint64_t offset)
{
    uint64_t at = m->base + offset;
    size_t low = 0, high = m->count;
    MTP__BISECT(low, high, mid, m->functions[mid].at <= at)
    if (low == 0)
        return NULL;
    const function *f = &m->functions[low - 1];
    return f->size == 0 || at - f->at < f->size ? m->names + f->name : NULL;
}

/* ------------------------------------------------------------------------------------------------- frames */

typedef struct parts {
    size_t path, id, digits; /* lengths of the path and the id; where the id begins */
    size_t name;             /* where the file name begins in the path */
    uint64_t offset;
} parts;

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* "/path/module@1f2e:+0x10:?", parsed from the end: a path may contain anything. */
static bool split(const char *frame, size_t length, parts *out)
{
    size_t end = length;
    if (length < 8 || frame[0] != '/' || memcmp(frame + length - 2, ":?", 2) != 0)
        return false;
    end -= 2;
    size_t digits = end;
    *out = (parts){0};
    while (digits > 0 && is_hex(frame[digits - 1]))
        digits--;
    if (end - digits > 16 || digits == end || digits < 4 || memcmp(frame + digits - 4, ":+0x", 4) != 0)
        return false;
    for (size_t i = digits; i < end; i++)
        out->offset = out->offset << 4 | (uint64_t)(frame[i] <= '9' ? frame[i] - '0' : frame[i] - 'a' + 10);
    out->path = digits - 4;
    size_t at = out->path;
    while (at > 0 && is_hex(frame[at - 1]))
        at--;
    if (at > 1 && frame[at - 1] == '@') {
        out->id = at;
        out->digits = out->path - at;
        out->path = at - 1;
    }
    for (size_t i = 0; i < out->path; i++)
        out->name = frame[i] == '/' ? i + 1 : out->name;
    return memchr(frame, 0, length) == NULL;
}

size_t mtp__symbols_text(mtp__symbols *s, const char *frame, size_t length, char *out, size_t room)
{
    parts p;
    int n;
    if (!split(frame, length, &p)) {
        n = snprintf(out, room, "%.*s", (int)(length < room ? length : room), frame);
    } else {
        const mtp__module *m = module_of(s, frame, p.path, frame + p.id, p.digits);
        const char *name = m != NULL ? name_at(m, p.offset) : NULL;
        n = snprintf(out, room, "%.*s:+0x%llx:%s", (int)(p.path - p.name), frame + p.name,
                     (unsigned long long)p.offset, name != NULL ? name : "?");
    }
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}
