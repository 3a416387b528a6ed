/* collect/torch/inputs.h - an op's inputs, in the form that libmtprof records. Nothing is kept: a tensor lives
 * no longer for being recorded. */
#ifndef MTP_COLLECT_TORCH_INPUTS_H
#define MTP_COLLECT_TORCH_INPUTS_H
#include <ATen/core/ivalue.h>
#include "collect/torch/collector.h"

#define MTP__TORCH_INPUTS 32  /* of an op; PyTorch's longest schema has 28 */
#define MTP__TORCH_ITEMS 64   /* tensors in all lists of an op; the rest is left out */
#define MTP__TORCH_NUMBERS 32 /* in one list: PyTorch records none of lists over 30 */

struct mtp__torch_inputs {
    mtp_input input[MTP__TORCH_INPUTS], item[MTP__TORCH_ITEMS];
    mtp_identity identity[MTP__TORCH_INPUTS + MTP__TORCH_ITEMS]; /* of inputs, then items */
    int64_t number[MTP__TORCH_INPUTS][MTP__TORCH_NUMBERS];
    uint32_t count, items;
    uint64_t tensors; /* of the last tensor that was read: see mtp__torch_inputs_read */
    mtp_device device; /* of the first tensor on an accelerator; else the CPU */
};

/* PyTorch's tensors have no numbers, and their addresses are used again: each one read counts as another. Those that
 * share memory are recognised by its address. */
void mtp__torch_inputs_read(mtp__torch_inputs *to, c10::ArrayRef<const c10::IValue> values);
std::string mtp__torch_quoted(const std::string &text); /* as a JSON string */
mtp_device mtp__torch_device(c10::Device device);
#endif
