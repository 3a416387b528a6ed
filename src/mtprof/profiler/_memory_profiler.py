"""torch.profiler._memory_profiler: the category of each tensor in a profile, deduced from the event tree.

    profile = MemoryProfile(prof.profiler.kineto_results)     # or prof._memory_profile()
    profile.timeline                                          # (time, Action, (TensorKey, version), bytes), by time

The ops of the tree become a data-flow graph of tensor versions. The tree shows gradients directly; parameters, inputs,
activations and the rest are deduced from dependencies. It uses only the tree, so it works for any program, but sees no more
than the tree shows. prof.export_memory_timeline() uses it only for frameworks that do not tell the recorder the category of a
block when it is known, such as PyTorch (Framework.tags_memory, mtprof/profiler/memory.py; docs/parity.md explains how the two relate).
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import gzip
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from mtprof._native import write_file
from mtprof.profiler import _utils, memory
from mtprof.profiler.common import RecordScope
from mtprof.profiler.framework import Framework, known, of
from mtprof.profiler.tree import (
    _EventType,
    _ExtraFields_Allocation,
    _ExtraFields_TorchOp,
    _ProfilerEvent,
    _TensorMetadata,
)

KeyAndID = tuple["Key", int]
TensorAndID = tuple["TensorKey", int]

log = logging.getLogger(__name__)


class Category(enum.Enum):
    INPUT = enum.auto()
    TEMPORARY = enum.auto()
    ACTIVATION = enum.auto()
    GRADIENT = enum.auto()
    AUTOGRAD_DETAIL = enum.auto()
    PARAMETER = enum.auto()
    OPTIMIZER_STATE = enum.auto()


class Action(enum.Enum):
    PREEXISTING = enum.auto()
    CREATE = enum.auto()
    INCREMENT_VERSION = enum.auto()
    DESTROY = enum.auto()


# In the column order of a timeline; None: unknown.
_CATEGORY_TO_COLORS = {Category.__members__.get(name): colour for name, colour in memory.CATEGORIES}
_CATEGORY_TO_INDEX = {category: i for i, category in enumerate(_CATEGORY_TO_COLORS)}
_ACTION_TO_INDEX = {action: action.value for action in Action}

# --------------------------------------------------------------------------------------------------- tensors


@dataclasses.dataclass(eq=True, unsafe_hash=False, frozen=True)
class Key:
    """Memory for which only the device is known."""

    device: Any


@dataclasses.dataclass(eq=False)
class _Storage:
    """A block of memory, identified by its allocation id because addresses are reused."""

    ptr: int
    allocation_id: int

    def __repr__(self) -> str:
        return f"{hex(self.ptr):>18} ({self.allocation_id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Storage) and self.allocation_id == other.allocation_id

    def __hash__(self) -> int:
        return hash(self.allocation_id)


@dataclasses.dataclass(eq=True, unsafe_hash=False, frozen=True)
class TensorKey(Key):
    """A tensor in one of its blocks: the id is the tensor's, and is kept when it moves to another block."""

    id: int
    storage: _Storage

    def __repr__(self) -> str:
        return f"id={self.id}: {self.storage!r:<24} ({self.device})"

    def __lt__(self, other: TensorKey) -> bool:
        return self._as_sortable < other._as_sortable

    def __hash__(self) -> int:
        return hash((self.id, self.storage.allocation_id))

    @staticmethod
    def _make(tensor_id: int | None, storage_ptr: int | None, allocation_id: int | None, device: Any) -> TensorKey | None:
        if tensor_id is None or storage_ptr is None or allocation_id is None:
            return None
        return TensorKey(device, tensor_id, _Storage(storage_ptr, allocation_id))

    @classmethod
    def from_allocation(cls, alloc: _ExtraFields_Allocation) -> TensorKey | None:
        """None if no recorded op used the block."""
        return cls._make(alloc.id, alloc.ptr, alloc.allocation_id, alloc.device)

    @classmethod
    def from_tensor(cls, t: _TensorMetadata | None) -> TensorKey | None:
        return None if t is None else cls._make(t.id, t.storage_data_ptr, t.allocation_id, t.device)

    @property
    def _as_sortable(self) -> tuple[int, int, str, int | None]:
        return self.id, self.storage.allocation_id, self.device.type, self.device.index


