#include "trace/records/moment.h"
#include <fcntl.h>
#include "base/os.h"
#include "record/spool/spool.h"

uint32_t mtp__words_until(const mtp__chunk *chunk, const uint64_t *words, uint32_t count, uint64_t until)
{
    uint32_t at = 0;
    while (at < count && mtp__word0_full_ticks(words[at], chunk->base_ticks) <= until) {
        uint32_t length = MTP__WORD0_LENGTH(words[at]);
        if (length == 0)
            break;
        at += length;
    }
    return at < count ? at : count;
}

/* Finds the latest record so far. */
static mtp_status find_latest(void *user, const mtp__chunk *chunk, const uint64_t *words, uint32_t count)
{
    uint64_t *latest = user;
    for (uint32_t at = 0; at < count && chunk->stream != 0;) {
        uint64_t ticks = mtp__word0_full_ticks(words[at], chunk->base_ticks);
        *latest = ticks > *latest ? ticks : *latest;
        uint32_t length = MTP__WORD0_LENGTH(words[at]);
        if (length == 0)
            break;
        at += length;
    }
    return MTP_OK;
}

/* The writer's clock may differ from ours, so its records decide. */
mtp_status mtp__find_moment(const char *path, uint64_t *until)
{
    mtp__spool_header header;
    int fd = mtp__open(path, O_RDONLY | O_NONBLOCK, 0);
    bool damaged, live = fd >= 0 && mtp__spool_header_read(fd, &header, &damaged) == MTP_OK &&
                         mtp__spool_outcome(fd, &header) == MTP_OUTCOME_LIVE;
    mtp__close(fd);
    *until = live ? 1 : 0;
    return live ? mtp__spool_visit(path, find_latest, until, NULL) : MTP_OK;
}
