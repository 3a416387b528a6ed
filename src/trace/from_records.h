/* trace/from_records.h - a trace out of records: a live profile's, or those a spool file kept. */
#ifndef MTP_TRACE_FROM_RECORDS_H
#define MTP_TRACE_FROM_RECORDS_H
#include "trace/trace.h"

mtp_status mtp__trace_from_spool(const char *path, mtp_trace **out);
#endif
