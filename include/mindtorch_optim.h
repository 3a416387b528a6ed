/* mindtorch_optim.h - optimizers in C: each step is one op over all parameters that have a gradient.
 *
 *     mt_adamw_options options = MT_ADAMW_OPTIONS;   // PyTorch's defaults
 *     options.lr = 3e-4;
 *     mt_optimizer *o = mt_adamw_create(params, count, &options);
 *     ...
 *     mt_optimizer_zero_grad(o);
 *     mt_backward(loss);
 *     if (mt_optimizer_step(o) != MT_OK)
 *         die(mt_last_error());
 *     mt_optimizer_destroy(o);
 *
 * A create copies its options and retains the parameters; it returns NULL on failure. options NULL: defaults.
 * A profile shows a step as Optimizer.step#AdamW.step. Threads: one at a time per optimizer.
 */
#ifndef MINDTORCH_OPTIM_H
#define MINDTORCH_OPTIM_H
#include <mindtorch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_optimizer mt_optimizer;

typedef struct mt_sgd_options {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
} mt_sgd_options;
#define MT_SGD_OPTIONS                                                                                       \
    {                                                                                                        \
        1e-3, 0, 0, 0, false, false                                                                          \
    }

typedef struct mt_adam_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool amsgrad, maximize;
} mt_adam_options;
#define MT_ADAM_OPTIONS                                                                                      \
    {                                                                                                        \
        1e-3, 0.9, 0.999, 1e-8, 0, false, false                                                              \
    }
typedef mt_adam_options mt_adamw_options;
#define MT_ADAMW_OPTIONS                                                                                     \
    {                                                                                                        \
        1e-3, 0.9, 0.999, 1e-8, 1e-2, false, false                                                           \
    }

typedef struct mt_adagrad_options {
    double lr, lr_decay, weight_decay, initial_accumulator_value, eps;
    bool maximize;
} mt_adagrad_options;
#define MT_ADAGRAD_OPTIONS                                                                                   \
    {                                                                                                        \
        1e-2, 0, 0, 0, 1e-10, false                                                                          \
    }

typedef struct mt_rmsprop_options {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered, maximize;
} mt_rmsprop_options;
#define MT_RMSPROP_OPTIONS                                                                                   \
    {                                                                                                        \
        1e-2, 0.99, 1e-8, 0, 0, false, false                                                                 \
    }

typedef struct mt_adadelta_options {
    double lr, rho, eps, weight_decay;
    bool maximize;
} mt_adadelta_options;
#define MT_ADADELTA_OPTIONS                                                                                  \
    {                                                                                                        \
        1.0, 0.9, 1e-6, 0, false                                                                             \
    }

typedef struct mt_adamax_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool maximize;
} mt_adamax_options;
#define MT_ADAMAX_OPTIONS                                                                                    \
    {                                                                                                        \
        2e-3, 0.9, 0.999, 1e-8, 0, false                                                                     \
    }

typedef struct mt_nadam_options {
    double lr, beta1, beta2, eps, weight_decay, momentum_decay;
    bool decoupled_weight_decay, maximize;
} mt_nadam_options;
#define MT_NADAM_OPTIONS                                                                                     \
    {                                                                                                        \
        2e-3, 0.9, 0.999, 1e-8, 0, 4e-3, false, false                                                        \
    }

typedef struct mt_radam_options {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled_weight_decay, maximize;
} mt_radam_options;
#define MT_RADAM_OPTIONS                                                                                     \
    {                                                                                                        \
        1e-3, 0.9, 0.999, 1e-8, 0, false, false                                                              \
    }

typedef struct mt_asgd_options {
    double lr, lambd, alpha, t0, weight_decay;
    bool maximize;
} mt_asgd_options;
#define MT_ASGD_OPTIONS                                                                                      \
    {                                                                                                        \
        1e-2, 1e-4, 0.75, 1e6, 0, false                                                                      \
    }

typedef struct mt_rprop_options {
    double lr, etaminus, etaplus, step_size_min, step_size_max;
    bool maximize;
} mt_rprop_options;
#define MT_RPROP_OPTIONS                                                                                     \
    {                                                                                                        \
        1e-2, 0.5, 1.2, 1e-6, 50, false                                                                      \
    }

/* Gradients are dense here: rows (along the first dim) that are all zeros count as absent. */
typedef struct mt_sparse_adam_options {
    double lr, beta1, beta2, eps;
    bool maximize;
} mt_sparse_adam_options;
#define MT_SPARSE_ADAM_OPTIONS                                                                               \
    {                                                                                                        \
        1e-3, 0.9, 0.999, 1e-8, false                                                                        \
    }

#define MT_OPTIMIZER_LIST(X)                                                                                 \
    X(sgd)                                                                                                   \
    X(adam)                                                                                                  \
    X(adamw)                                                                                                 \
    X(adagrad) X(rmsprop) X(adadelta) X(adamax) X(nadam) X(radam) X(asgd) X(rprop) X(sparse_adam)
/* mt_optimizer *mt_sgd_create(mt_tensor *const *params, uint32_t count, const mt_sgd_options *options) ... */
#define X(name)                                                                                              \
    MT_API mt_optimizer *mt_##name##_create(mt_tensor *const *params, uint32_t count,                        \
                                            const mt_##name##_options *options);
MT_OPTIMIZER_LIST(X)
#undef X
MT_API void mt_optimizer_destroy(mt_optimizer *o); /* NULL is fine */

/* One step with the current gradients. */
MT_API mt_status mt_optimizer_step(mt_optimizer *o);
/* Clears the gradients, computes the loss and its backward; returns MT_OK, or a status with its message. */
typedef mt_status mt_closure_fn(void *user, double *loss);
/* Calls the closure, then steps. *loss is the closure's; loss may be NULL. */
MT_API mt_status mt_optimizer_step_with(mt_optimizer *o, mt_closure_fn *closure, void *user, double *loss);
MT_API void mt_optimizer_zero_grad(mt_optimizer *o); /* clears the gradients of all parameters */
MT_API double mt_optimizer_lr(const mt_optimizer *o);
MT_API void mt_optimizer_set_lr(mt_optimizer *o, double lr); /* for schedules */

#ifdef __cplusplus
}
#endif
#endif
