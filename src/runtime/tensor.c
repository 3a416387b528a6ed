/* runtime/tensor.c - tensors: lifetime, shape and queries.
 *
 * Invariants: a tensor holds one reference to its storage; data is storage->data plus offset elements; the
 * flag MT__CONTIGUOUS always agrees with dims and strides. Freed tensors are cached per thread, since an
 * eager program creates one per op.
 */
#include "runtime/device/device.h"
#include "runtime/narrow.h"
#include "runtime/runtime.h"
#include "runtime/autograd/autograd.h"
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* ----------------------------------------------------------------------------------- shapes and strides */

int64_t mt__numel(int rank, const int64_t *dims)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    return n;
}

void mt__contiguous_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= dims[i] > 1 ? dims[i] : 1;
    }
}

void mt__set_contiguous_flag(mt_tensor *t)
{
    bool yes = true;
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0 && yes; i--) {
        if (t->dims[i] == 1)
            continue;
        yes = t->strides[i] == step;
        step *= t->dims[i];
    }
    if (yes || t->numel == 0)
        t->flags |= MT__CONTIGUOUS;
    else
        t->flags &= (uint16_t)~MT__CONTIGUOUS;
}

mt_status mt__infer_dims(int64_t numel, int rank, const int64_t *dims, int64_t *out)
{
    int64_t known = 1;
    int free_dim = -1;
    for (int i = 0; i < rank; i++) {
        out[i] = dims[i];
        if (dims[i] == -1) {
            if (free_dim >= 0)
                return mt__fail(MT_E_RUNTIME, "only one dimension can be inferred");
            free_dim = i;
        } else if (dims[i] < 0) {
            return mt__fail(MT_E_RUNTIME, "invalid shape dimension %lld", (long long)dims[i]);
        } else if (__builtin_mul_overflow(known, dims[i], &known)) {
            return mt__fail(MT_E_RUNTIME, "numel: integer multiplication overflow");
        }
    }
    if (free_dim >= 0 && known > 0 && numel % known == 0) {
        out[free_dim] = numel / known;
        return MT_OK;
    }
    if (free_dim >= 0 && known == 0 && numel == 0)
        return mt__fail(MT_E_RUNTIME,
                        "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension "
                        "size -1 can be "
                        "any value and is ambiguous",
                        mt__shape_text(dims, rank));
    if (free_dim < 0 && known == numel)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME, "shape '%s' is invalid for input of size %lld", mt__shape_text(dims, rank),
                    (long long)numel);
}

mt_status mt__broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims)
{
    int n = rank_a > rank_b ? rank_a : rank_b;
    int64_t made[MT_MAX_RANK];
    for (int i = n - 1; i >= 0; i--) {
        int ia = i - (n - rank_a), ib = i - (n - rank_b);
        int64_t da = ia >= 0 ? a[ia] : 1, db = ib >= 0 ? b[ib] : 1;
        if (da != db && da != 1 && db != 1)
            return mt__fail(MT_E_RUNTIME,
                            "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                            "non-singleton dimension %d",
                            (long long)da, (long long)db, i);
        made[i] = da == 1 ? db : da;
    }
    memcpy(dims, made, (size_t)n * sizeof *dims);
    *rank = n;
    return MT_OK;
}

void mt__broadcast_strides(const mt_tensor *t, int rank, const int64_t *dims, int64_t *strides)
{
    int lead = rank - t->rank;
    for (int i = 0; i < rank; i++)
        strides[i] = i < lead || (t->dims[i - lead] == 1 && dims[i] != 1) ? 0 : t->strides[i - lead];
}

mt_status mt__wrap_dim(int64_t dim, int rank, int *out)
{
    int n = rank > 0 ? rank : 1;
    if (dim < -n || dim >= n)
        return mt__fail(MT_E_INDEX,
                        "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n,
                        n - 1, (long long)dim);
    *out = (int)(dim < 0 ? dim + n : dim);
    return MT_OK;
}

mt__scalar mt__scalar_of(mt_dtype dtype, const mt_value *v)
{
    mt__scalar e = {.as_INT64 = 0};
    bool real = v->kind == MT_FLOAT;
    switch (dtype) {
#define X(sym, ...)                                                                                          \
    case MT_##sym:                                                                                           \
        e.as_##sym = real ? MT__TO_##sym(v->as.f) : MT__TO_##sym(v->as.i);                                   \
        break;
        MT_DTYPE_LIST(X)
    case MT_DTYPES:
        break;
#undef X
    }
    return e;
}

