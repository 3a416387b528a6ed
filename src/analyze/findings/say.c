/* analyze/findings/say.c - the texts of findings, and their evidence. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "analyze/findings/findings.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/utf8.h"

#define NAME_BYTES 60u /* shown of a name in a text */

/* ----------------------------------------------------------------------------------------------- words */

void mtp__say(mtp__words *w, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int need = mtp__format_list(NULL, 0, fmt, args);
    va_end(args);
    if (!w->failed && need >= 0 &&
        MTP__GROW(w->bytes, w->room, w->length, w->length + (size_t)need + 1, 256)) {
        mtp__format_list(w->bytes + w->length, (size_t)need + 1, fmt, again);
        w->length += (size_t)need;
    } else {
        w->failed = true;
    }
    va_end(again);
}

/* Three digits: "1.25 ms", "12.5 us", "125 ns". */
void mtp__say_time(mtp__words *w, double ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    int unit = 0;
    for (; unit < 3 && fabs(ns) >= 999.5; unit++)
        ns /= 1000;
    double size = fabs(ns);
    mtp__say(w, "%.*f %s", unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, ns, units[unit]);
}

void mtp__say_share(mtp__words *w, double share)
{
    double percent = 100 * share;
    mtp__say(w, "%.*f%%", percent < 9.95 ? 1 : 0, percent);
}

void mtp__say_of_whole(mtp__words *w, const mtp__case *c, double ns)
{
    mtp__say_time(w, ns);
    mtp__say(w, " of ");
    mtp__say_time(w, c->whole);
    mtp__say(w, " (");
    mtp__say_share(w, ns / c->whole);
    mtp__say(w, ")");
}

void mtp__say_bytes(mtp__words *w, double bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    int unit = 0;
    for (; unit < 6 && fabs(bytes) >= 1024; unit++)
        bytes /= 1024;
    mtp__say(w, "%.*f %s", unit == 0 || fabs(bytes) >= 99.95 ? 0 : 1, bytes, units[unit]);
}

void mtp__say_count(mtp__words *w, uint64_t count, const char *one, const char *many)
{
    mtp__say(w, "%llu %s", (unsigned long long)count, count == 1 ? one : many);
}

/* "void at::native::f<...>(...)" is "at::native::f". A name such as "gemm" or "a.py(3): f" stays. */
static mtp_text without_arguments(mtp_text name)
{
    static const char result[] = "void ", nowhere[] = "(anonymous namespace)::";
    if (!MTP__BEGINS_WITH(name, "void "))
        return name;
    name = (mtp_text){name.bytes + sizeof result - 1, name.length - (sizeof result - 1)};
    size_t end = 0;
    while (end < name.length && name.bytes[end] != '<') {
        if (name.bytes[end] == '(') {
            if (name.length - end < sizeof nowhere ||
                memcmp(name.bytes + end, nowhere, sizeof nowhere - 1) != 0)
                break;
            end += sizeof nowhere - 2;
        }
        end++;
    }
    return end > 0 ? (mtp_text){name.bytes, end} : name;
}

void mtp__say_name(mtp__words *w, mtp_text name)
{
    name = without_arguments(name);
    size_t length = name.length;
    if (length > NAME_BYTES) {
        for (length = NAME_BYTES - 3; length > 0 && ((unsigned char)name.bytes[length] & 0xc0) == 0x80;)
            length--;
    }
    mtp__say(w, "%.*s%s", (int)length, name.bytes, length < name.length ? "..." : "");
}

void mtp__say_source(mtp__words *w, mtp_text source)
{
    if (source.length == 0)
        return;
    mtp__say(w, " (at ");
    size_t skip = source.length > NAME_BYTES ? source.length - (NAME_BYTES - 3) : 0;
    while (skip > 0 && skip < source.length && ((unsigned char)source.bytes[skip] & 0xc0) == 0x80)
        skip++;
    mtp__say(w, "%s%.*s)", skip > 0 ? "..." : "", (int)(source.length - skip), source.bytes + skip);
}

/* -------------------------------------------------------------------------------------------- evidence */

typedef struct alike_key {
    uint64_t what, source, apart;
} alike_key;

static uint64_t address_of(mtp_text text)
{
    return text.length > 0 ? (uint64_t)(uintptr_t)text.bytes : 1;
}

void mtp__evidence_fini(mtp__evidence *tally)
{
    mtp__hash_map_fini(&tally->map);
}

