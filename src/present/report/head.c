/* present/report/head.c - what the page shows first: the trace's size, its rows, steps, losses and metadata; and the
 * labels of its spans. */
#include <string.h>
#include "base/error.h"
#include "present/chrome/chrome.h"
#include "present/report/report.h"

static void put_text(mtp__out *o, const char *key, const char *text, size_t length)
{
    mtp__out_text(o, key);
    mtp__out_string(o, text, length);
}

static void put_id(mtp__out *o, const char *key, const mtp_trace *t, uint32_t text)
{
    mtp_text bytes = mtp__trace_get_text(t, text);
    put_text(o, key, bytes.bytes, bytes.length);
}

static void put_number(mtp__out *o, const char *key, int64_t value)
{
    mtp__out_text(o, key);
    mtp__out_i64(o, value);
}

/* Beyond 2^53: as a string. */
static void put_large(mtp__out *o, const char *key, int64_t value)
{
    mtp__out_text(o, key);
    MTP__OUT(o, "\"");
    mtp__out_i64(o, value);
    MTP__OUT(o, "\"");
}

static const mtp__process *process_of(const mtp_trace *t, const mtp__track *track)
{
    for (uint32_t i = 0; i < t->process_count; i++)
        if (t->processes[i].pid == track->pid && t->processes[i].pid_text == track->pid_text &&
            (t->processes[i].on_device == track->on_device || !mtp__is_recording(t)))
            return &t->processes[i];
    return NULL;
}

static void put_row(mtp__out *o, const mtp__plan *p, const mtp__report_row *row)
{
    const mtp_trace *t = p->t;
    const mtp__track *track = &t->tracks[row->track];
    const mtp__process *process = process_of(t, track);
    put_number(o, "{\"track\": ", row->track);
    put_number(o, ", \"lane\": ", row->lane);
    put_number(o, ", \"count\": ", row->count);
    put_number(o, ", \"depth\": ", row->depth);
    mtp__out_text(o, track->on_device ? ", \"device\": true" : ", \"device\": false");
    put_id(o, ", \"name\": ", t, track->name);
    if (track->pid_text != 0)
        put_id(o, ", \"pid\": ", t, track->pid_text);
    else
        put_large(o, ", \"pid\": ", track->pid);
    if (track->tid_text != 0)
        put_id(o, ", \"tid\": ", t, track->tid_text);
    else
        put_large(o, ", \"tid\": ", track->tid);
    put_id(o, ", \"process\": ", t, process != NULL ? process->name : 0);
    put_id(o, ", \"labels\": ", t, process != NULL ? process->labels : 0);
    if (track->sort_index != INT64_MIN)
        put_number(o, ", \"sort\": ", track->sort_index);
    if (process != NULL && process->sort_index != INT64_MIN)
        put_number(o, ", \"processSort\": ", process->sort_index);
    MTP__OUT(o, "}");
}

static void put_losses(mtp__out *o, const mtp_trace_info *i)
{
#define X(key, value) put_number(o, ", \"" key "\": ", (int64_t)(value));
    X("unfinished", i->unfinished)
    X("unmatched_ends", i->unmatched_ends)
    X("clock_faults", i->clock_faults)
    X("damaged_chunks", i->damaged_chunks)
    X("missing_chunks", i->missing_chunks)
    X("skipped_events", i->skipped_events)
    X("bad_durations", i->bad_durations)
    X("clock_uncertain", i->clock_uncertain)
    X("without_times", i->without_times)
#undef X
    put_text(o, ", \"outcome\": ", mtp_outcome_text(i->outcome), strlen(mtp_outcome_text(i->outcome)));
    if (!i->has_ledger)
        return;
    put_number(o, ", \"ledger\": {\"emitted\": ", (int64_t)i->ledger.emitted);
    put_number(o, ", \"kept\": ", (int64_t)i->ledger.kept);
    put_number(o, ", \"dropped\": ", (int64_t)i->ledger.dropped);
    put_number(o, ", \"lost_definitions\": ", (int64_t)i->ledger.lost_definitions);
    MTP__OUT(o, ", \"by\": {");
    for (int k = 0, some = 0; k < MTP_DROP_CAUSES; k++)
        if (i->ledger.dropped_by[k] > 0) {
            const char *cause = mtp_drop_text((mtp_drop)k);
            put_text(o, some++ > 0 ? ", " : "", cause, strlen(cause));
            put_number(o, ": ", (int64_t)i->ledger.dropped_by[k]);
        }
    MTP__OUT(o, "}}");
}

