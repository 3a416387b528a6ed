/* trace/kineto/kineto.h - Kineto and Chrome JSON into a trace. docs/reading-json.md says what is taken for what. */
#ifndef MTP_TRACE_KINETO_KINETO_H
#define MTP_TRACE_KINETO_KINETO_H
#include "trace/json/source.h"
#include "trace/trace.h"

#define MTP__KINETO_WINDOW ((size_t)256 << 10)
#define MTP__KINETO_LARGEST ((size_t)64 << 20) /* of one event, or of one value beside them */

/* A caller's options as this library knows them; those of older callers are shorter, NULL are the usual ones. MTP_E_ABI. */
mtp_status mtp__open_options(const mtp_open_options *from, mtp_open_options *to);

/* All that the source holds. `options` may be NULL; `window` is the first size of the buffer (0: the usual one), of
 * interest to tests alone. Fails with MTP_E_FORMAT and the byte, MTP_E_NOMEM, or as the source fails. */
mtp_status mtp__kineto_read(mtp__source *source, const mtp_open_options *options, size_t window,
                            mtp_trace **out);
#endif
