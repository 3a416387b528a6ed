/* kernels/opencl/table.c - which op runs which kernel on an accelerator. Elementwise ops have their own
 * table; an op in neither has no kernel there, and its error says so. Ops in place that follow from another op
 * (Y() in mindtorch_ops.h) have its kernel.
 */
#include "runtime/kernels/opencl/npu.h"

/* clang-format off */
#define OPTIMIZERS(X)                                                                                        \
    X(_fused_sgd_)                                                                                           \
    X(_fused_adam_)                                                                                          \
    X(_fused_adamw_)                                                                                         \
    X(_fused_adagrad_)                                                                                       \
    X(_fused_rmsprop_)                                                                                       \
    X(_fused_adadelta_) X(_fused_adamax_) X(_fused_nadam_) X(_fused_radam_) X(_fused_asgd_) X(_fused_rprop_)  \
        X(_fused_sparse_adam_)
/* clang-format on */

static const struct {
    mt_op_id op;
    mt__fn *kernel;
} table[] = {
    {MT_OP_gelu, mt__npu_gelu},
    {MT_OP_gelu_backward, mt__npu_gelu},
    {MT_OP_elu, mt__npu_elu},
    {MT_OP_elu_backward, mt__npu_elu},
    {MT_OP_pow, mt__npu_pow},
    {MT_OP_pow_tensor, mt__npu_pow},
    {MT_OP_pow_from, mt__npu_pow},
    {MT_OP_clamp, mt__npu_clamp},
    {MT_OP_hardtanh, mt__npu_clamp},
    {MT_OP_clamp_min, mt__npu_clamp},
    {MT_OP_clamp_max, mt__npu_clamp},
    {MT_OP_clamp_tensor, mt__cpu_clamp_tensor}, /* made of other ops, like all mt__cpu_ functions here */
    {MT_OP_clamp_min_tensor, mt__cpu_clamp_min_tensor},
    {MT_OP_clamp_max_tensor, mt__cpu_clamp_max_tensor},
    {MT_OP_div_mode, mt__cpu_div_mode},
    {MT_OP_round_decimals, mt__cpu_round_decimals},
    {MT_OP_clone, mt__npu_clone},
    {MT_OP_copy_, mt__npu_copy_kernel},
    {MT_OP__to_copy, mt__npu_to_copy},
    {MT_OP_fill_, mt__npu_fill_kernel},
    {MT_OP_zero_, mt__npu_zero},
    {MT_OP_empty, mt__npu_nothing},
    {MT_OP_empty_like, mt__npu_nothing},
    {MT_OP_empty_strided, mt__npu_nothing},
    {MT_OP_constant_pad_nd, mt__cpu_constant_pad_nd},
    {MT_OP_cat, mt__npu_cat},
    {MT_OP_stack, mt__npu_stack},
    {MT_OP_repeat, mt__npu_repeat},
    {MT_OP_flip, mt__npu_flip},
    {MT_OP_roll, mt__npu_roll},
    {MT_OP_tril, mt__npu_triangle},
    {MT_OP_triu, mt__npu_triangle},
    {MT_OP_arange, mt__npu_arange},
    {MT_OP_arange_start, mt__npu_arange},
    {MT_OP_arange_step, mt__npu_arange},
    {MT_OP_linspace, mt__npu_linspace},
    {MT_OP_eye, mt__npu_eye},
    {MT_OP_eye_m, mt__npu_eye},
    {MT_OP_uniform_, mt__npu_chance},
    {MT_OP_normal_, mt__npu_chance},
    {MT_OP_bernoulli_, mt__npu_chance},
    {MT_OP_bernoulli, mt__npu_chance},
    {MT_OP_random_, mt__npu_chance},
    {MT_OP_random_to_, mt__cpu_random_to},
    {MT_OP_random_all_, mt__cpu_random_all},
    {MT_OP_bernoulli_tensor_, mt__cpu_bernoulli_tensor},
    {MT_OP_sum, mt__npu_sum},
    {MT_OP_sum_dim, mt__npu_sum},
    {MT_OP_mean, mt__npu_sum},
    {MT_OP_mean_dim, mt__npu_sum},
    {MT_OP_prod, mt__npu_sum},
    {MT_OP_prod_dim, mt__npu_sum},
    {MT_OP_max, mt__npu_fold},
    {MT_OP_min, mt__npu_fold},
    {MT_OP_amax, mt__npu_fold},
    {MT_OP_amin, mt__npu_fold},
    {MT_OP_any, mt__npu_fold},
    {MT_OP_any_dim, mt__npu_fold},
    {MT_OP_any_dims, mt__npu_fold},
    {MT_OP_all, mt__npu_fold},
    {MT_OP_all_dim, mt__npu_fold},
    {MT_OP_all_dims, mt__npu_fold},
    {MT_OP_max_dim, mt__npu_pick},
    {MT_OP_min_dim, mt__npu_pick},
    {MT_OP_argmax, mt__npu_pick},
    {MT_OP_argmin, mt__npu_pick},
    {MT_OP_var, mt__npu_var},
    {MT_OP_std, mt__npu_var},
    {MT_OP_linalg_vector_norm, mt__npu_vector_norm},
    {MT_OP_cumsum, mt__npu_cumsum},
    {MT_OP_logsumexp, mt__npu_logsumexp},
    {MT_OP_mm, mt__npu_mm},
    {MT_OP_bmm, mt__npu_bmm},
    {MT_OP_addmm, mt__npu_addmm},
    {MT_OP_baddbmm, mt__npu_baddbmm},
    {MT_OP_mv, mt__npu_mv},
    {MT_OP_dot, mt__npu_dot},
    {MT_OP__softmax, mt__npu_softmax},
    {MT_OP__log_softmax, mt__npu_softmax},
    {MT_OP__softmax_backward_data, mt__npu_softmax_backward},
    {MT_OP__log_softmax_backward_data, mt__npu_softmax_backward},
    {MT_OP_native_layer_norm, mt__npu_layer_norm},
    {MT_OP_native_layer_norm_backward, mt__npu_layer_norm_backward},
    {MT_OP_native_batch_norm, mt__npu_batch_norm},
    {MT_OP_native_batch_norm_backward, mt__npu_batch_norm_backward},
    {MT_OP_max_pool2d_with_indices, mt__npu_max_pool2d},
    {MT_OP_max_pool2d_with_indices_backward, mt__npu_max_pool2d},
    {MT_OP_avg_pool2d, mt__npu_avg_pool2d},
    {MT_OP_avg_pool2d_backward, mt__npu_avg_pool2d},
    {MT_OP__adaptive_avg_pool2d, mt__npu_adaptive_avg_pool2d},
    {MT_OP__adaptive_avg_pool2d_backward, mt__npu_adaptive_avg_pool2d},
    {MT_OP_convolution, mt__npu_convolution},
    {MT_OP_convolution_backward, mt__npu_convolution_backward},
    {MT_OP_topk, mt__npu_sort},
    {MT_OP_sort, mt__npu_sort},
    {MT_OP_randperm, mt__npu_randperm},
    {MT_OP_multinomial, mt__npu_multinomial},
    {MT_OP_embedding, mt__npu_embedding},
    {MT_OP_embedding_dense_backward, mt__npu_embedding_dense_backward},
    {MT_OP_index_select, mt__npu_index_select},
    {MT_OP_index_add_, mt__npu_index_add},
    {MT_OP_gather, mt__npu_gather},
    {MT_OP_scatter, mt__npu_scatter},
    {MT_OP_scatter_add, mt__npu_scatter},
    {MT_OP_scatter_reduce, mt__npu_scatter},
    {MT_OP_index, mt__npu_index},
    {MT_OP_index_put_, mt__npu_index_put},
    {MT_OP__index_put_impl_, mt__npu_index_put},
    {MT_OP_nonzero, mt__npu_nonzero},
    {MT_OP_mse_loss, mt__npu_loss},
    {MT_OP_smooth_l1_loss, mt__npu_loss},
    {MT_OP_binary_cross_entropy, mt__npu_loss},
    {MT_OP_binary_cross_entropy_with_logits, mt__npu_loss},
    {MT_OP_mse_loss_backward, mt__npu_loss_backward},
    {MT_OP_smooth_l1_loss_backward, mt__npu_loss_backward},
    {MT_OP_binary_cross_entropy_backward, mt__npu_loss_backward},
    {MT_OP_nll_loss_forward, mt__npu_nll_loss},
    {MT_OP_nll_loss2d_forward, mt__npu_nll_loss},
    {MT_OP_nll_loss_backward, mt__npu_nll_loss_backward},
    {MT_OP_nll_loss2d_backward, mt__npu_nll_loss_backward},
};

