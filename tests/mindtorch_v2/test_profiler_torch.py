"""mindtorch_v2.profiler and torch.profiler side by side: the same snippet under both, the same answer.

Needs PyTorch:  PYTHONPATH=src python tests/mindtorch_v2/test_profiler_torch.py  prints the share that agrees and each
difference; with pytest, each snippet is a test. The snippets are in parity/, the known differences in parity/snippets.py;
docs/parity.md has the same list.
"""
import inspect
import os
import sys

import pytest

theirs = pytest.importorskip("torch")

import parity.lists  # noqa: E402
import parity.recordings  # noqa: E402
import parity.sessions  # noqa: E402, F401
from parity.snippets import DIFFERENT, SNIPPETS, compare  # noqa: E402


@pytest.mark.parametrize("name", SNIPPETS)
def test_agrees_with_torch(name):
    difference = compare(name)
    if name in DIFFERENT:
        assert difference is not None, f"no longer different: {DIFFERENT[name]}"
    else:
        assert difference is None, difference


def test_the_parity_page_names_every_public_symbol():
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "parity.md"), encoding="utf-8") as file:
        page = file.read()
    modules = (theirs.profiler, theirs.profiler.profiler, theirs.autograd.profiler, theirs.autograd.profiler_util)
    names = {name for module in modules for name in module.__all__}
    for kind in (getattr(module, name) for module in modules for name in module.__all__):
        if inspect.isclass(kind) and not issubclass(kind, (tuple, dict)):
            names |= {name for name in dir(kind) if not name.startswith("_")} - set(dir(list)) - set(dir(int))
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_every_listed_difference_is_of_a_snippet():
    assert set(DIFFERENT) - set(SNIPPETS) == set()


def main():
    agree, listed, found = 0, 0, []
    for name in SNIPPETS:
        difference = compare(name)
        agree += difference is None
        if difference is not None and name in DIFFERENT:
            listed += 1
        elif difference is not None or name in DIFFERENT:
            found.append((name, difference or "is listed in DIFFERENT but agrees"))
    for name, difference in found:
        print(f"-- {name}\n  {difference}")
    print(f"{agree} of {len(SNIPPETS)} snippets agree ({100 * agree / len(SNIPPETS):.1f} %); {listed} differ for reasons that "
          f"docs/parity.md lists, {len(found)} for none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
