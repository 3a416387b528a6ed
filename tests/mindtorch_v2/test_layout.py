"""How results of elementwise ops lie in memory: like their operands, as in PyTorch."""
import pytest

import mindtorch_v2 as torch

turned = torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1)      # strides 1, 12, 4


@pytest.mark.parametrize("make", [lambda a: a + 1, lambda a: a + a, lambda a: a * a.contiguous(), lambda a: -a, torch.relu, torch.exp,
                                  lambda a: a > 3, lambda a: torch.where(a > 3, a, 0.0), lambda a: a.clamp(0, 5), lambda a: a.clone(),
                                  lambda a: a.double(), torch.empty_like, torch.zeros_like, lambda a: torch.addcmul(a, a, a),
                                  lambda a: a + torch.ones(3), lambda a: torch.lerp(a, a, 0.5), lambda a: 1 - a])
def test_results_keep_the_order_of_their_operands(make):
    got = make(turned)
    assert got.stride() == (1, 12, 4) and got.shape == turned.shape
    if make not in (torch.empty_like,):
        right = make(turned.contiguous())
        assert right.stride() == (6, 3, 1) and got.tolist() == right.tolist()


def test_the_first_operand_that_knows_decides():
    rows, columns = torch.ones(3, 4), torch.ones(4, 3).t()
    assert (rows + columns).stride() == (4, 1) and (columns + rows).stride() == (1, 3)
    assert (torch.ones(4) + columns).stride() == (1, 3)
    assert (torch.ones(1).expand(3, 4) + columns).stride() == (1, 3)      # a repeated element says nothing
    assert (columns.requires_grad_() * 2).stride() == (1, 3)


def test_gaps_are_closed():
    x = torch.arange(48.0).reshape(6, 8)[::2, ::2]
    assert (x + 1).stride() == (4, 1) and x.clone().stride() == (4, 1)
    y = x.t()
    assert (y + 1).stride() == (1, 4) and y.clone().stride() == (1, 4) and y.contiguous().stride() == (3, 1)
    assert (y + 1).tolist() == [[v + 1 for v in row] for row in y.tolist()]


def test_contiguous_is_contiguous():
    assert turned.contiguous().stride() == (6, 3, 1)
    assert turned.clone(memory_format=torch.contiguous_format).stride() == (6, 3, 1)
    assert turned.clone(memory_format=torch.preserve_format).stride() == (1, 12, 4)
    assert turned.reshape(-1).tolist() == turned.contiguous().view(-1).tolist()
    assert repr(torch.contiguous_format) == "torch.contiguous_format"
    with pytest.raises(NotImplementedError):
        turned.clone(memory_format=torch.channels_last)


def test_gradients_of_turned_tensors():
    x = torch.arange(12.0).reshape(3, 4).requires_grad_()
    (x.t() * x.t().contiguous()).sum().backward()
    assert torch.equal(x.grad, 2 * x.detach())


@pytest.mark.parametrize("use", [lambda x: x * 2, torch.exp, lambda x: x + 1, lambda x: x.sum(), lambda x: x.t() * 3, lambda x: x @ x.t()])
@pytest.mark.parametrize("record", [False, True])
def test_a_gradient_lies_like_its_leaf(use, record):
    """If the leaf is dense; otherwise in row-major order."""
    for leaf, strides in ((torch.ones(3, 4).t(), (1, 4)), (torch.ones(4, 3), (3, 1)), (torch.ones(8, 3)[::2], (3, 1)),
                          (torch.ones(1).expand(4, 3), (3, 1)), (torch.ones(4, 6)[:, ::2].t().t(), (3, 1))):
        leaf = leaf.requires_grad_()
        with torch.profiler.profile() if record else torch.enable_grad():
            for create_graph in (False, True):
                leaf.grad = None
                use(leaf).sum().backward(create_graph=create_graph)
                assert leaf.grad.stride() == strides
                use(leaf).sum().backward()
                assert leaf.grad.stride() == strides
