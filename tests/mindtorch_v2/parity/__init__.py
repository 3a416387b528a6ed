"""Code that runs under PyTorch and under mindtorch_v2, for test_profiler_torch.py and test_profiler_programs.py.

snippets.py compares what a snippet returns, raises and warns; the snippets are in sessions.py, lists.py and recordings.py.
programs.py has programs whose events are compared, profiles.py has whole profiles whose results are.
"""
import mindtorch_v2 as ours
import mindtorch_v2.autograd.profiler_util
import torch as theirs
import torch.autograd.profiler_util
import torch.profiler  # noqa: F401

# Ops that PyTorch's ops call and the runtime's do not: see docs/parity.md.
INNER = {"aten::empty", "aten::resize_", "aten::as_strided", "aten::resolve_conj", "aten::to", "aten::_to_copy", "aten::copy_", "aten::empty_like",
         "aten::empty_strided", "aten::fill_", "aten::zero_", "aten::item", "aten::_local_scalar_dense", "aten::new_empty", "aten::_has_compatible_shallow_copy_type",
         "aten::clone", "aten::set_", "detach", "aten::normal_", "aten::uniform_", "aten::new_empty_strided"}