void mtp__evidence_add(mtp__evidence *tally, mtp__alike one)
{
    bool is_new;
    alike_key key = {address_of(one.what), address_of(one.source), one.apart};
    mtp__alike *a = mtp__hash_map_put(&tally->map, &key, sizeof key, sizeof *a, &is_new);
    if (a == NULL) {
        tally->failed = true;
    } else if (is_new) {
        *a = one;
    } else {
        bool longer =
            one.bytes > a->bytes || (one.bytes == a->bytes &&
                                     (double)one.end - (double)one.start > (double)a->end - (double)a->start);
        one.calls += a->calls;
        one.total += a->total;
        one.bytes += a->bytes;
        if (longer)
            *a = one;
        else
            a->calls = one.calls, a->total = one.total, a->bytes = one.bytes;
    }
}

void mtp__evidence_span(mtp__evidence *tally, const mtp__case *c, uint32_t span, double ns, bool lines)
{
    mtp_text nowhere = {"", 0};
    mtp__evidence_add(tally, (mtp__alike){.what = mtp__trace_get_text(c->t, c->t->name[span]),
                                          .source = lines ? mtp__source_of(&c->sources, span) : nowhere,
                                          .calls = 1,
                                          .total = ns,
                                          .start = c->t->start[span],
                                          .end = c->t->end[span],
                                          .span = span});
}

static double overlap(const mtp_trace *t, uint32_t span, const mtp__idle *gap)
{
    int64_t a = t->start[span] > gap->start ? t->start[span] : gap->start,
            b = t->end[span] < gap->end ? t->end[span] : gap->end;
    return b > a ? (double)(b - a) : 0;
}

/* The innermost annotation or function of the busiest thread that takes most of it. */
static uint32_t around(const mtp__case *c, const mtp__idle *gap)
{
    const mtp_trace *t = c->t;
    int64_t middle = gap->start + (gap->end - gap->start) / 2; /* both are within the time examined */
    uint32_t in = c->main_track != MTP__NONE ? mtp__trace_span_at(t, c->main_track, middle) : MTP__NONE;
    while (in != MTP__NONE && overlap(t, in, gap) < 0.5 * (double)(gap->end - gap->start))
        in = t->parent[in];
    return in;
}

bool mtp__gap_imports(const mtp__case *c, const mtp__idle *gap)
{
    const mtp_trace *t = c->t;
    uint32_t in = around(c, gap);
    while (in != MTP__NONE &&
           strstr(mtp__trace_get_text(t, t->name[in]).bytes, "importlib._bootstrap") == NULL)
        in = t->parent[in];
    return in != MTP__NONE;
}

/* With the line of the program around what it lies in. */
void mtp__evidence_gap(mtp__evidence *tally, const mtp__case *c, const mtp__idle *gap, double ns)
{
    const mtp_trace *t = c->t;
    uint32_t in = around(c, gap);
    mtp__alike one = {.what = {"", 0},
                      .source = {"", 0},
                      .calls = 1,
                      .total = ns,
                      .start = gap->start,
                      .end = gap->end,
                      .span = MTP__NONE};
    if (in != MTP__NONE && !mtp__is_step(t, in)) {
        one.what = mtp__trace_get_text(t, t->name[in]);
        for (uint32_t up = in; up != MTP__NONE && one.source.length == 0; up = t->parent[up]) {
            mtp_text name = mtp__trace_get_text(t, t->name[up]);
            if (t->category[up] == MTP__CATEGORY_PYTHON_FUNCTION && !mtp__of_framework(name))
                one.source = name;
        }
        if (one.source.bytes == one.what.bytes)
            one.source = (mtp_text){"", 0}; /* it is that line itself */
    }
    mtp__evidence_add(tally, one);
}

static int greatest_first(const void *a, const void *b)
{
    const mtp__alike *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->total < y->total || x->total > y->total)
        return x->total > y->total ? -1 : 1;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    int order = strcmp(x->what.bytes, y->what.bytes);
    return order != 0 ? order : strcmp(x->source.bytes, y->source.bytes);
}

