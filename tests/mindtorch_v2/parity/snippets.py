"""Snippets: name -> f(torch), whose results under both are compared. DIFFERENT has the known differences and their reasons."""
import importlib
import locale
import sys
import warnings

from parity import ours, theirs

SNIPPETS = {}

_ONE = "one kernel here where torch's op calls others (mean: sum and div_, relu: clamp_min, t: transpose, ...)"

# Known differences and their reasons. One that no longer exists fails.
DIFFERENT = {
    "nested profile": "a second session is an error here (contract); torch 2.13 silently stops the first one",
    "step before start": "RuntimeError here (contract); torch counts a step of nothing",
    "stop twice": "on_trace_ready is called once per cycle here (contract); torch calls it again for an empty trace",
    "activity XPU": "here CPU and NPU exist, CUDA and GPU mean NPU (contract)",
    "activity by name": "names are understood here (contract); torch takes enums only",
    "add metadata json not json": "the text is kept as a string and the file stays valid; torch writes a broken file",
    "metadata with quotes and newline": "exact here; torch's file is not valid JSON",
    "names with quotes and unicode": "exact here; torch shows mangled names or 'unknown'",
    "row key averages": "rows can be grouped again here (contract); torch raises",
    "memory timeline warning": "not deprecated here",
    "activities wrong string": "ValueError here (contract: anything else is ValueError); torch says that there is none",
    "activities wrong type": "the same",
    "tree of mean": _ONE, "tree of relu": _ONE, "tree of transpose": _ONE, "tree of stack": _ONE, "tree of argmax": _ONE,
    "tree of linear": _ONE, "tree of backward mm": _ONE, "tree of backward relu": _ONE,
    "tree of backward linear": _ONE, "tree of backward mse": _ONE,
    "table stack and flops": "torch has the values of the two columns swapped against their headers (contract: BUG)",
    "schedule never recorded": "a schedule that recorded nothing says so here",
    "rows are cloned": "a row can be made from a dict here (contract)",
    "export stacks below a microsecond": "a nonzero time below 1 us counts as 1 here (contract)",
    "export chrome of rows": "rows export here (contract); torch raises",
    "event is a mapping": "events answer as a mapping too (contract)",
    "invalid schedule float": "numbers that are not ints are refused here (contract)",
    "schedule not callable": "TypeError at construction here (contract); torch raises when it calls it",
}
if locale.localeconv()["decimal_point"] != ".":  # make test-locale
    DIFFERENT["observer"] = "PyTorch's execution traces have decimal commas in such a locale, and are not JSON"
if theirs.cuda.is_available() != ours.npu.is_available():
    # "cuda" is the accelerator, whichever it is (contract). PoCL is one where PyTorch has none.
    DIFFERENT |= {f"autograd profile options {name}": "one of the two has an accelerator on this machine" for name in ("cuda", "use_cuda")}


def snippet(function=None, *, name=None, **arguments):
    def add(function):
        SNIPPETS[name or function.__name__.replace("_", " ")] = lambda torch: function(torch, **arguments)
        return function

    return add(function) if function is not None else add


def variants(values):
    """One snippet for each of the named values."""

    def add(function):
        for key, value in values.items():
            SNIPPETS[f"{function.__name__.replace('_', ' ')} {key}".strip()] = \
                lambda torch, function=function, value=value: function(torch, value)
        return function

    return add


def outcome(run, torch):
    """The value or exception of a snippet, and its warnings."""
    for module in ("torch.profiler.profiler", "mindtorch_v2.profiler.common"):  # the latter is loaded on first use
        importlib.import_module(module)._WARNINGS_SHOWN.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = run(torch), None
        except Exception as raised:
            value, error = None, raised
    heard = [(w.category.__name__, str(w.message)) for w in caught if w.category is not ResourceWarning]
    return value, error, heard


def normal(text):
    return str(text).replace("mindtorch_v2", "torch")


def compare(name):
    """None if both agree, else the difference."""
    a, b = outcome(SNIPPETS[name], theirs), outcome(SNIPPETS[name], ours)
    if (a[1] is None) != (b[1] is None):
        return f"torch: {a[1]!r} {a[0]!r:.300}\n  ours: {b[1]!r} {b[0]!r:.300}"
    if a[1] is not None:
        kinds = [t.__name__ for t in type(b[1]).__mro__]
        if type(a[1]).__name__ not in kinds or normal(a[1]) != normal(b[1]):
            return f"torch: {a[1]!r}\n  ours: {b[1]!r}"
    elif a[0] != b[0]:
        return f"torch: {a[0]!r:.1500}\n  ours: {b[0]!r:.1500}"
    if [(k, normal(t)) for k, t in a[2]] != [(k, normal(t)) for k, t in b[2]]:
        return f"warnings of torch: {a[2]}\n  ours: {b[2]}"
    return None


def run(torch, body=None, **options):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as prof:
        if body is not None:
            body(torch)
    return prof


def add_and_scope(torch):
    x = torch.ones(2, 3)
    with torch.profiler.record_function("scope"):
        x + x