mt_status mt__check_fits_slowly(const mt_value *v, mt_dtype dtype)
{
    static const struct {
        const char *type;
        double least, most;
    } whole[MT_DTYPES] = {[MT_UINT8] = {"uint8_t", -UINT8_MAX, UINT8_MAX}, /* negative integers wrap around */
                          [MT_INT8] = {"int8_t", INT8_MIN, INT8_MAX},
                          [MT_INT16] = {"int16_t", INT16_MIN, INT16_MAX},
                          [MT_INT32] = {"int", INT32_MIN, INT32_MAX}};
    bool real = v->kind == MT_FLOAT;
    double f = mt__value_number(v);
    const char *to = NULL;
    double most = dtype == MT_FLOAT32    ? (double)FLT_MAX
                  : dtype == MT_FLOAT16  ? MT__MOST_FLOAT16
                  : dtype == MT_BFLOAT16 ? MT__MOST_BFLOAT16
                                         : INFINITY;
    double least = real && dtype == MT_UINT8 ? 0 : whole[dtype].least;
    if (whole[dtype].type != NULL && !(f >= least && f <= whole[dtype].most))
        to = whole[dtype].type;
    else if (dtype == MT_INT64 && real && !(f >= -0x1p63 && f < 0x1p63))
        to = "int64_t";
    else if (isfinite(f) && fabs(f) > most)
        to = mt__c_type(dtype);
    if (to == NULL)
        return MT_OK;
    return mt__fail(MT_E_RUNTIME, "value cannot be converted to type %s without overflow", to);
}

/* --------------------------------------------------------------------------------------- life of a tensor */

#define KEPT 256
typedef struct thread_tensors {
    unsigned count;
    mt_tensor *free[KEPT];
} thread_tensors;
static MT__FAST_TLS thread_tensors *kept; /* NULL until the thread frees one, and again when it ends */
static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;

static void end_thread(void *mine)
{
    thread_tensors *t = mine;
    kept = NULL;
    while (t->count > 0)
        free(t->free[--t->count]);
    free(t);
}

static void make_kept_key(void)
{
    pthread_key_create(&kept_key, end_thread);
}

static void begin_thread(void)
{
    pthread_once(&kept_once, make_kept_key);
    kept = malloc(sizeof *kept);
    if (kept == NULL)
        return;
    kept->count = 0;
    if (pthread_setspecific(kept_key, kept) != 0) {
        free(kept);
        kept = NULL;
    }
}

static void put_back(mt_tensor *t)
{
    if (MT__UNLIKELY(kept == NULL))
        begin_thread();
    if (kept != NULL && kept->count < KEPT)
        kept->free[kept->count++] = t;
    else
        free(t);
}

mt_tensor *mt__tensor_new(mt_dtype dtype, mt_device device, int rank, const int64_t *dims)
{
    thread_tensors *mine = kept;
    mt_tensor *t = mine != NULL && mine->count > 0 ? mine->free[--mine->count] : malloc(sizeof *t);
    if (t == NULL) {
        mt__fail(MT_E_NOMEM, "out of memory: a tensor's header");
        return NULL;
    }
    if (MT__UNLIKELY(mt__is_narrow(dtype)))
        atomic_store_explicit(&mt__narrow_made, true, memory_order_relaxed);
    atomic_init(&t->refs, 1);
    t->dtype = (uint8_t)dtype;
    t->rank = (uint8_t)rank;
    t->flags = MT__CONTIGUOUS;
    t->device = device;
    t->output = 0;
    t->storage = NULL;
    t->data = NULL;
    t->offset = 0;
    t->grad = NULL;
    t->grad_fn = NULL;
    t->extra = NULL;
    t->python = NULL;
    atomic_init(&t->number, 0);
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t->dims[i] = dims[i];
        t->strides[i] = step;
        step *= dims[i] > 1 ? dims[i] : 1;
    }
    t->numel = mt__numel(rank, dims);
    return t;
}

static mt_status check_dims(int rank, const int64_t *dims, size_t item, size_t *bytes)
{
    if (rank < 0 || rank > MT_MAX_RANK)
        return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %d)",
                        MT_MAX_RANK, rank);
    size_t n = item;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return mt__fail(MT_E_RUNTIME, "Trying to create tensor with negative dimension %lld: %s",
                            (long long)dims[i], mt__shape_text(dims, rank));
        if (__builtin_mul_overflow(n, (size_t)dims[i], &n) || n > INT64_MAX)
            return mt__fail(MT_E_RUNTIME, "Storage size calculation overflowed with sizes=%s",
                            mt__shape_text(dims, rank));
    }
    *bytes = n;
    return MT_OK;
}

