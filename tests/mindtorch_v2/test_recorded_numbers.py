"""Numbers as operands: a recorded call converts them to tensors, as PyTorch does. The result is the same whether the call is
recorded or not, and the record is the same as PyTorch's."""
import contextlib
import inspect
import itertools
import math

import numpy as np
import pytest

import mindtorch_v2 as ours

try:
    import torch as theirs
except ImportError:
    theirs = None

DTYPES = ("bool", "int32", "int64", "float32", "float64")
NUMBERS = (0, 1, 2, -3, True, False, 0.5, -1.25, 0.1, 1e-42, 1e300, math.inf, math.nan, 2**31, 2**53 + 1, -(2**63))
SHAPES = {"vector": (3,), "none": (), "one": (1,), "empty": (0,), "matrix": (2, 3)}

OPS = {
    "x + n": lambda torch, x, n: x + n, "n + x": lambda torch, x, n: n + x, "x - n": lambda torch, x, n: x - n,
    "n - x": lambda torch, x, n: n - x, "x * n": lambda torch, x, n: x * n, "n * x": lambda torch, x, n: n * x,
    "x / n": lambda torch, x, n: x / n, "n / x": lambda torch, x, n: n / x, "x // n": lambda torch, x, n: x // n,
    "x % n": lambda torch, x, n: x % n, "x ** n": lambda torch, x, n: x ** n, "n ** x": lambda torch, x, n: n ** x,
    "x & n": lambda torch, x, n: x & n, "x | n": lambda torch, x, n: x | n, "x ^ n": lambda torch, x, n: x ^ n,
    "x == n": lambda torch, x, n: x == n, "x != n": lambda torch, x, n: x != n, "x < n": lambda torch, x, n: x < n,
    "x <= n": lambda torch, x, n: x <= n, "n > x": lambda torch, x, n: n > x, "n >= x": lambda torch, x, n: n >= x,
    "add alpha": lambda torch, x, n: x.add(n, alpha=2), "sub alpha": lambda torch, x, n: torch.sub(x, n, alpha=3),
    "rsub alpha": lambda torch, x, n: torch.rsub(x, n, alpha=2), "add_": lambda torch, x, n: x.add_(n), "sub_": lambda torch, x, n: x.sub_(n),
    "mul_": lambda torch, x, n: x.mul_(n), "div_": lambda torch, x, n: x.div_(n), "pow_": lambda torch, x, n: x.pow_(n),
    "mul(n, x)": lambda torch, x, n: torch.mul(n, x), "0-dim": lambda torch, x, n: x * torch.tensor(n) + n,
}  # fmt: skip


def operand(torch, dtype, shape):
    values = np.array([3, -2, 1, 0, 7, 2], dtype=np.float64)[: math.prod(shape)].reshape(shape)
    return torch.tensor(values.tolist(), dtype=getattr(torch, dtype))


def outcome(torch, run):
    try:
        made = run()
    except Exception as raised:
        return type(raised).__name__, str(raised).replace("mindtorch_v2", "torch")
    return str(made.dtype).split(".")[-1], tuple(made.shape), made.detach().numpy().copy()


def profile(torch, **options):
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def same(a, b):
    return len(a) == len(b) and a[:2] == b[:2] and (len(a) == 2 or a[2].tobytes() == b[2].tobytes() or
                                                   np.array_equal(a[2], b[2], equal_nan=a[2].dtype.kind == "f"))


def close(a, b):
    """PyTorch's powers and remainders differ in the last bit; errors are compared by type."""
    if len(a) == 2 or len(b) == 2:
        return len(a) == len(b)
    return a[:2] == b[:2] and np.allclose(a[2], b[2], rtol=1e-6 if a[0] == "float32" else 1e-14, atol=0, equal_nan=True)


