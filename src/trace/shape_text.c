#include "trace/shape_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/json_out.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "record/details.h"
#include "trace/build.h"

/* A growing text; out of memory is latched in the trace. */
typedef struct buffer {
    char *bytes; /* owned */
    size_t length, room;
} buffer;

static void append(mtp_trace *t, buffer *b, const char *bytes, size_t length)
{
    if (b->length + length > b->room) {
        size_t room = (b->length + length) * 2 + 64;
        char *grown = mtp__calloc(1, room);
        if (grown == NULL) {
            t->builder->out_of_memory = true;
            return;
        }
        if (b->length > 0)
            memcpy(grown, b->bytes, b->length);
        mtp__free(b->bytes);
        b->bytes = grown;
        b->room = room;
    }
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
}

static void append_text(mtp_trace *t, buffer *b, const char *text)
{
    append(t, b, text, strlen(text));
}

static void append_ints(mtp_trace *t, buffer *b, const uint64_t *values, size_t count)
{
    char text[32];
    append_text(t, b, "[");
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s%" PRId64, i > 0 ? ", " : "", (int64_t)values[i]);
        append_text(t, b, text);
    }
    append_text(t, b, "]");
}

/* Inside a JSON string; any bytes give valid JSON. */
static void append_quoted(mtp_trace *t, buffer *b, const char *bytes, size_t length)
{
    char text[MTP__JSON_PUT_ROOM(64)];
    const unsigned char *at = (const unsigned char *)bytes, *end = at + length;
    while (at < end) { /* in pieces that never split a character */
        const unsigned char *from = at;
        while (at < end && at - from < 60) {
            unsigned skip, whole = mtp__utf8_character(at, end, &skip);
            at += whole != 0 ? whole : skip;
        }
        append(t, b, text, (size_t)(mtp__json_put(text, (const char *)from, (size_t)(at - from)) - text));
    }
}

/* The shortest spelling, Python's or ours, that reads back the same. */
static void append_float(mtp_trace *t, buffer *b, uint64_t word)
{
    double value;
    char text[MTP__DOUBLE_BYTES + 2];
    memcpy(&value, &word, sizeof value);
    mtp__shortest(text, value, 1);
    if (isfinite(value) && strpbrk(text, ".e") == NULL)
        strcat(text, ".0");
    append_text(t, b, text);
}

/* Numbers of a list: whole ones, unless its dtype says otherwise. */
static void append_list(mtp_trace *t, buffer *b, mtp_dtype dtype, const uint64_t *values, size_t count)
{
    if (dtype != MTP_BOOL && dtype != MTP_FLOAT64) {
        append_ints(t, b, values, count);
        return;
    }
    append_text(t, b, "[");
    for (size_t i = 0; i < count; i++) {
        append_text(t, b, i > 0 ? ", " : "");
        if (dtype == MTP_BOOL)
            append_text(t, b, values[i] != 0 ? "True" : "False");
        else
            append_float(t, b, values[i]);
    }
    append_text(t, b, "]");
}

typedef struct texts {
    buffer dims, strides, types, concrete;
} texts;

typedef struct words {
    const uint64_t *at;
    size_t left;
} words;

static const uint64_t *take(words *w, size_t count)
{
    if (count > w->left)
        return NULL;
    const uint64_t *at = w->at;
    w->at += count;
    w->left -= count;
    return at;
}

/* A tensor's dims and strides, in that order; missing strides mean contiguous. */
static bool tensor(mtp_trace *t, texts *x, words *w, uint64_t head)
{
    uint32_t rank = (uint32_t)(head >> 32);
    const uint64_t *dims = take(w, rank);
    if (dims == NULL) {
        append_text(t, &x->dims, "[]");
        append_text(t, &x->strides, "[]");
        return false;
    }
    append_ints(t, &x->dims, dims, rank);
    if ((head >> 16 & MTP__SHAPE_STRIDES) != 0) {
        const uint64_t *strides = take(w, rank);
        append_ints(t, &x->strides, strides, strides != NULL ? rank : 0);
        return strides != NULL;
    }
    uint64_t made[64], step = 1;
    if (rank > 64)
        rank = 0;
    for (uint32_t i = rank; i > 0; i--) {
        made[i - 1] = step;
        step *= dims[i - 1] != 0 ? dims[i - 1] : 1;
    }
    append_ints(t, &x->strides, made, rank);
    return true;
}

