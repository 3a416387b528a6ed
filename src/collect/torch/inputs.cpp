/* collect/torch/inputs.cpp - see inputs.h. What is a tensor, a number, a list or nothing follows torch.profiler. */
#include "collect/torch/inputs.h"
#include <ATen/core/Tensor.h>
#include <string.h>

static uint8_t dtype_of(c10::ScalarType type)
{
    switch (type) {
    case c10::kFloat: return MTP_FLOAT32;
    case c10::kDouble: return MTP_FLOAT64;
    case c10::kHalf: return MTP_FLOAT16;
    case c10::kBFloat16: return MTP_BFLOAT16;
    case c10::kLong: return MTP_INT64;
    case c10::kInt: return MTP_INT32;
    case c10::kShort: return MTP_INT16;
    case c10::kChar: return MTP_INT8;
    case c10::kByte: return MTP_UINT8;
    case c10::kBool: return MTP_BOOL;
    case c10::kComplexFloat: return MTP_COMPLEX64;
    case c10::kComplexDouble: return MTP_COMPLEX128;
    case c10::kComplexHalf: return MTP_COMPLEX32;
    case c10::kUInt16: return MTP_UINT16;
    case c10::kUInt32: return MTP_UINT32;
    case c10::kUInt64: return MTP_UINT64;
    case c10::kFloat8_e5m2: return MTP_FLOAT8_E5M2;
    case c10::kFloat8_e4m3fn: return MTP_FLOAT8_E4M3FN;
    case c10::kFloat8_e5m2fnuz: return MTP_FLOAT8_E5M2FNUZ;
    case c10::kFloat8_e4m3fnuz: return MTP_FLOAT8_E4M3FNUZ;
    case c10::kQInt8: return MTP_QINT8;
    case c10::kQUInt8: return MTP_QUINT8;
    case c10::kQInt32: return MTP_QINT32;
    default: return MTP_UNKNOWN;
    }
}

mtp_device mtp__torch_device(c10::Device device)
{
    int index = device.index();
    return device.is_cpu() ? MTP_DEVICE_CPU : MTP_DEVICE_NPU(index < 0 ? 0 : index);
}

/* A tensor whose sizes can be read without running code: not one of symbolic or nested sizes. */
static bool has_sizes(const c10::TensorImpl *t)
{
    return !t->has_symbolic_sizes_strides() && !t->is_nested();
}

static void read_tensor(mtp__torch_inputs *to, mtp_input *in, mtp_identity *identity, const c10::TensorImpl *t)
{
    memset(in, 0, sizeof *in);
    memset(identity, 0, sizeof *identity);
    if (t == NULL || t == c10::UndefinedTensorImpl::singleton())
        return;
    in->kind = MTP_INPUT_TENSOR;
    in->dtype = dtype_of(c10::typeMetaToScalarType(t->dtype()));
    identity->device = mtp__torch_device(t->device());
    in->value.identity = identity;
    if (identity->device != MTP_DEVICE_CPU && to->device == MTP_DEVICE_CPU)
        to->device = identity->device;
    if (!has_sizes(t))
        return;
    c10::IntArrayRef sizes = t->sizes();
    in->count = (uint32_t)sizes.size();
    in->dims = sizes.data();
    if (t->layout() != c10::kStrided)
        return; /* sparse tensors have no strides and more than one storage */
    in->strides = t->strides().data();
    identity->tensor = ++to->tensors;
    if (t->has_storage() && t->unsafe_storage().nbytes() > 0)
        identity->storage = (uint64_t)(uintptr_t)t->unsafe_storage().data() & (((uint64_t)1 << 56) - 1);
}

static void read_tensors(mtp__torch_inputs *to, mtp_input *in, const c10::List<at::Tensor> &list)
{
    in->kind = MTP_INPUT_TENSOR_LIST;
    in->value.items = to->item + to->items;
    for (size_t i = 0; i < list.size() && to->items < MTP__TORCH_ITEMS; i++, in->count++, to->items++) {
        const at::Tensor tensor = list.get(i);
        read_tensor(to, &to->item[to->items], &to->identity[MTP__TORCH_INPUTS + to->items],
                    tensor.unsafeGetTensorImpl());
    }
}

/* A list of numbers of one type; a list of other things, or a longer one, is an input without a value. */
static void read_list(mtp_input *in, int64_t numbers[MTP__TORCH_NUMBERS], const c10::IValue &value)
{
    c10::ArrayRef<c10::IValue> list = value.toListRef();
    uint32_t n = (uint32_t)(list.size() <= MTP__TORCH_NUMBERS - 2 ? list.size() : 0);
    if (n != list.size() || (n > 0 && !list[0].isInt() && !list[0].isDouble() && !list[0].isBool()))
        return;
    in->kind = MTP_INPUT_INT_LIST;
    in->dtype = n == 0 || list[0].isInt() ? MTP_UNKNOWN : list[0].isBool() ? MTP_BOOL : MTP_FLOAT64;
    in->dims = numbers;
    for (in->count = 0; in->count < n; in->count++) {
        const c10::IValue &item = list[in->count];
        double real = item.isDouble() ? item.toDouble() : 0;
        if (item.isDouble())
            memcpy(&numbers[in->count], &real, sizeof real);
        else
            numbers[in->count] = item.isInt() ? item.toInt() : item.isBool() && item.toBool();
    }
}

static void read_value(mtp__torch_inputs *to, uint32_t at, const c10::IValue &value)
{
    mtp_input *in = &to->input[at];
    if (value.isTensor()) {
        read_tensor(to, in, &to->identity[at], value.unsafeToTensorImpl());
        return;
    }
    memset(in, 0, sizeof *in);
    if (value.isInt()) {
        in->kind = MTP_INPUT_INT;
        in->value.i = value.toInt();
    } else if (value.isBool()) {
        in->kind = MTP_INPUT_BOOL;
        in->value.i = value.toBool();
    } else if (value.isDouble()) {
        in->kind = MTP_INPUT_FLOAT;
        in->value.f = value.toDouble();
    } else if (value.isTensorList()) {
        read_tensors(to, in, value.toTensorList());
    } else if (value.isList()) {
        read_list(in, to->number[at], value);
    } else if (value.isString()) {
        const std::string &text = value.toStringRef();
        in->kind = MTP_INPUT_TEXT;
        in->count = (uint32_t)(text.size() < 256 ? text.size() : 256);
        in->value.text = text.data();
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

void mtp__torch_inputs_read(mtp__torch_inputs *to, c10::ArrayRef<const c10::IValue> values)
{
    to->items = 0;
    to->device = MTP_DEVICE_CPU;
    to->count = (uint32_t)(values.size() < MTP__TORCH_INPUTS ? values.size() : MTP__TORCH_INPUTS);
    for (uint32_t i = 0; i < to->count; i++)
        read_value(to, i, values[i]);
}
