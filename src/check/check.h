/* check/check.h - the parts of checking a file against the rules of docs/trace-format.md.
 *
 *   file.c    the whole file, event by event
 *   event.c   rules for a single event
 *   order.c   rules across events: nesting, order, flows
 *   spool.c   our own spools
 *   check.c   the list of findings, and the public calls
 */
#ifndef MTP_CHECK_CHECK_H
#define MTP_CHECK_CHECK_H
#include <mtprof.h>
#include "trace/json/source.h"

#define MTP__NEITHER_FAILS                                                                                   \
    "HTA, TraceLens, TensorBoard, speedscope and chrome://tracing refuse the whole file"

/* X(symbol, rule, severity, text: with at most one %s for an example; effect). Sorted by rule. */
/* clang-format off */
#define MTP__FINDING_LIST(X)                                                                                                   \
    X(NOT_JSON, 1, ERROR, "the text is not JSON: %s", "the rest was not checked; " MTP__NEITHER_FAILS)                         \
    X(CUT_OFF, 1, ERROR, "the file ends inside %s: it is truncated", MTP__NEITHER_FAILS)                                       \
    X(DAMAGED, 1, ERROR, "the compressed content is damaged: %s", "the rest was not checked; no reader gets further: get the file again") \
    X(MEMBERS, 1, ERROR, "the gzip file has %s", "some viewers read only the first member")                                    \
    X(NOT_OBJECT, 1, ERROR, "the file is a list of events, not an object with traceEvents",                                    \
      "HTA, TraceLens and TensorBoard look for traceEvents and find none")                                                     \
    X(NO_EVENTS, 1, ERROR, "there is no traceEvents list", "readers find no events in it")                                     \
    X(TWO_EVENTS, 1, ERROR, "there is a second traceEvents",                                                                   \
      "readers in Python and JavaScript keep the last one and lose the events of the first")                                   \
    X(TOO_NESTED, 1, ERROR, "values are nested more than %s deep", "the rest was not checked; most readers refuse the file")   \
    X(COMMA, 1, ERROR, "a comma with nothing after it", MTP__NEITHER_FAILS)                                                    \
    X(CONTROL, 1, ERROR, "a raw control character in a string (%s)", MTP__NEITHER_FAILS)                                       \
    X(ESCAPE, 1, ERROR, "an invalid escape (%s)", MTP__NEITHER_FAILS)                                                          \
    X(NAN, 1, ERROR, "%s, which is not a JSON number", "JavaScript refuses the whole file: speedscope, chrome://tracing")      \
    X(UTF8, 1, ERROR, "bytes that are not UTF-8 (%s)",                                                                         \
      "Python refuses the whole file: HTA, TraceLens, TensorBoard; others show U+FFFD")                                        \
    X(NO_SCHEMA, 2, NOTE, "there is no schemaVersion", "readers cannot tell the format of the events")                         \
    X(NO_DEVICES, 2, NOTE, "there is no deviceProperties list", "TensorBoard's summary has no devices")                        \
    X(NO_DISTRIBUTED, 2, ERROR, "there is no distributedInfo object", "HTA refuses the file: it cannot tell the rank")         \
    X(NO_RANK, 2, ERROR, "distributedInfo has no numeric rank", "HTA refuses the file: it cannot tell the rank")               \
    X(NO_WORLD, 2, NOTE, "distributedInfo has no %s", "readers of several ranks have to guess it")                             \
    X(NO_SPACE, 2, ERROR, "no space between \"rank\": and its number", "HTA looks for the text '\"rank\": ', and finds none")  \
    X(NO_UNIT, 2, NOTE, "there is no displayTimeUnit", "chrome://tracing picks a unit itself")                                 \
    X(NO_BASE, 2, NOTE, "there is no numeric baseTimeNanoseconds", "the times of several files cannot be aligned")             \
    X(LATE_KEY, 2, NOTE, "%s comes after traceEvents", "readers that stop at the events, as HTA's do, miss it")                \
    X(NOT_EVENT, 3, ERROR, "an item of traceEvents is not an object (%s)", "Python readers and speedscope stop with an error") \
    X(NO_PH, 3, ERROR, "an event has no phase (ph)", "speedscope refuses the whole file; others drop the event")               \
    X(NO_NAME, 3, ERROR, "an event has no name, or an empty one", "viewers show no name; readers that look for names miss it") \
    X(NO_TS, 3, ERROR, "an event has no numeric ts (%s)", "speedscope refuses the whole file; Perfetto drops the event")       \
    X(NO_PID, 3, ERROR, "an event has no pid", "Perfetto puts it on process 0, among other events")                            \
    X(NO_TID, 3, ERROR, "an event has no tid", "Perfetto puts it on the thread that has the process's number")                 \
    X(NO_CAT, 3, ERROR, "a complete event has no category (cat)", "HTA skips it")                                              \
    X(NO_DUR, 3, ERROR, "a complete event has no numeric dur", "HTA, Perfetto and speedscope skip it")                         \
    X(BAD_DUR, 3, ERROR, "the dur of a complete event is not a number (%s)", "viewers skip it, or draw nothing")               \
    X(NEGATIVE_DUR, 3, ERROR, "a complete event has a negative dur (%s)", "viewers drop it, or draw nothing")                  \
    X(NO_ARGS, 3, NOTE, "a complete event has no args object", "readers that expect args stop with an error")                  \
    X(TEXT_PID, 4, ERROR, "pid or tid of a complete event is not a number (%s)", "speedscope refuses the whole file")          \
    X(TEXT_PID_OTHER, 4, NOTE, "pid or tid of an event other than a span is not a number (%s)",                                \
      "Perfetto makes up a process for it")                                                                                    \
    X(WILD_PID, 4, ERROR, "pid or tid is not an integer from 0 to 4294967295 (%s)",                                            \
      "Perfetto stores it in 32 unsigned bits: the event is dropped, or misplaced")                                            \
    X(ZERO_PID, 4, NOTE, "pid is 0", "Perfetto takes process 0 for the idle process (Kineto's device 0 has it too)")           \
    X(ZERO_TID, 4, ERROR, "tid is 0", "Perfetto takes thread 0 for the idle thread, which all processes share")                \
    X(FINE_TIME, 5, NOTE, "ts or dur has more than three decimals (%s)", "viewers round it to nanoseconds, each in its own way") \
    X(LARGE_TS, 5, NOTE, "ts is 4.5e12 or more (%s)",                                                                          \
      "a double cannot hold nanoseconds there: viewers written in JavaScript round, and spans overlap")                        \
    X(OVERLAP, 7, ERROR, "a span begins inside another on its row and ends outside (%s)",                                      \
      "Perfetto drops it or spills it to another row; others draw it wrongly")                                                 \
    X(UNSORTED, 8, NOTE, "an event is earlier than the one before it in the file",                                             \
      "readers that rely on the order nest them wrongly")                                                                      \
    X(CHILD_FIRST, 8, ERROR, "of two spans that begin together on a row, the shorter comes first (%s)",                        \
      "readers that rely on the order make the shorter one the parent, and drop the longer")                                   \
    X(TOO_DEEP, 8, ERROR, "a span is nested more than 512 deep (%s)", "Perfetto drops it")                                     \
    X(FLOW_EARLY, 8, ERROR, "a flow comes before its span in the file (%s)",                                                   \
      "Perfetto finds no open span, and drops the flow")                                                                       \
    X(BEGIN_END, 9, ERROR, "begin and end events (ph B, E) instead of complete ones", "HTA and TraceLens skip them")           \
    X(SCOPE, 9, NOTE, "an instant's scope (s) is not t, p or g (%s)", "viewers guess whether it belongs to a thread or to all") \
    X(COUNTER, 9, ERROR, "a counter has no number in its args (%s)", "Perfetto drops the value")                               \
    X(CATEGORY, 10, NOTE, "a span's category is not one of Kineto's (%s)", "HTA and TraceLens count it as neither op nor kernel") \
    X(FLOW_NAME, 11, NOTE, "a flow's name is not its category (%s)", "TraceLens looks for both")                               \
    X(FLOW_ID, 11, ERROR, "a flow's id is not an integer (%s)", "Perfetto drops it; TraceLens finds no device work")           \
    X(FLOW_STARTS, 11, ERROR, "two flows of the same name start with the same id (%s)", "Perfetto drops the second")           \
    X(FLOW_LOST, 11, REMARK, "a flow ends that did not start in the trace (%s)", "harmless: viewers draw no arrow for it")     \
    X(FLOW_BIND, 11, ERROR, "a flow ends without \"bp\": \"e\" (%s)", "viewers bind it to the next span instead of this one")  \
    X(FLOW_NOWHERE, 11, ERROR, "a flow has no span at its time (%s)", "Perfetto drops it")                                     \
    X(FLOW_OFF, 11, NOTE, "a flow is inside a span, not at its start (%s)", "readers that look for a span with the same ts miss it") \
    X(NO_FLOWS, 11, REMARK, "device work has no flows from its launches (%s)",                                                 \
      "viewers draw no arrows to it; readers that rely on flows, such as TraceLens, find no launch for it")                    \
    X(CORRELATION, 12, ERROR, "two launches have the same correlation (%s)", "HTA and TraceLens attribute device work to the wrong one") \
    X(SPELLING, 13, NOTE, "an arg is not spelled as Kineto does (%s)", "readers look for Kineto's spelling, and miss it")      \
    X(NO_STREAM, 13, ERROR, "device work has no numeric %s in its args", "HTA takes it for CPU work, or for work without a launch") \
    X(METADATA, 14, ERROR, "a metadata event with an unknown name (%s)", "TraceLens stops with an error")                      \
    X(STEP, 15, NOTE, "a step that is not named ProfilerStep# and a number (%s)", "HTA and TensorBoard do not see the step")   \
    X(V8_NAME, 16, ERROR, "an event is named %s", "speedscope and Chrome's tools read the file as a V8 profile")               \
    X(LARGE, 17, NOTE, "the content is %s", "web-based viewers stop at 512 MiB: 'mtprof cut' makes it smaller")                \
    X(TOO_LARGE, 17, ERROR, "the content is %s", "V8's strings are limited to 512 MiB: chrome://tracing and speedscope fail")  \
    X(SPOOL_HEADER, 0, ERROR, "%s", "nothing of it can be read")                                                               \
    X(SPOOL_COPY, 0, ERROR, "one of the two copies of the header is damaged", "the other one is intact, and was used; no record is lost") \
    X(SPOOL_CHUNK, 0, ERROR, "a chunk is damaged: %s", "its records are lost; the rest can be read")                           \
    X(SPOOL_RECORD, 0, ERROR, "a record has an unknown format (%s)", "it is skipped")                                          \
    X(SPOOL_GAP, 0, ERROR, "records of a stream are missing (%s)", "spans around the gap have no begin or no end")             \
    X(SPOOL_NAME, 0, ERROR, "a record has an undefined id (%s)", "it is shown as \"?\"")                                       \
    X(SPOOL_LEDGER, 0, ERROR, "the ledger does not balance: %s", "more was lost than reported")                                \
    X(SPOOL_DROPPED, 0, NOTE, "records were dropped while recording: %s", "the trace has gaps, which the ledger counts")       \
    X(SPOOL_LOST, 0, NOTE, "names, shapes or stacks were lost while recording: %s", "they are shown as \"?\"")                 \
    X(SPOOL_OVERWRITTEN, 0, REMARK, "older records were overwritten by newer ones: %s", "the trace begins later than the recording") \
    X(SPOOL_CUT, 0, ERROR, "the file is truncated: %s", "their records are lost; the rest can be read")                        \
    X(SPOOL_RECOVERED, 0, REMARK, "recovered: process %s ended without stopping the recording",                                \
      "everything written is there; open spans last to the end")                                                               \
    X(SPOOL_MENDED, 0, REMARK, "recovered from a damaged file: %s", "spans around the loss have no begin or no end; lost names are shown as \"?\"") \
    X(SPOOL_LIVE, 0, REMARK, "process %s is still recording", "this is what was written so far; open spans last to the end")   \
    X(SPOOL_OPEN, 0, REMARK, "the recording of process %s was not stopped, and may still be running",                          \
      "everything written is there; open spans last to the end")
