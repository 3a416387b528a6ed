/* trace/shape_text.h - shape signatures (record/details.h) as the JSON texts that Kineto writes. */
#ifndef MTP_TRACE_SHAPE_TEXT_H
#define MTP_TRACE_SHAPE_TEXT_H
#include "trace/trace.h"

/* Words that are not a valid signature give empty texts. */
uint32_t mtp__shape_from_words(mtp_trace *t, const uint64_t *words, size_t count); /* id in t->shapes */
#endif
