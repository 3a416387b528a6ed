/* mindtorch.h - a small eager tensor runtime with PyTorch's semantics: tensors, ops, autograd, nn, optim.
 *
 *     MT_SCOPE {                                             // results of ops live until the closing brace
 *         mt_tensor *x = MT(randn, MT_SHAPE(64, 784));
 *         mt_tensor *h = MT(relu, MT(linear, x, w1, b1));
 *         mt_tensor *loss = MT(cross_entropy_loss, MT(linear, h, w2, b2), target);
 *         if (mt_backward(loss) != MT_OK)                    // or any op before it
 *             die(mt_last_error());
 *     }
 *
 * Every operator is one row of mindtorch_ops.h: its schema (PyTorch's notation), kernels and derivative.
 * MT(name, ...) calls one: arguments in schema order (see mt_op_schema()); trailing ones may be omitted.
 *
 * Ownership: tensors are reference-counted (mt_retain, mt_release). The result of MT() is owned by the
 * thread's innermost MT_SCOPE, which releases it at its end; mt_retain() keeps it longer. Without a scope the
 * caller owns it.
 *
 * Errors: a failing op returns NULL, mt_last_error() says why, and within the scope every later MT() does
 * nothing and returns NULL, so a whole computation needs one check: mt_scope_status(), or the status of a
 * later cold call.
 *
 * Threads: ops may run on any thread; as in PyTorch, no thread may modify a tensor while another uses it.
 * Language: C11 and C++17 (MT() itself is C11; C++ uses mt_call).
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

/* X(symbol, value, Python exception). Values are ABI: append only. */
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

/* All that is to know about a dtype, by kind:
 * X(symbol, C type, value, name, other name, PyTorch's ScalarType, its number, its C++ type, format)
 *   symbol  of MT_##symbol and of the profiler's MTP_##symbol
 *   format  of Python's buffers; "": they have none
 * Kernels are chosen by such lists too: a dtype is a row here and the code that its C type needs. The dtypes of the
 * NARROW lists are stored, moved and cast; kernels compute with them in MT_INT32 or MT_FLOAT32, and round once
 * (src/runtime/narrow.h). C has no type for the two halves: theirs holds the bits. Values are ABI: append only. */
#define MT_DTYPES_TRUTH(X) X(BOOL, bool, 0, "bool", "bool", "Bool", 11, "bool", "?")
#define MT_DTYPES_WHOLE(X)                                                                                   \
    X(INT32, int32_t, 1, "int32", "int", "Int", 3, "int", "i")                                               \
    X(INT64, int64_t, 2, "int64", "long", "Long", 4, "long int", "l")
#define MT_DTYPES_REAL(X)                                                                                    \
    X(FLOAT32, float, 3, "float32", "float", "Float", 6, "float", "f")                                       \
    X(FLOAT64, double, 4, "float64", "double", "Double", 7, "double", "d")
#define MT_DTYPES_NARROW_WHOLE(X)                                                                            \
    X(UINT8, uint8_t, 5, "uint8", "uint8", "Byte", 0, "unsigned char", "B")                                  \
    X(INT8, int8_t, 6, "int8", "int8", "Char", 1, "signed char", "b")                                        \
    X(INT16, int16_t, 7, "int16", "short", "Short", 2, "short int", "h")
#define MT_DTYPES_NARROW_REAL(X)                                                                             \
    X(FLOAT16, uint16_t, 8, "float16", "half", "Half", 5, "c10::Half", "e")                                  \
    X(BFLOAT16, uint16_t, 9, "bfloat16", "bfloat16", "BFloat16", 15, "c10::BFloat16", "")
