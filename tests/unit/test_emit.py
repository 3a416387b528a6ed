#!/usr/bin/env python3
"""Unit: emit_itt, emit_nvtx and torch.profiler.itt of mindtorch_v2, as another tool sees them, and beside PyTorch's.

usage: tests/unit/test_emit.py TOOL MTPROF ITT_COLLECTOR PYTHON_FOLDER   speaks TAP
"""
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import Programs, check, finish, python_with, said, skip  # noqa: E402

WORK = """
import sys
if sys.argv[1] == "mindtorch_v2":
    import mindtorch_v2 as torch
else:
    import torch
kind = getattr(torch.autograd.profiler, sys.argv[2])
x, y = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4)
x.sum().backward()   # warm
x.grad = None
torch.mm(x, y)
with kind(record_shapes=len(sys.argv) > 3):
    with torch.profiler.record_function("mine"):
        z = torch.mm(x, y).relu()
    torch.cat([x.detach(), x.detach()])
    z.sum().backward()
torch.ones(1) + 1
"""

ROUND_TRIP = """
import mindtorch_v2 as torch
import threading
itt = torch.profiler.itt
with itt.range("outer {}", 1):
    itt.range_push("inner")
    itt.mark("point")
    itt.range_pop()
with torch.autograd.profiler.emit_itt():
    torch.ones(2) + torch.ones(2)
"""


class Tool:
    """Lines that the tool was told: +name, -, !mark."""

    def __init__(self, p, tool):
        self.p, self.variables = p, {"INTEL_LIBITTNOTIFY64": tool, "NVTX_INJECTION64_PATH": tool}

    def lines(self, python, *args):
        log = self.p.folder / "log"
        log.unlink(missing_ok=True)
        done = self.p.plain(python, "-c", WORK, *args, MTP_TOOL_LOG=str(log), **self.variables)
        check(f"{'_'.join(args)}_runs", done.returncode == 0, said(done))
        return log.read_text().splitlines() if log.exists() else []


def names(lines):
    return [line[2:] for line in lines if line.startswith("+ ")]


def test_itt(tool):
    lines = tool.lines(sys.executable, "mindtorch_v2", "emit_itt")
    got = names(lines)
    check("ops_are_ranges", all(n in got for n in ("mine", "aten::mm", "aten::relu", "aten::cat", "MmBackward0")), got)
    check("each_range_ends", sum(line.startswith("- ") for line in lines) == len(got), lines)
    at = lines.index("+ aten::mm") if "+ aten::mm" in lines else 0
    check("and_they_nest", lines.index("+ mine") < at < lines.index("+ aten::relu"), lines[:20])
    check("nothing_outside_the_block", lines[-1:] == ["- mtprof"] and not any(n.startswith("aten::ones") for n in got[:2]), got[:3])
    python = python_with("torch", "ranges are not compared with PyTorch's")
    if python is None:
        skip("itt_ranges_are_pytorchs", "PyTorch is not installed")
        return
    theirs = names(tool.lines(python, "torch", "emit_itt"))
    rest = iter(theirs)  # PyTorch's kernels call more ops, such as aten::as_strided
    check("itt_ranges_are_pytorchs", theirs and all(n in rest for n in got), f"{got}\n{theirs}")


def test_nvtx(tool):
    plain = names(tool.lines(sys.executable, "mindtorch_v2", "emit_nvtx"))
    shapes = names(tool.lines(sys.executable, "mindtorch_v2", "emit_nvtx", "shapes"))
    check("ranges_are_numbered", all(re.search(r", op_id = \d+$", n) for n in plain) and len(plain) == len(shapes), plain)
    forward = next((re.match(r"aten::mm, seq = (\d+), op_id = \d+, sizes = \[\[2, 3\], \[3, 4\]\]$", n) for n in shapes
                    if n.startswith("aten::mm,")), None)
    node = next((re.match(r"MmBackward0, seq = (\d+)", n) for n in shapes if n.startswith("MmBackward0")), None)
    check("ops_have_the_sizes_of_their_inputs", forward is not None, shapes)
    check("a_backward_node_has_the_number_of_its_forward_op", forward and node and forward[1] == node[1], shapes)
    check("tensors_of_a_list_are_listed", any(n.startswith("aten::cat") and n.endswith("sizes = [[2, 3], [2, 3], []]") for n in shapes),
          [n for n in shapes if "cat" in n])
    check("scopes_have_no_sequence", any(re.match(r"mine, op_id = \d+$", n) for n in shapes), shapes[:2])


def test_round_trip(p, itt):
    """Through our own collector: what the program says is in the trace, and ops once, as the profile's own events."""
    done, t = p.under(sys.executable, "-c", ROUND_TRIP, INTEL_LIBITTNOTIFY64=itt)
    got = t.names()
    check("ranges_come_back_through_our_collector", done.returncode == 0 and got["outer 1"] == got["inner"] == 1 and
          t.holds("outer 1", "inner") and t.marks == ["point"], said(done) + str(got))
    check("ops_are_there_once", got["aten::add"] == 1 and t.one("aten::add")["cat"] == "cpu_op", got)


def main(tool, mtprof, itt, packages):
    os.environ["PYTHONPATH"] = packages
    with tempfile.TemporaryDirectory() as folder:
        p = Programs(mtprof, folder)
        told = Tool(p, os.path.abspath(tool))
        test_itt(told)
        test_nvtx(told)
        test_round_trip(p, os.path.abspath(itt))
    return finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
