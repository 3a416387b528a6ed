"""mindtorch_v2.profiler._memory_profiler: for PyTorch's event trees, the results of PyTorch's module (if installed); for our
own, the program's actual categories."""
import functools
import json
from types import SimpleNamespace

import pytest

from profiled_programs import PROGRAMS, profiled
from report_file import Report as report

# ------------------------------------------------------------------------------- the same tree, both modules


@pytest.fixture(autouse=True)
def two_threads():
    """With one, which another test may have asked for, PyTorch's convolution calls resize_ with a memory format. Its own matcher
    knows no schema for that, and takes what resize_ writes for unchanged; ours does."""
    try:
        import torch
    except ImportError:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(max(2, threads))
    yield
    torch.set_num_threads(threads)


@functools.cache
def _modules():
    theirs = pytest.importorskip("torch.profiler._memory_profiler")
    import on_torch

    return theirs, on_torch.load()[2]


@functools.cache
def _result(name):
    return profiled(pytest.importorskip("torch"), name)


def _key(key):
    return None if key is None else repr(key)


def _versions(items):
    return [(_key(key), value) for key, value in items]


def _edges(node):
    return [(_key(key), edge.input_version, edge.mutated) for key, edge in node._edges.items()]


def _flow(profile):
    return [(node._event.id, node.start_time, _edges(node), _versions(node.inputs.items()), _versions(node.outputs.items()),
             [_key(key) for key in node.intermediates]) for node in profile._data_flow_graph.flow_nodes]


def _seen_in_events(module, tree):
    seen = []
    for event in tree.sorted_nodes:
        seen.append((event.id, module.get_scopes(event), [_key(p) for p in module.extract_parameters(event)],
                     [(_key(p), _key(grad)) for p, grad in module.extract_gradients(event)]))
        tag, fields = event.typed
        if tag.name == "TorchOp":
            schemas = module.SchemaMatcher.match_schemas(fields)
            seen.append(([str(schema) for schema in schemas], module.SchemaMatcher.inputs_are_mutable(fields)))
    return seen


def _files(module, profile, folder):
    timeline = module.MemoryProfileTimeline(profile)
    made = [timeline._coalesce_timeline("cpu"), timeline._coalesce_timeline("cuda:0")]
    for export in (timeline.export_memory_timeline, timeline.export_memory_timeline_raw):
        export(folder / "out.json", "cpu")
        made.append(json.loads((folder / "out.json").read_text()))
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_profile_says_what_pytorchs_says_of_pytorchs_tree(name, tmp_path):
    prof = _result(name)
    said = []
    for module in _modules():
        profile = module.MemoryProfile(prof.profiler.kineto_results)
        said.append({
            "events": _seen_in_events(module, profile._op_tree),
            "leaves": [event.id for event in profile._data_flow_graph.leaf_events],
            "flow": _flow(profile),
            "sizes": sorted((_key(key), size) for key, size in profile._size_map._values.items()),
            "categories": [(_key(key), version, category and category.name)
                           for (key, version), category in profile._category_snapshot().items()],
            "timeline": [(time, action.name, _key(key), version, size) for time, action, (key, version), size in profile.timeline],
            "files": _files(module, profile, tmp_path),
        })
    for what in said[0]:
        assert said[1][what] == said[0][what], what


def test_names_and_signatures_are_pytorchs():
    import inspect

    theirs, ours = _modules()
    names = [name for name, value in vars(theirs).items()
             if getattr(value, "__module__", None) == theirs.__name__ or name.startswith("_CATEGORY") or name.startswith("_ACTION")]
    assert len(names) > 15
    for name in names:
        mine, other = getattr(ours, name), getattr(theirs, name)
        if inspect.isclass(other):
            members = [m for m in vars(other) if not m.startswith("__") or m in ("__init__", "__getitem__", "__lt__")]
            assert [m for m in members if not hasattr(mine, m) and m not in getattr(mine, "__dataclass_fields__", ())] == []
            other_methods = {m: getattr(other, m) for m in members if inspect.isfunction(getattr(other, m, None))}
        else:
            other_methods = {name: other} if inspect.isfunction(other) else {}
        for method, function in other_methods.items():
            my = mine if inspect.isfunction(mine) else getattr(mine, method)
            assert list(inspect.signature(my).parameters) == list(inspect.signature(function).parameters), (name, method)
    for table in ("_CATEGORY_TO_INDEX", "_ACTION_TO_INDEX"):
        assert {k and k.name: v for k, v in getattr(ours, table).items()} == {k and k.name: v for k, v in getattr(theirs, table).items()}
    assert [c.name for c in ours.Category] == [c.name for c in theirs.Category]
    assert [c.value for c in ours.Category] == [c.value for c in theirs.Category]


