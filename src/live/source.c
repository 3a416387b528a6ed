/* live/source.c - one file that is being written: see live.h.
 *
 * Chunks of a stream are read in order. A refresh first lists the chunks that have appeared since the last one, then reads
 * each stream: the rest of the chunk where it stopped, then the new ones. Pieces that are full and sealed never change and
 * are not looked at again, except in a ring, where the oldest is reused: it is recognised by pieces that are out of order,
 * or by an old piece that has changed, and then all pieces are looked at each time.
 *
 * The writer is not asked and does not wait, so everything may change while it is read:
 *   - Word 0 of a record is stored last. A copy need not be made from front to back, so what was found complete is copied
 *     again, and the second copy is used.
 *   - A chunk may be evicted: after its words were copied, its header and that of its piece must be the same as before.
 *   - A stream's chunk may have been listed without the one before it, which was created later in a place that had been
 *     looked at already: it waits for the next sweep. If something is missing then, it is gone.
 */
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/plain.h"
#include "base/testpoint.h"
#include "live/live.h"
#include "record/checks.h"
#include "trace/records/dictionary.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define TAIL_LEAST 256u /* record/pool.c: shorter tails are left unused */
/* Then the chunk that is being created is skipped: in a ring, it was evicted; else its thread is stuck, longer than one is
 * that a busy machine has put aside. */
#define STALLS_MAX 2u
#define STUCK_NS 5000000000u
#define PIECES_MAX 65536u /* that may change; more only in a ring */
#define PASSES 3          /* in a refresh: a name may have to be looked for again, and then another one */
#define HOLES_MAX 4096u   /* pieces that are to be written; a larger hole is damage */
#define LOOK_AT_CLOCK 64u /* pieces between two looks at the deadline */

/* -------------------------------------------------------------------------------------------------- the file */

static mtp_status open_file(mtp__live_file *f, const char *path)
{
    struct stat st;
    bool damaged;
    f->fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0); /* a FIFO must not block us */
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    if (!S_ISREG(st.st_mode))
        return MTP_FAIL(MTP_E_FORMAT, "this is not a regular file, and so not a spool");
    return mtp__spool_header_read(f->fd, &f->header, &damaged);
}

static void adopt_header(mtp__live_file *f)
{
    const mtp__spool_header *h = &f->header;
    f->magic = mtp__file_magic(h->ticks, h->monotonic_ns, h->realtime_ns);
}

mtp_status mtp__live_file_open(mtp__live_file *f, const char *path)
{
    *f = (mtp__live_file){.fd = -1, .sweep = 1, .is_behind = true};
    mtp_status status = open_file(f, path);
    if (status == MTP_OK && (f->buffer = mtp__calloc(2, f->header.chunk_bytes)) == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "two pieces of %u bytes", f->header.chunk_bytes);
    if (status == MTP_OK)
        adopt_header(f);
    if (status != MTP_OK)
        mtp__live_file_close(f);
    return status;
}

void mtp__live_file_close(mtp__live_file *f)
{
    mtp__live_file_unsettle(f);
    mtp__free(f->buffer);
    mtp__free(f->piece);
    mtp__close(f->fd);
    *f = (mtp__live_file){.fd = -1};
}

void mtp__live_file_relist(mtp__live_file *f)
{
    f->pieces = f->probes = 0;
    f->frontier = f->newest = 0;
}

static mtp_status look_at_size(mtp__live_file *f)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return MTP_FAIL(MTP_E_IO, "%s", mtp__reason(errno));
    f->file_bytes = (uint64_t)st.st_size;
    return MTP_OK;
}

mtp_status mtp__live_file_look(mtp__live_file *f, bool *replaced)
{
    mtp__spool_header h;
    bool damaged;
    *replaced = false;
    mtp_status status = look_at_size(f);
    if (status == MTP_OK)
        status = mtp__spool_header_read(f->fd, &h, &damaged);
    if (status != MTP_OK)
        return status;
    *replaced = h.chunk_bytes != f->header.chunk_bytes || h.ticks != f->header.ticks ||
                h.monotonic_ns != f->header.monotonic_ns || h.realtime_ns != f->header.realtime_ns;
    if (!*replaced)
        f->header = h;
    f->outcome = mtp__spool_outcome(f->fd, &h);
    return MTP_OK;
}

