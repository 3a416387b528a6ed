"""Snippets: what is recorded and exported."""
import gzip
import json
import os
import re
import tempfile
import types
import warnings

from parity import INNER
from parity.lists import made
from parity.snippets import add_and_scope, run, snippet, variants


def tree(events):
    def node(event):
        below = [n for child in event.cpu_children for n in node(child)]
        return below if event.name in INNER else [(event.name, below)]

    return [n for event in events if event.cpu_parent is None for n in node(event)]


OPS = {
    "add": lambda t, x, w: x + x, "add scalar": lambda t, x, w: x + 1, "mul": lambda t, x, w: x * x, "sub": lambda t, x, w: x - x, "div": lambda t, x, w: x / x,
    "mm": lambda t, x, w: x.mm(x), "matmul": lambda t, x, w: x.matmul(x), "sum": lambda t, x, w: x.sum(), "mean": lambda t, x, w: x.mean(),
    "relu": lambda t, x, w: t.relu(x), "exp": lambda t, x, w: x.exp(), "sigmoid": lambda t, x, w: x.sigmoid(), "tanh": lambda t, x, w: x.tanh(),
    "softmax": lambda t, x, w: x.softmax(-1), "log_softmax": lambda t, x, w: x.log_softmax(-1), "transpose": lambda t, x, w: x.t(),
    "reshape": lambda t, x, w: x.reshape(-1), "cat": lambda t, x, w: t.cat([x, x]), "stack": lambda t, x, w: t.stack([x, x]),
    "max": lambda t, x, w: x.max(), "argmax": lambda t, x, w: x.argmax(), "neg": lambda t, x, w: -x, "pow": lambda t, x, w: x ** 2,
    "sqrt": lambda t, x, w: x.sqrt(), "detach": lambda t, x, w: x.detach(), "index": lambda t, x, w: x[0], "slice": lambda t, x, w: x[:, 1:],
    "ones": lambda t, x, w: t.ones(3), "zeros": lambda t, x, w: t.zeros(3), "full": lambda t, x, w: t.full((2,), 3.0),
    "linear": lambda t, x, w: t.nn.functional.linear(x, x), "in place": lambda t, x, w: x.add_(1), "clamp": lambda t, x, w: x.clamp(0, 1),
    "backward mul": lambda t, x, w: (w * w).sum().backward(), "backward mm": lambda t, x, w: w.mm(w).sum().backward(),
    "backward relu": lambda t, x, w: t.relu(w).sum().backward(), "backward linear": lambda t, x, w: t.nn.functional.linear(x, w).sum().backward(),
    "backward exp": lambda t, x, w: w.exp().sum().backward(), "backward mse": lambda t, x, w: t.nn.functional.mse_loss(w, x).backward(),
}


@variants(OPS)
def tree_of(torch, body):
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    prof = run(torch, lambda t: body(t, x, w))
    return tree(prof.events())


@variants({name: OPS[name] for name in ("add", "mm", "sum", "cat", "linear", "softmax", "reshape")})
def shapes_of(torch, body):
    x, w = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    prof = run(torch, lambda t: body(t, x, w), record_shapes=True)
    first = prof.events()[0]
    return first.name, first.input_shapes, first.structured_input_shapes


@snippet
def optimizer_scopes(torch):
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.sum().backward()
    prof = run(torch, lambda t: (optimizer.step(), optimizer.zero_grad()))
    return [e.name for e in prof.events() if e.name.startswith("Optimizer")]


@snippet
def loader_scopes(torch):
    loader = torch.utils.data.DataLoader(list(range(3)))
    prof = run(torch, lambda t: list(loader))
    return [e.name for e in prof.events() if e.name.startswith("enumerate")]


@snippet
def step_events(torch):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=torch.profiler.schedule(wait=0, warmup=1, active=2))
    got = []
    prof.on_trace_ready = lambda p: got.append([(e.name, e.trace_name) for e in p.events() if e.name.startswith("ProfilerStep")])
    with prof:
        for _ in range(3):
            prof.step()
    return got


@snippet
def no_step_events_without_schedule(torch):
    prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with prof:
        prof.step()
        add_and_scope(torch)
    return [e.name for e in prof.events() if "Profiler" in e.name]


@snippet
def same_names_are_absorbed(torch):
    def body(torch):
        with torch.profiler.record_function("same"):
            with torch.profiler.record_function("same"):
                torch.profiler.record_function("x").__enter__().__exit__(None, None, None)

    return tree(run(torch, body).events())


@snippet
def decorator(torch):
    @torch.profiler.record_function("mine")
    def f(a):
        return a

    prof = run(torch, lambda t: f(1))
    return f.__name__, [e.name for e in prof.events()]


