/* cli/run/program.c - finds the program as a shell does, and says beforehand what would keep it from being recorded. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/plain.h"
#include "cli/run/run.h"

enum { /* as a shell's */
    NOT_EXECUTABLE = 126,
    NOT_FOUND = 127,
    SCRIPTS_MAX = 4 /* interpreters that are scripts themselves */
};

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* 0, or the errno of execvp(). */
static int search(const char *name, char path[PATH_MAX])
{
    struct stat st;
    if (strchr(name, '/') != NULL) {
        if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
            return ENAMETOOLONG;
        if (stat(path, &st) != 0)
            return errno;
        return S_ISDIR(st.st_mode) ? EISDIR : access(path, X_OK) == 0 ? 0 : errno;
    }
    const char *list = getenv("PATH");
    int error = ENOENT;
    for (const char *at = list != NULL ? list : "/bin:/usr/bin", *end; at != NULL;
         at = *end != 0 ? end + 1 : NULL) {
        end = strchrnul(at, ':');
        int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "", name);
        if (n < PATH_MAX && is_file(path)) {
            if (access(path, X_OK) == 0)
                return 0;
            error = errno;
        }
    }
    return error;
}

/* ---------------------------------------------------------------------------- what the system will make of it */

/* Gains privileges when it is executed? Then the loader ignores LD_PRELOAD. */
static bool is_privileged(const char *path)
{
    struct stat st;
    struct statvfs vfs;
    if (geteuid() == 0 || stat(path, &st) != 0 || (statvfs(path, &vfs) == 0 && (vfs.f_flag & ST_NOSUID) != 0))
        return false;
    if (((st.st_mode & S_ISUID) != 0 && st.st_uid != geteuid()) ||
        ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getegid()))
        return true;
    return getxattr(path, "security.capability", NULL, 0) > 0;
}

typedef enum kind {
    DYNAMIC, /* or unknown: the system will say */
    SCRIPT,
    STATIC,
    FOREIGN
} kind;

/* Reads "#!interpreter". */
static kind look_at_script(const char *start, size_t n, char next[PATH_MAX])
{
    size_t from = 2;
    while (from < n && (start[from] == ' ' || start[from] == '\t'))
        from++;
    size_t length = 0;
    while (from + length < n && strchr(" \t\r\n", start[from + length]) == NULL && start[from + length] != 0)
        length++;
    if (length == 0 || length >= PATH_MAX)
        return DYNAMIC;
    memcpy(next, start + from, length);
    next[length] = 0;
    return SCRIPT;
}

static kind look_at_elf(int fd, const Elf64_Ehdr *h)
{
    Elf64_Ehdr own;
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    bool known = self >= 0 && pread(self, &own, sizeof own, 0) == (ssize_t)sizeof own;
    if (self >= 0)
        close(self);
    if (known && (h->e_ident[EI_CLASS] != own.e_ident[EI_CLASS] || h->e_machine != own.e_machine))
        return FOREIGN;
    for (unsigned i = 0; i < h->e_phnum; i++) {
        Elf64_Phdr p;
        char loader[64] = "";
        off_t at = (off_t)(h->e_phoff + (uint64_t)i * sizeof p);
        if (pread(fd, &p, sizeof p, at) != (ssize_t)sizeof p)
            return DYNAMIC;
        if (p.p_type != PT_INTERP)
            continue;
        if (pread(fd, loader, sizeof loader - 1, (off_t)p.p_offset) > 0 && strstr(loader, "musl") != NULL)
            return FOREIGN;
        return DYNAMIC;
    }
    return STATIC;
}

static kind look_at(const char *path, char next[PATH_MAX])
{
    char start[512] = "";
    Elf64_Ehdr h;
    kind found = DYNAMIC;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? pread(fd, start, sizeof start - 1, 0) : 0;
    if (n >= 2 && memcmp(start, "#!", 2) == 0) {
        found = look_at_script(start, (size_t)n, next);
    } else if (n >= (ssize_t)sizeof h && memcmp(start, ELFMAG, SELFMAG) == 0) {
        memcpy(&h, start, sizeof h);
        found = look_at_elf(fd, &h);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* Says what cannot be recorded; a program that gains privileges is refused. Exit code. */
static int judge(run_program *p)
{
    char path[PATH_MAX], next[PATH_MAX];
    snprintf(path, sizeof path, "%s", p->path);
    for (int i = 0; i < SCRIPTS_MAX; i++) {
        if (is_privileged(path))
            return cli_fail(
                NOT_EXECUTABLE,
                "%s runs with another user's rights (setuid, setgid or capabilities): the system keeps "
                "profilers out of such programs. Run it without mtprof; or as that user: sudo mtprof run ...",
                path);
        kind found = look_at(path, next);
        if (found == STATIC || found == FOREIGN) {
            p->unseen = true;
            cli_note("%s is %s: nothing in it can be recorded, only in programs that it starts", path,
                     found == STATIC ? "statically linked" : "not a program of this machine's C library");
        }
        if (found != SCRIPT)
            break;
        memcpy(path, next, sizeof path);
    }
    return CLI_OK;
}

/* --------------------------------------------------------------------------------------------------- finding */

/* A Python file that is not a program by itself. */
static bool is_python_file(const char *name)
{
    return cli_ends(name, ".py") && is_file(name) && (strchr(name, '/') == NULL || access(name, X_OK) != 0);
}

int run_find(char **given, bool is_module, run_program *p)
{
    int count = 0, at = 0;
    *p = (run_program){.argv = NULL};
    while (given[count] != NULL)
        count++;
    p->argv = calloc((size_t)count + 3, sizeof *p->argv);
    if (p->argv == NULL)
        return cli_fail(CLI_MEMORY, "out of memory");
    if (is_module || is_python_file(given[0]))
        p->argv[at++] = "python3";
    if (is_module)
        p->argv[at++] = "-m";
    memcpy(p->argv + at, given, (size_t)count * sizeof *given);
    int error = search(p->argv[0], p->path);
    if (error == ENOENT || error == ENOTDIR)
        return cli_fail(NOT_FOUND, "%s: %s", p->argv[0],
                        strchr(p->argv[0], '/') != NULL ? mtp__reason(error) : "command not found");
    if (error != 0)
        return cli_fail(NOT_EXECUTABLE, "%s: %s", p->argv[0], mtp__reason(error));
    return judge(p);
}

void run_program_free(run_program *p)
{
    free(p->argv);
    p->argv = NULL;
}
