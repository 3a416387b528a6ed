/* tests/fuzz/fuzz.h - what the fuzzers share. Each is one file with LLVMFuzzerTestOneInput.
 *
 * With clang they are libFuzzer programs (`make fuzz`), built with ASan and UBSan on their own build of the
 * library. With any compiler, tests/fuzz/fuzz_main.c runs them in `make test` on their corpus and on mutated
 * copies of it, so that old findings stay fixed.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H
#include <mtprof.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json_check.h"
#include "base/os.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)                                                                                           \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #cond, mtp_last_error());                 \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* ---------------------------------------------------------------------------------------------- the input */

typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;

static inline uint64_t fuzz_take(fuzz_input *in, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && in->at < in->end; i++)
        v = v << 8 | *in->at++;
    return v;
}

static inline size_t fuzz_left(const fuzz_input *in)
{
    return (size_t)(in->end - in->at);
}

/* Up to `most` bytes; points into the input. */
static inline const uint8_t *fuzz_bytes(fuzz_input *in, size_t most, size_t *length)
{
    const uint8_t *bytes = in->at;
    *length = most < fuzz_left(in) ? most : fuzz_left(in);
    in->at += *length;
    return bytes;
}

/* --------------------------------------------------------------------------------------------- the output */

typedef struct fuzz_text {
    char *bytes;
    size_t length, room;
} fuzz_text;

static inline bool fuzz_sink(void *user, const void *bytes, size_t length)
{
    fuzz_text *t = user;
    if (t->length + length > t->room) {
        t->room = (t->length + length) * 2;
        t->bytes = realloc(t->bytes, t->room);
        MUST(t->bytes != NULL);
    }
    if (length > 0)
        memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    return true;
}

static inline void fuzz_text_free(fuzz_text *t)
{
    free(t->bytes);
    *t = (fuzz_text){0};
}

/* The text must be strict JSON; frees it. */
static inline void fuzz_must_be_json(fuzz_text *t)
{
    size_t wrong = 0;
    if (!mtp__json_check(t->bytes, t->length, &wrong)) {
        size_t from = wrong > 40 ? wrong - 40 : 0, left = t->length - from;
        fprintf(stderr, "not JSON at %zu: ...%.*s\n", wrong, (int)(left < 80 ? left : 80), t->bytes + from);
        abort();
    }
    fuzz_text_free(t);
}

/* Runs every analysis and output of a trace; JSON output must be valid. */
void fuzz_analyse(const mtp_trace *t);

/* Makes a spool file from an input (spool_input.c): the bytes themselves if the first byte is even, else the
 * records it describes, written by the library's own pool. false: it is damaged, or may be. */
bool fuzz_make_spool(const uint8_t *data, size_t size, const char **path);
/* Every chunk of the spool can be read, and none is missing. (Names that nothing defines are the reader's
 * to tell.) */
bool fuzz_spool_is_whole(const char *path);
#endif
