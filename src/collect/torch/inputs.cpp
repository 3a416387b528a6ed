/* collect/torch/inputs.cpp - see inputs.h. What is a tensor, a number, a list or nothing follows torch.profiler. */
#include "collect/torch/inputs.h"
#include <ATen/core/Tensor.h>
#include <string.h>

#define NUMBERS_MOST 30 /* in a list: torch.profiler records no longer ones */
#define TEXT_MOST 256   /* bytes of a text */

/* Of later versions of PyTorch than the oldest whose headers we are compiled with. Its numbers reach files: they stay. */
static mtp_dtype newer_dtype_of(int type)
{
    return type == 44 ? MTP_FLOAT8_E8M0FNU : type == 45 ? MTP_FLOAT4_E2M1FN_X2 : MTP_UNKNOWN;
}

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
        return newer_dtype_of((int)type);
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

/* One that keeps its sizes and strides itself: it is not sparse, nested, opaque, symbolic or a Python object's. */
struct policy : c10::TensorImpl {
    static bool is_plain(const c10::TensorImpl *t)
    {
        return !(t->*&policy::matches_policy)(SizesStridesPolicy::CustomStrides);
    }
};

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
static inline __attribute__((always_inline)) void read_tensor(mtp__torch_inputs *to, mtp_pack *pack,
                                                              const c10::TensorImpl *t, bool brief)
{
    if (t == NULL || t == c10::UndefinedTensorImpl::singleton() || __builtin_expect(!has_sizes(t), 0)) {
        mtp_pack_none(pack);
        return;
    }
    mtp_dtype dtype = dtype_of(c10::typeMetaToScalarType(t->dtype()));
    if (__builtin_expect(!t->device().is_cpu(), 0) && to->device == MTP_DEVICE_CPU)
        to->device = mtp__torch_device(t->device());
    if (to->with_identities)
        identify(to, t, dtype);
    c10::IntArrayRef sizes = t->sizes();
    bool is_strided = t->layout() == c10::kStrided; /* sparse tensors have no strides */
    bool with_strides = is_strided && !(brief && are_contiguous(sizes, t->strides()));
    mtp_pack_tensor(pack, dtype, (uint32_t)sizes.size(), sizes.data(),
                    with_strides ? t->strides().data() : NULL);
}

/* Items of a list are tensors, for the reader of the trace: undefined ones, and those without sizes, have no dtype. */
static void read_item(mtp__torch_inputs *to, mtp_pack *pack, const c10::TensorImpl *t)
{
    if (t != c10::UndefinedTensorImpl::singleton() && has_sizes(t)) {
        read_tensor(to, pack, t, true);
        return;
    }
    mtp_pack_tensor(pack, MTP_UNKNOWN, 0, NULL, NULL);
    if (to->with_identities)
        identify(to, NULL, MTP_UNKNOWN);
}

static void read_tensors(mtp__torch_inputs *to, mtp_pack *pack, const c10::List<at::Tensor> &list)
{
    mtp_pack_list(pack, (uint32_t)list.size());
    for (size_t i = 0; i < list.size() && !pack->cut; i++)
        read_item(to, pack, at::Tensor(list.get(i)).unsafeGetTensorImpl());
}

