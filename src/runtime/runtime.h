/* runtime/runtime.h - what the files of the runtime share: the tensor, the op, one call of it.
 *
 * Inside the runtime: references are owned unless a comment says borrowed; a function that returns mt_status has left
 * its message with mt__fail(). Private names are mt__.
 */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H
#include <mindtorch.h>
#include <mtprof.h>
#include <stdatomic.h>
#include <string.h>

#define MT__LIKELY(x) __builtin_expect(!!(x), 1)
#define MT__UNLIKELY(x) __builtin_expect(!!(x), 0)
/* For small variables alone: a library that Python loads has little room for these. */
#define MT__FAST_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#define MT__COUNT_OF(a) (sizeof(a) / sizeof(*(a)))

/* ---------------------------------------------------------------------------------------------- errors */

/* Leaves the message for mt_last_error() and returns status. */
__attribute__((format(printf, 2, 3))) mt_status mt__fail(mt_status status, const char *format, ...);

/* Makes status, of mt__fail(), that of the innermost scope; returns NULL. */
mt_tensor *mt__fail_scope(mt_status status);

/* "[2, 3]" of dims, for messages; one of eight buffers of the thread, used in turn. */
const char *mt__shape_text(const int64_t *dims, int rank);
const char *mt__device_text(mt_device device); /* "cpu", "npu:0" */

/* ---------------------------------------------------------------------------------------------- storage */

/* Memory that tensors share. The header of CPU memory that is ours lies before its bytes. */
struct mt_storage {
    _Atomic uint32_t refs;
    uint32_t version; /* times that the bytes were changed in place */
    mt_device device;
    _Atomic uint8_t category; /* mtp_memory_category; no order: a word of its own */
    uint8_t size_class;       /* the allocator's */
    _Atomic uint16_t session; /* MTP_SESSION of the last recording that was told of it */
    void *data;               /* of a CPU storage; another device's handle otherwise */
    size_t bytes;
    void (*drop)(void *user); /* of borrowed memory, else NULL */
    void *user;
    void *device_block; /* the device allocator's */
    bool of_graph;      /* an op that autograd follows made it */
};

mt_status mt__storage_create(mt_device device, size_t bytes, mt_storage **out);
void mt__storage_free(mt_storage *s); /* at its last reference */

/* Tells the recording of a block that was there before it, once. recording: mtp_recording(). Borrowed memory is not the
 * allocator's: its totals do not have it, and nothing tells its end. */
void mt__storage_tell_existing(mt_storage *s, uint32_t recording);
/* It was taken (change > 0) or is about to be given back; the totals after that. */
void mt__storage_tell(mt_storage *s, int64_t change, uint64_t allocated, uint64_t reserved);

/* How many recorded ops and nodes the thread is inside of: what an op gets at 0 is the user's. */
extern MT__FAST_TLS uint32_t mt__recorded_depth;
/* Does an op or a derivative make the calls, not code of the user's (which may run inside: hooks, modes)? */
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
    MT__REQUIRES_GRAD = 1, /* a leaf that was asked to; non-leaves have grad_fn instead */
    MT__CONTIGUOUS = 2,
    MT__RETAINS_GRAD = 4,
    MT__IS_PARAMETER = 8,
    MT__IS_VIEW = 16,          /* extra->base is what it views */
    MT__VIEW_OF_NO_GRAD = 64,  /* a view made under no_grad, or of such: not to be changed under autograd */
    MT__VIEW_OF_SEVERAL = 128, /* one of the views that an op like split() made, or of such: likewise */
    MT__IS_INPUT = 32,         /* made from the user's data, not by an op */
    MT__IS_NUMBER = 256        /* stands for a number, and promotes as it does: numbers.c */
};

struct mt__extra; /* autograd/autograd.h: what few tensors have */

struct mt_tensor {
    _Atomic uint32_t refs;
    uint8_t dtype, rank;
    uint16_t flags;
    mt_device device;
    uint32_t output; /* which output of grad_fn this is */
    int64_t numel;
    mt_storage *storage;
    void *data;     /* storage->data + offset, of a CPU tensor */
    int64_t offset; /* in elements */
    int64_t dims[MT_MAX_RANK];
    int64_t strides[MT_MAX_RANK]; /* in elements; of a dim of size 1 or 0 any */
    mt_tensor *grad;
    mt_node *grad_fn;
    struct mt__extra *extra;
    void *python;            /* borrowed: the object that stands for it, or NULL */
    _Atomic uint64_t number; /* the profiler's: no other tensor has or had it. 0: nobody asked yet */
};