# ------------------------------------------------------------------------------------------------- our trees


def _ours(name, **flags):
    import mindtorch_v2

    return profiled(mindtorch_v2, name, **flags)


@pytest.mark.parametrize("name", PROGRAMS)
def test_ops_are_known_by_their_schemas(name):
    """An op without a matching schema may have changed any of its arguments."""
    from mindtorch_v2.profiler import _memory_profiler as module
    from mindtorch_v2.profiler._utils import traverse_dfs

    unknown = {}
    for event in traverse_dfs(_ours(name).profiler.kineto_results.experimental_event_tree()):
        tag, fields = event.typed
        if tag.name == "TorchOp" and event.name.startswith("aten::") and not module.SchemaMatcher.match_schemas(fields):
            unknown[event.name] = fields.inputs, module.SchemaMatcher.lookup_schemas(event.name)
    assert unknown == {}


def _categories_of(profile, tensor):
    """Of the block that a live tensor is in: every version's."""
    found = {}
    for (key, version), category in profile._category_snapshot().items():
        if key.storage.ptr == tensor.data_ptr():
            found.setdefault(key.storage.allocation_id, set()).add(category and category.name)
    return found[max(found)] if found else set()


def test_tensors_of_a_training_are_called_what_they_are():
    import mindtorch_v2 as torch

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters())
    old, kept = torch.ones(3, 4), []
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        for x in (old, torch.ones(3, 4)):
            kept += [x, torch.ones(3, 2)]
            optimizer.zero_grad()
            out = model(x)
            torch.nn.functional.mse_loss(out, kept[-1]).backward()
            optimizer.step()
    profile = prof._memory_profile()
    for p in model.parameters():
        assert _categories_of(profile, p) == {"PARAMETER"}
        assert _categories_of(profile, p.grad) == {"GRADIENT"}
        for name in ("exp_avg", "exp_avg_sq", "step"):
            assert _categories_of(profile, optimizer.state[p][name]) == {"OPTIMIZER_STATE"}
    for tensor in kept:
        assert _categories_of(profile, tensor) == {"INPUT"}
    assert _categories_of(profile, out) == {"ACTIVATION"}
    seen = {category.name for category in profile._category_snapshot().values() if category}
    assert seen >= {"PARAMETER", "GRADIENT", "OPTIMIZER_STATE", "INPUT", "ACTIVATION", "AUTOGRAD_DETAIL"}


def test_what_an_op_leaves_behind_is_a_tensors():
    """Unused results, and what is kept for the backward pass; not what an op frees itself."""
    import mindtorch_v2 as torch

    x, y = torch.ones(100), torch.ones(100, requires_grad=True)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        total = x.sum()
        x.mul_(y)  # y's gradient needs x as it was
    nodes = {node._event.name: node for node in prof._memory_profile()._data_flow_graph.flow_nodes}
    (key,) = nodes["aten::sum"].outputs
    assert key.storage.ptr == total.data_ptr()
    assert sorted(nodes["aten::mul_"].outputs.values()) == [0, 1]
    assert not any(node.intermediates for node in nodes.values())


def test_the_gradient_that_backward_begins_with_lasts_as_long_as_backward():
    import mindtorch_v2 as torch

    x, w = torch.ones(1), torch.ones(1, requires_grad=True)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        (x * w).sin().backward()
    names = [(node._event.name, [key.id for key, edge in node._edges.items() if edge.is_deletion])
             for node in prof._memory_profile()._data_flow_graph.flow_nodes]
    (first,) = [list(node.outputs)[0].id for node in prof._memory_profile()._data_flow_graph.flow_nodes
                if node._event.name == "aten::ones_like"]
    accumulated = [name for name, _ in names].index("torch::autograd::AccumulateGrad")
    assert [first] in [freed for _, freed in names[accumulated:]]