#define MT_DTYPES_WIDE(X) MT_DTYPES_TRUTH(X) MT_DTYPES_WHOLE(X) MT_DTYPES_REAL(X)
#define MT_DTYPES_NARROW(X) MT_DTYPES_NARROW_WHOLE(X) MT_DTYPES_NARROW_REAL(X)
#define MT_DTYPE_LIST(X) MT_DTYPES_WIDE(X) MT_DTYPES_NARROW(X)
#define X(sym, type, value, ...) MT_##sym = (value),
typedef enum mt_dtype {
    MT_DTYPE_LIST(X) MT_DTYPES
} mt_dtype;
#undef X
typedef enum mt_dtype_kind {
    MT_KIND_TRUTH,
    MT_KIND_WHOLE,
    MT_KIND_REAL
} mt_dtype_kind;
typedef struct mt_dtype_info { /* a row of the list */
    const char *name, *other_name, *scalar_type, *cpp_type, *format;
    uint8_t bytes, kind, number;
} mt_dtype_info;
MT_API const mt_dtype_info *mt_dtype_describe(mt_dtype dtype);
#define X(sym, ...) | 1u << MT_##sym
enum { /* bits */
    MT_WHOLE_DTYPES = 0 MT_DTYPES_WHOLE(X) MT_DTYPES_NARROW_WHOLE(X),
    MT_REAL_DTYPES = 0 MT_DTYPES_REAL(X) MT_DTYPES_NARROW_REAL(X),
    MT_NARROW_DTYPES = 0 MT_DTYPES_NARROW(X)
};
#undef X
static inline mt_dtype_kind mt_dtype_kind_of(mt_dtype dtype)
{
    return (unsigned)MT_REAL_DTYPES >> dtype & 1    ? MT_KIND_REAL
           : (unsigned)MT_WHOLE_DTYPES >> dtype & 1 ? MT_KIND_WHOLE
                                                    : MT_KIND_TRUTH;
}
static inline bool mt_dtype_is_real(mt_dtype dtype) /* a float */
{
    return (unsigned)MT_REAL_DTYPES >> dtype & 1;
}
MT_API const char *mt_dtype_name(mt_dtype dtype); /* "float32" */
MT_API size_t mt_dtype_bytes(mt_dtype dtype);
MT_API bool mt_dtype_parse(const char *text, mt_dtype *out);
MT_API mt_dtype mt_promote_types(mt_dtype a, mt_dtype b); /* that holds the numbers of both */

/* A type and an index, like the profiler's mtp_device. */
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
MT_API void *mt_data(const mt_tensor *t); /* first element of a CPU tensor; else NULL */

/* An uninitialised tensor, owned by the caller. */
MT_API mt_status mt_tensor_create(mt_dtype dtype, mt_device device, int rank, const int64_t *dims,
                                  mt_tensor **out);
/* A contiguous copy of `data`, owned by the caller. */
MT_API mt_status mt_tensor_from(const void *data, mt_dtype dtype, int rank, const int64_t *dims,
                                mt_tensor **out);
/* A tensor on borrowed memory, owned by the caller. `drop(user)`, if not NULL, is called when the last tensor
 * on that memory is released. Strides are in elements; NULL: contiguous. */
MT_API mt_status mt_tensor_borrow(void *data, mt_dtype dtype, int rank, const int64_t *dims,
                                  const int64_t *strides, void (*drop)(void *user), void *user,
                                  mt_tensor **out);
/* The element of a one-element tensor, on any device. */
MT_API mt_status mt_item(const mt_tensor *t, double *out);
MT_API mt_status mt_item_int(const mt_tensor *t, int64_t *out);

/* PyTorch's resize_ and set_. Views of the tensor keep the old memory and shape. mt_resize keeps the elements
 * that fit, at the front, and leaves new ones uninitialised. mt_set takes the memory and shape of source;
 * NULL: empty. A tensor that autograd tracks is refused. */
MT_API mt_status mt_resize(mt_tensor *t, int rank, const int64_t *dims);
MT_API mt_status mt_set(mt_tensor *t, mt_tensor *source);
/* All of t's memory as a one-dimensional tensor, without autograd; owned by the caller. Not recorded. */
MT_API mt_status mt_storage_view(const mt_tensor *t, mt_tensor **out);

/* Sets its category in the memory timeline: see mtp_memory_category. Operators and autograd do this
 * themselves. */
MT_API void mt_tensor_tag(mt_tensor *t, int category);

/* Describes the tensor to the profiler (mtprof.h): shape, dtype, and the identity of tensor and memory. The
 * result borrows from t and identity. */
struct mtp_input;
struct mtp_identity;
MT_API mt_status mt_tensor_describe(mt_tensor *t, struct mtp_input *in, struct mtp_identity *identity);

/* ---------------------------------------------------------------------------------------------- operators */

typedef enum mt_kind {
    MT_NONE = 0,
    MT_TENSOR,
    MT_TENSORS, /* `count` of them */
    MT_INT,     /* also dtypes and devices */
    MT_FLOAT,
    MT_TRUTH, /* as.i: 0 or 1 */
    MT_INTS,  /* `count` of them */
    MT_TEXT   /* `count` bytes, NUL-terminated */
} mt_kind;

