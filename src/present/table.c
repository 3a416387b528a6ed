/* present/table.c - torch's EventList.table(), to the character.
 *
 * One deliberate difference: with stacks and FLOPs together torch swaps their headings; here they are right.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "analyze/averages.h"
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"
#include "base/out.h"
#include "base/plain.h"
#include "present/plain_text.h"

#define WIDTH 12 /* of number columns */
#define SPACING 2
#define HEADING 48
#define NAME_LEAST 30 /* characters, where lines are limited: rather than fewer, columns are left out */

/* X(symbol): in torch's order. */
#define COLUMN_LIST(X)                                                                                       \
    X(NAME)                                                                                                  \
    X(OVERLOAD)                                                                                              \
    X(SELF_CPU_PERCENT)                                                                                      \
    X(SELF_CPU)                                                                                              \
    X(CPU_PERCENT)                                                                                           \
    X(CPU)                                                                                                   \
    X(CPU_AVERAGE)                                                                                           \
    X(SELF_DEVICE)                                                                                           \
    X(SELF_DEVICE_PERCENT)                                                                                   \
    X(DEVICE)                                                                                                \
    X(DEVICE_AVERAGE)                                                                                        \
    X(CPU_MEMORY)                                                                                            \
    X(SELF_CPU_MEMORY)                                                                                       \
    X(DEVICE_MEMORY)                                                                                         \
    X(SELF_DEVICE_MEMORY)                                                                                    \
    X(CALLS)                                                                                                 \
    X(SHAPES)                                                                                                \
    X(SOURCE)                                                                                                \
    X(FLOPS)
#define X(sym) COLUMN_##sym,
typedef enum column_kind {
    COLUMN_LIST(X) COLUMN_KINDS
} column_kind;
#undef X

typedef struct column {
    column_kind kind;
    size_t width;
    bool left;
    char heading[HEADING];
} column;

typedef struct table {
    const mtp_averages *a;
    const mtp_table_options *options;
    size_t *order;               /* owned */
    column column[COLUMN_KINDS]; /* each kind at most once */
    size_t columns, name_width, shapes_width, source_width;
    bool shortened; /* names, to fit a terminal: in their middle, since functions differ in their ends */
    size_t line;    /* length of a line of "=" */
    double self_cpu, self_device; /* of all rows */
    double flops_scale;
    const char *device;
    bool has_device_time;
    char *scratch; /* owned: room for any text of the rows in plain form */
    mtp__out out;
} table;

static const mtp_row *row_at(const table *t, size_t i)
{
    return &t->a->row[t->order[i]].shown;
}

/* ------------------------------------------------------------------------------------------------ numbers */

static void put_fixed(char *to, size_t room, double value, int width, int digits)
{
    mtp__format(to, room, "%*.*f", width, digits, value);
}

static void put_time(char *to, size_t room, double us, const char *unit)
{
    const char *shown = us >= 1e6 ? "s" : us >= 1e3 ? "ms" : "us";
    if (unit != NULL && (strcmp(unit, "s") == 0 || strcmp(unit, "ms") == 0 || strcmp(unit, "us") == 0))
        shown = unit;
    put_fixed(to, room, shown[0] == 's' ? us / 1e6 : shown[0] == 'm' ? us / 1e3 : us, 0, 3);
    strncat(to, shown, room - strlen(to) - 1);
}

static void put_share(char *to, size_t room, double time, double total)
{
    if (total == 0) {
        snprintf(to, room, "NaN");
        return;
    }
    put_fixed(to, room, time * 100.0 / total, 0, 2);
    strncat(to, "%", room - strlen(to) - 1);
}

static void put_memory(char *to, size_t room, int64_t bytes)
{
    static const char *const unit[] = {" KB", " MB", " GB"};
    uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    for (int i = 2; i >= 0; i--) {
        uint64_t one = (uint64_t)1 << (10 * (i + 1));
        if (size >= one) {
            put_fixed(to, room, (double)bytes * 1.0 / (double)one, 0, 2);
            strncat(to, unit[i], room - strlen(to) - 1);
            return;
        }
    }
    snprintf(to, room, "%lld B", (long long)bytes);
}

/* ------------------------------------------------------------------------------------------------- columns */

static column *add_column(table *t, column_kind kind, size_t width, const char *heading)
{
    column *c = &t->column[t->columns++];
    *c = (column){.kind = kind, .width = width};
    snprintf(c->heading, sizeof c->heading, "%s", heading);
    return c;
}

static void add_device_column(table *t, column_kind kind, const char *before, const char *after)
{
    char heading[HEADING];
    snprintf(heading, sizeof heading, "%s%.20s%s", before, t->device, after);
    add_column(t, kind, WIDTH, heading);
}