def test_parameters_are_deduced_where_no_module_names_them():
    import mindtorch_v2 as torch

    w = torch.ones(3, requires_grad=True)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        for _ in range(2):
            x = torch.ones(3)
            (x * w).sum().backward()
            with torch.no_grad():
                w.add_(w.grad, alpha=-0.1)
                w.grad = None
    profile = prof._memory_profile()
    assert _categories_of(profile, w) == {"PARAMETER"} and _categories_of(profile, x) == {"INPUT"}


def test_nothing_is_claimed_of_a_forward_pass_without_modules():
    import mindtorch_v2 as torch

    x, y = torch.ones(4), torch.ones(4, requires_grad=True)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        z = x * y + x  # noqa: F841
    assert set(prof._memory_profile()._category_snapshot().values()) <= {None}


@pytest.mark.parametrize("name", PROGRAMS)
def test_timelines_are_in_order_and_balance(name):
    from mindtorch_v2.profiler import _memory_profiler as module

    profile = _ours(name)._memory_profile()
    live = {}
    times = [entry[0] for entry in profile.timeline]
    assert times == sorted(times)
    for time, action, (key, version), size in profile.timeline:
        assert size >= 0 and version >= 0 and (time == -1) == (action == module.Action.PREEXISTING)
        if not isinstance(key, module.TensorKey):
            continue
        if action in (module.Action.PREEXISTING, module.Action.CREATE):
            assert key not in live
            live[key] = 0
        else:
            assert live[key] == version
            live[key] += 1
            if action == module.Action.DESTROY:
                del live[key]
    _, sizes = module.MemoryProfileTimeline(profile)._coalesce_timeline("cpu")
    assert all(size >= 0 for row in sizes for size in row)


def _at_rest(times, rows):
    """The last row of each microsecond: a coarse clock gives a free and the next allocation one time, in either order."""
    return [row for time, after, row in zip(times, times[1:] + [None], rows) if after != time]


@pytest.mark.parametrize("name", ["training_sgd", "training_momentum", "training_adam", "step_by_hand", "convolution"])
def test_what_is_deduced_is_what_the_runtime_told(name, tmp_path):
    """The two ways to categories: the tree's deductions, and the runtime's word, which analyze/memory.c adds up. They round times in two
    ways: what lives for less than a microsecond may be in one of them only, so a program is recorded again, up to five times."""
    differ = [_groups_that_differ(name, tmp_path)]
    while differ[-1] and len(differ) < 5:
        differ.append(_groups_that_differ(name, tmp_path))
    assert not differ[-1], differ


def _groups_that_differ(name, folder):
    from mindtorch_v2.profiler import _memory_profiler as module

    prof, differ = _ours(name), []
    prof.export_memory_timeline(str(folder / "told.json"), "cpu")
    told = _at_rest(*json.loads((folder / "told.json").read_text()))
    deduced = _at_rest(*module.MemoryProfileTimeline(prof._memory_profile())._coalesce_timeline("cpu"))
    # The gradient that backward() begins with is an activation by its data flow, a detail of autograd by the runtime's word; and what
    # an optimizer computes on the way is temporary by its data flow.
    for group in (("PARAMETER",), ("OPTIMIZER_STATE",), ("GRADIENT",), ("ACTIVATION", "AUTOGRAD_DETAIL", "TEMPORARY")):
        columns = [1 + module._CATEGORY_TO_INDEX[module.Category[category]] for category in group]
        by_time = [[sum(row[column] for column in columns) for row in rows] for rows in (deduced, told)]
        # PyTorch deduces that what Adam divides by, one parameter after the other, is a parameter as well: so does the tree.
        more = name == "training_adam" and group == ("PARAMETER",)
        if not (max(by_time[0]) >= max(by_time[1]) if more else max(by_time[0]) == max(by_time[1])) or by_time[0][-1] != by_time[1][-1]:
            differ.append(group)
    return differ


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_the_categories_that_they_have_with_pytorch(name):
    torch = pytest.importorskip("torch")
    sizes = []
    for library in (_ours(name), profiled(torch, name)):
        profile = library._memory_profile()
        sizes.append({(category.name, profile._size_map[key]) for (key, _), category in profile._category_snapshot().items()
                      if category and category.name in ("PARAMETER", "GRADIENT", "OPTIMIZER_STATE")})
    assert sizes[0] == sizes[1]


