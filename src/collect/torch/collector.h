/* collect/torch/collector.h - the interface of the PyTorch collector, a shared library that is compiled against
 * the headers of the user's own PyTorch (mtprof/pytorch/collector.py says how) and loaded after it.
 *
 * It records into whatever profile runs in the process. Attached, but with no profile running, an op costs
 * what PyTorch needs to call two functions.
 */
#ifndef MTP_COLLECT_TORCH_COLLECTOR_H
#define MTP_COLLECT_TORCH_COLLECTOR_H
#include <mtprof.h>

extern "C" {
/* What to attach to; without either, ops by name only. */
#define MTP_TORCH_INPUTS 1u /* PyTorch collects the inputs of each op: needed for shapes */
#define MTP_TORCH_MEMORY 2u /* allocations and frees of PyTorch's allocators */
#define MTP_TORCH_COMMS                                                                                      \
    4u /* group, sequence and sizes of collectives; PyTorch collects the inputs of each op for it */

/* Any thread. Several may attach (`mtprof run`, and a profile inside the program): what any of them asked for is on until
 * it detaches, with the same flags. Ops that are running are not recorded. Returns the flags that took effect. */
MTP_API unsigned mtp_torch_attach(unsigned flags);
MTP_API void mtp_torch_detach(unsigned flags);
/* Any thread. The caller marks the program's steps: from now on those of PyTorch's own profiler, which the program may use,
 * are not recorded, since each step would be there twice. */
MTP_API void mtp_torch_hide_steps(void);
/* Callbacks that only read the clock: what any profiler of this kind costs at least (bench/bench_pytorch.py). on: 0 ends
 * it. */
MTP_API void mtp_torch_clock(int on, int with_inputs);
MTP_API const char *mtp_torch_version(void); /* of the PyTorch that it was compiled against */
}

/* memory.cpp */
bool mtp__torch_memory_attach(void); /* false: this PyTorch has no calls that could be intercepted */
void mtp__torch_memory_detach(void);
#endif
