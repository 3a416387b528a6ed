/* check/scan.h - of checking a JSON file, what its parts share. (Apart from check.h, since base/json_out.h and
 * trace/json/scan.h each have an mtp__json_string.)
 */
#ifndef MTP_CHECK_SCAN_H
#define MTP_CHECK_SCAN_H
#include "check/check.h"
#include "base/pair_map.h"
#include "trace/json/scan.h"

/* Members of an event that rules are about. X(symbol, key) */
#define MTP__MEMBER_LIST(X)                                                                                  \
    X(PH, "ph")                                                                                              \
    X(NAME, "name")                                                                                          \
    X(CAT, "cat")                                                                                            \
    X(TS, "ts")                                                                                              \
    X(DUR, "dur")                                                                                            \
    X(PID, "pid")                                                                                            \
    X(TID, "tid")                                                                                            \
    X(ID, "id")                                                                                              \
    X(BP, "bp")                                                                                              \
    X(S, "s")                                                                                                \
    X(ARGS, "args")
#define X(sym, key) MTP__MEMBER_##sym,
typedef enum mtp__member {
    MTP__MEMBER_LIST(X) MTP__MEMBERS
} mtp__member;
#undef X

/* A span or a flow, for what is to be looked at when all are known. */
typedef struct mtp__check_span {
    int64_t start, end; /* ns */
    uint64_t byte;
    uint32_t row, event;
} mtp__check_span;

typedef struct mtp__check_flow {
    int64_t at;
    uint64_t id, name, byte; /* name: its hash */
    uint32_t row, event;
    char phase;
} mtp__check_flow;

typedef struct mtp__checker {
    mtp_check *check; /* borrowed */
    mtp__json json;
    uint64_t event;     /* the number of the one that is looked at */
    uint64_t byte;      /* where it is */
    int64_t last_ts;    /* of the event before; INT64_MIN: none */
    mtp__pair_map rows; /* pid, tid: row */
    mtp__pair_map correlations;
    mtp__check_span *spans; /* owned */
    mtp__check_flow *flows; /* owned */
    size_t span_count, span_room, flow_count, flow_room;
    uint64_t kernels, kernel_byte, kernel_event; /* device work: how many, where first */
    uint64_t launch_flows;
    bool no_memory; /* latched */
} mtp__checker;

/* event.c: the text of one event, which mtp__json_skip() took. */
void mtp__check_event(mtp__checker *c, const char *text, size_t length);
/* One value's text: is it strict? Called if the scanner saw anything odd in it. */
void mtp__check_strict(mtp__checker *c, const char *text, size_t length, uint64_t byte, uint64_t event);

/* order.c: sets memory free on the way. */
mtp_status mtp__check_order(mtp__checker *c);
#endif
