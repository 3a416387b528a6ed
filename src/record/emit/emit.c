/* record/emit/emit.c - see emit.h. The texts are torch's: emit_itt's are the names, emit_nvtx's have the sequence
 * number, a number for each call, and the sizes of the arguments.
 */
#define _GNU_SOURCE
#include "record/emit/emit.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/plain.h"
#include "record/details.h"

#define TEXT_ROOM 4096 /* what does not fit is cut off */

uint32_t mtp__emit_flags;
static _Atomic(const mtp__tool *) tool; /* of the emission in progress, or of the last one */
static atomic_bool emitting;            /* between start and stop */
static atomic_uint_fast64_t last_call;
/* The tool is being called: a collector that is ours records by the same calls. */
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

static const mtp__tool *tool_of(mtp_tool which)
{
    return which == MTP_TOOL_ITT ? &mtp__tool_itt : which == MTP_TOOL_NVTX ? &mtp__tool_nvtx : NULL;
}

void *mtp__tool_load(const char *variable, const char *entry)
{
    const char *path = secure_getenv(variable);
    void *library = path != NULL && *path != 0 ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
    return library != NULL ? dlsym(library, entry) : NULL; /* stays loaded */
}

/* -------------------------------------------------------------------------------------------- the text */

typedef struct line {
    size_t used;
    char text[TEXT_ROOM];
} line;

static void put(line *l, const char *text, size_t length)
{
    size_t room = sizeof l->text - 1 - l->used;
    if (length > room)
        length = room;
    memcpy(l->text + l->used, text, length);
    l->used += length;
}

static void put_number(line *l, const char *before, int64_t value)
{
    char number[64];
    int n = mtp__format(number, sizeof number, "%s%lld", before, (long long)value);
    put(l, number, (size_t)n);
}

static void put_dims(line *l, const mtp_input *in, bool first)
{
    put(l, first ? "[" : ", [", first ? 1 : 3);
    for (uint32_t i = 0; in->kind == MTP_INPUT_TENSOR && i < in->count; i++)
        put_number(l, i > 0 ? ", " : "", in->dims[i]);
    put(l, "]", 1);
}

/* Those of lists are listed singly; what is no tensor is []. */
static void put_sizes(line *l, const mtp_op *op)
{
    bool first = true;
    put(l, ", sizes = [", 11);
    for (uint32_t i = 0; i < op->input_count; i++) {
        const mtp_input *in = &op->inputs[i];
        if (in->kind != MTP_INPUT_TENSOR_LIST)
            put_dims(l, in, first);
        for (uint32_t k = 0; in->kind == MTP_INPUT_TENSOR_LIST && k < in->count; k++)
            put_dims(l, &in->value.items[k], first && k == 0);
        first = first && in->kind == MTP_INPUT_TENSOR_LIST && in->count == 0;
    }
    put(l, "]", 1);
}

static uint64_t words_after(uint64_t head)
{
    uint64_t count = head >> 32;
    switch ((mtp_input_kind)(head & 0xffu)) {
    case MTP_INPUT_TENSOR:
        return count << (head >> 16 & MTP__SHAPE_STRIDES);
    case MTP_INPUT_INT_LIST:
        return count;
    case MTP_INPUT_TEXT:
        return (count + 7) / 8;
    case MTP_INPUT_INT:
    case MTP_INPUT_BOOL:
    case MTP_INPUT_FLOAT:
        return 1;
    default: /* none; a list's items are next */
        return 0;
    }
}

static void put_packed_sizes(line *l, const mtp_pack *pack)
{
    bool first = true;
    put(l, ", sizes = [", 11);
    for (uint64_t at = 0; at < pack->count; at += 1 + words_after(pack->word[at])) {
        uint64_t head = pack->word[at];
        if ((head >> 16 & MTP__SHAPE_CUT) != 0)
            break;
        mtp_input in = {.kind = (uint8_t)head,
                        .count = (uint32_t)(head >> 32),
                        .dims = (const int64_t *)&pack->word[at + 1]};
        if (in.kind != MTP_INPUT_TENSOR_LIST) {
            put_dims(l, &in, first);
            first = false;
        }
    }
    put(l, "]", 1);
}

