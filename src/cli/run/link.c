/* cli/run/link.c - names for folders that LD_PRELOAD and other lists of paths cannot name: links in a folder of the user's in /tmp.
 * They stay: processes that outlive `mtprof run` go on loading from them. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli/run/run.h"

/* Others may follow the links (a program may change its user), and only we may make them. */
static bool is_ours(const char *folder)
{
    struct stat st;
    if (mkdir(folder, 0755) == 0)
        chmod(folder, 0755); /* whatever the umask */
    else if (errno != EEXIST)
        return false;
    return lstat(folder, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 0022) == 0;
}

static bool points_to(const char *link, const char *folder)
{
    char to[PATH_MAX];
    ssize_t n = readlink(link, to, sizeof to);
    return n == (ssize_t)strlen(folder) && memcmp(to, folder, (size_t)n) == 0;
}

bool run_plain_folder(char folder[PATH_MAX])
{
    char links[64], link[128];
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    if (strpbrk(folder, ": \t;$") == NULL)
        return true;
    for (const char *c = folder; *c != 0; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    snprintf(links, sizeof links, "/tmp/mtprof-links-%u", (unsigned)geteuid());
    snprintf(link, sizeof link, "%s/%016llx", links, (unsigned long long)hash);
    if (!is_ours(links) || (symlink(folder, link) != 0 && errno != EEXIST) || !points_to(link, folder))
        return false;
    memcpy(folder, link, sizeof link);
    return true;
}

bool run_plain_file(char path[PATH_MAX])
{
    char folder[PATH_MAX], name[NAME_MAX + 2];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%s", slash);
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = 0;
    return run_plain_folder(folder) && snprintf(path, PATH_MAX, "%s%s", folder, name) < PATH_MAX;
}
