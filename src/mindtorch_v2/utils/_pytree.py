"""torch.utils._pytree: values in nested lists, tuples and dicts."""

from collections import OrderedDict, defaultdict, deque, namedtuple  # noqa: F401

_SEQUENCES = (list, tuple, deque)
_MAPPINGS = (dict, OrderedDict, defaultdict)


class TreeSpec:
    """The structure of a tree without its leaves."""

    def __init__(self, type, context, children_specs):
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_leaves = sum(child.num_leaves for child in children_specs) if type is not None else 1

    def is_leaf(self):
        return self.type is None

    def __eq__(self, other):
        return isinstance(other, TreeSpec) and (self.type, self.context, self.children_specs) == (
            other.type, other.context, other.children_specs)  # fmt: skip

    __hash__ = None

    def __repr__(self):
        return "*" if self.is_leaf() else f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


_LEAF = TreeSpec(None, None, [])


def _is_named(tree):
    return isinstance(tree, tuple) and hasattr(type(tree), "_fields")


def _inside(tree, is_leaf):
    """(children, context needed to rebuild the tree), or None for a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    if type(tree) in _MAPPINGS:
        return list(tree.values()), (list(tree), getattr(tree, "default_factory", None))
    if type(tree) in _SEQUENCES or _is_named(tree):
        return list(tree), getattr(tree, "maxlen", None)
    return None


def tree_flatten(tree, is_leaf=None):
    """(leaves, TreeSpec)"""
    found = _inside(tree, is_leaf)
    if found is None:
        return [tree], _LEAF
    leaves, specs = [], []
    for child in found[0]:
        some, spec = tree_flatten(child, is_leaf)
        leaves += some
        specs.append(spec)
    return leaves, TreeSpec(type(tree), found[1], specs)


def tree_unflatten(leaves, treespec):
    """The tree of that structure with these leaves."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"the tree has {treespec.num_leaves} leaves, {len(leaves)} were given")
    return _made(iter(leaves), treespec)


def _made(leaves, spec):
    if spec.is_leaf():
        return next(leaves)
    children = [_made(leaves, child) for child in spec.children_specs]
    if spec.type in _MAPPINGS:
        keys, factory = spec.context
        pairs = zip(keys, children)
        return defaultdict(factory, pairs) if spec.type is defaultdict else spec.type(pairs)
    if spec.type is deque:
        return deque(children, maxlen=spec.context)
    return spec.type(*children) if hasattr(spec.type, "_fields") else spec.type(children)


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """Applies func to each leaf, together with the leaves of further trees of the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*values) for values in zip(leaves, *others, strict=True)], spec)


def tree_map_only(type_or_types, func, tree, is_leaf=None):
    return tree_map(lambda value: func(value) if isinstance(value, type_or_types) else value, tree, is_leaf=is_leaf)


def tree_all(predicate, tree, is_leaf=None):
    return all(map(predicate, tree_leaves(tree, is_leaf)))


def tree_any(predicate, tree, is_leaf=None):
    return any(map(predicate, tree_leaves(tree, is_leaf)))
