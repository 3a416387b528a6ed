/* kernels/optim.h - optimizer steps: interface between cpu/optim.c, which has the formulas,
 * and other devices. */
#ifndef KERNELS_OPTIM_H
#define KERNELS_OPTIM_H
#include "runtime/runtime.h"

typedef struct mt__formula_text {
    const char *name, *text; /* text: C statements; NULL: not available */
} mt__formula_text;

typedef struct mt__device_step {
    mt__formula_text source;
    const char *macros;                 /* used by the text, besides ROOT, LERP and LARGER */
    mt_tensor *param, *grad, *state[3]; /* borrowed; state may be NULL */
    double sign, decay, k[10];
    int64_t row; /* elements per index of the first dim */
    bool flag;
} mt__device_step;

extern const mt__formula_text *const mt__formulas[]; /* all formulas with a text; NULL-terminated */
mt_status mt__npu_optimizer_step(const mt__device_step *s);

#endif
