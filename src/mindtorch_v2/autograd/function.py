"""Functions with a custom derivative."""
from mindtorch_v2 import _C
from mindtorch_v2.autograd.grad_mode import no_grad as _no_grad

_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class FunctionCtx:
    """State that forward saves for backward."""

    _to_save = ()
    _saved = ()  # of each tensor: itself, its version, its number among the differentiable outputs or None
    _freed = False
    _nodes = ()  # while backward runs: the node, once per run
    _dirty = ()
    _not_differentiable = ()
    _materialize = True
    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        for t in tensors:
            if t is not None and not isinstance(t, _C.Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument 0 is of type {type(t).__name__}")
        self._to_save = tensors

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self._not_differentiable = tensors

    def set_materialize_grads(self, value):
        self._materialize = bool(value)

    @property
    def saved_tensors(self):
        if self._freed:
            raise RuntimeError(_FREED)
        for t, version, _ in self._saved:
            if t is not None and t._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[torch.Tensor {list(t.shape)}] is at version {t._version}; expected version {version} instead."
                )
        node = self._nodes[-1] if self._nodes else None
        return tuple(t if place is None or node is None else _C._custom_output(node, place, t) for t, _, place in self._saved)

    def _seal(self, outputs, followed):
        """Stores what was saved. An output is stored without its history, which would keep this context alive: see saved_tensors."""
        saved = []
        for t in self._to_save:
            place = next((i for i, o in enumerate(followed) if t is o), None)
            if t is not None and any(t is o for o in outputs):
                t = t.detach()
            saved.append((t, None if t is None else t._version, place))
        self._saved = tuple(saved)
        self._to_save = self._dirty = self._not_differentiable = ()  # the outputs among them keep this context, too


class Function:
    """Subclass it with static methods forward(ctx, ...) and backward(ctx, *grads); call it with apply()."""

    @staticmethod
    def forward(ctx, *args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        tensors = [a for a in args if isinstance(a, _C.Tensor)]
        forward = _C._custom_begin(cls.__name__, tensors)
        try:
            return cls._run(forward, tensors, args, kwargs)
        finally:
            _C._custom_end(forward)

    @classmethod
    def _run(cls, forward, tensors, args, kwargs):
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, _C.Tensor) and a.requires_grad for a in args)
        split = getattr(cls, "setup_context", None)
        with _no_grad():
            result = cls.forward(*args, **kwargs) if split else cls.forward(ctx, *args, **kwargs)
            if split:
                split(ctx, args, result)
        if not (_C.is_grad_enabled() and any(ctx.needs_input_grad)):
            return result
        single = not isinstance(result, (tuple, list))
        outputs = [result] if single else list(result)
        if any(not any(d is o for o in outputs) for d in ctx._dirty):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
                "modified inplace must all be outputs of the Function."
            )
        for i, out in enumerate(outputs):
            # An input returned as an output gets a new node, unless it was changed in place.
            if isinstance(out, _C.Tensor) and any(out is t for t in tensors) and not any(out is d for d in ctx._dirty):
                with _no_grad():
                    outputs[i] = out.view_as(out)
        made = [o for o in outputs if isinstance(o, _C.Tensor)]
        derivative = _Derivative(cls, ctx, args, outputs)
        followed = [o for o, d in zip(outputs, derivative.differentiable) if d]
        if followed:
            _C._custom_attach(forward, f"{cls.__name__}Backward", tensors, followed, derivative)
        for out in made:
            if out.requires_grad and not any(out is f for f in followed):
                out.detach_()  # changed in place, and no longer what its history says
        ctx._seal(made, followed)
        return outputs[0] if single else type(result)(outputs)


class _Derivative:
    """What the node of a Function calls: backward(), with and without the places of what is no tensor."""

    def __init__(self, cls, ctx, args, outputs):
        self.cls, self.ctx, self.count = cls, ctx, len(args)
        self.differentiable = [
            isinstance(o, _C.Tensor) and o.is_floating_point() and not any(o is n for n in ctx._not_differentiable)
            for o in outputs
        ]
        self.noted = [(o.shape, o.dtype, o.device) if isinstance(o, _C.Tensor) else None for o in outputs]
        self.places = [i for i, a in enumerate(args) if isinstance(a, _C.Tensor)]
        ctx._nodes = []

    def __call__(self, *grads):
        ctx, given = self.ctx, iter(grads)
        full = [next(given) if d else None for d in self.differentiable]
        if ctx._materialize:
            full = [
                _C.ops.zeros(list(n[0]), dtype=n[1], device=n[2]) if g is None and n is not None else g
                for g, n in zip(full, self.noted)
            ]
        ctx._nodes.append(_C._custom_node())
        try:
            result = self.cls.backward(ctx, *full)
        finally:
            ctx._nodes.pop()
        result = result if isinstance(result, tuple) else (result,)
        if len(result) < self.count or any(r is not None for r in result[self.count:]):
            raise RuntimeError(
                f"function {self.cls.__name__}Backward returned an incorrect number of gradients (expected {self.count}, got "
                f"{len(result)})"
            )
        return tuple(result[i] if ctx.needs_input_grad[i] else None for i in self.places)

    def let_go(self):
        """After a backward pass that does not keep the graph."""
        self.ctx._saved, self.ctx._freed = (), True


class _OnlyOnce(Function):
    """The result of a backward() that has no derivative."""

    @staticmethod
    def forward(ctx, *tensors):
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(function):
    """Decorates backward(): its result is not part of a graph, and says so if it is differentiated."""

    def wrapper(ctx, *grads):
        with _no_grad():
            result = function(ctx, *grads)
        if not (_C.is_grad_enabled() and any(isinstance(g, _C.Tensor) and g.requires_grad for g in grads)):
            return result
        result = list(result) if isinstance(result, tuple) else [result]
        places = [i for i, r in enumerate(result) if isinstance(r, _C.Tensor) and r.is_floating_point()]
        refusing = _OnlyOnce.apply(*(result[i].detach().requires_grad_() for i in places))
        for i, r in zip(places, refusing):
            result[i] = r
        return tuple(result)

    return wrapper