/* The longest of a text over all rows, in characters. */
static size_t longest(table *t, const char *(*text)(const mtp_row *row, size_t *length))
{
    size_t most = 0;
    for (size_t i = 0; i < t->a->count; i++) {
        size_t length;
        const char *bytes = text(row_at(t, i), &length);
        size_t characters = mtp__plain_text(t->scratch, bytes, length).characters;
        most = characters > most ? characters : most;
    }
    return most;
}

static const char *key_of(const mtp_row *row, size_t *length)
{
    *length = row->key_length;
    return row->key;
}

static const char *shapes_of(const mtp_row *row, size_t *length)
{
    *length = strlen(row->input_shapes);
    return row->input_shapes;
}

static size_t capped(size_t width, int64_t most)
{
    return most >= 0 && width > (size_t)most ? (size_t)most : width;
}

static size_t longest_frame(table *t)
{
    size_t most = 0;
    for (size_t i = 0; i < t->a->count; i++)
        for (uint32_t k = 0; k < row_at(t, i)->stack_depth; k++) {
            const char *frame = row_at(t, i)->stack[k];
            size_t characters = mtp__plain_text(t->scratch, frame, strlen(frame)).characters;
            most = characters > most ? characters : most;
        }
    return most;
}

static void add_flops_column(table *t)
{
    static const char *const prefix = " KMGTP";
    static const double scale[] = {1, 1e-3, 1e-6, 1e-9, 1e-12, 1e-15};
    uint64_t least = 0;
    for (size_t i = 0; i < t->a->count; i++)
        if (row_at(t, i)->flops != 0 && (least == 0 || row_at(t, i)->flops < least))
            least = row_at(t, i)->flops;
    if (least == 0)
        return;
    int unit = 0;
    for (uint64_t one = 1000; unit < 5 && least >= one; one *= 1000)
        unit++;
    char heading[HEADING];
    snprintf(heading, sizeof heading, "Total %.*sFLOPs", unit > 0, prefix + unit);
    t->flops_scale = scale[unit];
    add_column(t, COLUMN_FLOPS, WIDTH, heading);
}

static void add_time_columns(table *t)
{
    add_column(t, COLUMN_SELF_CPU_PERCENT, WIDTH, "Self CPU %");
    add_column(t, COLUMN_SELF_CPU, WIDTH, "Self CPU");
    add_column(t, COLUMN_CPU_PERCENT, WIDTH, "CPU total %");
    add_column(t, COLUMN_CPU, WIDTH, "CPU total");
    add_column(t, COLUMN_CPU_AVERAGE, WIDTH, "CPU time avg");
    if (t->has_device_time) {
        add_device_column(t, COLUMN_SELF_DEVICE, "Self ", "");
        add_device_column(t, COLUMN_SELF_DEVICE_PERCENT, "Self ", " %");
        add_device_column(t, COLUMN_DEVICE, "", " total");
        add_device_column(t, COLUMN_DEVICE_AVERAGE, "", " time avg");
    }
}

static size_t line_width(const table *t)
{
    size_t width = 0;
    for (size_t i = 0; i < t->columns; i++)
        width += t->column[i].width + SPACING;
    return width;
}

static void remove_column(table *t, column_kind kind)
{
    for (size_t i = 0; i < t->columns; i++)
        if (t->column[i].kind == kind) {
            t->columns--;
            memmove(t->column + i, t->column + i + 1, (t->columns - i) * sizeof *t->column);
            return;
        }
}

/* Into lines of `most` characters: leaves out columns, then shortens names. */
static void fit_columns(table *t, size_t most)
{
    static const column_kind by_use[] = {COLUMN_OVERLOAD,
                                         COLUMN_CPU_PERCENT,
                                         COLUMN_SOURCE,
                                         COLUMN_SHAPES,
                                         COLUMN_DEVICE_AVERAGE,
                                         COLUMN_CPU_MEMORY,
                                         COLUMN_DEVICE_MEMORY,
                                         COLUMN_SELF_DEVICE_PERCENT,
                                         COLUMN_CPU_AVERAGE,
                                         COLUMN_DEVICE,
                                         COLUMN_FLOPS,
                                         COLUMN_CPU,
                                         COLUMN_CALLS,
                                         COLUMN_SELF_CPU_PERCENT,
                                         COLUMN_SELF_DEVICE_MEMORY,
                                         COLUMN_SELF_CPU_MEMORY,
                                         COLUMN_SELF_DEVICE};
    column *name = &t->column[0];
    size_t wanted = name->width, least = wanted < NAME_LEAST ? wanted : NAME_LEAST;
    name->width = least;
    for (size_t i = 0; i < sizeof by_use / sizeof *by_use && line_width(t) > most; i++)
        remove_column(t, by_use[i]);
    size_t left = most > line_width(t) ? most - line_width(t) : 0;
    name->width = wanted - least <= left ? wanted : least + left;
    t->shortened = name->width < wanted;
}

