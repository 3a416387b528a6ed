/* trace/shape_text.h - a shape signature (record/details.h) in the JSON texts that Kineto has. */
#ifndef MTP_TRACE_SHAPE_TEXT_H
#define MTP_TRACE_SHAPE_TEXT_H
#include "trace/trace.h"

/* Words that no signature can be made of give empty texts. */
uint32_t mtp__shape_from_words(mtp_trace *t, const uint64_t *words, size_t count); /* id in t->shapes */
#endif
