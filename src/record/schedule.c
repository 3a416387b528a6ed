/* record/schedule.c - maps steps to actions: a pure function of the step's number. */
#include <mtprof.h>
#include <string.h>
#include "base/error.h"

mtp_status mtp_schedule_check(const mtp_schedule *s)
{
    if (s == NULL)
        return MTP_FAIL(MTP_E_ARG, "the schedule is NULL");
    const struct {
        const char *name;
        int64_t value;
    } field[] = {
        {"wait", s->wait},     {"warmup", s->warmup},         {"active", s->active},
        {"repeat", s->repeat}, {"skip_first", s->skip_first}, {"skip_first_wait", s->skip_first_wait}};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (field[i].value < 0)
            return MTP_FAIL(MTP_E_ARG, "schedule: %s=%lld must not be negative", field[i].name,
                            (long long)field[i].value);
    if (s->active == 0)
        return MTP_FAIL(MTP_E_ARG, "schedule: active=0 records nothing; it must be at least 1");
    if (s->wait > INT64_MAX / 4 || s->warmup > INT64_MAX / 4 || s->active > INT64_MAX / 4)
        return MTP_FAIL(MTP_E_ARG, "schedule: a cycle of %lld + %lld + %lld steps is too long",
                        (long long)s->wait, (long long)s->warmup, (long long)s->active);
    return MTP_OK;
}

mtp_action mtp_schedule_action(const mtp_schedule *s, uint64_t step)
{
    const mtp_schedule none = {0, 0, 0, 0, 0, 0};
    if (s == NULL || memcmp(s, &none, sizeof none) == 0)
        return MTP_ACTION_RECORD;
    if (step < (uint64_t)s->skip_first)
        return MTP_ACTION_NONE;
    step -= (uint64_t)s->skip_first;
    uint64_t wait = (uint64_t)s->wait, warm = wait + (uint64_t)s->warmup, cycle = warm + (uint64_t)s->active;
    if (s->active <= 0) /* rejected by mtp_schedule_check() */
        return MTP_ACTION_NONE;
    if (s->skip_first_wait != 0)
        step += wait;
    if (s->repeat > 0 && step / cycle >= (uint64_t)s->repeat)
        return MTP_ACTION_NONE;
    uint64_t at = step % cycle;
    return at < wait        ? MTP_ACTION_NONE
           : at < warm      ? MTP_ACTION_WARMUP
           : at < cycle - 1 ? MTP_ACTION_RECORD
                            : MTP_ACTION_RECORD_AND_SAVE;
}