@snippet
def event_attributes(torch):
    event = next(e for e in run(torch, add_and_scope, record_shapes=True).events() if e.name == "aten::add")
    names = ["node_id", "name", "overload_name", "trace_name", "count", "input_shapes", "concrete_inputs", "kwinputs", "scope", "use_device",
             "cpu_memory_usage", "device_memory_usage", "is_async", "is_remote", "is_legacy", "flops", "is_user_annotation",
             "is_python_function", "activity_type", "structured_input_shapes", "structured_input_strides", "input_dtypes", "stack", "key", "kernels",
             "thread", "fwd_thread", "self_cpu_percent", "python_id", "event_metadata"]
    return {name: getattr(event, name) for name in names}


@snippet
def scope_attributes(torch):
    event = next(e for e in run(torch, add_and_scope).events() if e.name == "scope")
    return event.scope, event.is_user_annotation, event.activity_type, event.input_shapes, [c.name for c in event.cpu_children]


def traced(torch, body=add_and_scope, name="t.json", **options):
    with tempfile.TemporaryDirectory() as folder:
        run(torch, body, **options).export_chrome_trace(f"{folder}/{name}")
        with (gzip.open if name.endswith("gz") else open)(f"{folder}/{name}", "rt", encoding="utf-8") as file:
            return json.load(file)


@variants({"plain": {}, "all": dict(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_modules=True)})
def metadata_of_flags(torch, flags):
    trace = traced(torch, **flags)
    return {key: trace.get(key) for key in ("schemaVersion", "displayTimeUnit", "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")}