static void add_columns(table *t)
{
    const mtp_table_options *o = t->options;
    bool overloads = false, shapes = false, device_memory = false, automatic = o->automatic;
    for (size_t i = 0; i < t->a->count; i++) {
        const mtp_row *row = row_at(t, i);
        overloads |= row->overload_name[0] != '\0';
        shapes |= row->input_shapes[0] != '\0' && strcmp(row->input_shapes, "[]") != 0;
        device_memory |= row->self_device_memory_usage > 0;
        t->has_device_time |= row->self_device_time_total > 0;
    }
    t->name_width = capped(longest(t, key_of) + 4, o->max_name_column_width);
    t->shapes_width = capped(longest(t, shapes_of) + 4, o->max_shapes_column_width);
    t->source_width = longest_frame(t);
    add_column(t, COLUMN_NAME, t->name_width, "Name");
    if (overloads)
        add_column(t, COLUMN_OVERLOAD, t->name_width, "Overload Name");
    add_time_columns(t);
    if (automatic ? t->a->has_memory : o->profile_memory) {
        add_column(t, COLUMN_CPU_MEMORY, WIDTH, "CPU Mem");
        add_column(t, COLUMN_SELF_CPU_MEMORY, WIDTH, "Self CPU Mem");
        if (device_memory && (t->a->has_device || o->device_name != NULL)) {
            add_device_column(t, COLUMN_DEVICE_MEMORY, "", " Mem");
            add_device_column(t, COLUMN_SELF_DEVICE_MEMORY, "Self ", " Mem");
        }
    }
    add_column(t, COLUMN_CALLS, WIDTH, "# of Calls");
    if (shapes)
        add_column(t, COLUMN_SHAPES, t->shapes_width, "Input Shapes");
    if (t->source_width > 0 && (automatic || o->with_stack)) {
        t->source_width = capped(t->source_width + 4, o->max_src_column_width);
        add_column(t, COLUMN_SOURCE, t->source_width, "Source Location")->left = true;
    }
    if (automatic ? t->a->has_flops : o->with_flops)
        add_flops_column(t);
    if (o->max_line_width >= 0)
        fit_columns(t, (size_t)o->max_line_width);
    t->line = line_width(t) - SPACING;
}

/* -------------------------------------------------------------------------------------------------- lines */

static void put_many(table *t, char c, size_t count)
{
    char piece[64];
    memset(piece, c, sizeof piece);
    for (size_t n; count > 0; count -= n)
        mtp__out_bytes(&t->out, piece, n = count < sizeof piece ? count : sizeof piece);
}

static void put_cell(table *t, const column *c, mtp__plain text)
{
    size_t fill = c->width > text.characters ? c->width - text.characters : 0;
    put_many(t, ' ', c->left ? 0 : fill);
    mtp__out_bytes(&t->out, text.bytes, text.length);
    put_many(t, ' ', (c->left ? fill : 0) + SPACING);
}

static void put_text(table *t, const column *c, const char *text)
{
    put_cell(t, c, (mtp__plain){text, strlen(text), strlen(text)});
}

static void put_separator(table *t)
{
    for (size_t i = 0; i < t->columns; i++) {
        put_many(t, '-', t->column[i].width);
        put_many(t, ' ', SPACING);
    }
    MTP__OUT(&t->out, "\n");
}

static mtp__plain cut_middle(table *t, mtp__plain text, size_t most)
{
    if (text.characters <= most)
        return text;
    mtp__plain first = mtp__plain_first(text, (most - 3) / 3);
    mtp__plain last = mtp__plain_last(text, most - 3 - first.characters);
    memmove(t->scratch + first.length + 3, last.bytes, last.length);
    memcpy(t->scratch + first.length, "...", 3);
    return (mtp__plain){t->scratch, first.length + 3 + last.length, most};
}

/* Truncated to max_name_column_width, with "...". */
static void put_name(table *t, const column *c, const char *bytes, size_t length)
{
    mtp__plain text = mtp__plain_text(t->scratch, bytes, length);
    int64_t most = t->options->max_name_column_width;
    if (t->shortened) {
        put_cell(t, c, cut_middle(t, text, c->width));
        return;
    }
    if (most >= 0 && (int64_t)text.characters >= most - 3) {
        text = mtp__plain_first(text, most > 3 ? (size_t)most - 3 : 0);
        memcpy(t->scratch + text.length, "...", 4);
        text.length += 3;
        text.characters += 3;
    }
    put_cell(t, c, text);
}

