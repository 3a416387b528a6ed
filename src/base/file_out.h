/* base/file_out.h - mtp_file (mtprof_trace.h): a file that appears whole or not at all.
 *
 * Bytes go to a file of our own beside the target (mode 0600, no link followed, never one that is there), which takes the
 * target's name when everything is on the disk. Links to the target are followed or refused as base/target.h has it; one
 * that comes later is replaced. Whatever fails, the file that had the name keeps it and nothing of ours stays. Only what
 * cannot be replaced is written in place: "-" and /dev/stdout (standard output), devices, pipes.
 */
#ifndef MTP_BASE_FILE_OUT_H
#define MTP_BASE_FILE_OUT_H
#include <mtprof.h>
#include <sys/types.h>

void mtp__file_set_mode(mtp_file *file, mode_t mode); /* if it is new: instead of what the umask leaves */
bool mtp__file_failed(const mtp_file *file);          /* a write has failed: commit() will say why */
bool mtp__path_ends(const char *path, const char *suffix);
#endif
