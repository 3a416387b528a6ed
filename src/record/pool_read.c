/* record/pool_read.c - visits all chunks of a pool while writers may be active: see mtp__pool_visit. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/types.h>
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/pool_chunks.h"
#include "record/writer.h"

static mtp_status piece_unread(uint64_t piece, int error)
{
    return MTP_FAIL(MTP_E_IO, "spool: piece %llu cannot be read: %s", (unsigned long long)piece,
                    error != 0 ? mtp__reason(error) : "the file is shorter than it was");
}

static void list_slot(const mtp__pool *pool, uint32_t slot, mtp__places *places)
{
    mtp__chunk now;
    const mtp__chunk *chunk;
    for (uint32_t from = 0; (chunk = mtp__chunk_in(pool, slot, from, &now)) != NULL; from += now.span)
        if (now.head != 0)
            places->place[places->count++] =
                (mtp__chunk_place){chunk->order, slot, chunk->stream, from, now.span};
}

/* One slot at a time, to hold the lock only briefly. */
static mtp_status list_memory(mtp__pool *pool, mtp__places *places)
{
    mtp_status status = MTP_OK;
    for (uint32_t slot = 0; status == MTP_OK;) {
        mtp__hold before = mtp__writer_hold();
        pthread_mutex_lock(&pool->lock);
        bool is_there = slot < pool->fresh;
        uint32_t need = is_there ? pool->piece[slot].chunks : 0, slots = pool->fresh;
        bool fits = places->room - places->count >= need;
        if (is_there && fits)
            list_slot(pool, slot++, places);
        pthread_mutex_unlock(&pool->lock);
        mtp__writer_release(before);
        if (!is_there)
            break;
        if (!fits)
            status = mtp__places_reserve(places, (uint64_t)need + slots);
    }
    return status;
}

static mtp_status list_file(mtp__pool *pool, mtp__places *places)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    uint64_t pieces = pool->file.pieces;
    int fd = mtp__spool_out_descriptor(&pool->file);
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
    mtp_status status = mtp__places_list(places, fd, pool->file.magic, pool->piece_bytes, pieces);
    if (status == MTP_OK && places->unread > 0)
        status = piece_unread(places->unread_at, places->unread_error);
    return status;
}

static void pin(mtp__pool *pool, const mtp__chunk_place *p, mtp__chunk *header)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    uint32_t slot = (uint32_t)p->piece;
    mtp__chunk now = {0};
    bool there = mtp__chunk_is_there(pool, slot, p->from, &now) && now.head != 0 &&
                 mtp__chunk_at(pool, slot, p->from)->order == p->order;
    pool->pinned = there ? slot : MTP__NO_SLOT;
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
    header->state = there ? now.state : 0;
}

static void unpin(mtp__pool *pool)
{
    mtp__hold before = mtp__writer_hold();
    pthread_mutex_lock(&pool->lock);
    pool->pinned = MTP__NO_SLOT;
    pthread_mutex_unlock(&pool->lock);
    mtp__writer_release(before);
}

static mtp_status visit_slot(mtp__pool *pool, const mtp__chunk_place *p, mtp__chunk_visitor *visitor,
                             void *user)
{
    mtp__chunk now;
    pin(pool, p, &now);
    if (now.state == 0)
        return MTP_OK;
    mtp__chunk *chunk = mtp__chunk_at(pool, (uint32_t)p->piece, p->from);
    const uint64_t *words = mtp__chunk_words(chunk);
    uint32_t count = __atomic_load_n(&chunk->words, __ATOMIC_ACQUIRE); /* not 0: sealed */
    if (count == 0)
        count = mtp__chunk_written(words, mtp__span_words(now.span));
    mtp_status status = visitor(user, chunk, words, count);
    unpin(pool);
    return status;
}

/* Reads a copy: in a stream the piece may not be mapped, and in a ring it may change meanwhile. */
static mtp_status visit_piece(mtp__pool *pool, const mtp__chunk_place *p, mtp__chunk *copy,
                              mtp__chunk_visitor *visitor, void *user)
{
    ssize_t got = mtp__spool_out_read(&pool->file, p->piece, p->from, copy, p->span);
    if (got != (ssize_t)p->span)
        return piece_unread(p->piece, got < 0 ? errno : 0);
    if (copy->order != p->order || copy->head == 0)
        return MTP_OK;
    const uint64_t *words = mtp__chunk_words(copy);
    return visitor(user, copy, words, mtp__chunk_written(words, mtp__span_words(p->span)));
}

static mtp_status visit(mtp__pool *pool, bool control_only, mtp__chunk_visitor *visitor, void *user)
{
    bool filed = pool->file.fd >= 0;
    mtp__places places = {0};
    mtp_status status = (filed ? list_file : list_memory)(pool, &places);
    mtp__chunk *copy = filed && status == MTP_OK ? mtp__calloc(1, pool->piece_bytes) : NULL;
    if (filed && status == MTP_OK && copy == NULL)
        status = MTP_FAIL(MTP_E_NOMEM, "a piece of %u bytes", pool->piece_bytes);
    mtp__places_sort(&places);
    for (uint64_t i = 0; status == MTP_OK && i < places.count; i++) {
        const mtp__chunk_place *p = &places.place[i];
        if (p->span == 0 || (control_only && p->stream != 0))
            continue;
        status = filed ? visit_piece(pool, p, copy, visitor, user) : visit_slot(pool, p, visitor, user);
    }
    mtp__free(copy);
    mtp__places_fini(&places);
    return status;
}

mtp_status mtp__pool_visit(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user)
{
    return visit(pool, false, visitor, user);
}

mtp_status mtp__pool_visit_control(mtp__pool *pool, mtp__chunk_visitor *visitor, void *user)
{
    return visit(pool, true, visitor, user);
}
