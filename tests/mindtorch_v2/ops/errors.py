"""Calls that must fail, with PyTorch's exception and words. A failure never ends the process, and leaves no half-done result."""
import re
from dataclasses import dataclass, field

import numpy as np

from .case import real

ERRORS = []


@dataclass(frozen=True)
class Error:
    op: str
    label: str
    args: tuple
    kind: type
    match: str
    kwargs: dict = field(default_factory=dict)
    torch: bool = True  # does PyTorch say it as well?


def bad(op, label, args, kind, text, **options):
    """`text` is part of the message, ... stands for anything."""
    match = ".*".join(re.escape(part) for part in text.split("..."))
    ERRORS.append(Error(op, label, args, kind, match, **options))


M, N, V = real(3, 4), real(2, 5, seed=1), real(5, seed=2)
WHOLE = np.arange(12).reshape(3, 4)
TRUTH = WHOLE > 5

# ------------------------------------------------------------------------------------------- shapes that do not fit
for op in ("add", "sub", "mul", "div", "maximum", "pow_tensor", "eq", "lt", "atan2", "remainder", "logical_and",
           "floor_divide"):
    bad(op, "shapes", (M, V), RuntimeError, "The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1")
for op in ("add_", "sub_", "mul_", "div_"):
    bad(op, "shapes", (M, V), RuntimeError, "The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1")
    bad(op, "self_would_grow", (real(4), M), RuntimeError, "output with shape [4] doesn't match the broadcast shape [3, 4]")
bad("where", "shapes", (TRUTH, M, V), RuntimeError,
    "The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1")
bad("addcmul", "shapes", (M, V, M), RuntimeError, "must match the size of tensor")
bad("lerp", "shapes", (M, V, 0.5), RuntimeError, "must match the size of tensor")
bad("masked_fill", "shapes", (M, np.ones(5, dtype=bool), 0.0), RuntimeError, "must match the size of tensor")
bad("mm", "shapes", (M, M), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)")
bad("mm", "ranks", (V, M), RuntimeError, "self must be a matrix")
bad("mm", "ranks_right", (M, real(4)), RuntimeError, "mat2 must be a matrix")
bad("matmul", "shapes", (M, M), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)")
bad("matmul", "scalar", (real(), M), RuntimeError,
    "both arguments to matmul need to be at least 1D, but they are 0D and 2D")
