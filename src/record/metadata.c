/* record/metadata.c - metadata of traces: flags, the user's own, the trace id; descriptions of devices. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/random.h>
#include "base/abi.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/json_check.h"
#include "base/json_out.h"
#include "base/os.h"
#include "record/profile.h"

static mtp_status json_check(const char *key, const char *json)
{
    size_t at;
    if (mtp__json_check(json, strlen(json), &at))
        return MTP_OK;
    return MTP_FAIL(MTP_E_ARG, "metadata '%s': not JSON at byte %zu", key, at);
}

/* One blob: kind, key, NUL, value. */
static mtp_status write_entry(mtp_profile *prof, char kind, const char *key, const char *value)
{
    size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value);
    char *blob = mtp__calloc(1, 1 + key_bytes + value_bytes + 1);
    if (blob == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "metadata '%s'", key);
    blob[0] = kind;
    memcpy(blob + 1, key, key_bytes);
    memcpy(blob + 1 + key_bytes, value, value_bytes);
    bool written = mtp__recorder_blob(prof->recorder, MTP__CONTROL_METADATA, ++prof->metadata_count, blob,
                                      1 + key_bytes + value_bytes);
    mtp__free(blob);
    return written
               ? MTP_OK
               : MTP_FAIL(MTP_E_NOMEM, "metadata '%s': the buffer is full; use a larger buffer_bytes", key);
}

static mtp_status check(const mtp_profile *prof, const char *key, const char *value)
{
    if (prof == NULL || key == NULL || value == NULL)
        return MTP_FAIL(MTP_E_ARG, "metadata: profile, key or value is NULL");
    if (prof->recorder == NULL || !prof->active)
        return MTP_FAIL(MTP_E_STATE,
                        "metadata '%s': the profile is not active; preset_metadata_json() works at any time",
                        key);
    return MTP_OK;
}

mtp_status mtp_profile_add_metadata(mtp_profile *prof, const char *key, const char *value)
{
    mtp_status status = check(prof, key, value);
    return status == MTP_OK ? write_entry(prof, 's', key, value) : status;
}

mtp_status mtp_profile_add_metadata_json(mtp_profile *prof, const char *key, const char *json)
{
    mtp_status status = check(prof, key, json);
    if (status == MTP_OK)
        status = json_check(key, json);
    return status == MTP_OK ? write_entry(prof, 'j', key, json) : status;
}

mtp_status mtp_profile_preset_metadata_json(mtp_profile *prof, const char *key, const char *json)
{
    if (prof == NULL || key == NULL || json == NULL)
        return MTP_FAIL(MTP_E_ARG, "metadata: profile, key or value is NULL");
    mtp_status status = json_check(key, json);
    if (status != MTP_OK)
        return status;
    mtp__preset *p = mtp__calloc(1, sizeof *p);
    if (p == NULL || (p->key = mtp__strdup(key)) == NULL || (p->json = mtp__strdup(json)) == NULL) {
        if (p != NULL)
            mtp__free(p->key);
        mtp__free(p);
        return MTP_FAIL(MTP_E_NOMEM, "metadata '%s'", key);
    }
    mtp__preset **at = &prof->presets;
    while (*at != NULL)
        at = &(*at)->next;
    *at = p;
    return MTP_OK;
}

void mtp__profile_free_presets(mtp_profile *prof)
{
    while (prof->presets != NULL) {
        mtp__preset *next = prof->presets->next;
        mtp__free(prof->presets->key);
        mtp__free(prof->presets->json);
        mtp__free(prof->presets);
        prof->presets = next;
    }
}