/* The end of a path says more than its beginning. */
static void put_frame(table *t, const column *c, const char *frame)
{
    mtp__plain text = mtp__plain_text(t->scratch, frame, strlen(frame));
    if (text.characters > t->source_width) {
        text = mtp__plain_last(text, t->source_width);
        if (text.characters > 3) {
            text = mtp__plain_last(text, t->source_width - 3);
            char *at = t->scratch + (text.bytes - t->scratch) - 3; /* at least three bytes were before it */
            memset(at, '.', 3);
            text = (mtp__plain){at, text.length + 3, text.characters + 3};
        }
    }
    put_cell(t, c, text);
}

static double average(double total, uint64_t count)
{
    return count != 0 ? total / (double)count : 0;
}

static void put_flops(table *t, char *to, size_t room, uint64_t flops)
{
    if (flops == 0)
        snprintf(to, room, "--");
    else
        put_fixed(to, room, (double)flops * t->flops_scale, 8, 3);
}

static void put_number(table *t, const column *c, const mtp_row *row)
{
    char text[64] = "";
    const char *unit = t->options->time_unit;
    size_t room = sizeof text;
    switch (c->kind) {
    case COLUMN_SELF_CPU_PERCENT:
        put_share(text, room, row->self_cpu_time_total, t->self_cpu);
        break;
    case COLUMN_SELF_CPU:
        put_time(text, room, row->self_cpu_time_total, unit);
        break;
    case COLUMN_CPU_PERCENT:
        if (row->is_async)
            snprintf(text, room, "0");
        else
            put_share(text, room, row->cpu_time_total, t->self_cpu);
        break;
    case COLUMN_CPU:
        put_time(text, room, row->cpu_time_total, unit);
        break;
    case COLUMN_CPU_AVERAGE:
        put_time(text, room, average(row->cpu_time_total, row->count), unit);
        break;
    case COLUMN_SELF_DEVICE:
        put_time(text, room, row->self_device_time_total, unit);
        break;
    case COLUMN_SELF_DEVICE_PERCENT:
        put_share(text, room, row->self_device_time_total, t->self_device);
        break;
    case COLUMN_DEVICE:
        put_time(text, room, row->device_time_total, unit);
        break;
    case COLUMN_DEVICE_AVERAGE:
        put_time(text, room, average(row->device_time_total, row->count), unit);
        break;
    case COLUMN_CPU_MEMORY:
        put_memory(text, room, row->cpu_memory_usage);
        break;
    case COLUMN_SELF_CPU_MEMORY:
        put_memory(text, room, row->self_cpu_memory_usage);
        break;
    case COLUMN_DEVICE_MEMORY:
        put_memory(text, room, row->device_memory_usage);
        break;
    case COLUMN_SELF_DEVICE_MEMORY:
        put_memory(text, room, row->self_device_memory_usage);
        break;
    case COLUMN_CALLS:
        snprintf(text, room, "%llu", (unsigned long long)row->count);
        break;
    case COLUMN_FLOPS:
        put_flops(t, text, room, row->flops);
        break;
    default:
        break;
    }
    put_text(t, c, text);
}

/* A line with only this frame, or empty. */
static void put_frame_line(table *t, const char *frame)
{
    for (size_t i = 0; i < t->columns; i++)
        if (frame != NULL && t->column[i].kind == COLUMN_SOURCE)
            put_frame(t, &t->column[i], frame);
        else
            put_text(t, &t->column[i], "");
    MTP__OUT(&t->out, "\n");
}

static void put_row(table *t, const mtp_row *row)
{
    bool stacks = false;
    for (size_t i = 0; i < t->columns; i++) {
        const column *c = &t->column[i];
        if (c->kind == COLUMN_NAME)
            put_name(t, c, row->key, row->key_length);
        else if (c->kind == COLUMN_OVERLOAD)
            put_name(t, c, row->overload_name, strlen(row->overload_name));
        else if (c->kind == COLUMN_SHAPES)
            put_cell(
                t, c,
                mtp__plain_first(mtp__plain_text(t->scratch, row->input_shapes, strlen(row->input_shapes)),
                                 t->shapes_width));
        else if (c->kind == COLUMN_SOURCE)
            put_frame(t, c, row->stack_depth > 0 ? row->stack[0] : "");
        else
            put_number(t, c, row);
        stacks |= c->kind == COLUMN_SOURCE;
    }
    MTP__OUT(&t->out, "\n");
    for (uint32_t k = 1; stacks && k < row->stack_depth; k++)
        put_frame_line(t, row->stack[k]);
    if (stacks)
        put_frame_line(t, NULL);
}

