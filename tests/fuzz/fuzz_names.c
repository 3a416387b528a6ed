/* Fuzz: names. The input is used as a name, a thread's name, a stack frame, an op's argument and a metadata
 * value, and written to every kind of output: JSON, CSV, tables, folded stacks, the terminal.
 *
 * Besides not crashing: JSON is strict and has the same name, with U+FFFD for invalid UTF-8; no control
 * characters reach a terminal; no name adds lines.
 */
#define _GNU_SOURCE
#include <unistd.h>
#include "base/json_out.h"
#include "cli/cli.h"
#include "fuzz.h"
#include "present/plain_text.h"
#include "trace/build.h"
#include "trace/json/source.h"
#include "trace/kineto/kineto.h"
#include "trace/trace.h"

/* ------------------------------------------------------------------------------- what is right, written
 * again */

/* The length of a well-formed character (Unicode, table 3-7), 0: none; *bad: how many bytes one U+FFFD
 * replaces. */
static size_t well_formed(const uint8_t *p, size_t left, size_t *bad)
{
    static const struct {
        uint8_t from, to, low, high, length;
    } row[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
               {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
               {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    *bad = 1;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        if (p[0] < row[k].from || p[0] > row[k].to)
            continue;
        for (size_t i = 1; i < row[k].length; i++) {
            uint8_t low = i == 1 ? row[k].low : 0x80, high = i == 1 ? row[k].high : 0xbf;
            if (i >= left || p[i] < low || p[i] > high) {
                *bad = i;
                return 0;
            }
        }
        return row[k].length;
    }
    return 0;
}

static void mended(const uint8_t *p, size_t left, fuzz_text *out)
{
    while (left > 0) {
        size_t bad, n = well_formed(p, left, &bad);
        if (n != 0)
            fuzz_sink(out, p, n);
        else
            fuzz_sink(out, "\xef\xbf\xbd", 3);
        n = n != 0 ? n : bad;
        p += n;
        left -= n;
    }
}

/* Valid UTF-8 without control characters, except those in `allowed`. */
static void must_be_harmless(const fuzz_text *t, const char *allowed)
{
    const uint8_t *p = (const uint8_t *)t->bytes;
    for (size_t left = t->length; left > 0;) {
        size_t bad, n = well_formed(p, left, &bad);
        MUST(n != 0);
        MUST(n > 1 || (*p >= 0x20 && *p != 0x7f) || (*p != 0 && strchr(allowed, *p) != NULL));
        MUST(n != 2 || p[0] != 0xc2 || p[1] >= 0xa0);                                   /* C1 */
        MUST(n != 3 || p[0] != 0xe2 || p[1] != 0x80 || (p[2] != 0xa8 && p[2] != 0xa9)); /* line ends */
        p += n;
        left -= n;
    }
}

static size_t lines(const fuzz_text *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->length; i++)
        n += t->bytes[i] == '\n';
    return n;
}

/* ------------------------------------------------------------------------------------------------------
 * sinks */

static void check_string(const uint8_t *name, size_t length)
{
    fuzz_text out = {0};
    mtp__out o;
    MUST(mtp__out_init(&o, fuzz_sink, &out) == MTP_OK);
    mtp__out_string(&o, (const char *)name, length);
    MUST(mtp__out_finish(&o) == MTP_OK);
    must_be_harmless(&out, "");
    fuzz_must_be_json(&out);
}

static void check_plain(const uint8_t *name, size_t length)
{
    char *room = malloc(MTP__PLAIN_ROOM(length));
    MUST(room != NULL);
    mtp__plain plain = mtp__plain_text(room, (const char *)name, length);
    fuzz_text text = {(char *)(uintptr_t)plain.bytes, plain.length, 0};
    must_be_harmless(&text, "");
    for (size_t n = 0; n < 4; n++) {
        mtp__plain a = mtp__plain_first(plain, n), b = mtp__plain_last(plain, n);
        MUST(a.characters <= n && b.characters <= n);
        text = (fuzz_text){(char *)(uintptr_t)a.bytes, a.length, 0};
        must_be_harmless(&text, "");
        text = (fuzz_text){(char *)(uintptr_t)b.bytes, b.length, 0};
        must_be_harmless(&text, "");
    }
    free(room);
}

/* What the command prints on a terminal. */
static void check_printed(const uint8_t *name, size_t length, int width)
{
    fuzz_text text = {0};
    FILE *was = stdout;
    stdout = open_memstream(&text.bytes, &text.length);
    MUST(stdout != NULL);
    cli_print_name((const char *)name, length, width);
    fclose(stdout);
    stdout = was;
    must_be_harmless(&text, "");
    fuzz_text_free(&text);
}

static mtp_trace *trace_of(const uint8_t *name, size_t length)
{
    mtp_trace *t;
    MUST(mtp__trace_create(&t) == MTP_OK);
    uint32_t text = mtp__trace_text(t, (const char *)name, length);
    mtp__track track = {.pid = 1, .tid = 2, .name = text, .sort_index = INT64_MIN};
    uint32_t thread = mtp__trace_add_track(t, &track);
    mtp__detail d = MTP__DETAIL_INIT;
    d.stack = mtp__trace_add_stack(t, 0, text);
    d.args = mtp__trace_args_text(t, text, &d.sequence);
    t->base_ns = 1794729088000000000;
    mtp__trace_add_span(t, thread, 1000, 9000, text, MTP__CATEGORY_CPU_OP, 0, mtp__trace_add_detail(t, &d));
    mtp__instant mark = {.ts = 2000, .name = text, .track = thread, .scope = 't'};
    mtp__trace_add_instant(t, &mark);
    mtp__trace_add_meta_text(t, "key", 3, (const char *)name, length);
    MUST(mtp__trace_finish(t) == MTP_OK);
    return t;
}

/* The name must come back from the file. */
static void check_read_back(const fuzz_text *file, const uint8_t *name, size_t length)
{
    mtp__source *source;
    mtp_trace *t;
    fuzz_text right = {0};
    MUST(mtp__source_memory(file->bytes, file->length, 0, &source) == MTP_OK);
    MUST(mtp__kineto_read(source, NULL, 0, &t) == MTP_OK);
    mtp__source_close(source);
    mended(name, length, &right);
    bool found = right.length == 0;
    for (uint32_t i = 0; i < t->span_count && !found; i++) {
        mtp_text text = mtp__trace_get_text(t, t->name[i]);
        found = text.length == right.length && memcmp(text.bytes, right.bytes, right.length) == 0;
    }
    MUST(found);
    fuzz_text_free(&right);
    mtp_trace_destroy(t);
}

static void check_trace(const uint8_t *name, size_t length)
{
    fuzz_text out = {0};
    mtp_trace *t = trace_of(name, length);
    MUST(mtp_trace_chrome(t, NULL, fuzz_sink, &out) == MTP_OK);
    must_be_harmless(&out, "\t\r\n"); /* args given as JSON are written as they are, white space included */
    check_read_back(&out, name, length);
    fuzz_must_be_json(&out);
    MUST(mtp_trace_execution_trace(t, fuzz_sink, &out) == MTP_OK);
    must_be_harmless(&out, "\n");
    fuzz_must_be_json(&out);
    MUST(mtp_trace_folded(t, "self_cpu_time_total", fuzz_sink, &out) == MTP_OK);
    must_be_harmless(&out, "\n");
    MUST(lines(&out) <= 2);
    fuzz_text_free(&out);
    mtp_averages *rows;
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    options.by_stack = 3;
    MUST(mtp_averages_create(t, &options, &rows) == MTP_OK);
    MUST(mtp_averages_table(rows, NULL, fuzz_sink, &out) == MTP_OK);
    must_be_harmless(&out, "\n");
    fuzz_text_free(&out);
    MUST(mtp_averages_json(rows, fuzz_sink, &out) == MTP_OK);
    must_be_harmless(&out, "\n");
    fuzz_must_be_json(&out);
    MUST(mtp_averages_csv(rows, fuzz_sink, &out) == MTP_OK);
    fuzz_text_free(&out);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = mtp__alloc_live();
    check_string(data, size);
    check_plain(data, size);
    check_printed(data, size, 4 + (int)(size > 0 ? data[0] % 60 : 0));
    check_trace(data, size);
    MUST(mtp__alloc_live() == live);
    return 0;
}
