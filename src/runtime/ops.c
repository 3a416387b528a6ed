/* runtime/ops.c - the registry: the op table of mindtorch_ops.h as mt__op structs; schemas are
 * parsed before main.
 *
 * A schema that cannot be parsed is a bug in the table: the process exits at startup and names the row.
 */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include "runtime/autograd/autograd.h"
#include <stdio.h>
#include <stdlib.h>
#include "base/plain.h"

const mt__grad mt__grad_of_parts, mt__grad_not_differentiable;

#define K(infer_fn, kernel) .infer = mt__infer_##infer_fn, .kernels = {mt__cpu_##kernel}
#define V(infer_fn) .infer = mt__infer_##infer_fn, .view = true
#define C(function) .composite = mt__composite_##function
#define F(formula) , .flops = mt__flops_##formula
#define O(overload, rule) , .out = #overload, .out_rule = MT__OUT_##rule
#define X(op_id, text, form, derivative)                                                                     \
    [MT_OP_##op_id] = {.schema = (text), form, .grad = &mt__grad_##derivative, .id = MT_OP_##op_id},
#define Y(op_id) [MT_OP_##op_id##_] = {.id = MT_OP_##op_id##_, .derived = true},
mt__op mt__ops[MT_OP_COUNT] = {MT_OPS(X, Y)};
#undef F
#undef O
#undef X
#undef Y
#undef K
#undef V
#undef C

/* ------------------------------------------------------------------------------------------ reading schemas */

static _Noreturn void broken(const mt__op *op, const char *at, const char *what)
{
    fprintf(stderr, "mindtorch: op table, row %u: %s at \"%.20s\" in \"%s\"\n", (unsigned)op->id, what, at,
            op->schema);
    abort();
}

static bool starts(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0)
        return false;
    *at += n;
    return true;
}

/* "int[2]": the number between the brackets, already past '['. */
static uint8_t list_size(const char **at)
{
    uint8_t n = 0;
    if (starts(at, "..."))
        n = 255;
    while (mtp__is_digit(**at))
        n = (uint8_t)(n * 10 + *(*at)++ - '0');
    (*at)++; /* ] */
    return n;
}

static void read_type(mt__op *op, mt_param *p, const char **at)
{
    static const struct {
        const char *word;
        mt_type type;
    } words[] = {{"Tensor", MT_TYPE_TENSOR}, {"Operand", MT_TYPE_OPERAND},
                 {"Scalar", MT_TYPE_SCALAR}, /* ScalarType: below */
                 {"int", MT_TYPE_INT},       {"float", MT_TYPE_FLOAT},
                 {"bool", MT_TYPE_BOOL},     {"str", MT_TYPE_TEXT},
                 {"Device", MT_TYPE_DEVICE}, {"MemoryFormat", MT_TYPE_INT}};
    unsigned i = 0;
    if (starts(at, "ScalarType")) {
        p->type = MT_TYPE_DTYPE;
    } else {
        while (i < MT__COUNT_OF(words) && !starts(at, words[i].word))
            i++;
        if (i == MT__COUNT_OF(words))
            broken(op, *at, "unknown type");
        p->type = (uint8_t)words[i].type;
    }
    if (**at == '(') { /* (a), or (a!) if it is written */
        p->written = (*at)[2] == '!';
        *at = strchr(*at, ')') + 1;
    }
    bool question = starts(at, "?"); /* applies to the items if a list follows: Tensor?[] */
    if (**at == '[') {
        (*at)++;
        p->ints = list_size(at);
        p->type = p->type == MT_TYPE_TENSOR ? MT_TYPE_TENSORS : MT_TYPE_INTS;
    } else {
        p->optional = question;
    }
    if (starts(at, "?"))
        p->optional = true;
}

static void read_list(mt__op *op, mt_param *p, const char **at)
{
    int64_t *ints = calloc(8, sizeof *ints);
    uint32_t n = 0;
    if (ints == NULL)
        broken(op, *at, "no memory");
    for ((*at)++; **at != ']'; starts(at, ","), starts(at, " "))
        ints[n++] = strtoll(*at, (char **)at, 10);
    (*at)++;
    p->default_value = mt_value_ints(ints, n); /* never freed */
}