def _python_state(node: _ProfilerEvent) -> tuple[list[tuple], list[tuple]]:
    """The tensors of a module or optimizer: (parameter, its gradient or None), and the optimizer's state as (name, tensor).
    They were read when the object was first called, and may be stale later."""
    tag, call = node.typed
    if tag != _EventType.PyCall:
        return [], []
    module, optimizer = call.module, call.optimizer
    if module is not None and optimizer is not None:
        raise AssertionError("module and optimizer cannot both be set")
    if module is not None:
        return [(p, grad) for _, p, grad in module.parameters], []
    if optimizer is not None:
        parameters = optimizer.parameters
        return [(p, grad) for p, grad, _ in parameters], [pair for _, _, state in parameters for pair in state]
    return [], []


def _extract_parameters_and_gradients(node: _ProfilerEvent) -> Iterator[tuple[TensorKey | None, TensorKey | None]]:
    """The (parameter, gradient) pairs that an event shows."""
    tag, fields = node.typed
    if tag == _EventType.PyCall:
        for p, grad in _python_state(node)[0]:
            yield TensorKey.from_tensor(p), TensorKey.from_tensor(grad)
    elif tag == _EventType.TorchOp and fields.scope == RecordScope.BACKWARD_FUNCTION and \
            node.name == "torch::autograd::AccumulateGrad" and node.children:
        # The first gradient is stored as is, which appears as a detach; later ones are added to it.
        first_tag, first = node.children[0].typed
        if first_tag == _EventType.TorchOp and node.children[0].name in ("aten::detach", "aten::add_"):
            inputs = first.inputs
            if inputs and isinstance(inputs[0], _TensorMetadata):
                yield None, TensorKey.from_tensor(inputs[0])


def extract_parameters(node: _ProfilerEvent) -> Iterator[TensorKey]:
    return (p for p, _ in _extract_parameters_and_gradients(node) if p is not None)


def extract_gradients(node: _ProfilerEvent) -> Iterator[tuple[TensorKey | None, TensorKey]]:
    return ((p, grad) for p, grad in _extract_parameters_and_gradients(node) if grad is not None)


def get_scopes(event: _ProfilerEvent | None) -> tuple[RecordScope, ...]:
    """The scopes of an op and its ancestors, innermost first."""
    scopes = []
    while event:
        tag, fields = event.typed
        if tag == _EventType.TorchOp:
            scopes.append(fields.scope)
        event = event.parent
    return tuple(scopes)


# --------------------------------------------------------------------------------------------------- schemas

# The Python types as which values of a schema type are recorded, by the type's kind.
_RECORDED_AS: dict[str, tuple[type, ...]] = {
    "TensorType": (TensorKey, _TensorMetadata),
    "NoneType": (type(None),),
    "BoolType": (bool,),
    "IntType": (int,),
    "FloatType": (float,),
    "ComplexType": (complex,),
    "NumberType": (bool, int, float, complex),
}