/* ---------------------------------------------------------------------------------------------- the table */

static void put_head(table *t)
{
    if (t->options->header != NULL) {
        put_many(t, '=', t->line);
        MTP__OUT(&t->out, "\n");
        mtp__out_text(&t->out, t->options->header);
        MTP__OUT(&t->out, "\n");
    }
    if (t->options->top_level_events_only) {
        put_many(t, '=', t->line);
        MTP__OUT(&t->out, "\nThis report only display top-level ops statistics\n");
    }
    put_separator(t);
    for (size_t i = 0; i < t->columns; i++)
        put_text(t, &t->column[i], t->column[i].heading);
    MTP__OUT(&t->out, "\n");
    put_separator(t);
}

static void put_foot(table *t)
{
    char time[64];
    put_separator(t);
    put_time(time, sizeof time, t->self_cpu, t->options->time_unit);
    MTP__OUT(&t->out, "Self CPU time total: ");
    mtp__out_text(&t->out, time);
    MTP__OUT(&t->out, "\n");
    if (t->has_device_time) {
        put_time(time, sizeof time, t->self_device, t->options->time_unit);
        MTP__OUT(&t->out, "Self ");
        mtp__out_text(&t->out, t->device);
        MTP__OUT(&t->out, " time total: ");
        mtp__out_text(&t->out, time);
        MTP__OUT(&t->out, "\n");
    }
    if (t->a->lost_definitions == 0)
        return;
    mtp__out_u64(&t->out, t->a->lost_definitions);
    MTP__OUT(&t->out, " names, shapes or stacks were lost while recording: they are shown as \"?\"\n");
}

static void put_table(table *t)
{
    add_columns(t);
    for (size_t i = 0; i < t->a->count; i++) {
        const mtp_row *row = row_at(t, i);
        t->self_cpu += row->self_cpu_time_total;
        if (row->is_device && !row->is_user_annotation)
            t->self_device += row->self_device_time_total;
    }
    put_head(t);
    int64_t shown = 0;
    for (size_t i = 0; i < t->a->count && shown != t->options->row_limit; i++) {
        if (t->options->top_level_events_only && t->a->row[t->order[i]].nested)
            continue;
        put_row(t, row_at(t, i));
        shown++;
    }
    put_foot(t);
}

static mtp_status prepare(table *t)
{
    size_t most = 0;
    for (size_t i = 0; i < t->a->count; i++) {
        const mtp_row *row = &t->a->row[i].shown;
        size_t length[] = {row->key_length, strlen(row->overload_name), strlen(row->input_shapes)};
        for (size_t k = 0; k < sizeof length / sizeof *length; k++)
            most = length[k] > most ? length[k] : most;
        for (uint32_t k = 0; k < row->stack_depth; k++)
            most = strlen(row->stack[k]) > most ? strlen(row->stack[k]) : most;
    }
    t->order = mtp__calloc(t->a->count, sizeof *t->order);
    t->scratch = mtp__calloc(1, MTP__PLAIN_ROOM(most) + 4);
    if (t->order == NULL || t->scratch == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a table of %zu rows", t->a->count);
    for (size_t i = 0; i < t->a->count; i++)
        t->order[i] = i;
    return t->options->sort_by != NULL ? mtp__averages_order(t->a, t->options->sort_by, t->order) : MTP_OK;
}

mtp_status mtp_averages_table(const mtp_averages *averages, const mtp_table_options *options, mtp_sink *sink,
                              void *user)
{
    mtp_table_options known = MTP_TABLE_OPTIONS_INIT;
    table t = {.a = averages, .options = &known};
    if (averages == NULL || sink == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", averages == NULL ? "averages" : "sink");
    mtp_status status = MTP__ABI_READ(&known, options, mtp_table_options, max_line_width);
    if (status != MTP_OK)
        return status;
    if (averages->count == 0) {
        mtp__row_number *number;
        return t.options->sort_by != NULL ? mtp__row_attribute(t.options->sort_by, &number) : MTP_OK;
    }
    t.device = t.options->device_name != NULL ? t.options->device_name : averages->device_name;
    status = prepare(&t);
    if (status == MTP_OK)
        status = mtp__out_init(&t.out, sink, user);
    if (status == MTP_OK) {
        put_table(&t);
        status = mtp__out_finish(&t.out);
    }
    mtp__free(t.order);
    mtp__free(t.scratch);
    return status;
}
