/* runtime/narrow.h - the dtypes that are stored but not computed in: uint8, int8, int16, float16, bfloat16.
 *
 * An op on them computes in int32 or float32, whose results are rounded once, to nearest even, or cut off to the
 * lowest bits: PyTorch's results. Kernels that only move elements take them as they are. dispatch.c asks
 * mt__has_narrow() once per call, after infer; narrow.c does the rest.
 */
#ifndef RUNTIME_NARROW_H
#define RUNTIME_NARROW_H
#include "runtime/runtime.h"

/* How the kernels of an op treat these dtypes, per device. */
typedef enum mt__narrow {
    MT__NARROW_APART,  /* not at all: they get widened copies */
    MT__NARROW_WITHIN, /* they cast operands to call->compute, and results from it, as elementwise ones do */
    MT__NARROW_LOOPS,  /* the same, but they have loops for narrow integers */
    MT__NARROW_AS_IS   /* they know them */
} mt__narrow;

void mt__narrow_register(void); /* sets op->narrow */

static inline bool mt__is_narrow(unsigned dtype)
{
    return (unsigned)MT_NARROW_DTYPES >> dtype & 1;
}
/* The largest finite ones. */
#define MT__MOST_FLOAT16 65504.0
#define MT__MOST_BFLOAT16 0x1.fep127
/* What it is computed in: a dtype that is not narrow, itself. */
mt_dtype mt__wide(mt_dtype dtype);

/* Has the program a tensor of such a dtype, or had? Set by mt__tensor_new(), read once per call: others need not look at all
 * operands. Relaxed: who passes a tensor to another thread orders this, too. */
extern _Atomic bool mt__narrow_made;

/* Is a tensor among the arguments or the outputs, which infer has made, of such a dtype? */
static inline bool mt__has_narrow(const mt__call *call)
{
    unsigned found = 0;
    if (MT__LIKELY(!atomic_load_explicit(&mt__narrow_made, memory_order_relaxed)))
        return false;
    for (unsigned i = 0; i < call->op->param_count; i++) {
        const mt_value *v = &call->args[i];
        if (v->kind == MT_TENSOR)
            found |= (unsigned)MT_NARROW_DTYPES >> v->as.tensor->dtype;
        for (uint32_t k = 0; MT__UNLIKELY(v->kind == MT_TENSORS) && k < v->count; k++)
            if (v->as.tensors[k] != NULL)
                found |= (unsigned)MT_NARROW_DTYPES >> v->as.tensors[k]->dtype;
    }
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->outs[i] != NULL)
            found |= (unsigned)MT_NARROW_DTYPES >> call->outs[i]->dtype;
    return found & 1;
}
/* For messages: the dtype that the call has, or had before a kernel got wider operands. */
static inline const char *mt__asked_dtype(const mt__call *call, unsigned has)
{
    return mt__scalar_type(call->asked != 0 ? call->asked : has);
}
/* Of an elementwise op that computes in dtype: are numbers and wider operands rounded to it first? Integers are; of the
 * ops on halves, some of PyTorch's are computed with the number as it is. */
bool mt__rounds_numbers(const mt__call *call, mt_dtype dtype);
/* Runs the kernel of a call that has. */
mt_status mt__compute_narrow(mt__call *call, mt__fn *kernel);

/* -------------------------------------------------------------------------------------------------- elements */

/* Without branches, so that loops of them vectorise. */
static inline float mt__float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline uint32_t mt__bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The exponent's bias becomes float's by a product, which also normalises small numbers. */
static inline float mt__float_of_float16(uint16_t h)
{
    uint32_t rest = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t special = rest >= 0x7c00u ? 0x7f800000u : 0; /* infinity, NaN */
    return mt__float_of_bits(mt__bits_of_float(mt__float_of_bits(rest << 13) * 0x1p112f) | special | sign);
}

/* A sum with a number whose last bit is float16's rounds to it; products make what is too large infinite. */
static inline uint16_t mt__float16_of_float(float f)
{
    uint32_t bits = mt__bits_of_float(f), sign = bits >> 16 & 0x8000u, twice = bits + bits;
    float size = mt__float_of_bits(bits & 0x7fffffffu) * 0x1p112f * 0x1p-110f;
    uint32_t exponent = twice & 0xff000000u;
    exponent = exponent < 0x71000000u ? 0x71000000u : exponent;
    uint32_t sum = mt__bits_of_float(mt__float_of_bits((exponent >> 1) + 0x07800000u) + size);
    uint32_t rest = (sum >> 13 & 0x7c00u) + (sum & 0xfffu);
    return (uint16_t)(sign | (twice > 0xff000000u ? 0x7e00u : rest));
}

static inline float mt__float_of_bfloat16(uint16_t h)
{
    return mt__float_of_bits((uint32_t)h << 16);
}

static inline uint16_t mt__bfloat16_of_float(float f)
{
    uint32_t bits = mt__bits_of_float(f), rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(bits + bits > 0xff000000u ? 0x7fc0u : rounded);
}

/* MT__FROM_sym(x): an element as a number of C. MT__TO_sym(number): as an element. A real becomes an integer as in
 * PyTorch: by way of a wider one, and so one beyond the narrow one's range wraps around. */
#define MT__FROM_BOOL(x)                                                                                     \
    ((x) != 0) /* of a byte: x.view(torch.bool) shows those that are neither 0 nor 1 as true */
#define MT__FROM_UINT8(x) (x)
#define MT__FROM_INT8(x) (x)
#define MT__FROM_INT16(x) (x)
#define MT__FROM_INT32(x) (x)
#define MT__FROM_INT64(x) (x)
#define MT__FROM_FLOAT16(x) mt__float_of_float16(x)
#define MT__FROM_BFLOAT16(x) mt__float_of_bfloat16(x)
#define MT__FROM_FLOAT32(x) (x)
#define MT__FROM_FLOAT64(x) (x)
#define MT__TO_BOOL(number) ((number) != 0)
#define MT__TO_UINT8(number) ((uint8_t)(int64_t)(number))
#define MT__TO_INT8(number) ((int8_t)(int32_t)(number))
#define MT__TO_INT16(number) ((int16_t)(int32_t)(number))
#define MT__TO_INT32(number) ((int32_t)(number))
#define MT__TO_INT64(number) ((int64_t)(number))
#define MT__TO_FLOAT16(number) mt__float16_of_float((float)(number))
#define MT__TO_BFLOAT16(number) mt__bfloat16_of_float((float)(number))
#define MT__TO_FLOAT32(number) ((float)(number))
#define MT__TO_FLOAT64(number) ((double)(number))

#endif
