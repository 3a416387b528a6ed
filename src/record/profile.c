/* record/profile.c - life of a profile: configuration, steps through the schedule, cycles.
 *
 * One thread at a time drives it; a second one is refused, and so is a callback or handler of the first
 * (driving). The table `transit` defines everything that a step does.
 *
 * Callbacks are the program's, and those of a C++ program may throw. The exception passes through to our
 * caller; cleanups bring the profile to the state that it would have if the callback had returned.
 */
#include "record/profile.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/os.h"
#include "base/plain.h"
#include "record/stack.h"

#define CHUNK_DEFAULT (64u << 10)
#define CHUNK_MIN (4u << 10)
#define CHUNK_MAX (1u << 20)
#define BUFFER_DEFAULT ((uint64_t)256 << 20)
#define BUFFER_MAX ((uint64_t)1 << 40)
#define CHUNKS_MIN 4u
#define WHEEL_MS 1000

/* -------------------------------------------------------------------------------------- configuration */

static bool schedule_given(const mtp_schedule *s)
{
    static const mtp_schedule none;
    return memcmp(s, &none, sizeof none) != 0;
}

static mtp_status config_check_budget(mtp_profile_config *c)
{
    if (c->chunk_bytes == 0)
        c->chunk_bytes = CHUNK_DEFAULT;
    if ((c->chunk_bytes & (c->chunk_bytes - 1)) != 0 || c->chunk_bytes < CHUNK_MIN ||
        c->chunk_bytes > CHUNK_MAX)
        return MTP_FAIL(MTP_E_ARG, "chunk_bytes=%u is not a power of two from %u to %u", c->chunk_bytes,
                        CHUNK_MIN, CHUNK_MAX);
    if (c->buffer_bytes == 0)
        c->buffer_bytes = BUFFER_DEFAULT;
    if (c->buffer_bytes < CHUNKS_MIN * (uint64_t)c->chunk_bytes || c->buffer_bytes > BUFFER_MAX)
        return MTP_FAIL(MTP_E_ARG,
                        "buffer_bytes=%llu must be at least %u chunks of %u bytes and at most 1 TiB",
                        (unsigned long long)c->buffer_bytes, CHUNKS_MIN, c->chunk_bytes);
    c->buffer_bytes -= c->buffer_bytes % c->chunk_bytes;
    if ((unsigned)c->when_full > MTP_STREAM)
        return MTP_FAIL(MTP_E_ARG, "when_full=%d is not one of stop, keep newest and stream",
                        (int)c->when_full);
    if (c->when_full == MTP_STREAM && c->spool == NULL)
        return MTP_FAIL(MTP_E_ARG, "when_full=stream needs a file to stream to: set spool");
    if (c->when_full == MTP_STREAM && c->spool_bytes != 0 &&
        c->spool_bytes < CHUNKS_MIN * (uint64_t)c->chunk_bytes)
        return MTP_FAIL(MTP_E_ARG, "spool_bytes=%llu holds fewer than %u chunks of %u bytes",
                        (unsigned long long)c->spool_bytes, CHUNKS_MIN, c->chunk_bytes);
    if (c->follow_fork && c->spool == NULL)
        return MTP_FAIL(MTP_E_ARG, "follow_fork needs a spool: a child's records go to <spool>.<pid>");
    if (c->spool != NULL && c->spool[0] == 0)
        return MTP_FAIL(MTP_E_ARG, "spool is an empty path");
    return c->spool != NULL ? mtp__spool_pattern_check(c->spool) : MTP_OK;
}

static mtp_status config_check(mtp_profile_config *c)
{
    if (c->activities == 0)
        c->activities = MTP_CPU | MTP_NPU;
    if ((c->activities & ~(MTP_CPU | MTP_NPU)) != 0)
        return MTP_FAIL(MTP_E_ARG, "activities=0x%x has bits other than CPU and NPU", c->activities);
    if (schedule_given(&c->schedule)) {
        if (c->schedule_callback != NULL)
            return MTP_FAIL(MTP_E_ARG, "schedule and schedule_callback are both set");
        mtp_status status = mtp_schedule_check(&c->schedule);
        if (status != MTP_OK)
            return status;
    }
    return config_check_budget(c);
}

