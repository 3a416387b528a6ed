/* trace/json/member.h - members of a short JSON text that is known to be valid: a span's args, a value of the metadata,
 * the head of a job's file. Each call scans the text. */
#ifndef MTP_TRACE_JSON_MEMBER_H
#define MTP_TRACE_JSON_MEMBER_H
#include <mtprof.h>

/* In the members of an object, with or without its braces; false: none of that kind. */
bool mtp__member_whole(mtp_text json, const char *key,
                       int64_t *out); /* a number, perhaps written as a string */
bool mtp__member_real(mtp_text json, const char *key, double *out);
bool mtp__member_text(mtp_text json, const char *key,
                      mtp_text *out);       /* a string's inside, escaped; or any other value */
mtp_text mtp__member_next(mtp_text *array); /* the next value of an array; length 0: no more */
#endif
