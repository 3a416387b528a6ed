/* trace/records/from_records.h - builds a trace from records: a live profile's, or a spool file's. */
#ifndef MTP_TRACE_RECORDS_FROM_RECORDS_H
#define MTP_TRACE_RECORDS_FROM_RECORDS_H
#include "trace/records/dictionary.h"
#include "trace/records/tally.h"

/* tally: events are counted there and not added to the trace; NULL: they are added. A recording with device
 * work cannot be counted that way: tally->has_devices is set, and MTP_E_STATE returned. */
mtp_status mtp__trace_from_spool(const char *path, mtp__tally *tally, mtp_trace **out);

/* Adds a spool to a trace under construction, which has others (trace/join.h): its streams, definitions and
 * processes; what is known of the file and the recording as a whole is set in the trace, not added to what it
 * was. On failure nothing visible was added, and the trace can be used. */
mtp_status mtp__trace_add_spool(mtp_trace *trace, const char *path, const mtp__placing *placing);
/* Only what a recording says about its process (pid, parent, command: in the trace) and its clock. The caller
 * ends the dictionary. */
mtp_status mtp__trace_glance(mtp_trace *trace, const char *path, mtp__dictionary *out,
                             mtp__spool_report *report);
#endif
