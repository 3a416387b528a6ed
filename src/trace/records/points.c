/* trace/records/points.c - records of what happens at a moment: memory, marks, counters, steps, device work. */
#include <string.h>
#include "record/format.h"
#include "trace/facts.h"
#include "trace/records/reader.h"

static void device_of(uint32_t device, uint16_t *type, int16_t *index)
{
    *type = MTP_DEVICE_TYPE(device) == 0 ? 0 : MTP__DEVICE_NPU;
    *index = MTP_DEVICE_TYPE(device) == 0 ? -1 : (int16_t)MTP_DEVICE_INDEX(device);
}

static void read_memory(mtp__reader *r, const uint64_t *w, uint64_t ticks, unsigned kind)
{
    uint16_t type;
    int16_t index;
    device_of((uint32_t)(w[1] >> 48), &type, &index);
    int64_t ts = mtp__ticks_to_ns(&r->dict.line, ticks);
    ts += ts == r->closed_ns; /* it came after: an event at the end's own time would count as inside */
    if (kind == MTP__KIND_TAG || (kind == MTP__KIND_EXISTING && (int64_t)w[3] > 0)) {
        mtp__tag item = {.ts = ts,
                         .address = w[2],
                         .device_type = type,
                         .device_index = index,
                         .category = (uint32_t)w[1] & 0xff,
                         .track = r->track,
                         .bytes = kind == MTP__KIND_EXISTING ? (int64_t)w[3] : 0};
        mtp__trace_add_tag(r->t, &item);
    } else if (kind == MTP__KIND_MEMORY) {
        mtp__memory item = {.ts = ts,
                            .address = w[2],
                            .bytes = (int64_t)w[3],
                            .total_allocated = (int64_t)w[4],
                            .total_reserved = (int64_t)w[5],
                            .track = r->track,
                            .device_type = type,
                            .device_index = index};
        mtp__trace_add_memory(r->t, &item);
    }
}

void mtp__read_point(mtp__reader *r, unsigned kind, const uint64_t *w, uint32_t words, uint64_t ticks)
{
    if (kind == MTP__KIND_MEMORY || kind == MTP__KIND_TAG || kind == MTP__KIND_EXISTING) {
        read_memory(r, w, ticks, kind);
    } else if (kind == MTP__KIND_DEVICE) {
        mtp__device_keep_work(&r->devices, r->t, w, words);
    } else if (kind == MTP__KIND_DEVICE_CLOCK) {
        mtp__device_keep_clock(&r->devices, r->t, w);
    } else if (kind == MTP__KIND_STEP) {
        mtp__marked_step item = {ticks, w[1]};
        MTP__KEEP(r, marks, mark_count, &item);
    } else if (kind == MTP__KIND_MARK || kind == MTP__KIND_COUNTER) {
        mtp__instant item = {.ts = mtp__ticks_to_ns(&r->dict.line, ticks), .track = r->track, .scope = 't'};
        item.name = mtp__dictionary_name(&r->dict, (uint32_t)w[1]);
        item.is_counter = kind == MTP__KIND_COUNTER;
        if (item.is_counter)
            memcpy(&item.value, &w[2], sizeof item.value);
        mtp__trace_add_instant(r->t, &item);
    }
}
