/* collect/torch/inputs.cpp - see inputs.h. What is a tensor, a number, a list or nothing follows torch.profiler. */
#include "collect/torch/inputs.h"
#include <ATen/core/Tensor.h>
#include <string.h>

#define NUMBERS_MOST 30 /* in a list: torch.profiler records no longer ones */
#define TEXT_MOST 256   /* bytes of a text */

static mtp_dtype dtype_of(c10::ScalarType type)
{
    switch (type) {
    case c10::kFloat:
        return MTP_FLOAT32;
    case c10::kDouble:
        return MTP_FLOAT64;
    case c10::kHalf:
        return MTP_FLOAT16;
    case c10::kBFloat16:
        return MTP_BFLOAT16;
    case c10::kLong:
        return MTP_INT64;
    case c10::kInt:
        return MTP_INT32;
    case c10::kShort:
        return MTP_INT16;
    case c10::kChar:
        return MTP_INT8;
    case c10::kByte:
        return MTP_UINT8;
    case c10::kBool:
        return MTP_BOOL;
    case c10::kComplexFloat:
        return MTP_COMPLEX64;
    case c10::kComplexDouble:
        return MTP_COMPLEX128;
    case c10::kComplexHalf:
        return MTP_COMPLEX32;
    case c10::kUInt16:
        return MTP_UINT16;
    case c10::kUInt32:
        return MTP_UINT32;
    case c10::kUInt64:
        return MTP_UINT64;
    case c10::kFloat8_e5m2:
        return MTP_FLOAT8_E5M2;
    case c10::kFloat8_e4m3fn:
        return MTP_FLOAT8_E4M3FN;
    case c10::kFloat8_e5m2fnuz:
        return MTP_FLOAT8_E5M2FNUZ;
    case c10::kFloat8_e4m3fnuz:
        return MTP_FLOAT8_E4M3FNUZ;
    case c10::kQInt8:
        return MTP_QINT8;
    case c10::kQUInt8:
        return MTP_QUINT8;
    case c10::kQInt32:
        return MTP_QINT32;
    default:
        return MTP_UNKNOWN;
    }
}

/* What happens on the meta device takes no memory, and the CPU's time. */
mtp_device mtp__torch_device(c10::Device device)
{
    int index = device.index();
    return device.is_cpu() || device.is_meta() ? MTP_DEVICE_CPU : MTP_DEVICE_NPU(index < 0 ? 0 : index);
}

/* A tensor whose sizes can be read without running code: not one of symbolic or nested sizes. */
static bool has_sizes(const c10::TensorImpl *t)
{
    return !t->has_symbolic_sizes_strides() && !t->is_nested();
}

/* Which tensor it is, and where its memory is. */
static __attribute__((noinline)) void identify(mtp__torch_inputs *to, const c10::TensorImpl *t,
                                               mtp_dtype dtype)
{
    if (to->identities == MTP__TORCH_TENSORS)
        return;
    mtp_identity *id = &to->identity[to->identities++];
    *id = mtp_identity();
    if (t == NULL)
        return;
    id->tensor = ++to->tensors;
    id->device = mtp__torch_device(t->device());
    id->dtype = dtype;
    if (t->layout() == c10::kStrided && t->has_storage() && t->unsafe_storage().nbytes() > 0)
        id->storage = (uint64_t)(uintptr_t)t->unsafe_storage().data() & (((uint64_t)1 << 56) - 1);
}

/* Those that the reader of a trace takes for granted. */
static bool are_contiguous(c10::IntArrayRef sizes, c10::IntArrayRef strides)
{
    int64_t step = 1;
    for (size_t i = sizes.size(); i > 0; i--) {
        if (strides[i - 1] != step)
            return false;
        step *= sizes[i - 1] != 0 ? sizes[i - 1] : 1;
    }
    return true;
}

