/* mindtorch_ops.h - the op table: one row per operator of the runtime. It feeds the registry, the profiler's
 * names, the Python functions and methods, autograd and the op harness.
 *
 * X(id, schema, form, derivative)
 *   schema      PyTorch's notation. The name before the dot is what profiles show (aten::NAME); the part
 *               after it is the overload. `Operand` is a tensor or a number. A name ending in _ changes self.
 *   form        K(infer, kernel)  infer checks arguments and creates outputs, the device's kernel fills them
 *               V(infer)          a view: infer creates it, nothing is computed
 *               C(function)       composed of other ops
 *               and, after any of these, facts about it (they are fields of mt__op in src/runtime/runtime.h):
 *               F(formula)        floating-point operations per call, by PyTorch's count
 *               N(rule)           where numbers among its operands become tensors, if not as usual: mt__numbers
 *               M(schema)         trailing inputs of PyTorch's op that this one lacks
 *               L(list:option)    of an optimizer step: a list that is needed only if the option is not 0
 *               A(flag)           product, copies, followed, packed
 *               H(cpu, npu)       what autocast does to its operands on these: mt__autocast_rule
 *               O(overload, rule) it takes out=, like PyTorch's overload of that name; the rule for dtypes is
 *                                 an mt__out_rule
 *   derivative  mt__grad_NAME in src/runtime/autograd/, or one of
 *               of_parts            that of the ops it is composed of
 *               not_differentiable  its results are constants to autograd
 *               not_implemented     backward through it fails, with its name
 * Y(id) after a row: there is also the op in place, id_. Its row follows from the other's: self is written and
 *   returned, form and derivative (mt__grad.in_place, if set) are the same; there is no out=. What its infer allocates is
 *   copied to self; infers of elementwise ops return self.
 * Columns 3 and 4 are used by src/runtime/ops.c only. Rows may be added anywhere: ids never reach files.
 */
#ifndef MINDTORCH_OPS_H
#define MINDTORCH_OPS_H

/* clang-format off */

/* elementwise with two operands; the result has the promoted dtype */
#define MT_OPS_BINARY(X, Y) \
    X(add, "add.Tensor(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor", K(binary, add) F(elements) N(OUTSIDE) O(out, CAST), add) Y(add) \
    X(sub, "sub.Tensor(Tensor self, Operand other, *, Scalar alpha=1) -> Tensor", K(binary, sub) N(OUTSIDE) O(out, CAST), sub) Y(sub) \
    X(rsub, "rsub.Scalar(Tensor self, Operand other, Scalar alpha=1) -> Tensor", K(binary, rsub) N(TURNED), rsub) \
    X(mul, "mul.Tensor(Tensor self, Operand other) -> Tensor", K(binary, mul) F(elements) N(OUTSIDE) O(out, CAST), mul) Y(mul) \
    X(div, "div.Tensor(Tensor self, Operand other) -> Tensor", K(binary_float, div) N(OUTSIDE) O(out, CAST), div) Y(div) \
    X(div_mode, "div.Tensor_mode(Tensor self, Operand other, *, str? rounding_mode) -> Tensor", K(div_mode, div_mode) N(OUTSIDE) O(out_mode, CAST), div_mode) Y(div_mode) \
    X(floor_divide, "floor_divide(Tensor self, Operand other) -> Tensor", K(binary, floor_divide) N(OUTSIDE) O(out, CAST), not_implemented) Y(floor_divide) \
    X(remainder, "remainder.Tensor(Tensor self, Operand other) -> Tensor", K(binary, remainder) O(Tensor_out, CAST), remainder) Y(remainder) \
    X(pow, "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", K(binary, pow) N(POWER) O(Tensor_Scalar_out, CAST) H(NONE, FLOAT), pow_scalar) Y(pow) \
    X(pow_tensor, "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", K(binary, pow) O(Tensor_Tensor_out, CAST) H(NONE, FLOAT), pow_tensor) Y(pow_tensor) \
    X(pow_from, "pow.Scalar(Scalar self, Tensor exponent) -> Tensor", K(binary, pow) N(STAY) A(packed) O(Scalar_out, CAST) H(NONE, FLOAT), pow_from) \
    X(maximum, "maximum(Tensor self, Tensor other) -> Tensor", K(binary, maximum) O(out, CAST), maximum) \
    X(minimum, "minimum(Tensor self, Tensor other) -> Tensor", K(binary, minimum) O(out, CAST), minimum) \
    X(atan2, "atan2(Tensor self, Tensor other) -> Tensor", K(binary_float, atan2) O(out, CAST) H(NONE, WIDEST), atan2) Y(atan2) \
    X(eq, "eq.Tensor(Tensor self, Operand other) -> Tensor", K(compare, eq) O(Tensor_out, CAST), eq) Y(eq) \
    X(ne, "ne.Tensor(Tensor self, Operand other) -> Tensor", K(compare, ne) O(Tensor_out, CAST), ne) Y(ne) \
    X(lt, "lt.Tensor(Tensor self, Operand other) -> Tensor", K(compare, lt) O(Tensor_out, CAST), lt) Y(lt) \
    X(le, "le.Tensor(Tensor self, Operand other) -> Tensor", K(compare, le) O(Tensor_out, CAST), le) Y(le) \
    X(gt, "gt.Tensor(Tensor self, Operand other) -> Tensor", K(compare, gt) O(Tensor_out, CAST), gt) Y(gt) \
    X(ge, "ge.Tensor(Tensor self, Operand other) -> Tensor", K(compare, ge) O(Tensor_out, CAST), ge) Y(ge) \
    X(logical_and, "logical_and(Tensor self, Tensor other) -> Tensor", K(compare, logical_and) O(out, CAST), not_differentiable) Y(logical_and) \
    X(logical_or, "logical_or(Tensor self, Tensor other) -> Tensor", K(compare, logical_or) O(out, CAST), not_differentiable) Y(logical_or) \
    X(logical_xor, "logical_xor(Tensor self, Tensor other) -> Tensor", K(compare, logical_xor) O(out, CAST), not_differentiable) Y(logical_xor) \
    X(bitwise_and, "bitwise_and.Tensor(Tensor self, Operand other) -> Tensor", K(bitwise, bitwise_and) O(Tensor_out, CAST), not_differentiable) Y(bitwise_and) \
    X(bitwise_or, "bitwise_or.Tensor(Tensor self, Operand other) -> Tensor", K(bitwise, bitwise_or) O(Tensor_out, CAST), not_differentiable) Y(bitwise_or) \
    X(bitwise_xor, "bitwise_xor.Tensor(Tensor self, Operand other) -> Tensor", K(bitwise, bitwise_xor) O(Tensor_out, CAST), not_differentiable) Y(bitwise_xor) \
    X(__and__, "__and__.Tensor(Tensor self, Operand other) -> Tensor", C(and), of_parts) \
    X(__or__, "__or__.Tensor(Tensor self, Operand other) -> Tensor", C(or), of_parts) \
    X(__xor__, "__xor__.Tensor(Tensor self, Operand other) -> Tensor", C(xor), of_parts) \
    X(__iand__, "__iand__.Tensor(Tensor(a!) self, Operand other) -> Tensor(a!)", C(iand), of_parts) \
    X(__ior__, "__ior__.Tensor(Tensor(a!) self, Operand other) -> Tensor(a!)", C(ior), of_parts) \
    X(__ixor__, "__ixor__.Tensor(Tensor(a!) self, Operand other) -> Tensor(a!)", C(ixor), of_parts) \
    X(isclose, "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor", C(isclose), of_parts)

