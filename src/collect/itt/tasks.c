/* collect/itt/tasks.c - tasks, regions, frames, events and markers of ITT, and the names of threads.
 *
 * Timestamps that a program passes itself (the _ex calls) are ignored: a scope begins and ends now.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include "collect/itt/itt.h"
#include "collect/ranges.h"

typedef const mtp__itt_domain *domain_in;

/* Frames and tasks of one domain are ended separately. */
static const void *frames_of(domain_in domain)
{
    return (const char *)domain + 1;
}

static mtp_token begin(uint32_t name, bool is_op)
{
    mtp__ranges_settle();
    if (!is_op)
        return mtp_scope_begin(name);
    mtp_op op = MTP_OP_INIT(name);
    mtp_op_begin(&op);
    return op.token;
}

/* --------------------------------------------------------------------------------------------- tasks */

static void task_begin(domain_in domain, mtp__itt_id id, mtp__itt_id parent, mtp__itt_string *string)
{
    (void)id, (void)parent; /* parents are those of the stack */
    if (!mtp__itt_wanted() || domain == NULL) {
        mtp__ranges_skip(domain);
        return;
    }
    const mtp__itt_shown *shown = mtp__itt_show(domain, string);
    mtp__ranges_push(domain, shown != NULL ? begin(shown->name, shown->is_op) : 0);
}

static void task_begin_fn(domain_in domain, mtp__itt_id id, mtp__itt_id parent, void *function)
{
    (void)id, (void)parent;
    if (!mtp__itt_wanted() || domain == NULL) {
        mtp__ranges_skip(domain);
        return;
    }
    mtp__ranges_push(domain, begin(mtp__itt_function_name(domain, function), mtp__itt_is_op(domain)));
}

static void task_end(domain_in domain)
{
    mtp__ranges_end(domain);
}

static void task_begin_ex(domain_in domain, void *clock, uint64_t when, mtp__itt_id id, mtp__itt_id parent,
                          mtp__itt_string *string)
{
    (void)clock, (void)when;
    task_begin(domain, id, parent, string);
}

static void task_begin_fn_ex(domain_in domain, void *clock, uint64_t when, mtp__itt_id id, mtp__itt_id parent,
                             void *function)
{
    (void)clock, (void)when;
    task_begin_fn(domain, id, parent, function);
}

static void task_end_ex(domain_in domain, void *clock, uint64_t when)
{
    (void)clock, (void)when;
    task_end(domain);
}

/* ------------------------------------------------------------------- tasks and regions that an id names */

static mtp__range_key key_of(const void *owner, mtp__itt_id id)
{
    return (mtp__range_key){{(uint64_t)(uintptr_t)owner, id.d1, id.d2, id.d3}};
}

static void overlapped_begin(domain_in domain, mtp__itt_id id, mtp__itt_id parent, mtp__itt_string *string)
{
    (void)parent;
    if (!mtp__itt_wanted() || domain == NULL)
        return;
    const mtp__itt_shown *shown = mtp__itt_show(domain, string);
    mtp__range_key key = key_of(domain, id);
    if (shown != NULL)
        mtp__range_start(&key, begin(shown->name, shown->is_op), shown->name);
}

static void overlapped_end(domain_in domain, mtp__itt_id id)
{
    mtp__range_key key = key_of(domain, id);
    mtp__range_end(&key);
}

static void overlapped_begin_ex(domain_in domain, void *clock, uint64_t when, mtp__itt_id id,
                                mtp__itt_id parent, mtp__itt_string *string)
{
    (void)clock, (void)when;
    overlapped_begin(domain, id, parent, string);
}

static void overlapped_end_ex(domain_in domain, void *clock, uint64_t when, mtp__itt_id id)
{
    (void)clock, (void)when;
    overlapped_end(domain, id);
}

/* -------------------------------------------------------------------------------------------- frames */

static void frame_begin(domain_in domain, const mtp__itt_id *id)
{
    if (!mtp__itt_wanted() || domain == NULL) {
        if (id == NULL)
            mtp__ranges_skip(frames_of(domain));
        return;
    }
    const mtp__itt_shown *shown = mtp__itt_show_frame(domain);
    mtp_token token = shown != NULL ? begin(shown->name, false) : 0;
    if (id == NULL) {
        mtp__ranges_push(frames_of(domain), token);
    } else {
        mtp__range_key key = key_of(frames_of(domain), *id);
        mtp__range_start(&key, token, shown != NULL ? shown->name : 0);
    }
}

static void frame_end(domain_in domain, const mtp__itt_id *id)
{
    if (id == NULL) {
        mtp__ranges_end(frames_of(domain));
    } else {
        mtp__range_key key = key_of(frames_of(domain), *id);
        mtp__range_end(&key);
    }
}

