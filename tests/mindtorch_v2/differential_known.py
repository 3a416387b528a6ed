"""Where we and PyTorch disagree, and why: what differential.py and differential_programs.py find and leave. docs/parity.md shows these
lists; `tests/stress/differential --page` writes them there, and test_differential.py compares.

Each reason says what PyTorch does, what we do, and why. Each condition must hold for the case at hand, so that no other mistake of the op
hides behind it.
"""
import textwrap

import numpy as np

# ------------------------------------------------------------------------------------------------ conditions of calls


def _arrays(made):
    flat = [x for a in [*made.args, *made.kwargs.values()] for x in (a if isinstance(a, list) else [a])]
    return [a for a in flat if hasattr(a, "memory")]


def _shape(a):
    return a.memory.shape if a.view[0] is None else tuple(a.view[0])


def _read(a):
    if a.view[0] is None:
        return a.memory
    return np.lib.stride_tricks.as_strided(a.memory[a.view[2]:], a.view[0], [n * a.memory.itemsize for n in a.view[1]])


def odd_values(made):
    """an element is infinite, nan or ±1e30"""
    return any(a.memory.dtype.kind == "f" and not np.all(np.abs(a.memory) < 1e29) for a in _arrays(made))


def infinite(made):
    """an element is infinite"""
    return any(a.memory.dtype.kind == "f" and bool(np.any(np.isinf(a.memory))) for a in _arrays(made))


def infinite_or_nan(made):
    """an element is infinite or nan"""
    return infinite(made) or has_nan(made)


def has_nan(made):
    """an element is nan"""
    return any(a.memory.dtype.kind == "f" and bool(np.any(np.isnan(a.memory))) for a in _arrays(made))


def broadcasts(made):
    """shapes that broadcast"""
    return len({_shape(a) for a in _arrays(made)}) > 1


def no_dims(made):
    """an empty list of dims"""
    return any(isinstance(a, list) and not a for a in [*made.args, *made.kwargs.values()])


def no_elements(made):
    """no elements"""
    return any(0 in _shape(a) for a in _arrays(made))


def one_per_row(made):
    """one element per row"""
    return int(np.prod(made.args[1])) == 1


def short_rows(made):
    """float32 rows of two or three elements"""
    return int(np.prod(made.args[1])) <= 3 and "float32" in repr(made)


def no_spread(made):
    """a row (layer_norm) or channel (batch_norm) of equal elements"""
    x = _read(made.args[0])
    rows = x.reshape(-1, int(np.prod(made.args[1]))) if "layer" in made.op.id else np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)
    return bool(np.any(np.ptp(rows, 1) == 0))


def halves(made):
    """float16 or bfloat16"""
    return any(a.dtype in ("float16", "bfloat16") for a in _arrays(made))


def lowered_to_halves(made):
    """dtype=float16 or bfloat16"""
    return any(repr(v) in ("float16", "bfloat16") for v in [*made.args, *made.kwargs.values()])


def odd_halves(made):
    """float16 or bfloat16, an element is infinite, nan or ±1e30"""
    return halves(made) and odd_values(made)


def few_values(made):
    """float32 channels of at most three different elements"""
    x = _read(made.args[0])
    return x.dtype == np.float32 and any(len(np.unique(c)) <= 3 for c in np.moveaxis(x, 1, 0))


def equal_elements(made):
    """all elements are equal"""
    return any(a.memory.size and a.memory.dtype.kind == "f" and np.ptp(a.memory) == 0 for a in _arrays(made))


def strided_weight(made):
    """a weight that is not contiguous"""
    return hasattr(made.args[1], "memory") and made.args[1].view[0] is not None


def strided_operand(made):
    """an operand that is not contiguous"""
    return any(a.view[0] is not None for a in _arrays(made))


def several_indices(made):
    """several operands, or one that is not contiguous"""
    return strided_operand(made) or len(_arrays(made)) > 1


def mixed_dtypes(made):
    """several dtypes"""
    return len({a.memory.dtype for a in _arrays(made)}) > 1 or any(type(v).__name__ == "Dtype" for v in [*made.args, *made.kwargs.values()])


