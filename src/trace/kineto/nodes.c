/* trace/kineto/nodes.c - an execution trace: the nodes of PyTorch's .et.json, which are ops without times.
 *
 * A node names its parent, and nodes are numbered in order of start: there is no other timing. So a node's
 * span starts at its position, one nanosecond per node, and lasts until the last node inside it has started:
 * order and nesting are real, durations mean nothing (mtp_trace_info.without_times). Arguments are written as
 * Kineto does.
 */
#include <stdlib.h>
#include <string.h>
#include "trace/build.h"
#include "trace/kineto/reader.h"

#define MADE_NAME "[pytorch|profiler|execution_trace|" /* the process and its threads: not ops */
#define SCOPE_BACKWARD 1
#define SCOPE_USER 7

/* One list of a node's arguments, item by item. */
typedef struct list {
    const char *at; /* NULL: absent */
} list;

static bool is(const mtp__json_string *key, const char *name)
{
    return key->length == strlen(name) && memcmp(key->bytes, name, key->length) == 0;
}

static const mtp__json_value *member(const mtp__kineto *k, const char *name, char kind)
{
    for (size_t i = 0; i < k->event.member_count; i++)
        if (is(&k->event.members[i].key, name) && k->event.members[i].value.kind == kind)
            return &k->event.members[i].value;
    return NULL;
}

static list list_of(const mtp__json_value *array)
{
    return (list){array != NULL && array->kind == '[' ? mtp__json_space(array->bytes + 1) : NULL};
}

/* The text is already validated. */
static bool next(mtp__kineto *k, list *l, mtp__json_value *out)
{
    if (l->at == NULL || *l->at == ']')
        return false;
    l->at = mtp__json_read(&k->json, l->at, out);
    if (l->at == NULL)
        return false;
    l->at = mtp__json_space(l->at);
    if (*l->at == ',')
        l->at = mtp__json_space(l->at + 1);
    return true;
}

/* ------------------------------------------------------------------------------------------ arguments */

typedef struct texts {
    mtp__buffer dims, strides, types, concrete;
} texts;

static void add_text(mtp__buffer *b, const char *text)
{
    mtp__buffer_add(b, text, strlen(text));
}

static void add_numbers(mtp__buffer *b, const mtp__json_value *v)
{
    if (v->kind == '[')
        mtp__json_tidy(b, v->bytes, v->length);
    else
        add_text(b, "[]");
}

static void add_scalar(mtp__buffer *b, const mtp__json_value *v)
{
    if (v->kind == 't' || v->kind == 'f')
        add_text(b, v->kind == 't' ? "True" : "False");
    else if (v->kind == '"')
        mtp__json_tidy_string(b, v->bytes + 1, v->length - 2);
    else if (v->kind == 0)
        mtp__buffer_add(b, v->bytes, v->length);
}

static void add_scalars(mtp__kineto *k, mtp__buffer *b, const mtp__json_value *v)
{
    mtp__json_value item;
    list items = list_of(v);
    add_text(b, "[");
    for (bool more = false; next(k, &items, &item); more = true) {
        add_text(b, more ? ", " : "");
        add_scalar(b, &item);
    }
    add_text(b, "]");
}

static bool starts(const mtp__json_value *v, const char *with)
{
    return v->kind == '"' && v->length >= strlen(with) + 2 && memcmp(v->bytes + 1, with, strlen(with)) == 0;
}

/* The device of a tensor: the last of [id, storage, offset, elements, bytes of one, "npu:0"]. */
static void note_device(mtp__kineto *k, const mtp__json_value *tensor, mtp__detail *d)
{
    mtp__json_value item, last = {0};
    list items = list_of(tensor);
    uint64_t index;
    while (next(k, &items, &item))
        last = item;
    if (starts(&last, "cpu"))
        d->device = (uint16_t)MTP_DEVICE_CPU;
    else if (starts(&last, "npu:") && mtp__text_unsigned(last.bytes + 5, last.length - 6, &index) &&
             index <= 0xff)
        d->device = (uint16_t)MTP_DEVICE_NPU(index);
}

