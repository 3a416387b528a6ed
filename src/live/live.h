/* live/live.h - recordings watched while they are written: what is new is read and added to sums, and then forgotten.
 *
 *     live.c       the public calls; the files of a path: those that appear, end, are replaced
 *     source.c     one file: which chunks are new, and their words
 *     names.c      its control stream: names, threads, clock anchors, ledger
 *     records.c    its other streams: open scopes, self times by torch's rules, memory, steps
 *     sums.c       rows, and what of them is recent
 *     process.c    the spools that a process is writing
 *
 * A reading is the sums of one file. While the file is live there is one, which lags behind by what a refresh has no time
 * for. When its recording has ended, a second one is made from the beginning, by record/spool, with all anchors known, and
 * replaces the first when it is complete: times are then exactly those of a trace.
 *
 * Memory: a reading has rows (at most `most`), names (at most TEXT_BYTES), the open scopes of each thread (at most
 * MTP__FRAMES_MAX), and a place for each chunk that was found but not read yet.
 *
 * Threads: one at a time for each mtp_live. The writer is another process, or another thread: see source.c.
 */
#ifndef MTP_LIVE_LIVE_H
#define MTP_LIVE_LIVE_H
#include <mtprof.h>
#include "base/hash_map.h"
#include "base/intern.h"
#include "record/spool/spool.h"
#include "trace/records/blob.h"
#include "trace/records/ticks.h"

#define MTP__FRAMES_MAX 65536u /* open scopes of a thread; deeper ones are counted by their depth only */
#define MTP__LIVE_SLOTS 8u     /* parts of the window */
#define MTP__NO_TEXT 0u
#define MTP__NO_ROW UINT32_MAX
#define MTP__TEXT_FILTERED UINT32_MAX /* torch omits scopes of this name */

/* As analyze/torch groups rows: an op and an annotation of the same name have one each. */
enum {
    MTP__LIVE_CPU,
    MTP__LIVE_ANNOTATION,
    MTP__LIVE_PYTHON,
    MTP__LIVE_DEVICE,
    MTP__LIVE_DEVICE_ANNOTATION,
    MTP__LIVE_CLASSES
};

/* ------------------------------------------------------------------------------------------------------ sums */

typedef struct mtp__live_slot { /* a part of the window */
    int64_t self, total;
    uint32_t count;
    uint32_t number; /* which part of time, from 1, modulo 2^32; 0: none */
} mtp__live_slot;

typedef struct mtp__live_sum {
    uint32_t text;
    uint8_t class, kind; /* kind: mtp_event_kind */
    uint64_t count;
    int64_t total, self, max;
    mtp__live_slot slot[MTP__LIVE_SLOTS];
} mtp__live_sum;

typedef struct mtp__live_sums {
    mtp__intern text;   /* names of rows and threads; id 1: "?" */
    mtp__live_sum *sum; /* owned */
    uint32_t count, room, most;
    uint32_t *row_of; /* owned: by text * MTP__LIVE_CLASSES + class: row + 1 */
    uint32_t row_of_room;
    int64_t slot_ns;
    int64_t part_from, part_to;          /* the part of time that was asked for last ... */
    uint32_t part;                       /* ... and its number */
    mtp__live_slot all[MTP__LIVE_SLOTS]; /* count: records */
    uint64_t left_out;                   /* names without a row of their own */
    bool out_of_memory;                  /* latched until the end of a refresh */
} mtp__live_sums;

bool mtp__live_sums_init(mtp__live_sums *s, int64_t slot_ns, uint32_t most);
void mtp__live_sums_fini(mtp__live_sums *s);
/* The text of a name: torch's key; MTP__TEXT_FILTERED; or that of all names for which there is no room. */
uint32_t mtp__live_key(mtp__live_sums *s, const char *bytes, size_t length);
uint32_t mtp__live_text(mtp__live_sums *s, const char *bytes, size_t length); /* as it is; 0: no room */
mtp_text mtp__live_text_of(const mtp__live_sums *s, uint32_t text);
uint32_t mtp__live_new_row(mtp__live_sums *s, uint32_t text, uint8_t class, uint8_t kind);
static inline uint32_t mtp__live_row(mtp__live_sums *s, uint32_t text, uint8_t class, uint8_t kind)
{
    uint32_t at = text * MTP__LIVE_CLASSES + class, row = at < s->row_of_room ? s->row_of[at] : 0;
    return __builtin_expect(row != 0, 1) ? row - 1 : mtp__live_new_row(s, text, class, kind);
}
uint32_t mtp__live_new_part(mtp__live_sums *s, int64_t ns);
/* The number of the part of time that an instant belongs to. */
static inline uint32_t mtp__live_part(mtp__live_sums *s, int64_t ns)
{
    return __builtin_expect(ns >= s->part_from && ns < s->part_to, 1) ? s->part : mtp__live_new_part(s, ns);
}
/* That part of a row; NULL: it has passed. */
static inline mtp__live_slot *mtp__live_slot_of(mtp__live_slot *slots, uint32_t number)
{
    mtp__live_slot *slot = &slots[number % MTP__LIVE_SLOTS];
    if (__builtin_expect(slot->number != number, 0)) {
        if (slot->number != 0 && (int32_t)(number - slot->number) < 0)
            return NULL;
        *slot = (mtp__live_slot){.number = number};
    }
    return slot;
}
/* Sums the parts that are in the window that ends with part `now`. */
mtp__live_slot mtp__live_recent(const mtp__live_slot *slots, uint32_t now);
void mtp__live_spent(mtp__live_sums *s, uint32_t row, int64_t from, int64_t to); /* self time */
void mtp__live_ended(mtp__live_sums *s, uint32_t row, int64_t ns, int64_t self, int64_t at);

