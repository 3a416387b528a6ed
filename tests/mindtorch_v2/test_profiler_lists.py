"""events() and key_averages(): lists, events, rows, tables."""
import copy
import gc
import json
import pickle
import re
import threading
import time

import pytest

import mindtorch_v2 as torch
from mindtorch_v2.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg
from mindtorch_v2.profiler import DeviceType, profile, record_function, schedule
from profiling import CPU, changed, exported, find, here, named, steps, work

pytestmark = pytest.mark.usefixtures("each_device", "fresh_warnings")


# ---------------------------------------------------------------------------------------- events()


def test_events_answer_both_ways(x):
    with profile(activities=CPU) as prof:
        with record_function("scope"):
            x + x
    scope, op = prof.events()
    for event, kind in ((scope, "scope"), (op, "op")):
        assert {"name", "kind", "device_type", "start_ns", "end_ns", "duration_ns", "step", "thread_id"} <= set(event.keys())
        assert event["kind"] == kind and event.device_type == "CPU"
        assert event["device_type"] == ("CPU" if kind == "scope" else here().upper())
        assert event["duration_ns"] == event["end_ns"] - event["start_ns"]
        assert event["name"] == event.name and event.get("name") == event.name
        assert event.get("nope") is None and event.get("nope", 3) == 3 and "nope" not in event
        assert event["thread_id"] == threading.get_native_id()
        assert dict(event)["name"] == event.name
        json.dumps(dict(event))
    assert {"correlation_id", "runtime_name", "runtime_tid"} <= set(op.keys()) and op["correlation_id"] > 0
    with pytest.raises(KeyError):
        op["nope"]
    assert isinstance(op, FunctionEvent) and op.cpu_parent is scope and scope.cpu_children == [op]


def test_events_are_sorted_outer_before_inner(x):
    with profile(activities=CPU) as prof:
        for _ in range(5):
            with record_function("a"):
                with record_function("b"):
                    x + x
    events = prof.events()
    keys = [(e.time_range.start, -e.time_range.end) for e in events]
    assert keys == sorted(keys)
    assert [e.name for e in events[:3]] == ["a", "b", "aten::add"]


def test_events_may_be_asked_while_running(x):
    with profile(activities=CPU) as prof:
        x + x
        first = prof.events()
        assert [e.name for e in first] == ["aten::add"]
        x * x
        assert [e.name for e in prof.events()] == ["aten::add", "aten::mul"]
        assert prof.key_averages().table()
    assert [e.name for e in first] == ["aten::add"] and len(prof.events()) == 2


def test_times_nest_and_self_is_what_children_leave(x):
    with profile(activities=CPU) as prof:
        with record_function("outer"):
            time.sleep(0.002)
            with record_function("inner"):
                time.sleep(0.002)
    outer, inner = prof.events()
    assert outer.time_range.start <= inner.time_range.start and inner.time_range.end <= outer.time_range.end
    assert outer.cpu_time_total == pytest.approx(outer.time_range.elapsed_us())
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - inner.cpu_time_total)
    assert inner.cpu_time_total == inner.self_cpu_time_total >= 1900


def test_self_times_of_threads_do_not_mix():
    def other():
        with record_function("other"):
            time.sleep(0.01)

    with profile(activities=CPU) as prof:
        with record_function("main"):
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
    main, other = find(prof.events(), "main")[0], find(prof.events(), "other")[0]
    assert main.self_cpu_time_total == main.cpu_time_total >= other.cpu_time_total >= 9900
    assert other.cpu_parent is None and other.thread != main.thread and other["thread_id"] != main["thread_id"]


def test_ops_under_autograd_are_recorded_once():
    w = torch.ones(3, requires_grad=True)
    with profile(activities=CPU) as prof:
        y = w * w
    assert len(find(prof.events(), "aten::mul")) == 1 and y.requires_grad


def test_backward_is_recorded_with_torchs_names():
    w = torch.ones(2, 2, requires_grad=True)
    with profile(activities=CPU) as prof:
        w.mm(w).sum().backward()
    names = {e.name for e in prof.events()}
    assert {"aten::mm", "autograd::engine::evaluate_function: MmBackward0", "MmBackward0", "torch::autograd::AccumulateGrad"} <= names
    forward, backward = find(prof.events(), "aten::mm")[0], find(prof.events(), "MmBackward0")[0]
    assert forward.sequence_nr == backward.sequence_nr >= 0 and backward.scope == 1
    assert backward.fwd_thread == forward.thread


