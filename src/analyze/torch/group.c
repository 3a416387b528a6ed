/* analyze/torch/group.c - from an event to its row.
 *
 * torch's key is (name, node_id, device_type, is_legacy, is_user_annotation) and, on request, the overload,
 * the shapes and the innermost frames. Here node_id and is_legacy are constant, so a row is a key (a name
 * after torch's rewriting) and a class, and the plain case is two lookups in dense arrays.
 */
#include <string.h>
#include "analyze/torch/rules.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/plain.h"

#define HUGE_FROM ((size_t)4 << 20)
#define DEEPEST 256u /* frames that by_stack distinguishes */

bool mtp__scratch_make(mtp__scratch *s, size_t count, size_t size)
{
    size_t bytes = (count * size + 4095) & ~(size_t)4095;
    bytes = bytes != 0 ? bytes : 4096;
    if (bytes >= HUGE_FROM)
        bytes = (bytes + (((size_t)2 << 20) - 1)) & ~(((size_t)2 << 20) - 1);
    s->p = mtp__map_memory(bytes, bytes >= HUGE_FROM);
    s->bytes = bytes;
    return s->p != NULL;
}

void mtp__scratch_free(mtp__scratch *s)
{
    mtp__unmap(s->p, s->bytes);
    s->p = NULL;
}

/* -------------------------------------------------------------------------------------------- classes */

static bool has_metadata(const mtp_trace *t, const char *key)
{
    uint32_t id = mtp__trace_find_text(t, key);
    for (uint32_t i = 0; id != 0 && i < t->metadata_count; i++)
        if (t->metadata[i].key == id)
            return true;
    return false;
}

/* Python calls are events for torch since 2.12; since 2.15 they have no rows unless requested. The writer's
 * version is recognised by "host_name", which came with 2.12. Our own traces follow the newest rule, as JSON, too. */
static unsigned python_class(const mtp_trace *t, const mtp_averages_options *options)
{
    if (options->include_python_functions)
        return MTP__CLASS_CPU;
    return mtp__is_ours(t) || has_metadata(t, "host_name") ? MTP__CLASS_PYTHON : MTP__CLASS_NONE;
}

static void set_classes(mtp__group *g)
{
    for (unsigned c = 0; c < MTP__CATEGORIES; c++)
        g->class_of[c] = mtp__category_on_device((mtp__category)c) ? MTP__CLASS_DEVICE : MTP__CLASS_CPU;
    g->class_of[MTP__CATEGORY_USER_ANNOTATION] = MTP__CLASS_CPU_ANNOTATION;
    g->class_of[MTP__CATEGORY_GPU_USER_ANNOTATION] = MTP__CLASS_DEVICE_ANNOTATION;
    g->class_of[MTP__CATEGORY_PYTHON_FUNCTION] = (uint8_t)python_class(g->t, g->options);
    g->trace_category = !mtp__is_recording(g->t) ? mtp__trace_find_text(g->t, MTP__RECORDING_CATEGORY) : 0;
}

/* ----------------------------------------------------------------------------------------------- life */

mtp_status mtp__group_init(mtp__group *g, const mtp_trace *t, const mtp_averages_options *options,
                           mtp__intern *text)
{
    memset(g, 0, sizeof *g);
    g->t = t;
    g->options = options;
    g->text = text;
    g->plain = !options->by_input_shape && !options->by_overload_name && options->by_stack == 0;
    g->split = !mtp__is_recording(t);
    mtp__intern_init(&g->rows, 1, SIZE_MAX, NULL, NULL);
    set_classes(g);
    size_t texts = (size_t)mtp__intern_count(&t->text) + 1;
    if (!mtp__scratch_make(&g->key_of, texts, sizeof(uint32_t)) ||
        (options->by_overload_name && !mtp__scratch_make(&g->overload_of, texts, sizeof(uint32_t))) ||
        (options->by_input_shape && !mtp__scratch_make(&g->shape_of, t->shape_count, sizeof(uint32_t))) ||
        (options->by_stack != 0 && !mtp__scratch_make(&g->stack_of, t->stack_count, sizeof(uint32_t)))) {
        mtp__group_fini(g);
        return MTP_FAIL(MTP_E_NOMEM, "tables for %zu texts", texts);
    }
    return MTP_OK;
}

