"""mindtorch_v2.profiler._memory_profiler: on PyTorch's event trees it says what PyTorch's module says, where PyTorch is
installed; on our own, what is true of the program."""
import functools
import json

import pytest

from profiled_programs import PROGRAMS, profiled

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
    """An op of which no schema fits counts as one that may have changed whatever it was given."""
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
    """Results that nothing used, and what is kept for the backward pass; not what an op frees itself."""
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


@pytest.mark.parametrize("name", ["training_sgd", "training_momentum", "training_adam", "step_by_hand", "convolution"])
def test_what_is_deduced_is_what_the_runtime_told(name, tmp_path):
    """The two ways to categories: the tree's deductions, and the runtime's word, which analyze/memory.c adds up."""
    from mindtorch_v2.profiler import _memory_profiler as module

    prof = _ours(name)
    prof.export_memory_timeline(str(tmp_path / "told.json"), "cpu")
    told = json.loads((tmp_path / "told.json").read_text())[1]
    deduced = module.MemoryProfileTimeline(prof._memory_profile())._coalesce_timeline("cpu")[1]
    # The gradient that backward() begins with is an activation by its data flow, a detail of autograd by the runtime's word.
    for group in (("PARAMETER",), ("OPTIMIZER_STATE",), ("GRADIENT",), ("ACTIVATION", "AUTOGRAD_DETAIL")):
        columns = [1 + module._CATEGORY_TO_INDEX[module.Category[category]] for category in group]
        by_time = [[sum(row[column] for column in columns) for row in rows] for rows in (deduced, told)]
        assert max(by_time[0]) == max(by_time[1]) and by_time[0][-1] == by_time[1][-1], group


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
    page = (tmp_path / "page.html").read_text()
    assert "&lt;mine&gt;" in page and "<polygon" in page and "PARAMETER" in page


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
    assert [r.type.kind() for r in lookup("aten::max")[1].returns] == ["TensorType", "TensorType"]
    assert len(lookup("aten::where")) == 4 and lookup("aten::no_such_op") == []
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
