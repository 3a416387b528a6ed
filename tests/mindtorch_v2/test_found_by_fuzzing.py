"""What tests/stress/differential found, each as a small program. Expected values are PyTorch's."""
import math

import pytest

import mindtorch_v2 as torch


def test_the_variance_of_nothing_is_nan(each_device):
    for correction in (-1, 0, 1):
        assert math.isnan(torch.var(torch.zeros(2, 0), correction=correction).item())
        assert all(map(math.isnan, torch.std(torch.zeros(2, 0), 1, correction=correction).tolist()))


def test_arange_of_integers_needs_a_whole_step():
    with pytest.raises(ValueError, match="step must be nonzero"):
        torch.arange(0, 7, 0.5, dtype=torch.int64)
    assert torch.arange(0, 7, 1.5, dtype=torch.int64).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert torch.arange(0, 7, 1.5, dtype=torch.int32).tolist() == [0, 1, 2, 3, 4]