def mixed_and_strided(made):
    """operands of different dtypes, or integers that are computed as floats; one of them not contiguous"""
    as_floats = made.op.id in ("atan2", "div") and any(a.memory.dtype.kind != "f" for a in _arrays(made))
    return (mixed_dtypes(made) or as_floats) and strided_operand(made)


def near_bounds(made):
    """inputs that round to 0 or 1"""
    x = made.args[0].memory
    return x.dtype.kind == "f" and bool(np.any(~((x > 1e-6) & (x < 1 - 1e-6))))


NORMS = "layer_norm native_layer_norm"
CHANNELS = "batch_norm native_batch_norm"
GRADIENTS = ("gradient", "second gradient")
ALL_VALUES = ("values of result", *GRADIENTS)

# (ops, what differs, a word of the message or a condition, why)
CALLS = [
    ("layer_norm native_layer_norm batch_norm native_batch_norm", ("gradient", "second gradient"), halves,
     "The statistics that the forward pass leaves are rounded to halves; what is left of terms that cancel depends on where both round."),
    ("nll_loss nll_loss_nd nll_loss2d nll_loss_forward nll_loss2d_forward cross_entropy_loss kl_div binary_cross_entropy"
     " binary_cross_entropy_with_logits", ("values of result", "gradient", "second gradient"), halves,
     "PyTorch adds up some losses in halves, rounding each sum, or computes them in steps that are rounded; ours computes in float32 and rounds"
     " once."),
    ("layer_norm native_layer_norm", "backward: only theirs fails", "expected scalar type",
     "Halves with a bias of float32 and no weight: PyTorch's backward looks at the weight only, and refuses what the forward pass took."),
    ("prod prod_dim", "values of result", lowered_to_halves,
     "With dtype=float16 or bfloat16, PyTorch multiplies in that dtype, in which a product soon overflows; ours in float32, and rounds once."),
    ("conv1d conv2d convolution", "values of result", odd_halves,
     "With halves, PyTorch's kernel leaves padding out; with floats, as ours always, it multiplies nan by the padding's zeros."),
    ("nonzero", "strides of result", None,
     "PyTorch computes a row per dim and returns the transpose; ours is contiguous, which is faster to read by rows."),
    ("index flip binary_cross_entropy _to_copy index_put scaled_dot_product_attention", "strides of result", several_indices,
     "PyTorch's result has the order of an operand's strides; ours is contiguous. Values are the same; only .stride() and view() show it."),
    ("mse_loss smooth_l1_loss binary_cross_entropy_with_logits", "strides of result", strided_operand,
     "Without reduction, PyTorch's result has the order of an operand's strides; ours is contiguous where operands disagree."),
    ("xlogy addcmul addcdiv lerp", "strides of result", strided_operand,
     "Operands whose strides suggest different orders, one of them repeated (stride 0): PyTorch and ours prefer different operands."),
    ("add sub mul div eq ne lt le gt ge logical_and logical_or logical_xor maximum minimum where pow_tensor floor_divide remainder atan2 bitwise_and"
     " bitwise_or bitwise_xor __and__ __or__ __xor__", "strides of result", mixed_and_strided,
     "PyTorch copies operands that it converts first, and goes by the strides of the copies; ours by those of the"
     " operands."),
    ("conv1d conv2d convolution batch_norm native_batch_norm max_pool2d max_pool2d_with_indices avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool2d"
     " constant_pad_nd",
     "strides of result", strided_operand,
     "PyTorch keeps channels_last where an operand's strides suggest it; we have no memory formats, and results are contiguous."),
    ("hardsigmoid hardsigmoid_", "second backward: only theirs fails", "not implemented",
     "PyTorch's hardsigmoid_backward has no derivative; ours is composed of ops that have."),
    ("threshold", "strides of result", strided_operand,
     "PyTorch's result has the order of an operand's strides; ours is that of masked_fill, which also looks at the mask."),
    ("rms_norm", "strides of result", strided_operand,
     "PyTorch's fused kernel gives contiguous memory; ours is composed of elementwise ops, which keep the operand's order."),
    ("logical_and_ logical_or_ logical_xor_ logical_not_", "call: only ours fails", "is not implemented",
     "PyTorch keeps the history that self had before, so its gradient is that of values which are gone; we refuse, as for other ops without"
     " a derivative."),
    ("floor_divide_ scatter_reduce_", "backward: only ours fails", "not implemented",
     "Of a view, PyTorch gives zeros, because its CopySlices does not ask whether there is a derivative; of any other tensor it refuses, as we"
     " always do."),
    ("clamp_tensor", "backward: only theirs fails", "broadcast shape",
     "PyTorch combines the conditions of both bounds in place, which fails where the second one is larger; ours broadcasts."),
    ("view_dtype", "call: only theirs fails", no_elements,
     "NumPy's arrays without elements have strides 0, which PyTorch keeps, and refuses; ours are those of the shape."),
    ("norm", "call: only theirs fails", "match any schema",
     "torch.ops.aten.norm has no default for p next to dim; torch.norm has, and so has ours."),
    ("rsub add sub", "call: only theirs fails", "Boolean alpha",
     "PyTorch refuses alpha=True for tensors that are not bool; here True is 1, as everywhere else."),
    ("rsub", "call: only theirs fails", "match any schema",
     "torch.ops.aten.rsub has no overload for alpha=True; here True is 1."),
    ("sum_dim mean_dim", "call: only ours fails", "missing 1 required",
     "Without dim, PyTorch's packet takes the overload that sums over everything; ours names its overloads. torch.sum is the same in both."),
    ("logsumexp", "call: only theirs fails", "broadcast shape",
     "For dim=[] PyTorch reduces over everything in one place and over nothing in another, and fails; here [] means all dims, as for sum."),
    ("std var", "values of result", equal_elements,
     "PyTorch's running mean leaves a rounding error, of some 1e-16; our two passes give exactly 0."),
    ("std var", GRADIENTS, no_dims,
     "PyTorch takes the number of elements over no dims, 1, divides by 1 - correction and gives inf or nan; ours is the derivative over all"
     " dims, which is what was computed."),
    ("std var", "gradient", equal_elements,
     "0 times 1/0 or a rounding error times a large number: nothing in it is significant in either."),
    ("mse_loss smooth_l1_loss", "gradient", broadcasts,
     "aten's own gradient is not reduced to the shape of the smaller operand correctly; torch.nn.functional expands both first, and there the"
     " gradients agree with ours."),
    ("smooth_l1_loss mse_loss binary_cross_entropy_with_logits", "second gradient", broadcasts,
     "The same: it is the derivative of that gradient."),
    (CHANNELS, "gradient", strided_weight,
     "PyTorch reads the weight as if it were contiguous; ours uses its strides."),
    (f"{NORMS} {CHANNELS}", "second backward: only theirs fails", "proper Tensor",
     "PyTorch's formula of the second derivative multiplies with a weight that is not there; ours needs none."),
    (NORMS, "gradient", one_per_row,
     "An element is its own mean: the exact gradient is 0. PyTorch's is a rounding error times 1/sqrt(eps), ours another."),
    (NORMS, "gradient", short_rows,
     "Of two or three elements, terms of the gradient cancel except for some bits, and both round differently."),
    (CHANNELS, "gradient", few_values,
     "The same."),
    (f"{NORMS} {CHANNELS}", GRADIENTS, no_spread,
     "Without spread, 1/sqrt(var + eps) is 300 and its square 1e5: they multiply the rounding errors of a sum that is exactly 0."),
    (CHANNELS, "values of result", no_spread,
     "The same for the values: a rounding error of the mean, times 300."),
    (NORMS, "values of result", odd_values,
     "The squares of 1e30 overflow: PyTorch gives nan, ours scales them first and gives the right values. Of infinity PyTorch's mean is nan."),
    (NORMS, GRADIENTS, odd_values,
     "The same: where PyTorch's statistics are nan, so are all of its gradients; ours only where an element's own is."),
    (NORMS, "values of result", no_elements,
     "Rows without elements have no mean: ours is nan, as mean()'s is. PyTorch leaves the zeros that it allocated."),
    ("nll_loss2d nll_loss2d_forward nll_loss_nd cross_entropy_loss", "backward: only theirs fails", "contiguous",
     "PyTorch's kernel refuses gradients that are not contiguous; ours takes any."),
    ("pow_from", "backward: only theirs fails", "INTERNAL ASSERT",
     "True ** tensor ends in an internal check of PyTorch; here True is 1."),
    ("prod sum sum_dim prod_dim cumsum mean mean_dim masked_fill", "call: only theirs fails", "Autograd not support dtype",
     "With dtype=int64 or bool the result has no derivative. PyTorch refuses the call if an input requires a gradient; ours is a constant,"
     " as comparisons are."),
    ("addcdiv addcdiv_", "backward: only theirs fails", "can't be cast",
     "For integers among the operands, PyTorch's gradient tries to square them in place as float; ours promotes them."),
    ("smooth_l1_loss", "fails at backward", "bool tensor",
     "Both refuse to subtract bool targets; PyTorch notices it one derivative later."),
    ("smooth_l1_loss", "backward: only ours fails", "bool tensor",
     "With beta=0 PyTorch never subtracts in the derivative, so it never notices that the targets are bool; we refuse for any beta."),
    ("scaled_dot_product_attention", ALL_VALUES, odd_values,
     "A row whose scores are nan or all -inf: PyTorch's fused kernel takes it for a masked one and gives zeros, which hides the nan; ours is"
     " nan."),
    ("scaled_dot_product_attention", "second backward: only theirs fails", "not implemented",
     "PyTorch's fused kernel has no second derivative; ours is composed of ops that have."),
    (CHANNELS, "values of result", odd_values,
     "PyTorch folds weight and mean into one factor and one term; ours subtracts the mean first. With 1e30 or inf one of them overflows."),
    (CHANNELS, GRADIENTS, infinite,
     "An infinite weight: PyTorch multiplies what is left after the sums, and gives inf; ours multiplies first, and inf - inf is nan."),
    ("prod prod_dim", "second gradient", mixed_dtypes,
     "With dtype= PyTorch computes the second derivative in the input's dtype, ours in the result's; both are then rounded."),
    ("log_softmax softmax", "gradient 0 differs", mixed_dtypes,
     "With dtype=float64 of float32: PyTorch rounds the gradient in the middle of the sum, ours once at the end."),
    ("binary_cross_entropy", "second gradient", near_bounds,
     "1 / (x (1 - x)) where x rounds to 0 or 1: PyTorch adds 1e-12 to the denominator of the second derivative, ours bounds it as the first."),
    ("binary_cross_entropy_with_logits", "call: only theirs fails", "bool tensor",
     "PyTorch computes 1 - target and so refuses bool targets; ours takes them as 0 and 1."),
    ("binary_cross_entropy_with_logits", "fails at", "bool tensor",
     "Both refuse a bool pos_weight; at different points."),
    ("binary_cross_entropy_with_logits", ("fails at call", "call: only ours fails"), broadcasts,
     "An input that broadcasts against its target: both libraries' functional form refuses it. aten lets it pass until backward, ours never."),
    ("binary_cross_entropy_with_logits", "call: only theirs fails", "broadcast shape",
     "A weight of more dims than the input: PyTorch multiplies in place, which cannot grow; ours gives the broadcast shape."),
    ("convolution conv1d conv2d", "values of result", infinite_or_nan,
     "Infinite weights, or nan: we pad the input with zeros and multiply them, which is nan; PyTorch's kernel leaves the padding out."),
    ("lerp lerp_", "values of result", odd_values,
     "PyTorch chooses one of two formulas by the size of the weight for the whole vector, we by element: with 1e30 one of them overflows."),
    ("lerp lerp_", ("fails at call", "call: only ours fails"), "lerp_kernel",
     "lerp of bool or integers is refused by both, but PyTorch lets it pass if no operand has dims (and fails at backward if it is bool)."),
    ("lerp lerp_", "dtype of result", mixed_dtypes,
     "A weight without dims of another dtype: PyTorch's result is promoted if all operands have no dims; ours has the dtype of self."),
    ("relu6 relu6_ hardtanh hardtanh_", "gradient", has_nan,
     "At nan PyTorch's vector loop gives 0, and its loop over the rest of the array the gradient; ours gives the gradient anywhere."),
    ("elu elu_", GRADIENTS, has_nan,
     "PyTorch's gradient at nan is that of a positive number; ours is nan."),
    ("pow_tensor", "gradient", mixed_dtypes,
     "The gradient needs the logarithm of the base, which for integers is a float32 in PyTorch; ours takes it in the result's dtype."),
    ("linalg_vector_norm norm", "values of result", odd_values,
     "PyTorch squares 1e30 in float32, which is inf; ours sums in float64 and gives the norm."),
    ("gelu", "values of result", infinite,
     "gelu(inf): PyTorch's vector loop computes inf * erfc(-inf) through a polynomial and gives nan; ours gives inf, the limit."),
    ("index_add_", ("call: only ours fails", "fails at call"), "size 0",
     "An index into a dim of size 0: PyTorch does nothing, or fails at backward; ours says that the index is out of bounds."),
    ("masked_fill_ masked_fill fill_ eq_ ne_ lt_ le_ gt_ ge_", "backward: only theirs fails", "INTERNAL ASSERT",
     "A tracked operand of an op that writes into integers ends in an internal check of PyTorch's backward; ours gives the operand no gradient, or zeros."),
    ("cumsum_", "call: only ours fails", "not implemented for 'Bool'",
     "cumsum_ of bool is refused by both; PyTorch forgets to if there are no elements."),
    ("roll", "call: only ours fails", no_elements,
     "Wrong dims are refused by both; PyTorch forgets to if there are no elements."),
    ("linspace", "call: only ours fails", "not implemented for 'Bool'",
     "linspace of bool is refused by both; PyTorch forgets to if there are no steps."),
    ("log_softmax softmax", "call: only ours fails", "not implemented for",
     "softmax with an integer dtype is refused by both; PyTorch forgets to if there are no elements."),
]