static void read_default(mt__op *op, mt_param *p, const char **at)
{
    p->has_default = true;
    if (starts(at, "None")) {
        p->optional = true;
        p->default_value = mt_value_none(NULL);
    } else if (starts(at, "True")) {
        p->default_value = mt_value_truth(true);
    } else if (starts(at, "False")) {
        p->default_value = mt_value_truth(false);
    } else if (**at == '[') {
        read_list(op, p, at);
    } else if (**at == '\'') {
        const char *end = strchr(*at + 1, '\'');
        p->default_value = mt_value_text(strndup(*at + 1, (size_t)(end - *at - 1)));
        *at = end + 1;
    } else {
        char *end, *float_end;
        long long i = strtoll(*at, &end, 10);
        double f = mtp__read_double(*at, &float_end);
        if (float_end == *at)
            broken(op, *at, "unknown default");
        p->default_value = float_end > end || p->type == MT_TYPE_FLOAT ? mt_value_float(f) : mt_value_int(i);
        *at = float_end;
    }
}

static void read_params(mt__op *op, const char **at)
{
    bool keyword_only = false;
    while (!starts(at, ")")) {
        if (starts(at, "*, ")) {
            keyword_only = true;
            continue;
        }
        if (op->param_count == MT__MAX_ARGS)
            broken(op, *at, "too many parameters");
        mt_param *p = &op->params[op->param_count++];
        p->keyword_only = keyword_only;
        read_type(op, p, at);
        starts(at, " ");
        p->name = *at;
        while (mtp__is_word(**at))
            (*at)++;
        p->name_length = (uint8_t)(*at - p->name);
        if (starts(at, "="))
            read_default(op, p, at);
        if (!p->has_default)
            op->required = op->param_count;
        starts(at, ", ");
    }
}

static void read_outs(mt__op *op, const char *at)
{
    if (!starts(&at, " -> "))
        broken(op, at, "no outputs");
    if (starts(&at, "Tensor[]") || starts(&at, "()")) /* nothing: an empty list */
        return;
    for (const char *word = at; (word = strstr(word, "Tensor")) != NULL; word++)
        op->out_count++;
    if (op->out_count == 0 || op->out_count > MT__MAX_OUTS)
        broken(op, at, "outputs");
}

static int find_param(const mt__op *op, const char *name, size_t length)
{
    for (unsigned i = 0; i < op->param_count; i++)
        if (op->params[i].name_length == length && strncmp(op->params[i].name, name, length) == 0)
            return (int)i;
    return -1;
}

/* "self,other": the bits of these parameters; nothing: all. */
static uint16_t read_users(const mt__op *op, const char *at)
{
    uint16_t users = 0;
    while (*at == ':' || *at == ',') {
        size_t n = strcspn(++at, ", ");
        int param = find_param(op, at, n);
        if (param < 0)
            broken(op, at, "the derivative saves something for an unknown argument");
        users |= (uint16_t)(1u << param);
        at += n;
    }
    return users != 0 ? users : UINT16_MAX;
}