class SchemaMatcher:
    """Determines which overload of an op was called, by matching the recorded arguments against the schemas of its name, and
    which arguments it may have changed. The schemas are those of the op's framework."""

    @classmethod
    def inputs_are_mutable(cls, t: _ExtraFields_TorchOp) -> tuple[bool | None, ...]:
        """For each input, whether a matching overload changes it; None for all if no overload matches."""
        schemas = cls.match_schemas(t)
        if not schemas:
            return tuple(None for _ in t.inputs)
        writes = ([bool(getattr(argument.alias_info, "is_write", False)) for argument in schema.arguments] for schema in schemas)
        return tuple(map(any, zip(*writes)))

    @classmethod
    def match_schemas(cls, t: _ExtraFields_TorchOp) -> tuple[Any, ...]:
        schemas = _schemas_of(of(t), t.name)
        if not schemas:
            return ()
        observed = [_as_key(value) for value in t.inputs]
        return tuple(schema for schema in schemas if len(schema.arguments) == len(observed)
                     and all(cls._types_match(value, argument.type) for value, argument in zip(observed, schema.arguments)))

    @classmethod
    def _types_match(cls, observed: Any, schema_type: Any) -> bool:
        kind = schema_type.kind()
        while kind == "OptionalType":
            if observed is None:
                return True
            schema_type = schema_type.getElementType()
            kind = schema_type.kind()
        if kind == "AnyType":
            return True
        if kind == "ListType":
            return cls._lists_match(observed, schema_type.getElementType())
        if kind in _RECORDED_AS:
            return isinstance(observed, _RECORDED_AS[kind])
        return observed is None  # a kind that is not recorded

    @staticmethod
    def _lists_match(observed: Any, element: Any) -> bool:
        """Lists of tensors are recorded. PyTorch does not record those with gaps (of an index); here they lack the gaps."""
        tensors = isinstance(observed, list) and all(isinstance(value, _RECORDED_AS["TensorType"]) for value in observed)
        if element.kind() == "TensorType":
            return tensors
        gaps = element.kind() == "OptionalType" and element.getElementType().kind() == "TensorType"
        return observed is None or (gaps and tensors)

    @staticmethod
    def lookup_schemas(name: str) -> tuple[Any, ...] | None:
        """Those of the first framework in this process that has the op. None if the name cannot be an op's; () if there is no
        op of that name."""
        found = [_schemas_of(framework, name) for framework in known()]
        return next(filter(None, found), None if None in found else ())


@functools.lru_cache(maxsize=4096)
def _schemas_of(framework: Framework, name: str) -> tuple[Any, ...] | None:
    return framework.schemas(name)


def _as_key(value: Any) -> Any:
    """Tensors as keys; one without memory, such as a number in place of a tensor, unchanged."""
    if isinstance(value, list):
        return [_as_key(item) for item in value]
    return TensorKey.from_tensor(value) or value if isinstance(value, _TensorMetadata) else value


def _tensors_of(value: Any) -> Iterable[_TensorMetadata]:
    """The tensors in one input of an op."""
    if isinstance(value, _TensorMetadata):
        return (value,)
    return value if isinstance(value, list) else ()


# ------------------------------------------------------------------------------------------------ trees, sizes


class OpTree:
    def __init__(self, result: Any) -> None:
        self._root_nodes = result.experimental_event_tree()
        self._sorted_nodes = tuple(sorted(self.dfs(), key=lambda node: node.start_time_ns))

    def dfs(self, *args: Any, **kwargs: Any) -> Iterator[_ProfilerEvent]:
        yield from _utils.traverse_dfs(self._root_nodes, *args, **kwargs)

    @property
    def sorted_nodes(self) -> tuple[_ProfilerEvent, ...]:
        return self._sorted_nodes


class SizeMap:
    """Bytes of each tensor: the size of its allocation if recorded, else a lower bound from its views."""

    def __init__(self, op_tree: OpTree) -> None:
        self._values: dict[TensorKey, int] = {}
        allocated: dict[TensorKey, int] = {}
        for node in op_tree.sorted_nodes:
            tag, fields = node.typed
            if tag == _EventType.TorchOp:
                for t in self._flat_tensor_inputs(fields):
                    self._update_values(t)
            elif tag == _EventType.PyCall:
                parameters, state = _python_state(node)
                for t in (*(t for pair in parameters for t in pair), *(t for _, t in state)):
                    self._update_values(t)
            elif tag == _EventType.Allocation:
                key, size = TensorKey.from_allocation(fields), abs(fields.alloc_size)
                if key is not None and allocated.setdefault(key, size) != size:
                    log.warning("Mismatch between allocation and free: %s vs. %s", allocated[key], size)
        self._values.update(allocated)

    def _update_values(self, t: _TensorMetadata | None) -> None:
        key = TensorKey.from_tensor(t)
        if key is None or str(t.layout) != "torch.strided":
            return
        elements = max((size * stride for size, stride in zip(t.sizes, t.strides)), default=1)
        if elements < 0:
            raise AssertionError(f"num_bytes must be non-negative, got {elements * t.dtype.itemsize}")
        self._values[key] = max(self._values.get(key, 0), elements * t.dtype.itemsize)

    @staticmethod
    def _flat_tensor_inputs(op: _ExtraFields_TorchOp) -> Iterator[_TensorMetadata]:
        for value in op.inputs:
            yield from _tensors_of(value)

    def __getitem__(self, key: TensorKey) -> int:
        return self._values[key]