/* elementwise with one or three operands */
#define MT_OPS_UNARY(X, Y) \
    X(neg, "neg(Tensor self) -> Tensor", K(unary, neg) O(out, FOUND), neg) Y(neg) \
    X(abs, "abs(Tensor self) -> Tensor", K(unary, abs) O(out, FOUND), abs) Y(abs) \
    X(sign, "sign(Tensor self) -> Tensor", K(unary, sign) O(out, FOUND), sign) Y(sign) \
    X(sgn, "sgn(Tensor self) -> Tensor", K(unary, sign) O(out, FOUND), sgn) Y(sgn) \
    X(floor, "floor(Tensor self) -> Tensor", K(unary, floor) O(out, FOUND), floor) Y(floor) \
    X(ceil, "ceil(Tensor self) -> Tensor", K(unary, ceil) O(out, FOUND), ceil) Y(ceil) \
    X(round, "round(Tensor self) -> Tensor", K(unary, round) O(out, FOUND), round) Y(round) \
    X(round_decimals, "round.decimals(Tensor self, *, int decimals) -> Tensor", K(round_decimals, round_decimals) O(decimals_out, FOUND), round_decimals) Y(round_decimals) \
    X(trunc, "trunc(Tensor self) -> Tensor", K(unary, trunc) O(out, FOUND), trunc) Y(trunc) \
    X(square, "square(Tensor self) -> Tensor", C(square) O(out, CAST), of_parts) Y(square) \
    X(exp, "exp(Tensor self) -> Tensor", K(unary_float, exp) O(out, CAST) H(NONE, FLOAT), exp) Y(exp) \
    X(expm1, "expm1(Tensor self) -> Tensor", K(unary_float, expm1) O(out, CAST) H(NONE, FLOAT), expm1) Y(expm1) \
    X(log, "log(Tensor self) -> Tensor", K(unary_float, log) O(out, CAST) H(NONE, FLOAT), log) Y(log) \
    X(log1p, "log1p(Tensor self) -> Tensor", K(unary_float, log1p) O(out, CAST) H(NONE, FLOAT), log1p) Y(log1p) \
    X(log2, "log2(Tensor self) -> Tensor", K(unary_float, log2) O(out, CAST) H(NONE, FLOAT), log2) Y(log2) \
    X(sqrt, "sqrt(Tensor self) -> Tensor", K(unary_float, sqrt) O(out, CAST), sqrt) Y(sqrt) \
    X(rsqrt, "rsqrt(Tensor self) -> Tensor", K(unary_float, rsqrt) O(out, CAST) H(NONE, FLOAT), rsqrt) Y(rsqrt) \
    X(reciprocal, "reciprocal(Tensor self) -> Tensor", K(unary_float, reciprocal) O(out, CAST) H(NONE, FLOAT), reciprocal) Y(reciprocal) \
    X(sin, "sin(Tensor self) -> Tensor", K(unary_float, sin) O(out, CAST), sin) Y(sin) \
    X(cos, "cos(Tensor self) -> Tensor", K(unary_float, cos) O(out, CAST), cos) Y(cos) \
    X(tan, "tan(Tensor self) -> Tensor", K(unary_float, tan) O(out, CAST) H(NONE, FLOAT), tan) Y(tan) \
    X(tanh, "tanh(Tensor self) -> Tensor", K(unary_float, tanh) O(out, CAST), tanh) Y(tanh) \
    X(sigmoid, "sigmoid(Tensor self) -> Tensor", K(unary_float, sigmoid) O(out, CAST), sigmoid) Y(sigmoid) \
    X(erf, "erf(Tensor self) -> Tensor", K(unary_float, erf) O(out, CAST), erf) Y(erf) \
    X(isnan, "isnan(Tensor self) -> Tensor", K(unary_truth, isnan), not_differentiable) \
    X(isinf, "isinf(Tensor self) -> Tensor", K(unary_truth, isinf), not_differentiable) \
    X(isfinite, "isfinite(Tensor self) -> Tensor", K(unary_truth, isfinite), not_differentiable) \
    X(logical_not, "logical_not(Tensor self) -> Tensor", K(unary_truth, logical_not) O(out, CAST), not_differentiable) Y(logical_not) \
    X(bitwise_not, "bitwise_not(Tensor self) -> Tensor", K(unary_bits, bitwise_not) O(out, FOUND), not_differentiable) Y(bitwise_not) \
    X(relu, "relu(Tensor self) -> Tensor", K(unary, relu), relu) Y(relu) \
    X(gelu, "gelu(Tensor self, *, str approximate='none') -> Tensor", K(unary_real, gelu) O(out, SAME), gelu) \
    X(silu, "silu(Tensor self) -> Tensor", K(unary_real, silu) O(out, SAME), silu) Y(silu) \
    X(softplus, "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", K(unary_real, softplus) O(out, SAME) H(NONE, FLOAT), softplus) \
    X(leaky_relu, "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", K(unary_real, leaky_relu) O(out, SAME), leaky_relu) Y(leaky_relu) \
    X(elu, "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", K(unary_real, elu) O(out, SAME), elu) Y(elu) \
    X(clamp, "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", K(clamp, clamp) O(out, FOUND), clamp) Y(clamp) \
    X(clamp_tensor, "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", K(clamp_tensor, clamp_tensor) O(Tensor_out, CAST), clamp_tensor) Y(clamp_tensor) \
    X(clamp_min, "clamp_min(Tensor self, Scalar min) -> Tensor", K(clamp_min, clamp_min) O(out, FOUND), clamp_min) Y(clamp_min) \
    X(clamp_min_tensor, "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", K(clamp_bound, clamp_min_tensor) O(Tensor_out, CAST), clamp_min_tensor) Y(clamp_min_tensor) \
    X(clamp_max, "clamp_max(Tensor self, Scalar max) -> Tensor", K(clamp_max, clamp_max) O(out, FOUND), clamp_max) Y(clamp_max) \
    X(clamp_max_tensor, "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", K(clamp_bound, clamp_max_tensor) O(Tensor_out, CAST), clamp_max_tensor) Y(clamp_max_tensor) \
    X(hardtanh, "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", K(hardtanh, clamp) O(out, FOUND), hardtanh) Y(hardtanh) \
    X(relu6, "relu6(Tensor self) -> Tensor", C(relu6), of_parts) Y(relu6) \
    X(selu, "selu(Tensor self) -> Tensor", C(selu), of_parts) Y(selu) \
    X(celu, "celu(Tensor self, Scalar alpha=1.0) -> Tensor", C(celu), of_parts) Y(celu) \
    X(threshold, "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", C(threshold) O(out, CAST), of_parts) Y(threshold) \
    X(hardshrink, "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", C(hardshrink) O(out, FOUND), of_parts) \
    X(softshrink, "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", C(softshrink) O(out, FOUND), of_parts) \
    X(hardsigmoid, "hardsigmoid(Tensor self) -> Tensor", C(hardsigmoid) O(out, FOUND), of_parts) Y(hardsigmoid) \
    X(hardswish, "hardswish(Tensor self) -> Tensor", C(hardswish) O(out, FOUND), of_parts) Y(hardswish) \
    X(mish, "mish(Tensor self) -> Tensor", C(mish) O(out, FOUND), of_parts) Y(mish) \
    X(glu, "glu(Tensor self, int dim=-1) -> Tensor", C(glu) O(out, CAST), of_parts) \
    X(prelu, "prelu(Tensor self, Tensor weight) -> Tensor", C(prelu) H(NONE, LOWER), of_parts) \
    X(where, "where.self(Tensor condition, Operand self, Operand other) -> Tensor", K(where, where) O(self_out, SAME), where) \
    X(masked_fill, "masked_fill.Scalar(Tensor self, Tensor mask, Operand value) -> Tensor", K(masked_fill, masked_fill), masked_fill) Y(masked_fill) \
    X(addcmul, "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", K(addc, addcmul) O(out, CAST) H(NONE, WIDEST), addcmul) Y(addcmul) \
    X(addcdiv, "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", K(addc, addcdiv) O(out, CAST) H(NONE, WIDEST), addcdiv) Y(addcdiv) \
    X(lerp, "lerp.Scalar(Tensor self, Tensor end, Operand weight) -> Tensor", K(lerp, lerp) O(Scalar_out, CAST), lerp) Y(lerp) \
    X(threshold_backward, "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", K(pair, threshold_backward), threshold_backward) \
    X(tanh_backward, "tanh_backward(Tensor grad_output, Tensor output) -> Tensor", K(pair, tanh_backward), tanh_backward) \
    X(sigmoid_backward, "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", K(pair, sigmoid_backward), sigmoid_backward) \
    X(gelu_backward, "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor", K(pair, gelu_backward), gelu_backward) \
    X(silu_backward, "silu_backward(Tensor grad_output, Tensor self) -> Tensor", K(pair, silu_backward), silu_backward) \
    X(softplus_backward, "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor", K(pair, softplus_backward), softplus_backward) \
    X(leaky_relu_backward, "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor", K(leaky_relu_backward, leaky_relu_backward), leaky_relu_backward) \
    X(hardtanh_backward, "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor", K(pair, hardtanh_backward), hardtanh_backward) \
    X(elu_backward, "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor self_or_result) -> Tensor", K(elu_backward, elu_backward), elu_backward)

