/* Fuzz: trace/kineto, with all that it stands on (window, scanner, numbers, gzip, zstd).
 *
 * With clang it is a libFuzzer target:
 *     CC=clang-14 meson setup build-fuzz && ninja -C build-fuzz tests/fuzz_kineto
 *     build-fuzz/tests/fuzz_kineto -dict=tests/fuzz/json.dict CORPUS tests/fuzz/kineto
 * With any other compiler it runs the files or folders that it is given, once each, and speaks TAP: what was found once
 * stays found.
 *
 * Beside not crashing: the window's size changes nothing, kept JSON is strict, nothing leaks.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json_check.h"
#include "base/os.h"
#include "trace/json_source.h"
#include "trace/kineto.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                           \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                                       \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

static mtp_status read_once(const uint8_t *data, size_t size, size_t window, size_t piece, mtp_trace **out)
{
    mtp__source *source;
    *out = NULL;
    mtp_status status = mtp__source_memory(data, size, piece, &source);
    if (status != MTP_OK)
        return status;
    status = mtp__kineto_read(source, NULL, window, out);
    mtp__source_close(source);
    return status;
}

static void check_json(const mtp_trace *t, uint32_t id, const char *before, const char *after)
{
    mtp__text text = mtp__trace_get_text(t, id);
    size_t head = strlen(before), tail = strlen(after), at;
    if (id == 0)
        return;
    char *whole = malloc(head + text.length + tail);
    memcpy(whole, before, head);
    memcpy(whole + head, text.bytes, text.length);
    memcpy(whole + head + text.length, after, tail);
    MUST(mtp__json_check(whole, head + text.length + tail, &at));
    free(whole);
}

static void check(const mtp_trace *t)
{
    uint32_t spans = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        MUST(t->tracks[k].count == 0 || t->tracks[k].first == spans);
        spans += t->tracks[k].count;
    }
    MUST(spans == t->span_count);
    for (uint32_t i = 0; i < t->span_count; i++) {
        const mtp__detail *d = mtp__trace_detail(t, i);
        MUST(t->end[i] >= t->start[i]);
        MUST(d->shape < t->shape_count && d->stack < t->stack_count);
        MUST(t->parent[i] == MTP__NONE || t->parent[i] < i);
        check_json(t, d->args, "{", "}");
    }
    for (uint32_t i = 1; i < t->shape_count; i++) {
        check_json(t, t->shapes[i].dims, "", "");
        check_json(t, t->shapes[i].strides, "", "");
        check_json(t, t->shapes[i].types, "", "");
        check_json(t, t->shapes[i].concrete, "", "");
    }
    for (uint32_t i = 1; i < t->stack_count; i++)
        MUST(t->stacks[i].parent < i);
    for (uint32_t i = 0; i < t->metadata_count; i++)
        check_json(t, t->metadata[i].json, "", "");
    for (uint32_t i = 0; i < t->instant_count; i++)
        check_json(t, t->instants[i].args, "{", "}");
    for (uint32_t i = 0; i < t->memory_count; i++)
        check_json(t, t->memory[i].args, "{", "}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = mtp__alloc_live();
    mtp_trace *a, *b;
    mtp_status first = read_once(data, size, 4096, 0, &a);
    char story[512];
    snprintf(story, sizeof story, "%s", first != MTP_OK ? mtp_last_error() : "");
    size_t window = size > 0 ? data[size / 2] : 0;
    mtp_status second = read_once(data, size, 16 + window, 1 + window % 29, &b);
    MUST(first == second);
    bool plain = size < 4 || (memcmp(data, "\x1f\x8b", 2) != 0 && memcmp(data, "\x28\xb5\x2f\xfd", 4) != 0);
    if (first != MTP_OK && plain && strcmp(story, mtp_last_error()) != 0) {
        fprintf(stderr, "%s\nbut with a window of %zu\n%s\n", story, 16 + window, mtp_last_error());
        abort();
    }
    if (first == MTP_OK) {
        check(a);
        check(b);
        MUST(a->span_count == b->span_count && a->detail_count == b->detail_count);
        MUST(a->instant_count == b->instant_count && a->skipped_events == b->skipped_events);
        MUST(mtp__intern_count(&a->text) == mtp__intern_count(&b->text));
    }
    mtp_trace_destroy(a);
    mtp_trace_destroy(b);
    MUST(mtp__alloc_live() == live);
    return 0;
}

#ifndef MTP_FUZZER
static int run_count;

static void run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1); /* exactly: ASan sees a byte too many */
    size = (long)fread(data, 1, size > 0 ? (size_t)size : 0, f);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    printf("ok %d - %s\n", ++run_count, strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct dirent **list;
        int n = scandir(argv[i], &list, NULL, alphasort);
        if (n < 0)
            run_file(argv[i]);
        for (int k = 0; k < n; k++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], list[k]->d_name);
            if (list[k]->d_name[0] != '.')
                run_file(path);
            free(list[k]);
        }
        if (n >= 0)
            free(list);
    }
    printf("1..%d\n", run_count);
    return run_count == 0;
}
#endif