# -------------------------------------------------------------------------------------------------- data flow


@dataclasses.dataclass()
class DataFlowEdge:
    """What a node did to a tensor. input_version None: allocated it; mutated None: freed it."""

    input_version: int | None = None
    mutated: bool | None = False

    @property
    def is_allocation(self) -> bool:
        return self.input_version is None

    @property
    def is_deletion(self) -> bool:
        return self.mutated is None


class DataFlowNode:
    """An op with everything that ran inside it, or an allocation outside ops."""

    def __init__(self, event: _ProfilerEvent, graph: DataFlowGraph) -> None:
        self._event = event
        self._graph = graph
        self._edges: dict[TensorKey, DataFlowEdge] = self._determine_edges()
        for key, edge in self._edges.items():
            if edge.mutated and not edge.is_allocation:
                graph.bump(key)
        versions = {key: (version, graph.lookup(key)) for key, version in self.outputs.items()}
        if any(made != known for made, known in versions.values()):
            raise AssertionError(f"version mismatch: {versions}, {self._edges}")

    def _determine_edges(self) -> dict[TensorKey, DataFlowEdge]:
        mutable: dict[TensorKey, set[bool | None]] = {}
        freed: list[TensorKey] = []
        allocated: list[TensorKey] = []
        for event in _utils.traverse_dfs([self._event]):
            tag, fields = event.typed
            if tag == _EventType.TorchOp:
                for value, changes in zip(fields.inputs, SchemaMatcher.inputs_are_mutable(fields), strict=True):
                    for t in _tensors_of(value):
                        key = TensorKey.from_tensor(t)
                        if key is not None:
                            mutable.setdefault(key, set()).add(changes)
            elif tag == _EventType.Allocation:
                key = TensorKey.from_allocation(fields)
                if key is not None and fields.alloc_size:
                    (allocated if fields.alloc_size > 0 else freed).append(key)
        edges: dict[TensorKey, DataFlowEdge] = {}
        for key, seen in mutable.items():
            # If no op that used it could be identified, assume that it was changed.
            edges[key] = DataFlowEdge(self._graph.lookup(key), True in seen or seen == {None})
        for key in freed:
            if key in edges and edges[key].is_deletion:
                raise AssertionError(f"Double delete: {key}")
            edges[key] = DataFlowEdge(self._graph.lookup(key), None)
        for key in allocated:  # last: a tensor allocated here is not an input, whatever was done to it
            edges.setdefault(key, DataFlowEdge()).input_version = None
        return dict(sorted(edges.items(), key=lambda item: item[0]._as_sortable))

    @functools.cached_property
    def inputs(self) -> dict[TensorKey, tuple[bool, int]]:
        """(changed?, version) of each tensor that existed before."""
        return {key: (bool(edge.mutated), edge.input_version) for key, edge in self._edges.items() if not edge.is_allocation}

    @functools.cached_property
    def outputs(self) -> dict[TensorKey, int]:
        """The version of each tensor that is new or changed."""
        return {key: 0 if edge.input_version is None else edge.input_version + 1 for key, edge in self._edges.items()
                if edge.mutated or (edge.is_allocation and not edge.is_deletion)}

    @property
    def intermediates(self) -> tuple[TensorKey, ...]:
        """Tensors both allocated and freed inside the node."""
        return tuple(key for key, edge in self._edges.items() if edge.is_allocation and edge.is_deletion)

    @property
    def start_time(self) -> int:
        return self._event.start_time_ns

    @functools.cached_property
    def _input_versions(self) -> frozenset[TensorAndID]:
        return frozenset((key, version) for key, (_, version) in self.inputs.items())

    @functools.cached_property
    def _output_versions(self) -> frozenset[TensorAndID]:
        return frozenset(self.outputs.items())

    @functools.cached_property
    def _in_backward(self) -> bool:
        return RecordScope.BACKWARD_FUNCTION in get_scopes(self._event)


