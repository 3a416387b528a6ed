/* collect/torch/comms.cpp - see comms.h. With MTP_WITHOUT_COMMS, for a PyTorch whose headers do not fit, it knows nothing. */
#include "collect/torch/comms.h"
#ifndef MTP_WITHOUT_COMMS
#include <dlfcn.h>
#include <string.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/profiler/util.h>
#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include "collect/torch/inputs.h"

namespace
{

constexpr size_t kept_most = 256; /* calls whose collective has not begun */
constexpr size_t ranks_most = 30; /* that are listed, as PyTorch does */

struct op_names {
    const char *call, *gloo, *shown;
    int peer; /* place of the peer's rank among the inputs; -1: none */
};

const op_names ops[] = {
    {"c10d::allreduce_", "gloo:all_reduce", "allreduce", -1},
    {"c10d::allreduce_coalesced_", "gloo:all_reduce", "allreduce", -1},
    {"c10d::broadcast_", "gloo:broadcast", "broadcast", -1},
    {"c10d::allgather_", "gloo:all_gather", "allgather", -1},
    {"c10d::_allgather_base_", "gloo:all_gather", "allgather", -1},
    {"c10d::allgather_coalesced_", "gloo:all_gather", "allgather", -1},
    {"c10d::reduce_", "gloo:reduce", "reduce", -1},
    {"c10d::reduce_scatter_", "gloo:reduce_scatter", "reduce_scatter", -1},
    {"c10d::_reduce_scatter_base_", "gloo:reduce_scatter", "reduce_scatter", -1},
    {"c10d::gather_", "gloo:gather", "gather", -1},
    {"c10d::scatter_", "gloo:scatter", "scatter", -1},
    {"c10d::alltoall_", "gloo:all_to_all", "all_to_all", -1},
    {"c10d::alltoall_base_", "gloo:all_to_all", "all_to_all", -1},
    {"c10d::barrier", "gloo:barrier", "barrier", -1},
    {"c10d::send", "gloo:send", "send", 2},
    {"c10d::recv_", "gloo:recv", "recv", 2},
    {"c10d::recv_any_source_", "gloo:recvAnySource", "recv", -1},
};

struct waiting {
    const op_names *op;
    const void *tensor; /* compared only: the first one; nullptr: none */
    std::string text;
};

std::mutex lock; /* of the list, of the counts, and of whether the backend was told */
std::list<waiting> calls;
std::unordered_map<std::string, int64_t> messages; /* so far, by group */
bool told;

const op_names *find_op(const char *name)
{
    for (const op_names &op : ops)
        if (strcmp(op.call, name) == 0)
            return &op;
    return nullptr;
}

bool is_group(const c10::IValue &value)
{
    return value.isCustomClass() && value.type()->str().find("ProcessGroup") != std::string::npos;
}

/* The tensors of one argument, which may be a list, or a list of lists. */
void add(const c10::IValue &value, int64_t *elements, const at::Tensor **first, at::Tensor *kept)
{
    if (value.isTensor()) {
        const at::Tensor &tensor = value.toTensor();
        if (!tensor.defined())
            return;
        *elements += tensor.numel();
        if (*first == nullptr) {
            *kept = tensor;
            *first = kept;
        }
    } else if (value.isTensorList()) {
        for (const at::Tensor &tensor : value.toTensorVector())
            add(tensor, elements, first, kept);
    } else if (value.isList()) {
        for (const c10::IValue &item : value.toListRef())
            add(item, elements, first, kept);
    }
}

/* Under `mtprof run`: the program's own word on its backend and rank. */
void tell_backend(c10d::ProcessGroup &group)
{
    void (*rank)(const char *backend, int rank, int world);
    const char *world = getenv("WORLD_SIZE");
    if (told || world == nullptr || atoi(world) != group.getSize())
        return;
    told = true;
    *(void **)&rank = dlsym(RTLD_DEFAULT, "mtp_run_rank");
    if (rank != nullptr)
        rank(group.getBackendName().c_str(), group.getRank(), group.getSize());
}

std::vector<uint64_t> ranks_of(c10d::ProcessGroup &group)
{
    try {
        return group.getDefaultBackend()->getBackendOptions()->global_ranks_in_group;
    } catch (...) { /* a backend without options */
        return {};
    }
}

std::string group_members(c10d::ProcessGroup &group, const std::vector<uint64_t> &ranks)
{
    size_t size = (size_t)group.getSize();
    std::string text = "\"Process Group Name\": " + mtp__torch_quoted(group.getGroupName()) +
                       ", \"Process Group Description\": " + mtp__torch_quoted(group.getGroupDesc());
    text += ", \"Process Group Ranks\": \"[";
    for (size_t i = 0; i < size && i <= ranks_most; i++) {
        text += i > 0 ? ", " : "";
        text += i == ranks_most ? "..." : std::to_string(ranks.size() == size ? ranks[i] : i);
    }
    return text + "]\", \"Group size\": " + std::to_string(size);
}

/* Gloo's number of a group grows by one at each call, also of messages, which only some ranks send: those are taken off. The
 * call is about to be made. */
std::string sequence_member(c10d::ProcessGroup &group)
{
    try {
        int64_t calls = (int64_t)group.getSequenceNumberForGroup();
        int64_t &sent = messages[group.getGroupName()];
        if (sent > calls) /* of a group of this name that is gone */
            sent = 0;
        return ", \"Seq\": " + std::to_string(calls - sent + 1);
    } catch (...) {
        return "";
    }
}

struct sizes {
    int64_t in, out;
    at::Tensor tensor;
};

/* Outputs come first where an op has both. */
sizes sizes_of(const op_names &op, c10::ArrayRef<const c10::IValue> inputs)
{
    sizes found{0, 0, at::Tensor()};
    const at::Tensor *in_first = nullptr, *out_first = nullptr;
    at::Tensor in_tensor, out_tensor;
    std::string shown = op.shown;
    bool has_both = inputs.size() > 1 && !is_group(inputs[1]);
    if (shown == "barrier")
        return found;
    add(inputs[0], &found.out, &out_first, &out_tensor);
    if (has_both)
        add(inputs[1], &found.in, &in_first, &in_tensor);
    else
        found.in = found.out;
    if (shown == "send")
        found.out = 0;
    else if (shown == "recv")
        found.in = 0;
    found.tensor = in_first != nullptr ? in_tensor : out_tensor;
    return found;
}

std::string describe(const op_names &op, c10d::ProcessGroup &group, c10::ArrayRef<const c10::IValue> inputs, const sizes &s)
{
    std::vector<uint64_t> ranks = ranks_of(group);
    std::string text = group_members(group, ranks);
    text += ", \"Collective name\": " + mtp__torch_quoted(op.shown);
    if (op.peer < 0 && strcmp(op.shown, "recv") != 0)
        text += sequence_member(group);
    if (op.peer >= 0 && (size_t)op.peer < inputs.size() && inputs[op.peer].isInt()) {
        int64_t peer = inputs[op.peer].toInt();
        bool known = peer >= 0 && (size_t)peer < ranks.size();
        text += strcmp(op.shown, "send") == 0 ? ", \"Dst Rank\": " : ", \"Src Rank\": ";
        text += std::to_string(known ? (int64_t)ranks[(size_t)peer] : peer);
    }
    text += ", \"In msg nelems\": " + std::to_string(s.in) + ", \"Out msg nelems\": " + std::to_string(s.out);
    if (s.tensor.defined())
        text += ", \"dtype\": " + mtp__torch_quoted(c10::toString(s.tensor.scalar_type()));
    return text;
}

void called(const at::RecordFunction &call, const op_names &op)
{
    c10::ArrayRef<const c10::IValue> inputs = call.inputs();
    size_t at = 0;
    while (at < inputs.size() && !is_group(inputs[at]))
        at++;
    if (at == inputs.size())
        return;
    auto group = inputs[at].toCustomClass<c10d::ProcessGroup>();
    std::lock_guard<std::mutex> guard(lock);
    tell_backend(*group);
    if (group->getBackendName() != "gloo")
        return;
    sizes s = sizes_of(op, inputs);
    bool is_message = strcmp(op.shown, "send") == 0 || strcmp(op.shown, "recv") == 0;
    if (calls.size() == kept_most)
        calls.pop_front();
    std::string text = describe(op, *group, inputs, s);
    if (is_message)
        messages[group->getGroupName()]++;
    calls.push_back({&op, s.tensor.defined() ? s.tensor.unsafeGetTensorImpl() : nullptr, std::move(text)});
}

} // namespace