/* One argument; everything is borrowed for the duration of the call. */
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
MT_API const char *mt_op_id_text(mt_op_id op);           /* "add": distinguishes overloads */
MT_API const char *mt_op_schema(mt_op_id op);
/* The schema that profiles record: with the arguments that PyTorch's op has and this one lacks. Writes and
 * returns the length like snprintf(). */
MT_API size_t mt_op_recorded_schema(mt_op_id op, char *out, size_t room);
MT_API bool mt_op_has_kernel(mt_op_id op, unsigned device_type); /* or it is composed of other ops */
MT_API const char *mt_op_backward(mt_op_id op);                  /* "AddBackward0", or NULL */
/* Does it do much more work than it has elements, like a matrix product? */
MT_API bool mt_op_is_product(mt_op_id op);
/* "out", "Tensor_out" ...: PyTorch's name for the overload that mt_call_out() calls; NULL: none. */
MT_API const char *mt_op_out(mt_op_id op);

typedef enum mt_type { /* of a parameter */
    MT_TYPE_TENSOR,
    MT_TYPE_TENSORS, /* Tensor[] */
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
    const char *name; /* points into the schema: name_length bytes */
    uint8_t name_length, type;
    bool optional;     /* None is accepted */
    bool keyword_only; /* after the * */
    bool has_default;
    bool written; /* Tensor(a!) */
    bool gaps;    /* Tensor?[]: items may be NULL */
    uint8_t ints; /* int[2]: a single int is repeated so often; 0: not allowed; MT_INTS_SPREAD */
    mt_value default_value;
} mt_param;
MT_API const mt_param *mt_op_params(mt_op_id op, unsigned *count); /* borrowed */

/* Calls an op. The caller owns the mt_op_outputs(op) tensors in *outs, some of which may be NULL if the op
 * does not produce them. For an op that returns a list use mt_call_list. On failure all of *outs are NULL. */
MT_API mt_status mt_call(mt_op_id op, const mt_value *args, unsigned count, mt_tensor **outs);
MT_API unsigned mt_op_outputs(mt_op_id op); /* 0: a list */
/* Calls an op and writes its results to mt_op_outputs(op) tensors of the caller, as PyTorch does for out=:
 * they are resized if their shape differs from the result's, their dtype must suit the op, and autograd must
 * track neither them nor the arguments. For ops with an mt_op_out(). */
MT_API mt_status mt_call_out(mt_op_id op, const mt_value *args, unsigned count, mt_tensor *const *into);
/* The caller owns the list and each tensor in it: free it with mt_list_free. */
MT_API mt_status mt_call_list(mt_op_id op, const mt_value *args, unsigned count, mt_tensor ***list,
                              unsigned *length);
MT_API void mt_list_free(mt_tensor **list, unsigned length);

/* Interception: the ops of a thread are passed to a function instead of being computed, after autograd has
 * inspected them and before it creates the node. Composite ops are decomposed first, except factories (ones,
 * rand_like ...). The function sets *outs to a malloc()ed array of owned tensors: mt_op_outputs(op) of them,
 * or any number for a list. While it runs no interceptor is set, and the ops that it calls run below
 * autograd: without nodes, version bumps or view tracking, which the intercepted call does. */
typedef mt_status mt_intercept_fn(void *user, mt_op_id op, const mt_value *args, unsigned count,
                                  mt_tensor ***outs, unsigned *out_count);
typedef struct mt_interceptor {
    mt_intercept_fn *fn; /* NULL: none */
    void *user;
    bool below_autograd;
} mt_interceptor;
MT_API mt_interceptor mt_intercept(mt_interceptor now); /* of this thread; returns the previous one */
/* While an interceptor runs: the tensors passed to mt_call_out(), borrowed; NULL for mt_call(). The tensors
 * that the interceptor returns are copied to them, unless they are the same. */
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
/* For ops with several outputs: writes `count` of them to outs. */
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
    mt_value v = {MT_NONE, 0, {NULL}};
    (void)unused;
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
#define MT_SHAPE0 mt_value_ints(NULL, 0) /* a scalar */
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

