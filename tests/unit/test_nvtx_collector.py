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


def test_extension(p, calls):
    """Payloads by schema, as in NCCL, which pushes by the core and pops by the extension."""
    done, t = p.under(calls, "nccl")
    check("the_extension_pops_what_the_core_pushed", done.returncode == 0 and t.names() ==
          {"around": 1, "NCCL::ncclCommInitRankConfig": 3, "NCCL::ncclAllReduce": 3, "after": 1}, said(done) + str(t.names()))
    spans = sorted((e for e in t.spans if e["name"].startswith("NCCL")), key=lambda e: e["ts"])
    check("ranges_after_it_do_not_nest_in_it", all(a["ts"] + a["dur"] <= b["ts"] for a, b in zip(spans, spans[1:])) and
          not t.holds("around", "after") and t.one("after")["ts"] >= t.one("around")["ts"] + t.one("around")["dur"], spans)
    check("no_range_is_left_open", not any("unfinished" in str(e["args"]).lower() for e in t.spans), t.spans)
    check("payloads_have_the_names_of_their_fields", [e["args"].get("payload") for e in spans if e["name"].endswith("Reduce")] ==
          [{"NCCL communicator ID": 0x1234567890abcdef, "Message size [bytes]": 4096, "Reduction operation": op}
           for op in ("Product", 2, 3)], spans)
    done, t = p.under(calls, "extension")
    check("a_program_may_use_the_extension_alone", done.returncode == 0 and
          t.names() == {"said": 1, "inner": 1, "?": 1, "started": 1} and t.marks == ["marked"], said(done) + str(t.names()) + str(t.marks))
    fields = {"small": -3, "2": 65535, "name": "in \"p", "re\"al": 0.5, "not finite": "inf", "address": "0x10", "last": 9}
    check("fields_without_an_offset_are_where_c_places_them", t.one("inner")["args"].get("payload") == fields, t.one("inner"))
    check("payloads_may_be_several", t.one("said")["args"].get("payload") == {**fields, "1": -7}, t.one("said"))
    check("payloads_may_be_numbers", t.one("?")["args"].get("payload") == -7, t.one("?"))
    check("ranges_of_the_extension_nest", t.holds("said", "inner"), t.spans)
    done, t = p.under(calls, "hostile")
    plain = [e["args"]["payload"] for e in t.spans if e["name"] == "h::hostile" and "payload" in e["args"]]
    check("wrong_schemas_harm_nothing", done.returncode == 0 and done.stderr == "", said(done))
    check("and_what_is_right_is_shown", plain and all(x.get("good") == 7 and "\ufffd\n" in x and len(x) == 3 for x in plain), plain)
    done, t = p.under(calls, "versions")
    check("unknown_versions_of_the_extension_are_refused_and_older_ones_work", done.returncode == 0 and t.names() == {"old": 1},
          said(done) + str(t.names()))
    quiet = p.plain(calls, "hostile", **p.variables)
    check("without_a_profile_the_extension_is_harmless", quiet.returncode == 0 and quiet.stderr.count("records nothing") == 1, said(quiet))


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


FOREIGN_PAYLOADS = """
#include <nvtx3/nvToolsExtPayload.h>
struct sent { uint64_t to; float seconds; };
int main(void)
{
    nvtxPayloadSchemaEntry_t entries[] = {{0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "To"}, {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "Seconds"}};
    nvtxPayloadSchemaAttr_t schema = {0};
    schema.fieldMask = 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6; /* type, entries, their count, size */
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC, schema.entries = entries, schema.numEntries = 2;
    schema.payloadStaticSize = sizeof(struct sent);
    struct sent sent = {7, 0.5f};
    nvtxPayloadData_t data = {nvtxPayloadSchemaRegister(NULL, &schema), sizeof sent, &sent};
    if (nvtxRangePushPayload(NULL, &data, 1) != 0)
        return 1;
    nvtxRangePushA("inner");
    return nvtxRangePopPayload(NULL, NULL, 0) != 1 || nvtxRangePopPayload(NULL, &data, 1) != 0;
}
"""


def header_folders(p):
    """Where NVIDIA's headers may be: the compiler's own folders, CUDA's, and the PyPI package nvtx."""
    python = python_with("nvtx", "its headers are not looked for")
    found = p.plain(python, "-c", "import nvtx; print(nvtx.__path__[0])").stdout.strip() if python else ""
    return [folder for folder in ("", "/usr/local/cuda/include", *map(str, pathlib.Path(found or "/nowhere").glob("**/include")),
                                  *map(str, pathlib.Path("/usr/local").glob("cuda-*/include"))) if folder == "" or os.path.isdir(folder)]


def build_foreign(p, text, name):
    """A program made with NVIDIA's headers; None if there are none, or if they lack what it uses."""
    source, program = p.folder / f"{name}.c", p.folder / name
    source.write_text(text)
    compiler = shutil.which(os.environ.get("CC", "cc").split()[-1])
    built = any(subprocess.run([compiler, str(source), "-o", str(program), "-ldl", *(["-I" + folder] if folder else [])],
                               capture_output=True).returncode == 0 for folder in header_folders(p)) if compiler else False
    return str(program) if built else None


def test_foreign(p):
    program = build_foreign(p, FOREIGN, "foreign")
    if program is None:
        skip("a_program_with_nvidias_headers_is_recorded", "NVTX's headers are not installed (CUDA, or PyPI's nvtx)")
        return
    done, t = p.under(program)
    check("a_program_with_nvidias_headers_is_recorded", done.returncode == 0 and
          t.names() == {"outer": 3, "theirs::string": 3, "wide": 1} and t.marks == ["mark"], said(done) + str(t.names()))
    check("with_its_payloads", all(e["args"].get("payload") == 42 for e in t.spans if e["name"] == "theirs::string"), t.spans)


def test_foreign_payloads(p):
    program = build_foreign(p, FOREIGN_PAYLOADS, "foreign_payloads")
    if program is None:
        skip("a_program_with_nvidias_payload_header_is_recorded", "it is not installed (newer CUDA, or PyPI's nvidia-nvtx)")
        return
    done, t = p.under(program)
    check("a_program_with_nvidias_payload_header_is_recorded", done.returncode == 0 and t.names() == {"?": 1, "inner": 1} and
          t.holds("?", "inner"), said(done) + str(t.names()))
    check("its_schema_is_understood", t.one("?")["args"].get("payload") == {"To": 7, "Seconds": 0.5}, t.spans)


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
        test_extension(p, calls)
        test_more(p, calls)
        if is_foreign_safe(collector):
            test_foreign(p)
            test_foreign_payloads(p)
            test_python(p)
    return finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
