"""The type stubs, which the build generates from the op table, match the package."""
import ast
import importlib
import pathlib
import re

import mtprof
import pytest

import mindtorch_v2 as torch

SRC = pathlib.Path(__file__).resolve().parents[2] / "src"


def names_in(path, of_class=None):
    body = ast.parse(path.read_text()).body
    if of_class:
        body = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == of_class).body
    named = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    return named | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}


def test_every_stubbed_function_exists():
    for name in names_in(SRC / "mindtorch_v2/__init__.pyi"):
        assert hasattr(torch, name) or name.startswith("_"), name


def test_every_stubbed_method_exists():
    for name in names_in(SRC / "mindtorch_v2/__init__.pyi", "Tensor"):
        assert hasattr(torch.Tensor, name), name


def test_every_op_is_stubbed():
    functions, methods = (names_in(SRC / "mindtorch_v2/__init__.pyi", c) for c in (None, "Tensor"))
    for row in torch._C._op_table():
        name = row[1]
        if (hasattr(torch, name) or hasattr(torch.Tensor, name)) and not name.startswith("_"):
            assert name in functions | methods, name


def test_functions_that_take_out_say_so():
    functions = {}
    for node in ast.parse((SRC / "mindtorch_v2/__init__.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, []).append(ast.unparse(node.args))
    outs = {row[1] for row, out in zip(torch._C._op_table(), torch._C._out_overloads()) if out is not None}
    assert {name for name, texts in functions.items() if any(re.search(r"\bout:", text) for text in texts)} == {o for o in outs if o[0] != "_" and hasattr(torch, o)}
    assert functions["sin"] == ["input: Tensor, *, out: Tensor | None=None"]
    assert any(text.endswith("out: tuple[Tensor, Tensor] | None=None") for text in functions["max"])
    method = next(n for n in ast.parse((SRC / "mindtorch_v2/__init__.pyi").read_text()).body
                  if isinstance(n, ast.ClassDef) and n.name == "Tensor").body
    assert not any(re.search(r"\bout:", ast.unparse(n.args)) for n in method if isinstance(n, ast.FunctionDef))


def test_mtprof_stubs_name_what_is_there():
    stubbed = names_in(SRC / "mtprof/_native.pyi") - {"_F", "_Path"}
    assert stubbed == {name for name in dir(mtprof._native) if not name.startswith("_")}
    for of_class in ("Session", "Trace", "Averages"):
        for name in names_in(SRC / "mtprof/_native.pyi", of_class):
            assert hasattr(getattr(mtprof, of_class), name), f"{of_class}.{name}"


@pytest.mark.parametrize("name", ["mtprof", "mtprof.profiler", "mtprof.pytorch", "mindtorch_v2.profiler"])
def test_type_checkers_can_read_what_a_module_exports(name):
    """mypy --strict takes names that a module imported for its own only if __all__, written out, has them."""
    path = SRC / name.replace(".", "/") / "__init__.py"
    lists = [node.value for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    assert len(lists) == 1
    exported = ast.literal_eval(lists[0])
    if name != "mtprof.pytorch":  # which needs PyTorch
        module = importlib.import_module(name)
        assert all(hasattr(module, one) for one in exported)
    if name == "mtprof":
        assert {n for n in dir(mtprof) if n[0] != "_" and getattr(mtprof, n) is getattr(mtprof._native, n, None)} <= set(exported)
    elif name != "mtprof.profiler":
        assert exported == [one for one in importlib.import_module("mtprof.profiler").__all__ if one != "Framework"]