# --------------------------------------------------------------------------------------------------- conditions of programs


def has(*names):
    def holds(steps, facts):
        return any(s[0] in names for s in steps)
    holds.__doc__ = "the program has a step " + " or ".join(f"`{n}`" for n in names)
    return holds


def empty_leaf(steps, facts):
    """a leaf without elements"""
    return "empty" in facts


def has_views(steps, facts):
    """one of the tensors is a view"""
    return "view" in facts


def with_inputs(steps, facts):
    """backward(inputs=...)"""
    return steps[-1][0] == "backward" and steps[-1][3] % 4 == 3


def moved(steps, facts):
    """of a tensor whose .data was set, of one that shared or shares its memory, or of a view of such a one"""
    return "moved" in facts


def taken(steps, facts):
    """of a tensor that is the .grad of another, or a view of one"""
    return "gradient" in facts


def asks_hooked(steps, facts):
    """grad() of two inputs, after a hook was added"""
    return steps[-1][0] == "grad" and steps[-1][1] % 2 == 1 and any(s[0] == "hook" for s in steps)


def no_longer_wanted(steps, facts):
    """a leaf's requires_grad was turned off after a post-accumulate hook was added"""
    names = [s[0] for s in steps]
    return "post_hook" in names and "require" in names[names.index("post_hook"):]


