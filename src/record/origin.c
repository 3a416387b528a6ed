#include "record/origin.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/os.h"

static size_t slurp(const char *path, char *text, size_t room)
{
    int fd = mtp__open(path, O_RDONLY, 0);
    ssize_t n = fd >= 0 ? mtp__pread(fd, text, room, 0) : 0;
    mtp__close(fd);
    return n > 0 ? (size_t)n : 0;
}

/* "9c5a0d5e-...": 32 hexadecimal digits. */
static void read_boot(uint64_t boot[2])
{
    char text[64];
    static const char known[] = "0123456789abcdef";
    uint64_t word[2] = {0, 0};
    unsigned digits = 0;
    size_t n = slurp("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (size_t i = 0; i < n && digits < 32; i++) {
        const char *at = memchr(known, text[i], 16);
        if (at == NULL)
            continue;
        word[digits / 16] = word[digits / 16] << 4 | (uint64_t)(at - known);
        digits++;
    }
    memcpy(boot, word, digits == 32 ? sizeof word : 0);
}

/* Control characters become spaces, and a character that does not fit is not cut in two. */
static void read_command(mtp__origin *o)
{
    char text[4096];
    size_t n = slurp("/proc/self/cmdline", text, sizeof text), from = 0;
    for (size_t i = 0; i < n && text[i] != 0; i++)
        from = text[i] == '/' ? i + 1 : from;
    while (n > from && text[n - 1] == 0)
        n--;
    size_t length = n - from < sizeof o->command ? n - from : sizeof o->command;
    if (length < n - from)
        while (length > 0 && ((unsigned char)text[from + length] & 0xc0u) == 0x80u)
            length--;
    for (size_t i = 0; i < length; i++)
        o->command[i] = (unsigned char)text[from + i] < ' ' || text[from + i] == 127 ? ' ' : text[from + i];
    o->command_length = (uint32_t)length;
}

void mtp__origin_read(mtp__origin *o)
{
    memset(o, 0, sizeof *o);
    o->parent = (uint64_t)getppid();
    read_boot(o->boot);
    read_command(o);
}
