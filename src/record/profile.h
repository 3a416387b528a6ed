/* record/profile.h - the struct of a profile; the calls are in mtprof.h. */
#ifndef MTP_RECORD_PROFILE_H
#define MTP_RECORD_PROFILE_H
#include <limits.h>
#include <mtprof.h>
#include <stdatomic.h>
#include "record/recorder.h"

typedef struct mtp__preset {
    struct mtp__preset *next; /* owned */
    char *key, *json;         /* owned */
} mtp__preset;

struct mtp_profile {
    mtp_profile_config config; /* spool: owned */
    mtp__recorder *recorder;   /* owned; NULL before the first prepare */
    bool has_schedule;
    bool active;      /* between start and stop, or prepare_trace and stop_trace: the process's only one */
    bool by_hand;     /* driven by prepare_trace and the like */
    bool recording;   /* the recorder is open */
    bool in_callback; /* on_trace_ready is running */
    bool stopping;    /* inside stop() */
    atomic_uintptr_t driver;    /* the thread inside a call that drives it (pthread_self); 0: none */
    uintptr_t driver_frame;     /* where that call is on the driver's stack; UINTPTR_MAX: not known yet */
    mtp_profile *paused_before; /* borrowed; active.c's lock, as the next */
    unsigned held;              /* threads that pause or resume it */
    bool retired;               /* it is being destroyed */
    bool leaving;               /* an exception of a callback is propagating: no more callbacks */
    bool has_trace_id;
    bool unsaved;               /* a cycle was recorded and on_trace_ready has not been called for it */
    uint64_t step, cycles;      /* cycles: started so far */
    uint64_t cycles_before;     /* those of earlier runs */
    atomic_uint_fast64_t forks; /* children forked while recording that were not followed */
    mtp_action action;
    uint32_t step_name;
    mtp_token step_token; /* of the open ProfilerStep# scope */
    mtp__preset *presets; /* owned, in the order given */
    uint32_t metadata_count;
    char trace_id[MTP_TRACE_ID_ROOM];
    char spool_root[PATH_MAX]; /* the spool's expanded path; in a forked child, the parent's */
};

/* warnings.c */
void mtp__profile_warn(mtp_profile *prof, mtp_warning code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));
void mtp__profile_warn_after(mtp_profile *prof, uint32_t stuck); /* after a cycle */

/* metadata.c */
void mtp__profile_new_trace_id(mtp_profile *prof);
void mtp__profile_write_metadata(mtp_profile *prof); /* at each start: flags, presets, trace id */
void mtp__profile_free_presets(mtp_profile *prof);

/* active.c: the process's only active profile */
bool mtp__profile_claim(mtp_profile *prof); /* false: there is another */
bool mtp__profile_take(mtp_profile *prof);  /* the same; one that gives way pauses, and resumes by resume() */
void mtp__profile_resume(void);             /* the last one that paused, unless another is active */
void mtp__profile_remember(mtp_profile *prof); /* it paused */
bool mtp__profile_forget(mtp_profile *prof);   /* it will not resume; false: it was not paused */
void mtp__profile_retire(
    mtp_profile *prof); /* it is about to be destroyed: nobody pauses or resumes it now */
void mtp__profile_ways_forked(void);
void mtp__profile_release(mtp_profile *prof);
mtp_profile *mtp__profile_active(void); /* borrowed; NULL: none */

/* profile.c, for active.c */
mtp_status mtp__profile_pause(mtp_profile *prof);
void mtp__profile_unpause(mtp_profile *prof);

/* watch.c: calls the functions of mtp_watch_add and mtp_flush_add */
void mtp__watch_begin(mtp_profile *prof);
void mtp__watch_end(mtp_profile *prof);

/* events.c */
void mtp__step_mark(uint64_t number);
mtp_token mtp__step_begin(uint32_t name, uint64_t number);
#endif