class DataFlowGraph:
    def __init__(self, op_tree: OpTree) -> None:
        self._op_tree = op_tree
        self._leaf_events = self._extract_leaf_events(op_tree)
        self._active_version: dict[TensorKey, int | None] = {}
        self._flow_nodes = [DataFlowNode(event, self) for event in self._leaf_events]
        self._flow_nodes.sort(key=lambda node: node.start_time)
        self.validate()

    @property
    def flow_nodes(self) -> tuple[DataFlowNode, ...]:
        return tuple(self._flow_nodes)

    def validate(self) -> None:
        """Each version of a tensor is created once, and used only until the next one is created."""
        made: set[TensorAndID] = set()
        current: dict[TensorKey, int] = {}
        for node in self._flow_nodes:
            again = made & node._output_versions
            if again:
                raise AssertionError(f"duplicate outputs: {node._event.name} {node._edges} {again}")
            made |= node._output_versions
            for key, (_, version) in node.inputs.items():
                if current.get(key, 0) != version:
                    raise AssertionError(f"version mismatch for input: expected {current.get(key, 0)}, got {version}")
            for key, version in node.outputs.items():
                if version < current.get(key, version):
                    raise AssertionError(f"version regression: {version} < {current[key]}")
                current[key] = version

    @property
    def leaf_events(self) -> tuple[_ProfilerEvent, ...]:
        return self._leaf_events

    @staticmethod
    def _extract_leaf_events(op_tree: OpTree) -> tuple[_ProfilerEvent, ...]:
        """The nodes of the graph: the outermost op in each branch of the tree. Ops called by an op are part of it; an
        annotation, which has no schema, is not an op, so its children are visited. An allocation outside ops is a separate
        node."""
        leaves: list[_ProfilerEvent] = []

        def inside(event: _ProfilerEvent) -> list[_ProfilerEvent]:
            tag, fields = event.typed
            if tag == _EventType.Allocation or (tag == _EventType.TorchOp and (
                    fields.scope == RecordScope.BACKWARD_FUNCTION or SchemaMatcher.match_schemas(fields))):
                leaves.append(event)
                return []
            return event.children

        collections.deque(op_tree.dfs(children_fn=inside), maxlen=0)
        return tuple(sorted(leaves, key=lambda event: event.start_time_ns))

    def lookup(self, key: TensorKey) -> int:
        version = self._active_version.setdefault(key, 0)
        if version is None:
            raise AssertionError(f"version for key {key} is None")
        return version

    def bump(self, key: TensorKey) -> None:
        version = self._active_version.get(key)
        if version is None:
            raise AssertionError(f"prior_version for key {key} is None")
        self._active_version[key] = version + 1

    def delete(self, key: TensorKey) -> None:
        if self._active_version.get(key, 0) is None:
            raise AssertionError(f"cannot delete key {key}, already deleted")
        self._active_version[key] = None


# ------------------------------------------------------------------------------------------------- categories


@dataclasses.dataclass
class CategoryElement:
    """The categories of one tensor: for all blocks and versions, by block, by version."""

    by_id: Category | None = None
    by_key: dict[TensorKey, Category] = dataclasses.field(default_factory=dict)
    by_version: dict[TensorAndID, Category] = dataclasses.field(default_factory=dict)
    _by_id_keyset: set[TensorKey] = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class CategoryDict:
    """Categories of tensors. A tensor's category takes precedence over a block's, and that over a version's."""

    _values: collections.defaultdict[int, CategoryElement] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(CategoryElement))

    def set_by_id(self, key: TensorKey, category: Category) -> None:
        element = self._values[key.id]
        element.by_id = category
        element._by_id_keyset.add(key)

    def set_by_key(self, key: TensorKey, category: Category) -> None:
        self._values[key.id].by_key[key] = category

    def set_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        self._values[key.id].by_version[(key, version)] = category

    def setdefault_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        self._values[key.id].by_version.setdefault((key, version), category)

    def get(self, key: Key, version: int) -> Category | None:
        element = self._values.get(key.id) if isinstance(key, TensorKey) else None
        if element is None:
            return None
        return element.by_id or element.by_key.get(key) or element.by_version.get((key, version))