mtp_status mtp_profile_create(const mtp_profile_config *config, mtp_profile **out)
{
    if (out == NULL)
        return MTP_FAIL(MTP_E_ARG, "out is NULL");
    *out = NULL;
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    mtp_status status = MTP__ABI_READ(&c, config, mtp_profile_config, spool_bytes);
    if (status == MTP_OK)
        status = config_check(&c);
    if (status != MTP_OK)
        return status;
    mtp_profile *prof = mtp__calloc(1, sizeof *prof);
    if (prof == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "a profile");
    prof->config = c;
    prof->config.spool = NULL;
    prof->driver_frame = UINTPTR_MAX;
    if (c.spool != NULL && (prof->config.spool = mtp__strdup(c.spool)) == NULL) {
        mtp__free(prof);
        return MTP_FAIL(MTP_E_NOMEM, "the spool's path");
    }
    bool counted = schedule_given(&c.schedule);
    prof->has_schedule = counted || c.schedule_callback != NULL;
    *out = prof;
    if (counted && c.schedule.warmup == 0)
        mtp__profile_warn(prof, MTP_WARNING_NO_WARMUP,
                          "Profiler won't be using warmup, this can skew profiler results");
    return MTP_OK;
}

void mtp_profile_destroy(mtp_profile *prof)
{
    if (prof == NULL)
        return;
    mtp__profile_retire(prof);
    if (prof->recording)
        mtp__recorder_stop(prof->recorder, NULL);
    mtp__hold before = mtp__writer_hold();
    mtp__registry_lock(); /* another thread may be forking, and looking at it */
    mtp__profile_release(prof);
    mtp__registry_unlock();
    mtp__writer_release(before);
    mtp__recorder_destroy(prof->recorder);
    mtp__profile_free_presets(prof);
    mtp__free((char *)prof->config.spool);
    mtp__free(prof);
    mtp__profile_resume();
}

/* ------------------------------------------------------------------------------ prepare, start, stop */

static mtp_status recorder_make(mtp_profile *prof)
{
    const mtp_profile_config *c = &prof->config;
    mtp__recorder_config rc = {
        .pool = {c->buffer_bytes, c->chunk_bytes, c->when_full, c->spool, c->spool_bytes},
        .flags = c->activities | (c->record_shapes ? MTP_WITH_SHAPES : 0) |
                 (c->with_stack ? MTP_WITH_STACK : 0) | (c->profile_memory ? MTP_WITH_MEMORY : 0) |
                 (c->with_flops ? MTP_WITH_FLOPS : 0) | (c->with_modules ? MTP_WITH_MODULES : 0),
    };
    mtp_status status = mtp__recorder_create(&rc, &prof->recorder);
    const mtp__spool_name *name = status == MTP_OK ? prof->recorder->pool.file.name : NULL;
    if (name != NULL)
        memcpy(prof->spool_root, name->path, sizeof prof->spool_root);
    if (name != NULL && name->kept[0] != 0)
        mtp__profile_warn(prof, MTP_WARNING_SPOOL_KEPT,
                          "spool '%s' held a recording that process %llu did not stop: it was kept as '%s'",
                          name->path, (unsigned long long)name->kept_pid, name->kept);
    return status;
}

static const mtp__spool_name *spool_name(const mtp_profile *prof)
{
    return prof != NULL && prof->recorder != NULL && prof->recorder->pool.base != NULL
               ? prof->recorder->pool.file.name
               : NULL;
}

const char *mtp_profile_spool_kept(const mtp_profile *prof)
{
    const mtp__spool_name *name = spool_name(prof);
    return name != NULL && name->kept[0] != 0 ? name->kept : NULL;
}

