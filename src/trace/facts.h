/* trace/facts.h - what a span is, by the conventions of trace writers: torch's names, numbers and metadata.
 *
 * Each rule is written here once. Queries on a finished trace; no state.
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

/* Made by torch's record_function, an op or a user's scope: it has its own external id. */
static inline bool mtp__is_call(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CPU_OP || t->category[span] == MTP__CATEGORY_USER_ANNOTATION;
}

bool mtp__is_step(const mtp_trace *t, uint32_t span);   /* on a device, too */
bool mtp__is_module(const mtp_trace *t, uint32_t span); /* the call of an nn.Module */
bool mtp__is_engine_scope(const mtp_trace *t, uint32_t span);
/* A backward function: recorded as one, naming its forward op, or named by the engine scope around it
 * (AccumulateGrad has no forward op). */
bool mtp__is_backward(const mtp_trace *t, uint32_t span);
/* A backward function or the engine scope around it: both carry the sequence number of the forward op. */
static inline bool mtp__is_of_backward(const mtp_trace *t, uint32_t span)
{
    return (t->flags[span] & MTP__SPAN_BACKWARD) != 0 || mtp__trace_detail(t, span)->forward_thread != 0;
}

/* Utility ops that torch never shows, NULL-terminated. "[memory]" and "[OutOfMemory]" are special events. */
extern const char *const mtp__filtered_names[];

/* ---------------------------------------------------------------------------------------------- the trace */

/* The file is torch's, and is read as torch reads it: in floating point, with its treatment of times and
 * threads. One of our recordings (it has a ledger), exported and read back, stays exact. */
static inline bool mtp__is_torchs(const mtp_trace *t)
{
    return !mtp__is_recording(t) && !t->has_ledger;
}

/* Metadata as torch writes it, "with_flops": 1; our own traces have flags. */
bool mtp__was_recorded(const mtp_trace *t, uint32_t flag, const char *key);
/* torch's time zero, when the profiler started: the span "PyTorch Profiler (0)". */
int64_t mtp__zero_of(const mtp_trace *t);

/* c10::DeviceType of the trace's device work. */
enum {
    MTP__DEVICE_CUDA = 1,
    MTP__DEVICE_XPU = 12,
    MTP__DEVICE_NPU = 20
};
uint16_t mtp__device_type(const mtp_trace *t);
#endif
