/* trace/records/dictionary.h - the contents of a recording's control stream. For trace/; live/ reads
 * anchors and ledgers with it. */
#ifndef MTP_TRACE_RECORDS_DICTIONARY_H
#define MTP_TRACE_RECORDS_DICTIONARY_H
#include "base/pair_map.h"
#include "record/spool/spool.h"
#include "trace/symbols.h"
#include "trace/records/blob.h"
#include "trace/records/ticks.h"
#include "trace/trace.h"

/* Maps a record's id to the trace's. Ids keep counting as long as a session lasts, and a ring holds only the
 * latest: high ids are stored in pages. */
typedef struct mtp__id_list {
    uint32_t *id; /* owned: the lowest */
    uint32_t room;
    mtp__pair_map pages; /* page number -> its ids, owned */
} mtp__id_list;
#define MTP__ID_PAGE 256u

typedef struct mtp__stream_info {
    uint32_t stream, tid, name; /* name: text */
} mtp__stream_info;

typedef struct mtp__device_text {
    uint32_t device, name, json; /* name, json: text */
} mtp__device_text;

typedef struct mtp__cycle_stop {
    uint32_t cycle;
    uint64_t ticks;
} mtp__cycle_stop;

/* For one of several recordings that become one trace (trace/join.h): where it goes. */
typedef struct mtp__placing {
    uint32_t part;              /* its number; 0: the main process */
    uint32_t pid_text;          /* text: sets it apart from an earlier one with the same pid; 0: none */
    uint32_t label;             /* text: the process's name in the trace; 0: unknown */
    const mtp__tick_line *line; /* borrowed: ticks to ns for all of them; NULL: its own anchors, and ... */
    int64_t zero_ns;            /* ... this time of its CLOCK_MONOTONIC is ts 0 */
    mtp__symbols *symbols;      /* borrowed: the modules looked up for earlier ones */
} mtp__placing;

typedef struct mtp__dictionary {
    mtp_trace *trace;
    const mtp__placing *placing; /* borrowed; NULL: it is the whole trace */
    bool glance;                 /* only the process, its rank and the clock are wanted */
    int64_t rank;                /* after a glance: in a job of several; -1: of none, or unknown */
    uint64_t boot[2];            /* of the kernel; 0: unknown */
    uint64_t clock;              /* MTP__CLOCK_* */
    mtp__id_list names, session_names, shapes, frames, stacks, texts;
    mtp__tick_line line;
    double ticks_per_ns;
    mtp__stream_info *streams; /* owned */
    uint32_t stream_count;
    mtp__device_text *devices; /* owned; sorted by device */
    uint32_t device_count;
    mtp__cycle_stop *stops; /* owned; in order of writing, which is that of cycles */
    uint32_t stop_count;
    uint32_t metadata_seen; /* ids up to this one have been added to the trace */
    bool second_pass;       /* anchors were read in the first; now everything else */
    uint64_t last_ticks;    /* of the control stream */
    mtp__blob_parts parts;  /* of a blob that comes in parts */
    mtp__symbols symbols;
} mtp__dictionary;

void mtp__dictionary_fini(mtp__dictionary *d);
void mtp__dictionary_rewind(mtp__dictionary *d); /* restarts the first pass: definitions are kept */
/* Findings about the file itself. nameless: an undefined name is used. */
void mtp__dictionary_report(mtp_trace *t, const mtp__spool_report *report, bool nameless);
mtp_status mtp__dictionary_read(mtp__dictionary *d, const mtp__chunk *chunk, const uint64_t *words,
                                uint32_t count);

/* Records of the control stream, less their first two words. false: not a ledger. */
bool mtp__ledger_read(mtp_ledger *ledger, const uint64_t *words, uint32_t count);
/* written: when the record was, in ticks. count: at least 3. An impossible one is counted as a fault. false: out of memory. */
bool mtp__anchor_read(mtp__tick_line *line, const uint64_t *words, uint32_t count, uint64_t written);

uint32_t mtp__id_get_far(const mtp__id_list *list, uint32_t id);
/* The trace's id for a record's; 0: not defined (yet). */
static inline uint32_t mtp__id_get(const mtp__id_list *list, uint32_t id)
{
    return __builtin_expect(id < list->room, 1) ? list->id[id] : mtp__id_get_far(list, id);
}
static inline uint32_t mtp__dictionary_name(const mtp__dictionary *d, uint32_t id)
{
    return (id & 0x80000000u) != 0 ? mtp__id_get(&d->session_names, id & 0x7fffffffu)
                                   : mtp__id_get(&d->names, id);
}
const mtp__stream_info *mtp__dictionary_stream(const mtp__dictionary *d, uint32_t stream);
uint64_t mtp__dictionary_stop(const mtp__dictionary *d, uint32_t cycle); /* 0: not stopped */
void mtp__dictionary_add_process(mtp__dictionary *d); /* adds the recorded process to the trace */
/* Fills in from the file's header what the control stream lacks because it is damaged, or its writer died
 * first. */
void mtp__dictionary_complete(mtp__dictionary *d, const mtp__spool_header *header);
#endif
