/* mindtorch.h - a compact eager tensor runtime with PyTorch's semantics: tensors, operators, autograd, nn, optim.
 *
 *     MT_SCOPE {                                             // what ops return lives until the brace
 *         mt_tensor *x = MT(randn, MT_SHAPE(64, 784));
 *         mt_tensor *h = MT(relu, MT(linear, x, w1, b1));
 *         mt_tensor *loss = MT(cross_entropy_loss, MT(linear, h, w2, b2), target);
 *         if (mt_backward(loss) != MT_OK)                    // or any op before it
 *             die(mt_last_error());
 *     }
 *
 * Every operator is one row of src/runtime/ops/table.h: its schema (PyTorch's notation), kernels and derivative.
 * MT(name, ...) calls one: arguments in the order of the schema, trailing ones may be left out; mt_op_schema() tells it.
 *
 * Ownership: tensors are counted (mt_retain, mt_release). What MT() returns belongs to the innermost MT_SCOPE of the
 * thread, which releases it at its end; mt_retain() keeps it longer. Without a scope it belongs to the caller.
 * Errors: a failing op returns NULL, mt_last_error() says why, and within the scope every later MT() does nothing and
 * returns NULL, so a whole computation is checked once: by mt_scope_status(), or by what a later cold call returns.
 *
 * Threads: ops may run on any thread; one tensor must not be changed by one while another uses it, as in PyTorch.
 * C11 and C++17 (MT() itself is C11; C++ uses mt_call).
 */
#ifndef MINDTORCH_H
#define MINDTORCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ errors */

/* X(symbol, value, the Python exception that it becomes). Values are ABI: append only. */
#define MT_STATUS_LIST(X)                                                                                    \
    X(OK, 0, "")                                                                                             \
    X(E_RUNTIME, -1, "RuntimeError")                                                                         \
    X(E_VALUE, -2, "ValueError")                                                                             \
    X(E_TYPE, -3, "TypeError")                                                                               \
    X(E_INDEX, -4, "IndexError")                                                                             \
    X(E_NOMEM, -5, "MemoryError")                                                                            \
    X(E_NOT_IMPLEMENTED, -6, "NotImplementedError")                                                          \
    X(E_CALLBACK, -7, "the exception that a callback raised")
#define X(sym, value, text) MT_##sym = (value),
typedef enum mt_status {
    MT_STATUS_LIST(X)
} mt_status;
#undef X

/* Why the last failing call on this thread failed. Borrowed; valid until the next failure on this thread. */
MT_API const char *mt_last_error(void);

/* ------------------------------------------------------------------------------------ dtypes and devices */

/* X(symbol, value, name, bytes, profiler's dtype). In the order of promotion. */
#define MT_DTYPE_LIST(X)                                                                                     \
    X(BOOL, 0, "bool", 1)                                                                                    \
    X(INT32, 1, "int32", 4)                                                                                  \
    X(INT64, 2, "int64", 8)                                                                                  \
    X(FLOAT32, 3, "float32", 4)                                                                              \
    X(FLOAT64, 4, "float64", 8)
#define X(sym, value, text, bytes) MT_##sym = (value),
typedef enum mt_dtype {
    MT_DTYPE_LIST(X) MT_DTYPES
} mt_dtype;
#undef X
MT_API const char *mt_dtype_name(mt_dtype dtype); /* "float32" */
MT_API size_t mt_dtype_bytes(mt_dtype dtype);
MT_API bool mt_dtype_parse(const char *text, mt_dtype *out);

/* As the profiler's mtp_device: a type and an index. */
typedef uint32_t mt_device;
#define MT_DEVICE(type, index) ((mt_device)(((uint32_t)(type) << 8) | ((uint32_t)(index)&0xffu)))
#define MT_DEVICE_TYPE(device) ((uint32_t)(device) >> 8 & 0xffu)
#define MT_DEVICE_INDEX(device) ((uint32_t)(device)&0xffu)
#define MT_CPU MT_DEVICE(0, 0)
#define MT_NPU(index) MT_DEVICE(1, index)
#define MT_DEVICE_TYPES 2

/* ----------------------------------------------------------------------------------------------- tensors */

#define MT_MAX_RANK 8

typedef struct mt_tensor mt_tensor;
typedef struct mt_storage mt_storage;

