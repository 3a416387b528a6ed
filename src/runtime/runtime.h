/* runtime/runtime.h - shared by the files of the runtime: the tensor, the op, and a call of an op.
 *
 * Inside the runtime, references are owned unless a comment says borrowed; a function that returns an error
 * status has set the message with mt__fail(). Private names start with mt__.
 */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H
#include <mindtorch.h>
#include <mtprof.h>
#include <stdatomic.h>
#include <string.h>

#define MT__LIKELY(x) __builtin_expect(!!(x), 1)
#define MT__UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For small variables only: a library loaded by Python has little room for them. */
#define MT__FAST_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#define MT__COUNT_OF(a) (sizeof(a) / sizeof(*(a)))

/* ---------------------------------------------------------------------------------------------- errors */

/* Sets the message of mt_last_error() and returns status. */
__attribute__((format(printf, 2, 3))) mt_status mt__fail(mt_status status, const char *format, ...);

/* Sets the status of the innermost scope to that of mt__fail(); returns NULL. */
mt_tensor *mt__fail_scope(mt_status status);

/* dims as "[2, 3]", for messages; in one of the thread's eight buffers, used in turn. */
const char *mt__shape_text(const int64_t *dims, int rank);
const char *mt__device_text(mt_device device); /* "cpu", "npu:0" */

/* ---------------------------------------------------------------------------------------------- storage */

/* Memory shared by tensors. For CPU memory that we allocate, this header precedes the bytes. */
struct mt_storage {
    _Atomic uint32_t refs;
    uint32_t version; /* how often the bytes were changed in place: mt__version() */
    mt_device device;
    _Atomic uint8_t category; /* mtp_memory_category; relaxed: independent of other fields */
    uint8_t size_class;       /* for the allocator */
    _Atomic uint16_t session; /* MTP_SESSION of the last recording it was reported to */
    void *data;               /* CPU memory, or another device's handle */
    size_t bytes;
    void (*drop)(void *user); /* for borrowed memory, else NULL */
    void *user;
    void *device_block; /* for the device allocator */
    bool of_graph;      /* created by an op that autograd tracks */
};

mt_status mt__storage_create(mt_device device, size_t bytes, mt_storage **out);
void mt__storage_free(mt_storage *s); /* after the last reference */

/* Reports a block that existed before the recording, once. recording: mtp_recording(). Borrowed memory is not
 * reported: it is not in the allocator's totals, and its end is unknown. */
void mt__storage_report_existing(mt_storage *s, uint32_t recording);
/* Reports that it was allocated (change > 0) or is about to be freed, with the totals afterwards. */
void mt__storage_report(mt_storage *s, int64_t change, uint64_t allocated, uint64_t reserved);

/* How many recorded ops and nodes the thread is in: at 0, the arguments of an op come from the user. */
extern MT__FAST_TLS uint32_t mt__recorded_depth;
/* Are calls made by an op or a derivative, rather than by user code (which may run inside
 * them: hooks, modes)? */
extern MT__FAST_TLS bool mt__within_op;

