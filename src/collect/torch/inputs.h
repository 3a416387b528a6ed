/* collect/torch/inputs.h - an op's inputs, in the form that libmtprof records. Nothing is kept: a tensor lives
 * no longer for being recorded. */
#ifndef MTP_COLLECT_TORCH_INPUTS_H
#define MTP_COLLECT_TORCH_INPUTS_H
#include <ATen/core/ivalue.h>
#include "collect/torch/collector.h"

#define MTP__TORCH_TENSORS 96 /* of an op, lists included, whose identities are recorded */

struct mtp__torch_inputs {
    mtp_pack pack;
    mtp_identity identity[MTP__TORCH_TENSORS];
    uint32_t identities;
    bool with_identities;
    mtp_device device; /* of the first tensor on an accelerator; else the CPU */
    uint64_t tensors;  /* number of the last tensor that was read: see below */
};

/* PyTorch's tensors have no numbers, and their addresses are used again: each one read counts as another. Those that
 * share memory are recognised by its address. */
void mtp__torch_inputs_read(mtp__torch_inputs *to, c10::ArrayRef<const c10::IValue> values,
                            bool with_identities);
std::string mtp__torch_quoted(const std::string &text); /* as a JSON string */
mtp_device mtp__torch_device(c10::Device device);
#endif
