"""Random number generators. The runtime draws from one; another can replace it for the duration of a call."""
import contextlib
import functools
import random as _random

from mindtorch_v2 import _C

ops = _C.ops


class Generator:
    """An independent, seedable generator; random ops take it as `generator`."""

    def __init__(self, device="cpu"):
        self.device = _C.device(device)
        self._state = bytearray(_C._random_bytes())

    @contextlib.contextmanager
    def _active(self):
        """In this context all random numbers come from this generator."""
        _C._random_swap(self._state)
        try:
            yield self
        finally:
            _C._random_swap(self._state)

    def manual_seed(self, seed):
        with self._active():
            _C.manual_seed(seed)
        return self

    def initial_seed(self):
        with self._active():
            return _C.initial_seed()

    def seed(self):
        value = _random.SystemRandom().getrandbits(64)
        self.manual_seed(value)
        return value

    def get_state(self):
        return bytes(self._state)

    def set_state(self, state):
        if len(state) != len(self._state):
            raise RuntimeError(f"RNG state is wrong size: {len(state)} bytes, not {len(self._state)}")
        self._state = bytearray(state)
        return self


class _Default(Generator):
    """The generator that the runtime draws from by default."""

    @contextlib.contextmanager
    def _active(self):
        yield self

    def get_state(self):
        state = bytearray(_C._random_bytes())
        _C._random_swap(state)
        kept = bytes(state)
        _C._random_swap(state)
        return kept

    def set_state(self, state):
        _C._random_swap(Generator().set_state(state)._state)
        return self


default_generator = _Default()


def manual_seed(seed):
    """Seeds the default generator."""
    return default_generator.manual_seed(int(seed))


def seed():
    return default_generator.seed()


def initial_seed():
    return _C.initial_seed()


def get_rng_state():
    return default_generator.get_state()


def set_rng_state(state):
    default_generator.set_state(state)


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True):
    """Numbers drawn inside do not affect those drawn after it."""
    state = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(state)


def _drawing(op):
    """Adds PyTorch's `generator` argument to the op."""

    @functools.wraps(op)
    def draw(*args, generator=None, **kwargs):
        if generator is None:
            return op(*args, **kwargs)
        with generator._active():
            return op(*args, **kwargs)

    return draw


_FUNCTIONS = {name: _drawing(getattr(ops, name)) for name in ("bernoulli", "multinomial", "rand", "rand_like", "randint", "randn", "randn_like", "randperm")}
_METHODS = {name: _drawing(getattr(_C.Tensor, name)) for name in ("bernoulli", "bernoulli_", "multinomial", "normal_", "random_", "uniform_")}
for _name, _method in _METHODS.items():
    setattr(_C.Tensor, _name, _method)
