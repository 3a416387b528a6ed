/* collect/torch/comms.h - what collectives of torch.distributed say of themselves: group, sequence, sizes. Private to this
 * folder.
 *
 * NCCL's (and those of other backends that call record_param_comms) are described by PyTorch itself. Gloo's are not: what
 * the program called, c10d::allreduce_, knows the group; what then runs on one of Gloo's threads, gloo:all_reduce, is the
 * collective. The first leaves its description for the second.
 *
 * Threads: any.
 */
#ifndef MTP_COLLECT_TORCH_COMMS_H
#define MTP_COLLECT_TORCH_COMMS_H
#include <ATen/record_function.h>
#include <string>

/* A call of the dispatcher's whose name begins with c10d::. Its inputs must be there. */
void mtp__torch_comms_called(const at::RecordFunction &call);
/* Members of the args of gloo:..., or of record_param_comms; "": it is not known. */
std::string mtp__torch_comms_gloo(const at::RecordFunction &call);
std::string mtp__torch_comms_param(const at::RecordFunction &call);
#endif