MT_API mt_tensor *mt_retain(mt_tensor *t); /* returns t; NULL is fine */
MT_API void mt_release(mt_tensor *t);      /* NULL is fine */

MT_API mt_dtype mt_dtype_of(const mt_tensor *t);
MT_API mt_device mt_device_of(const mt_tensor *t);
MT_API int mt_rank(const mt_tensor *t);
MT_API const int64_t *mt_dims(const mt_tensor *t);    /* borrowed: mt_rank() of them */
MT_API const int64_t *mt_strides(const mt_tensor *t); /* borrowed: in elements */
MT_API int64_t mt_numel(const mt_tensor *t);
MT_API bool mt_is_contiguous(const mt_tensor *t);
MT_API void *mt_data(const mt_tensor *t); /* of a CPU tensor: its first element; of others NULL */

/* A tensor that is not initialised, owned by the caller. */
MT_API mt_status mt_tensor_create(mt_dtype dtype, mt_device device, int rank, const int64_t *dims,
                                  mt_tensor **out);
/* A copy of `data`, contiguous; owned by the caller. */
MT_API mt_status mt_tensor_from(const void *data, mt_dtype dtype, int rank, const int64_t *dims,
                                mt_tensor **out);
/* Shares memory that is not ours: `drop(user)`, if not NULL, is called when the last tensor on it is gone. strides in elements,
 * or NULL for contiguous; owned by the caller. */
MT_API mt_status mt_tensor_borrow(void *data, mt_dtype dtype, int rank, const int64_t *dims,
                                  const int64_t *strides, void (*drop)(void *user), void *user,
                                  mt_tensor **out);
/* The element of a tensor that has one, on any device. */
MT_API mt_status mt_item(const mt_tensor *t, double *out);
MT_API mt_status mt_item_int(const mt_tensor *t, int64_t *out);

/* PyTorch's resize_ and set_: the tensor gets other memory, or another shape on its own; views keep what they had. After a
 * resize the elements that fit are at the front, others are not initialised. set: that of source, with its shape; NULL: none.
 * A tensor that autograd follows is refused. */
MT_API mt_status mt_resize(mt_tensor *t, int rank, const int64_t *dims);
MT_API mt_status mt_set(mt_tensor *t, mt_tensor *source);
/* All of t's memory as a tensor of one dim, without autograd; owned by the caller. Not recorded. */
MT_API mt_status mt_storage_view(const mt_tensor *t, mt_tensor **out);

/* What the memory timeline calls it; see mtp_memory_category. Operators and autograd do this by themselves. */
MT_API void mt_tensor_tag(mt_tensor *t, int category);

/* The tensor as the profiler is told of it (mtprof.h): shape, dtype, and which tensor and memory it is. What is filled in
 * borrows from t and from identity. */
struct mtp_input;
struct mtp_identity;
MT_API mt_status mt_tensor_describe(mt_tensor *t, struct mtp_input *in, struct mtp_identity *identity);

/* ---------------------------------------------------------------------------------------------- operators */

typedef enum mt_kind {
    MT_NONE = 0,
    MT_TENSOR,
    MT_TENSORS, /* count of them */
    MT_INT,     /* also dtypes and devices */
    MT_FLOAT,
    MT_TRUTH, /* as.i: 0 or 1 */
    MT_INTS,  /* count of them */
    MT_TEXT   /* count bytes, NUL-terminated */
} mt_kind;

/* One argument; everything is borrowed for the time of the call. */
typedef struct mt_value {
    uint32_t kind; /* mt_kind */
    uint32_t count;
    union {
        mt_tensor *tensor; /* NULL counts as MT_NONE */
        mt_tensor *const *tensors;
        int64_t i;
        double f;
        const int64_t *ints;
        const char *text;
    } as;
} mt_value;

typedef uint16_t mt_op_id; /* MT_OP_add ...: see mindtorch_ops.h; stable within a build only */

MT_API unsigned mt_op_count(void);
MT_API bool mt_op_find(const char *name, mt_op_id *out); /* "add" or "aten::add" */
MT_API const char *mt_op_name(mt_op_id op);              /* "aten::add" */
MT_API const char *mt_op_id_text(mt_op_id op);           /* "add": tells overloads apart */
MT_API const char *mt_op_schema(mt_op_id op);
/* What profiles record of a call: the schema with the arguments that PyTorch's op has and ours does without. Written as
 * snprintf() does; returns the length. */
