/* trace/who.c - see who.h. */
#include "trace/who.h"
#include <string.h>
#include "base/plain.h"
#include "trace/json/member.h"

/* A value that names something: the inside of a string, or a number. Length 0: neither. */
static mtp_text name_in(mtp_text json)
{
    if (json.length >= 2 && json.bytes[0] == '"')
        return (mtp_text){json.bytes + 1, json.length - 2};
    bool is_number = json.length > 0 && (mtp__is_digit(json.bytes[0]) || json.bytes[0] == '-');
    return is_number ? json : (mtp_text){"", 0};
}

static mtp_text member(mtp_text object, const char *key)
{
    mtp_text text = {"", 0};
    mtp__member_text(object, key, &text);
    return text;
}

/* "rank12", "rank_12", "rank-12" in the file's name. */
static int64_t rank_in_name(const char *path)
{
    const char *name = strrchr(path, '/');
    int64_t rank = -1;
    for (const char *p = name != NULL ? name : path; (p = strstr(p, "rank")) != NULL; p += 4) {
        const char *digit = p + 4 + (p[4] == '_' || p[4] == '-');
        if (!mtp__is_digit(*digit))
            continue;
        for (rank = 0; mtp__is_digit(*digit) && rank < 100000000; digit++)
            rank = rank * 10 + (*digit - '0');
    }
    return rank;
}

/* Where the text begins in who->texts. */
static size_t keep(mtp__who *who, mtp_text escaped)
{
    size_t start = who->texts.length;
    mtp__json_unescape(&who->texts, escaped.bytes, escaped.length);
    mtp__buffer_add(&who->texts, "", 1);
    return start;
}

static mtp_text kept(const mtp__who *who, size_t start, size_t end)
{
    return (mtp_text){who->texts.bytes + start, end - start - 1};
}

bool mtp__who_read(mtp__who *who, const mtp_trace *t, const char *path)
{
    mtp_text info = mtp__trace_metadata(t, "distributedInfo"), job = name_in(mtp__trace_metadata(t, "job"));
    *who = (mtp__who){.rank = -1, .world_size = -1, .local_rank = -1};
    mtp__member_whole(info, "rank", &who->rank);
    mtp__member_whole(info, "world_size", &who->world_size);
    mtp__member_whole(info, "local_rank", &who->local_rank);
    if (t->in_job)
        who->rank = t->job_rank;
    if (who->rank < 0)
        who->rank = rank_in_name(path != NULL ? path : t->source);
    size_t start = keep(who, job.length > 0 ? job : member(info, "job")),
           backend = keep(who, member(info, "backend"));
    size_t host = who->texts.length;
    static const char *const keys[] = {"hostname", "host_name",
                                       "host"}; /* ours and Kineto's; what users write */
    for (size_t i = 0; i < sizeof keys / sizeof *keys && who->texts.length == host; i++) {
        mtp_text name = name_in(mtp__trace_metadata(t, keys[i]));
        mtp__json_unescape(&who->texts, name.bytes, name.length);
    }
    mtp__buffer_add(&who->texts, "", 1);
    if (who->texts.failed) {
        mtp__buffer_fini(&who->texts);
        return false;
    }
    who->job = kept(who, start, backend);
    who->backend = kept(who, backend, host);
    who->host = kept(who, host, who->texts.length);
    return true;
}

void mtp__who_fini(mtp__who *who)
{
    mtp__buffer_fini(&who->texts);
    *who = (mtp__who){0};
}