/* One argument: its type in Kineto's spelling, and its value if it is not a tensor. */
static void add_argument(mtp__kineto *k, texts *t, const mtp__json_value *type, const mtp__json_value *value,
                         const mtp__json_value *shape, const mtp__json_value *stride, mtp__detail *d)
{
    bool tensors = starts(type, "GenericList[Tensor("),
         tensor = starts(type, "Tensor(") && type->bytes[type->length - 2] == ')';
    bool scalars = !tensors && starts(type, "GenericList[");
    bool scalar = starts(type, "Int") || starts(type, "Double") || starts(type, "Bool");
    static const mtp__json_value none = {.kind = 'n'};
    add_numbers(&t->dims, tensor || tensors ? shape : &none);
    add_numbers(&t->strides, tensor || tensors ? stride : &none);
    add_text(&t->types, tensors ? "\"TensorList" : scalars ? "\"ScalarList" : scalar ? "\"Scalar" : "\"");
    if (tensor) /* Tensor(float) */
        mtp__json_tidy_string(&t->types, type->bytes + 8, type->length - 10);
    list items = list_of(tensors ? value : NULL);
    mtp__json_value first = *value;
    if (d->device == 0xffff && (tensor || (tensors && next(k, &items, &first))))
        note_device(k, &first, d);
    add_text(&t->types, "\"");
    add_text(&t->concrete, "\"");
    if (scalars)
        add_scalars(k, &t->concrete, value);
    else if (!tensor && !tensors && !starts(type, "None"))
        add_scalar(&t->concrete, value);
    add_text(&t->concrete, "\"");
}

static uint32_t text_of(mtp__kineto *k, mtp__buffer *b)
{
    add_text(b, "]");
    k->no_memory |= b->failed;
    return b->failed ? 0 : mtp__kineto_text(k, b->bytes, b->length);
}

/* {"values": [...], "shapes": [...], "types": [...], "strides": [...]} */
static uint32_t take_arguments(mtp__kineto *k, const mtp__json_value *object, mtp__detail *d)
{
    list values = {0}, shapes = {0}, types = {0}, strides = {0};
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object != NULL ? object->bytes + 1 : NULL;
    while (p != NULL && mtp__json_member(&k->json, &p, &key, &v)) {
        list *to = is(&key, "values")    ? &values
                   : is(&key, "shapes")  ? &shapes
                   : is(&key, "types")   ? &types
                   : is(&key, "strides") ? &strides
                                         : NULL;
        if (to != NULL)
            *to = list_of(&v);
    }
    texts t = {0};
    mtp__json_value type, none = {.kind = 'n'}, value = none, shape = none, stride = none;
    bool any = false;
    for (; next(k, &types, &type); any = true) {
        const char *before = any ? ", " : "[";
        add_text(&t.dims, before), add_text(&t.strides, before);
        add_text(&t.types, before), add_text(&t.concrete, before);
        value = next(k, &values, &v) ? v : none;
        shape = next(k, &shapes, &v) ? v : none;
        stride = next(k, &strides, &v) ? v : none;
        add_argument(k, &t, &type, &value, &shape, &stride, d);
    }
    uint32_t id = 0;
    if (any) {
        mtp__shape found = {text_of(k, &t.dims), text_of(k, &t.strides), text_of(k, &t.types),
                            text_of(k, &t.concrete)};
        id = mtp__kineto_shape(k, &found);
    }
    mtp__buffer_fini(&t.dims), mtp__buffer_fini(&t.strides);
    mtp__buffer_fini(&t.types), mtp__buffer_fini(&t.concrete);
    return id;
}

/* ---------------------------------------------------------------------------------------------- nodes */

typedef struct attributes {
    int64_t rf_id, sequence, scope, tid, forward_tid;
} attributes;

/* [{"name": "rf_id", "type": "uint64", "value": 3}, ...] */
static attributes take_attributes(mtp__kineto *k)
{
    attributes a = {.sequence = -1};
    const struct {
        const char *name;
        int64_t *to;
    } known[] = {{"rf_id", &a.rf_id},
                 {"seq_id", &a.sequence},
                 {"scope", &a.scope},
                 {"tid", &a.tid},
                 {"fw_tid", &a.forward_tid}};
    list items = list_of(member(k, "attrs", '['));
    mtp__json_value item, v;
    mtp__json_string key;
    while (next(k, &items, &item)) {
        mtp__json_value name = {0}, value = {.kind = 'n'};
        const char *p = item.bytes + 1;
        while (item.kind == '{' && mtp__json_member(&k->json, &p, &key, &v)) {
            name = is(&key, "name") ? v : name;
            value = is(&key, "value") ? v : value;
        }
        for (size_t i = 0; i < sizeof known / sizeof *known && value.kind == 0; i++)
            if (name.length == strlen(known[i].name) + 2 && starts(&name, known[i].name))
                mtp__decimal_signed(&value.number, known[i].to);
    }
    return a;
}