/* MT(add, x, y): the op's first output. MT_N(topk, outs, x, 5): all of its outputs; returns a status. */
#define MT(op, ...)                                                                                          \
    mt_call_scoped(MT_OP_##op, (const mt_value[]){MT__VALUES(__VA_ARGS__)}, MT__COUNT(__VA_ARGS__))
#define MT_N(op, outs, ...)                                                                                  \
    mt_call_scoped_n(MT_OP_##op, (const mt_value[]){MT__VALUES(__VA_ARGS__)}, MT__COUNT(__VA_ARGS__), (outs))
#endif

/* ------------------------------------------------------------------------------------------------ autograd */

typedef struct mt_node mt_node; /* of the graph: a derivative to be computed; reference-counted */

MT_API bool mt_requires_grad(const mt_tensor *t);
MT_API mt_status mt_set_requires_grad(mt_tensor *t, bool on); /* leaves of floating dtype only */
MT_API bool mt_is_leaf(const mt_tensor *t);
MT_API mt_tensor *mt_grad(const mt_tensor *t);               /* borrowed; NULL: none */
MT_API mt_status mt_set_grad(mt_tensor *t, mt_tensor *grad); /* same shape and dtype; NULL clears it */
MT_API void mt_retain_grad(mt_tensor *t);                    /* also for a non-leaf */
MT_API uint32_t mt_version(const mt_tensor *t);              /* how often its memory was changed in place */

MT_API bool mt_grad_enabled(void);       /* of this thread; initially true */
MT_API bool mt_grad_enable(bool enable); /* returns the previous value */

/* Adds to the gradients of all leaves that `loss`, a scalar, was computed from. */
MT_API mt_status mt_backward(mt_tensor *loss);

typedef struct mt_backward_options {
    size_t size; /* sizeof(mt_backward_options) */
    bool retain_graph, create_graph;
    bool allow_unused;        /* an input that the roots do not depend on gets NULL instead of an error */
    bool accumulate;          /* into .grad: implied without inputs; with inputs, only into theirs */
    mt_tensor *const *inputs; /* borrowed: compute gradients for these; NULL: all leaves */
    uint32_t input_count;
} mt_backward_options;
/* grads[i] may be NULL for a scalar root. out (input_count tensors, owned by the caller) may be NULL with
 * accumulate. */
MT_API mt_status mt_backward_from(mt_tensor *const *roots, mt_tensor *const *grads, uint32_t count,
                                  const mt_backward_options *options, mt_tensor **out);

/* Called with the gradient of t when it is known; returns a replacement (a new reference), or NULL to keep
 * it. *failed = true ends the backward pass with MT_E_CALLBACK. `drop` frees the user's data. */
typedef mt_tensor *mt_hook_fn(mt_tensor *grad, void *user, bool *failed);
MT_API mt_status mt_hook_add(mt_tensor *t, mt_hook_fn *hook, void (*drop)(void *user), void *user,
                             uint64_t *id);
/* false: it is not there (any more). A hook belongs to the value that t has: after a change in place, it stays with
 * the value before, and cannot be removed. */
MT_API bool mt_hook_remove(mt_tensor *t, uint64_t id);
/* Called after the gradient was added into the leaf t. */
MT_API mt_status mt_post_hook_add(mt_tensor *t, mt_hook_fn *hook, void (*drop)(void *user), void *user,
                                  uint64_t *id);

/* A custom derivative: the outputs, just computed from the inputs, get a node called `name` whose run() turns
 * their gradients (NULL: zero) into those of the inputs (owned; NULL: zero). run returns MT_OK, or a status
 * with the message in mt_last_error(). An output that is one of the inputs was changed in place: its history goes on
 * with the node, and so does that of the tensor that it is a view of; then it must be the only output, and the first input.
 * Other outputs must not already have a node. */
typedef mt_status mt_custom_fn(void *user, mt_tensor *const *grads, mt_tensor **input_grads);
MT_API mt_status mt_custom_attach(const char *name, mt_tensor *const *inputs, uint32_t input_count,
                                  mt_tensor *const *outputs, uint32_t output_count, mt_custom_fn *run,
                                  void (*drop)(void *user), void *user);

/* Records the forward pass of such a function as an event called `name`, with the shapes of the inputs.
 * Between begin and end, compute the outputs and call mt_custom_attach_to(), which gives the node the event's
 * sequence number. End it on the same thread, also after an error. */
typedef struct mt_custom {
    uint64_t sequence;
    uint64_t token;
    /* NULL, or set before mt_custom_attach_to(): called after a backward pass that does not keep the graph, to release
     * what was saved for run(). Perhaps several times, on any thread. */
    void (*let_go)(void *user);
} mt_custom;
MT_API void mt_custom_begin(const char *name, mt_tensor *const *inputs, uint32_t count, mt_custom *forward);
MT_API void mt_custom_end(const mt_custom *forward);
MT_API mt_status mt_custom_attach_to(const mt_custom *forward, const char *name, mt_tensor *const *inputs,
                                     uint32_t input_count, mt_tensor *const *outputs, uint32_t output_count,
                                     mt_custom_fn *run, void (*drop)(void *user), void *user);
/* For run(), which must not save outputs themselves (they keep the node): its node, borrowed; and `saved`, an alias of
 * output number `output`, with its history. */
MT_API mt_node *mt_custom_node(void);
MT_API mt_status mt_custom_output(mt_node *node, unsigned output, const mt_tensor *saved, mt_tensor **out);

MT_API mt_node *mt_grad_fn(mt_tensor *t); /* borrowed; NULL for a leaf */
MT_API const char *mt_node_name(const mt_node *node);
MT_API unsigned mt_node_edges(const mt_node *node);
MT_API mt_node *mt_node_next(const mt_node *node, unsigned edge, unsigned *output); /* borrowed, or NULL */
MT_API mt_tensor *mt_node_leaf(const mt_node *node); /* borrowed: whose gradient it accumulates; or NULL */
MT_API mt_node *mt_node_retain(mt_node *node);
MT_API void mt_node_release(mt_node *node);

/* ------------------------------------------------------------------------------------------- mixed precision */

/* While it is on for a device type, of this thread, matrix products and convolutions compute in a narrow dtype (initially
 * bfloat16 on the CPU, float16 on accelerators), ops that need the range or the digits in float32; PyTorch's lists.
 * Casts of weights (float32 leaves that require a gradient) are kept until mt_autocast_clear_cache(): call it when the
 * outermost region ends. */
MT_API bool mt_autocast_enabled(unsigned device_type); /* 0: CPU, 1: accelerators */
MT_API mt_status mt_autocast_enable(unsigned device_type, bool on);
MT_API mt_dtype mt_autocast_dtype(unsigned device_type);
MT_API mt_status mt_autocast_set_dtype(unsigned device_type, mt_dtype dtype);
MT_API bool mt_autocast_caches(void); /* initially true */
MT_API mt_status mt_autocast_set_cache(bool on);
MT_API mt_status mt_autocast_nest(int by, int64_t *depth); /* counts regions: by is 1 or -1 */
MT_API void mt_autocast_clear_cache(void);

/* ------------------------------------------------------------------------------------- for language bindings */

MT_API void *mt_python(const mt_tensor *t); /* its Python object, borrowed; NULL: none */
MT_API void mt_python_set(mt_tensor *t, void *object);
MT_API uint64_t mt_address(const mt_tensor *t);  /* of its first element, on any device: identifies memory */
MT_API int64_t mt_offset(const mt_tensor *t);    /* of its first element in the storage, in elements */
MT_API bool mt_retains_grad(const mt_tensor *t); /* mt_retain_grad() was called on a non-leaf */
MT_API mt_dtype mt_default_dtype(void);          /* of floats; initially float32 */
MT_API mt_status mt_set_default_dtype(mt_dtype dtype); /* a floating one */
MT_API mt_device mt_default_device(void);              /* of factory ops on this thread; initially the CPU */
MT_API mt_status mt_set_default_device(mt_device device); /* MT_E_RUNTIME: no such device */
/* The element of a dtype at an address, as a number; and the number as such an element, rounded or cut off. */
MT_API mt_value mt_element(const void *at, mt_dtype dtype);
MT_API void mt_element_set(void *at, mt_dtype dtype, mt_value number);
/* t becomes an alias of the data of `from` and keeps its place in the graph; same dtype where a graph needs
 * it. */
MT_API mt_status mt_set_data(mt_tensor *t, const mt_tensor *from);
/* Another tensor on the same memory, untracked: autograd does not notice its changes in place (PyTorch's t.data). */
MT_API mt_status mt_alias(const mt_tensor *t, mt_tensor **out);
MT_API mt_tensor *
mt_view_base(const mt_tensor *t); /* borrowed: the tensor of which t is a view; NULL: t is none */
/* Brings the history of a view up to date with changes of its base; mt_grad_fn() does so, too, but ignores errors.
 * Fails if the view forbids such changes: made under no_grad, or one of several. */
MT_API mt_status mt_view_refresh(mt_tensor *t);
/* t becomes a leaf that requires no gradient. Refused for views. */
MT_API mt_status mt_forget_history(mt_tensor *t);
/* t's Python object is gone: releases its reference, and notes circles of references that t may be part of
 * (its gradient has a graph). Such circles are freed now and then, or by mt_collect_cycles(). Both are for one
 * thread at a time. */
MT_API void mt_disown(mt_tensor *t);
MT_API void mt_collect_cycles(void);
/* For cycle collectors: visits what only t keeps alive (nothing if there are other references to t), or drops
 * it: the user data of hooks and of the custom function that made t. Nonzero stops the visit. */
typedef int mt_visit_fn(mt_hook_fn *hook, mt_custom_fn *custom, void *user,
                        void *arg); /* one of the two is NULL */
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

/* Device "npu" is driven by a plug-in (mtprof_device.h): the one for OpenCL, or $MINDTORCH_DEVICE_PLUGIN.
 * MINDTORCH_OPENCL_PLATFORM and MINDTORCH_OPENCL_DEVICE select an OpenCL device; MINDTORCH_DEVICE=none hides
 * all devices. */
MT_API unsigned mt_npu_count(void);
MT_API const char *mt_npu_absence(void); /* why no device was found, and how to get one; borrowed */

typedef struct mt_npu_properties {
    size_t size; /* sizeof(mt_npu_properties) */
    char name[128], vendor[128], driver[128], plugin[32], blas[32];
    uint64_t total_memory;
    uint32_t compute_units, clock_mhz, work_group_most;
    bool is_cpu, has_float64;
} mt_npu_properties;
MT_API mt_status mt_npu_describe(mt_device device, mt_npu_properties *out);
MT_API bool mt_npu_is_open(void); /* a device has been used */
/* What "npu" without a number means on this thread; initially 0. MT_E_RUNTIME: no such device. */
MT_API unsigned mt_npu_current(void);
MT_API mt_status mt_npu_set_current(unsigned index);
MT_API mt_status mt_synchronize(mt_device device); /* waits for all of its streams; reports their errors */

/* Streams: work on one stream runs in order. A thread submits work to its current stream, initially the
 * device's default. Memory is allocated for, and returned to, the stream it was allocated on: before using a
 * tensor of another stream, wait for an event of that stream. */
typedef struct mt_stream mt_stream;
MT_API mt_status mt_stream_create(mt_device device, mt_stream **out);
MT_API void mt_stream_destroy(mt_stream *stream);      /* waits for its work */
MT_API mt_stream *mt_stream_default(mt_device device); /* borrowed; NULL: no such device */
MT_API mt_stream *mt_stream_current(mt_device device); /* borrowed; of this thread */
MT_API void mt_stream_use(mt_stream *stream);          /* becomes this thread's current stream */
MT_API mt_status mt_stream_synchronize(mt_stream *stream);
MT_API mt_status mt_stream_done(mt_stream *stream, bool *out); /* is all of its work done? Does not wait */
MT_API uint64_t mt_stream_id(const mt_stream *stream);         /* as profiles show it */
MT_API mt_device mt_stream_device(const mt_stream *stream);

typedef struct mt_event mt_event;
MT_API mt_status mt_event_record(mt_stream *stream,
                                 mt_event **out); /* done when all earlier work on the stream is */
MT_API void mt_event_destroy(mt_event *event);
MT_API mt_status mt_event_done(mt_event *event, bool *out);
MT_API mt_status mt_event_synchronize(mt_event *event);
MT_API mt_status mt_event_elapsed(mt_event *from, mt_event *to,
                                  double *milliseconds); /* on the device's clock */
MT_API mt_status mt_stream_wait(mt_stream *stream, mt_event *event);
/* Marks the tensor's memory as also used on that stream: once freed, it is not reused before the work then
 * queued on the stream has finished. */
MT_API mt_status mt_tensor_record_stream(const mt_tensor *t, mt_stream *stream);

MT_API int mt_num_threads(void);
MT_API void mt_set_num_threads(int threads); /* for large ops; at least 1 */
MT_API const char *mt_blas_name(void);       /* "OpenBLAS 0.3.21 ..." or "built in" */

MT_API void mt_manual_seed(uint64_t seed);
MT_API uint64_t mt_initial_seed(void);
/* Swaps the state of the process-wide generator with mt_random_bytes() bytes of the caller (zeros: never
 * seeded). To draw from another generator: swap, draw, swap back. */
MT_API void mt_random_swap(void *state);
MT_API size_t mt_random_bytes(void);

#ifdef __cplusplus
}
#endif

#include <mindtorch_ops.h>
#include <mindtorch_optim.h>
#endif