/* ------------------------------------------------------------------------------------------------- one reading */

typedef struct mtp__frame { /* an open scope */
    int64_t start, child_ns;
    int64_t held_child_ns, held_ns,
        held_start;  /* its only child so far, if of the same name: it may be absorbed */
    int64_t touched; /* when a child without a duration was in it, or began with its end; INT64_MAX: none */
    uint32_t row, slot, held_row;
    uint32_t text;
    uint8_t class, kind, children; /* children: that have ended; 2: or more */
    bool holds, through;           /* through: torch omits it; its children are its parent's */
    bool ended;                    /* at `end`, with others open above it */
    int64_t end;
} mtp__frame;

typedef struct mtp__live_place { /* where a chunk is */
    uint64_t order, piece;
    uint64_t first; /* order of the piece's first chunk */
    uint32_t from, span, stream, sweep;
} mtp__live_place;

/* A stream: a thread's, or the control stream. */
typedef struct mtp__lane {
    uint32_t stream, cycle, depth;
    bool begun;
    uint64_t next_record, dropped; /* of the chunk being read: expected next; of those: dropped */
    uint64_t records, lost;        /* seen by us; dropped by its thread, as far as we know */
    uint64_t last_ticks;
    uint64_t seen_ns;  /* mtp_now_ns() before the look that found no more records; 0: there may be more */
    int64_t since;     /* of the last begin or end */
    mtp__frame *frame; /* owned: by slot; the last one is the innermost */
    uint32_t frames, frame_room;
    uint32_t ghost;   /* 1 + the frame that has ended below others; 0: none */
    uint32_t unknown; /* open scopes whose begin we have not seen */
    uint32_t tid, name;
    mtp__live_place at;     /* the chunk being read; order 0: none */
    uint64_t newest;        /* order of the latest that was */
    uint32_t consumed;      /* words of it */
    uint32_t fetched;       /* up to here, the control stream was read after they were written */
    mtp__live_place *queue; /* owned: the next ones, by order, from queue[next] on */
    uint32_t next, queued, queue_room;
} mtp__lane;

typedef struct mtp__left_open { /* at the end of a cycle: ends when that is known */
    mtp__frame *frame;          /* owned */
    uint32_t frames, cycle, ghost;
    uint64_t last_ticks;
} mtp__left_open;

typedef struct mtp__live_device {
    uint32_t device;
    int64_t allocated, peak, reserved;
    uint64_t ticks; /* of the latest event */
} mtp__live_device;

typedef struct mtp__reading {
    mtp__live_sums sums;
    bool whole;          /* of an ended file: all control records are known before the first data record */
    mtp__hash_map names; /* id -> text | epoch << 32 */
    struct {
        uint32_t id, text; /* the latest, by id */
    } recent[256];
    uint32_t epoch;
    mtp__blob_parts parts;
    mtp__tick_line anchors, line; /* as read; ready for conversion */
    bool new_anchors;
    uint64_t newest_anchor;
    int64_t zero_ns; /* ts 0: stays what it was at first */
    bool has_zero;
    double ticks_per_ns;
    uint64_t pid, parent, boot[2], control_ticks;
    uint64_t here[2]; /* boot id of this machine */
    bool has_here;
    char command[128];
    mtp_ledger ledger;
    bool has_ledger;
    struct mtp__cycle_end {
        uint32_t cycle;
        uint64_t ticks;
    } * stop; /* owned */
    uint32_t stops, stop_room;
    mtp__lane **lane;                      /* owned, each */
    uint32_t lanes, lane_room, lanes_full; /* lanes_full: time to forget some */
    uint32_t turn;                         /* the lane to begin with */
    uint32_t idle_lanes;                   /* so many in a row had nothing new when they were read last */
    uint64_t forgotten;                    /* chunks of lanes that were: up to this order */
    uint64_t lost_before;                  /* dropped by their threads */
    mtp__hash_map lane_of;                 /* stream -> lane + 1 */
    mtp__live_device *device;              /* owned */
    uint32_t devices, device_room;
    mtp__left_open *left; /* owned */
    uint32_t lefts, left_room;
    uint64_t records, missed, damaged, clock_faults, steps;
    uint64_t end_ticks; /* of the last record */
    struct mtp__live_steps {
        int64_t last, number; /* of the last mark: when, in ns; the step that it begins */
        int64_t took, all;    /* the last complete one; the sum of them ... */
        uint64_t complete;    /* ... and how many */
    } step, step_scope;       /* by STEP records; by scopes of that kind, for programs that have only these */
} mtp__reading;