MT_API size_t mt_op_recorded_schema(mt_op_id op, char *out, size_t room);
MT_API bool mt_op_has_kernel(mt_op_id op, unsigned device_type); /* or is made of other ops */
MT_API const char *mt_op_backward(mt_op_id op);                  /* "AddBackward0", or NULL */
/* "out", "Tensor_out" ...: PyTorch's name of the overload that mt_call_out() is; NULL: the op has none. */
MT_API const char *mt_op_out(mt_op_id op);

typedef enum mt_type { /* of a parameter */
    MT_TYPE_TENSOR,
    MT_TYPE_TENSORS, /* Tensor[]; of index(): with gaps (NULL) */
    MT_TYPE_OPERAND, /* Tensor or Scalar */
    MT_TYPE_SCALAR,
    MT_TYPE_INT,
    MT_TYPE_FLOAT,
    MT_TYPE_BOOL,
    MT_TYPE_INTS,
    MT_TYPE_TEXT,
    MT_TYPE_DTYPE,
    MT_TYPE_DEVICE
} mt_type;

#define MT_INTS_SPREAD 255 /* int[...]: also as separate arguments */
typedef struct mt_param {
    const char *name; /* of name_length bytes, in the schema */
    uint8_t name_length, type;
    bool optional;     /* None is taken */
    bool keyword_only; /* after the * */
    bool has_default;
    bool written;      /* Tensor(a!) */
    uint8_t ints;      /* int[2]: a single int stands for so many; 0: for none; MT_INTS_SPREAD */
    mt_value standard; /* the default */
} mt_param;
MT_API const mt_param *mt_op_params(mt_op_id op, unsigned *count); /* borrowed */

/* Calls an op. *outs are owned by the caller: mt_op_outputs(op) of them, each may be NULL where the op makes none. For an op
 * that returns a list use mt_call_list. On failure all of *outs are NULL. */
MT_API mt_status mt_call(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);
MT_API unsigned mt_op_outputs(mt_op_id op); /* 0: a list */
/* Calls an op and puts its results into tensors of the caller, mt_op_outputs(op) of them, as PyTorch does for out=: they are
 * resized if they do not have the results' shape; their dtype must suit the op; autograd must follow neither them nor the
 * arguments. For ops that mt_op_out() names. */
MT_API mt_status mt_call_out(mt_op_id op, const mt_value *args, unsigned count, mt_tensor *const *into);
/* The list, and each tensor in it, are owned by the caller: free it with mt_list_free. */
MT_API mt_status mt_call_list(mt_op_id op, const mt_value *args, unsigned count, mt_tensor ***list,
                              unsigned *length);
MT_API void mt_list_free(mt_tensor **list, unsigned length);

/* Interception: ops that a thread would compute are handed to a function instead, after autograd had its look at them and
 * before it makes the node; those that are made of other ops are taken apart first, but for ones that make tensors (ones,
 * rand_like ...). The function leaves in *outs an array from malloc() of owned tensors, mt_op_outputs(op) of them or any
 * number for a list. While it runs no interceptor is set, and the ops that it calls are computed below autograd: without
 * nodes, versions or marks of views, which the call that was intercepted makes. */
typedef mt_status mt_intercept_fn(void *user, mt_op_id op, const mt_value *args, unsigned count,
                                  mt_tensor ***outs, unsigned *out_count);
typedef struct mt_interceptor {
    mt_intercept_fn *fn; /* NULL: none */
    void *user;
    bool below_autograd;
} mt_interceptor;
MT_API mt_interceptor mt_intercept(mt_interceptor now); /* of this thread; returns the one before */
/* While an interceptor runs: the tensors that mt_call_out() was given, borrowed; NULL: it was mt_call(). What the interceptor
 * returns is copied to them, unless it is them. */
MT_API mt_tensor *const *mt_intercepted_into(void);

/* ------------------------------------------------------------------------------------------ scopes and MT() */

typedef struct mt_scope {
    struct mt_scope *outer;
    mt_tensor **items; /* owned references */
    uint32_t count, room;
    mt_status status; /* of the first op that failed in it */
    uint32_t once;
    mt_tensor *few[14];
} mt_scope;

