/* tests/unit/recordings.h - for the tests of trace/join: recordings of several processes, and what is found in
 * the trace that they become. */
#ifndef TESTS_UNIT_RECORDINGS_H
#define TESTS_UNIT_RECORDINGS_H
#include "tests/test.h"
#include <sys/stat.h>
#include <unistd.h>
#include "trace/trace.h"

/* A new folder, empty, with a path that stays valid. */
static inline const char *new_folder(const char *suffix)
{
    static char path[16][512];
    static unsigned turn;
    char name[64];
    static unsigned number;
    snprintf(name, sizeof name, "set%u%s", number++, suffix);
    char *out = path[turn++ % 16];
    snprintf(out, sizeof path[0], "%s", test_path(name));
    assert_int_equal(mkdir(out, 0700), 0);
    return out;
}

/* A file in a folder; valid until the 16th next call. */
static inline const char *in_folder(const char *folder, const char *name)
{
    static char path[16][600];
    static unsigned turn;
    char *out = path[turn++ % 16];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

/* Records what fn does into a spool, in this process. */
typedef void record_fn(void *arg);
static inline void record_here(const char *spool, record_fn *fn, void *arg)
{
    mtp_profile_config c = test_config(NULL);
    c.spool = spool;
    c.record_shapes = c.profile_memory = true;
    mtp_profile *prof = NULL;
    CHILD_CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    CHILD_CHECK(mtp_profile_start(prof) == MTP_OK);
    fn(arg);
    CHILD_CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
}

typedef struct recording_child {
    const char *spool;
    record_fn *fn;
    void *arg;
} recording_child;

static inline void record_in_child(void *arg)
{
    const recording_child *c = arg;
    record_here(c->spool, c->fn, c->arg);
}

/* The same in a child, which has ended when this returns. */
static inline void record_there(const char *spool, record_fn *fn, void *arg)
{
    recording_child c = {spool, fn, arg};
    assert_true(test_left_well(test_child(record_in_child, &c, 20)));
}

/* Scopes of a shared and an own name, and a mark. */
static inline void record_scopes(void *arg)
{
    const char *own = arg;
    MTP_SCOPE ("shared") {
        MTP_SCOPE_TEXT(own)
        {
        }
    }
    mtp_mark(MTP_NAME("a mark"));
}

static inline mtp_trace *open_all(const char *path)
{
    mtp_trace *t;
    assert_ok(mtp_trace_open(path, NULL, &t));
    return t;
}

static inline uint32_t count_named(const mtp_trace *t, const char *name)
{
    uint32_t count = 0, id = mtp__trace_find_text(t, name);
    for (uint32_t i = 0; id != 0 && i < t->span_count; i++)
        count += t->name[i] == id;
    return count;
}

static inline uint32_t find_named(const mtp_trace *t, const char *name, uint32_t nth)
{
    uint32_t id = mtp__trace_find_text(t, name);
    for (uint32_t i = 0; id != 0 && i < t->span_count; i++)
        if (t->name[i] == id && nth-- == 0)
            return i;
    fail_msg("no span '%s'", name);
    return 0;
}

static inline const mtp__track *track_of(const mtp_trace *t, uint32_t span)
{
    return &t->tracks[mtp__trace_track_of(t, span)];
}

static inline mtp_recording_info recording_of(const mtp_trace *t, size_t i)
{
    mtp_recording_info r = MTP_RECORDING_INFO_INIT;
    assert_ok(mtp_trace_recording(t, i, &r));
    return r;
}

/* In the order of the model: by track, each by start, parents before children. */
static inline void assert_sound(const mtp_trace *t)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < t->track_count; k++) {
        assert_int_equal(t->tracks[k].first, at);
        at += t->tracks[k].count;
        for (uint32_t i = t->tracks[k].first; i < at; i++) {
            assert_true(i == t->tracks[k].first || t->start[i - 1] <= t->start[i]);
            assert_true(t->end[i] >= t->start[i]);
            assert_true(t->start[i] >= t->first_ns && t->end[i] <= t->last_ns);
            if (t->parent[i] != MTP__NONE)
                assert_true(t->parent[i] < i && t->parent[i] >= t->tracks[k].first);
        }
    }
    assert_int_equal(at, t->span_count);
}
#endif
