/* base/vocabulary.c - the version, and the texts of the public enums. Those of mtp_status are in error.c. */
#include <mtprof.h>
#include "base/error.h"
#include "base/plain.h"

const char *mtp_version(void)
{
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
    return TEXT(MTP_VERSION_MAJOR) "." TEXT(MTP_VERSION_MINOR) "." TEXT(MTP_VERSION_PATCH);
}

/* ------------------------------------------------------------------------------------------------ texts */

#define X(sym, value, text) [value] = text,
static const char *const outcomes[] = {MTP_OUTCOME_LIST(X)}, *const formats[] = {MTP_FORMAT_LIST(X)},
                         *const drops[] = {MTP_DROP_LIST(X)}, *const event_kinds[] = {MTP_EVENT_KIND_LIST(X)},
                         *const verdicts[] = {MTP_VERDICT_LIST(X)},
                         *const finding_kinds[] = {MTP_FINDING_KIND_LIST(X)},
                         *const confidences[] = {MTP_CONFIDENCE_LIST(X)};
#undef X
#define X(sym, value, text, bytes) [value] = text,
static const char *const dtypes[] = {MTP_DTYPE_LIST(X)};
#undef X
#define X(sym, value) [value] = #sym,
static const char *const actions[] = {MTP_ACTION_LIST(X)};
#undef X

static const char *pick(const char *const *texts, size_t count, unsigned value, const char *unknown)
{
    return value < count && texts[value] != NULL ? texts[value] : unknown;
}
#define PICK(texts, value, unknown) pick(texts, sizeof texts / sizeof *texts, (unsigned)(value), unknown)

const char *mtp_outcome_text(mtp_outcome outcome)
{
    return PICK(outcomes, outcome, "unknown outcome");
}

const char *mtp_format_text(mtp_format format)
{
    return PICK(formats, format, "unknown format");
}

const char *mtp_drop_text(mtp_drop cause)
{
    return PICK(drops, cause, "unknown cause");
}

const char *mtp_dtype_text(mtp_dtype dtype)
{
    return PICK(dtypes, dtype, "");
}

const char *mtp_action_text(mtp_action action)
{
    return PICK(actions, action, "?");
}

const char *mtp_event_kind_text(mtp_event_kind kind)
{
    return PICK(event_kinds, kind, "");
}

const char *mtp_finding_kind_text(mtp_finding_kind kind)
{
    return PICK(finding_kinds, kind, "");
}

const char *mtp_confidence_text(mtp_confidence confidence)
{
    return PICK(confidences, confidence, "");
}

const char *mtp_verdict_text(mtp_verdict verdict)
{
    return PICK(verdicts, verdict, "?");
}

mtp_status mtp_activity_parse(const char *text, uint32_t *out)
{
    static const struct {
        const char *text;
        uint32_t activity;
    } known[] = {{"CPU", MTP_CPU}, {"NPU", MTP_NPU}, {"CUDA", MTP_NPU}, {"GPU", MTP_NPU}};
    for (size_t i = 0; text != NULL && out != NULL && i < sizeof known / sizeof *known; i++)
        if (mtp__same_letters(text, known[i].text, SIZE_MAX)) {
            *out = known[i].activity;
            return MTP_OK;
        }
    return MTP_FAIL(MTP_E_ARG, "unknown activity '%s': use CPU or NPU (CUDA and GPU mean NPU)",
                    text != NULL ? text : "(null)");
}