def test_memory_profiles_ask_for_what_they_need(tmp_path):
    import mindtorch_v2 as torch
    from mindtorch_v2.profiler import _memory_profiler as module

    with torch.profiler.profile(record_shapes=True, with_stack=True) as prof:
        pass
    with pytest.raises(ValueError, match=r"^profile_memory=True required for memory profiling\.$"):
        prof._memory_profile()
    prof = _ours("nothing")
    assert isinstance(prof._memory_profile(), module.MemoryProfile) and prof._memory_profile().timeline == ()
    timeline = module.MemoryProfileTimeline(_ours("training_sgd")._memory_profile())
    timeline.export_memory_timeline_html(tmp_path / "page.html", "cpu", title="<mine>")
    page = report(tmp_path / "page.html")
    columns, memory = page.columns("memory-0", after_json=True)
    times, sizes = timeline._coalesce_timeline("cpu")
    assert "<mine>" not in page.page and page.json("head-0")["name"] == "<mine>"
    assert memory["devices"][0]["summary"]["peak"]["bytes"] == max(map(sum, sizes)) > 0 and memory["categories"][0] == "PARAMETER"
    assert page.json("head-0")["duration"] == (times[-1] - times[0]) * 1000 and len(columns[0][1]) > 5


def test_schemas_are_objects():
    import mindtorch_v2 as torch

    lookup = torch._C._jit_get_schemas_for_operator
    add = {schema.overload_name: schema for schema in lookup("aten::add_")}
    assert set(add) == {"Tensor", "Scalar"} and add["Tensor"].is_mutable and add["Tensor"].name == "aten::add_"
    self, other, alpha = add["Tensor"].arguments
    assert (self.name, self.alias_info.is_write, self.type.kind()) == ("self", True, "TensorType")
    assert other.alias_info is None and alpha.kwarg_only and alpha.has_default_value() and alpha.default_value == 1
    assert add["Scalar"].arguments[1].type.kind() == "NumberType"
    assert str(lookup("aten::mm")[0]) == "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    cat = lookup("aten::cat")[0].arguments[0].type
    assert cat.kind() == "ListType" and cat.getElementType().kind() == "TensorType" and str(cat) == "List[Tensor]"
    assert [a.is_out for a in lookup("aten::mm")[1].arguments] == [False, False, True]
    assert [r.type.kind() for r in lookup("aten::max")[1].returns] == ["TensorType", "TensorType"]
    assert len(lookup("aten::where")) == 5 and lookup("aten::no_such_op") == []
    with pytest.raises(RuntimeError, match="namespace"):
        lookup("add")


def test_schemas_write_to_what_pytorchs_write_to():
    theirs = pytest.importorskip("torch")
    import mindtorch_v2 as torch

    compared = 0
    for _, name, *_ in torch._C._op_table():
        if name.startswith("_fused_"):  # PyTorch's may unscale the gradients and leave counting to their callers
            continue
        others = {schema.overload_name: schema for schema in theirs._C._jit_get_schemas_for_operator("aten::" + name)}
        for schema in torch._C._jit_get_schemas_for_operator("aten::" + name):
            other = {a.name: a for a in others[schema.overload_name].arguments} if schema.overload_name in others else {}
            for argument in schema.arguments:
                if argument.name in other:
                    written = getattr(other[argument.name].alias_info, "is_write", False)
                    assert argument.is_write == written, (str(schema), argument.name)
                    compared += 1
    assert compared > 400


# ------------------------------------------------------------------------- rules that few programs come to use


def _key_of(number, device="cpu"):
    import mindtorch_v2 as torch
    from mindtorch_v2.profiler import _memory_profiler as module

    return module.TensorKey(torch.device(device), number, module._Storage(0x1000 * number, number))


def _bare_profile(nodes=(), events=(), sizes=None):
    """A MemoryProfile of made-up nodes and events, before anything is deduced."""
    from mindtorch_v2.profiler import _memory_profiler as module

    profile = module.MemoryProfile.__new__(module.MemoryProfile)
    profile._categories = module.CategoryDict()
    profile._data_flow_graph = SimpleNamespace(flow_nodes=nodes)
    profile._op_tree = SimpleNamespace(dfs=lambda: iter(events))
    profile._size_map = sizes or {}
    return module, profile