static inline mt_storage *mt__storage_retain(mt_storage *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static inline void mt__storage_release(mt_storage *s)
{
    /* acq_rel: pairs with the release of every other owner */
    if (s != NULL && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        mt__storage_free(s);
}

/* ---------------------------------------------------------------------------------------------- tensors */

enum mt__tensor_flags {
    MT__REQUIRES_GRAD = 1, /* set for leaves only; non-leaves have grad_fn instead */
    MT__CONTIGUOUS = 2,
    MT__RETAINS_GRAD = 4,
    MT__IS_PARAMETER = 8,
    MT__IS_VIEW = 16,          /* a view of extra->base */
    MT__VIEW_OF_NO_GRAD = 64,  /* a view made under no_grad, or a view of one: autograd forbids changes */
    MT__VIEW_OF_SEVERAL = 128, /* one of several views of split() or the like, or a view of one: the same */
    MT__IS_INPUT = 32,         /* made from the user's data, not by an op */
    MT__IS_NUMBER = 256,       /* stands for a number, and promotes like one: numbers.c */
    MT__OWN_VERSION = 512      /* counts its changes in extra->versions, not in the storage */
};

struct mt__extra; /* autograd/autograd.h: rarely needed parts */

struct mt_tensor {
    _Atomic uint32_t refs;
    uint8_t dtype, rank;
    uint16_t flags;
    mt_device device;
    uint32_t output; /* which output of grad_fn this is */
    int64_t numel;
    mt_storage *storage;
    void *data;     /* for a CPU tensor: storage->data + offset */
    int64_t offset; /* in elements */
    int64_t dims[MT_MAX_RANK];
    int64_t strides[MT_MAX_RANK]; /* in elements; arbitrary for dims of size 0 or 1 */
    mt_tensor *grad;
    mt_node *grad_fn;
    struct mt__extra *extra;
    void *python;            /* borrowed: its Python object, or NULL */
    _Atomic uint64_t number; /* id in profiles, never reused; 0: not assigned yet */
};

/* A tensor without storage: refs 1, the arguments' fields set, all else zero. NULL: out of memory. */
mt_tensor *mt__tensor_new(mt_dtype dtype, mt_device device, int rank, const int64_t *dims);
/* Uninitialised, contiguous. */
mt_status mt__empty(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out);
static inline mt_status mt__empty_like(const mt_tensor *t, mt_dtype dtype, mt_tensor **out)
{
    return mt__empty(dtype, t->device, t->rank, t->dims, out);
}
/* Another tensor on the same storage; offset in elements from the start of the storage. */
mt_status mt__alias(const mt_tensor *t, int rank, const int64_t *dims, const int64_t *strides, int64_t offset,
                    mt_tensor **out);
/* The same with elements of another dtype: strides and offset count these. */
mt_status mt__alias_as(const mt_tensor *t, mt_dtype dtype, int rank, const int64_t *dims,
                       const int64_t *strides, int64_t offset, mt_tensor **out);
/* t, retained, if contiguous; else a contiguous copy that is not recorded and has no graph. */
mt_status mt__contiguous(const mt_tensor *t, mt_tensor **out);
/* The same for t broadcast to (rank, dims). */
mt_status mt__contiguous_as(const mt_tensor *t, int rank, const int64_t *dims, mt_tensor **out);
/* Contiguous tensors for the duration of a call. */
typedef struct mt__held { /* set status to MT_OK */
    mt_tensor *items[10];
    int count;
    mt_status status; /* the first error; nothing is held after it */
} mt__held;
const mt_tensor *mt__hold(mt__held *h, const mt_tensor *t); /* NULL stays NULL */
const mt_tensor *mt__hold_as(mt__held *h, const mt_tensor *t, mt_dtype dtype);
mt_status mt__let_go(mt__held *h);
void mt__set_contiguous_flag(mt_tensor *t);
void mt__contiguous_strides(int rank, const int64_t *dims, int64_t *strides);
int64_t mt__numel(int rank, const int64_t *dims);
/* dims with one -1 filled in; fails like reshape. */
mt_status mt__infer_dims(int64_t numel, int rank, const int64_t *dims, int64_t *out);
/* The dims that a and b broadcast to. */
mt_status mt__broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);
/* Strides of t broadcast to (rank, dims). */
void mt__broadcast_strides(const mt_tensor *t, int rank, const int64_t *dims, int64_t *strides);
/* Fails as in PyTorch if several elements of a tensor to be written share memory (a stride of 0). */
mt_status mt__check_written(const mt_tensor *self);
/* dim in [-rank, rank) to [0, rank); a scalar counts as rank 1. Fails with PyTorch's IndexError. */
mt_status mt__wrap_dim(int64_t dim, int rank, int *out);
static inline int mt__wrapped_dim(int64_t dim, int rank) /* for a dim that infer has checked */
{
    return (int)(dim < 0 ? dim + (rank > 0 ? rank : 1) : dim);
}

static inline bool mt__has_dims(const mt_tensor *t, int rank, const int64_t *dims)
{
    if (t->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (t->dims[i] != dims[i])
            return false;
    return true;
}

/* t as [outer, n, inner], where n is the size of dim; a scalar as [1, 1, 1]. */
typedef struct mt__split {
    int64_t outer, n, inner;
} mt__split;
static inline mt__split mt__split_at(const mt_tensor *t, int dim)
{
    mt__split s = {1, 1, 1};
    for (int i = 0; i < t->rank; i++)
        *(i < dim ? &s.outer : i == dim ? &s.n : &s.inner) *= t->dims[i];
    return s;
}

/* How often the memory was changed in place, as far as autograd should notice: a tensor shares its count with its views
 * and with what detach() returns, but not with its .data. */
uint32_t *mt__own_version(const mt_tensor *t);
static inline uint32_t *mt__version(const mt_tensor *t)
{
    return MT__UNLIKELY(t->flags & MT__OWN_VERSION) ? mt__own_version(t) : &t->storage->version;
}
mt_status mt__share_version(mt_tensor *t, const mt_tensor *with); /* with has an own one */
mt_status mt__leave_version(mt_tensor *t, uint32_t version);      /* t counts for itself from now on */

bool mt__base_tracks(const mt_tensor *view);
static inline bool mt__tracks(const mt_tensor *t) /* does autograd track it? */
{
    return (t->flags & MT__REQUIRES_GRAD) != 0 || t->grad_fn != NULL ||
           ((t->flags & MT__IS_VIEW) != 0 && mt__base_tracks(t));
}
static inline bool mt__is_floating(mt_dtype d)
{
    return mt_dtype_is_real(d);
}
static inline size_t mt__size_of(const mt_tensor *t)
{
#define X(sym, type, ...) [MT_##sym] = sizeof(type),
    static const uint8_t sizes[MT_DTYPES] = {MT_DTYPE_LIST(X)};
#undef X
    return sizes[t->dtype];
}
/* As PyTorch's messages name it, some in the one way, some in the other: "Long", "long int". */
const char *mt__scalar_type(unsigned dtype);
const char *mt__c_type(unsigned dtype);

/* ------------------------------------------------------------------------------------------------- ops */

/* The bytes of one element. */
#define X(sym, type, ...) type as_##sym;
typedef union mt__scalar {
    MT_DTYPE_LIST(X)
} mt__scalar;
#undef X
mt__scalar mt__scalar_of(mt_dtype dtype, const mt_value *v); /* of a number, cast to dtype */

/* A number that dtype cannot hold is an error, where PyTorch refuses it (x + 2**40 wraps around). Infinity and
 * NaN fit every floating dtype. Anything but a number fits. */
mt_status mt__check_fits_slowly(const mt_value *v, mt_dtype dtype);
static inline mt_status mt__check_fits(const mt_value *v, mt_dtype dtype)
{
    bool small = v->kind == MT_INT ? v->as.i == (int32_t)v->as.i && !((unsigned)MT_NARROW_DTYPES >> dtype & 1)
                                   : v->kind != MT_FLOAT;
    return MT__LIKELY(small) ? MT_OK : mt__check_fits_slowly(v, dtype);
}

#define MT__MAX_ARGS 16
#define MT__MAX_OUTS 4

struct mt__call;
typedef mt_status mt__fn(struct mt__call *call);
typedef uint64_t mt__flops_fn(const struct mt__call *call); /* arguments are unchecked: 0 if invalid */

/* The derivative of an op; see autograd/autograd.h. */
typedef struct mt__grad mt__grad;

/* Where numbers among the operands of a recorded call become tensors; see numbers.c. */
typedef enum mt__numbers {
    MT__NUMBERS_AS_USUAL, /* in the table: what its infer says (ops.c) */
    MT__NUMBERS_STAY,     /* nowhere; operands are not converted either */
    MT__NUMBERS_OUTSIDE,  /* in the caller, unless that is an op; else as AGAIN */
    MT__NUMBERS_AGAIN,    /* in the op, which calls itself with the tensor */
    MT__NUMBERS_TURNED,   /* in rsub, which calls sub with the tensor */
    MT__NUMBERS_WITHIN,   /* in the op, for itself */
    MT__NUMBERS_POWER     /* nowhere; the base is converted */
} mt__numbers;

/* The dtypes that the tensor of out= may have, as in PyTorch. */
typedef enum mt__out_rule {
    MT__OUT_CAST = 1, /* any that the result may be cast to: no float to int, no number to bool */
    MT__OUT_JOIN,     /* the same, with another error message */
    MT__OUT_SAME,     /* the result's */
    MT__OUT_FOUND,    /* the result's, with another error message */
    MT__OUT_CHOSEN,   /* any: it determines the result's, like the argument dtype= */
    MT__OUT_TRUTH     /* bool */
} mt__out_rule;

/* What autocast does to the operands of an op: autocast.h. */
typedef enum mt__autocast_rule {
    MT__CAST_NONE,
    MT__CAST_LOWER,  /* to the dtype of the region: matrix products */
    MT__CAST_FLOAT,  /* to float32 */
    MT__CAST_ASKED,  /* nothing, but the argument dtype becomes float32 */
    MT__CAST_WIDEST, /* to the widest of them */
    MT__CAST_REFUSED
} mt__autocast_rule;

typedef struct mt__op {
    const char *schema;
    const char *out; /* PyTorch's name of the out= overload; NULL: none */
    mt__out_rule out_rule;
    mt__fn *infer, *composite;
    mt__fn *kernels[MT_DEVICE_TYPES];
    mt__flops_fn *flops;  /* NULL: not counted */
    const mt__grad *grad; /* NULL: none */
    const char *name;     /* "aten::add" */
    uint32_t name_id;     /* of the profiler */
    mt_op_id id, base;    /* base: of an op in place that was derived, the op; else id */
    uint8_t param_count, required;
    uint8_t out_count; /* 0: a list */
    bool in_place;
    bool view;             /* outputs share the first tensor's storage */
    bool factory;          /* hidden from autograd, with the ops that it calls */
    int8_t options;        /* position of the adjacent dtype and device; -1: none */
    const char *missing;   /* the schema of trailing inputs that only PyTorch's op has; NULL: none */
    uint8_t missing_count; /* how many, and what PyTorch records for each */
    mt_value missing_value;
    bool as_is;       /* recorded with its own arguments only */
    bool copies;      /* its kernel does the same as copy_, from its first argument */
    bool followed;    /* makes a tensor, but is not hidden: see factory */
    bool product;     /* does much more work than it has elements, like a matrix product */
    bool elementwise; /* an element of the result needs the same elements of the operands only */
    bool packed;      /* its result is contiguous; of elementwise ops, else like the operands: layout.c */
    const char *optional_lists;      /* "list:option": a list that is needed only if the option is not 0 */
    uint8_t numbers;                 /* mt__numbers */
    bool floats;                     /* two operands are computed in a floating dtype, whatever theirs are */
    uint8_t narrow[MT_DEVICE_TYPES]; /* mt__narrow: narrow.h */
    uint8_t autocast[MT_DEVICE_TYPES];   /* mt__autocast_rule */
    bool host_numbers;                   /* kernels of accelerators accept 0-dim CPU tensors */
    uint16_t save_for[MT__MAX_ARGS];     /* from grad->saves: the arguments whose gradients need this one */
    uint16_t save_out_for[MT__MAX_OUTS]; /* and this output */
    uint16_t constants;                  /* from grad->constants: bits */
    mt_param params[MT__MAX_ARGS];
} mt__op;
static inline const char *mt__op_short_name(const mt__op *op) /* "add" */
{
    return op->name + sizeof "aten::" - 1;
}

/* The argument without which (at 0) a list is not needed, by op->optional_lists; -1: it is always needed. */
int mt__option_of(const mt__op *op, unsigned list);

extern mt__op mt__ops[]; /* MT_OP_COUNT of them; initialised before main */

/* One call of an op, on the stack of the dispatcher. */
typedef struct mt__call {
    const mt__op *op;
    const mt_value *args; /* op->param_count of them, borrowed */
    mt_tensor **outs;     /* room for op->out_count, or from mt__call_outs() */
    uint32_t out_count;
    mt_tensor *const *into;              /* out_count tensors for the results; NULL: outs are new */
    mt_value *own;                       /* with into: a modifiable copy of args for infer */
    mt_device device;                    /* where it computes */
    mt_dtype compute;                    /* for kernels: the dtype that infer chose to compute in */
    mt_dtype asked;                      /* for messages of kernels: 0, or what compute was: narrow.c */
    bool recorded;                       /* a profile records it and its parts */
    void *scratch;                       /* from infer to kernel */
    void (*drop_scratch)(void *scratch); /* after the kernel, or NULL */
} mt__call;

/* Allocates a list of outputs. */
mt_status mt__call_outs(mt__call *call, uint32_t count);

static inline mt_tensor *mt__arg_tensor(const mt__call *call,
                                        unsigned i) /* borrowed; NULL: absent, or a number */
{
    return call->args[i].kind == MT_TENSOR ? call->args[i].as.tensor : NULL;
}
static inline double mt__value_number(const mt_value *v)
{
    return v->kind == MT_FLOAT ? v->as.f : (double)v->as.i;
}
static inline double mt__arg_number(const mt__call *call, unsigned i)
{
    return mt__value_number(&call->args[i]);
}
static inline int64_t mt__arg_int(const mt__call *call, unsigned i)
{
    return call->args[i].kind == MT_FLOAT ? (int64_t)call->args[i].as.f : call->args[i].as.i;
}
static inline bool mt__arg_given(const mt__call *call, unsigned i)
{
    return call->args[i].kind != MT_NONE;
}

/* For composites: returns t, borrowed from the scope, as the op's output. */
static inline mt_status mt__return(mt__call *call, mt_tensor *t)
{
    call->outs[0] = mt_retain(t);
    return mt_scope_status();
}

/* ---------------------------------------------------------------------------------------------------- out= */

extern MT__FAST_TLS struct mt__call *mt__placing; /* the call with into whose infer is running */
/* mt__empty() for outs[i] of such a call: into[i] if the kernel can write there, else a new tensor. */
mt_status mt__place(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out);
/* Before a call with into runs; tracked: autograd tracks an argument. May change call->device. */
mt_status mt__check_into(mt__call *call, bool tracked);
mt_status mt__infer_into(mt__call *call);
/* For composite factories: into[0] with that size, or a new tensor; borrowed from the scope or the caller. */
mt_tensor *mt__made(mt__call *call, const mt_value *size, mt_value dtype, const mt_value *device);
mt_status mt__resize(mt_tensor *t, int rank, const int64_t *dims); /* not recorded, never refused */
/* After it ran: copies results that are elsewhere to into, which become the outs. */
mt_status mt__settle(mt__call *call);
/* Checks the args of an elementwise op against the tensor it writes: refuses shared memory, unless the
 * layouts are identical or cannot overlap. */
mt_status mt__check_overlap(const mt_tensor *written, const mt_value *args, unsigned count);
bool mt__castable(unsigned from, unsigned to);

/* ---------------------------------------------------------------------------------------- parts of dispatch.c */

/* full: args with defaults filled in, and lists for int[1], which are stored in `lists`. */
mt_status mt__complete(const mt__op *op, const mt_value *args, unsigned count, mt_value *full,
                       int64_t (*lists)[4]);
mt_status mt__call_op(mt__call *call);
mt_status mt__mixed_devices(const mt__op *op, mt_device a, mt_device b);

/* Below autograd and the profiler: runs infer and kernel of an op on valid arguments. For kernels that use
 * other ops, and for work that must not be recorded. */
mt_status mt__run_quietly(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);

/* In a recorded call: does a part of its work that PyTorch's op delegates to another op, recorded as that op,
 * under the name `as` if it is not NULL. args: all arguments of the other op. */
mt_status mt__record_part(mt__call *call, mt_op_id op, const char *as, const mt_value *args, mt__fn *work);

/* Runs infer and kernel of a call that the dispatcher has prepared. */
mt_status mt__compute(mt__call *call);
/* A call below autograd, recorded if a profile runs. */
mt_status mt__call_below(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);

/* ----------------------------------------------------------------------------------------------- numbers */

/* mt__compute() for a recorded call whose op has `numbers`. */
mt_status mt__compute_recorded(mt__call *call);
/* Does this call, of an op with MT__NUMBERS_OUTSIDE, turn its number into a tensor before the op begins? */
bool mt__wraps_outside(const mt__call *call);
/* Runs the call with that tensor. */
mt_status mt__with_number(mt__call *call, mt_status (*run)(mt__call *call, bool tracked), bool tracked);
/* v, but while a profile records, a number becomes a tensor of the innermost scope. For derivatives with
 * respect to an operand that is a number here and a tensor in PyTorch. */
mt_value mt__shown_operand(mt_value v);

/* ------------------------------------------------------------------------------------------ interception */

extern MT__FAST_TLS mt_interceptor mt__interceptor; /* mt_intercept() */

/* Passes the call to the interceptor, which must be set, and takes its results as the op's outputs. */
mt_status mt__hand_over(mt__call *call);

/* ------------------------------------------------------------------------------------------------ layout */

/* Calls compute for an elementwise op whose operands do not all lie in memory in the order of their dims. */
mt_status mt__compute_in_order(mt__call *call, mt__fn *compute);
/* Arguments memory_format: PyTorch's numbers. */
enum {
    MT__CONTIGUOUS_FORMAT,
    MT__PRESERVE_FORMAT
};
/* Strides without gaps, in the order in which the dims of t lie in memory. */
void mt__strides_like(const mt_tensor *t, int64_t *strides);

/* -------------------------------------------------------------------------------------------- promotion */

typedef struct mt__promotion { /* fill with {0} */
    uint8_t dim, zero,
        wrapped; /* 1 + the promoted dtype of tensors with dims, of 0-dim tensors, of numbers; 0: none */
} mt__promotion;
void mt__promote(mt__promotion *p, const mt_value *v);
mt_dtype mt__promoted(const mt__promotion *p);
mt_dtype mt__promote_types(mt_dtype a, mt_dtype b);
mt_dtype mt__common_dtype(const mt__call *call); /* the compute dtype of an op with two operands */
/* Errors of some such ops when computing in dtype. */
mt_status mt__check_operands(const mt__call *call, mt_dtype dtype);
extern mt_dtype mt__default_dtype;                /* of floats; initially float32 */
extern MT__FAST_TLS mt_device mt__default_device; /* for ops without tensor arguments */
mt_dtype mt__value_dtype(const mt_value *v);      /* of a number: bool, int64, or the default */

/* ---------------------------------------------------------------------------------------------- parallel */

/* Calls fn(begin, end, user) over [0, n), in parts of at least `grain`, on this thread and the pool's. */
void mt__parallel(int64_t n, int64_t grain, void (*fn)(int64_t begin, int64_t end, void *user), void *user);

/* -------------------------------------------------------------------------------- what the op table names */

#define K(infer_fn, kernel) mt__fn mt__infer_##infer_fn, mt__cpu_##kernel;
#define V(infer_fn) mt__fn mt__infer_##infer_fn;
#define C(function) mt__fn mt__composite_##function;
#define F(formula) mt__flops_fn mt__flops_##formula;
#define O(overload, rule)
#define N(rule)
#define M(schema)
#define L(pairs)
#define A(flag)
#define H(cpu, accelerator)
#define X(id, text, form, derivative) form extern const mt__grad mt__grad_##derivative;
#define Y(id)
MT_OPS(X, Y)
#undef X
#undef Y
#undef F
#undef O
#undef N
#undef M
#undef L
#undef A
#undef H
#undef K
#undef V
#undef C

#endif