static void put_facts(mtp__out *o, const mtp_trace *t, const mtp_trace_info *i)
{
    put_text(o, ", \"format\": ", mtp_format_text(i->format), strlen(mtp_format_text(i->format)));
    put_large(o, ", \"base_ns\": ", t->base_ns);
    put_large(o, ", \"first_ns\": ", t->first_ns);
    put_number(o, ", \"duration\": ", (int64_t)((uint64_t)t->last_ns - (uint64_t)t->first_ns));
    put_large(o, ", \"pid\": ", (int64_t)t->pid);
    put_id(o, ", \"command\": ", t, t->command);
    put_number(o, ", \"spans\": ", t->span_count);
    put_number(o, ", \"device_spans\": ", (int64_t)i->device_spans);
    put_number(o, ", \"memory_events\": ", t->memory_count);
    put_number(o, ", \"instants\": ", t->instant_count);
    put_number(o, ", \"tracks\": ", t->track_count);
    MTP__OUT(o, ", \"clocks\": [");
    for (uint32_t k = 0; k < t->clock_count; k++) {
        put_number(o, k > 0 ? ", {\"device\": " : "{\"device\": ", t->clocks[k].device);
        put_number(o, ", \"error_ns\": ", (int64_t)t->clocks[k].error_ns);
        put_number(o, ", \"points\": ", t->clocks[k].points);
        MTP__OUT(o, "}");
    }
    MTP__OUT(o, "]");
    put_losses(o, i);
}

static void put_metadata(mtp__out *o, const mtp_trace *t)
{
    MTP__OUT(o, ",\n\"metadata\": [");
    for (uint32_t i = 0; i < t->metadata_count; i++) {
        mtp_text json = mtp__trace_get_text(t, t->metadata[i].json);
        put_id(o, i > 0 ? ",\n[" : "\n[", t, t->metadata[i].key);
        MTP__OUT(o, ", ");
        if (json.length > 0)
            mtp__chrome_json(o, json.bytes, json.length);
        else
            MTP__OUT(o, "null");
        MTP__OUT(o, "]");
    }
    MTP__OUT(o, "]");
}

static mtp_status put_steps(mtp__out *o, const mtp_trace *t)
{
    mtp_steps *steps;
    mtp_status status = mtp_steps_create(t, &steps);
    if (status != MTP_OK)
        return status;
    MTP__OUT(o, ",\n\"steps\": ");
    mtp__out_flush(o);
    status = mtp_steps_json(steps, o->sink, o->user);
    mtp_steps_destroy(steps);
    return status;
}

mtp_status mtp__report_head(const mtp__plan *p, mtp__blob *b, const char *name,
                            const mtp_report_options *options)
{
    mtp__out o;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    mtp_status status = mtp_trace_get_info(p->t, &info);
    if (status == MTP_OK)
        status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    put_text(&o, "{\"mtprof\": ", mtp_version(), strlen(mtp_version()));
    put_text(&o, ", \"name\": ", name, strlen(name));
    put_text(&o, ", \"only\": ", options->only != NULL ? options->only : "",
             options->only != NULL ? strlen(options->only) : 0);
    put_text(&o, ", \"device\": ", options->device != NULL ? options->device : "",
             options->device != NULL ? strlen(options->device) : 0);
    mtp__out_text(&o, options->ranks != NULL && options->only == NULL ? ", \"ranks\": true" : "");
    put_facts(&o, p->t, &info);
    put_number(&o, ", \"shown\": ", p->count);
    put_number(&o, ", \"left_out\": ", p->left_out);
    put_number(&o, ", \"least_ns\": ", p->least_ns);
    MTP__OUT(&o, ",\n\"rows\": [");
    for (uint32_t i = 0; i < p->row_count; i++) {
        mtp__out_text(&o, i > 0 ? ",\n" : "\n");
        put_row(&o, p, &p->rows[i]);
    }
    MTP__OUT(&o, "]");
    put_metadata(&o, p->t);
    status = put_steps(&o, p->t);
    MTP__OUT(&o, "}\n");
    mtp_status written = mtp__out_finish(&o);
    return status != MTP_OK ? status : written;
}

mtp_status mtp__report_labels(const mtp__plan *p, mtp__blob *b)
{
    mtp__out o;
    mtp_status status = mtp__out_init(&o, mtp__blob_sink, b);
    if (status != MTP_OK)
        return status;
    MTP__OUT(&o, "[");
    for (uint32_t i = 0; i < p->label_count; i++) {
        const mtp__label *l = &p->labels[i];
        put_id(&o, i > 0 ? ",\n[" : "\n[", p->t, l->name);
        if (l->category_text != 0) {
            put_id(&o, ", ", p->t, l->category_text);
        } else {
            const char *category = mtp_category_text(l->category);
            put_text(&o, ", ", category, strlen(category));
        }
        mtp__out_text(&o, l->is_module ? ", 1]" : "]");
    }
    MTP__OUT(&o, "]\n");
    return mtp__out_finish(&o);
}
