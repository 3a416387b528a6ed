"""Snippets: lists of events made by hand, their tables, averages and exports."""
import json
import re
import tempfile

from parity import theirs
from parity.snippets import snippet, variants


def made(torch, device=False, memory=False, stacks=False, flops=False, shapes=False):
    util = torch.autograd.profiler_util
    word = "cuda" if torch is theirs else "npu"

    def event(id, name, start, end, **more):
        if device:
            more.setdefault("use_device", word)
        return util.FunctionEvent(id=id, name=name, thread=more.pop("thread", 1), start_us=start, end_us=end,
                                  overload_name=more.pop("overload_name", ""), stack=more.pop("stack", []),
                                  input_shapes=more.pop("input_shapes", []), flops=more.pop("flops", 0), trace_name=name, **more)

    events = [
        event(1, "outer", 0, 5000.5, scope=7, is_user_annotation=True),
        event(2, "aten::mm", 10, 1510.25, **(dict(flops=123456) if flops else {}), **(dict(input_shapes=[[3, 4], [4, 5]]) if shapes else {}),
              **(dict(stack=["a/very/long/path/" * 6 + "file.py:3:function", "b.py:4:caller"]) if stacks else {}),
              **(dict(cpu_memory_usage=5000, device_memory_usage=3 << 20) if memory else {})),
        event(3, "aten::a_name_that_is_longer_than_the_column_for_names_can_be_at_most", 2000, 2100,
              **(dict(stack=["b.py:9:caller"]) if stacks else {})),
        event(4, "aten::mm", 3000, 3000.75, **(dict(flops=500) if flops else {}), **(dict(input_shapes=[[1], []]) if shapes else {}),
              **(dict(cpu_memory_usage=-77) if memory else {})),
        event(5, "other thread", 20, 4_000_000, thread=2),
        event(6, "same", 4100, 4200), event(7, "same", 4110, 4190), event(8, "inner", 4120, 4125),
    ]
    events = util.EventList(events, use_device=word if device else None, profile_memory=memory, with_flops=flops)
    if device:
        events[1].append_kernel("gemm", 0, 900.5)
        events[3].append_kernel("gemm", 0, 77)
        kind = torch.profiler.DeviceType.CUDA
        events.append(event(9, "gemm", 1600, 2500.5, device_type=kind))
    events._build_tree()
    return events


WITH = {"plain": {}, "memory": dict(memory=True), "shapes": dict(shapes=True), "stacks": dict(stacks=True), "flops": dict(flops=True),
        "shapes and memory": dict(shapes=True, memory=True), "shapes and flops": dict(shapes=True, flops=True)}
TABLES = {"": {}, "sorted": dict(sort_by="self_cpu_time_total"), "by cuda": dict(sort_by="cuda_time_total"), "by count": dict(sort_by="count"),
          "limited": dict(row_limit=2), "all": dict(row_limit=-1), "none": dict(row_limit=0), "header": dict(header="Head"),
          "ms": dict(time_unit="ms"), "s": dict(time_unit="s"), "us": dict(time_unit="us"), "top": dict(top_level_events_only=True),
          "narrow": dict(max_name_column_width=20, max_shapes_column_width=8, max_src_column_width=10),
          "wide": dict(max_name_column_width=None, max_shapes_column_width=None, max_src_column_width=None),
          "unknown key": dict(sort_by="nonsense")}
CASES = {f"{w} {t}": (WITH[w], TABLES[t]) for w in WITH for t in TABLES}


@variants(CASES)
def table_of_events(torch, case):
    return made(torch, **case[0]).table(**case[1])


@variants(CASES)
def table_of_rows(torch, case):
    group = {"group_by_input_shapes": "shapes" in case[0], "group_by_stack_n": 2 if "stacks" in case[0] else 0}
    return made(torch, **case[0]).key_averages(**group).table(**case[1])


@variants({t: TABLES[t] for t in TABLES})
def table_with_device(torch, options):
    table = made(torch, device=True, memory=True).key_averages().table(**options)
    return re.sub(" +", " ", table.replace("CUDA", "NPU"))  # the device's word is shorter here


