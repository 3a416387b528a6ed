/* present/ranks_json.h - what mtp_ranks_json writes, for the report, too. */
#ifndef MTP_PRESENT_RANKS_JSON_H
#define MTP_PRESENT_RANKS_JSON_H
#include "base/out.h"

/* steps: with each step of each rank. */
void mtp__ranks_put(mtp__out *o, const mtp_ranks *r, bool steps);
#endif