void mtp__group_fini(mtp__group *g)
{
    mtp__scratch_free(&g->key_of);
    mtp__scratch_free(&g->overload_of);
    mtp__scratch_free(&g->shape_of);
    mtp__scratch_free(&g->stack_of);
    mtp__intern_fini(&g->rows);
    mtp__free(g->row_of);
    mtp__free(g->sum);
    g->row_of = NULL;
    g->sum = NULL;
}

void mtp__group_reset(mtp__group *g)
{
    if (g->row_of != NULL)
        memset(g->row_of, 0, g->row_of_room * sizeof *g->row_of);
    if (g->sum != NULL)
        memset(g->sum, 0, g->room * sizeof *g->sum);
    mtp__intern_reset(&g->rows);
    g->sums = 0;
}

uint32_t mtp__group_text(mtp__group *g, const void *bytes, size_t length)
{
    uint64_t hash = mtp__hash_bytes(bytes, length);
    uint32_t id = mtp__intern_find(g->text, hash, bytes, length);
    if (id == 0 && (id = mtp__intern_add(g->text, hash, bytes, length)) == 0)
        g->failed = true;
    return id;
}

/* ----------------------------------------------------------------------------------------------- names */

static size_t word(const char *p, const char *end)
{
    const char *from = p;
    while (p < end && mtp__is_word(*p))
        p++;
    return (size_t)(p - from);
}

/* With capture_overload_names Kineto writes aten::add.Tensor: namespace::name.overload and nothing else.
 * Returns the position of the dot; 0: not such a name. */
size_t mtp__overload_at(mtp_text name)
{
    const char *p = name.bytes, *end = p + name.length;
    size_t n = word(p, end);
    if (n == 0 || (size_t)(end - p) < n + 2 || memcmp(p + n, "::", 2) != 0)
        return 0;
    p += n + 2;
    n = word(p, end);
    if (n == 0 || p + n >= end || p[n] != '.')
        return 0;
    size_t point = (size_t)(p + n - name.bytes);
    p += n + 1;
    n = word(p, end);
    return n > 0 && p + n == end ? point : 0;
}

uint32_t mtp__group_new_key(mtp__group *g, uint32_t name)
{
    mtp_text text = mtp__trace_get_text(g->t, name);
    uint32_t *key = (uint32_t *)g->key_of.p + name;
    if (mtp__is_filtered(text)) {
        *key = MTP__KEY_NONE + 1;
        return MTP__KEY_NONE;
    }
    size_t point = g->split ? mtp__overload_at(text) : 0;
    if (g->overload_of.p != NULL)
        ((uint32_t *)g->overload_of.p)[name] =
            point != 0 ? mtp__group_text(g, text.bytes + point + 1, text.length - point - 1)
                       : mtp__group_text(g, "", 0);
    if (point != 0)
        text.length = point;
    if (MTP__BEGINS_WITH(text, MTP__STEP_PREFIX))
        text = (mtp_text){MTP__STEP_KEY, sizeof MTP__STEP_KEY - 1};
    uint32_t id = mtp__group_text(g, text.bytes, text.length);
    if (id == 0)
        return MTP__KEY_NONE; /* latched */
    *key = id + 1;
    return id;
}

/* ------------------------------------------------------------------------------------------------ rows */

static uint32_t add_sum(mtp__group *g, uint32_t key, unsigned class)
{
    if (!MTP__GROW(g->sum, g->room, g->sums, g->sums + 1, 64)) {
        g->failed = true;
        return MTP__NONE;
    }
    mtp__sum *s = &g->sum[g->sums];
    s->key = key;
    s->class = (uint8_t) class;
    s->min_ns = s->first_start = INT64_MAX;
    s->max_ns = INT64_MIN;
    return g->sums++;
}