mt_status mt__empty(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out)
{
    size_t bytes;
    *out = NULL;
    mt_status status = check_dims(rank, dims, mt_dtype_bytes(dtype), &bytes);
    if (status != MT_OK)
        return status;
    if (MT__UNLIKELY(mt__placing != NULL) && out >= mt__placing->outs &&
        out < mt__placing->outs + mt__placing->out_count)
        return mt__place(dtype, device, rank, dims, out);
    mt_tensor *t = mt__tensor_new(dtype, device, rank, dims);
    if (t == NULL)
        return MT_E_NOMEM;
    status = mt__storage_create(device, bytes, &t->storage);
    if (status != MT_OK) {
        put_back(t);
        return status;
    }
    t->data = t->storage->data;
    *out = t;
    return MT_OK;
}

mt_status mt__alias(const mt_tensor *t, int rank, const int64_t *dims, const int64_t *strides, int64_t offset,
                    mt_tensor **out)
{
    return mt__alias_as(t, (mt_dtype)t->dtype, rank, dims, strides, offset, out);
}

mt_status mt__alias_as(const mt_tensor *t, mt_dtype dtype, int rank, const int64_t *dims,
                       const int64_t *strides, int64_t offset, mt_tensor **out)
{
    *out = NULL;
    if (rank > MT_MAX_RANK)
        return mt__fail(MT_E_RUNTIME, "tensors of more than %d dimensions are not supported (got %d)",
                        MT_MAX_RANK, rank);
    mt_tensor *v = mt__tensor_new(dtype, t->device, rank, dims);
    if (v == NULL)
        return MT_E_NOMEM;
    if (strides != NULL)
        memcpy(v->strides, strides, (size_t)rank * sizeof *strides);
    v->storage = mt__storage_retain(t->storage);
    v->offset = offset;
    v->data = MT_DEVICE_TYPE(t->device) == 0 ? (char *)t->storage->data + offset * (int64_t)mt__size_of(v)
                                             : t->storage->data;
    mt__set_contiguous_flag(v);
    mt_status status = MT__UNLIKELY(t->flags & MT__OWN_VERSION) ? mt__share_version(v, t) : MT_OK;
    if (status == MT_OK)
        *out = v;
    else
        mt_release(v);
    return status;
}