@snippet
def trace_keys(torch):
    have = set(traced(torch))
    return sorted(have & {"schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "traceName", "trace_id"})


@snippet
def trace_events(torch):
    events = traced(torch)["traceEvents"]
    return sorted({(e["ph"], e.get("cat"), e["name"]) for e in events if e.get("cat") in ("cpu_op", "user_annotation") and e["name"] not in INNER})


@snippet
def trace_args_of_an_op(torch):
    events = traced(torch, record_shapes=True)["traceEvents"]
    args = next(e["args"] for e in events if e["name"] == "aten::add")
    keys = ("External id", "Record function id", "Ev Idx", "Sequence number", "Fwd thread id", "Input Dims", "Input Strides", "Input type", "Concrete Inputs")
    return {key: key in args for key in keys}, args["Input Dims"], args["Input Strides"], args["Input type"], args["Concrete Inputs"]


@snippet
def trace_gz(torch):
    return "traceEvents" in traced(torch, name="t.json.gz")


@variants({"add": lambda p: p.add_metadata("k", "v"), "json": lambda p: p.add_metadata_json("k", "[1]"), "preset": lambda p: p.preset_metadata_json("k", "{}"),
           "twice": lambda p: (p.add_metadata("k", "a"), p.add_metadata("k", "b"))})
def metadata(torch, call):
    with tempfile.TemporaryDirectory() as folder:
        prof = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        if "preset_metadata_json" in call.__code__.co_names:
            call(prof)
        with prof:
            if "preset_metadata_json" not in call.__code__.co_names:
                call(prof)
            torch.ones(1)
        prof.export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json")).get("k")


@variants({"int": 3, "none": None})
def add_metadata_of(torch, value):
    prof = torch.profiler.profile()
    with prof:
        prof.add_metadata("k", value)


def metadata_k(torch, add):
    """The value of "k" in the exported file."""
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile() as prof:
            add(prof)
        prof.export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json"))["k"]


@snippet
def add_metadata_json_not_json(torch):
    return metadata_k(torch, lambda prof: prof.add_metadata_json("k", "{oh"))


@snippet
def metadata_with_quotes_and_newline(torch):
    return metadata_k(torch, lambda prof: prof.add_metadata("k", 'a "b"\n\\'))


@snippet
def names_with_quotes_and_unicode(torch):
    def body(torch):
        with torch.profiler.record_function('a "b" \\ \u00e9'):
            pass

    return [e["name"] for e in traced(torch, body)["traceEvents"] if e.get("cat") == "user_annotation"]


@snippet
def toggling(torch):
    cpu = [torch.profiler.ProfilerActivity.CPU]
    x = torch.ones(2)
    with torch.profiler.profile(activities=cpu) as prof:
        x + x
        prof.toggle_collection_dynamic(False, cpu)
        x * x
        prof.toggle_collection_dynamic(True, cpu)
        x - x
    return [e.name for e in prof.events() if e.name not in INNER]


@variants({"default": dict(), "named": dict(worker_name="me"), "gz": dict(use_gzip=True), "both": dict(worker_name="me", use_gzip=True)})
def tensorboard_files(torch, options):
    with tempfile.TemporaryDirectory() as folder:
        run(torch, add_and_scope, on_trace_ready=torch.profiler.tensorboard_trace_handler(folder + "/sub", **options))
        return [re.sub(r"\d{6,}", "TIME", name) for name in os.listdir(folder + "/sub")]


@snippet
def tensorboard_bad_folder(torch):
    run(torch, on_trace_ready=torch.profiler.tensorboard_trace_handler("/dev/null/sub"))


@variants({"none": {}, "one": dict(record_shapes=True), "two": dict(record_shapes=True, with_stack=True)})
def memory_timeline_flags(torch, flags):
    prof = run(torch, **flags)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.export_memory_timeline("x.json")


@snippet
def memory_timeline_warning(torch):
    prof = run(torch, add_and_scope, record_shapes=True, profile_memory=True, with_stack=True)
    with tempfile.TemporaryDirectory() as folder:
        prof.export_memory_timeline(folder + "/m.json", device="cpu")


@snippet
def memory_timeline_form(torch):
    prof = run(torch, add_and_scope, record_shapes=True, profile_memory=True, with_stack=True)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prof.export_memory_timeline(folder + "/m.json", device="cpu")
        times, sizes = json.load(open(folder + "/m.json"))
        return len(times) == len(sizes), {len(row) for row in sizes}


@snippet
def export_stacks_without_stacks(torch):
    run(torch).export_stacks("x")


@snippet
def memory_of_an_op(torch):
    prof = run(torch, lambda t: t.ones(256), profile_memory=True)
    rows = {row.key: (row.cpu_memory_usage) for row in prof.key_averages()}
    return rows["aten::ones"]


@snippet
def memory_freed_outside(torch):
    def body(torch):
        x = torch.ones(256)
        del x

    prof = run(torch, body, profile_memory=True)
    return [(e.name, e.cpu_memory_usage, e.trace_name) for e in prof.events() if e.name == "[memory]"]


@snippet
def flops_of_products(torch):
    prof = run(torch, lambda t: (t.ones(3, 4).mm(t.ones(4, 5)), t.ones(2, 3, 4).bmm(t.ones(2, 4, 5)), t.ones(6) + 1, t.ones(6) * 2), with_flops=True)
    return {row.key: row.flops for row in prof.key_averages() if row.key in ("aten::mm", "aten::bmm", "aten::add", "aten::mul")}


@snippet
def modules_by_stack(torch):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    x = torch.ones(1, 2)
    events = traced(torch, lambda t: model(x), with_stack=True)["traceEvents"]
    return [e["name"] for e in sorted(events, key=lambda e: e.get("ts", 0)) if e["name"].startswith("nn.Module")]


@snippet
def observer(torch):
    with tempfile.TemporaryDirectory() as folder:
        et = torch.profiler.ExecutionTraceObserver()
        states = [et.get_output_file_path(), et.is_registered, et.is_running()]
        et.register_callback(folder + "/et.json")
        states += [et.is_registered, et.get_output_file_path() == folder + "/et.json"]
        run(torch, add_and_scope, execution_trace_observer=et)
        states += [et.is_registered, et.is_running()]
        trace = json.load(open(folder + "/et.json"))
        names = [n["name"] for n in trace["nodes"] if n["name"] not in INNER]
        return states, sorted(trace)[:3], trace["schema"], "aten::add" in names, "scope" in names


@snippet
def observer_protocol(torch):
    calls = []
    run(torch, execution_trace_observer=types.SimpleNamespace(start=lambda: calls.append("start"), stop=lambda: calls.append("stop"),
                                                               cleanup=lambda: calls.append("cleanup")))
    return calls


@snippet
def event_order(torch):
    events = run(torch, add_and_scope).events()
    keys = [(e.time_range.start, -e.time_range.end) for e in events]
    return keys == sorted(keys), type(events).__name__, isinstance(events, list), isinstance(events[:1], list)


@snippet
def sequence_numbers(torch):
    w = torch.ones(2, 2, requires_grad=True)
    prof = run(torch, lambda t: w.mm(w).sum().backward())
    by_name = {e.name: e for e in prof.events()}
    forward, backward = by_name["aten::sum"], by_name["SumBackward0"]
    return forward.sequence_nr == backward.sequence_nr, backward.scope, backward.fwd_thread == forward.thread


@snippet
def row_scopes(torch):
    w = torch.ones(2, 2, requires_grad=True)

    def body(torch):
        with torch.profiler.record_function("scope"):
            (w * w).sum().backward()

    return {row.key: row.scope for row in run(torch, body).key_averages() if row.key not in INNER}


@snippet
def row_parents(torch):
    def body(torch):
        add_and_scope(torch)
        torch.ones(2) + 1

    rows = run(torch, body).key_averages()
    return {row.key: (row.cpu_parent.name if row.cpu_parent else None, [c.name for c in row.cpu_children if c.name not in INNER]) for row in rows
            if row.key not in INNER}


@snippet
def rows_at_top_level(torch):
    table = run(torch, add_and_scope).key_averages().table(top_level_events_only=True)
    return "aten::add" in table, "scope" in table


@snippet
def pickled_events(torch):
    import pickle

    events = pickle.loads(pickle.dumps(made(torch)))
    return type(events).__name__, [(e.name, e.self_cpu_time_total) for e in events]


@snippet
def threads_are_numbered(torch):
    return sorted({e.thread for e in run(torch, add_and_scope).events()})
