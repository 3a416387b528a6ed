#!/usr/bin/env python3
"""Unit: programs that speak NVTX, under the collector of it; and ITT, NVTX and the heap in one process.

usage: tests/unit/test_nvtx_collector.py COLLECTOR MTPROF CALLS   speaks TAP
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from programs import Programs, check, finish, is_foreign_safe, python_with, said, skip  # noqa: E402


def test_ranges(p, calls):
    done, t = p.under(calls, "ranges")
    names = t.names()
    check("the_program_gets_its_levels", done.returncode == 0 and done.stderr == "", said(done))
    check("ranges_have_their_text", names["outer"] == 100 and names["\u00e4u\u00dferes \U0001f600"] == 100, names)
    check("and_nest", t.spans[0]["name"] == "outer" and t.spans[1]["ts"] >= t.spans[0]["ts"] and
          t.spans[1]["ts"] + t.spans[1]["dur"] <= t.spans[0]["ts"] + t.spans[0]["dur"], t.spans[:2])
    check("marks_are_marks", t.marks == ["a mark"], t.marks)
    one, two = t.one("one"), t.one("two")
    check("started_ranges_may_overlap", one["ts"] <= two["ts"] <= one["ts"] + one["dur"] <= two["ts"] + two["dur"], (one, two))
    check("a_missing_text_harms_nothing", names["?"] == 1 and sum(names.values()) == 203, names)
    quiet = p.plain(calls, "forks", **p.variables)
    check("without_a_profile_the_program_runs_as_before", quiet.returncode == 0 and quiet.stderr.count("records nothing") == 1, said(quiet))


def test_domains(p, calls):
    done, t = p.under(calls, "domains")
    names = t.names()
    check("domains_have_their_own_levels", done.returncode == 0, said(done))
    check("ranges_are_named_by_domain", (names["dom::registered"], names["w\u00efde::r\u00e9g"], names["dom::text"], names["wide"]) ==
          (12, 10, 10, 1), names)
    check("long_names_are_whole", names["dom::" + "f" * 1999] == 1, [n[:20] for n in names])
    check("domains_have_marks", t.marks == ["dom::text"], t.marks)


def test_payloads(p, calls):
    done, t = p.under(calls, "payloads")
    typed = [e["args"].get("payload") for e in t.spans if e["name"] == "p::typed"]
    check("payloads_are_shown_by_their_type", done.returncode == 0 and
          typed == [None, 2 ** 64 - 1, -1, -0.1, 2 ** 32 - 1, -1, 0.5, None], said(done) + str(typed))
    check("what_is_no_number_is_text", t.one("p::nan")["args"].get("payload") == "nan", t.one("p::nan"))
    named = t.one("p::named")["args"]
    check("categories_are_shown_by_name", named.get("category") == "a \"quoted\"\n \ufffd category" and named.get("payload") == -7, named)
    check("or_by_number", t.one("p::numbered")["args"].get("category") == 4, t.one("p::numbered"))


def test_more(p, calls):
    done, t = p.under(calls, "threads")
    check("threads_lose_nothing", done.returncode == 0 and t.names() == {"task": 8000, "handed on": 4, "after": 1}, said(done) + str(t.names()))
    names = " ".join(t.thread_names.values())
    check("threads_have_the_name_they_were_given", names.count("(a worker with a rather long n\u00e4me)") == 4 and "(the first)" in names,
          names)
    check("ranges_that_other_threads_end_are_ended", len(t.marks) == 4 and not any("unfinished" in str(e["args"]).lower() for e in t.spans
          if e["name"] == "handed on"), t.marks)
    done, t = p.under(calls, "old")
    check("a_shorter_table_works", done.returncode == 0 and t.names() == {"range": 1} and t.marks == ["from the second"], said(done))
    done, t = p.under(calls, "forks")
    check("forked_children_leave_the_trace_alone", (done.returncode, done.stderr) == (0, "") and t.names() == {"around": 1, "task": 2},
          said(done) + str(t.names()))
    done, t = p.under(calls, "exit_elsewhere")
    check("exit_from_a_thread_keeps_the_trace", done.returncode == 4 and t.names() == {"task": 5}, said(done))
    done, t = p.under(calls, "killed", out="trace.mtp")
    check("kill_9_keeps_a_spool", done.returncode == -9 and t.names() == {"task": 100}, said(done) + str(t.names()))
    done, t = p.under(calls, "unloads")
    check("a_program_may_unload_the_collector", done.returncode == 0 and t.names() == {"task": 10}, said(done))


FOREIGN = """
#include <nvtx3/nvToolsExt.h>
int main(void)
{
    nvtxDomainHandle_t d = nvtxDomainCreateA("theirs");
    nvtxEventAttributes_t e = {0};
    e.version = NVTX_VERSION, e.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    e.messageType = NVTX_MESSAGE_TYPE_REGISTERED, e.message.registered = nvtxDomainRegisterStringA(d, "string");
    e.payloadType = NVTX_PAYLOAD_TYPE_INT64, e.payload.llValue = 42;
    nvtxNameOsThreadA(0, "nobody");
    for (int i = 0; i < 3; i++) {
        if (nvtxRangePushA("outer") != 0 || nvtxDomainRangePushEx(d, &e) != 0)
            return 1;
        nvtxDomainRangePop(d);
        nvtxRangePop();
    }
    nvtxRangeEnd(nvtxRangeStartW(L"wide"));
    nvtxMarkA("mark");
    return 0;
}
"""


def header_folders(p):
    """Where NVIDIA's headers may be: the compiler's own folders, CUDA's, and the PyPI package nvtx."""
    python = python_with("nvtx", "its headers are not looked for")
    found = p.plain(python, "-c", "import nvtx; print(nvtx.__path__[0])").stdout.strip() if python else ""
    return [folder for folder in ("", "/usr/local/cuda/include", *map(str, pathlib.Path(found or "/nowhere").glob("**/include")),
                                  *map(str, pathlib.Path("/usr/local").glob("cuda-*/include"))) if folder == "" or os.path.isdir(folder)]


