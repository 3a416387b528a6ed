/* base/json_out.h - the only way from bytes to a JSON string. The output is valid UTF-8 and strict JSON for
 * any input: invalid UTF-8 becomes U+FFFD (one for each maximal subpart, as in Unicode and Python); control
 * characters (including DEL and U+0080 to U+009F, which terminals obey), quotes and backslashes are escaped,
 * and so are U+2028 and U+2029, which end a line in old JavaScript.
 */
#ifndef MTP_BASE_JSON_OUT_H
#define MTP_BASE_JSON_OUT_H
#include "base/out.h"

/* Bytes that mtp__json_put may write for an input of this length. */
#define MTP__JSON_PUT_ROOM(length) ((size_t)(length)*6 + 16)

char *mtp__json_put(char *to, const char *text, size_t length);     /* without quotes; returns the end */
void mtp__out_string(mtp__out *o, const char *text, size_t length); /* with the quotes; any length */
void mtp__out_string_inside(mtp__out *o, const char *text, size_t length); /* without quotes; any length */

/* JSON text that is valid already, as it is, but for what terminals and old JavaScript obey: escaped as above. */
void mtp__out_json(mtp__out *o, const char *json, size_t length);
#endif