def test_an_only_child_of_its_parents_name_is_absorbed():
    with profile(activities=CPU) as prof:
        with record_function("same"):
            with record_function("same"):
                with record_function("x"):
                    pass
    assert [e.name for e in prof.events()] == ["same", "x"]


def test_a_scope_reused_keeps_each_of_its_events(x):
    scope = record_function("again")
    with profile(activities=CPU) as prof:
        for _ in range(3):
            with scope:
                x + x
    again = find(prof.events(), "again")
    assert len(again) == 3 and all(len(e.cpu_children) == 1 for e in again)
    assert again[0].time_range.end <= again[1].time_range.start


def test_memory_of_ops(x, tmp_path):
    with profile(activities=sorted({"cpu", here()}), profile_memory=True) as prof:
        y = torch.ones(256)
    event, key = prof.events()[0], f"{here()}_memory_allocated_"
    usage = "cpu_memory_usage" if here() == "cpu" else "device_memory_usage"
    assert event[key + "delta"] == event[key + "after"] - event[key + "before"] == 1024
    assert getattr(event, usage) == 1024 and getattr(prof.key_averages()[0], usage) == 1024
    assert named(exported(prof, tmp_path), event.name)[0]["args"][key + "delta"] == 1024
    assert y.shape == (256,)


def test_memory_that_no_op_covers_is_an_event(x):
    with profile(activities=sorted({"cpu", here()}), profile_memory=True) as prof:
        y = torch.ones(256)
        del y
    usage = "cpu_memory_usage" if here() == "cpu" else "device_memory_usage"
    assert [(e.name, getattr(e, usage)) for e in prof.events() if e.device_type == "CPU"][-1] == ("[memory]", -1024)


def test_memory_is_read_only_while_recording():
    prof, _ = steps(4, lambda x: torch.ones(256), profile_memory=True, schedule=schedule(wait=1, warmup=1, active=1, repeat=1))
    assert {e["step"] for e in prof.events() if f"{here()}_memory_allocated_delta" in e} == {2}


def test_flops_of_a_matrix_product():
    a = torch.ones(4, 5)
    with profile(activities=CPU, with_flops=True) as prof:
        a.mm(torch.ones(5, 6))
    assert find(prof.events(), "aten::mm")[0].flops == 2 * 4 * 5 * 6
    assert "Total FLOPs" in prof.key_averages().table() or "Total KFLOPs" in prof.key_averages().table()


def test_events_are_made_when_looked_at():
    with profile(activities=CPU) as prof:
        for _ in range(20000):
            with record_function("a"):
                pass
    gc.collect()
    before = len(gc.get_objects())
    events = prof.events()
    assert len(events) == 20000 and events[19999].name == "a"
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_changed_events_work_their_numbers_out(x):
    with profile(activities=CPU) as prof:
        with record_function("outer"):
            x + x
            x * x
    outer, add, mul = prof.events()
    whole = outer.cpu_time_total
    outer.cpu_children = [add]
    assert outer.cpu_time_total == pytest.approx(whole)
    assert outer.self_cpu_time_total == pytest.approx(whole - add.cpu_time_total)
    assert mul.cpu_parent is outer
    assert {row.key: row.self_cpu_time_total for row in prof.events().key_averages()}["outer"] == pytest.approx(outer.self_cpu_time_total)


def test_events_made_by_hand_are_torchs():
    def event(id, name, start, end, **more):
        return FunctionEvent(id=id, name=name, thread=0, start_us=start, end_us=end, **more)

    events = EventList([event(1, "a", 0, 10), event(2, "b", 1, 4, cpu_memory_usage=8), event(3, "c", 5, 9), event(4, "c", 6, 8)])
    events._build_tree()
    a, b, c = events
    assert [e.name for e in a.cpu_children] == ["b", "c"] and a.self_cpu_time_total == 3 and c.self_cpu_time_total == 4
    b.append_kernel("k", 0, 5)
    assert b.kernels[0].duration == 5 and b.device_time_total == 0
    row = FunctionEventAvg().add(b)
    assert row.cpu_memory_usage == 8 and events.total_average().count == 3
    assert "<FunctionEvent id=2 name=b" in repr(b)
    with pytest.raises(TypeError):
        FunctionEvent(1, "a", 0, 0, 1, nonsense=1)


