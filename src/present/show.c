/* present/show.c - everything about one span, or about all spans of one name, in words. */
#include <stdlib.h>
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/os.h"
#include "present/budget.h"

#define NEAR 12u /* enclosing spans, children, shapes, lines that are listed */
#define TEXT_MAX 300u

static void say_text(mtp__words *w, mtp_text text)
{
    size_t length = text.length;
    if (length > TEXT_MAX) {
        for (length = TEXT_MAX; length > 0 && ((unsigned char)text.bytes[length] & 0xc0) == 0x80;)
            length--;
    }
    mtp__say(w, "%.*s%s", (int)length, text.bytes, length < text.length ? "..." : "");
}

/* "span 12: aten::mm, 1.5 ms at 3 ms" */
static void say_span(mtp__words *w, const mtp_trace *t, uint32_t span)
{
    mtp__say(w, "span %u: ", span);
    say_text(w, mtp__trace_get_text(t, t->name[span]));
    mtp__say(w, ", ");
    mtp__say_time(w, (double)t->end[span] - (double)t->start[span]);
    mtp__say(w, " at ");
    mtp__say_time(w, (double)t->start[span] - (double)t->first_ns);
}

static const char *category_of(const mtp_trace *t, uint32_t span)
{
#define X(sym, text) text,
    static const char *const names[] = {MTP__CATEGORY_LIST(X)};
#undef X
    const char *name = names[t->category[span]];
    return *name != 0 ? name : mtp__trace_get_text(t, mtp__trace_detail(t, span)->category).bytes;
}

static void add_inputs(mtp__pieces *p, const mtp_trace *t, uint32_t span)
{
    const mtp__detail *d = mtp__trace_detail(t, span);
    mtp__words w = {0};
    if (d->shape != 0 && d->shape < t->shape_count) {
        mtp__say(&w, "inputs: ");
        say_text(&w, mtp__trace_get_text(t, t->shapes[d->shape].dims));
        mtp__say(&w, " ");
        say_text(&w, mtp__trace_get_text(t, t->shapes[d->shape].types));
        mtp__pieces_add(p, 2, 2, 4, &w);
    }
    if (d->bytes != 0) {
        mtp__say(&w, "bytes: ");
        mtp__say_bytes(&w, (double)d->bytes);
        mtp__pieces_add(p, 2, 2, 4, &w);
    }
    if (t->launcher != NULL && t->launcher[span] != MTP__NONE) {
        mtp__say(&w, "launched by ");
        say_span(&w, t, t->launcher[span]);
        mtp__pieces_add(p, 1, 2, 4, &w);
    }
}

static mtp_status show_span(const mtp_trace *t, uint32_t span, mtp__pieces *p)
{
    mtp__words w = {0};
    mtp__scratch stacks = {0};
    const mtp__track *track = &t->tracks[mtp__trace_track_of(t, span)];
    say_span(&w, t, span);
    mtp__pieces_add(p, 0, 0, 2, &w);
    mtp__say(&w, "%s on %s %lld", category_of(t, span), track->on_device ? "stream" : "thread",
             (long long)track->tid);
    if (track->name != 0)
        mtp__say(&w, " (%s)", mtp__trace_get_text(t, track->name).bytes);
    mtp__say(&w, " of %s %lld%s", track->on_device ? "device" : "process", (long long)track->pid,
             (t->flags[span] & MTP__SPAN_UNFINISHED) != 0 ? "; its end was not recorded" : "");
    mtp__pieces_add(p, 0, 2, 4, &w);
    add_inputs(p, t, span);
    uint32_t depth = 0, children = 0;
    for (uint32_t up = t->parent[span]; up != MTP__NONE && depth < NEAR; up = t->parent[up], depth++) {
        mtp__say(&w, "in ");
        say_span(&w, t, up);
        mtp__pieces_add(p, 3 + depth, 2, 4, &w);
    }
    mtp_status status = mtp__stacks_of(t, true, &stacks);
    mtp__frames f =
        mtp__frames_of(t, true, status == MTP_OK && stacks.p != NULL ? ((uint32_t *)stacks.p)[span] : 0);
    depth = 0;
    for (uint32_t text; depth < NEAR && status == MTP_OK && mtp__frames_next(&f, &text); depth++) {
        mtp__say(&w, depth == 0 ? "called at " : "from ");
        say_text(&w, mtp__trace_get_text(t, text));
        mtp__pieces_add(p, 3 + depth, 2, 4, &w);
    }
    mtp__scratch_free(&stacks);
    uint32_t end = track->first + track->count;
    for (uint32_t i = span + 1; i < end && t->start[i] <= t->end[span] && children < NEAR; i++)
        if (t->parent[i] == span) {
            mtp__say(&w, "contains ");
            say_span(&w, t, i);
            mtp__pieces_add(p, 20 + children++, 2, 4, &w);
        }
    return status;
}

/* -------------------------------------------------------------------------------------------- by name */

typedef struct of_name {
    uint64_t calls;
    double total;
    uint32_t longest[NEAR]; /* longest first */
    uint32_t count;
} of_name;

