/* trace/kineto/kineto.h - reads Kineto and Chrome JSON into a trace. docs/reading-json.md has the mapping. */
#ifndef MTP_TRACE_KINETO_KINETO_H
#define MTP_TRACE_KINETO_KINETO_H
#include "trace/json/source.h"
#include "trace/trace.h"

#define MTP__KINETO_WINDOW ((size_t)256 << 10)
#define MTP__KINETO_LARGEST ((size_t)64 << 20) /* of one event, or of another top-level value */

/* Reads the whole source. `options` may be NULL; `window` is the initial size of the buffer (0: default), for
 * tests only. Fails with MTP_E_FORMAT and the byte offset, MTP_E_NOMEM, or the source's error. */
mtp_status mtp__kineto_read(mtp__source *source, const mtp_open_options *options, size_t window,
                            mtp_trace **out);
#endif