/* ---------------------------------------------------------------------------------------------------- pieces */

static uint64_t byte_of(const mtp__live_file *f, uint64_t piece, uint32_t from)
{
    return (piece + 1) * f->header.chunk_bytes + from;
}

static bool read_header(const mtp__live_file *f, uint64_t piece, uint32_t from, mtp__chunk *c)
{
    if (f->header.chunk_bytes - from < sizeof *c)
        return false;
    return mtp__pread(f->fd, c, sizeof *c, byte_of(f, piece, from)) == (ssize_t)sizeof *c;
}

/* One that was published: its header is right, and will not change except by sealing. */
static bool is_chunk(const mtp__live_file *f, const mtp__chunk *c, uint32_t from)
{
    return mtp__chunk_is_right(c, f->magic, from, f->header.chunk_bytes);
}

/* Adds the chunk to its lane's queue, unless it was read before. */
static bool enqueue(mtp__live_file *f, mtp__reading *r, const mtp__chunk *c, const mtp__live_place *place)
{
    mtp__lane *lane = mtp__reading_lane(r, c->stream);
    if (lane == NULL)
        return false;
    if (lane->newest >= c->order || (!lane->begun && c->stream != 0 && c->order <= r->forgotten))
        return true;
    uint32_t i = lane->queued;
    while (i > lane->next && lane->queue[i - 1].order > c->order)
        i--;
    if (i > lane->next && lane->queue[i - 1].order == c->order)
        return true;
    if (lane->next > 64 && lane->next > lane->queued / 2) {
        memmove(lane->queue, lane->queue + lane->next, (lane->queued - lane->next) * sizeof *lane->queue);
        lane->queued -= lane->next;
        i -= lane->next;
        lane->next = 0;
    }
    if (!MTP__GROW(lane->queue, lane->queue_room, lane->queued, lane->queued + 1, 8)) {
        r->sums.out_of_memory = true;
        return false;
    }
    memmove(lane->queue + i + 1, lane->queue + i, (lane->queued - i) * sizeof *lane->queue);
    lane->queue[i] = *place;
    lane->queued++;
    f->unread += place->span;
    return true;
}

static void note_probe(mtp__live_file *f, const mtp__live_piece *p)
{
    if (p->control || f->probes == MTP__LIVE_PROBES)
        return;
    f->probe[f->probes].piece = p->piece;
    f->probe[f->probes++].first = p->first;
}

/* Of the last chunk that was listed: where the next one begins, and whether that is final. */
static bool step_over(mtp__live_file *f, mtp__live_piece *p, bool *is_final)
{
    mtp__chunk c;
    *is_final = false;
    if (p->next == 0)
        return true;
    if (!read_header(f, p->piece, p->last, &c))
        return false;
    if (c.sealed != 0 && !read_header(f, p->piece, p->last, &c)) /* the span is final once that is set */
        return false;
    if (c.sealed == 0 || !mtp__span_is_possible(c.span, p->last, f->header.chunk_bytes))
        return true;
    p->next = p->last + c.span;
    *is_final = true;
    return true;
}

/* The next chunk of a piece is being created. false: it is not going to be. */
static bool is_waited_for(const mtp__live_file *f, mtp__live_piece *p)
{
    uint64_t now = mtp_now_ns();
    p->stalled_ns = p->stalled_ns != 0 ? p->stalled_ns : now;
    p->stalled = p->stalled <= STALLS_MAX ? (uint8_t)(p->stalled + 1) : p->stalled;
    bool waits = p->stalled <= STALLS_MAX || (!f->ring && now - p->stalled_ns < STUCK_NS);
    if (!waits)
        p->stalled = 0, p->stalled_ns = 0;
    return waits;
}

