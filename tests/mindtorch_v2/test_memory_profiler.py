"""mindtorch_v2.profiler._memory_profiler: on PyTorch's event trees it says what PyTorch's module says, where PyTorch is
installed; on our own, what is true of the program."""
import functools
import json

import pytest

from profiled_programs import PROGRAMS, profiled

# ------------------------------------------------------------------------------- the same tree, both modules


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