MT_API void mt_scope_enter(mt_scope *scope);
MT_API void mt_scope_leave(mt_scope *scope);
MT_API mt_status mt_scope_status(void); /* of the innermost scope */
MT_API mt_tensor *
mt_scope_keep(mt_tensor *t); /* hands the caller's reference to the innermost scope; returns t */

/* Calls an op for its first output, under the rules of the innermost scope. */
MT_API mt_tensor *mt_call_scoped(mt_op_id op, const mt_value *args, unsigned count);
/* The same for ops with several outputs: count of them go to outs. */
MT_API mt_status mt_call_scoped_n(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);

static inline mt_value mt_value_tensor(const mt_tensor *t)
{
    mt_value v = {t != NULL ? (uint32_t)MT_TENSOR : (uint32_t)MT_NONE, 0, {(mt_tensor *)(uintptr_t)t}};
    return v;
}
static inline mt_value mt_value_int(int64_t i)
{
    mt_value v = {MT_INT, 0, {NULL}};
    v.as.i = i;
    return v;
}
static inline mt_value mt_value_float(double f)
{
    mt_value v = {MT_FLOAT, 0, {NULL}};
    v.as.f = f;
    return v;
}
static inline mt_value mt_value_truth(bool b)
{
    mt_value v = {MT_TRUTH, 0, {NULL}};
    v.as.i = b;
    return v;
}
static inline mt_value mt_value_none(const void *unused)
{
    (void)unused;
    mt_value v = {MT_NONE, 0, {NULL}};
    return v;
}
static inline mt_value mt_value_ints(const int64_t *ints, uint32_t count)
{
    mt_value v = {MT_INTS, count, {NULL}};
    v.as.ints = ints;
    return v;
}
static inline mt_value mt_value_tensors(mt_tensor *const *tensors, uint32_t count)
{
    mt_value v = {MT_TENSORS, count, {NULL}};
    v.as.tensors = tensors;
    return v;
}
static inline mt_value mt_value_text(const char *text)
{
    mt_value v = {MT_TEXT, (uint32_t)__builtin_strlen(text), {NULL}};
    v.as.text = text;
    return v;
}
static inline mt_value mt_value_same(mt_value v)
{
    return v;
}

#ifndef __cplusplus
static inline mt_scope *mt__scope_begin(mt_scope *scope)
{
    mt_scope_enter(scope);
    return scope;
}
#define MT__PASTE2(a, b) a##b
#define MT__PASTE(a, b) MT__PASTE2(a, b)
#define MT__SCOPE(name)                                                                                      \
    for (mt_scope name __attribute__((cleanup(mt_scope_leave))),                                             \
         *MT__PASTE(name, _p) = mt__scope_begin(&name);                                                      \
         MT__PASTE(name, _p)->once; MT__PASTE(name, _p)->once = 0)
/* MT_SCOPE { ... }   Left by the closing brace, return, break or goto. */
#define MT_SCOPE MT__SCOPE(MT__PASTE(mt__scope_, __COUNTER__))

#define MT_VALUE(x)                                                                                          \
    _Generic((x), mt_tensor *                                                                                \
             : mt_value_tensor, const mt_tensor *                                                            \
             : mt_value_tensor, bool                                                                         \
             : mt_value_truth, int                                                                           \
             : mt_value_int, unsigned                                                                        \
             : mt_value_int, long                                                                            \
             : mt_value_int, unsigned long                                                                   \
             : mt_value_int, long long                                                                       \
             : mt_value_int, float                                                                           \
             : mt_value_float, double                                                                        \
             : mt_value_float, char *                                                                        \
             : mt_value_text, const char *                                                                   \
             : mt_value_text, void *                                                                         \
             : mt_value_none, mt_value                                                                       \
             : mt_value_same)(x)
#define MT_SHAPE(...)                                                                                        \
    mt_value_ints((const int64_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / 8))
#define MT_SHAPE0 mt_value_ints(NULL, 0) /* of a scalar */
#define MT_LIST(...)                                                                                         \
    mt_value_tensors((mt_tensor *const[]){__VA_ARGS__},                                                      \
                     (uint32_t)(sizeof((mt_tensor *const[]){__VA_ARGS__}) / sizeof(mt_tensor *)))