def hooked_twice(steps, facts):
    """the second hook"""
    return sum(s[0] in ("hook", "post_hook") for s in steps) > 1


# (a word of what differs, a word of the details, a condition, why)
PROGRAMS = [
    ("only theirs fails", "the graph a second time", None,
     "PyTorch's node of x * 2 saves the number as a tensor, and is used up after backward; ours saves no tensor, and may run again."),
    ("another exception", "the graph a second time", None,
     "The same: here the graph may run again, and then something else fails."),
    ("only theirs fails", "'a leaf Variable that requires grad", has_views,
     "When a base got its history by a change of one view, PyTorch still takes another view of it for a leaf; ours asks the base."),
    ("only theirs fails", "INTERNAL ASSERT FAILED", None,
     "A defect of PyTorch, which asks to report it."),
    ("backward: only theirs fails", "modified by an inplace operation", with_inputs,
     "PyTorch also runs the node that made a tensor in inputs=, although nothing wants its result, and fails if what it saved was changed;"
     " ours stops there."),
    ("backward: only theirs fails", "A view was created in no_grad mode", has("enable_grad", "no_grad"),
     "A view made under no_grad was used, and then its base was changed: PyTorch refuses backward through the old use, ours gives the gradient"
     " of what was computed then. Both refuse further uses."),
    ("only ours fails", "more than one element of the written-to tensor", None,
     "masked_fill_ and index_put_ of an expanded tensor: PyTorch warns that it is deprecated and writes one place several times; we refuse, as"
     " both do for other ops."),
    ("hook: only ours fails", "modified inplace", hooked_twice,
     "A hook on a view that may not be used any more: PyTorch refuses the first one only; ours refuses each."),
    ("hook: only ours fails", "created in no_grad mode", hooked_twice,
     "A hook on a view that was made under no_grad, and whose base was changed: PyTorch refuses the first one only; ours refuses each."),
    ("second: no grad", "False / True", empty_leaf,
     "The derivative of a sum over no elements: PyTorch's is a constant without history; ours has one, and its gradient is empty."),
    ("requires_grad", "True / False", empty_leaf,
     "The same."),
    ("backward", "'post", no_longer_wanted,
     "A leaf that no longer requires grad when backward() reaches it: PyTorch runs its post-accumulate hooks although nothing was added; ours"
     " does not."),
    ("backward: only theirs fails", "'NoneType' object has no attribute", no_longer_wanted,
     "The same: the hook reads a gradient that is not there."),
    ("backward: only ours fails", "modified by an inplace operation", has("no_grad", "enable_grad"),
     "A view of a leaf that was made under no_grad: ours wants its gradient, like any other's that requires grad; whether PyTorch does depends on"
     " what looked at it before."),
    ("second: order of hooks", "", empty_leaf,
     "The same: ours runs the hooks on the way to that empty gradient."),
    ("grad: values", "", asks_hooked,
     "grad() for an inner tensor with a hook and for something behind it: PyTorch returns the gradient from before the hook, but the one after"
     " it if the tensor is asked for alone; ours returns the one after it in both cases."),
    ("requires_grad", "False / True", has("grad", "second", "take_grad"),
     "Gradients that grad() returns can be views of each other; when one is then changed in place, PyTorch tracks the other with it."),
    ("grad_fn", " / SumBackward0", has("grad", "second", "backward"),
     "In derivatives of derivatives PyTorch sums over a dim of size 1; ours makes a view."),
    ("grad_fn", "BackwardBackward0", has("grad", "second", "backward"),
     "PyTorch has ops for derivatives of some derivatives (CosBackwardBackward0); ours are composed of several ops."),
    ("grad_fn", "MulBackward0 / MulBackward1", has("grad", "second", "backward"),
     "In derivatives of derivatives PyTorch multiplies by a number; ours by a tensor without dims."),
    ("grad_fn", "MulBackward0 / AddBackward0", has("grad", "second", "backward"),
     "In derivatives of derivatives the last op of the same formula is a sum in PyTorch, a product here; the values agree."),
    ("only ours fails", "A view was created in no_grad mode and is being modified", has("grad", "second", "take_grad"),
     "Where PyTorch sums over a dim of size 1, a gradient that grad() returns is a view here, made without a history; both refuse to change such"
     " views in place by what requires grad."),
    ("enable_grad: only ours fails", "A view was created in no_grad mode and its base", has("set_data"),
     "After v.data = y of a view v that was changed, views of v that are made under no_grad are taken for older than the change here."),
    ("version", "", moved,
     "After x.data = y PyTorch lets x count changes with its old base; here it counts them with the memory that it has now."),
    ("grad_fn", "AsStridedBackward0", moved,
     "The same: with its old base, x also gets a history from changes of memory that it no longer has; ours does not."),
    ("is_leaf", "", moved,
     "The same."),
    ("backward: version", "", taken,
     "How often the engine adds to a gradient in place, and how often it makes a new one, is its own affair."),
    ("second: version", "", taken,
     "The same."),
]

# ---------------------------------------------------------------------------------------------------------------- the page


def _item(head, why):
    return textwrap.fill(f"- {head}: {why}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _when(when, words):
    return "" if when is None else f", {when.__doc__}" if callable(when) else f", {words} \"{when.strip()}\"" if when else ""


def page():
    """The lists of docs/parity.md."""
    lines = ["Calls:", ""]
    for ops, what, when, why in CALLS:
        names = ", ".join(f"`{op}`" for op in ops.split())
        lines.append(_item(f"{names}: {what if isinstance(what, str) else ', '.join(what)}{_when(when, 'message')}", why))
    lines += ["", "Programs:", ""]
    for what, word, when, why in PROGRAMS:
        lines.append(_item(f"{what}" + (f", details \"{word.strip()}\"" if word else "") + _when(when, ""), why))
    return "\n".join(lines) + "\n"
