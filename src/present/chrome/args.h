/* present/chrome/args.h - the args object of an event: Kineto's members, and MindTorch's in addition. */
#ifndef MTP_PRESENT_CHROME_ARGS_H
#define MTP_PRESENT_CHROME_ARGS_H
#include "present/chrome/chrome.h"

/* The members, without the braces. step: the number of the enclosing step. renamed: shown under another
 * name. */
void mtp__chrome_span_args(mtp__chrome *w, const mtp__lane *lane, uint32_t span, int64_t step, bool renamed);

/* Members that the trace has as text; any: others come before them. */
void mtp__chrome_more_args(mtp__chrome *w, uint32_t text, bool any);
#endif