/* Lists what is new in a piece. *done: nothing will be, unless this is a ring. false: out of memory. */
static bool list_piece(mtp__live_file *f, mtp__reading *r, mtp__live_piece *p, bool *done)
{
    const uint32_t bytes = f->header.chunk_bytes;
    bool is_final;
    *done = false;
    for (;;) {
        mtp__chunk c;
        if (!step_over(f, p, &is_final))
            return true;
        *done = is_final && bytes - p->next < TAIL_LEAST;
        if (*done || p->next >= bytes || !read_header(f, p->piece, p->next, &c) || c.state == 0)
            return true;
        if (c.head == 0 && mtp__span_is_possible(c.span, p->next, bytes)) { /* being created, or evicted */
            if (is_waited_for(f, p))
                return true;
            p->first = p->next == 0 ? c.order : p->first;
            p->last = p->next;
            p->next += c.span;
            continue;
        }
        if (!is_chunk(f, &c, p->next))
            return true; /* torn, or damaged: the next refresh will tell, or the reading of the ended file */
        if (p->next == 0) {
            p->first = c.order;
            p->control = c.stream == 0;
        }
        mtp__live_place place = {c.order, p->piece, p->first, p->next, c.span, c.stream, f->sweep};
        if (!enqueue(f, r, &c, &place))
            return false;
        p->last = p->next;
        p->next += c.span;
        p->stalled = 0, p->stalled_ns = 0;
    }
}

/* Has the piece been reused since? */
static bool is_reused(const mtp__live_file *f, uint64_t piece, uint64_t first)
{
    mtp__chunk c;
    return first != 0 && read_header(f, piece, 0, &c) && (c.order != first || c.state == 0);
}

static void look_for_ring(mtp__live_file *f)
{
    for (uint32_t i = 0; i < f->probes && !f->ring; i++)
        f->ring = is_reused(f, f->probe[i].piece, f->probe[i].first);
}

/* The pieces that may have changed. */
static bool list_known(mtp__live_file *f, mtp__reading *r)
{
    uint32_t kept = 0;
    bool good = true, done;
    for (uint32_t i = 0; i < f->pieces; i++) {
        mtp__live_piece p = f->piece[i];
        if (is_reused(f, p.piece, p.first)) {
            f->ring = true;
            p = (mtp__live_piece){.piece = p.piece};
        }
        good = good && list_piece(f, r, &p, &done);
        if (good && done && !f->ring)
            note_probe(f, &p);
        else
            f->piece[kept++] = p;
    }
    f->pieces = kept;
    return good;
}

/* From now on looked at each time. false: out of memory. */
static bool keep_piece(mtp__live_file *f, mtp__reading *r, const mtp__live_piece *p)
{
    if (!f->ring && f->pieces >= PIECES_MAX) /* the oldest has probably left the writer's memory */
        memmove(f->piece, f->piece + 1, --f->pieces * sizeof *f->piece);
    if (!MTP__GROW(f->piece, f->piece_room, f->pieces, f->pieces + 1, 64)) {
        r->sums.out_of_memory = true;
        return false;
    }
    f->piece[f->pieces++] = *p;
    return true;
}

/* A new piece. In a file that is only appended to, pieces are in the order of their first chunks. */
static bool list_one(mtp__live_file *f, mtp__reading *r, uint64_t piece)
{
    mtp__live_piece p = {.piece = piece};
    bool done;
    if (!list_piece(f, r, &p, &done))
        return false;
    f->ring |= p.first != 0 && p.first < f->newest;
    f->newest = p.first != 0 ? p.first : f->newest;
    if (done && !f->ring)
        note_probe(f, &p);
    return (done && !f->ring) || keep_piece(f, r, &p);
}

/* Those that are new. A hole between others may be a piece whose thread has not yet written to it; those at the end will be
 * looked at again. */
