/* present/stacks.h - what both kinds of stacks are written with: stacks.c for torch's, folded.c for flame
 * graphs. */
#ifndef MTP_PRESENT_STACKS_H
#define MTP_PRESENT_STACKS_H
#include <mtprof.h>
#include "base/out.h"

/* Whether the metric is device time. MTP_E_ARG: no such metric; the error lists the valid ones. */
mtp_status mtp__stacks_metric(const char *metric, bool *device);
/* Without the characters that would end the frame or the line. */
void mtp__stacks_frame(mtp__out *o, mtp_text frame);
/* The end of a line: whole microseconds, at least one. */
void mtp__stacks_time(mtp__out *o, double us);
#endif
