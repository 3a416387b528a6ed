/* trace/facts.h - what a span is, by the rules of those who write traces: torch's names, numbers and metadata.
 *
 * Each rule stands here once. A finished trace is asked; nothing is kept.
 */
#ifndef MTP_TRACE_FACTS_H
#define MTP_TRACE_FACTS_H
#include <string.h>
#include "trace/trace.h"

#define MTP__STEP_PREFIX "ProfilerStep#"
#define MTP__MODULE_PREFIX "nn.Module: "
#define MTP__ENGINE_PREFIX                                                                                   \
    "autograd::engine::evaluate_function: " /* autograd's scope around a backward function */

static inline bool mtp__text_begins(mtp_text text, const char *prefix, size_t length)
{
    return text.length >= length && memcmp(text.bytes, prefix, length) == 0;
}
#define MTP__BEGINS_WITH(text, prefix) mtp__text_begins((text), (prefix), sizeof(prefix) - 1)

/* ---------------------------------------------------------------------------------------------- spans */

/* What torch's record_function made, an op or a scope of the user's: it has an external id of its own. */
static inline bool mtp__is_call(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CPU_OP || t->category[span] == MTP__CATEGORY_USER_ANNOTATION;
}

bool mtp__is_step(const mtp_trace *t, uint32_t span);   /* on a device, too */
bool mtp__is_module(const mtp_trace *t, uint32_t span); /* the call of an nn.Module */
bool mtp__is_engine_scope(const mtp_trace *t, uint32_t span);
/* A backward function: one that was recorded as such, that names its forward op, or that the engine's scope around it is
 * named after (AccumulateGrad has no forward op). */
bool mtp__is_backward(const mtp_trace *t, uint32_t span);
/* The same or the engine's scope around it: both have the number of the forward op. */
static inline bool mtp__is_of_backward(const mtp_trace *t, uint32_t span)
{
    return (t->flags[span] & MTP__SPAN_BACKWARD) != 0 || mtp__trace_detail(t, span)->forward_thread != 0;
}

/* Utility ops that torch never shows, NULL at the end. "[memory]" and "[OutOfMemory]" are events in a way of their own. */
extern const char *const mtp__filtered_names[];

/* ---------------------------------------------------------------------------------------------- the trace */

/* The file is torch's, and read as torch reads it: in floating point, with what it does to times and threads. A
 * recording of ours (it has a ledger) that was written and read again is what it was. */
static inline bool mtp__is_torchs(const mtp_trace *t)
{
    return t->from_kineto && !t->has_ledger;
}

/* Metadata as torch writes it, "with_flops": 1; our own traces have flags. */
bool mtp__was_recorded(const mtp_trace *t, uint32_t flag, const char *key);
/* torch counts from the moment the profiler started: the span "PyTorch Profiler (0)". */
int64_t mtp__zero_of(const mtp_trace *t);

/* c10::DeviceType of the trace's device work. */
enum {
    MTP__DEVICE_CUDA = 1,
    MTP__DEVICE_XPU = 12,
    MTP__DEVICE_NPU = 20
};
uint16_t mtp__device_type(const mtp_trace *t);
#endif
