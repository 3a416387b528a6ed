/* present/chrome/launches.c - runtime calls under the names that other tools recognise.
 *
 * HTA, TraceLens and Chakra recognise a launch by the name of the CUDA call, and ignore all others. So calls
 * of other runtimes are written under the name of the equivalent CUDA call: chosen by the work launched or,
 * without any, by what the call is known to do. `original name` in args has the real name, which our reader
 * restores. Kineto numbers every runtime call, including those that launch nothing; so do we.
 */
#include "base/error.h"
#include "present/chrome/chrome.h"
#include "trace/facts.h"

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool starts(mtp_text name, const char *with, size_t length)
{
    return name.length > length && memcmp(name.bytes, with, length) == 0;
}

/* From a runtime unknown to the readers. In a file written by others, only OpenCL's names certainly are. */
static bool is_foreign(const mtp_trace *t, uint32_t span)
{
    mtp_text name = mtp__trace_get_text(t, t->name[span]);
    if (starts(name, "cl", 2) && is_upper(name.bytes[2]))
        return true;
    if (!mtp__is_recording(t) && mtp__trace_detail(t, span)->device == 0xffff)
        return false;
    return !starts(name, "cuda", 4) && !starts(name, "hip", 3) &&
           !(starts(name, "cu", 2) && is_upper(name.bytes[2]));
}

/* Correlation -> category of the work; a call that launches several kinds counts as a kernel launch. */
static bool note_works(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    for (uint32_t k = 0; k < t->track_count; k++) {
        const mtp__track *track = &t->tracks[k];
        for (uint32_t i = track->first; track->on_device && i < track->first + track->count; i++) {
            uint64_t id = mtp__trace_detail(t, i)->correlation;
            unsigned category = t->category[i];
            bool is_new;
            if (id == 0 || category < MTP__CATEGORY_KERNEL || category > MTP__CATEGORY_GPU_MEMSET)
                continue;
            uint64_t *had = mtp__pair_put(&w->works, id, 0, category, &is_new);
            if (had == NULL)
                return false;
            if (category < *had)
                *had = category;
        }
    }
    return true;
}

mtp_status mtp__chrome_launches(mtp__chrome *w)
{
    const mtp_trace *t = w->t;
    if (w->options.without_args) /* the original name would be lost */
        return MTP_OK;
    for (uint32_t i = 0; i < t->detail_count && mtp__is_recording(t); i++)
        if (t->details[i].correlation >= w->next_correlation)
            w->next_correlation = t->details[i].correlation + 1;
    for (uint32_t i = 0; i < t->span_count && !w->has_calls; i++)
        w->has_calls = mtp__is_runtime_call(t, i);
    return !w->has_calls || note_works(w) ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "the launches of a trace");
}

const char *mtp__chrome_call_name(const mtp__chrome *w, uint32_t span)
{
    const mtp_trace *t = w->t;
    if (!mtp__is_runtime_call(t, span) || !is_foreign(t, span))
        return NULL;
    uint64_t id = mtp__trace_detail(t, span)->correlation;
    const uint64_t *work = id != 0 ? mtp__pair_find(&w->works, id, 0) : NULL;
    if (work != NULL)
        return *work == MTP__CATEGORY_KERNEL       ? "\"cudaLaunchKernel\""
               : *work == MTP__CATEGORY_GPU_MEMCPY ? "\"cudaMemcpyAsync\""
                                                   : "\"cudaMemsetAsync\"";
    mtp_text name = mtp__trace_get_text(t, t->name[span]);
    return MTP__EQUALS(name, "clFinish")          ? "\"cudaStreamSynchronize\""
           : MTP__EQUALS(name, "clWaitForEvents") ? "\"cudaEventSynchronize\""
                                                  : NULL;
}

uint64_t mtp__chrome_call_correlation(mtp__chrome *w, uint32_t span)
{
    uint64_t id = mtp__trace_detail(w->t, span)->correlation;
    return id != 0 || !w->has_calls || !mtp__is_recording(w->t) || !mtp__is_runtime_call(w->t, span)
               ? id
               : w->next_correlation++;
}