/* clang-format on */

#define X(sym, rule, severity, what, effect) MTP__FOUND_##sym,
typedef enum mtp__found {
    MTP__FINDING_LIST(X) MTP__FOUNDS
} mtp__found;
#undef X

#define MTP__EXAMPLE_BYTES 192

typedef struct mtp__sighting {
    uint64_t count, byte, event;
    char example[MTP__EXAMPLE_BYTES]; /* printable; of the first */
} mtp__sighting;

struct mtp_check {
    mtp__sighting seen[MTP__FOUNDS];
    mtp_finding *finding; /* owned */
    size_t count;
    char *text; /* owned: the findings' texts */
    uint64_t events;
    bool recovered; /* a spool whose process ended without stopping the recording */
    char file[256]; /* as it was named */
};

#define MTP__NO_EVENT UINT64_MAX

/* Counts a finding; the first in the file is kept. `example` is made printable and shortened; it may be
 * NULL. */
void mtp__check_found(mtp_check *c, mtp__found what, uint64_t byte, uint64_t event, const char *example,
                      size_t length);
void mtp__check_say(mtp_check *c, mtp__found what, uint64_t byte, uint64_t event, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* file.c, spool.c */
mtp_status mtp__check_json_file(mtp_check *c, mtp__source *source, const mtp_open_options *options);
mtp_status mtp__check_spool(mtp_check *c, const char *path);
#endif