/* Ops that read numbers from 0-dim tensors on the CPU, besides elementwise ones and copies to a device. */
static const mt_op_id takes_numbers[] = {MT_OP_copy_,
                                         MT_OP_fill_,
                                         MT_OP_pow,
                                         MT_OP_pow_tensor,
                                         MT_OP_pow_from,
                                         MT_OP_index,
                                         MT_OP_div_mode,
                                         MT_OP_clamp_tensor,
                                         MT_OP_clamp_min_tensor,
                                         MT_OP_clamp_max_tensor,
                                         MT_OP_index_put_,
                                         MT_OP__index_put_impl_};

void mt__npu_register(void)
{
    mt__map_prepare();
    for (unsigned i = 0; i < MT_OP_COUNT; i++)
        if (mt__expressions[i].name != NULL) {
            mt__ops[i].kernels[1] = mt__npu_elementwise;
            mt__ops[i].host_numbers = true;
        }
    for (unsigned i = 0; i < MT__COUNT_OF(takes_numbers); i++)
        mt__ops[takes_numbers[i]].host_numbers = true;
    for (unsigned i = 0; i < MT__COUNT_OF(table); i++)
        mt__ops[table[i].op].kernels[1] = table[i].kernel;
        /* optimizer steps are one function for all devices: kernels/cpu/optim.c */
#define X(op)                                                                                                \
    mt__ops[MT_OP_##op].kernels[1] = mt__ops[MT_OP_##op].kernels[0];                                         \
    mt__ops[MT_OP_##op].host_numbers = true; /* step counts */
    OPTIMIZERS(X)
#undef X
    for (unsigned i = 0; i < MT_OP_COUNT; i++) {
        mt__ops[i].kernels[1] = mt__ops[mt__ops[i].base].kernels[1];
        mt__ops[i].host_numbers = mt__ops[mt__ops[i].base].host_numbers;
    }
}