const char *mtp_profile_spool(const mtp_profile *prof)
{
    const mtp__spool_name *name = spool_name(prof);
    return name != NULL ? name->path : NULL;
}

static mtp_status prepare(mtp_profile *prof)
{
    static atomic_bool warned;
    if (prof->recorder != NULL && prof->recorder->leaked && !prof->config.acc_events &&
        prof->config.spool == NULL) { /* its chunks cannot be reused */
        mtp__recorder_destroy(prof->recorder);
        prof->recorder = NULL;
    }
    if (prof->recorder == NULL) {
        mtp_status status = recorder_make(prof);
        if (status != MTP_OK)
            return status;
    } else if (!prof->config.acc_events) {
        if (prof->cycles > 0 && prof->config.on_warning != NULL && !atomic_exchange(&warned, true))
            mtp__profile_warn(
                prof, MTP_WARNING_EVENTS_CLEARED,
                "Profiler clears events at the end of each cycle. Only events from last cycle will be "
                "reported. To keep events across cycles, set acc_events=True.");
        if (prof->config.spool == NULL)
            mtp__recorder_clear(prof->recorder);
    }
    prof->unsaved = false;
    mtp__profile_new_trace_id(prof);
    if (prof->config.with_stack)
        mtp__stack_prepare();
    return MTP_OK;
}

static mtp_status start_trace(mtp_profile *prof)
{
    mtp_status status = prof->recorder == NULL ? prepare(prof) : MTP_OK; /* an earlier one may have failed */
    if (status == MTP_OK)
        status = mtp__recorder_start(prof->recorder);
    if (status != MTP_OK)
        return status;
    prof->recording = prof->unsaved = true;
    if (prof->cycles++ == 0 && mtp__clock_trouble() != NULL)
        mtp__profile_warn(prof, MTP_WARNING_CLOCK, "%s", mtp__clock_trouble());
    prof->forks = 0;
    mtp__profile_write_metadata(prof);
    mtp__step_mark(prof->step);
    mtp__watch_begin(prof);
    return MTP_OK;
}

