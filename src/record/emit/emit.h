/* record/emit/emit.h - ops and scopes as ranges of another tool (mtp_emit_start).
 *
 * Recording calls come here where they find that nothing is recorded, so a running profile pays nothing for this.
 * What they return is a token that no recording has: ties are odd (recorder.c: tie_of), this one's is even.
 */
#ifndef MTP_RECORD_EMIT_EMIT_H
#define MTP_RECORD_EMIT_EMIT_H
#include <mtprof.h>

/* Relaxed: MTP_CPU, and MTP_WITH_SHAPES if wanted; 0: nothing is emitted. Part of what mtp_recording() says. */
extern uint32_t mtp__emit_flags;

static inline uint32_t mtp__emit_public(void)
{
    return __atomic_load_n(&mtp__emit_flags, __ATOMIC_RELAXED);
}

#define MTP__TOKEN_EMITTED ((mtp_token)0xfffffffd << 32 | 2u)

/* op: NULL for a scope. text: NULL if the name's id is known. Returns the token, 0 if nothing was emitted. */
mtp_token mtp__emit_begin(const mtp_op *op, uint32_t name, const char *text, size_t length);
void mtp__emit_end(void);

/* -------------------------------------------------------------------------------- a tool: itt.c, nvtx.c */

typedef struct mtp__tool {
    bool (*attach)(void); /* loads the tool's collector at the first call; false: there is none */
    int (*push)(const char *text);
    int (*pop)(void);
    void (*mark)(const char *text);
} mtp__tool;
extern const mtp__tool mtp__tool_itt, mtp__tool_nvtx;

/* The library that the environment variable names, and its function `entry`; NULL: none. Programs that run with
 * another user's rights load nothing. */
void *mtp__tool_load(const char *variable, const char *entry);
#endif