@snippet
def table_stack_and_flops(torch):
    return made(torch, stacks=True, flops=True).key_averages(group_by_stack_n=1).table()


@variants(WITH)
def rows_of(torch, options):
    names = ["key", "count", "node_id", "is_async", "is_remote", "use_device", "cpu_time_total", "self_cpu_time_total", "device_time_total",
             "self_device_time_total", "input_shapes", "overload_name", "stack", "scope", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
             "self_device_memory_usage", "is_legacy", "flops", "cpu_time", "device_time", "cpu_time_str", "cpu_time_total_str", "self_cpu_time_total_str"]
    return [{name: getattr(row, name) for name in names} for row in made(torch, **options).key_averages()]


@variants(WITH)
def totals_of(torch, options):
    events = made(torch, **options)
    total = events.total_average()
    return total.key, total.count, total.cpu_time_total, total.self_cpu_time_total, total.cpu_memory_usage, events.self_cpu_time_total


@snippet
def reprs(torch):
    events = made(torch)
    return repr(events[1]), repr(events.key_averages()[1]), str(events) == events.table()


@snippet
def totals_of_nothing(torch):
    empty = torch.autograd.profiler_util.EventList()
    return empty.total_average().key, empty.total_average().count, empty.table()


@snippet
def row_key_averages(torch):
    return len(made(torch).key_averages().key_averages())


@snippet
def rows_are_cloned(torch):
    row = made(torch).key_averages()[0]
    return row.__class__(dict(row._row)).key


@snippet
def row_add_of_another_key(torch):
    rows = made(torch).key_averages()
    rows[0].add(rows[1])


@snippet
def row_add(torch):
    rows = made(torch).key_averages()
    added = rows[1].add(rows[1])
    return added is rows[1], added.count, added.cpu_time_total


@variants({"metric": "self_cpu_time_total", "cuda": "self_cuda_time_total", "wrong": "nonsense"})
def export_stacks(torch, metric):
    with tempfile.TemporaryDirectory() as folder:
        made(torch, stacks=True).export_stacks(folder + "/s", metric)
        return open(folder + "/s").read()


@snippet
def export_stacks_below_a_microsecond(torch):
    util = torch.autograd.profiler_util
    events = util.EventList([util.FunctionEvent(1, "a", 0, 0, 0.5, stack=["a:1:f", "b:2:g"])])
    with tempfile.TemporaryDirectory() as folder:
        events.export_stacks(folder + "/s", "self_cpu_time_total")
        return open(folder + "/s").read()


@snippet
def export_chrome_of_events(torch):
    with tempfile.TemporaryDirectory() as folder:
        made(torch).export_chrome_trace(folder + "/t.json")
        return json.load(open(folder + "/t.json"))


@snippet
def export_chrome_of_rows(torch):
    with tempfile.TemporaryDirectory() as folder:
        made(torch).key_averages().export_chrome_trace(folder + "/t.json")
        return bool(json.load(open(folder + "/t.json")))


@variants({"cuda_time": "cuda_time", "cuda_time_total": "cuda_time_total", "self_cuda_time_total": "self_cuda_time_total",
           "self_cuda_memory_usage": "self_cuda_memory_usage", "metadata_json": "metadata_json"})
def deprecated_names(torch, name):
    return getattr(made(torch)[1], name)


@snippet
def children_and_parents(torch):
    return [(e.name, [c.name for c in e.cpu_children], e.cpu_parent.name if e.cpu_parent else None, e.self_cpu_time_total) for e in made(torch)]


@variants({"kernel": lambda e: e.append_kernel("k", 0, 1), "child": lambda e: e.append_cpu_child("no event"), "parent": lambda e: e.set_cpu_parent(3)})
def wrong_relatives(torch, call):
    util = torch.autograd.profiler_util
    event = util.FunctionEvent(1, "a", 0, 0, 1, **({"device_type": torch.profiler.DeviceType.CUDA} if call.__code__.co_names[0] == "append_kernel" else {}))
    call(event)


@snippet
def event_is_a_mapping(torch):
    return made(torch)[0]["name"]