/* The greatest, in order; returns how many. */
static uint32_t greatest(const mtp__evidence *tally, mtp__alike out[MTP__EVIDENCE_MAX])
{
    uint32_t count = 0;
    size_t at = 0;
    for (const mtp__alike *a;
         (a = mtp__hash_map_next(&tally->map, &at, sizeof(alike_key), sizeof *a)) != NULL;) {
        uint32_t k = count < MTP__EVIDENCE_MAX ? count++ : MTP__EVIDENCE_MAX;
        if (k == MTP__EVIDENCE_MAX && greatest_first(a, &out[--k]) >= 0)
            continue;
        for (; k > 0 && greatest_first(a, &out[k - 1]) < 0; k--)
            out[k] = out[k - 1];
        out[k] = *a;
    }
    return count;
}

const mtp__alike *mtp__evidence_first(const mtp__evidence *tally)
{
    const mtp__alike *best = NULL;
    size_t at = 0;
    for (const mtp__alike *a;
         (a = mtp__hash_map_next(&tally->map, &at, sizeof(alike_key), sizeof *a)) != NULL;)
        best = best == NULL || greatest_first(a, best) < 0 ? a : best;
    return best;
}

static void show_evidence(const mtp__case *c, mtp__found *found, const mtp__evidence *tally)
{
    mtp__alike list[MTP__EVIDENCE_MAX];
    uint32_t count = greatest(tally, list);
    for (uint32_t i = 0; i < count; i++) {
        const mtp__alike *a = &list[i];
        const mtp_step_row *step = mtp__case_step(c, a->start);
        found->evidence[i] = (mtp_evidence){
            .name = a->what,
            .source = a->source,
            .calls = a->calls,
            .total_ns = mtp__whole_ns(a->total),
            .share = c->whole > 0 ? a->total / c->whole : 0,
            .start_ns = a->start,
            .end_ns = a->end,
            .bytes = a->bytes,
            .step = step != NULL ? step->number : -1,
            .span = a->span,
            .track = a->span != MTP__NONE ? mtp__trace_track_of(c->t, a->span) : c->main_track,
        };
    }
    found->row.evidence_count = count;
}

/* -------------------------------------------------------------------------------------------- findings */

static mtp_text taken(mtp__words *w)
{
    mtp_text text = {w->bytes, w->length};
    *w = (mtp__words){0};
    return text;
}

void mtp__draft_free(mtp__draft *d)
{
    mtp__free(d->title.bytes);
    mtp__free(d->text.bytes);
    mtp__free(d->advice.bytes);
    d->title = d->text = d->advice = (mtp__words){0};
}

mtp_status mtp__find(mtp__case *c, mtp__draft *d, mtp__evidence *evidence)
{
    mtp_findings *f = c->findings;
    bool failed =
        d->title.failed || d->text.failed || d->advice.failed || (evidence != NULL && evidence->failed);
    bool about_time = d->kind == MTP_FINDING_TIME || d->kind == MTP_FINDING_NOTE;
    /* more time than there was: on several threads at once, and who knows which of them counts */
    bool at_once = d->kind == MTP_FINDING_TIME && d->of <= 0 && d->spent > 1.001 * c->whole;
    if (!failed && (at_once || (d->kind == MTP_FINDING_TIME && d->gain < c->options.least * c->whole) ||
                    (about_time && c->whole < MTP__SHORT_NS))) {
        mtp__draft_free(d);
        return MTP_OK;
    }
    /* all three texts are there: each has at least its NUL */
    mtp__say(&d->title, "%s", "");
    mtp__say(&d->text, "%s", "");
    mtp__say(&d->advice, "%s", "");
    if (failed || d->title.failed || d->text.failed || d->advice.failed ||
        !MTP__GROW(f->list, f->room, f->count, f->count + 1, 16)) {
        mtp__draft_free(d);
        return MTP_FAIL(MTP_E_NOMEM, "findings");
    }
    mtp__found *found = &f->list[f->count];
    *found = (mtp__found){.row = {.id = {d->id, strlen(d->id)},
                                  .title = taken(&d->title),
                                  .text = taken(&d->text),
                                  .advice = taken(&d->advice),
                                  .kind = d->kind,
                                  .confidence = d->confidence,
                                  .spent_ns = mtp__whole_ns(d->spent),
                                  .gain_ns = mtp__whole_ns(d->gain),
                                  .share = d->of > 0      ? d->gain / d->of
                                           : c->whole > 0 ? d->gain / c->whole
                                                          : 0,
                                  .bytes = d->bytes},
                          .urgent = d->urgent,
                          .order = f->count};
    f->count++;
    if (evidence != NULL)
        show_evidence(c, found, evidence);
    return MTP_OK;
}
