/* kernels/cpu/cpu_formulas.h - kernels/formulas.h with this device's functions. */
#ifndef KERNELS_CPU_FORMULAS_H
#define KERNELS_CPU_FORMULAS_H
#include "runtime/kernels/cpu/vector_math.h"
#include "runtime/kernels/formulas.h"

#define EXP MT__EXP
#define EXPM1 MT__EXPM1
#define LOG1P MT__LOG1P
#define ERF MT__ERF
#define TANH MT__TANH
#define SQRT MT__SQRT
#endif