# ----------------------------------------------------------------------------------------- averages


@pytest.fixture
def rows(x):
    with profile(activities=CPU, record_shapes=True) as prof:
        for n in (2, 2, 3):
            y = torch.ones(n)
            with record_function("scope"):
                y + y
    return prof.key_averages()


def test_rows_have_torchs_defaults(rows):
    row = next(r for r in rows if r.key == "aten::add")
    assert row.count == 3 and row.cpu_time == pytest.approx(row.cpu_time_total / 3)
    assert (row.input_shapes, row.stack, row.node_id, row.scope, row.use_device) == ("", [], -1, 0, None)
    assert row.device_type == DeviceType.CPU == "CPU" and row.device_type == "CPU"
    assert row.is_async is False and row.is_legacy is False and row.is_remote is False and row.overload_name == ""
    assert all(re.fullmatch(r"\d+\.\d{3}(us|ms|s)", getattr(row, n + "_str")) for n in (
        "cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time", "device_time_total", "self_device_time_total"))
    with pytest.raises(TypeError):
        row["key"]


def test_rows_can_be_cloned_and_added(rows):
    row = rows[0]
    clone = row.__class__(dict(row._row))
    assert clone is not row and clone._row == row._row and clone.__dict__.keys() >= {"key", "count"}
    count, total = row.count, row.cpu_time_total
    assert clone.add(row) is clone
    assert clone.count == 2 * count and clone.cpu_time_total == pytest.approx(2 * total) and row.count == count
    clone += row
    assert clone.count == 3 * count
    with pytest.raises(AssertionError, match="Expected keys to match"):
        clone.add(rows[1])
    with pytest.raises((AssertionError, AttributeError)):
        clone.add("nonsense")


def test_cuda_names_are_aliases(rows):
    with pytest.warns(FutureWarning, match="`cuda_time` is deprecated"):
        assert rows[0].cuda_time == 0
    with pytest.warns(FutureWarning):
        assert rows[0].cuda_time_total == rows[0].self_cuda_time_total == 0


def test_an_event_list_is_a_list(rows):
    keys = [row.key for row in rows]
    assert isinstance(rows, list) and len(rows) == len(keys) and rows and rows[-1].key == keys[-1]
    assert [r.key for r in rows[1:]] == keys[1:] and isinstance(rows[1:], list)
    assert type(rows.copy()) is list and rows.copy() == list(rows)
    assert rows.count(rows[0]) == 1 and rows.index(rows[1]) == 1 and rows[0] in rows
    assert [r.key for r in reversed(rows)] == keys[::-1]
    assert [r.key for r in [] + rows] == keys == [r.key for r in rows + []]
    assert [r.key for r in sorted(rows, key=lambda r: r.key)] == sorted(keys)
    with pytest.raises(IndexError):
        rows[len(rows)]
    first = rows[0]
    rows.sort(key=lambda r: r.key, reverse=True)
    assert [r.key for r in rows] == sorted(keys, reverse=True)
    rows.reverse()
    rows.append(first)
    rows.extend([first])
    rows.insert(0, first)
    assert rows.pop() is first and rows[0] is first and len(rows) == len(keys) + 2
    rows.remove(first)
    rows[0] = first
    del rows[0]
    rows.clear()
    assert not rows and rows.table() == "" and str(rows) == ""


def test_a_lazy_list_is_never_empty_by_mistake(x):
    with profile(activities=CPU) as prof:
        work(x)
    count = len(prof.events())
    for read in (lambda e: list(e), lambda e: tuple(e), lambda e: [*e], lambda e: [] + e, lambda e: e + [], lambda e: e * 1,
                 lambda e: sorted(e, key=id), lambda e: list(map(str, e)), lambda e: e[:], lambda e: list(iter(e)),
                 lambda e: list(reversed(e)), lambda e: list(filter(None, e)), lambda e: list(enumerate(e)), lambda e: e.copy()):
        fresh = torch.autograd.profiler.EventList._lazy(prof.events()._source, prof.profiler)
        assert len(read(fresh)) == count


