/* collect/mpi/spans.c - what the spans of calls say: see mpi.h. The keys are those of PyTorch's record_param_comms. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "collect/mpi/mpi.h"

enum {
    TYPES = 64 /* of a thread's cache of datatypes; a power of two */
};

typedef struct type_info {
    mtp__word handle;
    uint64_t generation;
    int64_t bytes;
    char name[40];
} type_info;

static __thread type_info types[TYPES] __attribute__((tls_model("initial-exec")));
static uint64_t type_generation = 1; /* relaxed: changes when a datatype goes, whose handle may return */
static bool used;                    /* relaxed */

bool mtp__mpi_used(void)
{
    return __atomic_load_n(&used, __ATOMIC_RELAXED);
}

bool mtp__mpi_wanted(void)
{
    return MTP__UNLIKELY(mtp_recording() & MTP_CPU);
}

uint32_t mtp__mpi_name(const char *name, uint32_t *known)
{
    uint32_t id = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (id == 0) {
        id = mtp_name(name);
        __atomic_store_n(known, id, __ATOMIC_RELAXED);
    }
    return id;
}

mtp_token mtp__mpi_begin(uint32_t name, const mtp__mpi_text *args)
{
    mtp_op op = MTP_OP_INIT(name);
    op.sequence = args != NULL ? args->sequence : -1;
    __atomic_store_n(&used, true, __ATOMIC_RELAXED);
    op.args = args != NULL && args->n > 0 ? args->at : NULL;
    mtp_op_begin(&op);
    return op.token;
}

/* ------------------------------------------------------------------------------------------------------- text */

void mtp__mpi_put_bytes(mtp__mpi_text *t, const char *bytes, size_t length)
{
    if (t->n + length >= sizeof t->at)
        return;
    memcpy(t->at + t->n, bytes, length);
    t->n += length;
    t->at[t->n] = 0;
}

void mtp__mpi_put(mtp__mpi_text *t, const char *text)
{
    mtp__mpi_put_bytes(t, text, strlen(text));
}

void mtp__mpi_put_integer(mtp__mpi_text *t, const char *before, int64_t value)
{
    mtp__mpi_put(t, before);
    char digits[24];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0)
        digits[--at] = '-';
    mtp__mpi_put_bytes(t, digits + at, sizeof digits - at);
}

void mtp__mpi_put_number(mtp__mpi_text *t, const char *key, int64_t value)
{
    mtp__mpi_put(t, ", \"");
    mtp__mpi_put(t, key);
    mtp__mpi_put_integer(t, "\": ", value);
}

void mtp__mpi_put_amount(mtp__mpi_text *t, const char *side, int64_t elements, int64_t bytes)
{
    mtp__mpi_put(t, ", \"");
    mtp__mpi_put(t, side);
    mtp__mpi_put_integer(t, " msg nelems\": ", elements);
    if (bytes < 0)
        return;
    mtp__mpi_put(t, ", \"");
    mtp__mpi_put(t, side);
    mtp__mpi_put_integer(t, " msg bytes\": ", elements * bytes);
}

/* -------------------------------------------------------------------------------------------------- datatypes */

void mtp__mpi_types_changed(void)
{
    __atomic_fetch_add(&type_generation, 1, __ATOMIC_RELAXED);
}

