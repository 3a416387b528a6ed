"""Ops of the table that PyTorch has in torch.ops.aten only, or not at all. They are in _C.ops.

tests/mindtorch_v2/test_names.py compares with PyTorch; tools/make_stubs leaves them out of the stubs.
"""

NOT_FUNCTIONS = frozenset("""
    adaptive_avg_pool2d add_ alias addcdiv_ addcmul_ avg_pool2d bernoulli_ binary_cross_entropy contiguous copy_ cross_entropy_loss div_ divide_ elu
    expand expand_as gelu hardtanh hardtanh_ index index_add_ l1_loss leaky_relu lerp_ linalg_vector_norm linear logical_and_
    masked_fill_ max_pool2d_with_indices mse_loss mul_ multiply_ new_empty_strided new_zeros nll_loss nll_loss2d nll_loss2d_forward
    nll_loss_forward nll_loss_nd normal_ one_hot pow_ random_ relu6 relu6_ repeat scaled_dot_product_attention scatter_ scatter_add_
    silu slice smooth_l1_loss softplus sub_ subtract_ to true_divide_ uniform_ view view_as
""".split())  # no torch.NAME
NOT_METHODS = frozenset("""
    adaptive_avg_pool2d alias avg_pool2d binary_cross_entropy binary_cross_entropy_with_logits cross_entropy_loss elu empty_like full_like
    gelu hardtanh hardtanh_ kl_div l1_loss leaky_relu linalg_vector_norm max_pool2d max_pool2d_with_indices mse_loss nll_loss nll_loss2d
    nll_loss2d_forward nll_loss_forward nll_loss_nd one_hot ones_like rand_like randn_like relu6 relu6_ rsub silu slice smooth_l1_loss
    softplus zeros_like
""".split())  # no Tensor.NAME


def is_function(name):
    return name[0] != "_" and not name.endswith("_backward") and name not in NOT_FUNCTIONS


def is_method(name):
    return name[0] != "_" and not name.endswith("_backward") and name not in NOT_METHODS