void mtp__kineto_node_add(mtp__kineto *k)
{
    mtp__kineto_event *e = &k->event;
    const mtp__json_value *parent = member(k, "ctrl_deps", 0);
    mtp__kineto_node node = {.id = (uint64_t)e->id.number};
    if (!(e->seen & MTP__SEEN_ID) || e->id.is_text || parent == NULL ||
        !mtp__decimal_unsigned(&parent->number, &node.parent)) {
        k->trace->skipped_events++;
        return;
    }
    if (e->name.length >= sizeof MADE_NAME - 1 && memcmp(e->name.bytes, MADE_NAME, sizeof MADE_NAME - 1) == 0)
        return;
    attributes a = take_attributes(k);
    mtp__category category = a.scope == SCOPE_USER ? MTP__CATEGORY_USER_ANNOTATION : MTP__CATEGORY_CPU_OP;
    mtp__detail d = MTP__DETAIL_INIT;
    uint64_t taken = 0;
    int64_t step = 0;
    e->pid = (mtp__kineto_id){.number = (int64_t)k->document_pid};
    e->tid = (mtp__kineto_id){.number = a.tid};
    uint8_t flags = mtp__kineto_flags(k, category, &step);
    uint32_t row = mtp__kineto_row_for(k, category, &taken);
    if (row == MTP__NONE)
        return;
    d.external_id = (uint64_t)a.rf_id;
    d.sequence = a.sequence < 0 ? -1 : a.sequence;
    d.forward_thread = (uint64_t)a.forward_tid;
    d.shape = take_arguments(k, member(k, "inputs", '{'), &d);
    d.outputs = take_arguments(k, member(k, "outputs", '{'), &d);
    d.number = step <= UINT32_MAX ? (uint32_t)step : 0;
    flags |= a.scope == SCOPE_BACKWARD ? MTP__SPAN_BACKWARD : 0;
    node.track = k->rows[row].track;
    node.name = mtp__kineto_string(k, &e->name);
    node.detail = mtp__trace_add_detail(k->trace, &d);
    node.category = (uint8_t)category;
    node.flags = flags;
    node.step = step;
    if (MTP__KINETO_ROOM(k, k->nodes, k->node_room, k->node_count))
        k->nodes[k->node_count++] = node;
}

static int by_id(const void *a, const void *b)
{
    const mtp__kineto_node *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static mtp__kineto_node *find(const mtp__kineto *k, uint64_t id)
{
    mtp__kineto_node key = {.id = id};
    return k->node_count > 0 ? bsearch(&key, k->nodes, k->node_count, sizeof key, by_id) : NULL;
}

/* A node ends when the last node inside it on its thread has started; an enclosing node has a smaller
 * number. */
void mtp__kineto_nodes_finish(mtp__kineto *k)
{
    mtp_trace *t = k->trace;
    if (k->node_count == 0)
        return;
    t->without_times = true;
    if (k->document_start_ms < INT64_MAX / 1000000)
        t->base_ns = (int64_t)k->document_start_ms * 1000000;
    qsort(k->nodes, k->node_count, sizeof *k->nodes, by_id);
    for (size_t i = 0; i < k->node_count; i++)
        k->nodes[i].end = (int64_t)i + 1;
    for (size_t i = k->node_count; i-- > 0;) {
        mtp__kineto_node *n = &k->nodes[i], *up = find(k, n->parent);
        if (up != NULL && up < n && up->track == n->track && up->end < n->end)
            up->end = n->end;
    }
    for (size_t i = 0; i < k->node_count; i++) {
        const mtp__kineto_node *n = &k->nodes[i];
        mtp__step step = {(int64_t)i, n->end, n->step};
        mtp__trace_add_span(t, n->track, (int64_t)i, n->end, n->name, (mtp__category)n->category, n->flags,
                            n->detail);
        if ((n->flags & MTP__SPAN_STEP) != 0)
            mtp__trace_add_step(t, &step);
    }
}
