/* present/budget.c - see budget.h. */
#include "present/budget.h"
#include <stdlib.h>
#include <string.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/grow.h"
#include "base/os.h"
#include "present/plain_text.h"

#define TOKEN_BYTES 4u

mtp_status mtp__words_options_read(mtp_words_options *to, const mtp_words_options *from)
{
    *to = (mtp_words_options)MTP_WORDS_OPTIONS_INIT;
    mtp_status status = MTP__ABI_READ(to, from, mtp_words_options, only);
    if (status == MTP_OK && to->width != 0 && to->width < 40)
        to->width = 40; /* narrower lines are no longer read */
    return status;
}

/* ----------------------------------------------------------------------------------------------- wrapping */

/* The length of the first line of a text, in bytes and up to so many characters: to the last space that fits, or past
 * it, if a word is longer. */
static size_t line_of(const char *text, size_t length, size_t columns, size_t *skip)
{
    size_t space = 0, shown = 0, at = 0;
    for (; at < length && (shown < columns || space == 0); at++) {
        if (((unsigned char)text[at] & 0xc0) != 0x80)
            shown++;
        if (text[at] == ' ' && at > 0)
            space = at;
    }
    if (at < length && text[at] == ' ')
        space = at;
    *skip = at < length && space > 0;
    return at < length && space > 0 ? space : at;
}

static bool wrap(mtp__words *out, mtp__plain text, unsigned first, unsigned more, uint32_t width)
{
    const char *p = text.bytes, *end = text.bytes + text.length;
    unsigned indent = first;
    do {
        size_t room = width > indent + 20 ? width - indent : 20, skip = 0;
        size_t length = width == 0 ? (size_t)(end - p) : line_of(p, (size_t)(end - p), room, &skip);
        mtp__say(out, "%*s%.*s\n", (int)indent, "", (int)length, p);
        p += length + skip;
        while (p < end && *p == ' ')
            p++;
        indent = more;
    } while (p < end);
    return !out->failed;
}

void mtp__pieces_add(mtp__pieces *p, uint32_t rank, unsigned first, unsigned more, mtp__words *words)
{
    char *safe = mtp__calloc(MTP__PLAIN_ROOM(words->length), 1);
    mtp__words out = {0};
    if (words->failed || safe == NULL || !MTP__GROW(p->list, p->room, p->count, p->count + 1, 64)) {
        p->failed = true;
    } else {
        mtp__plain text = mtp__plain_text(safe, words->bytes != NULL ? words->bytes : "", words->length);
        if (text.length == 0)
            mtp__say(&out, "\n");
        else
            wrap(&out, text, first, more, p->width);
        p->failed |= out.failed;
        p->list[p->count++] = (mtp__piece){out.bytes, out.length, rank};
    }
    mtp__free(safe);
    mtp__free(words->bytes);
    *words = (mtp__words){0};
}

void mtp__pieces_line(mtp__pieces *p, uint32_t rank, const char *text)
{
    mtp__words words = {0};
    mtp__say(&words, "%s", text);
    mtp__pieces_add(p, rank, 0, 0, &words);
}

void mtp__pieces_free(mtp__pieces *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        mtp__free(p->list[i].bytes);
    mtp__free(p->list);
    *p = (mtp__pieces){0};
}

/* ----------------------------------------------------------------------------------------------- choosing */

/* The highest rank of which all pieces fit. *left: bytes of the others, 0: everything fits. */
static bool choose(const mtp__pieces *p, size_t most, size_t reserve, uint32_t *rank, size_t *need)
{
    size_t all = 0, used = 0;
    for (uint32_t i = 0; i < p->count; i++)
        all += p->list[i].length;
    *rank = UINT32_MAX;
    *need = all;
    if (all <= most)
        return true;
    bool fits = false;
    for (uint32_t next = 0, level = 0;; level = next) {
        next = UINT32_MAX;
        for (uint32_t i = 0; i < p->count; i++) {
            used += p->list[i].rank == level ? p->list[i].length : 0;
            next = p->list[i].rank > level && p->list[i].rank < next ? p->list[i].rank : next;
        }
        if (level == 0)
            *need = used + reserve;
        if (used + reserve > most)
            return fits;
        *rank = level;
        fits = true;
        if (next == UINT32_MAX)
            return true;
    }
}

mtp_status mtp__pieces_write(mtp__pieces *p, uint64_t budget, const char *more, mtp_sink *sink, void *user)
{
    mtp__out o;
    uint32_t rank = UINT32_MAX;
    size_t need,
        most = budget == 0 || budget > SIZE_MAX / TOKEN_BYTES ? SIZE_MAX : (size_t)budget * TOKEN_BYTES;
    mtp_status status = p->failed ? MTP_FAIL(MTP_E_NOMEM, "the text") : MTP_OK;
    if (status == MTP_OK && !choose(p, most, strlen(more) + 1, &rank, &need))
        status = MTP_FAIL(MTP_E_ARG, "a budget of %llu tokens is too small: it takes at least %zu",
                          (unsigned long long)budget, (need + TOKEN_BYTES - 1) / TOKEN_BYTES);
    if (status == MTP_OK)
        status = mtp__out_init(&o, sink, user);
    if (status == MTP_OK) {
        for (uint32_t i = 0; i < p->count; i++)
            if (p->list[i].rank <= rank)
                mtp__out_bytes(&o, p->list[i].bytes, p->list[i].length);
        if (rank != UINT32_MAX) {
            mtp__out_text(&o, more);
            MTP__OUT(&o, "\n");
        }
        status = mtp__out_finish(&o);
    }
    mtp__pieces_free(p);
    return status;
}