#define MT__V1(a) MT_VALUE(a)
#define MT__V2(a, ...) MT_VALUE(a), MT__V1(__VA_ARGS__)
#define MT__V3(a, ...) MT_VALUE(a), MT__V2(__VA_ARGS__)
#define MT__V4(a, ...) MT_VALUE(a), MT__V3(__VA_ARGS__)
#define MT__V5(a, ...) MT_VALUE(a), MT__V4(__VA_ARGS__)
#define MT__V6(a, ...) MT_VALUE(a), MT__V5(__VA_ARGS__)
#define MT__V7(a, ...) MT_VALUE(a), MT__V6(__VA_ARGS__)
#define MT__V8(a, ...) MT_VALUE(a), MT__V7(__VA_ARGS__)
#define MT__V9(a, ...) MT_VALUE(a), MT__V8(__VA_ARGS__)
#define MT__V10(a, ...) MT_VALUE(a), MT__V9(__VA_ARGS__)
#define MT__V11(a, ...) MT_VALUE(a), MT__V10(__VA_ARGS__)
#define MT__V12(a, ...) MT_VALUE(a), MT__V11(__VA_ARGS__)
#define MT__PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, name, ...) name
#define MT__VALUES(...)                                                                                      \
    MT__PICK(__VA_ARGS__, MT__V12, MT__V11, MT__V10, MT__V9, MT__V8, MT__V7, MT__V6, MT__V5, MT__V4, MT__V3, \
             MT__V2, MT__V1, )                                                                               \
    (__VA_ARGS__)
#define MT__COUNT(...) MT__PICK(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, )