static bool list_new(mtp__live_file *f, mtp__reading *r, uint64_t deadline)
{
    const uint32_t bytes = f->header.chunk_bytes;
    uint64_t pieces = (f->file_bytes + bytes - 1) / bytes, known = 0, looked = 0, next;
    pieces = pieces > 0 ? pieces - 1 : 0;
    while ((next = mtp__next_piece(f->fd, bytes, f->frontier, pieces, &known)) < pieces) {
        for (uint64_t i = next - f->frontier > HOLES_MAX ? next : f->frontier; i <= next; i++)
            if (!list_one(f, r, i))
                return false;
        f->frontier = next + 1;
        if (++looked % LOOK_AT_CLOCK == 0 && mtp_now_ns() > deadline)
            return true;
    }
    f->sweep++;
    f->listed = true;
    return true;
}

/* The size is looked up again for each pass: a name that is still missing after it is lost. */
static mtp_status list(mtp__live_file *f, mtp__reading *r, uint64_t deadline)
{
    mtp_status status = look_at_size(f);
    if (status != MTP_OK)
        return status;
    bool was = f->ring, good = list_known(f, r);
    f->listed = false;
    look_for_ring(f);
    if (!f->ring)
        good = good && list_new(f, r, deadline);
    if (f->ring && !was)
        mtp__live_file_relist(f); /* from now on all pieces are needed */
    if (f->ring)
        good = good && list_new(f, r, deadline);
    MTP__TESTPOINT(LIVE_LISTED);
    return good ? MTP_OK : MTP_FAIL(MTP_E_NOMEM, "a list of chunks");
}

/* ---------------------------------------------------------------------------------------------------- chunks */

/* Is the chunk still the one that was listed? */
static bool is_there(const mtp__live_file *f, const mtp__live_place *p, mtp__chunk *header)
{
    if (f->ring && p->from != 0 && is_reused(f, p->piece, p->first))
        return false;
    return read_header(f, p->piece, p->from, header) && header->order == p->order &&
           header->magic == f->magic && header->head != 0 && header->head == mtp__chunk_head(header);
}

typedef enum got {
    GOT,     /* words, perhaps none */
    GONE,    /* evicted */
    DAMAGED, /* its checksum is wrong */
} got;

/* The chunk at the lane's place: its header, and the words from `consumed` on that are complete. */
static got fetch(mtp__live_file *f, const mtp__lane *lane, mtp__chunk *header, const uint64_t **words,
                 uint32_t *count)
{
    const mtp__live_place *p = &lane->at;
    unsigned char *buffer = (unsigned char *)f->buffer + f->header.chunk_bytes;
    uint64_t *to = (uint64_t *)(void *)buffer;
    *words = to;
    *count = 0;
    if (!is_there(f, p, header))
        return GONE;
    uint32_t capacity = mtp__span_words(header->span);
    bool sealed = header->checksum != 0 && header->words <= capacity;
    uint32_t until = sealed && header->stream != 0 ? header->words : capacity;
    if (until <= lane->consumed)
        return GOT;
    uint64_t at = byte_of(f, p->piece, p->from) + sizeof *header + (uint64_t)lane->consumed * 8;
    uint32_t room = until - lane->consumed;
    ssize_t n = mtp__pread(f->fd, to, (size_t)room * 8, at);
    if (n < 0)
        return GONE;
    uint32_t complete = mtp__chunk_written(to, (uint32_t)(n / 8) < room ? (uint32_t)(n / 8) : room);
    if (!sealed && complete > 0 && mtp__pread(f->fd, to, (size_t)complete * 8, at) != (ssize_t)complete * 8)
        return GONE;
    mtp__chunk after;
    if (!is_there(f, p, &after))
        return GONE;
    if (sealed && header->stream != 0 && lane->consumed == 0 &&
        (complete != header->words || header->checksum != mtp__chunk_checksum(header, to)))
        return DAMAGED;
    *count = complete;
    return GOT;
}

typedef enum went {
    ON,   /* there may be more */
    IDLE, /* nothing is new */
    WAIT  /* for a name, or for a chunk that was not listed yet */
} went;

