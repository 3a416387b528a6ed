/* Fuzz: gzip or zstd (FUZZ_ZSTD) around JSON, as trace/json/source reads them.
 *
 * Random bytes do not get past the checksums. So the input says what is compressed, in how many members, and
 * where the result is damaged; or, for one first byte in eight, it is the compressed file itself.
 *
 * Besides not crashing: undamaged content is read back exactly, in pieces of any size; nothing leaks, and the
 * memory limit is kept.
 */
#define _GNU_SOURCE
#include <zlib.h>
#include <zstd.h>
#include "fuzz.h"
#include "trace/json/source.h"
#include "trace/kineto/kineto.h"

#define MEMORY_MAX ((uint64_t)64 << 20)
#define CONTENT_MAX ((size_t)1 << 20)

/* Appends a member or frame. */
static void compress_more(fuzz_text *out, const uint8_t *bytes, size_t length, int level)
{
#if FUZZ_ZSTD
    size_t room = ZSTD_compressBound(length);
    uint8_t *to = malloc(room);
    MUST(to != NULL);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, level & 1);
    size_t made = ZSTD_compress2(context, to, room, bytes, length);
    MUST(!ZSTD_isError(made));
    ZSTD_freeCCtx(context);
#else
    z_stream z = {0};
    MUST(deflateInit2(&z, level % 10, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    size_t room = deflateBound(&z, length) + 64, made;
    uint8_t *to = malloc(room);
    MUST(to != NULL);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)length;
    z.next_out = to;
    z.avail_out = (uInt)room;
    MUST(deflate(&z, Z_FINISH) == Z_STREAM_END);
    made = room - z.avail_out;
    deflateEnd(&z);
#endif
    fuzz_sink(out, to, made);
    free(to);
}

/* Reads everything from the source; false: it failed, with an error. */
static bool read_all(const fuzz_text *file, size_t piece, fuzz_text *content)
{
    mtp__source *source;
    if (mtp__source_memory(file->bytes != NULL ? file->bytes : "", file->length, piece, &source) != MTP_OK)
        return false;
    char buffer[4096];
    ssize_t n = 1;
    while (n > 0 && content->length < CONTENT_MAX) {
        n = mtp__source_read(source, buffer, piece > 1 ? piece % sizeof buffer + 1 : sizeof buffer);
        if (n > 0)
            fuzz_sink(content, buffer, (size_t)n);
    }
    MUST(n >= 0 || mtp__source_status(source) != MTP_OK);
    mtp__source_close(source);
    return n >= 0;
}

static void read_trace(const fuzz_text *file)
{
    mtp__source *source;
    mtp_trace *t = NULL;
    mtp_open_options options = MTP_OPEN_OPTIONS_INIT;
    options.max_memory = MEMORY_MAX;
    if (mtp__source_memory(file->bytes != NULL ? file->bytes : "", file->length, 0, &source) == MTP_OK) {
        mtp_status status = mtp__kineto_read(source, &options, 0, &t);
        MUST((status == MTP_OK) == (t != NULL));
        mtp__source_close(source);
    }
    mtp_trace_destroy(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, data + size};
    fuzz_text plain = {0}, file = {0}, content = {0};
    long live = mtp__alloc_live();
    uint64_t how = fuzz_take(&in, 1), piece = fuzz_take(&in, 1), damages = how >> 3 & 3;
    bool raw = (how & 7) == 7;
    while (!raw && fuzz_left(&in) > 4 * (size_t)damages && file.length < CONTENT_MAX) {
        uint64_t part = fuzz_take(&in, 2), times = part & 0x8000 ? part % 97 : 1; /* repetition compresses */
        size_t length;
        const uint8_t *bytes = fuzz_bytes(&in, 1 + part % 2000, &length);
        fuzz_text member = {0};
        for (uint64_t i = 0; i < times && member.length < CONTENT_MAX / 4; i++)
            fuzz_sink(&member, bytes, length);
        fuzz_sink(&plain, member.bytes, member.length);
        compress_more(&file, (const uint8_t *)member.bytes, member.length, (int)(how >> 5) + 1);
        fuzz_text_free(&member);
    }
    if (raw)
        fuzz_sink(&file, in.at, fuzz_left(&in));
    bool whole = !raw && file.length > 0;
    for (; damages > 0 && file.length > 0 && fuzz_left(&in) >= 3; damages--) {
        uint64_t at = fuzz_take(&in, 2) % file.length, by = fuzz_take(&in, 1);
        file.bytes[at] = (char)(file.bytes[at] ^ (char)by);
        whole = whole && by == 0;
    }
    bool read = read_all(&file, (size_t)piece, &content);
    if (whole && plain.length < CONTENT_MAX)
        MUST(read && content.length == plain.length &&
             (plain.length == 0 || memcmp(content.bytes, plain.bytes, plain.length) == 0));
    read_trace(&file);
    fuzz_text_free(&plain);
    fuzz_text_free(&file);
    fuzz_text_free(&content);
    MUST(mtp__alloc_live() == live);
    return 0;
}
