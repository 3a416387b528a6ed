"""The binding of a framework: what torch.profiler's API has to ask, or to tell, the framework whose ops it records.

A framework reports its ops to libmtprof (mtprof.dispatch_op_enter, or mtprof.h); to give its users torch.profiler's API it
describes itself in a subclass of Framework, and names it in subclasses of the API's classes:

    class _Mine(Framework):
        name = "mine"
        module_call = Module.__call__.__code__

    class _Session(session.profile):                  # torch.autograd.profiler.profile
        _framework = _Mine()

    class _KinetoProfile(profiler._KinetoProfile):    # torch.profiler._KinetoProfile
        _framework, _session_class = _Session._framework, _Session

    class profile(profiler.profile, _KinetoProfile):  # torch.profiler.profile
        pass

Everything has a default, so that a binding says only what differs. docs/python.md has a whole example. Frameworks may take
turns in a process: it has one recording session, and what is below is applied to the framework of the profile that records.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import mtprof
from mtprof.profiler.common import KinetoStepTracker, ProfilerActivity


class Device(NamedTuple):
    """A device of a framework that has no class for it."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


_ITEM_SIZES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
               "bool": 1, "complex64": 8, "complex128": 16, "uint16": 2, "uint32": 4, "uint64": 8, "complex32": 4, "float8_e5m2": 1,
               "float8_e4m3fn": 1, "float8_e5m2fnuz": 1, "float8_e4m3fnuz": 1, "qint8": 1, "quint8": 1, "qint32": 4,
               "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1}


class DType(str):
    """A dtype of a framework that has no class for it: its name."""

    @property
    def itemsize(self) -> int:
        return _ITEM_SIZES[self]


_known: list[Framework] = []  # all that were created in this process


def known() -> tuple[Framework, ...]:
    """The frameworks that were bound in this process."""
    return tuple(_known)


class Framework:
    """A framework, as the profiler sees it. This one knows no modules, tensors or accelerators: mtprof.profiler.profile
    uses it, for programs that only have scopes, ops and Python functions."""

    name = "generic"  # in messages
    accelerator = "npu"  # what its accelerator is called: profile.use_device, devices ("npu:0"), the columns of a table
    tags_memory = True  # does it tell libmtprof what a block is for (mtp_memory_tag)? Otherwise the memory timeline deduces it

    def __init__(self) -> None:
        _known.append(self)

    def __repr__(self) -> str:
        return f"<Framework {self.name}>"

    # ------------------------------------------------------------------------------------------- what it is

    @property
    def package(self) -> ModuleType | None:
        """A module with torch's names (torch.device, torch.float32, torch.cuda, torch.mm ...), if it has one: devices, dtypes
        and schemas are looked up there, and patterns use its ops to measure alternatives."""
        return None

    @cached_property
    def library(self) -> tuple[str, ...]:
        """How the names of its own Python files begin in stacks; calls made there are not the user's."""
        package = self.package
        return () if package is None else (package.__name__ + os.sep, os.path.join(os.path.dirname(package.__file__), ""))

    def has_accelerator(self) -> bool:
        """Is there an accelerator whose work is recorded?"""
        return False

    def supported_activities(self) -> set[ProfilerActivity]:
        """What profile() records by default: CPU, and NPU, which stands for any accelerator, if there is one."""
        return {ProfilerActivity.CPU, ProfilerActivity.NPU} if self.has_accelerator() else {ProfilerActivity.CPU}

    # ----------------------------------------------------------------------------------------- while recording

    def warm_up(self) -> None:
        """Called whenever a profile prepares to record: loads what the recording would otherwise show as the first op's.
        Must be quick when there is nothing left to load."""

    @property
    def module_call(self) -> CodeType | None:
        """The code object that every call of a module runs, with the module as its first argument: nn.Module.__call__'s.
        These calls are shown as "nn.Module: CLASS_n". None: no modules."""
        return None

    @property
    def optimizer_call(self) -> CodeType | None:
        """The code object that every step of an optimizer runs, with the optimizer as its first argument."""
        return None

    @property
    def tensor_reader(self) -> Any:
        """The capsule of mtprof.set_tensor_reader(): a C function that reads the tensors of modules and optimizers."""
        return None

    def name_modules(self) -> None:
        """Called before each recording with stacks or modules: from now on, calls of this framework's modules are shown."""
        mtprof.set_module_call(self.module_call)
        mtprof.set_optimizer_call(self.optimizer_call)
        mtprof.set_tensor_reader(self.tensor_reader)

    def attach(self, options: dict[str, Any]) -> None:
        """Called just before a recording starts: connects collectors that report ops, if the framework does not report them by
        itself. options: the arguments of mtprof.Session (record_shapes, with_stack, profile_memory, activities ...), also in
        a worker process. What it raises is raised by profile.start()."""

    def detach(self) -> None:
        """Called after the recording stopped: undoes attach(), of which an interrupt may have run only a part. Called again if
        it was interrupted itself. A forked child that records keeps what its parent had attached, until it detaches."""

    def register_optimizer_step_post_hook(self, hook: Callable[[Any, tuple, dict[str, Any]], None]) -> Any:
        """Calls hook(optimizer, args, kwargs) after each step of any optimizer from now on."""

    # ------------------------------------------------------------------------------------------ objects of events

    def device(self, name: str) -> Any:
        """The framework's object for "cpu" or "npu:0"."""
        if self.package is not None:
            return self.package.device(name)
        kind, _, index = name.partition(":")
        return Device(kind, int(index) if index else None)

    def dtype(self, name: str) -> Any:
        """The framework's object for "float32"; None if it has no such dtype."""
        return getattr(self.package, name, None) if self.package is not None else DType(name)

    @property
    def strided(self) -> Any:
        """The layout of its tensors."""
        return getattr(self.package, "strided", "torch.strided")

    def schemas(self, name: str) -> tuple[Any, ...] | None:
        """The schemas (torch.FunctionSchema) of an op, one per overload: () if there is no op of that name, None if the name
        cannot be an op's."""
        look_up = getattr(getattr(self.package, "_C", None), "_jit_get_schemas_for_operator", None)
        if look_up is None or "::" not in name:
            return None if "::" not in name else ()
        try:
            return tuple(look_up(name))
        except RuntimeError:
            return None

    def metadata(self) -> dict[str, Any]:
        """What a trace says of the process at its top level (distributedInfo): members of JSON."""
        return {}

    def graph_metadata(self) -> dict[str, dict]:
        """Metadata of files that the framework compiled, by name: {"node_metadata": {number: {"name", "stack_trace"}}}."""
        return {}


def _optimizer_post_hook(optimizer: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Counts optimizer steps as steps of the process, for a daemon that counts iterations."""
    KinetoStepTracker.increment_step("Optimizer")


def count_optimizer_steps(framework: Framework) -> None:
    """A binding calls it once, when it is imported: under a daemon (KINETO_USE_DAEMON) optimizer steps are counted."""
    if os.environ.get("KINETO_USE_DAEMON", ""):
        framework.register_optimizer_step_post_hook(_optimizer_post_hook)


GENERIC = Framework()


def of(thing: Any) -> Framework:
    """The framework that a profile, a result, an event or its fields belong to."""
    return getattr(thing, "_framework", GENERIC)
