/* Fuzz: trace/kineto, with everything it builds on (window, scanner, numbers, gzip, zstd).
 *
 * Besides not crashing: the window's size changes nothing, kept JSON is strict, nothing leaks.
 */
#define _GNU_SOURCE
#include "fuzz.h"
#include "trace/json/source.h"
#include "trace/kineto/kineto.h"
#include "trace/trace.h"

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
    mtp_text text = mtp__trace_get_text(t, id);
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
