"""Ops of the table that PyTorch has in torch.ops.aten only, or not at all. They are in _C.ops.

tests/mindtorch_v2/test_names.py compares with PyTorch; tools/make_stubs leaves them out of the stubs.
"""

NOT_FUNCTIONS = frozenset("""
    adaptive_avg_pool2d add_ addcdiv_ addcmul_ alias atan2_ avg_pool2d bernoulli_ binary_cross_entropy bitwise_and_ bitwise_not_
    bitwise_or_ bitwise_xor_ contiguous copy_ cross_entropy_loss cumsum_ div_ divide_ elu elu_ eq_ expand expand_as floor_divide_
    ge_ gelu glu gt_ hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ index index_add_ l1_loss le_ leaky_relu leaky_relu_ lerp_ linalg_vector_norm linear logical_and_
    logical_not_ logical_or_ logical_xor_ lt_ masked_fill_ max_pool2d_with_indices mish mish_
    mse_loss mul_ multiply_ ne_ new_empty_strided
    new_zeros nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd normal_ one_hot pad pad_sequence pow_ random_ relu6 relu6_
    remainder_ repeat scaled_dot_product_attention scatter_ scatter_add_ sgn_ sign_ silu silu_ slice smooth_l1_loss softplus softshrink sub_
    subtract_ to tril_ triu_ true_divide_ type_as uniform_ view view_as
""".split())  # no torch.NAME
NOT_METHODS = frozenset("""
    adaptive_avg_pool2d alias avg_pool2d binary_cross_entropy binary_cross_entropy_with_logits celu celu_ constant_pad_nd cross_entropy_loss elu
    elu_ empty_like full_like gelu glu hardsigmoid hardsigmoid_ hardswish hardswish_
    hardtanh hardtanh_ kl_div l1_loss leaky_relu leaky_relu_ linalg_vector_norm max_pool2d
    max_pool2d_with_indices mish mish_ mse_loss nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd one_hot ones_like pad rand_like
    randn_like relu6 relu6_ rsub selu selu_ silu silu_ slice smooth_l1_loss softplus softshrink
    threshold threshold_ zeros_like
""".split())  # no Tensor.NAME


def is_function(name):
    return name[0] != "_" and not name.endswith("_backward") and name not in NOT_FUNCTIONS


def is_method(name):
    return name[0] != "_" and not name.endswith("_backward") and name not in NOT_METHODS
