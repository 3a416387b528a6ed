"""mindtorch_v2, as the profiler sees it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import CodeType, ModuleType
from typing import Any

from mtprof.profiler.common import ProfilerActivity
from mtprof.profiler.framework import Framework

import mindtorch_v2
from mindtorch_v2 import _C


class _MindTorch(Framework):
    """Its ops report to libmtprof by themselves: there is nothing to attach."""

    name = "mindtorch_v2"
    accelerator = "npu"

    @property
    def package(self) -> ModuleType:
        return mindtorch_v2

    def has_accelerator(self) -> bool:
        return _C._npu_count() > 0

    @cached_property
    def _matrix_library(self) -> str:
        """Loading it takes milliseconds, which the first matrix product of a recording would otherwise show as its own."""
        return _C.blas_name()

    def warm_up(self) -> None:
        self._matrix_library  # noqa: B018

    @cached_property
    def module_call(self) -> CodeType:
        from mindtorch_v2.nn import Module

        return Module.__call__.__code__

    @cached_property
    def optimizer_call(self) -> CodeType:
        from mindtorch_v2.optim.optimizer import Optimizer

        return Optimizer._optimizer_step_code.__code__

    @property
    def tensor_reader(self) -> Any:
        return _C._tensor_reader

    def register_optimizer_step_post_hook(self, hook: Callable[[Any, tuple, dict[str, Any]], None]) -> Any:
        from mindtorch_v2.optim.optimizer import register_optimizer_step_post_hook

        return register_optimizer_step_post_hook(hook)


FRAMEWORK = _MindTorch()


def supported_activities() -> set[ProfilerActivity]:
    """The activities available on this machine: CPU, and NPU if there is an accelerator."""
    return FRAMEWORK.supported_activities()
