"""Whether ops are recorded for backward: context managers that also work as decorators."""
import functools
import inspect

from mindtorch_v2 import _C


class _Mode:
    """Sets the thread's grad mode for a block, or for each call of a function."""

    _enabled = True

    def __enter__(self):
        self._before = _C._set_grad_enabled(self._enabled)
        return None

    def __exit__(self, *exc):
        _C._set_grad_enabled(self._before)

    def _again(self):
        return type(self)()

    def __call__(self, function):
        if inspect.isclass(function):
            raise TypeError("decorate functions, not classes, with a grad mode")
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def in_mode(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return in_mode

    def _wrap_generator(self, function):
        @functools.wraps(function)
        def in_mode(*args, **kwargs):
            items = function(*args, **kwargs)
            step, given = items.send, (None,)
            while True:
                try:
                    with self._again():
                        item = step(*given)
                except StopIteration as end:
                    return end.value
                try:
                    step, given = items.send, ((yield item),)
                except GeneratorExit:
                    with self._again():
                        items.close()
                    raise
                except BaseException as error:
                    step, given = items.throw, (error,)

        return in_mode


class no_grad(_Mode):
    """Ops inside are not recorded."""

    _enabled = False

    def __new__(cls, function=None):
        self = super().__new__(cls)
        return self if function is None else self(function)

    def __init__(self, function=None):
        pass


class enable_grad(no_grad):
    """Ops inside are recorded, also within no_grad."""

    _enabled = True


class set_grad_enabled(_Mode):
    """set_grad_enabled(mode): takes effect at once; as a context manager, until the end of the block."""

    def __init__(self, mode):
        self._enabled = bool(mode)
        self._before = _C._set_grad_enabled(self._enabled)

    def __enter__(self):
        _C._set_grad_enabled(self._enabled)

    def _again(self):
        return type(self)(self._enabled)

    def __call__(self, function):
        _C._set_grad_enabled(self._before)
        return super().__call__(function)


class inference_mode(_Mode):
    """The same as no_grad: this runtime has no cheaper mode."""

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        self._enabled = not mode if isinstance(mode, bool) else False
        return self(mode) if callable(mode) else self

    def __init__(self, mode=True):
        pass

    def _again(self):
        return type(self)(not self._enabled)
