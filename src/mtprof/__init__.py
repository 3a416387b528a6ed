"""mtprof: the profiler for tensor programs, for Python and for the dispatchers of other frameworks.

    import mtprof

    session = mtprof.Session(activities=mtprof.CPU, record_shapes=True)
    session.prepare()
    session.start()
    with mtprof.record_function("forward"):
        token = mtprof.dispatch_op_enter("aten::add", x.device, (x, y), {})
        try:
            ...
        finally:
            mtprof.dispatch_op_exit(token)
    session.stop()
    print(session.trace().averages().table(sort_by="self_cpu_time_total"))
    session.trace().chrome("run.json.gz", "run")

mtprof.profiler has torch.profiler's API on top of this, for any framework.
"""
try:
    from . import _native  # noqa: F401
except ImportError as _error:
    from ._built import missing as _missing
    raise _missing(__file__, "mtprof._native", _error) from None
from ._native import (
    CPU,
    KEEP_NEWEST,
    NPU,
    STOP_WHEN_FULL,
    STREAM,
    Averages,
    Event,
    Events,
    RecordFunctionFast,
    Session,
    Trace,
    Tree,
    activity_parse,
    dispatch_op_enter,
    dispatch_op_exit,
    gc_event,
    hide_file,
    is_profiler_enabled,
    now_ns,
    record_function,
    scope_with_args_enter,
    set_module_call,
    set_optimizer_call,
    set_tensor_reader,
    version,
)

__all__ = [  # written out: type checkers read it
    "CPU",
    "KEEP_NEWEST",
    "NPU",
    "STOP_WHEN_FULL",
    "STREAM",
    "Averages",
    "Event",
    "Events",
    "RecordFunctionFast",
    "Session",
    "Trace",
    "Tree",
    "activity_parse",
    "dispatch_op_enter",
    "dispatch_op_exit",
    "gc_event",
    "hide_file",
    "is_profiler_enabled",
    "now_ns",
    "record_function",
    "scope_with_args_enter",
    "set_module_call",
    "set_optimizer_call",
    "set_tensor_reader",
    "version",
]
__version__ = version()


def __getattr__(name):
    if name == "profiler":  # imported on first use: recording needs none of it
        import importlib

        return importlib.import_module("mtprof.profiler")
    raise AttributeError(f"module 'mtprof' has no attribute {name!r}")
