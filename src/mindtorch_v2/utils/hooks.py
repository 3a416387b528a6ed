"""Hook handles, and the identity nodes that modules' full backward hooks are attached to."""

import itertools
import weakref

import mindtorch_v2 as torch


class RemovableHandle:
    """Removes a hook from its dict: by remove(), or on leaving a `with`. Holds the dict weakly where possible."""

    _ids = itertools.count()

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.id = next(RemovableHandle._ids)
        extras = [] if extra_dict is None else extra_dict if isinstance(extra_dict, list) else [extra_dict]
        self._dicts = tuple(map(weakref.ref, (hooks_dict, *extras)))

    def remove(self):
        for ref in self._dicts:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, type, value, traceback):
        self.remove()


def _is_tracked(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


class BackwardHook:
    """Calls a module's backward hooks once the gradients of its outputs and of its inputs are known.

    Inputs and outputs pass through an identity node each; the node after the module delivers grad_output (which
    pre-hooks may change) and the one before it delivers grad_input (which hooks may change).
    """

    def __init__(self, module, hooks, pre_hooks):
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs = None
        self.input_count = 0
        self.input_places = None

    def setup_input_hook(self, args):
        places = [i for i, a in enumerate(args) if _is_tracked(a)]
        self.input_count = len(args)
        if not places or not torch.is_grad_enabled():
            return args
        self.input_places = places
        passed = _identity(self._inputs_done, *(args[i] for i in places))
        return self._spliced(args, places, passed)

    def setup_output_hook(self, result):
        single = isinstance(result, torch.Tensor)
        values = (result,) if single else result
        if not isinstance(values, (tuple, list)) or not torch.is_grad_enabled():
            return result
        places = [i for i, v in enumerate(values) if _is_tracked(v)]
        if not places:
            return result
        self.output_places, self.output_count = places, len(values)
        passed = _identity(self._outputs_done, *(values[i] for i in places))
        values = self._spliced(values, places, passed)
        return values[0] if single else type(result)(values)

    @staticmethod
    def _spliced(values, places, passed):
        values = list(values)
        for place, value in zip(places, passed):
            values[place] = value
        return tuple(values)

    @staticmethod
    def _spread(grads, places, count):
        full = [None] * count
        for place, grad in zip(places, grads):
            full[place] = grad
        return tuple(full)

    def _outputs_done(self, grads):
        full = self._spread(grads, self.output_places, self.output_count)
        for hook in self.pre_hooks:
            changed = hook(self.module, full)
            if changed is not None:
                full = self._checked("grad_output", changed, self.output_count)
        self.grad_outputs = full
        if self.input_places is None:  # no input requires a gradient: nothing else will call the hooks
            for hook in self.hooks:
                changed = hook(self.module, (None,) * self.input_count, full)
                if changed is not None and not (isinstance(changed, tuple) and all(c is None for c in changed)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        "for all gradients."
                    )
            self.grad_outputs = None
        return tuple(full[i] for i in self.output_places)

    def _inputs_done(self, grads):
        full = self._spread(grads, self.input_places, self.input_count)
        for hook in self.hooks:
            changed = hook(self.module, full, self.grad_outputs)
            if changed is not None:
                full = self._checked("grad_input", changed, self.input_count)
        self.grad_outputs = None
        return tuple(full[i] for i in self.input_places)

    @staticmethod
    def _checked(what, value, count):
        value = (value,) if isinstance(value, torch.Tensor) else tuple(value)
        if len(value) != count:
            raise RuntimeError(f"Backward hook returned an invalid number of {what}, got {len(value)}, but expected {count}")
        return value


def _identity(done, *tensors):
    """The same tensors behind a BackwardHookFunctionBackward node that runs done(grads) -> grads."""

    class BackwardHookFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            return tuple(a.view_as(a) for a in args)

        @staticmethod
        def backward(ctx, *grads):
            return done(grads)

    return BackwardHookFunction.apply(*tensors)
