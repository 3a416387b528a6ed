/* trace/facts.h - what a span is, by the conventions of trace writers: torch's names, numbers and metadata.
 *
 * Each rule is written here once. Queries on a finished trace; no state.
 */
#ifndef MTP_TRACE_FACTS_H
#define MTP_TRACE_FACTS_H
#include <string.h>
#include "trace/trace.h"

#define MTP__STEP_PREFIX "ProfilerStep#"
#define MTP__STEP_KEY "ProfilerStep*"   /* under which steps are summed */
#define MTP__RECORDING_CATEGORY "Trace" /* of "PyTorch Profiler (0)", Kineto's span of the whole recording */
#define MTP__MODULE_PREFIX "nn.Module: "
#define MTP__ENGINE_PREFIX                                                                                   \
    "autograd::engine::evaluate_function: " /* autograd's scope around a backward function */

static inline bool mtp__text_begins(mtp_text text, const char *prefix, size_t length)
{
    return text.length >= length && memcmp(text.bytes, prefix, length) == 0;
}
#define MTP__BEGINS_WITH(text, prefix) mtp__text_begins((text), (prefix), sizeof(prefix) - 1)
#define MTP__EQUALS(text, word) ((text).length == sizeof(word) - 1 && MTP__BEGINS_WITH(text, word))

/* ---------------------------------------------------------------------------------------------- spans */

/* An op or a user's scope, made by torch's record_function: it has its own external id. */
static inline bool mtp__has_external_id(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CPU_OP || t->category[span] == MTP__CATEGORY_USER_ANNOTATION;
}

/* A call of a device's runtime or driver, which may launch work. */
static inline bool mtp__is_runtime_call(const mtp_trace *t, uint32_t span)
{
    return t->category[span] == MTP__CATEGORY_CUDA_RUNTIME || t->category[span] == MTP__CATEGORY_CUDA_DRIVER;
}

/* Two rules: torch goes by the prefix alone, on devices, too; to report times by step, a number is needed. */
bool mtp__is_step(const mtp_trace *t, uint32_t span);
static inline bool mtp__is_numbered_step_name(mtp_text name)
{
    const char *digit = name.bytes + sizeof MTP__STEP_PREFIX - 1;
    return MTP__BEGINS_WITH(name, MTP__STEP_PREFIX) && *digit >= '0' && *digit <= '9';
}
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
bool mtp__is_filtered(mtp_text name); /* is it one of them? */

/* ---------------------------------------------------------------------------------------------- the trace */

/* The file is torch's, and is read as torch reads it: in floating point, with its treatment of times and
 * threads. One of our recordings (it has a ledger), exported and read back, stays exact. */
static inline bool mtp__is_torchs(const mtp_trace *t)
{
    return !mtp__is_recording(t) && !t->has_ledger;
}

/* One of our recordings, or what we exported of one, whether it was stopped or not. */
static inline bool mtp__is_ours(const mtp_trace *t)
{
    return mtp__is_recording(t) || t->has_ledger || t->made_window;
}

/* Metadata as torch writes it, "with_flops": 1; our own traces have flags. */
bool mtp__was_recorded(const mtp_trace *t, uint32_t flag, const char *key);
/* torch's time zero, when the profiler started: the span "PyTorch Profiler (0)". */
int64_t mtp__zero_of(const mtp_trace *t);

/* c10::DeviceType */
enum {
    MTP__DEVICE_CPU = 0,
    MTP__DEVICE_CUDA = 1,
    MTP__DEVICE_MKLDNN = 2,
    MTP__DEVICE_IDEEP = 5,
    MTP__DEVICE_HIP = 6,
    MTP__DEVICE_XPU = 12,
    MTP__DEVICE_NPU = 20 /* PrivateUse1 */
};
/* That of the trace's device work. */
uint16_t mtp__device_type(const mtp_trace *t);
#endif