bad("linear", "shapes", (M, N), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x2)")
bad("addmm", "shapes", (V, M, M), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (3x4 and 3x4)")
bad("addmm", "bias", (real(3), M, real(4, 2)), RuntimeError,
    "The expanded size of the tensor (2) must match the existing size (3) at non-singleton dimension 1")
bad("bmm", "ranks", (M, M), RuntimeError, "batch1 must be a 3D tensor")
bad("bmm", "shapes", (real(2, 3, 4), real(2, 3, 4)), RuntimeError,
    "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3].")
bad("mv", "shapes", (M, V), RuntimeError, "size mismatch")
bad("dot", "shapes", (V, real(4)), RuntimeError,
    "inconsistent tensor size, expected tensor [5] and src [4] to have the same number of elements")
bad("dot", "ranks", (M, M), RuntimeError, "1D tensors expected, but got 2D and 2D tensors")
bad("mm", "dtypes", (M, np.ones((4, 2), dtype=np.float32)), RuntimeError,
    "expected m1 and m2 to have the same dtype, but got: double != float")
bad("view", "size", (M, (5, 5)), RuntimeError, "shape '[5, 5]' is invalid for input of size 12")
bad("view", "two_guesses", (M, (-1, -1)), RuntimeError, "only one dimension can be inferred")
bad("view", "negative", (M, (-2, -6)), RuntimeError, "invalid shape dimension -2")
bad("reshape", "size", (M, (5, -1)), RuntimeError, "shape '[5, -1]' is invalid for input of size 12")
bad("view", "guess_of_nothing", (np.zeros((0, 3)), (0, -1)), RuntimeError,
    "cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension size -1 can be any value and is ambiguous")
bad("expand", "size", (M, (3, 5)), RuntimeError,
    "The expanded size of the tensor (5) must match the existing size (4) at non-singleton dimension 1.  Target sizes: [3, 5].  Tensor sizes: [3, 4]")
bad("expand", "fewer", (M, (4,)), RuntimeError,
    "the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)")
bad("copy_", "shapes", (M.copy(), V), RuntimeError,
    "The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1")
bad("cat", "shapes", ([M, N],), RuntimeError, "Sizes of tensors must match except in dimension 0. Expected size 4 but got size 5 for tensor number 1 in the list.")
bad("cat", "ranks", ([M, V],), RuntimeError, "Tensors must have same number of dimensions: got 2 and 1")
bad("cat", "scalars", ([real(), real()],), RuntimeError, "zero-dimensional tensor (at position 0) cannot be concatenated")
bad("stack", "shapes", ([M, N],), RuntimeError,
    "stack expects each tensor to be equal size, but got [3, 4] at entry 0 and [2, 5] at entry 1")
bad("permute", "repeated", (M, (0, 0)), RuntimeError, "permute(): duplicate dims are not allowed.")
bad("permute", "fewer", (M, (0,)), RuntimeError,
    "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 2 is not equal to len(dims) = 1")
bad("t", "rank", (real(2, 3, 4),), RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is 3D")
bad("repeat", "fewer", (M, (2,)), RuntimeError,
    "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
bad("split_with_sizes", "sum", (M, (1, 1)), RuntimeError,
    "split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at dimension 0), but got split_sizes=[1, 1]")
bad("tril", "rank", (V,), RuntimeError, "tril: input tensor must have at least 2 dimensions")
bad("empty_strided", "lengths", ((2, 3), (1,)), RuntimeError, "dimensionality of sizes (2) must match dimensionality of strides (1)")
bad("empty_strided", "negative", ((2, -3), (3, 1)), RuntimeError, "Trying to create tensor with negative dimension -3: [2, -3]")
bad("empty_strided", "backwards", ((2, 3), (-1, 1)), RuntimeError,
    "Storage size calculation overflowed with sizes=[2, 3] and strides=[-1, 1]")
bad("empty_strided", "huge", ((2**40, 2**40), (2**40, 1)), RuntimeError,
    "Storage size calculation overflowed with sizes=[1099511627776, 1099511627776] and strides=[1099511627776, 1]")
bad("as_strided", "beyond", (M, (3, 5), (5, 1), 0), RuntimeError,
    "setStorage: sizes [3, 5], strides [5, 1], storage offset 0, and itemsize 8 requiring a storage size of 120 are out of bounds for storage of size 96")

# ------------------------------------------------------------------------------------------ dims and indices out of range
for op, args in (("sum_dim", (2,)), ("mean_dim", (2,)), ("max_dim", (2,)), ("argmax", (2,)), ("softmax", (2,)),
                 ("log_softmax", (2,)), ("cumsum", (2,)), ("transpose", (0, 2)), ("select", (2, 0)),
                 ("slice", (2,)), ("amax", (2,)), ("any_dim", (2,)), ("sort", (2,)), ("topk", (1, 2)), ("prod_dim", (2,)),
                 ("unbind", (2,)), ("split", (1, 2)), ("flip", ((2,),)), ("logsumexp", ((2,),))):
    args = tuple((a,) if op in ("sum_dim", "mean_dim", "amax") else a for a in args)
    bad(op, "dim", (M, *args), IndexError, "Dimension out of range (expected to be in range of [-2, 1], but got 2)")
bad("unsqueeze", "dim", (M, 4), IndexError, "Dimension out of range (expected to be in range of [-3, 2], but got 4)")
bad("select", "index", (M, 0, 3), IndexError, "select(): index 3 out of range for tensor of size [3, 4] at dimension 0")
bad("select", "index_negative", (M, 1, -5), IndexError,
    "select(): index -5 out of range for tensor of size [3, 4] at dimension 1")
bad("select", "scalar", (real(), 0, 0), IndexError, "select() cannot be applied to a 0-dim tensor.")
bad("narrow", "beyond", (M, 0, 2, 2), RuntimeError, "start (2) + length (2) exceeds dimension size (3).")
bad("slice", "step", (M, 0, 0, 3, 0), (RuntimeError, ValueError), "slice step must be positive")
bad("sum_dim", "twice", (M, (0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims")
bad("index", "beyond", (M, [np.array([0, 3])]), IndexError, "index 3 is out of bounds for dimension 0 with size 3")
bad("index", "beyond_negative", (M, [np.array([0, -4])]), IndexError,
    "index -4 is out of bounds for dimension 0 with size 3")
bad("index", "too_many", (M, [np.array([0])] * 3), IndexError, "too many indices for tensor of dimension 2")
bad("index", "mask_shape", (M, [np.ones(4, dtype=bool)]), IndexError,
    "The shape of the mask [4] at index 0 does not match the shape of the indexed tensor [3, 4] at index 0")
bad("index", "float", (M, [np.array([0.5])]), IndexError, "tensors used as indices must be long, int, byte or bool tensors")
bad("index", "shapes", (M, [np.array([0, 1]), np.array([0, 1, 2])]), IndexError,
    "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]")
bad("index_put_", "shapes", (M.copy(), [np.array([0, 1])], V), RuntimeError,
    "shape mismatch: value tensor of shape [5] cannot be broadcast to indexing result of shape [2, 4]")
bad("index_put_", "dtype", (M.copy(), [np.array([0, 1])], np.ones(4, dtype=np.float32)), RuntimeError,
    "Index put requires the source and destination dtypes match, got Double for the destination and Float for the source.")
bad("index_select", "beyond", (M, 0, np.array([3])), (IndexError, RuntimeError), "index out of range in self")
bad("index_select", "rank", (M, 0, np.array([[0]])), IndexError, "index_select(): Index is supposed to be a vector")
bad("gather", "beyond", (M, 1, np.array([[4]])), RuntimeError, "index 4 is out of bounds for dimension 1 with size 4")
bad("gather", "dtype", (M, 1, np.array([[0.0]])), RuntimeError, "gather(): Expected dtype int32/int64 for index")
bad("gather", "ranks", (M, 1, np.array([0])), RuntimeError,
    "Index tensor must have the same number of dimensions as input tensor")
bad("gather", "larger", (M, 1, np.zeros((4, 1), dtype=np.int64)), RuntimeError,
    "Size does not match at dimension 0 expected index [4, 1] to be no larger than self [3, 4] apart from dimension 1")
bad("scatter_add", "beyond", (M, 1, np.array([[4]]), np.ones((1, 1))), RuntimeError,
    "index 4 is out of bounds for dimension 1 with size 4")
bad("scatter", "dtypes", (M, 1, np.array([[0]]), np.ones((1, 1), dtype=np.float32)), RuntimeError,
    "scatter(): Expected self.dtype to be equal to src.dtype")
bad("embedding", "beyond", (M, np.array([0, 3])), IndexError, "index out of range in self")
bad("embedding", "negative", (M, np.array([-1])), IndexError, "index out of range in self")
bad("embedding", "dtype", (M, np.array([0.0])), RuntimeError,
    "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int")
bad("one_hot", "classes", (np.array([0, 3]), 3), RuntimeError, "Class values must be smaller than num_classes.")
bad("one_hot", "negative", (np.array([0, -3]), 3), RuntimeError, "Class values must be non-negative.")
bad("masked_select", "mask", (M, M), RuntimeError, "masked_select: expected BoolTensor for mask")
bad("masked_fill", "mask", (M, WHOLE, 0.0), RuntimeError, "masked_fill_ only supports boolean masks")
bad("topk", "k", (M, 5), RuntimeError, "selected index k out of range")
bad("nll_loss", "target", (M, np.array([0, 1, 4])), IndexError, "Target 4 is out of bounds.")
bad("cross_entropy_loss", "target", (M, np.array([0, 1, -1])), IndexError, "Target -1 is out of bounds.")
bad("nll_loss", "batch", (M, np.array([0, 1])), (ValueError, RuntimeError),
    "size mismatch (got input: [3, 4], target: [2])", torch=False)

# --------------------------------------------------------------------------------------------------------- dtypes
bad("sub", "bools", (TRUTH, TRUTH), RuntimeError,
    "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
bad("sub", "bool", (M, TRUTH), RuntimeError, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")
bad("neg", "bool", (TRUTH,), RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")
bad("mean", "integers", (WHOLE,), RuntimeError,
    "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long")
bad("mean_dim", "integers", (WHOLE, (0,)), RuntimeError,
    "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long")
bad("var", "integers", (WHOLE,), RuntimeError, "std and var only support floating point and complex dtypes")
bad("add_", "cast", (WHOLE.copy(), M), RuntimeError, "result type Double can't be cast to the desired output type Long")
bad("div_", "cast", (WHOLE.copy(), 2), RuntimeError, "result type Float can't be cast to the desired output type Long")
bad("exp_", "cast", (WHOLE.copy(),), RuntimeError, "result type Float can't be cast to the desired output type Long")
bad("bitwise_and", "floats", (M, M), RuntimeError, "\"bitwise_and_cpu\" not implemented for 'Double'")
bad("bitwise_not", "floats", (M,), RuntimeError, "\"bitwise_not_cpu\" not implemented for 'Double'")
bad("_softmax", "integers", (WHOLE, 1, False), RuntimeError, "not implemented for 'Long'")
bad("gelu", "integers", (WHOLE,), RuntimeError, "not implemented for 'Long'")
bad("floor_divide", "zero", (WHOLE, 0), RuntimeError, "ZeroDivisionError")
bad("remainder", "zero", (WHOLE, 0), RuntimeError, "ZeroDivisionError")
bad("pow", "negative", (WHOLE, -1), RuntimeError, "Integers to negative integer powers are not allowed.")
bad("add", "alpha", (WHOLE, WHOLE), RuntimeError,
    "For integral input tensors, argument alpha must not be a floating point number.", kwargs={"alpha": 0.5})
bad("uniform_", "integers", (WHOLE.copy(),), RuntimeError, "not implemented for 'Long'")
bad("normal_", "integers", (WHOLE.copy(),), RuntimeError, "not implemented for 'Long'")
bad("linear", "dtypes", (M, np.ones((2, 4), dtype=np.float32)), RuntimeError, "dtype")
bad("mse_loss", "integers", (WHOLE, WHOLE), RuntimeError, "not implemented for 'Long'")

# --------------------------------------------------------------------------------------------------- empty and odd values
for op in ("max", "min"):
    bad(op, "empty", (np.zeros((0, 3)),), RuntimeError,
        f"{op}(): Expected reduction dim to be specified for input.numel() == 0.")
    bad(op + "_dim", "empty", (np.zeros((0, 3)), 0), IndexError, f"{op}(): Expected reduction dim 0 to have non-zero size.")
    bad("a" + op, "empty", (np.zeros((0, 3)), (0,)), IndexError,
        f"a{op}(): Expected reduction dim 0 to have non-zero size.")
    bad("arg" + op, "empty", (np.zeros((0, 3)),), IndexError,
        f"arg{op}(): Expected reduction dim to be specified for input.numel() == 0.")
bad("cat", "nothing", ([],), (RuntimeError, ValueError), "expected a non-empty list of Tensors")
bad("clamp", "nothing", (M,), RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None")
bad("zeros", "negative", ((2, -1),), RuntimeError, "zeros: Dimension size must be non-negative.")
bad("empty", "negative", ((2, -1),), RuntimeError, "Trying to create tensor with negative dimension -1: [2, -1]")
bad("arange_step", "zero", (0, 5, 0), RuntimeError, "step must be nonzero")
bad("arange_start", "down", (5, 0), RuntimeError, "upper bound and lower bound inconsistent with step sign")
bad("linspace", "steps", (0, 1, -1), RuntimeError, "number of steps must be non-negative")
bad("eye", "negative", (-1,), RuntimeError, "n must be greater or equal to 0, got -1")
bad("randint", "empty_range", (0, (2,)), RuntimeError,
    "random_ expects 'from' to be less than 'to', but got from=0 >= to=0")
bad("randperm", "negative", (-1,), RuntimeError, "negative")
bad("uniform_", "range", (M.copy(), 2.0, 1.0), RuntimeError,
    "uniform_ expects to return a [from, to) range, but found from=2 > to=1")
bad("normal_", "std", (M.copy(), 0.0, -1.0), RuntimeError, "normal expects std >= 0.0, but found std -1")
bad("bernoulli_", "p", (M.copy(), 1.5), RuntimeError, "bernoulli_ expects p to be in [0, 1], but got p=1.5")
bad("dropout", "p", (M, 1.5, True), RuntimeError, "dropout probability has to be between 0 and 1, but got 1.5")
bad("multinomial", "too_many", (np.ones(3), 4), RuntimeError,
    "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
bad("multinomial", "negative", (np.array([-1.0, 2.0]), 1), RuntimeError,
    "probability tensor contains either `inf`, `nan` or element < 0")
bad("chunk", "none", (M, 0), RuntimeError, "chunk expects `chunks` to be greater than 0, got: 0")
bad("split", "negative", (M, -1), RuntimeError, "split expects split_size be non-negative, but got split_size=-1")

# ------------------------------------------------------------------------------------------------------ images and norms
IMAGE, KERNEL = real(1, 2, 4, 4), real(3, 2, 3, 3)
bad("conv2d", "channels", (real(1, 3, 4, 4), KERNEL), RuntimeError,
    "Given groups=1, weight of size [3, 2, 3, 3], expected input[1, 3, 4, 4] to have 2 channels, but got 3 channels instead")
bad("conv2d", "kernel_too_large", (real(1, 2, 2, 2), KERNEL), RuntimeError,
    "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size")
bad("conv2d", "bias", (IMAGE, KERNEL, real(2)), RuntimeError,
    "Given weight of size [3, 2, 3, 3], expected bias to be 1-dimensional with 3 elements, but got bias of size [2] instead")
bad("conv2d", "rank", (M, KERNEL), RuntimeError,
    "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 4]")
bad("max_pool2d", "rank", (M, (2, 2)), RuntimeError, "non-empty 3D or 4D (batch mode) tensor expected for input")
bad("max_pool2d", "padding", (IMAGE, (2, 2), (2, 2), (2, 2)), RuntimeError,
    "pad should be at most half of effective kernel size")
bad("max_pool2d", "too_small", (real(1, 1, 1, 1), (2, 2)), RuntimeError, "Output size is too small")
bad("avg_pool2d", "divisor", (IMAGE, (2, 2), (2, 2), (0, 0), False, True, 0), RuntimeError, "divisor must be not zero")
bad("layer_norm", "shape", (M, (3,)), RuntimeError,
    "Given normalized_shape=[3], expected input with shape [*, 3], but got input of size[3, 4]")
bad("layer_norm", "weight", (M, (4,), V), RuntimeError,
    "Expected weight to be of same shape as normalized_shape, but got weight of shape [5] and normalized_shape = [4]")
bad("batch_norm", "statistics", (IMAGE, None, None, None, None, False, 0.1, 1e-5, True), RuntimeError,
    "running_mean must be defined in evaluation mode")
bad("batch_norm", "weight", (IMAGE, V, None, None, None, True, 0.1, 1e-5, True), RuntimeError,
    "weight should contain 2 elements not 5")
bad("binary_cross_entropy", "range", (np.array([1.5]), np.array([1.0])), RuntimeError,
    "all elements of input should be between 0 and 1")
bad("binary_cross_entropy_with_logits", "shapes", (M, V), (ValueError, RuntimeError), "must match the size of tensor")

# ---------------------------------------------------------------------------------------------------- wrong kinds of arguments
bad("add", "none", (M, None), TypeError, "add(): argument 'other' (position 2) must be Tensor, not NoneType", torch=False)
bad("add", "text", (M, "1"), TypeError, "add(): argument 'other' (position 2) must be Tensor, not str", torch=False)
bad("add", "nothing", (), TypeError, "add()", torch=False)
bad("add", "too_many", (M, M, M, M), TypeError, "add() takes 2 positional arguments but 4 were given", torch=False)
bad("mm", "number", (M, 2), TypeError, "mm(): argument 'mat2' (position 2) must be Tensor, not int", torch=False)
bad("sum", "dtype", (M,), TypeError, "sum() received an invalid combination of arguments", kwargs={"dtype": "float32"}, torch=False)
bad("sum", "unknown_keyword", (M,), TypeError, "sum() received an invalid combination of arguments", kwargs={"colour": 1}, torch=False)
bad("view", "float", (M, (1.5,)), TypeError, "view()", torch=False)
bad("cat", "not_a_list", (M,), TypeError, "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor", torch=False)
