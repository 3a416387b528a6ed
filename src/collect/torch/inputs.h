/* collect/torch/inputs.h - an op's inputs, in the form that libmtprof records. Nothing is kept: a tensor lives
 * no longer for being recorded. */
#ifndef MTP_COLLECT_TORCH_INPUTS_H
#define MTP_COLLECT_TORCH_INPUTS_H
#include <ATen/core/ivalue.h>
#include "collect/torch/collector.h"

#define MTP__TORCH_TENSORS 96      /* of an op, lists included, whose identities are recorded */
#define MTP__TORCH_PACKS 256       /* a power of two */
#define MTP__TORCH_WORDS 48        /* of most ops' inputs; for longer ones there is one long pack */
#define MTP__TORCH_WORDS_LONG 2048 /* lists of some hundred tensors */

/* Of one thread. Inputs are packed where those of an earlier call of the same op with as many elements were: if
 * they are the same, libmtprof need not look them up. */
struct mtp__torch_inputs {
    struct {
        mtp_pack pack;
        uint64_t word[MTP__TORCH_WORDS];
    } usual[MTP__TORCH_PACKS];
    mtp_pack long_pack;
    uint64_t long_word[MTP__TORCH_WORDS_LONG];
    mtp_identity identity[MTP__TORCH_TENSORS];
    uint32_t identities;
    bool with_identities;
    mtp_device device; /* of the first tensor on an accelerator; else the CPU */
    uint64_t tensors;  /* number of the last tensor that was read: see below */
};

/* PyTorch's tensors have no numbers, and their addresses are used again: each one read counts as another. Those that
 * share memory are recognised by its address. name: any number for the op, so that its inputs are found again. */
mtp_pack *mtp__torch_inputs_read(mtp__torch_inputs *to, uint32_t name,
                                 c10::ArrayRef<const c10::IValue> values, bool with_identities);
std::string mtp__torch_quoted(const std::string &text); /* as a JSON string */
mtp_device mtp__torch_device(c10::Device device);
#endif
