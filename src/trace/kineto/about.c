/* trace/kineto/about.c - what a file that we wrote says about its recording. "mtprof": the ledger and
 * repaired faults; "mtprofMemory": categories of memory blocks; "mtprofSteps": steps that no scope shows. */
#include <string.h>
#include "trace/kineto/reader.h"

static bool is(const mtp__json_string *key, const char *name)
{
    return key->length == strlen(name) && memcmp(key->bytes, name, key->length) == 0;
}

static bool whole(const mtp__json_value *v, uint64_t *out)
{
    return v->kind == 0 && mtp__decimal_unsigned(&v->number, out);
}

static void read_causes(mtp__kineto *k, const mtp__json_value *object, mtp_ledger *ledger)
{
    static const char *const cause[] = {
#define X(sym, value, text) [value] = #sym,
        MTP_DROP_LIST(X)
#undef X
    };
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object->bytes + 1;
    while (mtp__json_member(&k->json, &p, &key, &v))
        for (size_t i = 0; i < sizeof cause / sizeof *cause; i++)
            if (is(&key, cause[i]))
                whole(&v, &ledger->dropped_by[i]);
}

static void read_ledger(mtp__kineto *k, const mtp__json_value *object)
{
    mtp_ledger ledger = MTP_LEDGER_INIT;
    bool emitted = false, kept = false;
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object->bytes + 1;
    while (mtp__json_member(&k->json, &p, &key, &v)) {
        if (is(&key, "emitted"))
            emitted = whole(&v, &ledger.emitted);
        else if (is(&key, "kept"))
            kept = whole(&v, &ledger.kept);
        else if (is(&key, "dropped"))
            whole(&v, &ledger.dropped);
        else if (is(&key, "lost_definitions"))
            whole(&v, &ledger.lost_definitions);
        else if (is(&key, "dropped_by") && v.kind == '{')
            read_causes(k, &v, &ledger);
    }
    if (emitted && kept) {
        k->trace->has_ledger = true;
        k->trace->ledger = ledger;
    }
}

/* Unfinished spans are marked individually. */
void mtp__kineto_about(mtp__kineto *k, const mtp__json_value *object)
{
    const struct {
        const char *key;
        uint64_t *count;
    } counts[] = {{"unmatched_ends", &k->trace->unmatched_ends},
                  {"clock_faults", &k->trace->clock_faults},
                  {"damaged_chunks", &k->trace->damaged_chunks},
                  {"missing_chunks", &k->trace->missing_chunks},
                  {"bad_durations", &k->trace->bad_durations},
                  {"skipped_events", &k->trace->skipped_events},
                  {"chunks", &k->trace->chunks}};
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object->bytes + 1;
    while (object->kind == '{' && mtp__json_member(&k->json, &p, &key, &v)) {
        uint64_t value = 0;
        if (is(&key, "ledger") && v.kind == '{')
            read_ledger(k, &v);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            if (is(&key, counts[i].key) && whole(&v, &value))
                *counts[i].count += value;
    }
}

/* Reads at most `room` numbers of an array and returns how many. */
static size_t read_numbers(mtp__kineto *k, const mtp__json_value *array, mtp__decimal *out, size_t room)
{
    const char *p = array->bytes + 1;
    size_t count = 0;
    for (p = mtp__json_space(p); *p != ']' && count < room; p = mtp__json_space(p + 1)) {
        mtp__json_value v;
        p = mtp__json_read(&k->json, p, &v);
        if (p == NULL || v.kind != 0)
            return 0;
        out[count++] = v.number;
        p = mtp__json_space(p);
        if (*p == ']')
            break;
    }
    return count;
}

/* Any track of the process: the events come first. */
static uint32_t track_of_process(const mtp_trace *t, int64_t pid)
{
    for (uint32_t i = 0; i < t->track_count; i++)
        if (t->tracks[i].pid == pid && t->tracks[i].pid_text == 0 && !t->tracks[i].on_device)
            return i;
    return MTP__NONE;
}

void mtp__kineto_memory_row(mtp__kineto *k, const mtp__json_value *row)
{
    mtp__decimal n[7];
    mtp__tag tag = {.track = MTP__NONE};
    uint64_t type, category;
    int64_t index, pid;
    size_t count = row->kind == '[' ? read_numbers(k, row, n, 7) : 0;
    if (count < 6 || !mtp__decimal_round(&n[0], 3, &tag.ts) || !mtp__decimal_unsigned(&n[1], &tag.address) ||
        !mtp__decimal_unsigned(&n[2], &type) || type > UINT16_MAX || !mtp__decimal_signed(&n[3], &index) ||
        index < -1 || index > INT16_MAX || !mtp__decimal_unsigned(&n[4], &category) ||
        category >= MTP_MEMORY_CATEGORIES || !mtp__decimal_signed(&n[5], &tag.bytes) || tag.bytes < 0)
        return;
    tag.device_type = (uint16_t)type;
    tag.device_index = (int16_t)index;
    tag.category = (uint32_t)category;
    if (count == 7 && mtp__decimal_signed(&n[6], &pid))
        tag.track = track_of_process(k->trace, pid);
    mtp__trace_add_tag(k->trace, &tag);
}

void mtp__kineto_step_row(mtp__kineto *k, const mtp__json_value *row)
{
    mtp__decimal n[3];
    mtp__step step;
    if (!k->has_step_scopes && row->kind == '[' && read_numbers(k, row, n, 3) == 3 &&
        mtp__decimal_signed(&n[0], &step.number) && mtp__decimal_round(&n[1], 3, &step.start) &&
        mtp__decimal_round(&n[2], 3, &step.end) && step.start <= step.end)
        mtp__trace_add_step(k->trace, &step);
}