def test_foreign(p):
    source, program = p.folder / "foreign.c", p.folder / "foreign"
    source.write_text(FOREIGN)
    compiler = shutil.which(os.environ.get("CC", "cc").split()[-1])
    built = any(subprocess.run([compiler, str(source), "-o", str(program), "-ldl", *(["-I" + folder] if folder else [])],
                               capture_output=True).returncode == 0 for folder in header_folders(p)) if compiler else False
    if not built:
        skip("a_program_with_nvidias_headers_is_recorded", "NVTX's headers are not installed (CUDA, or PyPI's nvtx)")
        return
    done, t = p.under(str(program))
    check("a_program_with_nvidias_headers_is_recorded", done.returncode == 0 and
          t.names() == {"outer": 3, "theirs::string": 3, "wide": 1} and t.marks == ["mark"], said(done) + str(t.names()))
    check("with_its_payloads", all(e["args"].get("payload") == 42 for e in t.spans if e["name"] == "theirs::string"), t.spans)


PYTHON = """
import nvtx
@nvtx.annotate("call", category="kind", payload=5)
def call(): pass
for i in range(3): call()
with nvtx.annotate("with", domain="mine"): nvtx.mark("m")
nvtx.end_range(nvtx.start_range("started"))
"""


def test_python(p):
    python = python_with("nvtx", "NVIDIA's Python package is not tested")
    if python is None:
        skip("nvidias_python_package_is_recorded", "PyPI's nvtx is not installed")
        return
    done, t = p.under(python, "-c", PYTHON)
    check("nvidias_python_package_is_recorded", done.returncode == 0 and t.names() == {"call": 3, "mine::with": 1, "started": 1} and
          t.marks == ["m"], said(done) + str(t.names()))
    check("with_its_categories", all((e["args"].get("category"), e["args"].get("payload")) == ("kind", 5) for e in t.spans
                                     if e["name"] == "call"), t.spans)


def main(collector, mtprof, calls):
    with tempfile.TemporaryDirectory() as folder:
        p = Programs(mtprof, folder, NVTX_INJECTION64_PATH=os.path.abspath(collector))
        test_ranges(p, calls)
        test_domains(p, calls)
        test_payloads(p, calls)
        test_more(p, calls)
        if is_foreign_safe(collector):
            test_foreign(p)
            test_python(p)
    return finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
