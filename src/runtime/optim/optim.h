/* runtime/optim/optim.h - shared by the files of the optimizers. */
#ifndef RUNTIME_OPTIM_OPTIM_H
#define RUNTIME_OPTIM_OPTIM_H
#include "runtime/runtime.h"
#include <mindtorch_optim.h>

#define MT__MOST_LISTS 4
#define MT__MOST_NUMBERS 8

struct mt__optimizer_kind; /* optimizer.c */
struct mt__lbfgs;          /* lbfgs.c */

struct mt_optimizer {
    const struct mt__optimizer_kind *kind;
    mt_tensor **params; /* owned, with a reference to each */
    uint32_t count;
    mt_tensor **states[MT__MOST_LISTS]; /* owned: per list and parameter; NULL until its first gradient */
    double numbers[MT__MOST_NUMBERS];   /* the op's options, in the order of its schema */
    double lr, initial;                 /* initial: initial value of states that start at neither 0 nor lr */
    struct mt__lbfgs *lbfgs;            /* owned; NULL except for LBFGS */
};

mt_status mt__lbfgs_create(const mt_lbfgs_options *options, struct mt__lbfgs **out);
void mt__lbfgs_destroy(struct mt__lbfgs *l);
mt_status mt__lbfgs_step(mt_optimizer *o, mt_closure_fn *closure, void *user, double *loss);

#endif
