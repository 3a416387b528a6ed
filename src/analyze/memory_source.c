/* analyze/memory_source.c - which op a block was allocated for, and which source line called it. */
#include <string.h>
#include "analyze/torch/rules.h"
#include "analyze/memory.h"
#include "base/error.h"

/* Ops that only allocate: the block is for their caller. */
static bool only_allocates(mtp_text name)
{
    static const char *const starts[] = {"aten::empty", "aten::new_empty", "aten::_empty", "aten::resize_"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(name.bytes, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

uint32_t mtp__memory_maker(const mtp_trace *t, uint32_t span)
{
    while (span != MTP__NONE && t->category[span] == MTP__CATEGORY_CPU_OP &&
           only_allocates(mtp__trace_get_text(t, t->name[span]))) {
        uint32_t up = t->parent[span];
        while (up != MTP__NONE && t->category[up] == MTP__CATEGORY_PYTHON_FUNCTION &&
               strncmp(mtp__trace_get_text(t, t->name[up]).bytes, "<built-in", 9) == 0)
            up = t->parent[up];
        if (up == MTP__NONE || t->category[up] != MTP__CATEGORY_CPU_OP)
            break; /* called by the program directly */
        span = up;
    }
    return span;
}

/* ------------------------------------------------------------------------------------------------- source */

static bool has_functions(const mtp_trace *t)
{
    for (uint32_t i = 0; i < t->span_count; i++)
        if (t->category[i] == MTP__CATEGORY_PYTHON_FUNCTION)
            return true;
    return false;
}

mtp_status mtp__sources_init(mtp__sources *s, const mtp_trace *t)
{
    mtp__scratch stacks = {0};
    *s = (mtp__sources){.t = t};
    mtp_status status = t->stack_count > 1 || has_functions(t) ? mtp__stacks_of(t, true, &stacks) : MTP_OK;
    s->stacks = stacks.p;
    s->bytes = stacks.bytes;
    return status;
}

void mtp__sources_fini(mtp__sources *s)
{
    mtp__scratch stacks = {.p = s->stacks, .bytes = s->bytes};
    mtp__scratch_free(&stacks);
}

/* Part of the framework, not of the program: "torch/nn/modules/linear.py(130): forward", "<built-in ...",
 * "nn.Module: ..." */
bool mtp__of_framework(mtp_text frame)
{
    static const char *const starts[] = {"<built-in", "nn.Module: ", "torch/", "mindtorch_v2/"};
    static const char *const parts[] = {"/torch/", "/mindtorch_v2/", "libmtprof", "libmindtorch",
                                        "_C.cpython"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(frame.bytes, starts[i], strlen(starts[i])) == 0)
            return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(frame.bytes, parts[i]) != NULL)
            return true;
    return false;
}

/* The innermost line of the program, or if none, the innermost of all. */
mtp_text mtp__source_of(const mtp__sources *s, uint32_t span)
{
    mtp_text first = {"", 0};
    mtp__frames f = mtp__frames_of(s->t, true, s->stacks != NULL && span != MTP__NONE ? s->stacks[span] : 0);
    for (uint32_t text; mtp__frames_next(&f, &text);) {
        mtp_text frame = mtp__trace_get_text(s->t, text);
        first = first.length == 0 ? frame : first;
        if (!mtp__of_framework(frame))
            return frame;
    }
    return first;
}
