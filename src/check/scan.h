/* check/scan.h - shared by the parts that check a JSON file. (Separate from check.h, since base/json_out.h
 * and trace/json/scan.h each have an mtp__json_string.)
 */
#ifndef MTP_CHECK_SCAN_H
#define MTP_CHECK_SCAN_H
#include "check/check.h"
#include "base/pair_map.h"
#include "trace/json/scan.h"

/* Members of an event that have rules. X(symbol, key) */
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

/* A span or a flow, kept for the checks across events. */
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
    uint64_t event;     /* number of the current one */
    uint64_t byte;      /* its position */
    int64_t last_ts;    /* of the previous event; INT64_MIN: none */
    mtp__pair_map rows; /* pid, tid: row */
    mtp__pair_map correlations;
    mtp__check_span *spans; /* owned */
    mtp__check_flow *flows; /* owned */
    size_t span_count, span_room, flow_count, flow_room;
    uint64_t kernels, kernel_byte, kernel_event; /* device work: count, position of the first */
    uint64_t launch_flows;
    bool no_memory; /* latched */
} mtp__checker;

/* event.c: the text of one event, accepted by mtp__json_skip(). */
void mtp__check_event(mtp__checker *c, const char *text, size_t length);
/* Checks whether a value's text is strict JSON. Called if the scanner flagged anything odd. */
void mtp__check_strict(mtp__checker *c, const char *text, size_t length, uint64_t byte, uint64_t event);

/* order.c: frees memory as it proceeds. */
mtp_status mtp__check_order(mtp__checker *c);
#endif
