/* base/file_out.h - mtp_file (mtprof_trace.h): a file that appears complete or not at all.
 *
 * Bytes are written to a temporary file next to the target (mode 0600, no link followed, never an existing
 * file), which is renamed to the target when everything is on disk. Links to the target are followed or
 * refused as described in base/target.h; one created later is replaced. On any failure, an existing file
 * stays and the temporary one is removed. Only what cannot be replaced is written in place: "-" and
 * /dev/stdout (standard output), devices, pipes.
 */
#ifndef MTP_BASE_FILE_OUT_H
#define MTP_BASE_FILE_OUT_H
#include <mtprof.h>
#include <sys/types.h>

void mtp__file_set_mode(mtp_file *file, mode_t mode); /* for a new file: overrides the umask */
bool mtp__file_failed(const mtp_file *file);          /* a write has failed: commit() will say why */
bool mtp__path_ends(const char *path, const char *suffix);
#endif