static mtp_status stop_trace(mtp_profile *prof)
{
    uint32_t stuck = 0;
    if (!prof->recording)
        return MTP_OK; /* its start failed and reported that */
    if (!prof->leaving)
        mtp__watch_end(prof);
    mtp_status status = mtp__recorder_stop(prof->recorder, &stuck);
    if (status != MTP_OK)
        return status;
    prof->recording = false;
    if (prof->by_hand)
        mtp__profile_release(prof);
    mtp__profile_warn_after(prof, stuck);
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------- the schedule */

static mtp_action action_at(mtp_profile *prof, uint64_t step)
{
    if (prof->config.schedule_callback != NULL)
        return prof->config.schedule_callback(prof->config.user, step);
    return prof->has_schedule ? mtp_schedule_action(&prof->config.schedule, step) : MTP_ACTION_RECORD;
}

/* P prepare, S start, X stop, R on_trace_ready; 1, 2, 3: the warnings below. Column 4: stop(). */
static const char *const transit[4][5] = {
    /* from            NONE   WARMUP  RECORD  R&S     exit */
    /* NONE    */ {"", "P", "PS", "PS", ""},
    /* WARMUP  */ {"1SX", "", "S", "S", "SX"},
    /* RECORD  */ {"2X", "3X", "", "", "XR"},
    /* R & S   */ {"XR", "XRP", "XRPS", "XRPS", "XR"},
};

static const char *const transit_warning[] = {
    "Incorrect schedule: WARMUP followed by NONE",
    "Incorrect schedule: RECORD followed by NONE",
    "Incorrect schedule: RECORD followed by WARMUP",
};

static mtp_status take(mtp_profile *prof, char what)
{
    switch (what) {
    case 'P':
        return prepare(prof);
    case 'S':
        return start_trace(prof);
    case 'X':
        return stop_trace(prof);
    case 'R':
        if (prof->config.on_trace_ready != NULL && prof->unsaved) {
            prof->unsaved = false;
            prof->in_callback = true;
            prof->config.on_trace_ready(prof, prof->config.user);
            prof->in_callback = false;
        }
        return MTP_OK;
    default:
        mtp__profile_warn(prof, (mtp_warning)(MTP_WARNING_WARMUP_THEN_NONE + (what - '1')), "%s",
                          transit_warning[what - '1']);
        return MTP_OK;
    }
}

typedef struct transition {
    mtp_profile *prof;
    const char *next; /* the current and the remaining actions */
    mtp_status first; /* of the first action that failed */
} transition;

static void transit_on(transition *t)
{
    for (; *t->next != 0; t->next++) {
        if (t->prof->leaving && strchr("PSX", *t->next) == NULL)
            continue;
        mtp_status status = take(t->prof, *t->next);
        if (t->first == MTP_OK && status != MTP_OK) {
            if (t->prof->has_schedule)
                MTP_NOTE("step %llu", (unsigned long long)t->prof->step);
            t->first = status;
        }
        if (status != MTP_OK && *t->next == 'P')
            t->next = "P"; /* there is nothing to start */
    }
}

/* Actions remain only if a callback threw. */
static void transit_end(transition *t)
{
    if (*t->next == 0)
        return;
    t->prof->leaving = true;
    t->prof->in_callback = false;
    transit_on(t);
    t->prof->leaving = false;
}

static mtp_status transit_to(mtp_profile *prof, mtp_action from, int to)
{
    transition t __attribute__((cleanup(transit_end))) = {prof, transit[from][to], MTP_OK};
    transit_on(&t);
    return t.first;
}

static void step_scope_begin(mtp_profile *prof)
{
    if (prof->has_schedule)
        prof->step_token = mtp__step_begin(prof->step_name, prof->step);
}

static void step_scope_end(mtp_profile *prof)
{
    mtp_scope_end(prof->step_token);
    prof->step_token = 0;
}

/* A bad return value of a schedule callback must not index the table. */
static mtp_status next_action(mtp_profile *prof, mtp_action *out)
{
    *out = action_at(prof, prof->step);
    if ((unsigned)*out <= MTP_ACTION_RECORD_AND_SAVE)
        return MTP_OK;
    int answer = (int)*out;
    *out = MTP_ACTION_NONE;
    return MTP_FAIL(MTP_E_ARG, "schedule_callback returned %d for step %llu", answer,
                    (unsigned long long)prof->step);
}

static mtp_status check_called(const mtp_profile *prof, bool active, const char *what, const void *from)
{
    if (mtp__writer_inside(from))
        return MTP_FAIL(MTP_E_STATE,
                        "%s: called from inside a recording call (a stack provider or signal handler)", what);
    if (active && !(prof->active && !prof->by_hand))
        return MTP_FAIL(MTP_E_STATE, "%s: no active session; call mtp_profile_start() first", what);
    return MTP_OK;
}

/* A call that drives the profile, from its checks to its end, however it ends. */
typedef struct driving {
    mtp_profile *prof; /* NULL: another call drives it */
} driving;

static void drive_end(driving *d)
{
    if (d->prof == NULL)
        return;
    d->prof->driver_frame = UINTPTR_MAX;
    atomic_store(&d->prof->driver, 0);
}

/* A callback left the call by longjmp, and no cleanup ran. */
static void drive_mend(mtp_profile *prof)
{
    prof->in_callback = prof->leaving = false;
    if (prof->stopping)
        mtp__profile_release(prof);
    prof->stopping = false;
}

/* A tool's profile is paused and resumed by the program's threads, while its owner may stop it: the other one waits. */
static bool claim_wheel(mtp_profile *prof, uintptr_t *driver, uintptr_t me)
{
    const struct timespec moment = {0, 1000000};
    for (int i = 0; !atomic_compare_exchange_strong(&prof->driver, driver, me); i++) {
        if (*driver == me || !prof->config.gives_way || i == WHEEL_MS)
            return false;
        nanosleep(&moment, NULL);
        *driver = 0;
    }
    return true;
}

#define drive(prof, active, what, d) drive_from(prof, active, what, d, __builtin_dwarf_cfa())
static mtp_status drive_from(mtp_profile *prof, bool active, const char *what, driving *d, const void *from)
{
    uintptr_t driver = 0, me = (uintptr_t)pthread_self();
    if (prof == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s: the profile is NULL", what);
    if (!claim_wheel(prof, &driver, me)) {
        if (driver != me)
            return MTP_FAIL(MTP_E_STATE,
                            "%s: another thread is starting, stepping or stopping this profile: only one "
                            "may do so at a time",
                            what);
        if (!mtp__frame_is_gone(prof->driver_frame, (uintptr_t)from))
            return MTP_FAIL(MTP_E_STATE, "%s: called from inside %s", what,
                            prof->in_callback ? "on_trace_ready"
                                              : "another call on this profile (a callback or handler)");
        drive_mend(prof);
    }
    d->prof = prof;
    prof->driver_frame = (uintptr_t)from;
    return check_called(prof, active, what, from);
}

/* A start that fails, or is left by an exception, is undone. */
typedef struct claim {
    mtp_profile *prof; /* NULL: the start succeeded */
} claim;

static void claim_end(claim *c)
{
    mtp_profile *prof = c->prof;
    if (prof == NULL)
        return;
    prof->leaving = true;
    stop_trace(prof);
    prof->leaving = false;
    mtp__profile_release(prof);
    prof->action = MTP_ACTION_NONE;
}

/* Last of all: the profile that gave way to this one resumes if this one is over. */
static void displaced_resume(int *unused)
{
    (void)unused;
    mtp__profile_resume();
}

mtp_status mtp_profile_start(mtp_profile *prof)
{
    int displaced __attribute__((cleanup(displaced_resume))) = 0;
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, false, "start", &d);
    if (status != MTP_OK)
        return status;
    if (prof->active)
        return MTP_FAIL(MTP_E_STATE, "start: this profile is already active");
    prof->by_hand = false; /* before others can see it as the active one */
    if (!mtp__profile_take(prof))
        return MTP_FAIL(MTP_E_BUSY, "another profiler session is already active");
    claim mine __attribute__((cleanup(claim_end))) = {prof};
    prof->step = 0;
    prof->cycles_before = prof->cycles;
    prof->step_name = mtp_name("ProfilerStep#");
    status = next_action(prof, &prof->action);
    if (status == MTP_OK)
        status = transit_to(prof, MTP_ACTION_NONE, (int)prof->action);
    if (status != MTP_OK)
        return status;
    mine.prof = NULL;
    step_scope_begin(prof);
    return MTP_OK;
}

/* The end of a step(), however it ends. */
typedef struct stepping {
    mtp_profile *prof;
    uint64_t cycle;
    bool was_recording;
} stepping;

static void step_end(stepping *s)
{
    if (s->prof->recording && s->was_recording && s->prof->cycles == s->cycle)
        mtp__step_mark(s->prof->step); /* a new cycle has marked its own */
    step_scope_begin(s->prof);
}

mtp_status mtp_profile_step(mtp_profile *prof)
{
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, true, "step", &d);
    if (status != MTP_OK)
        return status;
    step_scope_end(prof);
    mtp_action before = prof->action;
    stepping s __attribute__((cleanup(step_end))) = {prof, prof->cycles, prof->recording};
    prof->step++;
    status = next_action(prof, &prof->action);
    mtp_status moved = transit_to(prof, before, (int)prof->action);
    return status != MTP_OK ? status : moved;
}

