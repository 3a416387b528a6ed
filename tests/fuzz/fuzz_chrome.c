/* Fuzz: present/chrome and present/stacks, for arbitrary traces: names, times, rows, flows and texts come
 * from the input.
 *
 * Besides not crashing: the output is strict JSON with every span, rows nest, nothing leaks.
 */
#define _GNU_SOURCE
#include "fuzz.h"
#include "trace/trace.h"

/* ---------------------------------------------------------------------------------------- input to trace */

typedef fuzz_input input;

static uint64_t take(input *in, size_t bytes)
{
    return fuzz_take(in, bytes);
}

/* Mostly small, sometimes anything. */
static int64_t take_number(input *in)
{
    uint64_t how = take(in, 1);
    return how < 200 ? (int64_t)take(in, 1) : how < 240 ? (int64_t)take(in, 3) : (int64_t)take(in, 8);
}

static uint32_t take_text(input *in, mtp_trace *t)
{
    size_t length = take(in, 1) % 24;
    length = length < (size_t)(in->end - in->at) ? length : (size_t)(in->end - in->at);
    uint32_t id = mtp__trace_text(t, (const char *)in->at, length);
    in->at += length;
    return id;
}

static uint32_t take_detail(input *in, mtp_trace *t)
{
    mtp__detail d = MTP__DETAIL_INIT;
    uint64_t has = take(in, 2);
    d.sequence = has & 1 ? take_number(in) : -1;
    d.forward_thread = has & 2 ? (uint64_t)take_number(in) : 0;
    d.correlation = has & 4 ? (uint64_t)take_number(in) : 0;
    d.external_id = has & 8 ? (uint64_t)take_number(in) : 0;
    d.allocated_before = has & 16 ? take_number(in) : -1;
    d.allocated_after = has & 32 ? take_number(in) : -1;
    d.bytes = has & 64 ? take_number(in) : 0;
    d.queued_ns = has & 128 ? take_number(in) : INT64_MIN;
    d.stack = has & 256
                  ? mtp__trace_add_stack(t, t->stack_count > 1 ? t->stack_count - 1 : 0, take_text(in, t))
                  : 0;
    d.args = has & 512 && mtp__is_recording(t) ? take_text(in, t) : 0; /* from a file they are already JSON */
    d.category = has & 1024 ? take_text(in, t) : 0;
    d.grid[0] = has & 2048 ? (uint32_t)take(in, 4) : 0;
    d.device = has & 4096 ? (uint16_t)take(in, 2) : 0xffff;
    d.flops = has & 8192 ? (uint64_t)take_number(in) : 0;
    return mtp__trace_add_detail(t, &d);
}

static void take_track(input *in, mtp_trace *t)
{
    mtp__track track = {.pid = take_number(in), .tid = take_number(in), .sort_index = INT64_MIN};
    uint64_t has = take(in, 1);
    track.on_device = has & 1;
    track.pid_text = has & 2 ? take_text(in, t) : 0;
    track.tid_text = has & 4 ? take_text(in, t) : 0;
    track.name = has & 8 ? take_text(in, t) : 0;
    mtp__trace_add_track(t, &track);
}

static void take_event(input *in, mtp_trace *t)
{
    uint64_t kind = take(in, 1);
    uint32_t track = (uint32_t)take(in, 1) % t->track_count;
    int64_t ts = take_number(in);
    if (kind < 180) {
        int64_t dur = take_number(in) & INT64_MAX, end;
        if (__builtin_add_overflow(ts, dur, &end))
            end = INT64_MAX;
        mtp__trace_add_span(t, track, ts, end, take_text(in, t), (mtp__category)(kind % MTP__CATEGORIES),
                            (uint8_t)(take(in, 1) & 13), kind & 1 ? take_detail(in, t) : 0);
    } else if (kind < 200) {
        mtp__memory m = {.ts = ts,
                         .address = take(in, 8),
                         .bytes = take_number(in),
                         .total_allocated = take_number(in),
                         .track = track,
                         .device_index = (int16_t)take(in, 2)};
        mtp__trace_add_memory(t, &m);
    } else if (kind < 220) {
        uint64_t bits = take(in, 8);
        mtp__instant e = {.ts = ts,
                          .name = take_text(in, t),
                          .track = track,
                          .scope = (char)take(in, 1),
                          .is_counter = kind & 1};
        memcpy(&e.value, &bits, sizeof bits);
        mtp__trace_add_instant(t, &e);
    } else if (kind < 240) {
        mtp__flow f = {.ts = ts,
                       .id = (uint64_t)take_number(in),
                       .track = track,
                       .name = take_text(in, t),
                       .phase = "stf"[take(in, 1) % 3]};
        mtp__trace_add_flow(t, &f);
    } else {
        mtp_text key = mtp__trace_get_text(t, take_text(in, t)),
                 json = mtp__trace_get_text(t, take_text(in, t));
        mtp__trace_add_meta(t, key.bytes, key.length, json.bytes, json.length);
    }
}

/* --------------------------------------------------------------------------------------- trace to text */

static size_t times(const fuzz_text *in, const char *needle)
{
    size_t n = 0, length = strlen(needle);
    const char *end = in->bytes + in->length;
    for (const char *at = in->bytes; (at = memmem(at, (size_t)(end - at), needle, length)) != NULL;
         at += length)
        n++;
    return n;
}

static void check(const mtp_trace *t, bool whole, bool bare)
{
    fuzz_text out = {0};
    size_t wrong;
    mtp_export_options options = MTP_EXPORT_OPTIONS_INIT;
    options.whole_microseconds = whole;
    options.without_args = bare;
    MUST(mtp_trace_chrome(t, &options, fuzz_sink, &out) == MTP_OK);
    if (!mtp__json_check(out.bytes, out.length, &wrong)) {
        fprintf(stderr, "not JSON at %zu: ...%.80s\n", wrong, out.bytes + (wrong > 40 ? wrong - 40 : 0));
        abort();
    }
    bool window = mtp__is_recording(t) && t->span_count + t->memory_count + t->instant_count != 0;
    MUST(times(&out, "\n{\"ph\": \"X\", \"cat\": ") == t->span_count + window);
    MUST(t->span_count == 0 || times(&out, "\"traceEvents\": [\n{\"ph\": \"X\", ") == 1);
    free(out.bytes);
    out = (fuzz_text){0};
    MUST(mtp_trace_stacks(t, whole ? "self_cpu_time_total" : "self_device_time_total", fuzz_sink, &out) ==
         MTP_OK);
    free(out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    long live = mtp__alloc_live();
    mtp_trace *t;
    MUST(mtp__trace_create(&t) == MTP_OK);
    uint64_t how = take(&in, 1);
    t->format = how & 1 ? MTP_FORMAT_KINETO : MTP_FORMAT_RECORDING;
    t->base_ns = how & 2 ? (int64_t)take(&in, 8) : 1794729088000000000;
    for (uint64_t i = 0; i <= how >> 5; i++)
        take_track(&in, t);
    while (in.at < in.end)
        take_event(&in, t);
    MUST(mtp__trace_finish(t) == MTP_OK);
    check(t, how & 4, how & 8);
    mtp_trace_destroy(t);
    MUST(mtp__alloc_live() == live);
    return 0;
}
