"""Derivatives: backward, grad, custom functions, and grad mode."""
import gc as _gc

from mindtorch_v2 import _C
from mindtorch_v2.autograd import graph
from mindtorch_v2.autograd.function import Function
from mindtorch_v2.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from mindtorch_v2.autograd.gradcheck import gradcheck

Variable = _C.Tensor
_gc.callbacks.append(_C._collect_cycles)

__all__ = [
    "Function", "Variable", "backward", "enable_grad", "grad", "gradcheck", "graph", "inference_mode", "no_grad", "set_grad_enabled",
]


def _tuple(tensors):
    return (tensors,) if isinstance(tensors, _C.Tensor) else tuple(tensors)


def _gradients(gradients, count):
    if gradients is None:
        return (None,) * count
    given = _tuple(gradients)
    if len(given) != count:
        raise RuntimeError(f"got {count} tensors and {len(given)} gradients")
    return given


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulates gradients into the leaves that the tensors were computed from."""
    tensors = _tuple(tensors)
    grads = _gradients(grad_tensors if grad_tensors is not None else grad_variables, len(tensors))
    if inputs is not None:
        inputs = _tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    retain = create_graph if retain_graph is None else retain_graph
    _C._backward(tensors, grads, retain, create_graph, inputs, True, True)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of the sum of the outputs with respect to the inputs, as a tuple."""
    if is_grads_batched:
        raise NotImplementedError("is_grads_batched")
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if allow_unused is None:
        allow_unused = materialize_grads
    elif not allow_unused and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                         "allow_unused=False.")
    retain = create_graph if retain_graph is None else retain_graph
    grads = _C._backward(outputs, _gradients(grad_outputs, len(outputs)), retain, create_graph, inputs, False, allow_unused)
    if materialize_grads:
        grads = tuple(_C.ops.zeros_like(i) if g is None else g for g, i in zip(grads, inputs))
    return grads

_PROFILER = ("DeviceType", "ProfilerActivity", "_supported_activities", "kineto_available")  # as torch.autograd has them
_PRIVATE = (
    "ProfilerConfig", "ProfilerState", "_KinetoEvent", "_ProfilerResult", "_add_metadata_json", "_disable_profiler", "_enable_profiler",
    "_kineto_step", "_prepare_profiler", "_profiler_enabled", "_record_function_with_args_enter", "_record_function_with_args_exit",
    "_toggle_collection_dynamic",
)


def __getattr__(name):
    import importlib

    if name in ("profiler", "profiler_util"):
        return importlib.import_module(f"mindtorch_v2.autograd.{name}")
    if name in _PROFILER:
        return getattr(importlib.import_module("mindtorch_v2.autograd.profiler"), name)
    if name in _PRIVATE:
        return getattr(importlib.import_module("mindtorch_v2.profiler.private"), name)
    raise AttributeError(f"module 'mindtorch_v2.autograd' has no attribute {name!r}")