/* views, copies, joining and splitting */
#define MT_OPS_SHAPE(X, Y) \
    X(as_strided, "as_strided(Tensor(a) self, int[] size, int[] stride, int? storage_offset=None) -> Tensor(a)", V(as_strided), as_strided) \
    X(view, "view(Tensor(a) self, int[...] size) -> Tensor(a)", V(view), view) \
    X(view_dtype, "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", V(view_dtype), not_differentiable) \
    X(_unsafe_view, "_unsafe_view(Tensor self, int[] size) -> Tensor", V(view), unsafe_view) \
    X(_reshape_alias, "_reshape_alias(Tensor(a) self, int[] size, int[] stride) -> Tensor(a)", V(reshape_alias), reshape_alias) \
    X(reshape, "reshape(Tensor(a) self, int[...] shape) -> Tensor(a)", C(reshape), of_parts) \
    X(flatten, "flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", C(flatten), of_parts) \
    X(t, "t(Tensor(a) self) -> Tensor(a)", V(t), t) \
    X(transpose, "transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", V(transpose), transpose) \
    X(permute, "permute(Tensor(a) self, int[...] dims) -> Tensor(a)", V(permute), permute) \
    X(movedim, "movedim.intlist(Tensor(a) self, int[1] source, int[1] destination) -> Tensor(a)", C(movedim), of_parts) \
    X(expand, "expand(Tensor(a) self, int[...] size, *, bool implicit=False) -> Tensor(a)", V(expand), expand) \
    X(expand_as, "expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", C(expand_as), of_parts) \
    X(view_as, "view_as(Tensor(a) self, Tensor other) -> Tensor(a)", C(view_as), of_parts) \
    X(select, "select.int(Tensor(a) self, int dim, int index) -> Tensor(a)", V(select), select) \
    X(slice, "slice.Tensor(Tensor(a) self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)", V(slice), slice) \
    X(narrow, "narrow(Tensor(a) self, int dim, int start, int length) -> Tensor(a)", C(narrow), of_parts) \
    X(unsqueeze, "unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", V(unsqueeze), unsqueeze) \
    X(squeeze, "squeeze(Tensor(a) self) -> Tensor(a)", V(squeeze), squeeze) \
    X(squeeze_dim, "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", V(squeeze_dim), squeeze_dim) \
    X(squeeze_dims, "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", V(squeeze_dims), squeeze_dims) \
    X(diagonal, "diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", V(diagonal), diagonal) \
    X(alias, "alias(Tensor(a) self) -> Tensor(a)", V(alias), alias) \
    X(detach, "detach(Tensor(a) self) -> Tensor(a)", V(detach), not_differentiable) \
    X(split, "split.Tensor(Tensor(a) self, int split_size, int dim=0) -> Tensor[]", V(split), split) \
    X(split_with_sizes, "split_with_sizes(Tensor(a) self, int[] split_sizes, int dim=0) -> Tensor[]", V(split_with_sizes), split_with_sizes) \
    X(chunk, "chunk(Tensor(a) self, int chunks, int dim=0) -> Tensor[]", C(chunk), of_parts) \
    X(unsafe_split, "unsafe_split.Tensor(Tensor self, int split_size, int dim=0) -> Tensor[]", V(unsafe_split), unsafe_split) \
    X(unsafe_chunk, "unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]", C(unsafe_chunk), of_parts) \
    X(unbind, "unbind.int(Tensor(a) self, int dim=0) -> Tensor[]", V(unbind), unbind) \
    X(clone, "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", K(clone, clone) A(copies), clone) \
    X(contiguous, "contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", C(contiguous), of_parts) \
    X(copy_, "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)", K(copy, copy), copy) \
    X(to_dtype, "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", C(to_dtype), of_parts) \
    X(to_device, "to.device(Tensor(a) self, Device device, ScalarType? dtype=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", C(to_device), of_parts) \
    X(_to_copy, "_to_copy(Tensor self, *, ScalarType? dtype=None, Device? device=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", K(to_copy, to_copy) A(copies), to_copy) \
    X(type_as, "type_as(Tensor self, Tensor other) -> Tensor", C(type_as), of_parts) \
    X(pad, "pad(Tensor self, int[] pad, str mode='constant', float? value=None) -> Tensor", C(pad), of_parts) \
    X(constant_pad_nd, "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor", K(constant_pad_nd, constant_pad_nd), constant_pad_nd) \
    X(cat, "cat(Tensor[] tensors, int dim=0) -> Tensor", K(cat, cat) O(out, JOIN) H(WIDEST, NONE), cat) \
    X(stack, "stack(Tensor[] tensors, int dim=0) -> Tensor", K(stack, stack) O(out, JOIN) H(WIDEST, NONE), stack) \
    X(pad_sequence, "pad_sequence(Tensor[] sequences, bool batch_first=False, float padding_value=0., str padding_side='right') -> Tensor", C(pad_sequence), of_parts) \
    X(_pack_padded_sequence, "_pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first) -> (Tensor, Tensor)", C(pack_padded_sequence), of_parts) \
    X(_pad_packed_sequence, "_pad_packed_sequence(Tensor data, Tensor batch_sizes, bool batch_first, Scalar padding_value, int total_length) -> (Tensor, Tensor)", C(pad_packed_sequence), of_parts) \
    X(repeat, "repeat(Tensor self, int[...] repeats) -> Tensor", K(repeat, repeat), repeat) \
    X(flip, "flip(Tensor self, int[...] dims) -> Tensor", K(flip, flip), flip) \
    X(roll, "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor", K(roll, roll), roll) \
    X(tril, "tril(Tensor self, int diagonal=0) -> Tensor", K(triangle, tril) O(out, SAME), tril) Y(tril) \
    X(triu, "triu(Tensor self, int diagonal=0) -> Tensor", K(triangle, triu) O(out, SAME), triu) Y(triu) \
    X(select_backward, "select_backward(Tensor grad_output, int[] input_sizes, int dim, int index) -> Tensor", C(select_backward), of_parts) \
    X(slice_backward, "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor", C(slice_backward), of_parts) \
    X(diagonal_backward, "diagonal_backward(Tensor grad_output, int[] input_sizes, int offset, int dim1, int dim2) -> Tensor", C(diagonal_backward), of_parts)

