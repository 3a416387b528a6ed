"""Programs that know nothing of us, run under a collector: what they did is in the trace, and they did it all the same. Speaks TAP."""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

results = []


def check(name, good, more="", skip=""):
    results.append(bool(good) or bool(skip))
    print(f"{'ok' if results[-1] else 'not ok'} {len(results)} - {name}{' # SKIP ' + skip if skip else ''}", flush=True)
    if not results[-1]:
        print("# " + str(more).replace("\n", "\n# ")[:4000])


def skip(name, why):
    check(name, True, skip=why)


def is_linked(file, library):
    with open(file, "rb") as opened:
        return library in opened.read()


def is_foreign_safe(collector):
    """Can programs that were not built with it load the collector? Not one of a sanitizer build."""
    safe = not is_linked(collector, b"libasan.so") and not is_linked(collector, b"libtsan.so")
    if not safe:
        skip("foreign_programs", "a sanitizer's runtime must be loaded first")
    return safe


def said(done):
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def finish():
    print(f"1..{len(results)}")
    return not all(results)


def verbs(source):
    """Those of the command, of which each has a man page."""
    listed = (source / "src/cli/cli.h").read_text().partition("#define CLI_VERB_LIST(X)")[2].partition("\n\n")[0]
    return re.findall(r'X\((\w+), "', listed)


def python_with(module, why):
    """A python3 that has the module: $PYTHON, or ours; else None, and why is told."""
    for python in dict.fromkeys((os.environ.get("PYTHON", ""), sys.executable, shutil.which("python3"))):
        if python and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    print(f"# {module} is not installed for python3: {why}")
    return None


# Three products of matrices
ONEDNN = """
#include <dnnl.hpp>
using namespace dnnl;
int main()
{
    engine e(engine::kind::cpu, 0);
    stream s(e);
    memory::desc shape({64, 64}, memory::data_type::f32, memory::format_tag::ab);
    memory a(shape, e), b(shape, e), c(shape, e);
#if DNNL_VERSION_MAJOR >= 3
    matmul::primitive_desc made(e, shape, shape, shape);
#else
    matmul::primitive_desc made(matmul::desc(shape, shape, shape), e);
#endif
    matmul product(made);
    for (int i = 0; i < 3; i++)
        product.execute(s, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    s.wait();
}
"""


class Trace:
    """The events of a trace in JSON; empty if there is none."""

    def __init__(self, path):
        self.events = json.loads(path.read_text())["traceEvents"] if path.suffix == ".json" and path.exists() else []
        self.spans = [e for e in self.events if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
        self.marks = [e["name"] for e in self.events if e.get("cat") == "cpu_instant_event" and e["name"] != "[memory]"]
        self.memory = [e["args"] for e in self.events if e.get("name") == "[memory]"]
        self.counters = [(e["name"], e["args"]) for e in self.events if e.get("ph") == "C"]
        self.thread_names = {e["tid"]: e["args"]["name"] for e in self.events if e.get("name") == "thread_name"}

    def names(self):
        return collections.Counter(e["name"] for e in self.spans)

    def one(self, name):
        found = [e for e in self.spans if e["name"] == name]
        return found[0] if len(found) == 1 else {"ts": -1, "dur": -1, "cat": "", "args": {}, "tid": 0}

    def holds(self, outer, inner):
        a, b = self.one(outer), self.one(inner)
        return a["ts"] >= 0 and b["ts"] >= 0 and a["ts"] <= b["ts"] and b["ts"] + b["dur"] <= a["ts"] + a["dur"]


class Programs:
    """variables: what makes a program load the collector."""

    def __init__(self, mtprof, folder, **variables):
        self.mtprof, self.folder, self.variables = mtprof, pathlib.Path(folder), variables

    def plain(self, *command, cwd=None, **more):
        kept = {k: v for k, v in os.environ.items() if k not in ("MTPROF_OUT", "MTPROF_RUN")}
        return subprocess.run(command, env={**kept, **more}, capture_output=True, text=True, errors="surrogateescape", timeout=120, cwd=cwd)

    def under(self, *command, out="trace.json", **more):
        """The run under the collector, and its trace, which has passed `mtprof check`."""
        path = self.folder / out
        path.unlink(missing_ok=True)
        done = self.plain(*command, MTPROF_OUT=str(path), **self.variables, **more)
        if path.suffix == ".mtp" and path.exists():
            path = self.to_json(path)
        trace = Trace(path)
        if trace.events:
            told = self.plain(self.mtprof, "check", str(path))
            shown = "_".join(pathlib.Path(c).name for c in command if "\n" not in c)
            check(f"the_trace_of_{shown}_is_well_formed", told.returncode == 0, told.stdout + told.stderr)
        return done, trace

    def to_json(self, spool):
        path = self.folder / "from_spool.json"
        path.unlink(missing_ok=True)
        told = self.plain(self.mtprof, "export", str(spool), "-o", str(path))
        if told.returncode != 0:
            print("# " + told.stderr)
        return path
