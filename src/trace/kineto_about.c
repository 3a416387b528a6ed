/* trace/kineto_about.c - what a file that we wrote says of its recording, under "mtprof": the ledger, and what was mended. */
#include <string.h>
#include "trace/kineto_reader.h"

static bool is(const mtp__json_string *key, const char *name)
{
    return key->length == strlen(name) && memcmp(key->bytes, name, key->length) == 0;
}

static bool whole(const mtp__json_value *v, uint64_t *out)
{
    return v->kind == 0 && mtp__decimal_unsigned(&v->number, out);
}

static void read_causes(mtp__kineto *k, const mtp__json_value *object, mtp_ledger *ledger)
{
    static const char *const cause[] = {
#define X(sym, value, text) [value] = #sym,
        MTP_DROP_LIST(X)
#undef X
    };
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object->bytes + 1;
    while (mtp__json_member(&k->json, &p, &key, &v))
        for (size_t i = 0; i < sizeof cause / sizeof *cause; i++)
            if (is(&key, cause[i]))
                whole(&v, &ledger->dropped_by[i]);
}

static void read_ledger(mtp__kineto *k, const mtp__json_value *object)
{
    mtp_ledger ledger = MTP_LEDGER_INIT;
    bool emitted = false, kept = false;
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object->bytes + 1;
    while (mtp__json_member(&k->json, &p, &key, &v)) {
        if (is(&key, "emitted"))
            emitted = whole(&v, &ledger.emitted);
        else if (is(&key, "kept"))
            kept = whole(&v, &ledger.kept);
        else if (is(&key, "dropped"))
            whole(&v, &ledger.dropped);
        else if (is(&key, "lost_definitions"))
            whole(&v, &ledger.lost_definitions);
        else if (is(&key, "dropped_by") && v.kind == '{')
            read_causes(k, &v, &ledger);
    }
    if (emitted && kept) {
        k->trace->has_ledger = true;
        k->trace->ledger = ledger;
    }
}

/* Unfinished spans say so themselves. */
void mtp__kineto_about(mtp__kineto *k, const mtp__json_value *object)
{
    const struct {
        const char *key;
        uint64_t *count;
    } counts[] = {{"unmatched_ends", &k->trace->unmatched_ends},
                  {"clock_faults", &k->trace->clock_faults},
                  {"damaged_chunks", &k->trace->damaged_chunks},
                  {"skipped_events", &k->trace->skipped_events}};
    mtp__json_string key;
    mtp__json_value v;
    const char *p = object->bytes + 1;
    while (object->kind == '{' && mtp__json_member(&k->json, &p, &key, &v)) {
        uint64_t told = 0;
        if (is(&key, "ledger") && v.kind == '{')
            read_ledger(k, &v);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            if (is(&key, counts[i].key) && whole(&v, &told))
                *counts[i].count += told;
    }
}