def test_events_and_rows_are_copied_and_pickled(x):
    with profile(activities=CPU, record_shapes=True) as prof:
        with record_function("scope"):
            work(x)
    expected = [(e.name, e.input_shapes, [c.name for c in e.cpu_children], e.self_cpu_time_total) for e in prof.events()]
    for copied in (pickle.loads(pickle.dumps(prof.events())), copy.deepcopy(prof.events()), copy.copy(prof.events())):
        assert type(copied) is EventList and copied.table()
        assert [(e.name, e.input_shapes, [c.name for c in e.cpu_children]) for e in copied] == [e[:3] for e in expected]
        assert [e.self_cpu_time_total for e in copied] == pytest.approx([e[3] for e in expected])
        assert copied[1].cpu_parent is copied[0]
    rows = pickle.loads(pickle.dumps(prof.key_averages()))
    assert [r._row for r in rows] == [r._row for r in prof.key_averages()]
    assert copy.copy(prof.events()[1]).name == "aten::add"


def test_rows_know_the_relatives_of_their_first_event(x):
    with profile(activities=CPU) as prof:
        with record_function("scope"):
            x + x
        x + x
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::add"].cpu_parent.name == "scope" and rows["scope"].cpu_parent is None
    assert [e.name for e in rows["scope"].cpu_children] == ["aten::add"]


def test_build_rows(rows):
    built = rows._build_rows()
    assert {"name", "count", "self_time_ns", "total_time_ns"} <= set(built[0])
    assert [b["name"] for b in built] == [r.key for r in rows]
    assert built[0]["total_time_ns"] == round(rows[0].cpu_time_total * 1000)


def test_grouping(x):
    with profile(activities=CPU, record_shapes=True, with_stack=True) as prof:
        for n in (2, 3):
            y = torch.ones(n)
            y + y
        y + y
    add = lambda averages: [r for r in averages if r.key == "aten::add"]  # noqa: E731
    assert len(add(prof.key_averages())) == 1
    by_shape = add(prof.key_averages(group_by_input_shape=True))
    assert sorted(str(r.input_shapes) for r in by_shape) == ["[[2], [2], []]", "[[3], [3], []]"]
    by_stack = add(prof.key_averages(group_by_stack_n=1))
    assert len(by_stack) == 2 and all(len(r.stack) == 1 and "test_profiler_lists.py" in r.stack[0] for r in by_stack)
    assert len(add(prof.events().key_averages(group_by_input_shapes=True))) == 2
    assert len(add(prof.key_averages().key_averages(group_by_input_shapes=True))) == 2
    assert len(add(prof.key_averages(group_by_overload_name=True))) == 1