static bool tensor_list(mtp_trace *t, texts *x, words *w, uint32_t count)
{
    append_text(t, &x->dims, "[");
    append_text(t, &x->strides, "[");
    bool whole = true;
    for (uint32_t i = 0; i < count && whole; i++) {
        const uint64_t *head = take(w, 1);
        if (head == NULL || (*head >> 16 & MTP__SHAPE_CUT) != 0) {
            whole = false;
            break;
        }
        if (i > 0) {
            append_text(t, &x->dims, ", ");
            append_text(t, &x->strides, ", ");
        }
        whole = tensor(t, x, w, *head);
    }
    append_text(t, &x->dims, "]");
    append_text(t, &x->strides, "]");
    append_text(t, &x->types, "\"TensorList\"");
    return whole;
}

/* A value that is not a tensor: no dims; its text is among the concrete inputs. */
static bool scalar(mtp_trace *t, texts *x, words *w, uint64_t head)
{
    uint32_t count = (uint32_t)(head >> 32);
    mtp_input_kind kind = (mtp_input_kind)(head & 0xff);
    size_t need = kind == MTP_INPUT_NONE       ? 0
                  : kind == MTP_INPUT_INT_LIST ? count
                  : kind == MTP_INPUT_TEXT     ? ((size_t)count + 7) / 8
                                               : 1;
    const uint64_t *value = take(w, need);
    char text[32];
    append_text(t, &x->dims, "[]");
    append_text(t, &x->strides, "[]");
    append_text(t, &x->types,
                kind == MTP_INPUT_NONE || kind == MTP_INPUT_TEXT ? "\"\""
                : kind == MTP_INPUT_INT_LIST                     ? "\"ScalarList\""
                                                                 : "\"Scalar\"");
    append_text(t, &x->concrete, "\"");
    if (value != NULL && kind == MTP_INPUT_INT) {
        snprintf(text, sizeof text, "%" PRId64, (int64_t)value[0]);
        append_text(t, &x->concrete, text);
    } else if (value != NULL && kind == MTP_INPUT_BOOL) {
        append_text(t, &x->concrete, value[0] != 0 ? "True" : "False");
    } else if (value != NULL && kind == MTP_INPUT_FLOAT) {
        append_float(t, &x->concrete, value[0]);
    } else if (value != NULL && kind == MTP_INPUT_INT_LIST) {
        append_list(t, &x->concrete, (mtp_dtype)(head >> 8 & 0xff), value, count);
    } else if (value != NULL && kind == MTP_INPUT_TEXT) {
        append_quoted(t, &x->concrete, (const char *)value, count);
    }
    append_text(t, &x->concrete, "\"");
    return value != NULL;
}

static bool input(mtp_trace *t, texts *x, words *w, uint64_t head)
{
    if ((head >> 16 & MTP__SHAPE_CUT) != 0) { /* truncated: neither this nor anything after it fitted */
        append_text(t, &x->dims, "[]");
        append_text(t, &x->strides, "[]");
        append_text(t, &x->types, "\"\"");
        append_text(t, &x->concrete, "\"...\"");
        return false;
    }
    switch ((mtp_input_kind)(head & 0xff)) {
    case MTP_INPUT_TENSOR:
        append_text(t, &x->types, "\"");
        append_text(t, &x->types, mtp_dtype_text((mtp_dtype)(head >> 8 & 0xff)));
        append_text(t, &x->types, "\"");
        append_text(t, &x->concrete, "\"\"");
        return tensor(t, x, w, head);
    case MTP_INPUT_TENSOR_LIST:
        append_text(t, &x->concrete, "\"\"");
        return tensor_list(t, x, w, (uint32_t)(head >> 32));
    default:
        return scalar(t, x, w, head);
    }
}

uint32_t mtp__shape_from_words(mtp_trace *t, const uint64_t *all, size_t count)
{
    texts x = {0};
    buffer *each[] = {&x.dims, &x.strides, &x.types, &x.concrete};
    words w = {all, count};
    for (int k = 0; k < 4; k++)
        append_text(t, each[k], "[");
    for (bool first = true, whole = true; whole && w.left > 0; first = false) {
        for (int k = 0; k < 4 && !first; k++)
            append_text(t, each[k], ", ");
        whole = input(t, &x, &w, *take(&w, 1));
    }
    for (int k = 0; k < 4; k++)
        append_text(t, each[k], "]");
    mtp__shape shape = {0};
    if (!t->builder->out_of_memory)
        shape = (mtp__shape){mtp__trace_text(t, x.dims.bytes, x.dims.length),
                             mtp__trace_text(t, x.strides.bytes, x.strides.length),
                             mtp__trace_text(t, x.types.bytes, x.types.length),
                             mtp__trace_text(t, x.concrete.bytes, x.concrete.length)};
    for (int k = 0; k < 4; k++)
        mtp__free(each[k]->bytes);
    return mtp__trace_add_shape(t, &shape);
}
