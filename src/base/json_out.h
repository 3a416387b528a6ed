/* base/json_out.h - the one way from bytes to a JSON string. What comes out is valid UTF-8 and strict JSON, whatever
 * went in: bytes that are not UTF-8 become U+FFFD (one for each maximal part, as Unicode and Python do), control
 * characters (also DEL and U+0080 to U+009F, which terminals obey), quotes and backslashes are escaped, and so are
 * U+2028 and U+2029, which end a line in old JavaScript.
 */
#ifndef MTP_BASE_JSON_OUT_H
#define MTP_BASE_JSON_OUT_H
#include "base/out.h"

/* Room that mtp__json_put needs for so many bytes. */
#define MTP__JSON_PUT_ROOM(length) ((size_t)(length)*6 + 16)

char *mtp__json_put(char *to, const char *text, size_t length);            /* without the quotes; the end */
void mtp__out_string(mtp__out *o, const char *text, size_t length);        /* with the quotes; any length */
void mtp__out_string_inside(mtp__out *o, const char *text, size_t length); /* without them; any length */

#endif
