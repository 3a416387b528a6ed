/* trace/records/from_records.h - builds a trace from records: a live profile's, or a spool file's. */
#ifndef MTP_TRACE_RECORDS_FROM_RECORDS_H
#define MTP_TRACE_RECORDS_FROM_RECORDS_H
#include "trace/records/tally.h"

/* tally: events are counted there and not added to the trace; NULL: they are added. A recording with device
 * work cannot be counted that way: tally->has_devices is set, and MTP_E_STATE returned. */
mtp_status mtp__trace_from_spool(const char *path, mtp__tally *tally, mtp_trace **out);
#endif