/* grad->saves: "self:other other result1". */
static void read_saves(mt__op *op)
{
    const char *at = op->grad->saves;
    while (at != NULL && *at != 0) {
        size_t n = strcspn(at, " :");
        int param = find_param(op, at, n);
        uint16_t users = read_users(op, at + n);
        if (param >= 0) {
            op->save_for[param] = users;
        } else if (strncmp(at, "result", 6) == 0 && n <= 7) {
            op->save_out_for[n == 7 ? at[6] - '0' : 0] = users;
        } else {
            broken(op, at, "the derivative saves an unknown argument or result");
        }
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
}

/* grad->constants: "weight pos_weight". */
static void read_constants(mt__op *op)
{
    const char *at = op->grad->constants != NULL ? op->grad->constants : "";
    for (size_t n; (n = strcspn(at, " ")) > 0; at += n + strspn(at + n, " ")) {
        int param = find_param(op, at, n);
        if (param < 0)
            broken(op, at, "an unknown argument has no derivative");
        op->constants |= (uint16_t)(1u << param);
    }
}

/* Ops for which PyTorch has a separate node if the operand is a number. */
static void find_number_node(mt__op *op)
{
    static const struct {
        const mt__grad *grad;
        const char *name;
    } nodes[] = {{&mt__grad_rsub, "RsubBackward1"}, {&mt__grad_remainder, "RemainderBackward0"},
                 {&mt__grad_fill, "FillBackward2"}, {&mt__grad_masked_fill, "MaskedFillBackward0"},
                 {&mt__grad_lerp, "LerpBackward0"}, {&mt__grad_scatter, "ScatterBackward1"}};
    for (unsigned i = 0; i < MT__COUNT_OF(nodes); i++)
        if (op->grad == nodes[i].grad)
            op->number_node = nodes[i].name;
}

/* What the profiler needs to show the op as PyTorch's: see describe_all() in dispatch.c. */
static void find_recorded(mt__op *op)
{
#define FORMAT "MemoryFormat? memory_format=None"
#define GENERATOR "*, Generator? generator=None"
#define SCALED "Tensor? grad_scale=None, Tensor? found_inf=None"
    static const mt__missing missing[] = {
        {MT_OP_to_dtype, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_to_device, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP__to_copy, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_empty, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_empty_like, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_zeros_like, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_ones_like, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_full_like, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_rand_like, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_randn_like, 1, {.kind = MT_NONE}, FORMAT},
        {MT_OP_uniform_, 1, {.kind = MT_NONE}, GENERATOR},
        {MT_OP_normal_, 1, {.kind = MT_NONE}, GENERATOR},
        {MT_OP_random_, 1, {.kind = MT_NONE}, GENERATOR},
        {MT_OP_bernoulli, 1, {.kind = MT_NONE}, GENERATOR},
        {MT_OP_bernoulli_, 1, {.kind = MT_NONE}, GENERATOR},
        {MT_OP_multinomial, 1, {.kind = MT_NONE}, GENERATOR},
        {MT_OP_index_add_, 1, {.kind = MT_INT, .as.i = 1}, "*, Scalar alpha=1"},
        {MT_OP_gather, 1, {.kind = MT_TRUTH}, "*, bool sparse_grad=False"},
        {MT_OP_gather_backward, 1, {.kind = MT_TRUTH}, "bool sparse_grad"},
        {MT_OP_linalg_vector_norm, 1, {.kind = MT_NONE}, "*, ScalarType? dtype=None"},
        {MT_OP_scaled_dot_product_attention, 1, {.kind = MT_TRUTH}, "bool enable_gqa=False"},
        {MT_OP__fused_sgd_, 2, {.kind = MT_NONE}, SCALED},
        {MT_OP__fused_adam_, 2, {.kind = MT_NONE}, SCALED},
        {MT_OP__fused_adamw_, 2, {.kind = MT_NONE}, SCALED},
        {MT_OP__fused_adagrad_, 2, {.kind = MT_NONE}, SCALED},
    };
#undef FORMAT
#undef GENERATOR
#undef SCALED
    for (unsigned i = 0; i < MT__COUNT_OF(missing); i++)
        if (op->id == missing[i].op)
            op->missing = &missing[i];
    op->options = -1;
    for (unsigned i = 0; i + 1 < op->param_count; i++)
        if (op->params[i].type == MT_TYPE_DTYPE && op->params[i + 1].type == MT_TYPE_DEVICE)
            op->options = (int8_t)i;
    op->as_is = op->missing == NULL;
    for (unsigned i = 0; i < op->param_count; i++)
        op->as_is &= op->params[i].type != MT_TYPE_DTYPE && op->params[i].type != MT_TYPE_DEVICE &&
                     op->params[i].type != MT_TYPE_BOOL && op->params[i].type != MT_TYPE_FLOAT;
    op->copies = op->id == MT_OP_clone || op->id == MT_OP__to_copy;
    op->factory = op->options >= 0 && op->grad == NULL && op->id != MT_OP_new_zeros &&
                  op->id != MT_OP_new_empty_strided;
}

static bool is_elementwise(const mt__op *op)
{
    static mt__fn *const infers[] = {mt__infer_binary,
                                     mt__infer_binary_float,
                                     mt__infer_compare,
                                     mt__infer_bitwise,
                                     mt__infer_pair,
                                     mt__infer_elu_backward,
                                     mt__infer_leaky_relu_backward,
                                     mt__infer_unary,
                                     mt__infer_unary_float,
                                     mt__infer_unary_real,
                                     mt__infer_unary_truth,
                                     mt__infer_unary_bits,
                                     mt__infer_clamp,
                                     mt__infer_clamp_min,
                                     mt__infer_hardtanh,
                                     mt__infer_where,
                                     mt__infer_addc,
                                     mt__infer_lerp,
                                     mt__infer_xlogy};
    for (unsigned i = 0; i < MT__COUNT_OF(infers); i++)
        if (op->infer == infers[i])
            return op->id != MT_OP_pow_from; /* contiguous in PyTorch */
    return false;
}

/* As in PyTorch. Maxima, logical ops etc. take no numbers, but convert their operands. */
static void find_numbers(mt__op *op)
{
    static const struct {
        mt__fn *infer;
        mt__numbers numbers;
    } kinds[] = {{mt__infer_binary, MT__NUMBERS_AGAIN},
                 {mt__infer_binary_float, MT__NUMBERS_AGAIN},
                 {mt__infer_bitwise, MT__NUMBERS_AGAIN},
                 {mt__infer_compare, MT__NUMBERS_WITHIN}};
    static const mt_op_id outside[] = {MT_OP_add, MT_OP_sub, MT_OP_mul, MT_OP_div, MT_OP_floor_divide};
    for (unsigned i = 0; i < MT__COUNT_OF(kinds); i++)
        if (op->infer == kinds[i].infer)
            op->numbers = kinds[i].numbers;
    for (unsigned i = 0; i < MT__COUNT_OF(outside); i++)
        if (op->base == outside[i])
            op->numbers = MT__NUMBERS_OUTSIDE;
    if (op->id == MT_OP_rsub)
        op->numbers = MT__NUMBERS_TURNED;
    if (op->base == MT_OP_pow)
        op->numbers = MT__NUMBERS_POWER;
    if (op->id == MT_OP_pow_from)
        op->numbers = MT__NUMBERS_STAY;
    op->floats = op->infer == mt__infer_binary_float;
    op->elementwise = is_elementwise(op);
}

/* The row of an op in place from that of its op, the row before: "pow.Tensor_Scalar(Tensor self, ...) -> Tensor"
 * becomes "pow_.Scalar(Tensor(a!) self, ...) -> Tensor(a!)". */
static void derive(mt__op *op)
{
    const mt__op *of = op - 1;
    const char *text = of->schema, *overload = text + strcspn(text, ".("), *params = strchr(text, '(');
    const char *rest = params + strlen("(Tensor"), *result = strstr(rest, ") -> Tensor");
    const char *shown = overload;
    char *schema = NULL;
    if (strncmp(params, "(Tensor self", 12) != 0 || result == NULL)
        broken(of, text, "no op in place follows from it");
    if (strncmp(overload, ".Tensor_", 8) == 0)
        shown = overload + strlen(".Tensor_");
    if (asprintf(&schema, "%.*s_%s%.*s(Tensor(a!)%.*s) -> Tensor(a!)", (int)(overload - text), text,
                 shown != overload ? "." : "", (int)(params - shown), shown, (int)(result - rest), rest) < 0)
        broken(of, text, "no memory");
    op->schema = schema; /* never freed */
    op->infer = of->infer;
    op->composite = of->composite;
    op->flops = of->flops;
    memcpy(op->kernels, of->kernels, sizeof op->kernels);
    op->grad = of->grad != NULL && of->grad->in_place != NULL ? of->grad->in_place : of->grad;
}

static void read_schema(mt__op *op)
{
    op->base = op->id;
    if (op->derived) {
        derive(op);
        op->base = (mt_op_id)(op->id - 1);
    }
    const char *at = op->schema;
    size_t base = strcspn(at, ".(");
    char *name = NULL;
    if (asprintf(&name, "aten::%.*s", (int)base, at) < 0)
        broken(op, at, "no memory");
    op->name = name; /* never freed */
    at = strchr(at, '(') + 1;
    read_params(op, &at);
    read_outs(op, at);
    op->in_place = op->params[0].written && op->params[0].type == MT_TYPE_TENSOR;
    if (op->grad != NULL && op->grad->run == NULL)
        op->grad = NULL;
    if (op->grad != NULL) {
        read_saves(op);
        read_constants(op);
        find_number_node(op);
    }
    find_recorded(op);
    find_numbers(op);
}

__attribute__((constructor)) static void read_table(void)
{
    for (unsigned i = 0; i < MT_OP_COUNT; i++)
        read_schema(&mt__ops[i]);
}

/* --------------------------------------------------------------------------------------------- questions */

unsigned mt_op_count(void)
{
    return MT_OP_COUNT;
}

/* By id, which distinguishes overloads; else by name: the first overload. */
#define X(id, text, form, derivative) #id,
#define Y(id) #id "_",
static const char *const ids[] = {MT_OPS(X, Y)};
#undef X
#undef Y

bool mt_op_find(const char *name, mt_op_id *out)
{
    if (strncmp(name, "aten::", 6) == 0)
        name += 6;
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < MT_OP_COUNT; i++)
            if (strcmp(pass == 0 ? ids[i] : mt__op_short_name(&mt__ops[i]), name) == 0) {
                *out = (mt_op_id)i;
                return true;
            }
    return false;
}