static inline uint64_t bits_of(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* A list of numbers of one type; a list of other things, or a longer one, is an input without a value. */
static void read_list(mtp_pack *pack, const c10::IValue &value)
{
    c10::ArrayRef<c10::IValue> list = value.toListRef();
    size_t n = list.size();
    if (n > NUMBERS_MOST || (n > 0 && !list[0].isInt() && !list[0].isDouble() && !list[0].isBool())) {
        mtp_pack_none(pack);
        return;
    }
    mtp_dtype dtype = n == 0 || list[0].isInt() ? MTP_UNKNOWN : list[0].isBool() ? MTP_BOOL : MTP_FLOAT64;
    int64_t numbers[NUMBERS_MOST];
    for (size_t i = 0; i < n; i++) {
        if (list[i].isDouble())
            numbers[i] = (int64_t)bits_of(list[i].toDouble());
        else
            numbers[i] = list[i].isInt() ? list[i].toInt() : list[i].isBool() && list[i].toBool();
    }
    mtp_pack_numbers(pack, dtype, (uint32_t)n, numbers);
}

static __attribute__((noinline)) void read_rare(mtp__torch_inputs *to, mtp_pack *pack,
                                                const c10::IValue &value)
{
    if (value.isTensorList()) {
        read_tensors(to, pack, value.toTensorList());
    } else if (value.isList()) {
        read_list(pack, value);
    } else if (value.isString()) {
        const std::string &text = value.toStringRef();
        mtp_pack_text(pack, text.data(), (uint32_t)(text.size() < TEXT_MOST ? text.size() : TEXT_MOST));
    } else {
        mtp_pack_none(pack);
    }
}

static inline __attribute__((always_inline)) void read_values(mtp__torch_inputs *to, mtp_pack *pack,
                                                              c10::ArrayRef<const c10::IValue> values)
{
    mtp_pack mine = *pack; /* in registers */
    to->identities = 0;
    mtp_pack_begin(&mine);
    for (const c10::IValue &value : values) {
        if (value.isTensor()) {
            read_tensor(to, &mine, value.unsafeToTensorImpl(), false);
        } else if (value.isInt()) {
            mtp_pack_int(&mine, value.toInt());
        } else if (value.isBool()) {
            mtp_pack_bool(&mine, value.toBool());
        } else if (value.isDouble()) {
            mtp_pack_float(&mine, value.toDouble());
        } else {
            *pack = mine;
            read_rare(to, pack, value);
            mine = *pack;
        }
    }
    *pack = mine;
}

#define RANK_USUAL 5 /* dimensions that PyTorch keeps in the tensor itself */

static inline __attribute__((always_inline)) bool next_tensor(mtp__pack_cursor *c, const c10::TensorImpl *t)
{
    if (__builtin_expect(t == NULL || !policy::is_plain(t) || !t->is_cpu() || t->layout() != c10::kStrided, 0))
        return false;
    c10::IntArrayRef sizes = t->sizes(), strides = t->strides();
    uint32_t rank = (uint32_t)sizes.size();
    if (__builtin_expect(rank > RANK_USUAL, 0))
        return false;
    mtp__pack_next(c, mtp__pack_tensor_head(dtype_of(c10::typeMetaToScalarType(t->dtype())), rank, rank > 0));
    for (uint32_t i = 0; i < rank; i++)
        mtp__pack_next(c, (uint64_t)sizes[i]);
    for (uint32_t i = 0; i < rank; i++)
        mtp__pack_next(c, (uint64_t)strides[i]);
    return true;
}

static inline void next_number(mtp__pack_cursor *c, mtp_input_kind kind, uint64_t value)
{
    mtp__pack_next(c, kind);
    mtp__pack_next(c, value);
}

/* Packs what most inputs are: plain tensors of few dimensions on the CPU, and numbers. There is room for them, so it is
 * not asked for before each word. false: there are others, too. */
static inline __attribute__((always_inline)) bool read_usual(mtp_pack *pack,
                                                             c10::ArrayRef<const c10::IValue> values)
{
    if (values.size() > MTP__TORCH_WORDS / (2 * RANK_USUAL + 1))
        return false;
    mtp__pack_cursor c = {pack->word, pack->changed};
    bool usual = true;
    for (const c10::IValue &value : values) {
        if (value.isTensor())
            usual = next_tensor(&c, value.unsafeToTensorImpl());
        else if (value.isInt())
            next_number(&c, MTP_INPUT_INT, (uint64_t)value.toInt());
        else if (value.isBool())
            next_number(&c, MTP_INPUT_BOOL, value.toBool());
        else if (value.isDouble())
            next_number(&c, MTP_INPUT_FLOAT, bits_of(value.toDouble()));
        else if (value.isNone())
            mtp__pack_next(&c, MTP_INPUT_NONE);
        else
            usual = false;
        if (__builtin_expect(!usual, 0))
            break;
    }
    pack->changed = c.changed;
    pack->count = (uint32_t)(c.at - pack->word);
    return usual;
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

/* Elements of the first tensor: most calls of an op that differ in shapes differ in it. 0: only its own code knows them. */
static inline uint64_t first_size(c10::ArrayRef<const c10::IValue> values)
{
    if (values.empty() || !values[0].isTensor())
        return 0;
    const c10::TensorImpl *t = values[0].unsafeToTensorImpl();
    return policy::is_plain(t) ? (uint64_t)t->numel() : 0;
}

static __attribute__((noinline)) mtp_pack *read_long(mtp__torch_inputs *to,
                                                     c10::ArrayRef<const c10::IValue> values)
{
    if (to->long_pack.word == NULL)
        mtp_pack_init(&to->long_pack, to->long_word, MTP__TORCH_WORDS_LONG);
    read_values(to, &to->long_pack, values);
    return &to->long_pack;
}

/* After an exception: some of its words were replaced, but not noted as changed. */
static __attribute__((noinline, cold)) mtp_pack *no_inputs(mtp__torch_inputs *to, mtp_pack *pack)
{
    to->identities = 0;
    to->device = MTP_DEVICE_CPU;
    mtp_pack_init(pack, pack->word, pack->room);
    return pack;
}

mtp_pack *mtp__torch_inputs_read(mtp__torch_inputs *to, uint32_t name,
                                 c10::ArrayRef<const c10::IValue> values, bool with_identities)
{
    uint64_t hash = (first_size(values) * 31 + name) * 0x9e3779b97f4a7c15u;
    auto &usual = to->usual[hash >> 56];
    static_assert(MTP__TORCH_PACKS == 256, "as many as the hash has values");
    to->with_identities = with_identities;
    to->device = MTP_DEVICE_CPU;
    if (__builtin_expect(usual.pack.word == NULL, 0))
        mtp_pack_init(&usual.pack, usual.word, MTP__TORCH_WORDS);
    mtp_pack *pack = usual.pack.cut ? &to->long_pack : &usual.pack;
    try { /* a tensor subclass's sizes and device may be Python code, which raises */
        if (!with_identities && !usual.pack.cut && read_usual(&usual.pack, values))
            return &usual.pack;
        if (!usual.pack.cut)
            read_values(to, &usual.pack, values);
        if (__builtin_expect(!usual.pack.cut, 1))
            return &usual.pack;
        pack = &to->long_pack;
        return read_long(to, values);
    } catch (...) {
        return no_inputs(to, pack);
    }
}
