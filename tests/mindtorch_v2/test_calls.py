"""The call parser: every op, with valid and invalid arguments. Invalid ones may only raise exceptions."""
import random
import re
import zlib

import numpy as np
import pytest

import mindtorch_v2 as torch
from mindtorch_v2 import _C

ROWS = _C._op_table()
IDS = [row[0] for row in ROWS if row[4]]
ALLOWED = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError, OverflowError)
ANY = [None, True, 0, 1, -1, 3, 2**70, -(2**63), 1.5, float("nan"), "x", [], [1, 2], (2, 3), [1, "a"], [None], object(), {}, 1j,
       b"ab", np.float32(2), np.ones((2, 2)), torch.float32, "cpu", "npu", [10**10, 10**10], [2**40] * 3]


def test_a_tensor_without_dims_is_an_operand_before_it_is_an_int():
    """max(x, torch.tensor(0)) was max along dim 0."""
    x = torch.tensor([1, -2, 7])
    assert torch.max(x, torch.tensor(0)).tolist() == [1, 0, 7] and torch.min(x, torch.tensor(5)).tolist() == [1, -2, 5]
    assert x.max(torch.tensor(2)).tolist() == [2, 2, 7] and x.max(other=torch.tensor(0)).tolist() == [1, 0, 7]
    assert [t.tolist() for t in x.split(torch.tensor(2))] == [[1, -2], [7]]
    assert x.select(0, torch.tensor(2)).item() == 7 and x.softmax(torch.tensor(0), torch.float32).shape == (3,)


def params_of(schema):
    """(type, name) of each parameter."""
    inside = schema[schema.index("(") + 1 : schema.rindex(") ->")]
    parts = re.findall(r"([A-Za-z]+(?:\([a!]*\))?\??(?:\[[^\]]*\])?\??) (\w+)(?:=(?:\[[^\]]*\]|[^,]*))?(?:, |$)", inside.replace("*, ", ""))
    return [(re.sub(r"\([a!]*\)", "", kind), name) for kind, name in parts]


def some_tensor(chance):
    shapes = [(), (2,), (3,), (0,), (2, 3), (3, 2), (1, 3), (0, 3), (2, 3, 4), (1, 2, 3, 3)]
    dtype = chance.choice([torch.float32] * 4 + [torch.float64, torch.int64, torch.int32, torch.bool])
    t = torch.tensor(np.array([chance.randint(0, 2) for _ in range(72)])[: int(np.prod(s := chance.choice(shapes)))].reshape(s).tolist(),
                     dtype=dtype).reshape(list(s))
    how = chance.random()
    if how < 0.2 and t.dim() >= 2:
        t = t.transpose(0, 1)
    elif how < 0.3:
        t = t.expand(2, *t.shape)
    elif how < 0.5 and t.is_floating_point():
        t = t.detach().requires_grad_()
    return t


def fitting(kind, chance):
    if "?" in kind and chance.random() < 0.3:
        return None
    kind = kind.replace("?", "")
    if kind == "Tensor":
        return some_tensor(chance)
    if kind.startswith("Tensor["):
        return [some_tensor(chance) for _ in range(chance.randint(0, 3))]
    if kind == "Operand":
        return chance.choice([some_tensor(chance), 2, -1, 0, 0.5, True])
    if kind == "Scalar":
        return chance.choice([0, 1, -2, 0.5, 3.0, True, torch.tensor(2)])
    if kind.startswith("int["):
        return chance.choice([[], [0], [1], [-1], [0, 1], [2, 3], [1, 1], [0, -1], [2, 3, 4], 2, [3] * 9, [-7], [2**33, 2**33]])
    return {
        "int": lambda: chance.choice([0, 1, -1, 2, 3, -5, 10, 2**62]),
        "float": lambda: chance.choice([0.0, 0.5, 1.0, -1.0, 1e30, float("nan")]),
        "bool": lambda: chance.choice([True, False]),
        "str": lambda: chance.choice(["none", "tanh", "what"]),
        "MemoryFormat": lambda: chance.choice([torch.contiguous_format, torch.preserve_format, torch.channels_last]),
        "ScalarType": lambda: chance.choice([torch.float32, torch.float64, torch.int64, torch.bool, float]),
        "Device": lambda: chance.choice(["cpu", torch.device("cpu"), "npu:0", "nowhere"]),
        "MemoryFormat": lambda: chance.choice([torch.contiguous_format, torch.preserve_format, torch.channels_last, 7]),
    }[kind]()