/* brief: leaves out strides that can be, for lists of hundreds of tensors. */
static inline void read_tensor(mtp__torch_inputs *to, const c10::TensorImpl *t, bool brief)
{
    if (t == NULL || t == c10::UndefinedTensorImpl::singleton()) {
        mtp_pack_none(&to->pack);
        return;
    }
    mtp_dtype dtype = dtype_of(c10::typeMetaToScalarType(t->dtype()));
    if (__builtin_expect(!t->device().is_cpu(), 0) && to->device == MTP_DEVICE_CPU)
        to->device = mtp__torch_device(t->device());
    if (to->with_identities)
        identify(to, t, dtype);
    if (__builtin_expect(!has_sizes(t), 0)) {
        mtp_pack_tensor(&to->pack, dtype, 0, NULL, NULL);
        return;
    }
    c10::IntArrayRef sizes = t->sizes();
    bool is_strided = t->layout() == c10::kStrided; /* sparse tensors have no strides */
    bool with_strides = is_strided && !(brief && are_contiguous(sizes, t->strides()));
    mtp_pack_tensor(&to->pack, dtype, (uint32_t)sizes.size(), sizes.data(),
                    with_strides ? t->strides().data() : NULL);
}

/* Items of a list are tensors, for the reader of the trace: undefined ones have no dtype. */
static void read_item(mtp__torch_inputs *to, const c10::TensorImpl *t)
{
    if (t != c10::UndefinedTensorImpl::singleton()) {
        read_tensor(to, t, true);
        return;
    }
    mtp_pack_tensor(&to->pack, MTP_UNKNOWN, 0, NULL, NULL);
    if (to->with_identities)
        identify(to, NULL, MTP_UNKNOWN);
}

static void read_tensors(mtp__torch_inputs *to, const c10::List<at::Tensor> &list)
{
    mtp_pack_list(&to->pack, (uint32_t)list.size());
    for (size_t i = 0; i < list.size() && !to->pack.cut; i++)
        read_item(to, at::Tensor(list.get(i)).unsafeGetTensorImpl());
}

/* A list of numbers of one type; a list of other things, or a longer one, is an input without a value. */
static void read_list(mtp__torch_inputs *to, const c10::IValue &value)
{
    c10::ArrayRef<c10::IValue> list = value.toListRef();
    size_t n = list.size();
    if (n > NUMBERS_MOST || (n > 0 && !list[0].isInt() && !list[0].isDouble() && !list[0].isBool())) {
        mtp_pack_none(&to->pack);
        return;
    }
    mtp_dtype dtype = n == 0 || list[0].isInt() ? MTP_UNKNOWN : list[0].isBool() ? MTP_BOOL : MTP_FLOAT64;
    uint64_t *at = mtp_pack_numbers(&to->pack, dtype, (uint32_t)n);
    for (size_t i = 0; at != NULL && i < n; i++) {
        double real = list[i].isDouble() ? list[i].toDouble() : 0;
        if (list[i].isDouble())
            memcpy(&at[i], &real, sizeof real);
        else
            at[i] = (uint64_t)(list[i].isInt() ? list[i].toInt() : list[i].isBool() && list[i].toBool());
    }
}

static inline void read_value(mtp__torch_inputs *to, const c10::IValue &value)
{
    if (value.isTensor()) {
        read_tensor(to, value.unsafeToTensorImpl(), false);
    } else if (value.isInt()) {
        mtp_pack_int(&to->pack, value.toInt());
    } else if (value.isBool()) {
        mtp_pack_bool(&to->pack, value.toBool());
    } else if (value.isDouble()) {
        mtp_pack_float(&to->pack, value.toDouble());
    } else if (value.isTensorList()) {
        read_tensors(to, value.toTensorList());
    } else if (value.isList()) {
        read_list(to, value);
    } else if (value.isString()) {
        const std::string &text = value.toStringRef();
        mtp_pack_text(&to->pack, text.data(), (uint32_t)(text.size() < TEXT_MOST ? text.size() : TEXT_MOST));
    } else {
        mtp_pack_none(&to->pack);
    }
}

std::string mtp__torch_quoted(const std::string &text)
{
    std::string out = "\"";
    char escaped[8];
    for (unsigned char c : text) {
        if (c >= ' ' && c != '"' && c != '\\') {
            out += (char)c;
        } else {
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        }
    }
    return out + "\"";
}

void mtp__torch_inputs_read(mtp__torch_inputs *to, c10::ArrayRef<const c10::IValue> values,
                            bool with_identities)
{
    to->pack.count = to->identities = 0;
    to->pack.cut = false;
    to->with_identities = with_identities;
    to->device = MTP_DEVICE_CPU;
    for (const c10::IValue &value : values)
        read_value(to, value);
}