def test_averages_of_changed_lists_are_the_same(x):
    with profile(activities=CPU, record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            with record_function("scope"):
                work(x)
    plain = EventList(list(prof.events()), profile_memory=True)
    for options in ({}, {"group_by_input_shapes": True}):
        lazy, made = prof.events().key_averages(**options), plain.key_averages(**options)
        assert [(r.key, r.count, str(r.input_shapes), r.cpu_memory_usage) for r in lazy] == \
               [(r.key, r.count, str(r.input_shapes), r.cpu_memory_usage) for r in made]
        assert [r.self_cpu_time_total for r in lazy] == pytest.approx([r.self_cpu_time_total for r in made])


def test_total_average(rows):
    total = rows.total_average()
    assert total.key == "Total" and total.count == sum(r.count for r in rows)
    assert total.self_cpu_time_total == pytest.approx(sum(r.self_cpu_time_total for r in rows))
    assert rows.self_cpu_time_total == pytest.approx(total.self_cpu_time_total)
    empty = EventList().total_average()
    assert (empty.key, empty.count, empty.cpu_time_total, empty.cpu_time) == ("Total", 0, 0, 0)


# ------------------------------------------------------------------------------------------- tables


def test_table_has_torchs_words(rows):
    table = rows.table()
    for word in ("Name", "Self CPU", "CPU total", "CPU time avg", "# of Calls", "Self CPU time total: "):
        assert word in table
    assert str(rows) == table


TABLES = [{}, {"sort_by": "cpu_time_total"}, {"sort_by": "cpu_time_avg"}, {"sort_by": "self_cpu_time_total", "row_limit": 2},
          {"row_limit": -1}, {"row_limit": 0}, {"header": "My header"}, {"time_unit": "ms"}, {"max_name_column_width": 12},
          {"sort_by": "count"}, {"top_level_events_only": True}, {"sort_by": "cuda_time_total"}, {"sort_by": "self_npu_memory_usage"},
          {"max_name_column_width": None, "max_shapes_column_width": None, "max_src_column_width": None},
          {"max_src_column_width": 20, "max_shapes_column_width": 6}]


@pytest.mark.parametrize("flags", [{}, {"record_shapes": True, "profile_memory": True},
                                   {"with_flops": True}, {"with_stack": True}], ids=str)
@pytest.mark.parametrize("group", [{}, {"group_by_input_shape": True, "group_by_stack_n": 3, "group_by_overload_name": True}], ids=str)
def test_tables_of_c_and_of_changed_lists_are_the_same(flags, group):
    with profile(activities=CPU, **flags) as prof:
        with record_function("a scope with a name that is longer than a column may be, and so it is cut"):
            torch.ones(30, 40).mm(torch.ones(40, 50))
    lazy, touched = prof.key_averages(**group), prof.key_averages(**group)
    list(touched)
    for options in TABLES:
        assert lazy.table(**options) == touched.table(**options)


def test_shares_are_of_a_sum_in_the_order_of_the_table():
    """As in torch: in another order, 1.63 of these 40.0 us would be 4.08 % instead of 4.07 %."""
    times = [6.947, 1.63, 18.823, 12.6]
    with profile(activities=CPU) as prof:
        for i in range(len(times)):
            with record_function(f"scope {i}"):
                pass
    rows = prof.key_averages()
    for row, time in zip(rows, times):
        row.self_cpu_time_total = time
    table = rows.table(sort_by="self_cpu_time_total")
    assert "4.07%" in table and "4.08%" not in table
    assert "4.08%" in rows.table()


def test_table_limits_rows(rows):
    lines = len(rows.table(row_limit=-1).splitlines())
    assert len(rows.table(row_limit=1).splitlines()) == lines - len(rows) + 1
    assert rows.table(row_limit=-1) == rows.table(row_limit=len(rows))


def test_rows_sorted_by_their_names(x):
    with profile(activities=CPU, profile_memory=True) as prof:
        (x + x).exp()
        x * x
    rows = prof.key_averages()
    plain, by_name = rows.table().splitlines(), rows.table(sort_by="key").splitlines()
    assert sorted(plain) == sorted(by_name)  # the same lines in another order
    names = [line.split()[0] for line in by_name[3:3 + len(rows)]]
    assert names == sorted((row.key for row in rows), reverse=True)
    for name in ("input_shapes", "overload_name", "stack"):
        assert sorted(rows.table(sort_by=name).splitlines()) == sorted(plain)


def test_an_unknown_sort_key_is_an_attribute_error(rows):
    for made in (rows, changed(rows)):
        with pytest.raises(AttributeError):
            made.table(sort_by="nonsense")


def test_tables_of_events(x):
    with profile(activities=CPU) as prof:
        with record_function("scope"):
            work(x)
    whole = prof.events().table()
    assert "aten::add" in whole and "scope" in whole
    top = prof.events().table(top_level_events_only=True)
    assert "This report only display top-level ops statistics" in top and "aten::add" not in top
    assert prof.key_averages().table(top_level_events_only=True)


def test_notebooks_show_a_table(rows):
    shown = rows._repr_html_()
    assert shown.startswith("<table ") and "aten::add" in shown and "<script" not in shown and "# of Calls" in shown


def test_names_are_escaped_in_notebooks():
    with profile(activities=CPU) as prof:
        with record_function("<script>"):
            pass
    assert "&lt;script&gt;" in prof.key_averages()._repr_html_()