@pytest.mark.parametrize("name", IDS)
def test_random_arguments_give_results_or_exceptions(name):
    chance = random.Random(zlib.crc32(name.encode()))
    schema = next(row[2] for row in ROWS if row[0] == name)
    params = params_of(schema)
    call = getattr(_C.ops, name)
    for _ in range(120):
        args, named = [], {}
        for kind, word in params[: chance.randint(0, len(params)) if chance.random() < 0.3 else len(params)]:
            value = chance.choice(ANY) if chance.random() < 0.05 else fitting(kind, chance)
            if chance.random() < 0.25 or named:
                named[word] = value
            else:
                args.append(value)
        if chance.random() < 0.05:
            named["no_such_word"] = 1
        try:
            made = call(*args, **named)
        except ALLOWED as error:
            assert str(error), (name, args, named)
        else:
            for t in made if isinstance(made, tuple) else (made,):
                if t is not None:
                    repr(t)


def test_a_wrong_type_is_named_with_its_position():
    x = torch.ones(2)
    with pytest.raises(TypeError, match=r"add\(\): argument 'other' \(position 2\) must be Tensor, not str"):
        torch.add(x, "a")
    with pytest.raises(TypeError, match=r"add\(\): argument 'other' \(position 1\) must be Tensor, not str"):
        x.add("a")
    with pytest.raises(TypeError, match=r"must be tuple of ints, not str"):
        x.expand("a")
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor' and 'str'"):
        x + "a"


def test_missing_unexpected_and_surplus_arguments_are_reported():
    x = torch.ones(2)
    with pytest.raises(TypeError, match=r'mul\(\) missing 1 required positional arguments: "other"'):
        torch.mul(x)
    with pytest.raises(TypeError, match=r"mul\(\) got an unexpected keyword argument 'foo'"):
        torch.mul(x, x, foo=1)
    with pytest.raises(TypeError, match=r"mul\(\) got multiple values for argument 'other'"):
        torch.mul(x, x, other=x)
    with pytest.raises(TypeError, match=r"mul\(\) takes 2 positional arguments but 3 were given"):
        torch.mul(x, x, x)
    with pytest.raises(TypeError, match=r"sum\(\) received an invalid combination of arguments - got \(str\)"):
        x.sum("a")


def test_keywords_have_numpys_names_too():
    x = torch.ones(2, 3)
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert torch.sum(input=x, dim=0).tolist() == [2.0, 2.0, 2.0]


def test_overloads_prefer_tensors_to_numbers():
    x = torch.tensor([2.0, 3.0])
    two = torch.tensor(2.0)
    assert x.pow(two).tolist() == [4.0, 9.0]
    assert torch.pow(2, x).tolist() == [4.0, 8.0]
    assert torch.max(x, torch.tensor([5.0, 1.0])).tolist() == [5.0, 3.0]
    values, indices = torch.max(x, 0)
    assert (values.item(), indices.item()) == (3.0, 1)
    assert torch.max(x, 0).values.item() == 3.0
    assert [p.tolist() for p in torch.arange(5).split([2, 3])] == [[0, 1], [2, 3, 4]]


def test_sizes_are_spread_or_a_tuple():
    assert torch.zeros(2, 3).shape == torch.zeros((2, 3)).shape == torch.zeros([2, 3]).shape == (2, 3)
    assert torch.zeros(()).shape == ()
    x = torch.arange(6)
    assert x.view(2, 3).shape == x.view((2, 3)).shape == x.reshape(torch.Size([2, 3])).shape == (2, 3)
    assert x.view(np.int64(2), torch.tensor(3)).shape == (2, 3)


def test_zero_dim_tensors_and_numpy_scalars_stand_for_numbers():
    assert torch.full((2,), torch.tensor(3.0)).tolist() == [3.0, 3.0]
    assert (torch.ones(2) * np.float32(2)).tolist() == [2.0, 2.0]
    assert (torch.ones(2, dtype=torch.int64) + np.int64(2)).dtype == torch.int64
    assert torch.arange(torch.tensor(3)).tolist() == [0, 1, 2]


def test_ints_beyond_64_bits_are_refused():
    with pytest.raises(OverflowError, match="too big"):
        torch.ones(2) + 2**70
    with pytest.raises(ValueError, match="Overflow"):
        torch.zeros(2**70)
