/* collect/nvtx/nvtx.h - what the parts of the NVTX collector share: JSON of values, and payloads by schema.
 *
 * Threads: any. Schemas are kept for the life of the process and do not change once they are listed.
 */
#ifndef MTP_COLLECT_NVTX_H
#define MTP_COLLECT_NVTX_H
#include <stdbool.h>
#include "base/nvtx_abi.h"

/* Writes the text as a JSON string; returns its length. `at` has room for 6 bytes per byte, and 3. */
size_t mtp__nvtx_quote(char *at, const char *text);
size_t mtp__nvtx_real(char *at, size_t room, double value); /* room: 32 */

/* Both return the id, 0: it is not usable. `of`: the domain, compared only. */
uint64_t mtp__nvtx_schema_add(const void *of, const mtp__nvtx_schema *schema);
uint64_t mtp__nvtx_enum_add(const void *of, const mtp__nvtx_enum *made);

/* The member "payload" of an event's args; returns its length, 0: there is nothing to show. */
size_t mtp__nvtx_put_data(char *at, size_t room, const void *of, const mtp__nvtx_data *data, size_t count);
/* The event's text among its payloads, NULL: none. Borrowed, or in `near`. */
const char *mtp__nvtx_data_text(const void *of, const mtp__nvtx_data *data, size_t count, char *near,
                                size_t room);

/* The text of a registered string's handle, NULL: it is none (collector.c). */
const char *mtp__nvtx_string(const void *handle);
#endif