const char *mt_op_name(mt_op_id op)
{
    return op < MT_OP_COUNT ? mt__ops[op].name : "?";
}
const char *mt_op_id_text(mt_op_id op)
{
    return op < MT_OP_COUNT ? ids[op] : "?";
}
const char *mt_op_schema(mt_op_id op)
{
    return op < MT_OP_COUNT ? mt__ops[op].schema : "";
}
/* Its own schema with a layout between dtype and device, pin_memory after them, and other missing
 * arguments at the end. */
size_t mt_op_recorded_schema(mt_op_id op, char *out, size_t room)
{
    if (op >= MT_OP_COUNT)
        return (size_t)snprintf(out, room, "%s", "");
    const mt__op *o = &mt__ops[op];
    const char *text = o->schema, *end = strstr(text, ") -> "), *device = end, *behind = end;
    if (o->options >= 0) {
        device = strstr(text, "Device");
        behind = device + strcspn(device, ",)");
    }
    const char *more = o->missing != NULL ? o->missing->schema : "";
    if (more[0] == '*' && strstr(text, "*, ") != NULL)
        more += strlen("*, ");
    return (size_t)snprintf(out, room, "%.*s%s%.*s%s%.*s%s%s%s", (int)(device - text), text,
                            o->options >= 0 ? "Layout? layout=None, " : "", (int)(behind - device), device,
                            o->options >= 0 ? ", bool? pin_memory=None" : "", (int)(end - behind), behind,
                            *more != 0 ? ", " : "", more, end);
}

const mt_param *mt_op_params(mt_op_id op, unsigned *count)
{
    *count = op < MT_OP_COUNT ? mt__ops[op].param_count : 0;
    return op < MT_OP_COUNT ? mt__ops[op].params : NULL;
}
unsigned mt_op_outputs(mt_op_id op)
{
    return op < MT_OP_COUNT ? mt__ops[op].out_count : 0;
}
bool mt_op_has_kernel(mt_op_id op, unsigned device_type)
{
    if (op >= MT_OP_COUNT || device_type >= MT_DEVICE_TYPES)
        return false;
    const mt__op *o = &mt__ops[op];
    return o->composite != NULL || o->view || o->kernels[device_type] != NULL;
}
const char *mt_op_out(mt_op_id op)
{
    return op < MT_OP_COUNT ? mt__ops[op].out : NULL;
}
const char *mt_op_backward(mt_op_id op)
{
    return op < MT_OP_COUNT && mt__ops[op].grad != NULL ? mt__ops[op].grad->name : NULL;
}