/* The schedule was stopped before its first recorded step: reports how far it got. */
static void warn_nothing(mtp_profile *prof)
{
    const mtp_schedule *s = &prof->config.schedule;
    if (prof->config.schedule_callback != NULL) {
        mtp__profile_warn(prof, MTP_WARNING_NOTHING_RECORDED,
                          "nothing was recorded: schedule_callback did not request it in %llu steps",
                          (unsigned long long)prof->step + 1);
        return;
    }
    uint64_t first =
        (uint64_t)s->skip_first + (uint64_t)(s->skip_first_wait != 0 ? 0 : s->wait) + (uint64_t)s->warmup;
    mtp__profile_warn(
        prof, MTP_WARNING_NOTHING_RECORDED,
        "nothing was recorded: step() was called %llu times, and this schedule records from step %llu "
        "on (and saves at step %llu)",
        (unsigned long long)prof->step, (unsigned long long)first,
        (unsigned long long)first + (uint64_t)s->active);
}

static void release_end(mtp_profile **prof)
{
    mtp__profile_release(*prof);
    (*prof)->stopping = false;
}

mtp_status mtp_profile_stop(mtp_profile *prof)
{
    int displaced __attribute__((cleanup(displaced_resume))) = 0;
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, true, "stop", &d);
    if (status != MTP_OK)
        return status;
    mtp_profile *stopping __attribute__((cleanup(release_end))) = prof;
    prof->stopping = true;
    step_scope_end(stopping);
    bool ever = prof->cycles > prof->cycles_before;
    mtp_action last = prof->action;
    prof->action = MTP_ACTION_NONE;
    status = transit_to(prof, last, 4);
    if (!ever)
        warn_nothing(prof);
    return status;
}