def outcomes(torch, op, dtype):
    return {f"{shape} {number!r}": outcome(torch, lambda: OPS[op](torch, operand(torch, dtype, SHAPES[shape]), number))
            for shape, number in itertools.product(SHAPES, NUMBERS)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_results_do_not_depend_on_being_recorded(op, dtype):
    plain = outcomes(ours, op, dtype)
    with profile(ours, record_shapes=True, profile_memory=True):
        seen = outcomes(ours, op, dtype)
    assert {case: (plain[case], seen[case]) for case in plain if not same(plain[case], seen[case])} == {}


@pytest.mark.skipif(theirs is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_recorded_results_are_pytorchs(op, dtype):
    with profile(ours):
        mine = outcomes(ours, op, dtype)
    with np.errstate(all="ignore"):
        differ = {case: (mine[case], due) for case, due in outcomes(theirs, op, dtype).items()
                  if not (same(mine[case], due) or close(mine[case], due))}
    assert differ == {}


def test_numbers_promote_by_the_default_dtype_then():
    x, before = ours.ones(2, dtype=ours.int64), ours.get_default_dtype()
    try:
        for default in (ours.float64, ours.float32):
            ours.set_default_dtype(default)
            with profile(ours):
                made = x + 0.1
            assert made.dtype == default and made.tolist() == (x + 0.1).tolist()
    finally:
        ours.set_default_dtype(before)


@pytest.mark.parametrize("recorded_forward", (False, True))
@pytest.mark.parametrize("op", [op for op in OPS if not any(sign in op for sign in "&|^=<>_%//")] + ["x / n", "n / x", "x % n"])
def test_gradients_do_not_depend_on_being_recorded(op, recorded_forward):
    """If the forward pass is recorded, the node keeps a tensor, otherwise the number; the backward pass may be recorded alone."""
    def gradient(forward, backward):
        x = ours.tensor([3.0, -2.0, 0.5], requires_grad=True)
        weight = ours.tensor([1.0, 10.0, 100.0])
        with profile(ours) if forward else contextlib.nullcontext():
            loss = (OPS[op](ours, x, number) * weight).sum()
        with profile(ours) if backward else contextlib.nullcontext():
            loss.backward()
        return x.grad.numpy().copy(), x.grad._version

    for number in (0, 1, 2, -3, 0.5, -1.25):
        plain, version = gradient(False, False)
        seen, seen_version = gradient(recorded_forward, True)
        assert plain.tobytes() == seen.tobytes() and version == seen_version, number


# ------------------------------------------------------------------------------------------------- what is recorded


def tree(torch, run, **options):
    """Lines: ops with their tensors, allocations and frees."""
    with profile(torch, record_shapes=True, profile_memory=True, **options) as prof:
        run()

    def tensors(fields):
        return [f"{str(t.dtype).split('.')[-1]}{list(t.sizes)}#{t.id}" for t in getattr(fields, "inputs", ()) if hasattr(t, "sizes")]

    def lines(nodes, depth):
        for node in nodes:
            about = [node.extra_fields.alloc_size] if node.name == "[memory]" else tensors(node.extra_fields)
            yield "  " * depth + " ".join(map(str, [node.name, *about]))
            yield from lines(node.children, depth + 1)

    return "\n".join(lines(prof.profiler.kineto_results.experimental_event_tree(), 0))


def text(lines):
    return inspect.cleandoc(lines).strip()


def dropped(torch, expression, **names):
    """Computes it and drops the result, so that its free is recorded."""
    code = compile(expression, "<expression>", "exec")
    return lambda: exec(code, {"torch": torch, **names})


ADDED = """
    [memory] 8
    aten::add float32[3]#1 int64[]#0
      aten::to int64[]#0
        aten::_to_copy int64[]#0
          aten::empty_strided
            [memory] 4
          aten::copy_ float32[]#2 int64[]#0
      [memory] 12
      [memory] -4
    [memory] -8
    [memory] -12"""


def test_a_number_is_a_tensor_made_before_the_op_and_converted_within():
    assert tree(ours, dropped(ours, "x + 1", x=ours.ones(3))) == text(ADDED)
    same_dtype = tree(ours, dropped(ours, "x + 1", x=ours.ones(3, dtype=ours.int64)))
    assert same_dtype == text("""
        [memory] 8
        aten::add int64[3]#1 int64[]#0
          [memory] 24
        [memory] -8
        [memory] -24""")


def test_code_of_users_within_ops_is_as_outside():
    class Twice(ours.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    w = ours.ones(3, requires_grad=True)
    w.register_hook(lambda grad: grad + 1)
    loss = Twice.apply(w).sum()
    lines = tree(ours, loss.backward).splitlines()
    found = [(line.split()[0], len(line) - len(line.lstrip())) for line in lines if line.split()[0] in ("aten::mul", "aten::add")]
    assert [name for name, _ in found] == ["aten::mul", "aten::add"], "none within another"


def test_a_mode_is_given_the_number():
    from mindtorch_v2.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(args[1:])
            return func(*args, **(kwargs or {}))

    with profile(ours), Watch():
        ours.ones(2) * 3
    assert (3,) in seen


def test_numbers_stay_numbers_on_an_accelerator():
    if not ours.npu.is_available():
        pytest.skip("no accelerator")
    x = ours.ones(3, device="npu")
    assert "aten::to" not in tree(ours, lambda: x.add_(1))


def test_tensors_with_dims_are_not_copied_to_be_converted():
    x, y = ours.ones(1000), ours.ones(1000, dtype=ours.int64)
    assert tree(ours, dropped(ours, "x + y", x=x, y=y)).splitlines()[1:] == ["  [memory] 4000", "[memory] -4000"]


def test_what_an_in_place_op_keeps_for_backward_is_a_clone():
    x, w = ours.ones(3), ours.ones(3, requires_grad=True)
    assert tree(ours, lambda: x.mul_(w)) == text("""
        aten::mul_ float32[3]#0 float32[3]#1
          aten::clone float32[3]#0
            aten::empty_strided
              [memory] 12
            aten::copy_ float32[3]#2 float32[3]#0""")


def test_operators_in_place_are_ops_in_place():
    def run(x=ours.tensor([7, 8]), y=ours.tensor([2, 3])):
        x //= y
        x %= y
        x **= y
        x &= y
        x |= y
        x ^= y

    shown = [line.split()[0] for line in tree(ours, run).splitlines() if line[0] != " "]
    assert shown == ["aten::floor_divide_", "aten::remainder_", "aten::pow_", "aten::__iand__", "aten::__ior__",
                     "aten::__ixor__"]


def test_an_annotation_that_is_not_left_ends_with_the_one_around_it():
    def run():
        with ours.profiler.record_function("around"):
            kept.append(ours.profiler.record_function("never left").__enter__())
            x.neg()
            with ours.profiler.record_function("inside"):
                x.neg()
        x.sin()

    x, kept = ours.ones(3), []
    with profile(ours) as prof:
        run()

    def names(nodes):
        return [(node.name, names(node.children)) for node in nodes]

    assert names(prof.profiler.kineto_results.experimental_event_tree()) == [
        ("around", [("never left", [("aten::neg", []), ("inside", [("aten::neg", [])])])]), ("aten::sin", [])]


def test_each_numbers_memory_is_its_own():
    """The same address again and again: each time another tensor, allocated and freed in turn."""
    def run():
        for _ in range(10):
            x.add_(2)

    x = ours.ones(1)
    with profile(ours, record_shapes=True, profile_memory=True) as prof:
        run()
    events = [(node.extra_fields.alloc_size, node.extra_fields.id) for node in walk(prof) if node.name == "[memory]"]
    numbers = [id for size, id in events if size == 8]
    assert len(set(numbers)) == len(numbers) == 10 and [abs(size) for size, _ in events] == [8, 4, 4, 8] * 10
    assert [id for size, id in events if size == -8] == numbers


def walk(prof):
    todo = list(prof.profiler.kineto_results.experimental_event_tree())
    while todo:
        node = todo.pop(0)
        todo[:0] = node.children
        yield node


def test_data_flows_from_a_number_and_the_result_that_nothing_uses_is_no_tensors():
    def flow(run):
        with profile(ours, record_shapes=True, profile_memory=True, with_stack=True) as prof:
            run()
        return [(node._event.name, [key.id for key in node.inputs], [key.id for key in node.outputs], len(node.intermediates))
                for node in prof._memory_profile()._data_flow_graph.flow_nodes if node.inputs or node.outputs]

    x, kept = ours.ones(1), []
    assert flow(dropped(ours, "x.mul(2)", x=x)) == [("[memory]", [], [0], 0), ("aten::mul", [0, 1], [], 1), ("[memory]", [0], [], 0)]
    assert flow(lambda: kept.append(x.mul(2)))[1] == ("aten::mul", [0, 1], [3], 1), "somebody has it"


def test_ops_with_numbers_have_their_schemas():
    from mindtorch_v2.profiler._memory_profiler import SchemaMatcher

    w = ours.ones(3, requires_grad=True)
    with profile(ours, record_shapes=True) as prof:
        ((w.mul(2).add_(2) ** 3 - 1) > 0).sum()
        (w ** 3).sum().backward()
    found = {(node.name, schema.overload_name) for node in walk(prof) if node.name.startswith("aten::")
             for schema in SchemaMatcher.match_schemas(node.extra_fields)}
    assert found >= {("aten::mul", "Tensor"), ("aten::mul", "Scalar"), ("aten::add_", "Tensor"), ("aten::result_type", "Scalar"),
                     ("aten::gt", "Scalar"), ("aten::to", "dtype"), ("aten::_to_copy", ""), ("aten::copy_", "")}


# What the runtime does as PyTorch does, to the last allocation. Of tensors without dims or with one element.
ALIKE = (
    "x + 1", "1 + x", "x + 1.5", "x + True", "i + 1", "x - 1", "x.sub(1, alpha=2)", "1 - x", "x * 2", "x / 2", "1 / x", "x % 2",
    "x ** 2", "x ** 1", "x ** 0", "x.pow(0.5)", "i ** 1", "x.add_(1)", "x.sub_(1)", "x.mul_(2)", "x.div_(2)", "x.pow_(2)", "s + 1.5", "s / 3", "o / 3",
    "o + 0.5", "x + d", "d * x", "x + x", "x * w", "x.mul_(w)", "(y - (w + v)) ** 2", "((y - (w + v)) ** 2).backward()", "(w * 2).backward()", "(w / 2).backward()",
    "(w + 1).backward()", "(2 - w).backward()", "w.add(v, alpha=2).backward()", "w.sub(v, alpha=2).backward()", "w.sqrt().backward()",
)  # fmt: skip


@pytest.mark.skipif(theirs is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("expression", ALIKE)
def test_trees_are_pytorchs_with_all_that_is_inside(expression):
    def of(torch):
        names = dict(x=torch.ones(3), i=torch.ones(3, dtype=torch.int64), s=torch.tensor(2), o=torch.ones(1, dtype=torch.int64),
                     d=torch.tensor(2.0, dtype=torch.float64), w=torch.ones(3 if expression == "x.mul_(w)" else 1, requires_grad=True),
                     v=torch.ones(1, requires_grad=True), y=torch.ones(1))
        return tree(torch, dropped(torch, expression, **names))

    assert of(ours) == of(theirs)