static double length_of(const mtp_trace *t, uint32_t span)
{
    return (double)t->end[span] - (double)t->start[span];
}

static void keep(of_name *n, const mtp_trace *t, uint32_t span)
{
    double ns = length_of(t, span);
    n->calls++;
    n->total += ns;
    if (n->count == NEAR && length_of(t, n->longest[NEAR - 1]) >= ns)
        return;
    uint32_t k = n->count < NEAR ? n->count++ : NEAR - 1;
    for (; k > 0 && length_of(t, n->longest[k - 1]) < ns; k--)
        n->longest[k] = n->longest[k - 1];
    n->longest[k] = span;
}

static mtp_status add_rows(mtp__pieces *p, const mtp_trace *t, mtp_text name, bool by_stack)
{
    mtp_averages *rows;
    mtp_averages_options o = MTP_AVERAGES_OPTIONS_INIT;
    o.by_input_shape = !by_stack;
    o.by_stack = by_stack ? 3 : 0;
    o.python_stacks = by_stack;
    o.include_python_functions = true;
    mtp_status status = mtp_averages_create(t, &o, &rows);
    if (status != MTP_OK)
        return status;
    status = mtp_averages_sort(rows, "count");
    uint32_t shown = 0;
    for (size_t i = 0; i < mtp_averages_count(rows) && shown < NEAR; i++) {
        const mtp_row *r = mtp_averages_row(rows, i);
        mtp__words w = {0};
        if (r->key_length != name.length || memcmp(r->key, name.bytes, name.length) != 0 ||
            (by_stack ? r->stack_depth == 0 : r->input_shapes[0] == 0 || strcmp(r->input_shapes, "[]") == 0))
            continue;
        mtp__say(&w, "%llu x ", (unsigned long long)r->count);
        if (by_stack)
            for (uint32_t k = 0; k < r->stack_depth && k < 3; k++)
                mtp__say(&w, "%s%s", k > 0 ? " < " : "at ", r->stack[k]);
        else
            mtp__say(&w, "with %s", r->input_shapes);
        mtp__say(&w, ": p50 ");
        mtp__say_time(&w, r->p50 * 1e3);
        mtp__say(&w, ", longest ");
        mtp__say_time(&w, r->max * 1e3);
        mtp__pieces_add(p, 10 + shown++, 2, 4, &w);
    }
    mtp_averages_destroy(rows);
    return status;
}

static mtp_status show_name(const mtp_trace *t, uint32_t id, mtp__pieces *p)
{
    of_name n = {0};
    mtp__words w = {0};
    mtp_text name = mtp__trace_get_text(t, id);
    for (uint32_t i = 0; i < t->span_count; i++)
        if (t->name[i] == id)
            keep(&n, t, i);
    if (n.calls == 0)
        return MTP_FAIL(MTP_E_ARG, "'%s' is the name of no span of this trace", name.bytes);
    say_text(&w, name);
    mtp__say(&w, ": %llu %s, ", (unsigned long long)n.calls, n.calls == 1 ? "call" : "calls");
    mtp__say_time(&w, n.total);
    mtp__say(&w, " in all (with what they call), ");
    mtp__say_time(&w, n.total / (double)n.calls);
    mtp__say(&w, " on average");
    mtp__pieces_add(p, 0, 0, 2, &w);
    mtp_status status = add_rows(p, t, name, false);
    if (status == MTP_OK)
        status = add_rows(p, t, name, true);
    for (uint32_t i = 0; i < n.count; i++) {
        mtp__say(&w, "%s", i == 0 ? "longest: " : "then ");
        say_span(&w, t, n.longest[i]);
        mtp__pieces_add(p, 1 + i, 2, 4, &w);
    }
    return status;
}

/* "span 12", "12"; UINT32_MAX: not a number. */
static uint32_t number_of(const char *what)
{
    const char *digits = strncmp(what, "span ", 5) == 0 ? what + 5 : what;
    char *end;
    unsigned long long n = strtoull(digits, &end, 10);
    return *digits >= '0' && *digits <= '9' && *end == 0 && n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

mtp_status mtp_trace_show(const mtp_trace *t, const char *what, const mtp_words_options *options,
                          mtp_sink *sink, void *user)
{
    mtp_words_options o;
    if (t == NULL || what == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "trace, what or sink is NULL");
    mtp_status status = mtp__words_options_read(&o, options);
    if (status != MTP_OK)
        return status;
    mtp__pieces p = {.width = o.width};
    uint32_t id = mtp__trace_find_text(t, what), span = number_of(what);
    if (span < t->span_count)
        status = show_span(t, span, &p);
    else if (span != UINT32_MAX && id == 0)
        status = MTP_FAIL(MTP_E_ARG, "there is no span %u: the trace has %u", span, t->span_count);
    else if (id == 0)
        status = MTP_FAIL(MTP_E_ARG, "'%s' is neither a finding nor the name of a span of this trace", what);
    else
        status = show_name(t, id, &p);
    if (status == MTP_OK)
        return mtp__pieces_write(&p, o.budget, "(cut: give a larger budget)", sink, user);
    mtp__pieces_free(&p);
    return status;
}