/* MT(add, x, y): the op's first output. MT_N(topk, outs, x, 5): all of its outputs; MT_OK or why not. */
#define MT(op, ...)                                                                                          \
    mt_call_scoped(MT_OP_##op, (const mt_value[]){MT__VALUES(__VA_ARGS__)}, MT__COUNT(__VA_ARGS__))
#define MT_N(op, outs, ...)                                                                                  \
    mt_call_scoped_n(MT_OP_##op, (const mt_value[]){MT__VALUES(__VA_ARGS__)}, MT__COUNT(__VA_ARGS__), (outs))
#endif

/* ------------------------------------------------------------------------------------------------ autograd */

typedef struct mt_node mt_node; /* of the graph: a derivative to be computed; counted */

MT_API bool mt_requires_grad(const mt_tensor *t);
MT_API mt_status mt_set_requires_grad(mt_tensor *t, bool on); /* of leaves, of floating dtype */
MT_API bool mt_is_leaf(const mt_tensor *t);
MT_API mt_tensor *mt_grad(const mt_tensor *t);               /* borrowed; NULL: none */
MT_API mt_status mt_set_grad(mt_tensor *t, mt_tensor *grad); /* NULL: none; same shape and dtype */
MT_API void mt_retain_grad(mt_tensor *t);                    /* of a non-leaf too */
MT_API uint32_t mt_version(const mt_tensor *t);              /* times that its memory was changed in place */

MT_API bool mt_grad_enabled(void);       /* of this thread; true at first */
MT_API bool mt_grad_enable(bool enable); /* returns what it was */

/* Adds to the gradients of all leaves that `loss`, a scalar, was computed from. */
MT_API mt_status mt_backward(mt_tensor *loss);

typedef struct mt_backward_options {
    size_t size; /* sizeof(mt_backward_options) */
    bool retain_graph, create_graph;
    bool allow_unused;        /* an input that the roots do not depend on gets NULL, not an error */
    bool accumulate;          /* also without inputs: into .grad. With inputs: into theirs only */
    mt_tensor *const *inputs; /* borrowed: what gradients are asked for, or NULL: all leaves */
    uint32_t input_count;
} mt_backward_options;
/* grads[i] may be NULL for a scalar root. out (input_count of them, owned by the caller) may be NULL with accumulate. */
MT_API mt_status mt_backward_from(mt_tensor *const *roots, mt_tensor *const *grads, uint32_t count,
                                  const mt_backward_options *options, mt_tensor **out);

/* Called with the gradient of t when it is known; returns the one to use instead (a new reference), or NULL to go on
 * with it. *failed = true ends the backward with MT_E_CALLBACK. `drop` ends the user's data. */
typedef mt_tensor *mt_hook_fn(mt_tensor *grad, void *user, bool *failed);
MT_API mt_status mt_hook_add(mt_tensor *t, mt_hook_fn *hook, void (*drop)(void *user), void *user,
                             uint64_t *id);
MT_API void mt_hook_remove(mt_tensor *t, uint64_t id);
/* Called after the gradient was added into the leaf t. */
MT_API mt_status mt_post_hook_add(mt_tensor *t, mt_hook_fn *hook, void (*drop)(void *user), void *user,
                                  uint64_t *id);

/* A derivative of one's own: the outputs, just computed from the inputs, get a node called `name` whose run() turns their
 * gradients (NULL: zero) into those of the inputs (owned; NULL: zero). run returns MT_OK, or a status with the message in
 * mt_last_error(). Outputs must not have a node already. */
typedef mt_status mt_custom_fn(void *user, mt_tensor *const *grads, mt_tensor **input_grads);
MT_API mt_status mt_custom_attach(const char *name, mt_tensor *const *inputs, uint32_t input_count,
                                  mt_tensor *const *outputs, uint32_t output_count, mt_custom_fn *run,
                                  void (*drop)(void *user), void *user);

/* The forward of such a function as an event called `name`, with the shapes of the inputs. Between begin and end comes
 * what the function computes, and then mt_custom_attach_to(), which gives the node the event's sequence number. End it on
 * the same thread, also after an error. */
typedef struct mt_custom {
    uint64_t sequence;
    uint64_t token;
} mt_custom;
MT_API void mt_custom_begin(const char *name, mt_tensor *const *inputs, uint32_t count, mt_custom *forward);
MT_API void mt_custom_end(const mt_custom *forward);
MT_API mt_status mt_custom_attach_to(const mt_custom *forward, const char *name, mt_tensor *const *inputs,
                                     uint32_t input_count, mt_tensor *const *outputs, uint32_t output_count,
                                     mt_custom_fn *run, void (*drop)(void *user), void *user);

MT_API mt_node *mt_grad_fn(mt_tensor *t); /* borrowed; NULL for a leaf */
MT_API const char *mt_node_name(const mt_node *node);
MT_API unsigned mt_node_edges(const mt_node *node);
MT_API mt_node *mt_node_next(const mt_node *node, unsigned edge, unsigned *output); /* borrowed, or NULL */
MT_API mt_node *mt_node_retain(mt_node *node);
MT_API void mt_node_release(mt_node *node);

/* ------------------------------------------------------------------------------------- for language bindings */

MT_API void *mt_python(const mt_tensor *t); /* the object that stands for it, borrowed; NULL: none */
MT_API void mt_python_set(mt_tensor *t, void *object);
MT_API uint64_t
mt_address(const mt_tensor *t);               /* of its first element, to tell memory apart: on any device */
MT_API int64_t mt_offset(const mt_tensor *t); /* of its first element in the storage, in elements */
MT_API bool mt_retains_grad(const mt_tensor *t);       /* mt_retain_grad() was called on a non-leaf */
MT_API mt_dtype mt_default_dtype(void);                /* of floats: float32 at first */
MT_API mt_status mt_set_default_dtype(mt_dtype dtype); /* a floating one */
MT_API mt_device mt_default_device(void); /* of tensors that this thread makes of nothing: the CPU at first */
MT_API mt_status mt_set_default_device(mt_device device); /* MT_E_RUNTIME: there is no such device */
/* t becomes another name for the data of `from`, keeping its place in the graph; same dtype where a graph needs it. */
MT_API mt_status mt_set_data(mt_tensor *t, const mt_tensor *from);
/* t becomes a leaf that requires no gradient. Refused for views that autograd follows. */
MT_API mt_status mt_forget_history(mt_tensor *t);
/* For cycle collectors: what only t keeps alive (nothing when others hold t too), and how to let go of it. */
typedef int mt_visit_fn(mt_hook_fn *hook, void *user, void *arg); /* not 0 ends the visit */
MT_API int mt_hooks_visit(const mt_tensor *t, mt_visit_fn *visit, void *arg);
MT_API void mt_hooks_clear(mt_tensor *t);

/* ------------------------------------------------------------------------------------- memory, threads, chance */

typedef struct mt_memory_stats {
    size_t size;                  /* sizeof(mt_memory_stats) */
    uint64_t allocated, reserved; /* bytes in tensors; bytes held from the system */
    uint64_t peak_allocated, peak_reserved;
    uint64_t allocations, frees; /* so far */
} mt_memory_stats;
MT_API mt_status mt_memory(mt_device device, mt_memory_stats *out);
MT_API void mt_memory_reset_peak(mt_device device);
MT_API void mt_memory_empty_cache(mt_device device);

/* ------------------------------------------------------------------------------------------- accelerators: "npu" */

/* Device "npu" is what a plug-in (mtprof_device.h) drives: OpenCL's, or $MINDTORCH_DEVICE_PLUGIN. MINDTORCH_OPENCL_PLATFORM
 * and MINDTORCH_OPENCL_DEVICE choose among OpenCL's; MINDTORCH_DEVICE=none hides all. */
MT_API unsigned mt_npu_count(void);
MT_API const char *mt_npu_absence(void); /* why there is none, and how to get one; borrowed */

typedef struct mt_npu_properties {
    size_t size; /* sizeof(mt_npu_properties) */
    char name[128], vendor[128], driver[128], plugin[32], blas[32];
    uint64_t total_memory;
    uint32_t compute_units, clock_mhz, work_group_most;
    bool is_cpu, has_float64;
} mt_npu_properties;
MT_API mt_status mt_npu_describe(mt_device device, mt_npu_properties *out);
MT_API bool mt_npu_is_open(void); /* one was used */
/* What "npu" without a number means to this thread; at first 0. MT_E_RUNTIME: there is no such device. */
MT_API unsigned mt_npu_current(void);
MT_API mt_status mt_npu_set_current(unsigned index);
MT_API mt_status
mt_synchronize(mt_device device); /* waits for all of its streams, and says what failed there */

/* Streams: work on one runs in order. A thread's work goes to the stream it has chosen, at first the device's own. Memory is
 * taken for, and given back to, the stream it was made on: before another stream's tensor is used, wait for its event. */
typedef struct mt_stream mt_stream;
MT_API mt_status mt_stream_create(mt_device device, mt_stream **out);
MT_API void mt_stream_destroy(mt_stream *stream);      /* waits for its work */
MT_API mt_stream *mt_stream_default(mt_device device); /* borrowed; NULL: no such device */
MT_API mt_stream *mt_stream_current(mt_device device); /* borrowed; of this thread */
MT_API void mt_stream_use(mt_stream *stream);          /* by this thread, for the stream's device */
MT_API mt_status mt_stream_synchronize(mt_stream *stream);
MT_API mt_status mt_stream_done(mt_stream *stream, bool *out); /* is all of its work? Does not wait */
MT_API uint64_t mt_stream_id(const mt_stream *stream);         /* as profiles show it */
MT_API mt_device mt_stream_device(const mt_stream *stream);

typedef struct mt_event mt_event;
MT_API mt_status mt_event_record(mt_stream *stream,
                                 mt_event **out); /* done when all before it on the stream is */
MT_API void mt_event_destroy(mt_event *event);
MT_API mt_status mt_event_done(mt_event *event, bool *out);
MT_API mt_status mt_event_synchronize(mt_event *event);
MT_API mt_status mt_event_elapsed(mt_event *from, mt_event *to,
                                  double *milliseconds); /* on the device's clock */
MT_API mt_status mt_stream_wait(mt_stream *stream, mt_event *event);
/* The tensor's memory is used on that stream, too: it is not used again before what is there when it is freed is done. */
MT_API mt_status mt_tensor_record_stream(const mt_tensor *t, mt_stream *stream);

MT_API int mt_num_threads(void);
MT_API void mt_set_num_threads(int threads); /* for large work; at least 1 */
MT_API const char *mt_blas_name(void);       /* "OpenBLAS 0.3.21 ..." or "built in" */

MT_API void mt_manual_seed(uint64_t seed);
MT_API uint64_t mt_initial_seed(void);
/* Exchanges the state of the process's generator with one in the caller's memory, of mt_random_bytes() bytes (zeros: never
 * seeded): swap, draw, swap back makes another generator of it. */
MT_API void mt_random_swap(void *state);
MT_API size_t mt_random_bytes(void);

#ifdef __cplusplus
}
#endif

#include <mindtorch_ops.h>
#include <mindtorch_optim.h>
#endif