/* PyTorch's names where there are some. */
static const char *name_as_torch(const char *name)
{
    static const char *const names[][2] = {
        {"MPI_DOUBLE", "Double"},
        {"MPI_FLOAT", "Float"},
        {"MPI_INT", "Int"},
        {"MPI_BYTE", "Byte"},
        {"MPI_LONG", "Long"},
        {"MPI_CHAR", "Char"},
        {"MPI_INT64_T", "Long"},
        {"MPI_INT32_T", "Int"},
        {"MPI_UINT8_T", "Byte"},
        {"MPI_INT8_T", "Char"},
        {"MPI_SHORT", "Short"},
        {"MPI_INT16_T", "Short"},
        {"MPI_LONG_LONG", "Long"},
        {"MPI_C_BOOL", "Bool"},
        {"MPI_SIGNED_CHAR", "Char"},
        {"MPI_UNSIGNED_CHAR", "Byte"},
        {"MPI_UINT64_T", "UInt64"},
        {"MPI_UINT32_T", "UInt32"},
        {"MPI_UNSIGNED", "UInt32"},
        {"MPI_UINT16_T", "UInt16"},
        {"MPI_DOUBLE_PRECISION", "Double"},
        {"MPI_REAL", "Float"},
        {"MPI_INTEGER", "Int"},
        {"MPI_LONG_LONG_INT", "Long"},
        {"MPI_UNSIGNED_LONG", "UInt64"},
        {"MPI_C_DOUBLE_COMPLEX", "ComplexDouble"},
        {"MPI_C_FLOAT_COMPLEX", "ComplexFloat"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0)
            return names[i][1];
    return name;
}

static bool is_safe(const char *name)
{
    for (; *name != 0; name++)
        if ((unsigned char)*name < 0x20 || (unsigned char)*name >= 0x7f || *name == '"' || *name == '\\')
            return false;
    return true;
}

static const type_info *find_type(mtp__word handle)
{
    type_info *info = &types[(handle ^ handle >> 4 ^ handle >> 8 ^ handle >> 16) & (TYPES - 1)];
    uint64_t now = __atomic_load_n(&type_generation, __ATOMIC_RELAXED);
    if (info->handle == handle && info->generation == now)
        return info;
    char name[512] = "";
    int bytes = -1, length = 0;
    if (mtp__pmpi.Type_size(handle, &bytes) != 0)
        bytes = -1;
    if (mtp__pmpi.Type_get_name(handle, name, &length) != 0 || name[0] == 0 || !is_safe(name))
        snprintf(name, sizeof name, "derived");
    info->handle = handle;
    info->generation = now;
    info->bytes = bytes;
    snprintf(info->name, sizeof info->name, "%.39s", name_as_torch(name));
    return info;
}

int64_t mtp__mpi_type_bytes(mtp__word type)
{
    return find_type(type)->bytes;
}

void mtp__mpi_put_type(mtp__mpi_text *t, mtp__word type)
{
    mtp__mpi_put(t, ", \"dtype\": \"");
    mtp__mpi_put(t, find_type(type)->name);
    mtp__mpi_put(t, "\"");
}

/* ---------------------------------------------------------------------------------------------------- amounts */

#define AT(place) (a[(place)-1])

static int64_t count_at(const mtp__mpi_call *call, const void *array, int i)
{
    return call->wide ? ((const int64_t *)array)[i] : ((const int *)array)[i];
}

static int64_t number(const mtp__mpi_call *call, mtp__word argument)
{
    return call->wide ? (int64_t)argument : (int)argument;
}

static int64_t sum(const mtp__mpi_call *call, const void *counts, int n)
{
    int64_t all = 0;
    for (int i = 0; counts != NULL && i < n; i++)
        all += count_at(call, counts, i);
    return all;
}

/* What counts of this call are multiplied by, or how long an array of them is. */
static int others(const mtp__comm *c)
{
    return c->remote >= 0 ? c->remote : c->size;
}

static bool is_root(const mtp__comm *c, int root)
{
    return c->remote >= 0 ? root == mtp__mpi.root : root == c->rank;
}

/* Is this rank of the group that only gives the root its data, or takes it from there? Not those beside the root of an
 * intercommunicator. */
static bool takes_part(const mtp__comm *c, int root)
{
    return c->remote < 0 || root >= 0;
}

static int64_t one_side(const mtp__mpi_call *call, const mtp__word *a, const mtp__comm *c, uint8_t place,
                        bool many, bool each)
{
    if (many)
        return sum(call, (const void *)AT(place), others(c));
    return number(call, AT(place)) * (each ? others(c) : 1);
}

typedef struct amounts {
    int64_t in, out;
    uint8_t in_type, out_type; /* places */
} amounts;

static amounts find_rooted(const mtp__mpi_call *call, const mtp__word *a, const mtp__comm *c)
{
    int root = (int)AT(call->root);
    bool at_root = is_root(c, root), part = takes_part(c, root);
    bool alone = c->remote < 0;
    amounts m = {.in_type = call->in_type, .out_type = call->type};
    if (call->form == MTP__MPI_GATHER) {
        bool in_place = at_root && AT(call->sent) == mtp__mpi.in_place;
        m.out = at_root ? one_side(call, a, c, call->count, call->out_many, true) : 0;
        if (at_root && in_place) /* its own part is what it would send */
            m.in = call->out_many ? count_at(call, (const void *)AT(call->count), c->rank)
                                  : number(call, AT(call->count));
        else
            m.in = part && (alone || !at_root) ? number(call, AT(call->in_count)) : 0;
        m.in_type = in_place ? call->type : call->in_type;
        m.out_type = at_root ? call->type : call->in_type;
    } else {
        bool in_place = at_root && AT(call->received) == mtp__mpi.in_place;
        m.in = at_root ? one_side(call, a, c, call->in_count, call->in_many, true) : 0;
        if (at_root && in_place)
            m.out = call->in_many ? count_at(call, (const void *)AT(call->in_count), c->rank)
                                  : number(call, AT(call->in_count));
        else
            m.out = part && (alone || !at_root) ? number(call, AT(call->count)) : 0;
        m.in_type = at_root ? call->in_type : call->type;
        m.out_type = in_place ? call->in_type : call->type;
    }
    return m;
}

static amounts find_all(const mtp__mpi_call *call, const mtp__word *a, const mtp__comm *c)
{
    bool in_place = call->sent > 0 && AT(call->sent) == mtp__mpi.in_place;
    amounts m = {.in_type = in_place ? call->type : call->in_type, .out_type = call->type};
    m.out = one_side(call, a, c, call->count, call->out_many, true);
    if (call->form == MTP__MPI_ALLTOALL)
        m.in = in_place ? m.out : one_side(call, a, c, call->in_count, call->in_many, true);
    else if (!in_place)
        m.in = number(call, AT(call->in_count));
    else
        m.in = call->out_many ? count_at(call, (const void *)AT(call->count), c->rank)
                              : number(call, AT(call->count));
    return m;
}

static amounts find_amounts(const mtp__mpi_call *call, const mtp__word *a, const mtp__comm *c)
{
    amounts m = {.in_type = call->type, .out_type = call->type};
    switch (call->form) {
    case MTP__MPI_SEND:
    case MTP__MPI_SAME:
        m.in = number(call, AT(call->count));
        m.out = call->form == MTP__MPI_SAME ? m.in : 0;
        break;
    case MTP__MPI_RECV:
        m.out = number(call, AT(call->count));
        break;
    case MTP__MPI_SENDRECV:
        m.in = number(call, AT(call->in_count)), m.in_type = call->in_type;
        m.out = number(call, AT(call->count));
        break;
    case MTP__MPI_REDUCE: {
        int root = (int)AT(call->root);
        m.in = takes_part(c, root) ? number(call, AT(call->count)) : 0;
        m.out = is_root(c, root) ? number(call, AT(call->count)) : 0;
        break;
    }
    case MTP__MPI_GATHER:
    case MTP__MPI_SCATTER:
        return find_rooted(call, a, c);
    case MTP__MPI_ALLGATHER:
    case MTP__MPI_ALLTOALL:
        return find_all(call, a, c);
    case MTP__MPI_FOLD:
        m.in = call->out_many ? sum(call, (const void *)AT(call->count), c->size)
                              : number(call, AT(call->count)) * c->size;
        m.out = call->out_many ? count_at(call, (const void *)AT(call->count), c->rank)
                               : number(call, AT(call->count));
        break;
    default:
        break;
    }
    return m;
}

/* ------------------------------------------------------------------------------------------------------ calls */

static void put_peer(mtp__mpi_text *t, const char *key, const mtp__comm *c, int peer)
{
    if (peer == mtp__mpi.any_source)
        mtp__mpi_put_number(t, key, -1);
    else if (peer != mtp__mpi.proc_null)
        mtp__mpi_put_number(t, key, mtp__comm_global(c, peer));
}

static void put_tag(mtp__mpi_text *t, const char *key, int tag)
{
    if (tag != mtp__mpi.any_tag)
        mtp__mpi_put_number(t, key, tag);
}

static void put_peers(mtp__mpi_text *t, const mtp__mpi_call *call, const mtp__word *a, const mtp__comm *c)
{
    bool from = call->form == MTP__MPI_RECV;
    if (call->peer > 0)
        put_peer(t, from ? "Src Rank" : "Dst Rank", c, (int)AT(call->peer));
    if (call->source > 0)
        put_peer(t, "Src Rank", c, (int)AT(call->source));
    if (call->tag > 0)
        put_tag(t, "Tag", (int)AT(call->tag));
    if (call->source_tag > 0)
        put_tag(t, "Src Tag", (int)AT(call->source_tag));
    if (call->root > 0 && (int)AT(call->root) >= 0) { /* of this group, or of the other one */
        mtp__mpi_put_number(t, "Root", mtp__comm_global(c, (int)AT(call->root)));
    }
}

void mtp__mpi_describe(mtp__mpi_text *t, const mtp__mpi_call *call, const mtp__word *a, mtp__comm *c,
                       uint64_t sequence)
{
    t->n = 0;
    t->sequence = sequence > 0 ? (int64_t)sequence : -1;
    mtp__mpi_put(t, sequence > 0 ? MTP_ARGS_NUMBERED : MTP_ARGS_MEMBERS);
    if (c != NULL)
        mtp__mpi_put_bytes(t, c->prefix, c->prefix_length);
    mtp__mpi_put(t, "\"Collective name\": \"");
    mtp__mpi_put(t, call->what);
    mtp__mpi_put(t, "\"");
    if (c == NULL || call->form == MTP__MPI_PLAIN)
        return;
    put_peers(t, call, a, c);
    if (call->form == MTP__MPI_BARRIER) {
        mtp__mpi_put_amount(t, "In", 0, 0);
        mtp__mpi_put_amount(t, "Out", 0, 0);
        return;
    }
    if (call->count == 0)
        return;
    amounts m = find_amounts(call, a, c);
    mtp__word in = mtp__mpi_handle(AT(m.in_type)), out = mtp__mpi_handle(AT(m.out_type));
    mtp__mpi_put_amount(t, "In", m.in, m.in > 0 ? mtp__mpi_type_bytes(in) : 0);
    mtp__mpi_put_amount(t, "Out", m.out, m.out > 0 ? mtp__mpi_type_bytes(out) : 0);
    mtp__mpi_put_type(t, m.in > 0 ? in : out);
}

void mtp__mpi_message(const mtp__comm *c, const void *status, mtp__word type)
{
    static uint32_t name;
    mtp__mpi_text t = {.sequence = -1};
    int source, tag, bytes = -1, elements = -1;
    memcpy(&source, (const char *)status + mtp__mpi.source_at, sizeof source);
    memcpy(&tag, (const char *)status + mtp__mpi.tag_at, sizeof tag);
    if (c == NULL || source < 0)
        return;
    if (mtp__pmpi.Get_count(status, type, &elements) != 0 || elements < 0) { /* no whole number of them */
        type = mtp__mpi.byte;
        if (mtp__pmpi.Get_count(status, type, &bytes) != 0 || bytes < 0)
            return;
        elements = bytes;
    }
    mtp__mpi_put(&t, MTP_ARGS_MEMBERS);
    mtp__mpi_put_bytes(&t, c->prefix, c->prefix_length - 2);
    mtp__mpi_put_number(&t, "Src Rank", mtp__comm_global(c, source));
    mtp__mpi_put_number(&t, "Tag", tag);
    mtp__mpi_put_amount(&t, "Out", elements, mtp__mpi_type_bytes(type));
    mtp__mpi_put_type(&t, type);
    mtp_scope_end(mtp__mpi_begin(mtp__mpi_name("message", &name), &t));
}