class MemoryProfile:
    """The tensors of a profile with their categories. result: prof.profiler.kineto_results."""

    def __init__(self, result: Any) -> None:
        self._framework = of(result)
        self._op_tree = OpTree(result)
        self._data_flow_graph = DataFlowGraph(self._op_tree)
        self._size_map = SizeMap(self._op_tree)
        self._categories = CategoryDict()

        # The order matters: each step builds on those before.
        self._set_gradients_and_temporaries()
        self._set_parameters_using_python_tracer()
        self._set_inputs()
        self._set_parameters_using_data_flow()
        self._set_activations()
        self._set_optimizer_state()
        self._set_autograd_detail()

    # ------------------------------------------------------------------------------------------ what came of it

    @property
    def timeline(self) -> tuple[tuple[int, Action, KeyAndID, int], ...]:
        """(time in ns, or -1: before the profile; action; tensor and version; bytes), by time."""
        times: dict[tuple[TensorKey, bool], int] = {}  # of (tensor, True: allocated, False: freed)
        output = list(self._unknown_memory(times))
        snapshot = self._category_snapshot()
        last_version = dict(snapshot.keys())  # these are sorted
        events = [(-1, Action.PREEXISTING, key, 0) for key, version in snapshot if version == 0 and (key, True) not in times]
        for node in self._data_flow_graph.flow_nodes:
            for key, edge in node._edges.items():
                if edge.is_allocation:
                    events.append((times[(key, True)], Action.CREATE, key, 0))
                elif edge.mutated:
                    events.append((node.start_time, Action.INCREMENT_VERSION, key, edge.input_version))
                if edge.is_deletion:
                    events.append((times[(key, False)], Action.DESTROY, key, last_version[key]))
        output.extend((time, action, (key, version), self._size_map[key]) for time, action, key, version in events)
        return tuple(sorted(output, key=lambda entry: (entry[0], entry[1].value)))

    def _unknown_memory(self, times: dict[tuple[TensorKey, bool], int]) -> Iterator[tuple[int, Action, KeyAndID, int]]:
        """The timeline of memory that no recorded op used; also records when each tensor was allocated and freed."""
        live: set[tuple[int, Any]] = set()
        for event in self._op_tree.dfs():
            tag, fields = event.typed
            if tag != _EventType.Allocation:
                continue
            time, size = event.start_time_ns, fields.alloc_size
            tensor = TensorKey.from_allocation(fields)
            if tensor is not None:
                times[(tensor, size > 0)] = time
                continue
            what, block = (Key(fields.device), 0), (fields.ptr, fields.device)
            if size > 0:
                yield time, Action.INCREMENT_VERSION if block in live else Action.CREATE, what, size
                live.add(block)
            else:
                yield time, Action.DESTROY, what, -size
                if block not in live:
                    yield -1, Action.PREEXISTING, what, -size
                live.discard(block)

    def as_timeline(self) -> MemoryProfileTimeline:
        return MemoryProfileTimeline(self)

    def _is_gradient(self, *args: Any, **kwargs: Any) -> bool:
        return self._categories.get(*args, **kwargs) == Category.GRADIENT

    def _category_snapshot(self) -> dict[TensorAndID, Category | None]:
        """Every version of every tensor with its category, sorted."""
        versions: set[TensorAndID] = set()
        for node in self._data_flow_graph.flow_nodes:
            versions |= node._input_versions
            versions |= node._output_versions
            versions.update((key, 0) for key in node.intermediates)
        for element in self._categories._values.values():
            versions.update((key, 0) for key in element._by_id_keyset)
        in_order = sorted(versions, key=lambda entry: (entry[0]._as_sortable, entry[1]))
        return {(key, version): self._categories.get(key, version) for key, version in in_order}

    # ---------------------------------------------------------------------------------------------- deductions

    def _any_version_depends_on_gradient(self) -> set[int]:
        """Ids of tensors with a version that was computed, directly or indirectly, from a gradient or a parameter. An id
        stands for all versions, including earlier ones: a late find can affect early nodes, so the walk is repeated until
        nothing new is found."""
        found: set[int] = set()
        while True:
            before = len(found)
            for node in self._data_flow_graph.flow_nodes:
                ids = {key.id for key, version in node._input_versions if key.id in found
                       or self._categories.get(key, version) in (Category.GRADIENT, Category.PARAMETER)}
                if ids:
                    found |= ids
                    found.update(key.id for key in node.outputs)
            if len(found) == before:
                return found

    def _set_gradients_and_temporaries(self) -> None:
        """Gradients and temporaries, which the tree shows directly."""
        for event in self._op_tree.dfs():
            for _, grad in extract_gradients(event):
                self._categories.set_by_id(grad, Category.GRADIENT)
        for node in self._data_flow_graph.flow_nodes:
            for key in node.intermediates:
                self._categories.set_by_key(key, Category.TEMPORARY)

    def _set_parameters_using_python_tracer(self) -> None:
        for event in self._op_tree.dfs():
            for p in extract_parameters(event):
                self._categories.set_by_id(p, Category.PARAMETER)

    def _set_inputs(self) -> None:
        """Inputs contribute to gradients, and do not depend on them. Parameters, activations and the optimizer's state all
        depend on gradients after the first step. Without a step, and without modules that name their parameters, inputs
        cannot be identified."""
        nodes = self._data_flow_graph.flow_nodes
        dependent = self._any_version_depends_on_gradient()
        contributing: set[TensorAndID] = set()
        for node in reversed(nodes):
            tensors = node._input_versions | node._output_versions
            if not contributing.isdisjoint(tensors) or any(
                    self._categories.get(*tensor) in (Category.GRADIENT, Category.PARAMETER) for tensor in tensors):
                contributing |= tensors
        for node in nodes:  # tensors created by the backward pass are not considered
            if node._in_backward:
                contributing -= node._output_versions
        for key, version in contributing:
            if key.id not in dependent:
                self._categories.setdefault_by_version(key, version, Category.INPUT)

    def _set_parameters_using_data_flow(self) -> None:
        """Parameters that no module or optimizer named: the forward pass combines them with inputs or values derived from
        inputs, but they are neither; some gradient is computed from them; and they are updated by gradients. The
        optimizer's state fails the first test, batch norm's averages the last."""
        snapshot = self._category_snapshot()
        nodes = self._data_flow_graph.flow_nodes
        forward = {tensor for tensor, category in snapshot.items() if category == Category.INPUT}
        candidates: set[TensorAndID] = set()
        for node in nodes:
            inputs, outputs = node._input_versions, node._output_versions
            if not node._in_backward and not forward.isdisjoint(inputs) and not any(
                    self._is_gradient(*tensor) for tensor in inputs | outputs):
                forward |= outputs
                candidates |= inputs - forward
        used: set[TensorAndID] = set()
        for node in reversed(nodes):
            if any(tensor in used or self._is_gradient(*tensor) for tensor in node._output_versions):
                used |= node._input_versions
        ids = {key.id for key, _ in candidates & used} & self._any_version_depends_on_gradient()
        for key, _ in snapshot:
            if key.id in ids:
                self._categories.set_by_id(key, Category.PARAMETER)

    def _set_activations(self) -> None:
        """Tensors that the forward pass computes from inputs and activations, parameters and temporaries only."""
        needed = {Category.INPUT, Category.ACTIVATION}
        allowed = needed | {Category.PARAMETER, Category.TEMPORARY}
        for node in self._data_flow_graph.flow_nodes:
            categories = {self._categories.get(*tensor) for tensor in node._input_versions}
            if categories & needed and categories <= allowed and not node._in_backward:
                for key, version in node.outputs.items():
                    self._categories.setdefault_by_version(key, version, Category.ACTIVATION)

    def _set_optimizer_state(self) -> None:
        for event in self._op_tree.dfs():
            for _, t in _python_state(event)[1]:
                key = TensorKey.from_tensor(t)
                if key is not None:
                    self._categories.set_by_id(key, Category.OPTIMIZER_STATE)

    def _set_autograd_detail(self) -> None:
        """Everything else that the backward pass creates, unless it changes a tensor of a known category."""
        unclaimed = (None, Category.AUTOGRAD_DETAIL)
        for node in self._data_flow_graph.flow_nodes:
            if node._in_backward:
                for key, version in node.outputs.items():
                    if version == 0 or self._categories.get(key, version - 1) in unclaimed:
                        self._categories.setdefault_by_version(key, version, Category.AUTOGRAD_DETAIL)


