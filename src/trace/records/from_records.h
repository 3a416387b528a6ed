/* trace/records/from_records.h - a trace out of records: a live profile's, or those a spool file kept. */
#ifndef MTP_TRACE_RECORDS_FROM_RECORDS_H
#define MTP_TRACE_RECORDS_FROM_RECORDS_H
#include "trace/records/tally.h"

/* tally: events are counted there, and the trace has none; NULL: it has them. A recording with device work cannot be
 * counted so: tally->has_devices, and MTP_E_STATE. */
mtp_status mtp__trace_from_spool(const char *path, mtp__tally *tally, mtp_trace **out);
#endif