uint32_t mtp__group_new_row(mtp__group *g, uint32_t key, unsigned class)
{
    uint32_t at = key * MTP__CLASSES + class;
    if (!MTP__GROW(g->row_of, g->row_of_room, g->row_of_room, (size_t)at + 1, 256)) {
        g->failed = true;
        return MTP__NONE;
    }
    uint32_t row = add_sum(g, key, class);
    if (row != MTP__NONE)
        g->row_of[at] = row + 1;
    return row;
}

/* torch's input_shapes: a list of tensors becomes []. [[2, 3], [[4], [5]]] is [[2, 3], []]. */
static uint32_t shape_text(mtp__group *g, uint32_t shape)
{
    uint32_t *known = (uint32_t *)g->shape_of.p + shape;
    if (*known != 0)
        return *known;
    uint32_t dims = g->t->shapes[shape].dims;
    mtp_text text = dims != 0 ? mtp__trace_get_text(g->t, dims) : (mtp_text){"[]", 2};
    char *out = mtp__calloc(1, text.length + 1);
    if (out == NULL) {
        g->failed = true;
        return 0;
    }
    size_t length = 0, item = 0;
    int depth = 0;
    bool list = false;
    for (const char *p = text.bytes; p < text.bytes + text.length; p++) {
        if (*p == '[' && ++depth == 2)
            item = length;
        list |= depth == 3;
        if (*p == ']' && depth-- == 2 && list) {
            length = item + 1; /* after its opening */
            list = false;
        }
        out[length++] = *p;
    }
    *known = mtp__group_text(g, out, length);
    mtp__free(out);
    return *known;
}

/* The innermost frames of a stack, encoded as a text of their text ids. Python calls are not cached: these
 * are few. */
static uint32_t stack_text(mtp__group *g, uint32_t stack)
{
    uint32_t none = 0, *known = (stack & MTP__STACK_CALL) != 0 ? &none : (uint32_t *)g->stack_of.p + stack;
    if (*known != 0)
        return *known;
    uint32_t frames[DEEPEST], count = 0, most = g->options->by_stack, text;
    most = most < DEEPEST ? most : DEEPEST;
    mtp__frames f = mtp__frames_of(g->t, g->options->python_stacks, stack);
    while (count < most && mtp__frames_next(&f, &text)) {
        mtp_text frame = mtp__trace_get_text(g->t, text);
        frames[count++] = mtp__group_text(g, frame.bytes, frame.length);
    }
    return *known = mtp__group_text(g, frames, count * sizeof *frames);
}

uint32_t mtp__group_find_row(mtp__group *g, uint32_t key, unsigned class, uint32_t span)
{
    uint32_t by[5] = {key, class, 0, 0, 0};
    const mtp__detail *d = span != MTP__NONE ? mtp__trace_detail(g->t, span) : g->t->details;
    if (g->options->by_overload_name && span != MTP__NONE)
        by[2] = ((const uint32_t *)g->overload_of.p)[g->t->name[span]];
    if (g->options->by_input_shape)
        by[3] = shape_text(g, d->shape);
    if (g->options->by_stack != 0)
        by[4] = stack_text(g, g->stack != NULL && span != MTP__NONE ? g->stack[span] : d->stack);
    uint64_t hash = mtp__hash_bytes(by, sizeof by);
    uint32_t id = mtp__intern_find(&g->rows, hash, by, sizeof by);
    if (id != 0 || g->failed)
        return id - 1; /* MTP__NONE: failed */
    uint32_t row = add_sum(g, key, class);
    if (row == MTP__NONE || mtp__intern_add(&g->rows, hash, by, sizeof by) != row + 1) {
        g->failed = true;
        return MTP__NONE;
    }
    g->sum[row].overload = by[2];
    g->sum[row].shape = by[3];
    g->sum[row].stack = by[4];
    return row;
}