void mtp__torch_comms_called(const at::RecordFunction &call)
{
    const op_names *op = find_op(call.name());
    try {
        if (op != nullptr)
            called(call, *op);
    } catch (...) { /* a group that has gone, or one of another kind: without a description */
    }
}

std::string mtp__torch_comms_gloo(const at::RecordFunction &call)
{
    const at::Tensor *first = nullptr;
    at::Tensor kept;
    int64_t elements = 0;
    for (const c10::IValue &value : call.inputs())
        add(value, &elements, &first, &kept);
    const void *tensor = first != nullptr ? first->unsafeGetTensorImpl() : nullptr;
    std::lock_guard<std::mutex> guard(lock);
    auto found = std::find_if(calls.begin(), calls.end(), [&](const waiting &w) {
        return strcmp(w.op->gloo, call.name()) == 0 && (tensor == nullptr || w.tensor == nullptr || w.tensor == tensor);
    });
    if (found == calls.end() && strcmp(call.name(), "gloo:all_reduce") == 0) /* of a copy of the tensor */
        found = std::find_if(calls.begin(), calls.end(), [](const waiting &w) { return strcmp(w.op->shown, "reduce_scatter") == 0; });
    if (found == calls.end())
        return "";
    std::string text = std::move(found->text);
    calls.erase(found);
    return text;
}

/* As in PyTorch's own traces, letter by letter: the values are JSON already. */
std::string mtp__torch_comms_param(const at::RecordFunction &call)
{
    std::string text;
    try {
        for (const auto &[key, value] : torch::profiler::impl::saveNcclMeta(call))
            text += (text.empty() ? "" : ", ") + mtp__torch_quoted(key) + ": " + value;
    } catch (...) {
        text.clear();
    }
    return text;
}
#else
void mtp__torch_comms_called(const at::RecordFunction &)
{
}

std::string mtp__torch_comms_gloo(const at::RecordFunction &)
{
    return "";
}

std::string mtp__torch_comms_param(const at::RecordFunction &)
{
    return "";
}
#endif
