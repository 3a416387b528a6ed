/* Fuzz: the command's arguments, one per line. main() of src/cli is called in this process, in a private
 * folder with a few traces; '/' is removed from all arguments, so that nothing outside that folder is read or
 * written.
 *
 * Besides not crashing: the exit code is one of the man page's; existing traces are unchanged unless named by
 * -o; no unfinished files are left behind.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <getopt.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fuzz.h"

#define ARGUMENTS_MAX 24
#define INPUT "a.json"

int mtprof_main(int argc, char **argv); /* cli/main.c */

static const char json[] = "{\"traceEvents\": [\n"
                           "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, "
                           "\"tid\": 1, \"ts\": 10, \"dur\": 5, \"args\": "
                           "{\"External id\": 1, \"Input Dims\": [[2, 3], [3, 4]], \"Sequence number\": 1, "
                           "\"Call stack\": \"a;b\"}},\n"
                           "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#1\", "
                           "\"pid\": 1, \"tid\": 1, \"ts\": 5, \"dur\": 20},\n"
                           "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", "
                           "\"pid\": 1, \"tid\": 1, \"ts\": 11, \"dur\": 1, "
                           "\"args\": {\"correlation\": 7, \"External id\": 1}},\n"
                           "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"pid\": 0, \"tid\": 7, "
                           "\"ts\": 13, \"dur\": 4, \"args\": {\"correlation\": "
                           "7, \"External id\": 1, \"device\": 0, \"stream\": 7}},\n"
                           "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", \"s\": "
                           "\"t\", \"pid\": 1, \"tid\": 1, \"ts\": 12, "
                           "\"args\": {\"Addr\": 4096, \"Bytes\": 64, \"Total Allocated\": 64, \"Device "
                           "Type\": 0, \"Device Id\": -1}}\n"
                           "]}\n";

static char folder[64];
static FILE *nothing;

static void put(const char *name, const char *bytes)
{
    FILE *f = fopen(name, "w");
    MUST(f != NULL && fputs(bytes, f) >= 0);
    fclose(f);
}

/* Removes all files but the traces; returns how many. */
static int tidy(bool all)
{
    int others = 0;
    DIR *d = opendir(".");
    MUST(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        bool ours = strcmp(e->d_name, INPUT) == 0 || strcmp(e->d_name, "b.json") == 0 ||
                    strcmp(e->d_name, "s.mtp") == 0;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || (ours && !all))
            continue;
        unlink(e->d_name);
        others++;
    }
    closedir(d);
    return others;
}

static void leave(void)
{
    tidy(true);
    if (chdir("/") == 0)
        rmdir(folder);
}

static void record(const char *path)
{
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    c.spool = path;
    c.buffer_bytes = 1 << 20;
    c.chunk_bytes = 4096;
    mtp_profile *prof;
    MUST(mtp_profile_create(&c, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 4; i++) {
        MTP_SCOPE ("a scope")
            mtp_counter(MTP_NAME("counter"), i);
    }
    MUST(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
}

static void prepare(void)
{
    snprintf(folder, sizeof folder, "%s/mtprof-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    nothing = fopen("/dev/null", "w");
    MUST(nothing != NULL && mkdtemp(folder) != NULL && chdir(folder) == 0);
    atexit(leave);
    put(INPUT, json);
    put("b.json", json);
    record("s.mtp");
    setenv("MINDTORCH_DEVICE_PLUGIN", "./none", 1); /* info does not look for accelerators */
    setenv("MTPROF_MAX_MEMORY", "256M", 1);
    MUST(freopen("/dev/null", "r", stdin) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (nothing == NULL)
        prepare();
    char text[2048], *argument[ARGUMENTS_MAX + 2] = {"mtprof"};
    int count = 1;
    bool writes = false;
    size_t length = size < sizeof text - 1 ? size : sizeof text - 1;
    for (size_t i = 0; i < length; i++)
        text[i] = data[i] == '/' ? '_' : (char)data[i];
    text[length] = 0;
    for (char *at = text; at != NULL && *at != 0 && count <= ARGUMENTS_MAX;) {
        argument[count++] = strsep(&at, "\n");
        writes |= strncmp(argument[count - 1], "-o", 2) == 0 || strncmp(argument[count - 1], "--o", 3) == 0;
    }
    FILE *out = stdout, *err = stderr;
    stdout = stderr = nothing;
    optind = 0;
    int code = mtprof_main(count, argument);
    fflush(nothing);
    stdout = out;
    stderr = err;
    MUST(code >= 0 && code <= 5);
    struct stat st;
    if (!writes) {
        MUST(tidy(false) == 0);
        MUST(stat(INPUT, &st) == 0 && st.st_size == sizeof json - 1);
        return 0;
    }
    tidy(false);
    if (stat(INPUT, &st) != 0 || st.st_size != sizeof json - 1)
        put(INPUT, json);
    if (stat("b.json", &st) != 0 || st.st_size != sizeof json - 1)
        put("b.json", json);
    if (stat("s.mtp", &st) != 0 || st.st_size < 8192)
        record("s.mtp");
    return 0;
}
