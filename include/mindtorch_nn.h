/* mindtorch_nn.h - layers in C. A module owns its parameters and its children; forward() consists of ops, so
 * autograd tracks it.
 *
 *     mt_module *net = mt_sequential_create(3, mt_linear_create(20, 64, true), mt_activation_create("relu"),
 *                                           mt_linear_create(64, 10, true));
 *     if (net == NULL)
 *         die(mt_last_error());
 *     MT_SCOPE { mt_tensor *y = mt_module_forward(net, x); ... }
 *     mt_module_destroy(net);
 *
 * Every create returns NULL on failure, and takes ownership of its children even then; a NULL child makes it
 * fail. Parameters are initialised as in PyTorch, from the generator that mt_manual_seed seeds. With
 * with_modules a profile shows each forward as nn.Module: KIND_NUMBER.
 */
#ifndef MINDTORCH_NN_H
#define MINDTORCH_NN_H
#include <mindtorch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mt_module mt_module;

MT_API mt_module *mt_linear_create(int64_t in, int64_t out, bool bias);
MT_API mt_module *mt_embedding_create(int64_t count, int64_t width);
MT_API mt_module *mt_layer_norm_create(int64_t width, double eps);
MT_API mt_module *mt_batch_norm2d_create(int64_t channels, double eps, double momentum);
MT_API mt_module *mt_conv2d_create(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                                   bool bias);
MT_API mt_module *mt_max_pool2d_create(int64_t kernel);
MT_API mt_module *mt_flatten_create(void); /* all but the first dim */
MT_API mt_module *mt_dropout_create(double p);
MT_API mt_module *mt_activation_create(const char *op); /* "relu", "gelu", "silu", "tanh", "sigmoid" */
/* (batch, time, width) -> the same: heads attend, causally or not. Children: qkv, out. */
MT_API mt_module *mt_attention_create(int64_t width, int64_t heads, bool causal);
/* x + attention(norm(x)), then x + mlp(norm(x)), as GPT-2's. Children: norm1, norm2, attention, up, down. */
MT_API mt_module *mt_block_create(int64_t width, int64_t heads, bool causal);
MT_API mt_module *mt_sequential_create(unsigned count, ...); /* of mt_module * */
MT_API void mt_module_destroy(mt_module *module);            /* and its children; NULL is fine */

/* The output is owned by the innermost scope, as with MT(). */
MT_API mt_tensor *mt_module_forward(mt_module *module, mt_tensor *x);
MT_API void mt_module_train(mt_module *module, bool training); /* recursively; initially true */

/* In PyTorch's order: own parameters, then the children's. visit gets names like "0.weight"; its arguments
 * are borrowed. */
typedef void mt_module_visit_fn(void *user, const char *name, mt_tensor *t, bool is_parameter);
MT_API void mt_module_visit(mt_module *module, mt_module_visit_fn *visit, void *user);
/* Borrowed parameters; returns their number, writes at most `room`. */
MT_API uint32_t mt_module_parameters(mt_module *module, mt_tensor **out, uint32_t room);
/* Moves parameters and buffers; call it before creating an optimizer for them. On failure some may have been
 * moved. */
MT_API mt_status mt_module_to(mt_module *module, mt_device device);

#ifdef __cplusplus
}
#endif
#endif
