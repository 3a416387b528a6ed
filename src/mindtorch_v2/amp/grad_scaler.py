"""Scaling of losses, so that float16 gradients neither vanish nor overflow."""
import collections
import collections.abc
import enum
import inspect
import warnings

import mindtorch_v2 as torch
from mindtorch_v2 import _C

__all__ = ["GradScaler", "OptState"]


class OptState(enum.Enum):
    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh():
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class _Copies:
    """A tensor on every device that asks for it."""

    def __init__(self, master):
        self.master, self.copies = master, {}

    def get(self, device):
        if device not in self.copies:
            self.copies[device] = self.master.to(device=device, non_blocking=True, copy=True)
        return self.copies[device]


def non_finite_check_and_unscale_(grads, found_inf, inv_scale):
    """Multiplies the gradients; found_inf becomes 1 if one has an infinity or NaN. Nothing waits for the device."""
    for grad in grads:
        bad = torch.isfinite(grad).all().logical_not().to(found_inf.dtype)
        found_inf.copy_(torch.maximum(found_inf, bad))
        grad.mul_(inv_scale)


def update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval):
    """Shrinks the scale, or lets it grow after growth_interval steps without an infinity."""
    bad = found_inf > 0
    steps = growth_tracker + 1
    due = (steps == growth_interval).logical_and(bad.logical_not())
    grown = scale * growth_factor
    kept = torch.where(due.logical_and(torch.isfinite(grown)), grown, scale)
    scale.copy_(torch.where(bad, scale * backoff_factor, kept))
    growth_tracker.copy_(torch.where(bad.logical_or(due), torch.zeros_like(steps), steps))


class GradScaler:
    """scale(loss).backward(), then step(optimizer), which skips the step if a gradient is infinite or NaN, then update()."""

    def __init__(self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        self._device, self._enabled = device, enabled
        if enabled and device in ("cuda", "npu") and not _C._npu_count():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._init_scale, self._init_growth_tracker = init_scale, 0
            self._scale = self._growth_tracker = None  # made by the first scale(), on its device
            self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
            self._per_optimizer_states = collections.defaultdict(_fresh)

    def _check_scale_growth_tracker(self, funcname):
        fix = "This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
        for name in ("_scale", "_growth_tracker"):
            if getattr(self, name) is None:
                raise AssertionError(f"Attempted {funcname} but {name} is None.  " + fix)
        return self._scale, self._growth_tracker

    def _begin(self, device):
        if self._scale is None:
            self._scale = torch.full((), self._init_scale, dtype=torch.float32, device=device)
            self._growth_tracker = torch.full((), self._init_growth_tracker, dtype=torch.int32, device=device)

    def scale(self, outputs):
        """The tensors, in containers too, times the scale."""
        if not self._enabled:
            return outputs
        copies = None

        def scaled(value):
            nonlocal copies
            if isinstance(value, torch.Tensor):
                self._begin(value.device)
                copies = copies or _Copies(self._scale)
                return value * copies.get(value.device)
            if isinstance(value, collections.abc.Iterable):
                items = map(scaled, value)
                return type(value)(items) if isinstance(value, (list, tuple)) else items
            raise ValueError("outputs must be a Tensor or an iterable of Tensors")

        if isinstance(outputs, torch.Tensor):
            self._begin(outputs.device)
            return outputs * self._scale.to(device=outputs.device, non_blocking=True)
        return scaled(outputs)

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        scales, found = _Copies(inv_scale), _Copies(found_inf)
        grads = collections.defaultdict(list)
        with torch.no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is None:
                        continue
                    if not allow_fp16 and param.grad.dtype == torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    grads[param.grad.device].append(param.grad)
            for device, some in grads.items():
                non_finite_check_and_unscale_(some, found.get(device), scales.get(device))
        return found.copies

    def unscale_(self, optimizer):
        """Divides the optimizer's gradients by the scale, to clip or look at them before step()."""
        if not self._enabled:
            return
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inv_scale = self._scale.double().reciprocal().float()
        found_inf = torch.full((), 0.0, dtype=torch.float32, device=self._scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inv_scale, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if not sum(v.item() for v in optimizer_state["found_inf_per_device"].values()):
            return optimizer.step(*args, **kwargs)
        return None

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step() with unscaled gradients, unless one is infinite or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_of_scaling_optimizer(optimizer, state, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_of_scaling_optimizer(self, optimizer, state, args, kwargs):
        """An optimizer that unscales and skips by itself."""
        as_argument = "grad_scaler" in inspect.signature(optimizer.step).parameters
        if as_argument:
            warnings.warn("GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. In the near future "
                          "GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to the passed optimizer and let the "
                          "optimizer use them directly.", FutureWarning)
            kwargs["grad_scaler"] = self
        else:
            if state["stage"] is OptState.READY:
                self._check_inf_per_device(optimizer)
            scale = self._scale
            unscaled = state["stage"] is OptState.UNSCALED
            found = [t.to(scale.device, non_blocking=True) for t in state["found_inf_per_device"].values()]
            optimizer.grad_scale = None if unscaled else scale * getattr(optimizer, "grad_scale", 1)
            optimizer.found_inf = sum(found[1:], found[0])
        result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        if not as_argument:
            del optimizer.grad_scale, optimizer.found_inf
        return result

    def update(self, new_scale=None):
        """The scale for the next iteration: smaller after an infinity, larger after enough steps without; or new_scale."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if isinstance(new_scale, float):
            scale.fill_(new_scale)
        elif new_scale is not None:
            kind = "npu" if self._device == "cuda" else self._device
            if new_scale.device.type != kind or new_scale.numel() != 1 or new_scale.requires_grad:
                raise AssertionError("new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with "
                                     "requires_grad=False.")
            scale.copy_(new_scale)
        else:
            found = [t.to(device=scale.device, non_blocking=True) for state in self._per_optimizer_states.values()
                     for t in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            update_scale_(scale, tracker, sum(found[1:], found[0]), self._growth_factor, self._backoff_factor, self._growth_interval)
        self._per_optimizer_states = collections.defaultdict(_fresh)

    def _get_scale_async(self):
        return self._scale

    def get_scale(self):
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        self._growth_interval = new_interval

    def is_enabled(self):
        return self._enabled

    def state_dict(self):
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._get_growth_tracker()}

    def load_state_dict(self, state_dict):
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
            self._growth_tracker.fill_(state_dict["_growth_tracker"])

    def __getstate__(self):
        state = self.__dict__.copy()
        if self._enabled:
            if len(self._per_optimizer_states) != 0:
                raise AssertionError("A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                                     "scaler.update().")
            state.update(_init_scale=self.get_scale(), _init_growth_tracker=self._get_growth_tracker(), _scale=None, _growth_tracker=None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)

    def _check_inf_per_device(self, optimizer):
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, found = (torch.full((), value, dtype=torch.float32, device=scale.device) for value in (1.0, 0.0))
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = self._unscale_grads_(optimizer, one, found, True)
        return self._found_inf_per_device(optimizer)

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