/* ------------------------------------------------------------------------------------------ by hand */

mtp_status mtp_profile_prepare_trace(mtp_profile *prof)
{
    int displaced __attribute__((cleanup(displaced_resume))) = 0;
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, false, "prepare_trace", &d);
    if (status != MTP_OK)
        return status;
    if (prof->recording || (prof->active && !prof->by_hand))
        return MTP_FAIL(MTP_E_STATE, "prepare_trace: this profile is already recording");
    if (!prof->active)
        prof->by_hand = true;
    if (!prof->active && !mtp__profile_take(prof))
        return MTP_FAIL(MTP_E_BUSY, "another profiler session is already active");
    claim mine __attribute__((cleanup(claim_end))) = {prof};
    status = prepare(prof);
    if (status == MTP_OK)
        mine.prof = NULL;
    return status;
}

mtp_status mtp_profile_start_trace(mtp_profile *prof)
{
    int displaced __attribute__((cleanup(displaced_resume))) = 0;
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, false, "start_trace", &d);
    if (status != MTP_OK)
        return status;
    if (prof->recorder == NULL)
        return MTP_FAIL(MTP_E_STATE, "Profiler must be initialized before starting trace");
    if (prof->recording)
        return MTP_FAIL(MTP_E_STATE, "start_trace: this profile is already recording");
    bool claimed = !prof->active;
    if (claimed)
        prof->by_hand = true;
    if (claimed && !mtp__profile_take(prof))
        return MTP_FAIL(MTP_E_BUSY, "another profiler session is already active");
    claim mine __attribute__((cleanup(claim_end))) = {claimed ? prof : NULL};
    status = start_trace(prof);
    if (status == MTP_OK)
        mine.prof = NULL;
    return status;
}

mtp_status mtp_profile_stop_trace(mtp_profile *prof)
{
    int displaced __attribute__((cleanup(displaced_resume))) = 0;
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, false, "stop_trace", &d);
    if (status != MTP_OK)
        return status;
    if (prof->recorder == NULL)
        return MTP_FAIL(MTP_E_STATE, "Profiler must be initialized before stopping trace");
    mtp__profile_forget(prof);
    bool idle = !prof->recording && prof->by_hand;
    status = stop_trace(prof); /* which releases it */
    if (status == MTP_OK && idle)
        mtp__profile_release(prof);
    return status;
}