mt_tensor *mt_retain(mt_tensor *t)
{
    if (t != NULL)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void mt_release(mt_tensor *t)
{
    /* acq_rel: pairs with the release of every other owner */
    if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
        return;
    mt__storage_release(t->storage);
    if (t->grad_fn != NULL || t->grad != NULL || t->extra != NULL)
        mt__autograd_forget(t);
    put_back(t);
}

/* --------------------------------------------------------------------------------------- what users ask */

#define ROW(sym, type, name, other, scalar, number, cpp, format, kind)                                       \
    [MT_##sym] = {name, other, scalar, cpp, format, sizeof(type), kind, number},
#define TRUTH(sym, type, value, ...) ROW(sym, type, __VA_ARGS__, MT_KIND_TRUTH)
#define WHOLE(sym, type, value, ...) ROW(sym, type, __VA_ARGS__, MT_KIND_WHOLE)
#define REAL(sym, type, value, ...) ROW(sym, type, __VA_ARGS__, MT_KIND_REAL)
const mt_dtype_info *mt_dtype_describe(mt_dtype dtype)
{
    static const mt_dtype_info infos[MT_DTYPES + 1] = {
        MT_DTYPES_TRUTH(TRUTH) MT_DTYPES_WHOLE(WHOLE) MT_DTYPES_NARROW_WHOLE(WHOLE) MT_DTYPES_REAL(REAL)
            MT_DTYPES_NARROW_REAL(REAL)[MT_DTYPES] = {"?", "?", "?", "?", "?", 0, 0, 0}};
    return &infos[(unsigned)dtype < MT_DTYPES ? dtype : MT_DTYPES];
}
#undef ROW
#undef TRUTH
#undef WHOLE
#undef REAL

const char *mt__scalar_type(unsigned dtype)
{
    return mt_dtype_describe((mt_dtype)dtype)->scalar_type;
}

const char *mt__c_type(unsigned dtype)
{
    return mt_dtype_describe((mt_dtype)dtype)->cpp_type;
}

const char *mt_dtype_name(mt_dtype dtype)
{
    return mt_dtype_describe(dtype)->name;
}

size_t mt_dtype_bytes(mt_dtype dtype)
{
    return mt_dtype_describe(dtype)->bytes;
}

bool mt_dtype_parse(const char *text, mt_dtype *out)
{
    for (unsigned i = 0; i < MT_DTYPES; i++) {
        const mt_dtype_info *info = mt_dtype_describe((mt_dtype)i);
        if (strcmp(text, info->name) == 0 || strcmp(text, info->other_name) == 0) {
            *out = (mt_dtype)i;
            return true;
        }
    }
    return false;
}

mt_dtype mt_dtype_of(const mt_tensor *t)
{
    return (mt_dtype)t->dtype;
}
mt_device mt_device_of(const mt_tensor *t)
{
    return t->device;
}
int mt_rank(const mt_tensor *t)
{
    return t->rank;
}
const int64_t *mt_dims(const mt_tensor *t)
{
    return t->dims;
}
const int64_t *mt_strides(const mt_tensor *t)
{
    return t->strides;
}
int64_t mt_numel(const mt_tensor *t)
{
    return t->numel;
}
bool mt_is_contiguous(const mt_tensor *t)
{
    return (t->flags & MT__CONTIGUOUS) != 0;
}
void *mt_data(const mt_tensor *t)
{
    return MT_DEVICE_TYPE(t->device) == 0 ? t->data : NULL;
}
/* On a device, the memory's handle serves as the base address. */
uint64_t mt_address(const mt_tensor *t)
{
    return MT_DEVICE_TYPE(t->device) == 0
               ? (uint64_t)(uintptr_t)t->data
               : (uint64_t)(uintptr_t)t->storage->data + (uint64_t)t->offset * mt__size_of(t);
}
uint32_t mt_version(const mt_tensor *t)
{
    return *mt__version(t);
}

mt_status mt_tensor_create(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out)
{
    *out = NULL;
    if ((unsigned)dtype >= MT_DTYPES)
        return mt__fail(MT_E_VALUE, "mt_tensor_create: %d is not a dtype", (int)dtype);
    return mt__empty(dtype, device, rank, dims, out);
}

mt_status mt_tensor_from(const void *data, mt_dtype dtype, int rank, const int64_t *dims, mt_tensor **out)
{
    mt_status status = mt_tensor_create(dtype, MT_CPU, rank, dims, out);
    if (status != MT_OK)
        return status;
    memcpy((*out)->data, data, (*out)->storage->bytes);
    (*out)->flags |= MT__IS_INPUT;
    mt_tensor_tag(*out, MTP_MEMORY_INPUT);
    return MT_OK;
}

static void drop_nothing(void *user)
{
    (void)user;
}

/* The bytes from the first element to the end of the last; they may be fewer than the elements need by
 * themselves, or more. */
static mt_status borrowed_bytes(size_t item, int rank, const int64_t *dims, const int64_t *strides,
                                size_t *bytes)
{
    int64_t last = 0;
    bool fits = true;
    for (int i = 0; i < rank; i++) {
        int64_t way = 0;
        if (strides[i] < 0)
            return mt__fail(MT_E_VALUE, "mt_tensor_borrow: stride %lld of dim %d is negative",
                            (long long)strides[i], i);
        fits &= !__builtin_mul_overflow(dims[i] > 0 ? dims[i] - 1 : 0, strides[i], &way) &&
                !__builtin_add_overflow(last, way, &last);
    }
    fits &= last < INT64_MAX && !__builtin_mul_overflow((size_t)last + 1, item, bytes);
    return fits ? MT_OK : mt__fail(MT_E_VALUE, "mt_tensor_borrow: the strides do not fit into memory");
}

mt_status mt_tensor_borrow(void *data, mt_dtype dtype, int rank, const int64_t *dims, const int64_t *strides,
                           void (*drop)(void *user), void *user, mt_tensor **out)
{
    size_t bytes;
    *out = NULL;
    if ((unsigned)dtype >= MT_DTYPES)
        return mt__fail(MT_E_VALUE, "mt_tensor_borrow: %d is not a dtype", (int)dtype);
    mt_status status = check_dims(rank, dims, mt_dtype_bytes(dtype), &bytes);
    if (status == MT_OK && strides != NULL && bytes > 0)
        status = borrowed_bytes(mt_dtype_bytes(dtype), rank, dims, strides, &bytes);
    if (status != MT_OK)
        return status;
    mt_storage *s = calloc(1, sizeof *s);
    mt_tensor *t = mt__tensor_new(dtype, MT_CPU, rank, dims);
    if (s == NULL || t == NULL) {
        free(s);
        if (t != NULL)
            put_back(t);
        return mt__fail(MT_E_NOMEM, "out of memory: a borrowed tensor");
    }
    atomic_init(&s->refs, 1);
    s->category = MTP_MEMORY_INPUT;
    s->data = data;
    s->bytes = bytes;
    s->drop = drop != NULL ? drop : drop_nothing; /* marks borrowed memory */
    s->user = user;
    t->storage = s;
    t->data = data;
    t->flags |= MT__IS_INPUT;
    if (strides != NULL) {
        memcpy(t->strides, strides, (size_t)rank * sizeof *strides);
        mt__set_contiguous_flag(t);
    }
    *out = t;
    return MT_OK;
}

static mt_status one_element(const mt_tensor *t)
{
    if (t->numel != 1)
        return mt__fail(MT_E_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar",
                        (long long)t->numel);
    return MT_OK;
}

/* Copies the element to the CPU from any device. */
static mt_status read_element(const mt_tensor *t, void *out)
{
    if (t == NULL) { /* from a failed op: keep its error */
        mt_status failed = mt_scope_status();
        return failed != MT_OK ? failed : mt__fail(MT_E_VALUE, "mt_item: the tensor is NULL");
    }
    mt_status status = one_element(t);
    if (status != MT_OK)
        return status;
    if (MT_DEVICE_TYPE(t->device) == 0) {
        memcpy(out, t->data, mt__size_of(t));
        return MT_OK;
    }
    return mt__device_read(t, out);
}

/* A byte that x.view(torch.bool) shows may be neither 0 nor 1, which C's bool must be. */
static bool is_true(const mt__scalar *e)
{
    return e->as_UINT8 != 0;
}

/* The element e as double, or as int64_t. */
#define X(sym, ...)                                                                                          \
    case MT_##sym:                                                                                           \
        return (AS)MT__FROM_##sym(e->as_##sym);
#define AS double
static double real_of(mt_dtype dtype, const mt__scalar *e)
{
    if (dtype == MT_BOOL)
        return is_true(e);
    switch (dtype) {
        MT_DTYPE_LIST(X)
    default:
        return 0;
    }
}
#undef AS
#define AS int64_t
static int64_t whole_of(mt_dtype dtype, const mt__scalar *e)
{
    if (dtype == MT_BOOL)
        return is_true(e);
    switch (dtype) {
        MT_DTYPE_LIST(X)
    default:
        return 0;
    }
}
#undef AS
#undef X

mt_status mt_item(const mt_tensor *t, double *out)
{
    mt__scalar e;
    mt_status status = read_element(t, &e);
    if (status == MT_OK)
        *out = real_of((mt_dtype)t->dtype, &e);
    return status;
}

mt_status mt_item_int(const mt_tensor *t, int64_t *out)
{
    mt__scalar e;
    mt_status status = read_element(t, &e);
    if (status == MT_OK)
        *out = whole_of((mt_dtype)t->dtype, &e);
    return status;
}

mt_value mt_element(const void *at, mt_dtype dtype)
{
    mt__scalar e;
    memcpy(&e, at, mt_dtype_bytes(dtype));
    return mt_dtype_is_real(dtype) ? mt_value_float(real_of(dtype, &e))
           : dtype == MT_BOOL      ? mt_value_truth(is_true(&e))
                                   : mt_value_int(whole_of(dtype, &e));
}

void mt_element_set(void *at, mt_dtype dtype, mt_value number)
{
    mt__scalar e = mt__scalar_of(dtype, &number);
    memcpy(at, &e, mt_dtype_bytes(dtype));
}

void mt_tensor_tag(mt_tensor *t, int category)
{
    mt_storage *s = t->storage;
    uint32_t recording = mtp_recording();
    bool same = s->category == (uint8_t)category;
    s->category = (uint8_t)category;
    if (MT__LIKELY(!(recording & MTP_WITH_MEMORY)))
        return;
    if (atomic_load_explicit(&s->session, memory_order_relaxed) != MTP_SESSION(recording))
        mt__storage_report_existing(s, recording);
    else if (!same)
        mtp_memory_tag(s->device, s->data, (mtp_memory_category)category);
}