/* A tensor without storage: refs 1, the fields below set, all else zero. NULL: out of memory. */
mt_tensor *mt__tensor_new(mt_dtype dtype, mt_device device, int rank, const int64_t *dims);
/* Uninitialised, contiguous. */
mt_status mt__empty(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out);
static inline mt_status mt__empty_like(const mt_tensor *t, mt_dtype dtype, mt_tensor **out)
{
    return mt__empty(dtype, t->device, t->rank, t->dims, out);
}
/* Another tensor on the same storage; offset in elements from the storage's begin. */
mt_status mt__alias(const mt_tensor *t, int rank, const int64_t *dims, const int64_t *strides, int64_t offset,
                    mt_tensor **out);
/* Itself, retained, when contiguous; else a contiguous copy that is not recorded and has no graph. */
mt_status mt__contiguous(const mt_tensor *t, mt_tensor **out);
void mt__set_contiguous_flag(mt_tensor *t);
void mt__contiguous_strides(int rank, const int64_t *dims, int64_t *strides);
int64_t mt__numel(int rank, const int64_t *dims);
/* dims with one -1 filled in; fails as reshape does. */
mt_status mt__infer_dims(int64_t numel, int rank, const int64_t *dims, int64_t *out);
/* The dims that a and b broadcast to. */
mt_status mt__broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b, int *rank, int64_t *dims);
/* Strides of t as if it had the dims (rank, dims), which it broadcasts to. */
void mt__broadcast_strides(const mt_tensor *t, int rank, const int64_t *dims, int64_t *strides);
/* Fails as PyTorch does when a place of a tensor that is to be written belongs to several elements (a stride of 0). */
mt_status mt__check_written(const mt_tensor *self);
/* dim in [-rank, rank) to [0, rank); a scalar counts as rank 1. Fails as PyTorch's IndexError does. */
mt_status mt__wrap_dim(int64_t dim, int rank, int *out);