/* The program starts a profile of its own. */
mtp_status mtp__profile_pause(mtp_profile *prof)
{
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, false, "start", &d);
    if (status != MTP_OK || mtp__profile_active() != prof)
        return status;
    bool was_recording = prof->recording;
    status = stop_trace(prof); /* which releases it */
    if (status != MTP_OK)
        return status;
    if (!was_recording) {
        mtp__profile_release(prof);
        return MTP_OK;
    }
    mtp__profile_remember(prof);
    mtp__profile_warn(prof, MTP_WARNING_GAVE_WAY,
                      "the program started a profile of its own: until it stops, this one pauses");
    return MTP_OK;
}

void mtp__profile_unpause(mtp_profile *prof)
{
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    if (drive(prof, false, "start_trace", &d) != MTP_OK || !mtp__profile_forget(prof))
        return; /* its owner stopped it */
    if (!mtp__profile_claim(prof)) {
        mtp__profile_remember(prof);
        return;
    }
    claim mine __attribute__((cleanup(claim_end))) = {prof};
    if (start_trace(prof) == MTP_OK)
        mine.prof = NULL;
}

mtp_status mtp_profile_mark_step(mtp_profile *prof, uint64_t number)
{
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    mtp_status status = drive(prof, false, "mark_step", &d);
    if (status != MTP_OK)
        return status;
    if (prof->active && !prof->by_hand)
        return MTP_FAIL(MTP_E_STATE, "mark_step: this profile counts its own steps; call mtp_profile_step()");
    prof->step = number;
    if (prof->recording)
        mtp__step_mark(number);
    return MTP_OK;
}

mtp_status mtp_profile_toggle(mtp_profile *prof, bool enable, uint32_t activities)
{
    if (prof == NULL)
        return MTP_FAIL(MTP_E_ARG, "toggle: the profile is NULL");
    driving d __attribute__((cleanup(drive_end))) = {NULL};
    bool inside = atomic_load(&prof->driver) == (uintptr_t)pthread_self(); /* callbacks may call this */
    mtp_status status = inside ? MTP_OK : drive(prof, false, "toggle", &d);
    if (status != MTP_OK)
        return status;
    if ((activities & ~(MTP_CPU | MTP_NPU)) != 0)
        return MTP_FAIL(MTP_E_ARG, "toggle: activities=0x%x has bits other than CPU and NPU", activities);
    if (prof->recorder != NULL)
        mtp__recorder_toggle(prof->recorder, enable, activities);
    return MTP_OK;
}

/* -------------------------------------------------------------------------------------------- state */

uint64_t mtp_profile_step_number(const mtp_profile *prof)
{
    return prof != NULL ? prof->step : 0;
}

mtp_action mtp_profile_action(const mtp_profile *prof)
{
    return prof != NULL ? prof->action : MTP_ACTION_NONE;
}

bool mtp_profile_is_recording(const mtp_profile *prof)
{
    return prof != NULL && prof->recording;
}

bool mtp_profile_gives_way(const mtp_profile *prof)
{
    return prof != NULL && prof->config.gives_way;
}

const char *mtp_profile_trace_id(const mtp_profile *prof)
{
    return prof != NULL && prof->has_trace_id ? prof->trace_id : NULL;
}

mtp_status mtp_profile_ledger(const mtp_profile *prof, mtp_ledger *out)
{
    if (prof == NULL || out == NULL)
        return MTP_FAIL(MTP_E_ARG, "ledger: profile or out is NULL");
    mtp_status status = MTP__ABI_CHECK(out, mtp_ledger, threads);
    if (status != MTP_OK)
        return status;
    mtp_ledger found = MTP_LEDGER_INIT;
    if (prof->recorder != NULL)
        mtp__recorder_ledger(prof->recorder, &found);
    mtp__abi_write(out, &found, sizeof found);
    return MTP_OK;
}
