/* present/budget.h - texts for people, and for readers with a limit: pieces of whole sentences, of which the most
 * important that fit are written, in order.
 *
 *     mtp__pieces p = {0};
 *     mtp__piece(&p, 0, "The trace ...");      rank 0 must be written; then the lower, the more important
 *     mtp__pieces_write(&p, options, sink, user);
 *
 * Names from traces are made safe for terminals. Lines are wrapped at spaces, with the indentation of the piece.
 */
#ifndef MTP_PRESENT_BUDGET_H
#define MTP_PRESENT_BUDGET_H
#include "analyze/findings/findings.h"
#include "base/out.h"

typedef struct mtp__piece {
    char *bytes; /* owned: as it is written, wrapped and with its newline */
    size_t length;
    uint32_t rank;
} mtp__piece;

typedef struct mtp__pieces { /* {0} is empty */
    mtp__piece *list;        /* owned: in the order of the text */
    uint32_t count, room;
    uint32_t width; /* of lines; 0: no limit */
    bool failed;    /* out of memory, latched */
} mtp__pieces;

/* Takes the words. first, more: columns before the first line and before the others. */
void mtp__pieces_add(mtp__pieces *p, uint32_t rank, unsigned first, unsigned more, mtp__words *words);
void mtp__pieces_line(mtp__pieces *p, uint32_t rank, const char *text); /* "" is an empty line */
void mtp__pieces_free(mtp__pieces *p);
/* Writes what fits into the budget, and frees the pieces. more: a line for when something was left out. */
mtp_status mtp__pieces_write(mtp__pieces *p, uint64_t budget, const char *more, mtp_sink *sink, void *user);
mtp_status mtp__words_options_read(mtp_words_options *to, const mtp_words_options *from);
#endif
