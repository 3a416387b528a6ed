"""Recordings by the extension mtprof, without mindtorch_v2."""
import types

import mtprof


class Tensor:
    """Another framework's tensor, as the hooks see it."""

    def __init__(self, *shape, dtype="float32", device="cpu"):
        self.shape, self.dtype, self.device = shape, f"other.{dtype}", types.SimpleNamespace(type=device, index=0)


class Recording:
    """with Recording() as r: ...; then r.events, r.names."""

    def __init__(self, **options):
        self.session = mtprof.Session(activities=options.pop("activities", mtprof.CPU), **options)

    def __enter__(self):
        self.session.prepare()
        self.session.start()
        return self

    def __exit__(self, *error):
        self.session.stop()
        self.trace = self.session.trace()
        events = self.trace.events()
        self.events = [events[i] for i in range(len(events))]
        self.names = [e.name for e in self.events]


def op(name="other::op", device=None, args=(), kwargs=None):
    mtprof.dispatch_op_exit(mtprof.dispatch_op_enter(name, device, args, kwargs or {}))
