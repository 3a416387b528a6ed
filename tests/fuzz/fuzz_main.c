/* Runs a fuzzer without libFuzzer: `fuzz_x FILE|FOLDER|NUMBER ...`. Runs each file once; then NUMBER inputs
 * that are those files with some bytes changed, or random bytes if there are no files. Deterministic. Prints
 * TAP. */
#define _GNU_SOURCE
#include <dirent.h>
#include "fuzz.h"

static struct kept {
    uint8_t *data; /* owned */
    size_t size;
    char name[64];
} * files;
static size_t file_count;
static int told;
static uint64_t seed = 1;

static uint64_t chance(uint64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 24) % below;
}

/* In memory of exactly its size, so that ASan sees a read beyond it. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    MUST(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* All files are read before the first is run: a fuzzer may change the working directory. */
static void read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    MUST(f != NULL);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    files = realloc(files, (file_count + 1) * sizeof *files);
    MUST(files != NULL);
    struct kept *k = &files[file_count++];
    k->data = malloc(size > 0 ? (size_t)size : 1);
    k->size = fread(k->data, 1, size > 0 ? (size_t)size : 0, f);
    fclose(f);
    snprintf(k->name, sizeof k->name, "%s", strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path);
}

static void read_folder(const char *path)
{
    struct dirent **list;
    int n = scandir(path, &list, NULL, alphasort);
    if (n < 0) {
        read_file(path);
        return;
    }
    for (int k = 0; k < n; k++) {
        char inside[4096];
        snprintf(inside, sizeof inside, "%s/%s", path, list[k]->d_name);
        if (list[k]->d_name[0] != '.')
            read_file(inside);
        free(list[k]);
    }
    free(list);
}

static void run_chance(long runs)
{
    static uint8_t data[1 << 16];
    for (long i = 0; i < runs; i++) {
        size_t size = 0;
        if (file_count > 0) {
            const struct kept *k = &files[chance(file_count)];
            size = k->size < sizeof data ? k->size : sizeof data;
            memcpy(data, k->data, size);
        }
        if (size == 0) {
            size = 1 + chance(i % 50 == 0 ? 4096 : 300);
            for (size_t n = 0; n < size; n++)
                data[n] = (uint8_t)chance(256);
        }
        for (uint64_t n = 1 + chance(8); n > 0; n--)
            data[chance(size)] = (uint8_t)chance(256);
        if (chance(4) == 0)
            size = chance(size + 1);
        run(data, size);
    }
    printf("ok %d - %ld_random_inputs\n", ++told, runs);
}

int main(int argc, char **argv)
{
    long runs = 0;
    for (int i = 1; i < argc; i++) {
        char *end;
        long number = strtol(argv[i], &end, 10);
        if (*end == 0 && end != argv[i])
            runs = number;
        else
            read_folder(argv[i]);
    }
    for (size_t i = 0; i < file_count; i++) {
        run(files[i].data, files[i].size);
        printf("ok %d - %s\n", ++told, files[i].name);
        fflush(stdout);
    }
    if (runs > 0)
        run_chance(runs);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].data);
    free(files);
    printf("1..%d\n", told);
    return told == 0;
}
