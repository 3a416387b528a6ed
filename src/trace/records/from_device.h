/* trace/records/from_device.h - the device work of a recording. It is kept until everything is read, since
 * only then is the device's clock known. Private to trace/.
 */
#ifndef MTP_TRACE_RECORDS_FROM_DEVICE_H
#define MTP_TRACE_RECORDS_FROM_DEVICE_H
#include "trace/records/dictionary.h"

typedef struct mtp__device_works {  /* {0} is empty */
    struct mtp__pending_work *work; /* owned */
    struct mtp__clock_point *point; /* owned */
    uint32_t work_count, point_count;
} mtp__device_works;

/* The words of a DEVICE or DEVICE_CLOCK record. Out of memory is latched in the trace. */
void mtp__device_keep_work(mtp__device_works *d, mtp_trace *t, const uint64_t *words, uint32_t count);
void mtp__device_keep_clock(mtp__device_works *d, mtp_trace *t, const uint64_t *words);

/* After the last CPU span: adds tracks and spans for the work, and for the annotations around its
 * launches. */
void mtp__device_add(mtp__device_works *d, mtp_trace *t, mtp__dictionary *dict);
/* Describes the devices, in deviceProperties and in the names of their rows. */
void mtp__device_describe_all(mtp_trace *t, const mtp__dictionary *dict);
void mtp__device_works_fini(mtp__device_works *d);
#endif