/* Takes the next chunk of the queue. */
static went next_chunk(mtp__live_file *f, mtp__reading *r, mtp__lane *lane)
{
    mtp__chunk header;
    if (lane->next == lane->queued)
        return IDLE;
    const mtp__live_place place = lane->queue[lane->next];
    bool there = is_there(f, &place, &header), data = lane->stream != 0;
    if (there && data && (!lane->begun || !mtp__lane_follows(lane, &header)) && place.sweep + 1 >= f->sweep)
        return WAIT;
    lane->next++;
    f->unread -= place.span;
    if (!there)
        return ON;
    lane->at = place;
    lane->newest = place.order;
    lane->consumed = lane->fetched = 0;
    if (data)
        mtp__lane_chunk(r, lane, &header);
    return ON;
}

/* Reads the chunk where the lane is, to its end as it is now. known: the control stream was read to its end before. */
static went read_chunk(mtp__live_file *f, mtp__reading *r, mtp__lane *lane, bool known)
{
    mtp__chunk header;
    const uint64_t *words;
    uint32_t count;
    if (lane->at.order == 0)
        return next_chunk(f, r, lane);
    got is = fetch(f, lane, &header, &words, &count);
    if (is == DAMAGED) {
        r->damaged++;
        lane->consumed = header.words; /* what is missing is counted by the next chunk */
    } else if (is == GOT && lane->stream == 0) {
        lane->consumed += mtp__reading_control(r, &header, words, count);
    } else if (is == GOT) {
        uint32_t sure = known && lane->fetched > lane->consumed ? lane->fetched - lane->consumed : 0;
        uint32_t taken = mtp__lane_records(r, lane, &header, words, count, sure);
        lane->fetched = lane->consumed + count;
        lane->consumed += taken;
        if (taken < count && MTP__WORD0_LENGTH(words[taken]) != 0)
            return WAIT;
    } else if (lane->next < lane->queued) {
        lane->at.order = 0;
    }
    return next_chunk(f, r, lane);
}

/* The rest of a chunk is read after its successor was seen, so it is complete. */
static went read_lane(mtp__live_file *f, mtp__reading *r, mtp__lane *lane, bool known, uint64_t deadline)
{
    went is = ON;
    while (is == ON) {
        is = read_chunk(f, r, lane, known);
        lane->seen_ns = is == IDLE && f->listed ? f->listed_ns : 0; /* later chunks are not known */
        bool late = is == ON && mtp_now_ns() > deadline;
        f->is_behind |= late;
        if (r->sums.out_of_memory || late)
            break;
    }
    return is;
}

/* Definitions first, then the other streams, each time from another one on: there may not be time for all. true: some wait
 * for a name that was not defined then, or for a chunk that was not listed. */
static bool read_all(mtp__live_file *f, mtp__reading *r, uint64_t deadline)
{
    bool waits = false;
    mtp__lane *control = mtp__reading_lane(r, 0);
    if (control == NULL)
        return false;
    bool known = read_lane(f, r, control, false, deadline) == IDLE && f->listed;
    if (!mtp__reading_anchor(r, &f->header)) {
        r->sums.out_of_memory = true;
        return false;
    }
    uint32_t lanes = r->lanes, first = r->turn;
    for (uint32_t i = 0; i < lanes && !r->sums.out_of_memory; i++) {
        mtp__lane *lane = r->lane[(first + i) % lanes];
        went is = lane->stream != 0 ? read_lane(f, r, lane, known, deadline) : IDLE;
        waits |= is == WAIT;
        r->idle_lanes = is == IDLE ? r->idle_lanes + 1 : 0;
        r->turn = (first + i + 1) % lanes;
        if (mtp_now_ns() > deadline) {
            f->is_behind |= r->idle_lanes < lanes;
            break;
        }
    }
    return waits;
}

mtp_status mtp__live_file_read(mtp__live_file *f, mtp__reading *r, uint64_t deadline)
{
    r->sums.out_of_memory = f->is_behind = false;
    f->listed_ns = mtp_now_ns();
    mtp_status status = list(f, r, deadline);
    bool waits = status == MTP_OK && read_all(f, r, deadline);
    for (int pass = 1; waits && status == MTP_OK && pass < PASSES && mtp_now_ns() <= deadline; pass++) {
        f->listed_ns = mtp_now_ns();
        status = list(f, r, deadline);
        waits = status == MTP_OK && read_all(f, r, deadline);
    }
    f->is_behind |= !f->listed || (waits && mtp_now_ns() > deadline);
    mtp__reading_tidy(r);
    MTP__TESTPOINT(LIVE_READ);
    if (status == MTP_OK && r->sums.out_of_memory)
        status = MTP_FAIL(MTP_E_NOMEM, "the sums of a live recording");
    return status;
}

