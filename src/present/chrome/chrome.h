/* present/chrome/chrome.h - shared by the parts of the Chrome/Kineto writer. The contract is
 * docs/trace-format.md.
 *
 *     lanes.c      which row each span is on, so that rows are nested and at most 512 deep
 *     rows.c       the pid and tid of each row, and the events that name them
 *     links.c      flows, each tied to its span
 *     launches.c   runtime calls under the names that readers recognise
 *     events.c     the events themselves: the hot part
 *     head.c       what comes before the events
 *     chrome.c     the whole file: merges the tracks by time
 *
 * Traces are immutable, so only the writer itself has state: one thread writes one file.
 */
#ifndef MTP_PRESENT_CHROME_CHROME_H
#define MTP_PRESENT_CHROME_CHROME_H
#include "base/json_out.h"
#include "base/pair_map.h"
#include "trace/trace.h"

#define MTP__LEVELS_MAX 512u

/* A row: a track, or an extra one for spans that do not nest there. */
typedef struct mtp__lane {
    uint32_t track;
    uint32_t number; /* 1: the track's own; 2, 3 ...: extra ones */
    uint32_t pid, tid;
    uint32_t length;
    char text[64]; /* `, "pid": 1, "tid": 2, "ts": ` */
} mtp__lane;

typedef struct mtp__link { /* one flow event */
    uint32_t span, order;
    uint64_t id;
    uint32_t name; /* text; 0: by kind */
    uint8_t kind;  /* mtp__link_kind */
    char phase;    /* s, t, f */
} mtp__link;
typedef enum mtp__link_kind {
    MTP__LINK_NAMED,
    MTP__LINK_AC2G,
    MTP__LINK_FWDBWD
} mtp__link_kind;

typedef struct mtp__process_row {
    int64_t pid; /* in the trace */
    uint32_t pid_text;
    bool on_device;
    uint32_t out_pid;
    uint32_t first_tid; /* of one of its rows */
} mtp__process_row;

typedef struct mtp__quoted { /* a text as a JSON string, in the arena */
    uint32_t offset, length; /* length 0: not quoted yet; UINT32_MAX: too long to keep */
} mtp__quoted;

/* Several traces in one file, one after the other: what tells them apart. */
typedef struct mtp__chrome_job { /* {0} at first, but for base_ns */
    int64_t base_ns;
    int64_t rank;       /* of the trace that is written */
    mtp__pair_map pids; /* in use in the file */
    uint32_t next_pid;  /* 0: none was given yet */
    uint64_t ids;       /* all ids so far are lower */
    uint64_t events;    /* so far */
} mtp__chrome_job;
/* The events of one of them. */
mtp_status mtp__chrome_part(const mtp_trace *trace, const mtp_export_options *options, mtp__chrome_job *job,
                            mtp_sink *sink, void *user);

typedef struct mtp__chrome {
    const mtp_trace *t;   /* borrowed */
    mtp__chrome_job *job; /* borrowed; NULL: the trace is the whole file */
    uint64_t ids;         /* added to ids, which other traces in the file have too */
    mtp_export_options options;
    mtp__out out;

    int64_t shift; /* written ts = ts - shift */
    int64_t base_ns;

    mtp__lane *lanes; /* owned: of track 0, 1, ... in order */
    uint32_t lane_count;
    uint32_t *first_lane;   /* owned: per track, plus one */
    uint32_t *lane_of;      /* owned: per span, relative to its track's first; NULL: always 0 */
    mtp__process_row *rows; /* owned */
    uint32_t row_count;
    mtp__lane window; /* for Kineto's events about the recording; tid 0: none */

    mtp__link *links; /* owned: by span */
    uint32_t link_count, link_room;
    uint64_t fwdbwd; /* flows of this kind so far: their ids */
    uint64_t flows_dropped, bad_counters;

    mtp__pair_map works;       /* correlation -> category of the work, if the trace has runtime calls */
    uint64_t next_correlation; /* for runtime calls without one */
    bool has_calls;

    mtp__quoted *quoted; /* owned: by text id */
    char *arena;         /* owned */
    size_t arena_used, arena_room;
    char scratch[8192];

    uint32_t step; /* the current step */
    uint64_t events, events_total;
    bool whole;   /* microseconds */
    bool plain;   /* spans without detail have a recording's args */
    bool renamed; /* some text is shown under another name */

    mtp__pair_map metas;     /* key -> its last value */
    mtp__pair_map processes; /* (pid, text) -> process of the trace */
} mtp__chrome;

/* lanes.c. lane_of is allocated only if a track needs it; lanes[k] is the number of lanes of track k. */
mtp_status mtp__chrome_lanes(const mtp_trace *t, uint32_t *lanes, uint32_t **lane_of);

/* rows.c */
mtp_status mtp__chrome_rows(mtp__chrome *w);
void mtp__chrome_row_events(mtp__chrome *w, uint64_t ts);

/* links.c */
mtp_status mtp__chrome_links(mtp__chrome *w);
uint32_t mtp__chrome_first_link(const mtp__chrome *w, uint32_t span); /* of the first span from this on */

/* launches.c */
mtp_status mtp__chrome_launches(mtp__chrome *w);
const char *mtp__chrome_call_name(const mtp__chrome *w,
                                  uint32_t span); /* CUDA's name, quoted; NULL: readers know the span's own */
uint64_t mtp__chrome_call_correlation(mtp__chrome *w, uint32_t span); /* the span's, or a new one; 0: none */

/* head.c */
mtp_status mtp__chrome_head_prepare(mtp__chrome *w);
void mtp__chrome_head(mtp__chrome *w);
void mtp__chrome_tail(mtp__chrome *w);
void mtp__chrome_json(mtp__out *o, const char *json,
                      size_t length); /* the same value, with a space after : and , */
void mtp__chrome_metadata(mtp__chrome *w,
                          const char *separator); /* "key": value, ... for all but the reserved keys */

/* events.c. ts and dur as written: nanoseconds, or whole microseconds. */
void mtp__chrome_span(mtp__chrome *w, const mtp__lane *lane, uint32_t span, uint64_t ts, uint64_t dur);
void mtp__chrome_link(mtp__chrome *w, const mtp__lane *lane, const mtp__link *link, uint64_t ts);
void mtp__chrome_memory(mtp__chrome *w, uint32_t index, uint64_t ts);
void mtp__chrome_instant(mtp__chrome *w, uint32_t index, uint64_t ts);
void mtp__chrome_window(mtp__chrome *w, uint32_t index, uint64_t ts,
                        uint64_t dur);                /* 0: the span; 1, 2: marks */
void mtp__chrome_text(mtp__chrome *w, uint32_t text); /* as a JSON string */

static inline uint64_t mtp__chrome_ts(const mtp__chrome *w, int64_t at)
{
    uint64_t ns = (uint64_t)at - (uint64_t)w->shift;
    return w->whole ? ns / 1000 : ns;
}

static inline char *mtp__chrome_put_time(const mtp__chrome *w, char *p, uint64_t time)
{
    return w->whole ? mtp__put_u64(p, time) : mtp__put_milli(p, time);
}

/* The separator between events; none before the first. */
static inline char *mtp__chrome_put_comma(mtp__chrome *w, char *p)
{
    if (__builtin_expect(w->events++ > 0, 1))
        *p++ = ',';
    *p = '\n';
    return p + 1;
}
#endif
