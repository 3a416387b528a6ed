/* analyze/ranks/rank_ops.c - own times of a rank's ops by step: what its host's threads did outside communication,
 * and the kernels of its devices. Python functions count together; what is in no span is "(between operators)". */
#include "analyze/ranks/ranks.h"
#include "base/grow.h"
#include "base/os.h"
#include "base/pair_map.h"

#define SUMS_MAX 400000u /* beyond: new names are not kept */

static const char python[] = "(Python code)", between[] = "(between operators)";

typedef struct sums {
    mtp__rank_view *v;
    mtp__pair_map at; /* (1 + step, 2 * name + on a device) -> index in the rank's ops */
    uint32_t *name;   /* owned: by text of the trace, ours */
    uint32_t python, between;
} sums;

static bool add(sums *s, uint32_t step, uint32_t name, bool on_device, int64_t own)
{
    mtp__rank *k = s->v->k;
    bool is_new = false;
    if (k->op_count >= SUMS_MAX &&
        mtp__pair_find(&s->at, 1 + (uint64_t)step, (uint64_t)name * 2 + on_device) == NULL)
        return true;
    uint64_t *at =
        mtp__pair_put(&s->at, 1 + (uint64_t)step, (uint64_t)name * 2 + on_device, k->op_count, &is_new);
    if (at == NULL)
        return false;
    if (is_new) {
        if (!MTP__GROW(k->ops, k->op_room, k->op_count, (size_t)k->op_count + 1, 256))
            return false;
        k->ops[k->op_count++] = (mtp__op_sum){.step = step, .name = name, .on_device = on_device};
    }
    k->ops[*at].calls++;
    k->ops[*at].own += own;
    return true;
}

static uint32_t name_of(sums *s, uint32_t text)
{
    if (s->name[text] == 0) {
        mtp_text name = mtp__trace_get_text(s->v->t, text);
        s->name[text] = mtp__ranks_name(s->v->r, name.bytes, name.length);
    }
    return s->name[text];
}

static uint32_t host_name(sums *s, uint32_t span)
{
    const mtp__rank_view *v = s->v;
    switch (mtp__rank_name(v, span)) {
    case MTP__NAME_CALL:
    case MTP__NAME_COMM:
    case MTP__NAME_RECORD:
        return 0;
    case MTP__NAME_STEP:
        return s->between;
    default:
        break;
    }
    switch (v->t->category[span]) {
    case MTP__CATEGORY_PYTHON_FUNCTION:
        return s->python;
    case MTP__CATEGORY_CPU_OP:
    case MTP__CATEGORY_USER_ANNOTATION:
    case MTP__CATEGORY_CUDA_RUNTIME:
    case MTP__CATEGORY_CUDA_DRIVER:
        return (v->t->flags[span] & MTP__SPAN_STEP) != 0 ? s->between : name_of(s, v->t->name[span]);
    default:
        return 0;
    }
}

/* A running step: instants of a track come in order. */
static uint32_t step_of(const mtp__rank *k, uint32_t *at, int64_t t)
{
    while (*at < k->step_count && k->steps[*at].end_ns <= t)
        ++*at;
    return *at < k->step_count && k->steps[*at].start_ns <= t ? *at : MTP__NO_STEP;
}

static bool add_thread(sums *s, const mtp__track *track, int64_t *own)
{
    const mtp_trace *t = s->v->t;
    uint32_t end = track->first + track->count, at = 0;
    int64_t comm_end = INT64_MIN; /* what is within communication is not the op's own */
    for (uint32_t i = track->first; i < end; i++) {
        own[i - track->first] = t->end[i] - t->start[i];
        if (t->parent[i] != MTP__NONE && t->parent[i] >= track->first) {
            int64_t to = t->end[t->parent[i]];
            own[t->parent[i] - track->first] -= (t->end[i] < to ? t->end[i] : to) - t->start[i];
        }
    }
    for (uint32_t i = track->first; i < end; i++) {
        uint32_t name = t->start[i] < comm_end ? 0 : host_name(s, i);
        if (name == 0) {
            mtp__name_is is = mtp__rank_name(s->v, i);
            if ((is == MTP__NAME_CALL || is == MTP__NAME_COMM || is == MTP__NAME_RECORD) &&
                t->end[i] > comm_end)
                comm_end = t->end[i];
            continue;
        }
        uint32_t step = step_of(s->v->k, &at, (int64_t)((uint64_t)t->start[i] + (uint64_t)s->v->k->base));
        if (step != MTP__NO_STEP && !add(s, step, name, false, own[i - track->first]))
            return false;
    }
    return true;
}

static bool add_device(sums *s, const mtp__track *track)
{
    const mtp_trace *t = s->v->t;
    uint32_t at = 0;
    for (uint32_t i = track->first; i < track->first + track->count; i++) {
        uint8_t category = t->category[i];
        if ((category != MTP__CATEGORY_KERNEL && category != MTP__CATEGORY_GPU_MEMCPY &&
             category != MTP__CATEGORY_GPU_MEMSET) ||
            mtp__rank_kernel_is_comm(mtp__trace_get_text(t, t->name[i])))
            continue;
        uint32_t step = step_of(s->v->k, &at, (int64_t)((uint64_t)t->start[i] + (uint64_t)s->v->k->base));
        if (step != MTP__NO_STEP && !add(s, step, name_of(s, t->name[i]), true, t->end[i] - t->start[i]))
            return false;
    }
    return true;
}

bool mtp__rank_ops(mtp__rank_view *v)
{
    const mtp_trace *t = v->t;
    uint32_t most = 1;
    for (uint32_t k = 0; k < t->track_count; k++)
        most = t->tracks[k].count > most ? t->tracks[k].count : most;
    sums s = {.v = v,
              .python = mtp__ranks_name(v->r, python, sizeof python - 1),
              .between = mtp__ranks_name(v->r, between, sizeof between - 1)};
    int64_t *own = mtp__calloc(most, sizeof *own);
    s.name = mtp__calloc((size_t)mtp__intern_count(&t->text) + 1, sizeof *s.name);
    bool good = own != NULL && s.name != NULL && s.python != 0 && s.between != 0;
    for (uint32_t k = 0; good && k < t->track_count; k++)
        good = t->tracks[k].on_device ? add_device(&s, &t->tracks[k]) : add_thread(&s, &t->tracks[k], own);
    mtp__pair_map_fini(&s.at);
    mtp__free(s.name);
    mtp__free(own);
    return good;
}
