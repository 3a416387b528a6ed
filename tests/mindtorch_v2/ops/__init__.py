"""The op harness: for every row of the op table, cases with a NumPy reference in float64.

case.py holds what a case is, cases_*.py the cases by family, errors.py the calls that must fail, promotion.py PyTorch's
rules for dtypes, peer.py how a case is run on mindtorch_v2 or on PyTorch. ../test_ops.py runs them all. Cases know no
device: the peer puts tensors where the test's fixture says.
"""
from .case import CASES, Case, by_op  # noqa: F401
from . import (cases_activation, cases_binary, cases_unary, cases_pointwise, cases_shape, cases_index, cases_create, cases_reduce,
               # noqa: F401
               cases_matrix, cases_pool, cases_norm, cases_loss, cases_optim, cases_rnn, cases_arguments)
from . import cases_in_place  # noqa: F401,E402  (after all others)