static inline bool mt__has_dims(const mt_tensor *t, int rank, const int64_t *dims)
{
    if (t->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (t->dims[i] != dims[i])
            return false;
    return true;
}

bool mt__base_tracks(const mt_tensor *view);
static inline bool mt__tracks(const mt_tensor *t) /* does autograd follow it? */
{
    return (t->flags & MT__REQUIRES_GRAD) != 0 || t->grad_fn != NULL ||
           ((t->flags & MT__IS_VIEW) != 0 && mt__base_tracks(t));
}
static inline bool mt__is_floating(mt_dtype d)
{
    return d >= MT_FLOAT32;
}
static inline size_t mt__size_of(const mt_tensor *t)
{
    static const uint8_t bytes[] = {1, 4, 8, 4, 8};
    return bytes[t->dtype];
}

/* ------------------------------------------------------------------------------------------------- ops */

#define MT__MAX_ARGS 16
#define MT__MAX_OUTS 4

struct mt__call;
typedef mt_status mt__fn(struct mt__call *call);
typedef uint64_t mt__flops_fn(const struct mt__call *call); /* of arguments that may be wrong: 0 then */

/* How an op is derived; see autograd/autograd.h. */
typedef struct mt__grad mt__grad;

/* Inputs at the end of PyTorch's op that ours does not have, what PyTorch records for them, and its schema of them. */
typedef struct mt__missing {
    mt_op_id op;
    uint8_t count;
    mt_value value;
    const char *schema;
} mt__missing;

/* Who makes tensors of numbers among the operands of a call that is recorded; see numbers.c. */
typedef enum mt__numbers {
    MT__NUMBERS_STAY,    /* nobody; operands are not converted either */
    MT__NUMBERS_OUTSIDE, /* the caller, if that is no op; else as AGAIN */
    MT__NUMBERS_AGAIN,   /* the op, which calls itself with it */
    MT__NUMBERS_TURNED,  /* rsub, which calls sub with it */
    MT__NUMBERS_WITHIN,  /* the op, for itself */
    MT__NUMBERS_POWER    /* nobody; the base is converted */
} mt__numbers;

/* Which dtypes the tensor of out= may have, by what PyTorch's op refuses. */
typedef enum mt__out_rule {
    MT__OUT_CAST = 1, /* those that the result may be cast to: no float to int, no number to bool */
    MT__OUT_SAME,     /* the result's */
    MT__OUT_FOUND,    /* the result's, too; refused in other words */
    MT__OUT_CHOSEN,   /* any: it chooses the result's, as the argument dtype= does */
    MT__OUT_TRUTH     /* bool */
} mt__out_rule;

typedef struct mt__op {
    const char *schema;
    const char *out; /* PyTorch's name of the overload that takes out=; NULL: none does */
    mt__out_rule out_rule;
    mt__fn *infer, *composite;
    mt__fn *kernels[MT_DEVICE_TYPES];
    mt__flops_fn *flops;     /* NULL: not counted here */
    const mt__grad *grad;    /* NULL: none */
    const char *number_node; /* the node's name where the Operand is a number; NULL: grad's own */
    const char *name;        /* "aten::add" */
    uint32_t name_id;        /* the profiler's */
    mt_op_id id;
    uint8_t param_count, required;
    uint8_t out_count; /* 0: a list */
    bool in_place;
    bool view;                     /* outputs share the first tensor's storage */
    bool factory;                  /* autograd never sees it, nor what it calls */
    int8_t options;                /* where dtype and device are, side by side; -1: nowhere */
    const mt__missing *missing;    /* NULL: none */
    bool as_is;                    /* recorded with just its own arguments */
    bool copies;                   /* its kernel does what copy_ does, from its first argument */
    uint8_t numbers;               /* mt__numbers */
    bool floats;                   /* two operands are computed in a floating dtype whatever theirs is */
    bool host_numbers;             /* kernels of accelerators take tensors without dims from the CPU */
    uint32_t save_args, save_outs; /* bits, of grad->saves */
    mt_param params[MT__MAX_ARGS];
} mt__op;

extern mt__op mt__ops[]; /* MT_OP_COUNT of them; filled before main */

/* One call of an op, on the stack of the dispatcher. */
typedef struct mt__call {
    const mt__op *op;
    const mt_value *args; /* op->param_count of them, borrowed */
    mt_tensor **outs;     /* room for op->out_count, or what mt__call_outs() made */
    uint32_t out_count;
    mt_tensor *const *into;              /* out_count tensors that get the results; NULL: outs are new */
    mt_value *own;                       /* of a call with into: args, which infer may be given changed */
    mt_device device;                    /* where it computes */
    mt_dtype compute;                    /* for kernels: the dtype that infer chose to compute in */
    bool shown;                          /* a profile records it: its parts, too */
    void *scratch;                       /* from infer to kernel */
    void (*drop_scratch)(void *scratch); /* after the kernel, or NULL */
} mt__call;

/* Room for a list of outputs. */
mt_status mt__call_outs(mt__call *call, uint32_t count);

static inline mt_tensor *mt__arg_tensor(const mt__call *call,
                                        unsigned i) /* borrowed; NULL: none, or a number */
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

/* For composites: t, borrowed from the scope, is the op's output. */
static inline mt_status mt__return(mt__call *call, mt_tensor *t)
{
    call->outs[0] = mt_retain(t);
    return mt_scope_status();
}

/* ---------------------------------------------------------------------------------------------------- out= */

extern MT__FAST_TLS struct mt__call *mt__placing; /* the call with into whose infer is running */
/* mt__empty() for outs[i] of such a call: into[i] if the kernel can write there, else a new tensor. */
mt_status mt__place(mt_dtype dtype, mt_device device, int rank, const int64_t *dims, mt_tensor **out);
/* Before a call with into runs; tracked: autograd follows an argument. May change call->device. */
mt_status mt__check_into(mt__call *call, bool tracked);
mt_status mt__infer_into(mt__call *call);
/* For composites that make a tensor: into[0] with that size, or a new one; borrowed from the scope or the caller. */
mt_tensor *mt__made(mt__call *call, const mt_value *size, mt_value dtype, const mt_value *device);
mt_status mt__resize(mt_tensor *t, int rank, const int64_t *dims); /* not recorded, nor refused */
/* After it ran: what is elsewhere is copied to into, which become the outs. */
mt_status mt__settle(mt__call *call);
/* Refuses two that share memory, unless they are alike or may not overlap: args of an elementwise op beside what it writes. */
mt_status mt__check_overlap(const mt_tensor *written, const mt_value *args, unsigned count);
const char *mt__dtype_word(unsigned dtype); /* "Double" */
bool mt__castable(unsigned from, unsigned to);

/* ---------------------------------------------------------------------------------------- parts of dispatch.c */

/* full: args with defaults, and lists where the schema says int[1], which lie in `lists`. */
mt_status mt__complete(const mt__op *op, const mt_value *args, unsigned count, mt_value *full,
                       int64_t (*lists)[4]);
mt_status mt__call_op(mt__call *call);
mt_status mt__mixed_devices(const mt__op *op, mt_device a, mt_device b);

/* Below autograd and the profiler: runs infer and kernel of an op on arguments that are known to be right. For kernels
 * that are made of others, and for what must not be seen. */
mt_status mt__run_quietly(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);

/* Of a call that is shown: does a part of its work that PyTorch's op leaves to another op, recorded as that one, by
 * the name `as` if it is not NULL. args: all of the other op's. */
mt_status mt__record_part(mt__call *call, mt_op_id op, const char *as, const mt_value *args, mt__fn *work);

/* Runs infer and kernel, of a call that the dispatcher has arranged. */
mt_status mt__compute(mt__call *call);
/* A call below autograd that is recorded, if anything is. */
mt_status mt__call_below(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);

/* ----------------------------------------------------------------------------------------------- numbers */

/* As mt__compute(), of a call that is shown and whose op has `numbers`. */
mt_status mt__compute_shown(mt__call *call);
/* Is this call, of an op with MT__NUMBERS_OUTSIDE, one that makes a tensor of its number before the op begins? */
bool mt__wraps_outside(const mt__call *call);
/* Runs the call with that tensor. */
mt_status mt__with_number(mt__call *call, mt_status (*run)(mt__call *call, bool tracked), bool tracked);
/* v; while a profile records a number becomes a tensor of the innermost scope. For derivatives by an operand that was a
 * number here and is a tensor in PyTorch. */
mt_value mt__shown_operand(mt_value v);

/* ------------------------------------------------------------------------------------------ interception */

extern MT__FAST_TLS mt_interceptor mt__interceptor; /* mt_intercept() */

/* Hands the call to the interceptor, which there is, and takes what it made for the op's outputs. */
mt_status mt__hand_over(mt__call *call);

/* -------------------------------------------------------------------------------------------- promotion */

typedef struct mt__promotion { /* fill with {0} */
    uint8_t dim, zero,
        wrapped; /* 1 + the largest dtype of tensors with dims, of those without, of numbers; 0: none */
} mt__promotion;
void mt__promote(mt__promotion *p, const mt_value *v);
mt_dtype mt__promoted(const mt__promotion *p);
mt_dtype mt__promote_types(mt_dtype a, mt_dtype b);
mt_dtype mt__common_dtype(const mt__call *call); /* that an op of two operands computes in */
/* What some such ops refuse, computing in dtype. */
mt_status mt__check_operands(const mt__call *call, mt_dtype dtype);
extern mt_dtype mt__default_dtype;                /* of floats: float32 unless set */
extern MT__FAST_TLS mt_device mt__default_device; /* where ops without tensors put theirs */
mt_dtype mt__value_dtype(const mt_value *v);      /* of a number: bool, int64, or the default */

/* ---------------------------------------------------------------------------------------------- parallel */

/* Calls fn(begin, end, user) over [0, n), in parts of at least `grain`, on the pool's threads and this one. */
void mt__parallel(int64_t n, int64_t grain, void (*fn)(int64_t begin, int64_t end, void *user), void *user);

/* -------------------------------------------------------------------------------- what the op table names */

#define K(infer_fn, kernel) mt__fn mt__infer_##infer_fn, mt__cpu_##kernel;
#define V(infer_fn) mt__fn mt__infer_##infer_fn;
#define C(function) mt__fn mt__composite_##function;
#define F(formula) mt__flops_fn mt__flops_##formula;
#define O(overload, rule)
#define X(id, text, form, derivative) form extern const mt__grad mt__grad_##derivative;
MT_OPS(X)
#undef X
#undef F
#undef O
#undef K
#undef V
#undef C

#endif
