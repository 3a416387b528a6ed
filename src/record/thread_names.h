/* record/thread_names.h - names given to threads (mtp_thread_name). Any thread, no lock. */
#ifndef MTP_RECORD_THREAD_NAMES_H
#define MTP_RECORD_THREAD_NAMES_H
#include <mtprof.h>

#define MTP__THREAD_NAME_ROOM 64 /* bytes, NUL included; a multiple of 8 */

/* false: it has none, or it is being changed right now. */
bool mtp__thread_name_given(int32_t tid, char out[MTP__THREAD_NAME_ROOM]);
void mtp__thread_name_forget(int32_t tid); /* the thread ends */
#endif
