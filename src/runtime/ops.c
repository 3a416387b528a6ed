/* runtime/ops.c - the registry: the op table of mindtorch_ops.h as mt__op structs; schemas are
 * parsed before main.
 *
 * A schema that cannot be parsed is a bug in the table: the process exits at startup and names the row.
 */
#define _GNU_SOURCE
#include "runtime/narrow.h"
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
#define N(rule) , .numbers = MT__NUMBERS_##rule
#define M(schema) , .missing = (schema)
#define L(pairs) , .optional_lists = (pairs)
#define A(flag) , .flag = true
#define H(cpu, accelerator) , .autocast = {MT__CAST_##cpu, MT__CAST_##accelerator}
#define X(op_id, text, form, derivative)                                                                     \
    [MT_OP_##op_id] = {.schema = (text), form, .grad = &mt__grad_##derivative, .id = MT_OP_##op_id},
#define Y(op_id) [MT_OP_##op_id##_] = {.id = MT_OP_##op_id##_}, /* derive() */
mt__op mt__ops[MT_OP_COUNT] = {MT_OPS(X, Y)};
#undef F
#undef O
#undef N
#undef M
#undef L
#undef A
#undef H
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
        p->gaps = question;
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

int mt__option_of(const mt__op *op, unsigned list)
{
    const mt_param *p = &op->params[list];
    const char *at = op->optional_lists != NULL ? op->optional_lists : "";
    while (*at != 0) {
        const char *option = strchr(at, ':') + 1;
        size_t length = strcspn(option, " ");
        if ((size_t)(option - 1 - at) == p->name_length && memcmp(at, p->name, p->name_length) == 0)
            return find_param(op, option, length);
        at = option + length;
        at += strspn(at, " ");
    }
    return -1;
}

/* op->missing: how many there are, and what PyTorch records for each: its default, or false. */
static void read_missing(mt__op *op)
{
    const char *at = op->missing, *equals;
    if (at == NULL)
        return;
    starts(&at, "*, ");
    op->missing_count = 1;
    for (const char *comma = at; (comma = strchr(comma, ',')) != NULL; comma++)
        op->missing_count++;
    mt_param p = {.type = strncmp(at, "float", 5) == 0 ? MT_TYPE_FLOAT : MT_TYPE_INT};
    equals = strchr(at, '=');
    if (equals != NULL && equals++ != NULL)
        read_default(op, &p, &equals);
    op->missing_value = equals != NULL ? p.default_value : mt_value_truth(false);
}

/* What the profiler needs to show the op as PyTorch's: see describe_all() in dispatch.c. */
static void find_recorded(mt__op *op)
{
    read_missing(op);
    op->options = -1;
    for (unsigned i = 0; i + 1 < op->param_count; i++)
        if (op->params[i].type == MT_TYPE_DTYPE && op->params[i + 1].type == MT_TYPE_DEVICE)
            op->options = (int8_t)i;
    op->as_is = op->missing == NULL;
    for (unsigned i = 0; i < op->param_count; i++)
        op->as_is &= op->params[i].type != MT_TYPE_DTYPE && op->params[i].type != MT_TYPE_DEVICE &&
                     op->params[i].type != MT_TYPE_BOOL && op->params[i].type != MT_TYPE_FLOAT;
    op->factory = op->options >= 0 && op->grad == NULL && !op->followed;
}

/* What follows from an op's infer. Numbers: as in PyTorch; maxima, logical ops etc. take none, but convert
 * their operands. */
static void find_elementwise(mt__op *op)
{
    static const struct {
        mt__fn *infer;
        mt__numbers numbers;
        bool floats;
    } infers[] = {{mt__infer_binary, MT__NUMBERS_AGAIN, false},
                  {mt__infer_binary_float, MT__NUMBERS_AGAIN, true},
                  {mt__infer_div_mode, MT__NUMBERS_AGAIN, false},
                  {mt__infer_bitwise, MT__NUMBERS_AGAIN, false},
                  {mt__infer_compare, MT__NUMBERS_WITHIN, false},
                  {mt__infer_pair, MT__NUMBERS_STAY, false},
                  {mt__infer_elu_backward, MT__NUMBERS_STAY, false},
                  {mt__infer_leaky_relu_backward, MT__NUMBERS_STAY, false},
                  {mt__infer_unary, MT__NUMBERS_STAY, false},
                  {mt__infer_unary_float, MT__NUMBERS_STAY, false},
                  {mt__infer_unary_real, MT__NUMBERS_STAY, false},
                  {mt__infer_unary_truth, MT__NUMBERS_STAY, false},
                  {mt__infer_unary_bits, MT__NUMBERS_STAY, false},
                  {mt__infer_clamp, MT__NUMBERS_STAY, false},
                  {mt__infer_clamp_min, MT__NUMBERS_STAY, false},
                  {mt__infer_clamp_max, MT__NUMBERS_STAY, false},
                  {mt__infer_clamp_tensor, MT__NUMBERS_STAY, false},
                  {mt__infer_clamp_bound, MT__NUMBERS_STAY, false},
                  {mt__infer_round_decimals, MT__NUMBERS_STAY, false},
                  {mt__infer_hardtanh, MT__NUMBERS_STAY, false},
                  {mt__infer_where, MT__NUMBERS_STAY, false},
                  {mt__infer_addc, MT__NUMBERS_STAY, false},
                  {mt__infer_lerp, MT__NUMBERS_STAY, false},
                  {mt__infer_xlogy, MT__NUMBERS_STAY, false}};
    mt__numbers numbers = MT__NUMBERS_STAY;
    for (unsigned i = 0; i < MT__COUNT_OF(infers); i++)
        if (op->infer == infers[i].infer) {
            op->elementwise = true;
            op->floats = infers[i].floats;
            numbers = infers[i].numbers;
        }
    if (op->numbers == MT__NUMBERS_AS_USUAL)
        op->numbers = numbers;
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
    if (strncmp(overload, ".Tensor_Scalar", 14) == 0 ||
        strncmp(overload, ".Tensor_Tensor", 14) == 0) /* pow */
        shown = overload + strlen(".Tensor_");
    if (asprintf(&schema, "%.*s_%s%.*s(Tensor(a!)%.*s) -> Tensor(a!)", (int)(overload - text), text,
                 shown != overload ? "." : "", (int)(params - shown), shown, (int)(result - rest), rest) < 0)
        broken(of, text, "no memory");
    mt_op_id id = op->id;
    *op = *of;
    op->id = id;
    op->base = of->id;
    op->schema = schema; /* never freed */
    op->out = NULL;
    memset(op->autocast, 0, sizeof op->autocast);
    op->grad = of->grad->in_place != NULL ? of->grad->in_place : of->grad;
}

static void read_schema(mt__op *op)
{
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
    }
    find_recorded(op);
    find_elementwise(op);
}

__attribute__((constructor)) static void read_table(void)
{
    for (unsigned i = 0; i < MT_OP_COUNT; i++) {
        mt__ops[i].base = (mt_op_id)i;
        if (mt__ops[i].schema == NULL)
            derive(&mt__ops[i]);
    }
    for (unsigned i = 0; i < MT_OP_COUNT; i++)
        read_schema(&mt__ops[i]);
    mt__narrow_register();
}

/* --------------------------------------------------------------------------------------------- questions */

unsigned mt_op_count(void)
{
    return MT_OP_COUNT;
}

/* By id, which distinguishes overloads; else by name: the first overload. */
#define X(id, text, form, derivative) #id,
#define Y(id) (#id "_"),
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
    const char *more = o->missing != NULL ? o->missing : "";
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
bool mt_op_is_product(mt_op_id op)
{
    return op < MT_OP_COUNT && mt__ops[op].product;
}
const char *mt_op_out(mt_op_id op)
{
    return op < MT_OP_COUNT ? mt__ops[op].out : NULL;
}
const char *mt_op_backward(mt_op_id op)
{
    return op < MT_OP_COUNT && mt__ops[op].grad != NULL ? mt__ops[op].grad->name : NULL;
}
