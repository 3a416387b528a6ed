/* trace/build.h - what a trace has only while it is being built. For the room trace alone. */
#ifndef MTP_TRACE_BUILD_H
#define MTP_TRACE_BUILD_H
#include "trace/trace.h"

typedef struct mtp__trace_builder {
    mtp__span_memory spans;
    bool out_of_memory; /* latched by any add; told by finish() */
    /* The reader vouches: spans were added track by track, each in order, with the tracks' ranges, the parents (in the
     * TRACK column) and the trace's extent filled in. */
    bool vouched;
} mtp__trace_builder;

/* Of a reader that vouches: puts a track's spans, whose ends are known, into the order of the model, and nests them as
 * finish() does. false: out of memory, which is latched. */
bool mtp__trace_nest_track(mtp_trace *t, const mtp__track *track);

/* The same: of what threads recorded, from their first span or instant to the end. */
void mtp__trace_extent_by_tracks(mtp_trace *t, int64_t end);

#define COLUMN(c, which, type) ((type *)(c)->column[MTP__COLUMN_##which])

/* Room for so many spans; a hint that saves growing. */
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
#define LIST(t, name) (void **)(void *)&(t)->name, &(t)->MTP__LIST_COUNT_##name, sizeof *(t)->name
uint32_t mtp__list_add(mtp_trace *t, void **list, uint32_t *count, size_t size, const void *item);

bool mtp__trace_reserve_ahead(mtp_trace *t,
                              uint64_t more); /* so many beyond those there are, growing by doubling */

/* Metadata whose value is text: it is made a JSON string. set: replaces what has the key. */
void mtp__trace_add_meta_text(mtp_trace *t, const char *key, size_t key_length, const char *text,
                              size_t length);
void mtp__trace_set_meta_text(mtp_trace *t, const char *key, const char *text, size_t length);
/* The text id as a member of an args object: "args": "...". 0 for 0. */
uint32_t mtp__trace_args_text(mtp_trace *t, uint32_t text);

/* link.c: device work to what launched it. */
mtp_status mtp__trace_link(mtp_trace *t);
#endif