mtp__reading *mtp__reading_create(int64_t slot_ns, uint32_t most);
void mtp__reading_destroy(mtp__reading *r);
mtp__lane *mtp__reading_lane(mtp__reading *r,
                             uint32_t stream); /* NULL: out of memory. Stays where it is until tidy */
void mtp__reading_tidy(mtp__reading *r);       /* forgets threads that have probably ended */
/* The control records in `words`; returns how many words they take. */
uint32_t mtp__reading_control(mtp__reading *r, const mtp__chunk *chunk, const uint64_t *words,
                              uint32_t count);
bool mtp__reading_anchor(mtp__reading *r,
                         const mtp__spool_header *header); /* times can be converted. false: no memory */
uint32_t mtp__reading_name(mtp__reading *r, uint32_t id);  /* text; MTP__NO_TEXT: not defined (yet) */
int64_t mtp__reading_at(mtp__reading *r,
                        uint64_t now_ns);             /* an instant of mtp_now_ns(); 0: of another boot */
int64_t mtp__reading_now(mtp__reading *r, bool live); /* in ns, like all times; after the last record */
/* A lane comes to a chunk: what is still open, what was missed. */
void mtp__lane_chunk(mtp__reading *r, mtp__lane *lane, const mtp__chunk *chunk);
bool mtp__lane_follows(const mtp__lane *lane, const mtp__chunk *chunk); /* is nothing missing before it? */
/* Its records; returns the words that were read: all, or those before a name that is not defined and may be soon. In the
 * first `sure` words it will not be, and the name is lost. */
uint32_t mtp__lane_records(mtp__reading *r, mtp__lane *lane, const mtp__chunk *chunk, const uint64_t *words,
                           uint32_t count, uint32_t sure);
void mtp__reading_finish(mtp__reading *r, bool damaged); /* after the last record of an ended file */

/* ---------------------------------------------------------------------------------------------------- one file */

typedef struct mtp__live_piece {
    uint64_t piece, first; /* order of its first chunk; 0: none yet */
    uint32_t last, next;   /* bytes: of the last chunk that was listed; after it (0: none was) */
    uint64_t stalled_ns;   /* since when the chunk after it is being created (mtp_now_ns); 0: it is not */
    uint8_t stalled;       /* how often it was found so */
    bool control;
} mtp__live_piece;

#define MTP__LIVE_PROBES 16

typedef struct mtp__live_file {
    int fd;
    mtp__spool_header header;
    mtp_outcome outcome;
    uint64_t magic, file_bytes;
    bool ring;
    mtp__live_piece *piece; /* owned: those that may change, by number */
    uint32_t pieces, piece_room;
    uint64_t frontier;  /* pieces below it are known */
    uint64_t listed_ns; /* mtp_now_ns() before chunks were looked for */
    bool listed;        /* the last sweep had time for all pieces */
    bool is_behind;     /* not read yet, or there was no time for all, beyond what `unread` counts */
    uint64_t newest;    /* order of the last piece's first chunk */
    struct {
        uint64_t piece, first;
    } probe[MTP__LIVE_PROBES]; /* the oldest that do not change any more: in a ring they do */
    uint32_t probes, sweep;
    uint64_t unread;    /* bytes of chunks that wait in queues */
    mtp__chunk *buffer; /* owned: two pieces */
    mtp__spool spool;   /* of an ended file */
    bool spool_open;
    uint64_t next; /* chunk to read of it */
    bool second;   /* pass: data */
} mtp__live_file;

mtp_status mtp__live_file_open(mtp__live_file *f, const char *path);
void mtp__live_file_close(mtp__live_file *f);
/* Is it live? Has it become another recording (*replaced)? */
mtp_status mtp__live_file_look(mtp__live_file *f, bool *replaced);
/* Reads what is new, until the deadline (mtp_now_ns). */
mtp_status mtp__live_file_read(mtp__live_file *f, mtp__reading *r, uint64_t deadline);
/* Reads an ended file from its beginning, in one or more calls; *done at its end. */
mtp_status mtp__live_file_settle(mtp__live_file *f, const char *path, mtp__reading *r, uint64_t deadline,
                                 bool *done);
void mtp__live_file_unsettle(mtp__live_file *f); /* gives that up */
void mtp__live_file_relist(mtp__live_file *f);   /* all pieces are looked at again */
#endif