def test_what_backward_changes_stays_what_it_was():
    known, fresh, own = _key_of(1), _key_of(2), _key_of(3)
    node = SimpleNamespace(_in_backward=True, outputs={known: 1, fresh: 0, own: 1})
    module, profile = _bare_profile([node])
    profile._categories.set_by_version(known, 0, module.Category.INPUT)
    profile._categories.set_by_version(own, 0, module.Category.AUTOGRAD_DETAIL)
    profile._set_autograd_detail()
    assert profile._categories.get(known, 1) is None, "an input that backward wrote to is no detail of autograd"
    assert profile._categories.get(fresh, 0) == profile._categories.get(own, 1) == module.Category.AUTOGRAD_DETAIL


def _allocation(time, size, key=None, ptr=0x77):
    import mindtorch_v2 as torch
    from mindtorch_v2.profiler.tree import _EventType

    fields = SimpleNamespace(alloc_size=size, ptr=key.storage.ptr if key else ptr, device=torch.device("cpu"),
                             id=key.id if key else None, allocation_id=key.storage.allocation_id if key else None)
    return SimpleNamespace(start_time_ns=time, typed=(_EventType.Allocation, fields))


def test_what_happens_at_one_time_is_in_the_order_of_a_life():
    gone, changed, made = _key_of(1), _key_of(2), _key_of(3)

    def node(edges):
        return SimpleNamespace(start_time=50, _edges=edges, intermediates=(), _output_versions=set(),
                               _input_versions={(key, 0) for key in edges})

    def edge(**facts):
        return SimpleNamespace(**{"is_allocation": False, "mutated": False, "is_deletion": False, "input_version": 0, **facts})

    nodes = [node({gone: edge(is_deletion=True)}), node({changed: edge(mutated=True)}), node({made: edge(is_allocation=True)})]
    module, profile = _bare_profile(nodes, [_allocation(50, -1, gone), _allocation(50, 3, made)], {gone: 1, changed: 2, made: 3})
    assert [(time, action.name, size) for time, action, _, size in profile.timeline] == [
        (-1, "PREEXISTING", 1), (-1, "PREEXISTING", 2), (50, "CREATE", 3), (50, "INCREMENT_VERSION", 2), (50, "DESTROY", 1)]


def test_memory_of_unknown_use_has_a_life_too():
    """An address that is given out again without having been freed, as far as was seen, is a new version of what was there."""
    events = [_allocation(10, 8), _allocation(20, 16), _allocation(30, -16), _allocation(40, -4, ptr=0x99), _allocation(50, 2)]
    _, profile = _bare_profile(events=events)
    assert [(time, action.name, size) for time, action, _, size in profile.timeline] == [
        (-1, "PREEXISTING", 4), (10, "CREATE", 8), (20, "INCREMENT_VERSION", 16), (30, "DESTROY", 16), (40, "DESTROY", 4),
        (50, "CREATE", 2)]


def test_backward_frees_what_a_node_was_given_before_what_it_saved():
    import mindtorch_v2 as torch

    x, w, v = torch.ones(25), torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        x.mul(w).relu().mul(v).relu().sum().backward()
    nodes = prof._memory_profile()._data_flow_graph.flow_nodes
    last = max(i for i, node in enumerate(nodes) if node._event.name == "ReluBackward0")
    saved, given = nodes[last].inputs
    freed = [key for node in nodes[last + 1:] for key, edge in node._edges.items() if edge.is_deletion]
    kept = next(node for node in nodes if node._event.name == "aten::relu").outputs
    assert saved in kept and given not in kept, "the first input of the node is what relu() made"
    assert freed[:2] == [given, saved]


def test_a_gradient_that_was_added_is_freed_by_the_node_that_added_it():
    import mindtorch_v2 as torch

    x, w = torch.ones(25), torch.ones(1, requires_grad=True)
    x.mul(w).sum().backward()
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        x.mul(w).sum().backward()
    nodes = prof._memory_profile()._data_flow_graph.flow_nodes
    adds = next(node for node in nodes if node._event.name == "torch::autograd::AccumulateGrad")
    assert [edge.is_deletion for edge in adds._edges.values()].count(True) == 1 and len(adds.outputs) == 1