/* indexing by tensors */
#define MT_OPS_INDEX(X, Y) \
    X(index, "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", K(index, index), index) \
    X(index_put_, "index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)", K(index_put, index_put), index_put) \
    X(_index_put_impl_, "_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor(a!)", K(index_put, index_put), index_put_impl) \
    X(index_select, "index_select(Tensor self, int dim, Tensor index) -> Tensor", K(index_select, index_select) O(out, SAME), index_select) \
    X(index_select_backward, "index_select_backward(Tensor grad, int[] self_sizes, int dim, Tensor index) -> Tensor", C(index_select_backward), of_parts) \
    X(index_add_, "index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)", K(index_add, index_add), index_add) \
    X(gather, "gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", K(gather, gather) O(out, SAME), gather) \
    X(gather_backward, "gather_backward(Tensor grad, Tensor self, int dim, Tensor index) -> Tensor", C(gather_backward) M("bool sparse_grad"), of_parts) \
    X(scatter, "scatter.src(Tensor self, int dim, Tensor index, Operand src) -> Tensor", K(scatter, scatter) O(src_out, SAME), scatter) Y(scatter) \
    X(scatter_reduce, "scatter.reduce(Tensor self, int dim, Tensor index, Operand src, *, str reduce) -> Tensor", K(scatter_reduce, scatter_reduce) O(reduce_out, SAME), not_implemented) Y(scatter_reduce) \
    X(scatter_add, "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", K(scatter_add, scatter_add) O(out, SAME) H(NONE, WIDEST), scatter_add) Y(scatter_add) \
    X(masked_select, "masked_select(Tensor self, Tensor mask) -> Tensor", C(masked_select) O(out, SAME), of_parts) \
    X(nonzero, "nonzero(Tensor self) -> Tensor", K(nonzero, nonzero) O(out, SAME), not_differentiable) \
    X(embedding, "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", K(embedding, embedding), embedding) \
    X(embedding_backward, "embedding_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq, bool sparse) -> Tensor", C(embedding_backward), of_parts) \
    X(embedding_dense_backward, "embedding_dense_backward(Tensor grad_output, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq) -> Tensor", K(embedding_dense_backward, embedding_dense_backward), embedding_dense_backward) \
    X(one_hot, "one_hot(Tensor self, int num_classes=-1) -> Tensor", C(one_hot), of_parts)