static void write_line(line *l, const mtp_op *op, const char *text, size_t length, bool numbered)
{
    l->used = 0;
    put(l, text, length);
    if (numbered) {
        if (op != NULL && op->sequence >= 0)
            put_number(l, ", seq = ", op->sequence);
        put_number(l, ", op_id = ", (int64_t)atomic_fetch_add(&last_call, 1) + 1);
        bool with_sizes = op != NULL && (mtp__emit_public() & MTP_WITH_SHAPES) != 0;
        if (with_sizes && (op->flags & MTP_OP_PACKED) != 0)
            put_packed_sizes(l, (const void *)op->inputs);
        else if (with_sizes && op->input_count > 0)
            put_sizes(l, op);
    }
    l->text[l->used] = 0;
}

/* ------------------------------------------------------------------------------------ begins and ends */

static void name_text(uint32_t name, const char **text, size_t *length)
{
    const mtp__intern_entry *e = name != 0 ? mtp__intern_get(mtp__names(), name) : NULL;
    *text = e != NULL ? (const char *)e->bytes : "?";
    *length = e != NULL ? e->length : 1;
}

mtp_token mtp__emit_begin(const mtp_op *op, uint32_t name, const char *text, size_t length)
{
    const mtp__tool *to = atomic_load(&tool);
    if (mtp__emit_public() == 0 || to == NULL || inside)
        return 0;
    int its_errno = errno;
    line l;
    if (text == NULL)
        name_text(name, &text, &length);
    write_line(&l, op, text, length, to == &mtp__tool_nvtx);
    inside = true;
    to->push(l.text);
    inside = false;
    errno = its_errno;
    return MTP__TOKEN_EMITTED;
}

/* Also after the emission has ended: the tool's ranges are a stack. */
void mtp__emit_end(void)
{
    const mtp__tool *to = atomic_load(&tool);
    if (to == NULL || inside)
        return;
    int its_errno = errno;
    inside = true;
    to->pop();
    inside = false;
    errno = its_errno;
}

/* ---------------------------------------------------------------------------------------- public calls */

bool mtp_tool_attached(mtp_tool which)
{
    return tool_of(which) != NULL && tool_of(which)->attach();
}

/* Without a collector there is nobody to emit to, and ops are not even described. */
mtp_status mtp_emit_start(mtp_tool which, bool record_shapes)
{
    const mtp__tool *to = tool_of(which);
    bool off = false;
    if (to == NULL)
        return MTP_FAIL(MTP_E_ARG, "%d is no tool: MTP_TOOL_ITT or MTP_TOOL_NVTX", (int)which);
    bool attached = to->attach();
    if (!atomic_compare_exchange_strong(&emitting, &off, true))
        return MTP_FAIL(MTP_E_BUSY, "ranges are already being emitted: stop that first");
    atomic_store(&tool, to);
    if (attached)
        mtp__recorder_emit(MTP_CPU | (record_shapes ? MTP_WITH_SHAPES : 0));
    return MTP_OK;
}

void mtp_emit_stop(void)
{
    mtp__recorder_emit(0);
    atomic_store(&emitting, false);
}

int mtp_tool_push(mtp_tool which, const char *text)
{
    const mtp__tool *to = tool_of(which);
    return to != NULL && text != NULL && to->attach() ? to->push(text) : -1;
}

int mtp_tool_pop(mtp_tool which)
{
    const mtp__tool *to = tool_of(which);
    return to != NULL && to->attach() ? to->pop() : -1;
}

void mtp_tool_mark(mtp_tool which, const char *text)
{
    const mtp__tool *to = tool_of(which);
    if (to != NULL && text != NULL && to->attach())
        to->mark(text);
}