class MemoryProfileTimeline:
    """A profile's timeline by category, as files. memory_profile: a MemoryProfile."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self._framework = of(memory_profile)
        self.timeline = memory_profile.timeline
        self.categories = memory_profile._categories

    def _changes(self, device_str: str) -> Iterator[tuple[int, Action, int, int]]:
        """(time in ns, action, change in bytes, index of the category); a new version is a decrease and an increase."""
        device = self._framework.device(device_str)
        for time, action, (key, version), size in self.timeline:
            if key.device != device:
                continue
            if action not in _ACTION_TO_INDEX:
                raise ValueError(f"Unknown action: {action}")
            if action in (Action.INCREMENT_VERSION, Action.DESTROY):
                yield time, action, -size, _CATEGORY_TO_INDEX[self.categories.get(key, version)]
            if action != Action.DESTROY:
                after = version + (action == Action.INCREMENT_VERSION)
                yield time, action, size, _CATEGORY_TO_INDEX[self.categories.get(key, after)]

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """(times in us, bytes at each: a 0, then one number per category). Earlier allocations are counted at the first time."""
        times: list[int] = []
        sizes: list[list[int]] = []
        for time, _, size, category in self._changes(device_str):
            us = time if time == -1 else int(time / 1000)
            if not times or us != times[-1]:
                times.append(us)
                sizes.append(list(sizes[-1]) if sizes else [0] * (1 + len(_CATEGORY_TO_INDEX)))
            sizes[-1][category + 1] += int(size)
        first = min((time for time in times if time > 0), default=-1)
        return [first if time < 0 else time for time in times], sizes

    def _text(self, device_str: str) -> str:
        return json.dumps(self._coalesce_timeline(device_str))

    def _raw_text(self, device_str: str) -> str:
        return json.dumps([(time, _ACTION_TO_INDEX[action], size, category) for time, action, size, category in self._changes(device_str)])

    def export(self, path: str, device_str: str) -> None:
        """By the path's suffix: .html, raw.json.gz, or [times, sizes] as JSON, gzipped if it ends in gz."""
        if path.endswith(".html"):
            self.export_memory_timeline_html(path, device_str)
            return
        text = self._raw_text(device_str) if path.endswith("raw.json.gz") else self._text(device_str)
        write_file(path, gzip.compress(text.encode()) if path.endswith("gz") else text)

    def export_memory_timeline(self, path: Any, device_str: str) -> None:
        """[times, sizes] as JSON."""
        write_file(path, self._text(device_str))

    def export_memory_timeline_raw(self, path: Any, device_str: str) -> None:
        """Each change as [time, action, bytes, category], as JSON."""
        write_file(path, self._raw_text(device_str))

    def export_memory_timeline_html(self, path: Any, device_str: str, figsize: Any = None, title: str | None = None) -> None:
        """The report's page of memory, self-contained. It fits any window: figsize, torch's, has no effect."""
        times, sizes = self._coalesce_timeline(device_str)
        memory.export_page(path, times, sizes, device_str, title)