/* new tensors, constant or random */
#define MT_OPS_CREATE(X, Y) \
    X(empty, "empty.memory_format(int[...] size, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", K(empty, nothing) O(out, CHOSEN), not_differentiable) \
    X(empty_strided, "empty_strided(int[] size, int[] stride, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(empty_strided, nothing), not_differentiable) \
    X(empty_like, "empty_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", K(empty_like, nothing), not_differentiable) \
    X(zeros, "zeros(int[...] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(zeros) O(out, CHOSEN), of_parts) \
    X(zeros_like, "zeros_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", C(zeros_like), of_parts) \
    X(ones, "ones(int[...] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(ones) O(out, CHOSEN), of_parts) \
    X(ones_like, "ones_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", C(ones_like), of_parts) \
    X(full, "full(int[] size, Scalar fill_value, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(full) O(out, CHOSEN), of_parts) \
    X(full_like, "full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", C(full_like), of_parts) \
    X(new_empty_strided, "new_empty_strided(Tensor self, int[] size, int[] stride, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(new_empty_strided) A(followed), of_parts) \
    X(new_zeros, "new_zeros(Tensor self, int[...] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(new_zeros) A(followed), of_parts) \
    X(fill_, "fill_.Scalar(Tensor(a!) self, Operand value) -> Tensor(a!)", K(fill, fill), fill) \
    X(zero_, "zero_(Tensor(a!) self) -> Tensor(a!)", K(self, zero), zero) \
    X(arange, "arange(Scalar end, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(arange, arange) O(out, CHOSEN), not_differentiable) \
    X(arange_start, "arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(arange, arange) O(start_out, CHOSEN), not_differentiable) \
    X(arange_step, "arange.start_step(Scalar start, Scalar end, Scalar step, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(arange, arange) O(start_out, CHOSEN), not_differentiable) \
    X(linspace, "linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(linspace, linspace) O(out, CHOSEN), not_differentiable) \
    X(eye, "eye(int n, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(eye, eye) O(out, CHOSEN), not_differentiable) \
    X(eye_m, "eye.m(int n, int m, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(eye, eye) O(m_out, CHOSEN), not_differentiable) \
    X(rand, "rand(int[...] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(rand) O(out, CHOSEN), of_parts) \
    X(rand_like, "rand_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", C(rand_like), of_parts) \
    X(randn, "randn(int[...] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(randn) O(out, CHOSEN), of_parts) \
    X(randn_like, "randn_like(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor", C(randn_like), of_parts) \
    X(randint, "randint(int high, int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(randint) O(out, CHOSEN), of_parts) \
    X(randint_low, "randint.low(int low, int high, int[] size, *, ScalarType? dtype=None, Device? device=None) -> Tensor", C(randint_low) O(low_out, CHOSEN), of_parts) \
    X(randperm, "randperm(int n, *, ScalarType? dtype=None, Device? device=None) -> Tensor", K(randperm, randperm) O(out, CHOSEN), not_differentiable) \
    X(uniform_, "uniform_(Tensor(a!) self, float from=0, float to=1) -> Tensor(a!)", K(self, uniform) M("*, Generator? generator=None"), zero) \
    X(normal_, "normal_(Tensor(a!) self, float mean=0, float std=1) -> Tensor(a!)", K(self, normal) M("*, Generator? generator=None"), zero) \
    X(random_, "random_.from(Tensor(a!) self, int from, int? to) -> Tensor(a!)", K(self, random) M("*, Generator? generator=None"), zero) \
    X(random_to_, "random_.to(Tensor(a!) self, int to) -> Tensor(a!)", K(self, random_to) M("*, Generator? generator=None"), zero) \
    X(random_all_, "random_(Tensor(a!) self) -> Tensor(a!)", K(self, random_all) M("*, Generator? generator=None"), zero) \
    X(bernoulli_, "bernoulli_.float(Tensor(a!) self, float p=0.5) -> Tensor(a!)", K(self, bernoulli) M("*, Generator? generator=None"), zero) \
    X(bernoulli_tensor_, "bernoulli_.Tensor(Tensor(a!) self, Tensor p) -> Tensor(a!)", K(self, bernoulli_tensor) M("*, Generator? generator=None"), zero) \
    X(bernoulli, "bernoulli(Tensor self) -> Tensor", K(bernoulli_of, bernoulli_of) M("*, Generator? generator=None") O(out, SAME), not_differentiable) \
    X(bernoulli_p, "bernoulli.p(Tensor self, float p) -> Tensor", C(bernoulli_p) M("*, Generator? generator=None"), of_parts) \
    X(multinomial, "multinomial(Tensor self, int num_samples, bool replacement=False) -> Tensor", K(multinomial, multinomial) M("*, Generator? generator=None") O(out, SAME), not_differentiable) \
    X(dropout, "dropout(Tensor input, float p, bool train) -> Tensor", C(dropout), of_parts)

/* reductions */
#define MT_OPS_REDUCE(X, Y) \
    X(sum, "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", K(sum, sum) H(NONE, ASKED), sum) \
    X(sum_dim, "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", K(sum_dim, sum) O(IntList_out, CHOSEN) H(NONE, ASKED), sum_dim) \
    X(mean, "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", K(mean, mean) O(dtype_out, CHOSEN), mean) \
    X(mean_dim, "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", K(mean_dim, mean) O(out, CHOSEN), mean_dim) \
    X(prod, "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", K(sum, prod) H(FLOAT, ASKED), prod) \
    X(prod_dim, "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", K(prod_dim, prod) O(int_out, CHOSEN) H(FLOAT, ASKED), prod_dim) \
    X(max, "max(Tensor self) -> Tensor", K(whole, max) O(unary_out, CAST), max) \
    X(max_dim, "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", K(pick_dim, max_dim) O(dim_max, SAME), max_dim) \
    X(min, "min(Tensor self) -> Tensor", K(whole, min) O(unary_out, CAST), min) \
    X(min_dim, "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", K(pick_dim, min_dim) O(dim_min, SAME), min_dim) \
    X(amax, "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", K(amax, amax) O(out, SAME), amax) \
    X(amin, "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", K(amax, amin) O(out, SAME), amin) \
    X(argmax, "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", K(argmax, argmax) O(out, SAME), not_differentiable) \
    X(argmin, "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", K(argmax, argmin) O(out, SAME), not_differentiable) \
    X(any, "any(Tensor self) -> Tensor", K(truth, any) O(all_out, TRUTH), not_differentiable) \
    X(any_dim, "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", K(truth_dim, any) O(out, TRUTH), not_differentiable) \
    X(any_dims, "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", K(truth_dims, any) O(dims_out, TRUTH), not_differentiable) \
    X(all, "all(Tensor self) -> Tensor", K(truth, all) O(all_out, TRUTH), not_differentiable) \
    X(all_dim, "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", K(truth_dim, all) O(out, TRUTH), not_differentiable) \
    X(all_dims, "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", K(truth_dims, all) O(dims_out, TRUTH), not_differentiable) \
    X(var, "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", K(var, var) O(correction_out, CAST), var) \
    X(std, "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", K(var, std) O(correction_out, CAST), std) \
    X(norm, "norm.ScalarOpt_dim(Tensor self, Scalar? p=2, int[1] dim=[], bool keepdim=False) -> Tensor", C(norm) O(out, SAME) H(NONE, FLOAT), of_parts) \
    X(linalg_vector_norm, "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", K(vector_norm, vector_norm) O(out, SAME) H(NONE, ASKED), vector_norm) \
    X(cumsum, "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", K(cumsum, cumsum) O(out, CHOSEN) H(NONE, ASKED), cumsum) Y(cumsum) \
    X(logsumexp, "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", K(logsumexp, logsumexp) O(out, CAST) H(NONE, FLOAT), logsumexp) \
    X(topk, "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", K(topk, topk) O(values, SAME), topk) \
    X(sort, "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", K(sort, sort) O(values, SAME), sort) \
    X(argsort, "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", C(argsort), of_parts) \
    X(value_selecting_reduction_backward, "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, int[] sizes, bool keepdim) -> Tensor", C(value_selecting_reduction_backward), of_parts)

/* matrix products, convolution, pooling */
#define MT_OPS_MATRIX(X, Y) \
    X(mm, "mm(Tensor self, Tensor mat2) -> Tensor", K(mm, mm) F(product) A(product) O(out, SAME) H(LOWER, LOWER), mm) \
    X(bmm, "bmm(Tensor self, Tensor mat2) -> Tensor", K(bmm, bmm) F(product) A(product) O(out, SAME) H(LOWER, LOWER), bmm) \
    X(addmm, "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", K(addmm, addmm) F(added_product) A(product) O(out, SAME) H(LOWER, LOWER), addmm) \
    X(baddbmm, "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", K(baddbmm, baddbmm) F(added_product) A(product) O(out, SAME) H(LOWER, LOWER), baddbmm) \
    X(mv, "mv(Tensor self, Tensor vec) -> Tensor", K(mv, mv) O(out, SAME) H(NONE, LOWER), mv) \
    X(dot, "dot(Tensor self, Tensor tensor) -> Tensor", K(dot, dot) O(out, SAME) H(NONE, WIDEST), dot) \
    X(outer, "outer(Tensor self, Tensor vec2) -> Tensor", C(outer) O(out, CAST), of_parts) \
    X(ger, "ger(Tensor self, Tensor vec2) -> Tensor", C(ger) O(out, CAST), of_parts) \
    X(matmul, "matmul(Tensor self, Tensor other) -> Tensor", C(matmul) A(product) O(out, SAME) H(LOWER, LOWER), of_parts) \
    X(einsum, "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", C(einsum) A(product) H(NONE, LOWER), of_parts) \
    X(linear, "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", C(linear) A(product) H(LOWER, LOWER), of_parts) \
    X(scaled_dot_product_attention, "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor", C(scaled_dot_product_attention) A(product) H(LOWER, LOWER), of_parts) \
    X(conv2d, "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=[1, 1], int[2] padding=[0, 0], int[2] dilation=[1, 1], int groups=1) -> Tensor", C(conv2d) F(convolution) A(product) H(LOWER, LOWER), of_parts) \
    X(conv1d, "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=[1], int[1] padding=[0], int[1] dilation=[1], int groups=1) -> Tensor", C(conv1d) A(product) H(LOWER, LOWER), of_parts) \
    X(convolution, "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor", K(convolution, convolution) A(product) H(NONE, LOWER), convolution) \
    X(convolution_backward, "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, int groups, int[] output_mask) -> (Tensor, Tensor, Tensor)", K(convolution_backward, convolution_backward) A(product), convolution_backward) \
    X(max_pool2d, "max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, 0], int[2] dilation=[1, 1], bool ceil_mode=False) -> Tensor", C(max_pool2d), of_parts) \
    X(max_pool2d_with_indices, "max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, 0], int[2] dilation=[1, 1], bool ceil_mode=False) -> (Tensor, Tensor)", K(max_pool2d, max_pool2d), max_pool2d) \
    X(max_pool2d_with_indices_backward, "max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor", K(max_pool2d_backward, max_pool2d_backward), max_pool2d_backward) \
    X(avg_pool2d, "avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, 0], bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", K(avg_pool2d, avg_pool2d) O(out, SAME), avg_pool2d) \
    X(avg_pool2d_backward, "avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor", K(avg_pool2d_backward, avg_pool2d_backward), avg_pool2d_backward) \
    X(adaptive_avg_pool2d, "adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor", C(adaptive_avg_pool2d) O(out, SAME), of_parts) \
    X(_adaptive_avg_pool2d, "_adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor", K(adaptive_avg_pool2d, adaptive_avg_pool2d), adaptive_avg_pool2d) \
    X(_adaptive_avg_pool2d_backward, "_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", K(adaptive_avg_pool2d_backward, adaptive_avg_pool2d_backward), adaptive_avg_pool2d_backward)

/* normalisation, softmax, losses */
#define MT_OPS_NN(X, Y) \
    X(softmax, "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", C(softmax) O(int_out, SAME) H(NONE, ASKED), of_parts) \
    X(_softmax, "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", K(softmax, softmax) O(out, SAME), softmax) \
    X(_softmax_backward_data, "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor", K(softmax_backward, softmax_backward), softmax_backward) \
    X(log_softmax, "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", C(log_softmax) O(int_out, SAME) H(NONE, ASKED), of_parts) \
    X(_log_softmax, "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", K(softmax, log_softmax) O(out, SAME), log_softmax) \
    X(_log_softmax_backward_data, "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor", K(softmax_backward, log_softmax_backward) O(out, SAME), log_softmax_backward) \
    X(layer_norm, "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor", C(layer_norm) H(NONE, FLOAT), of_parts) \
    X(native_layer_norm, "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", K(layer_norm, layer_norm) H(NONE, FLOAT), layer_norm) \
    X(native_layer_norm_backward, "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, int[] output_mask) -> (Tensor, Tensor, Tensor)", K(layer_norm_backward, layer_norm_backward), not_implemented) \
    X(rms_norm, "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", C(rms_norm) H(NONE, FLOAT), of_parts) \
    X(_fused_rms_norm, "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)", C(fused_rms_norm), of_parts) \
    X(batch_norm, "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", C(batch_norm), of_parts) \
    X(_batch_norm_impl_index, "_batch_norm_impl_index(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor, Tensor)", C(batch_norm_impl_index), of_parts) \
    X(native_batch_norm, "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", K(batch_norm, batch_norm), batch_norm) \
    X(native_batch_norm_backward, "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, int[] output_mask) -> (Tensor, Tensor, Tensor)", K(batch_norm_backward, batch_norm_backward), not_implemented) \
    X(group_norm, "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor", C(group_norm) H(NONE, FLOAT), of_parts) \
    X(instance_norm, "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor", C(instance_norm), of_parts) \
    X(mse_loss, "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", K(loss, mse_loss) O(out, CAST) H(FLOAT, FLOAT), mse_loss) \
    X(mse_loss_backward, "mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", K(loss_backward, mse_loss_backward), mse_loss_backward) \
    X(l1_loss, "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", C(l1_loss) H(FLOAT, FLOAT), of_parts) \
    X(smooth_l1_loss, "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor", K(loss, smooth_l1_loss) O(out, CAST) H(FLOAT, FLOAT), smooth_l1_loss) \
    X(smooth_l1_loss_backward, "smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor", K(loss_backward, smooth_l1_loss_backward), not_implemented) \
    X(binary_cross_entropy, "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor", K(bce, bce) O(out, SAME) H(FLOAT, REFUSED), bce) \
    X(binary_cross_entropy_backward, "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor", K(loss_backward, bce_backward), not_implemented) \
    X(binary_cross_entropy_with_logits, "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor", K(bce_logits, bce_logits) H(FLOAT, FLOAT), bce_logits) \
    X(kl_div, "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", C(kl_div) H(FLOAT, FLOAT), of_parts) \
    X(xlogy, "xlogy.Tensor(Tensor self, Tensor other) -> Tensor", K(xlogy, xlogy) O(OutTensor, CAST), xlogy) \
    X(nll_loss_nd, "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor", C(nll_loss_nd), of_parts) \
    X(nll_loss, "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor", C(nll_loss) O(out, SAME) H(FLOAT, FLOAT), of_parts) \
    X(nll_loss_forward, "nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, Tensor total_weight)", K(nll_loss, nll_loss), nll_loss) \
    X(nll_loss_backward, "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, Tensor total_weight) -> Tensor", K(nll_loss_backward, nll_loss_backward), not_implemented) \
    X(nll_loss2d, "nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100) -> Tensor", C(nll_loss2d) H(FLOAT, FLOAT), of_parts) \
    X(nll_loss2d_forward, "nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index) -> (Tensor output, Tensor total_weight)", K(nll_loss2d, nll_loss), nll_loss2d) \
    X(nll_loss2d_backward, "nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, Tensor total_weight) -> Tensor", K(nll_loss2d_backward, nll_loss_backward), not_implemented) \
    X(cross_entropy_loss, "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, int ignore_index=-100, float label_smoothing=0.0) -> Tensor", C(cross_entropy_loss) H(FLOAT, NONE), of_parts)

/* recurrent layers */
#define MT_OPS_RNN(X, Y) \
    X(lstm, "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)", C(lstm) A(product), of_parts) \
    X(lstm_data, "lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)", C(lstm_data) A(product), of_parts) \
    X(gru, "gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", C(gru) A(product), of_parts) \
    X(gru_data, "gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)", C(gru_data) A(product), of_parts) \
    X(rnn_tanh, "rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", C(rnn_tanh) A(product), of_parts) \
    X(rnn_tanh_data, "rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)", C(rnn_tanh_data) A(product), of_parts) \
    X(rnn_relu, "rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", C(rnn_relu) A(product), of_parts) \
    X(rnn_relu_data, "rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)", C(rnn_relu_data) A(product), of_parts) \
    X(lstm_cell, "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)", C(lstm_cell) A(product) H(NONE, LOWER), of_parts) \
    X(gru_cell, "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", C(gru_cell) A(product) H(NONE, LOWER), of_parts) \
    X(rnn_tanh_cell, "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", C(rnn_tanh_cell) A(product) H(NONE, LOWER), of_parts) \
    X(rnn_relu_cell, "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", C(rnn_relu_cell) A(product) H(NONE, LOWER), of_parts)

/* optimizer steps, all parameters at once. Like PyTorch's fused ops, but the op increments state_steps; lists
 * of states that the options do not need may be empty */
#define MT_OPS_OPTIM(X, Y) \
    X(_fused_sgd_, "_fused_sgd_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] momentum_buffer_list, *, float weight_decay, float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step) -> ()", K(optimizer_step, fused_sgd) M("Tensor? grad_scale=None, Tensor? found_inf=None") L("momentum_buffer_list:momentum"), not_implemented) \
    X(_fused_adam_, "_fused_adam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize) -> ()", K(optimizer_step, fused_adam) M("Tensor? grad_scale=None, Tensor? found_inf=None") L("max_exp_avg_sqs:amsgrad"), not_implemented) \
    X(_fused_adamw_, "_fused_adamw_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] max_exp_avg_sqs, Tensor(e!)[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize) -> ()", K(optimizer_step, fused_adamw) M("Tensor? grad_scale=None, Tensor? found_inf=None") L("max_exp_avg_sqs:amsgrad"), not_implemented) \
    X(_fused_adagrad_, "_fused_adagrad_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] state_sums, Tensor(c!)[] state_steps, *, float lr, float lr_decay, float weight_decay, float eps, bool maximize) -> ()", K(optimizer_step, fused_adagrad) M("Tensor? grad_scale=None, Tensor? found_inf=None"), not_implemented) \
    X(_fused_rmsprop_, "_fused_rmsprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] grad_avgs, Tensor(d!)[] momentum_buffer_list, Tensor(e!)[] state_steps, *, float lr, float alpha, float eps, float weight_decay, float momentum, bool centered, bool maximize) -> ()", K(optimizer_step, fused_rmsprop) L("grad_avgs:centered momentum_buffer_list:momentum"), not_implemented) \
    X(_fused_adadelta_, "_fused_adadelta_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] square_avgs, Tensor(c!)[] acc_deltas, Tensor(d!)[] state_steps, *, float lr, float rho, float eps, float weight_decay, bool maximize) -> ()", K(optimizer_step, fused_adadelta), not_implemented) \
    X(_fused_adamax_, "_fused_adamax_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_infs, Tensor(d!)[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool maximize) -> ()", K(optimizer_step, fused_adamax), not_implemented) \
    X(_fused_nadam_, "_fused_nadam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] mu_products, Tensor(e!)[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float momentum_decay, float eps, bool decoupled_weight_decay, bool maximize) -> ()", K(optimizer_step, fused_nadam), not_implemented) \
    X(_fused_radam_, "_fused_radam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool decoupled_weight_decay, bool maximize) -> ()", K(optimizer_step, fused_radam), not_implemented) \
    X(_fused_asgd_, "_fused_asgd_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] axs, Tensor(c!)[] mus, Tensor(d!)[] etas, Tensor(e!)[] state_steps, *, float lambd, float lr, float t0, float alpha, float weight_decay, bool maximize) -> ()", K(optimizer_step, fused_asgd), not_implemented) \
    X(_fused_rprop_, "_fused_rprop_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] prevs, Tensor(c!)[] step_sizes, Tensor(d!)[] state_steps, *, float etaminus, float etaplus, float step_size_min, float step_size_max, bool maximize) -> ()", K(optimizer_step, fused_rprop), not_implemented) \
    X(_fused_sparse_adam_, "_fused_sparse_adam_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] state_steps, *, float lr, float beta1, float beta2, float eps, bool maximize) -> ()", K(optimizer_step, fused_sparse_adam), not_implemented)

#define MT_OPS(X, Y) \
    MT_OPS_BINARY(X, Y) \
    MT_OPS_UNARY(X, Y) \
    MT_OPS_SHAPE(X, Y) \
    MT_OPS_INDEX(X, Y) \
    MT_OPS_CREATE(X, Y) \
    MT_OPS_REDUCE(X, Y) \
    MT_OPS_MATRIX(X, Y) \
    MT_OPS_NN(X, Y) \
    MT_OPS_RNN(X, Y) \
    MT_OPS_OPTIM(X, Y)

/* clang-format on */

#define X(id, schema, form, derivative) MT_OP_##id,
#define Y(id) MT_OP_##id##_,
enum mt_op {
    MT_OPS(X, Y) MT_OP_COUNT
};
#undef X
#undef Y

#endif
