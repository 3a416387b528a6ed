/* collect/told.h - metadata that a collector learns while the program runs, for the traces of this process: the one that is
 * being recorded, and later ones. Threads: any. */
#ifndef MTP_COLLECT_TOLD_H
#define MTP_COLLECT_TOLD_H

void mtp__told_init(void); /* once, before mtp__own_start() */
void mtp__told_set(const char *key,
                   const char *json); /* key: for the life of the process; replaces what it was */
#endif