/* ----------------------------------------------------------------------------------------------- an ended file */

void mtp__live_file_unsettle(mtp__live_file *f)
{
    if (f->spool_open)
        mtp__spool_close(&f->spool);
    f->spool_open = f->second = false;
    f->next = 0;
}

/* Remembers how far the lane is, so that a recording that resumes can be followed. */
static void settle_data(mtp__reading *r, const mtp__live_file *f, const mtp__chunk *c, const uint64_t *words,
                        uint32_t count)
{
    mtp__lane *lane = mtp__reading_lane(r, c->stream);
    if (lane == NULL)
        return;
    mtp__lane_chunk(r, lane, c);
    lane->consumed = mtp__lane_records(r, lane, c, words, count, count);
    const mtp__chunk_place *p = &f->spool.places.place[f->next];
    lane->at = (mtp__live_place){c->order, p->piece, 0, p->from, c->span, c->stream, f->sweep};
    lane->newest = c->order;
}

static void settle_chunk(mtp__live_file *f, mtp__reading *r)
{
    uint32_t count;
    const char *why;
    bool control = f->spool.places.place[f->next].stream == 0;
    if (control == f->second)
        return;
    mtp__chunk_state state = mtp__spool_read(&f->spool, f->next, &count, &why);
    r->damaged += state == MTP__CHUNK_DAMAGED || state == MTP__CHUNK_PARTLY;
    if (state == MTP__CHUNK_DAMAGED || state == MTP__CHUNK_GONE)
        return;
    const mtp__chunk *c = f->spool.chunk;
    const uint64_t *words = mtp__chunk_words(f->spool.chunk);
    if (!control) {
        settle_data(r, f, c, words, count);
        return;
    }
    mtp__lane *lane = mtp__reading_lane(r, 0);
    uint32_t used = mtp__reading_control(r, c, words, count);
    if (lane == NULL)
        return;
    const mtp__chunk_place *p = &f->spool.places.place[f->next];
    lane->at = (mtp__live_place){c->order, p->piece, 0, p->from, c->span, 0, f->sweep};
    lane->newest = c->order;
    lane->consumed = used;
}

mtp_status mtp__live_file_settle(mtp__live_file *f, const char *path, mtp__reading *r, uint64_t deadline,
                                 bool *done)
{
    mtp_status status = MTP_OK;
    *done = false;
    if (!f->spool_open) {
        status = mtp__spool_open(&f->spool, path);
        f->spool_open = true;
        r->whole = true;
    }
    while (status == MTP_OK && !*done) {
        if (f->next < f->spool.places.count) {
            settle_chunk(f, r);
            f->next++;
        } else if (!f->second) {
            f->next = 0;
            f->second = true;
            if (!mtp__reading_anchor(r, &f->spool.header))
                r->sums.out_of_memory = true;
        } else {
            *done = true;
        }
        if (r->sums.out_of_memory)
            status = MTP_FAIL(MTP_E_NOMEM, "the sums of a recording");
        if (!*done && f->next % 16 == 0 && mtp_now_ns() > deadline)
            break;
    }
    if (status == MTP_OK && *done) {
        const mtp__spool_header *h = &f->spool.header;
        if (h->complete == 1 && h->totals.known == 1)
            r->has_ledger |= mtp__ledger_read(&r->ledger, h->totals.ledger, MTP__LEDGER_ROOM);
        r->damaged += f->spool.places.unread;
        mtp__reading_finish(r, r->damaged + f->spool.missing > 0);
        r->whole = false;
    }
    if (status != MTP_OK || *done)
        mtp__live_file_unsettle(f);
    return status;
}