void mtp__profile_write_metadata(mtp_profile *prof)
{
    const mtp_profile_config *c = &prof->config;
    const struct {
        const char *key;
        bool on;
    } flag[] = {{"profile_memory", c->profile_memory},
                {"with_stack", c->with_stack},
                {"record_shapes", c->record_shapes},
                {"with_modules", c->with_modules},
                {"with_flops", c->with_flops}};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (flag[i].on)
            write_entry(prof, 'j', flag[i].key, "1");
    for (mtp__preset *p = prof->presets; p != NULL; p = p->next)
        write_entry(prof, 'j', p->key, p->json);
    mtp__recorder_blob(prof->recorder, MTP__CONTROL_TRACE_ID, 1, prof->trace_id, strlen(prof->trace_id));
}

void mtp__profile_new_trace_id(mtp_profile *prof)
{
    prof->trace_id[0] = 0;
    prof->has_trace_id = true;
    if (prof->config.custom_trace_id != NULL && !prof->leaving) {
        prof->config.custom_trace_id(prof->config.user, prof->trace_id, sizeof prof->trace_id);
        prof->trace_id[sizeof prof->trace_id - 1] = 0;
        return;
    }
    MTP__UNCANCELLED;
    unsigned char random[16];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        for (size_t i = 0; i < sizeof random; i++)
            random[i] = (unsigned char)(mtp_ticks() >> (i % 5) * 8);
    random[6] = (unsigned char)((random[6] & 0x0fu) | 0x40u); /* version 4 */
    random[8] = (unsigned char)((random[8] & 0x3fu) | 0x80u);
    for (size_t i = 0; i < sizeof random; i++) {
        prof->trace_id[2 * i] = "0123456789ABCDEF"[random[i] >> 4];
        prof->trace_id[2 * i + 1] = "0123456789ABCDEF"[random[i] & 15];
    }
    prof->trace_id[32] = 0;
}

/* ------------------------------------------------------------------------------------------ devices */

#define TEXT_MAX 128 /* bytes of a name that are kept */

static char *put_text(char *p, const char *before, const char *text)
{
    if (text == NULL)
        return p;
    p = stpcpy(p, before);
    p = mtp__json_put(p, text, strnlen(text, TEXT_MAX));
    return stpcpy(p, "\"");
}

static char *put_number(char *p, const char *before, uint64_t value)
{
    return value != 0 ? mtp__put_u64(stpcpy(p, before), value) : p;
}

/* The recorder stays valid under the names' lock: see stop. */
void mtp__device_describe(mtp_device device, const mtp_device_info *given)
{
    mtp_device_info known = MTP_DEVICE_INFO_INIT, *info = &known;
    char blob[TEXT_MAX + 1 + 3 * MTP__JSON_PUT_ROOM(TEXT_MAX) + 512], *p = blob;
    if (MTP__ABI_READ(&known, given, mtp_device_info, driver) != MTP_OK || info->name == NULL)
        return;
    size_t name = strnlen(info->name, TEXT_MAX);
    p = mempcpy(p, info->name, name);
    *p++ = 0;
    p = mtp__put_u64(stpcpy(p, "{\"id\": "), MTP_DEVICE_INDEX(device)); /* Kineto's keys where it has them */
    p = put_text(p, ", \"name\": \"", info->name);
    p = put_number(p, ", \"totalGlobalMem\": ", info->memory_bytes);
    p = put_number(p, ", \"maxThreadsPerBlock\": ", info->group_most);
    p = put_number(p, ", \"sharedMemPerBlock\": ", info->shared_bytes);
    p = put_number(p, ", \"numSms\": ", info->compute_units);
    p = put_number(p, ", \"clockMHz\": ", info->clock_mhz);
    p = put_text(p, ", \"vendor\": \"", info->vendor);
    p = put_text(p, ", \"driver\": \"", info->driver);
    *p++ = '}';
    mtp__hold before = mtp__writer_hold();
    if (before.busy == 0) {
        pthread_mutex_lock(&mtp__names()->lock);
        mtp__recorder *r = mtp__recorder_current();
        if (r != NULL)
            mtp__recorder_blob(r, MTP__CONTROL_DEVICE, device & 0xffffu, blob, (size_t)(p - blob));
        pthread_mutex_unlock(&mtp__names()->lock);
    }
    mtp__writer_release(before);
}