/* A frame in the past: a mark at its end is what can be shown of it. */
static void frame_submit(domain_in domain, const mtp__itt_id *id, uint64_t from, uint64_t to)
{
    (void)id, (void)from, (void)to;
    const mtp__itt_shown *shown = mtp__itt_wanted() && domain != NULL ? mtp__itt_show_frame(domain) : NULL;
    if (shown != NULL)
        mtp_mark(shown->name);
}

/* -------------------------------------------------------------------------------- markers and events */

static void marker(domain_in domain, mtp__itt_id id, mtp__itt_string *string, int scope)
{
    (void)id, (void)scope;
    const mtp__itt_shown *shown = mtp__itt_wanted() && domain != NULL ? mtp__itt_show(domain, string) : NULL;
    if (shown != NULL)
        mtp_mark(shown->name);
}

static void marker_ex(domain_in domain, void *clock, uint64_t when, mtp__itt_id id, mtp__itt_string *string,
                      int scope)
{
    (void)clock, (void)when;
    marker(domain, id, string, scope);
}

/* The oldest interface: an event is a number, here that of its name. */
static int event_create(const char *name, int length)
{
    return name != NULL && length >= 0 ? (int)mtp_name_n(name, strnlen(name, (size_t)length)) : 0;
}

static const void *event_owner(int event)
{
    return (const char *)NULL + 2 * (size_t)(uint32_t)event + 1; /* odd: no domain has such an address */
}

static int event_start(int event)
{
    if (mtp__itt_wanted())
        mtp__ranges_push(event_owner(event), begin((uint32_t)event, false));
    else
        mtp__ranges_skip(event_owner(event));
    return 0;
}

static int event_end(int event)
{
    mtp__ranges_end(event_owner(event));
    return 0;
}

/* ------------------------------------------------------------------------------------------- threads */

static void thread_set_name(const char *name)
{
    if (name != NULL)
        mtp_thread_name(0, name);
}

static int thr_name_set(const char *name, int length)
{
    (void)length;
    thread_set_name(name);
    return 0;
}

static uint64_t get_timestamp(void)
{
    return mtp_now_ns();
}

static void set_paused(bool paused)
{
    __atomic_store_n(&mtp__itt_paused, paused, __ATOMIC_RELAXED);
}

static void pause_all(void)
{
    set_paused(true);
}

static void resume_all(void)
{
    set_paused(false);
}

static void pause_scoped(int scope)
{
    (void)scope;
    set_paused(true);
}

static void resume_scoped(int scope)
{
    (void)scope;
    set_paused(false);
}

const mtp__itt_entry mtp__itt_tasks[] = {
    MTP__ITT_ENTRY("domain_create", mtp__itt_domain_create),
    MTP__ITT_ENTRY("string_handle_create", mtp__itt_string_create),
    MTP__ITT_ENTRY("task_begin", task_begin),
    MTP__ITT_ENTRY("task_begin_fn", task_begin_fn),
    MTP__ITT_ENTRY("task_end", task_end),
    MTP__ITT_ENTRY("task_begin_ex", task_begin_ex),
    MTP__ITT_ENTRY("task_begin_fn_ex", task_begin_fn_ex),
    MTP__ITT_ENTRY("task_end_ex", task_end_ex),
    MTP__ITT_ENTRY("task_begin_overlapped", overlapped_begin),
    MTP__ITT_ENTRY("task_begin_overlapped_ex", overlapped_begin_ex),
    MTP__ITT_ENTRY("task_end_overlapped", overlapped_end),
    MTP__ITT_ENTRY("task_end_overlapped_ex", overlapped_end_ex),
    MTP__ITT_ENTRY("region_begin", overlapped_begin),
    MTP__ITT_ENTRY("region_end", overlapped_end),
    MTP__ITT_ENTRY("frame_begin_v3", frame_begin),
    MTP__ITT_ENTRY("frame_end_v3", frame_end),
    MTP__ITT_ENTRY("frame_submit_v3", frame_submit),
    MTP__ITT_ENTRY("marker", marker),
    MTP__ITT_ENTRY("marker_ex", marker_ex),
    MTP__ITT_ENTRY("event_create", event_create),
    MTP__ITT_ENTRY("event_start", event_start),
    MTP__ITT_ENTRY("event_end", event_end),
    MTP__ITT_ENTRY("thread_set_name", thread_set_name),
    MTP__ITT_ENTRY("thr_name_set", thr_name_set),
    MTP__ITT_ENTRY("get_timestamp", get_timestamp),
    MTP__ITT_ENTRY("pause", pause_all),
    MTP__ITT_ENTRY("resume", resume_all),
    MTP__ITT_ENTRY("pause_scoped", pause_scoped),
    MTP__ITT_ENTRY("resume_scoped", resume_scoped),
    {NULL, NULL},
};
