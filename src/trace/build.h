/* trace/build.h - the state of a trace under construction. Private to trace/. */
#ifndef MTP_TRACE_BUILD_H
#define MTP_TRACE_BUILD_H
#include "trace/trace.h"

typedef struct mtp__trace_builder {
    mtp__span_memory spans;
    bool out_of_memory; /* latched by any add; reported by finish() */
    /* The reader guarantees: spans were added track by track, each in order, and the tracks' ranges, the
     * parents (in the TRACK column) and the trace's extent are filled in. */
    bool in_order;
    /* Several recordings are added one after the other (join.h): where the one being read begins. */
    struct {
        uint32_t spans, tracks, memory, instants, details, tensors, tags;
    } from;
} mtp__trace_builder;

/* For a reader that sets in_order: sorts the spans of a track, whose ends are known, into the order of the
 * model and nests them as finish() does. false: out of memory, which is latched. */
bool mtp__trace_nest_track(mtp_trace *t, const mtp__track *track);

/* For such a reader: the extent of what threads recorded, from the first span or instant to `end`. */
void mtp__trace_extent_by_tracks(mtp_trace *t, int64_t end);

#define COLUMN(c, which, type) ((type *)(c)->column[MTP__COLUMN_##which])

/* Reserves memory for this many spans; a hint that avoids growing. */
bool mtp__trace_reserve_spans(mtp_trace *t, uint64_t count);

/* LIST(t, tracks): the list, its count and the size of an item, for mtp__list_add. */
#define MTP__LIST_COUNT_details detail_count
#define MTP__LIST_COUNT_shapes shape_count
#define MTP__LIST_COUNT_stacks stack_count
#define MTP__LIST_COUNT_tracks track_count
#define MTP__LIST_COUNT_processes process_count
#define MTP__LIST_COUNT_memory memory_count
#define MTP__LIST_COUNT_tags tag_count
#define MTP__LIST_COUNT_instants instant_count
#define MTP__LIST_COUNT_flows flow_count
#define MTP__LIST_COUNT_metadata metadata_count
#define MTP__LIST_COUNT_steps step_count
#define MTP__LIST_COUNT_clocks clock_count
#define MTP__LIST_COUNT_tensors tensor_count
#define MTP__LIST_COUNT_held held_count
#define MTP__LIST_COUNT_recordings recording_count
#define LIST(t, name) (void **)(void *)&(t)->name, &(t)->MTP__LIST_COUNT_##name, sizeof *(t)->name
uint32_t mtp__list_add(mtp_trace *t, void **list, uint32_t *count, size_t size, const void *item);

bool mtp__trace_reserve_ahead(mtp_trace *t, uint64_t more); /* beyond those present, growing by doubling */

/* Metadata with a text value, stored as a JSON string. set: replaces an existing entry for the key. */
void mtp__trace_add_meta_text(mtp_trace *t, const char *key, size_t key_length, const char *text,
                              size_t length);
void mtp__trace_set_meta_text(mtp_trace *t, const char *key, const char *text, size_t length);
/* The text as a member of an args object: "args": "...". 0 for 0. */
uint32_t mtp__trace_args_text(mtp_trace *t, uint32_t text,
                              int64_t *sequence); /* sequence: -1 if it is shown in the args */

/* link.c: links device work to what launched it. */
mtp_status mtp__trace_link(mtp_trace *t);
#endif
