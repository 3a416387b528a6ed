#!/usr/bin/env python3
"""The command as people use it: every verb, its exit codes, and its messages about invalid files and options.

usage: command.py MTPROF TRACE      TRACE: one of PyTorch's, with steps, memory events and device work
"""
import csv
import fcntl
import gzip
import io
import json
import os
import pathlib
import pty
import re
import signal
import struct
import subprocess
import sys

from command_base import equal, finish, MTPROF, refused, ROOT, run, test, TRACE

VERBS = re.findall(r"^  ([a-z]+) ", run("--help").out, re.M)


@test
def help_and_version_are_told(folder):
    assert run("--help").out.startswith("usage: mtprof VERB") and run("--version").out.startswith("mtprof ")
    assert {"table", "info"} < set(VERBS), VERBS
    equal(run().code, 2)
    for verb in VERBS:
        ran = run(verb, "--help")
        assert ran.code == 0 and ran.out.startswith(f"usage: mtprof {verb}"), ran
        assert all(len(line) <= 100 for line in ran.out.splitlines()), max(ran.out.splitlines(), key=len)


@test
def explain_tells_what_stands_out(folder):
    ran = run("explain", TRACE)
    assert ran.code == 0 and ran.err == "", ran
    assert "1. The device waits for launches" in ran.out and "[device-idle-launch-bound] could save" in ran.out, ran.out
    assert all(len(line) <= 100 for line in ran.out.splitlines()), max(ran.out.splitlines(), key=len)
    assert all(len(line) <= 70 for line in run("explain", TRACE, COLUMNS="70").out.splitlines())
    functions = folder / "functions.json"
    functions.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "python_function", "name": "a.py(1): f", "pid": 1, "tid": 1, "ts": 1, "dur": 9000}]}))
    first = run("explain", functions).out.replace("\n", " ")
    assert "no operators were recorded" in first and "in operators for" not in first, first
    told = json.loads(run("explain", "--json", TRACE).out)
    equal(told["steps"], 3)
    first = told["findings"][0]
    equal((first["id"], first["kind"]), ("device-idle-launch-bound", "time"))
    assert 0 < first["share"] < 1 and first["gain_us"] <= first["spent_us"] <= told["whole_us"], first
    assert [f["gain_us"] for f in told["findings"]] == sorted((f["gain_us"] for f in told["findings"]), reverse=True)
    for evidence in first["evidence"]:
        assert evidence["name"] and evidence["calls"] > 0 and evidence["us"] > 0, evidence
    run("explain", "--json", TRACE, "-o", folder / "told.json.gz")
    equal(json.loads(gzip.open(folder / "told.json.gz").read()), told)


@test
def a_budget_is_never_exceeded_and_ends_with_a_sentence(folder):
    whole, least = run("explain", "--budget", "1000000", TRACE).out, None
    refused(run("explain", "--budget", "10", TRACE), 2, "at least")
    least = int(re.search(r"at least (\d+)", run("explain", "--budget", "10", TRACE).err)[1])
    refused(run("explain", "--budget", least - 1, TRACE), 2, "too small")
    last = 0
    for budget in range(least, len(whole) // 4 + 2, 7):
        ran = run("explain", "--budget", budget, TRACE)
        assert ran.code == 0 and len(ran.out.encode()) <= 4 * budget, (budget, ran)
        assert "[device-idle-launch-bound]" in ran.out and len(ran.out) >= last, ran.out
        assert all(line in whole or line.startswith("More: ") for line in ran.out.splitlines()), ran.out
        last = len(ran.out)
    refused(run("explain", "--budget", "0", TRACE), 2, "--budget '0'")
    refused(run("explain", "--budget", "5", "--json", TRACE), 2, "not both")
    refused(run("explain"), 2, "expected one trace")


@test
def two_traces_are_compared_in_words(folder):
    ran = run("explain", TRACE, TRACE)
    assert ran.code == 0 and "no change beyond noise" in ran.out and "none changed" in ran.out, ran
    slow = json.loads(gzip.open(TRACE).read())
    for event in slow["traceEvents"]:
        if event.get("cat") == "kernel" and "reduce_kernel" in event["name"]:
            event["dur"] *= 3
    (folder / "slow.json").write_text(json.dumps(slow))
    ran = run("explain", TRACE, folder / "slow.json")
    assert re.search(r"reduce_kernel \(on the device\) takes .* per call instead of .* \(slower\)", ran.out), ran.out
    json.loads(run("explain", "--json", TRACE, TRACE).out)
    refused(run("explain", "-", "-"), 2, "standard input")


@test
def show_expands_ids_spans_and_names(folder):
    finding = run("show", TRACE, "device-idle-launch-bound")
    assert finding.code == 0 and finding.out.count("\n   - ") > 3, finding
    number = re.search(r"span (\d+)", finding.out)[1]
    for name in (number, f"span {number}"):
        ran = run("show", TRACE, name)
        assert ran.out.startswith(f"span {number}: ") and "launched by span" in ran.out and "kernel on stream" in ran.out, ran
    ran = run("show", TRACE, "aten::addmm")
    assert re.match(r"aten::addmm: \d+ calls, ", ran.out) and "with [[" in ran.out and "longest: span" in ran.out, ran
    assert len(run("show", "--budget", "60", TRACE, "aten::addmm").out) <= 240
    refused(run("show", TRACE, "nonsense"), 2, "'nonsense' is neither a finding nor")
    refused(run("show", TRACE, "99999999"), 2, "no span 99999999")
    refused(run("show", TRACE), 2, "expected a trace and an id")


@test
def escape_sequences_never_reach_the_terminal(folder):
    events = [{"ph": "X", "cat": "cpu_op", "name": "evil\x1b[2J\u009b31m\r\n", "pid": 1, "tid": 1, "ts": i * 1000, "dur": 900}
              for i in range(20)]
    (folder / "evil.json").write_text(json.dumps({"traceEvents": events}))
    for args in (["explain"], ["explain", "--json"], ["explain", "--budget", "500"]):
        ran = run(*args, folder / "evil.json")
        assert ran.code == 0 and "evil" in ran.out and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.out), ran
    ran = run("show", folder / "evil.json", "0")
    assert ran.code == 0 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.out), ran


@test
def wrong_usage_is_2_and_says_what_is_right(folder):
    refused(run("tabel", TRACE), 2, "did you mean 'table'")
    refused(run("table", "--sort", "nonsense", TRACE), 2, "nonsense", "self_cpu_time_total")
    refused(run("table", "--limit", "x", TRACE), 2, "--limit", "'x'")
    refused(run("stats", "--limit=x", TRACE), 2, "--limit", "'x'")
    refused(run("table", "--wrong", TRACE), 2, "--wrong", "mtprof table --help")
    refused(run("table", "--time-unit", "h", TRACE), 2, "us, ms or s")
    refused(run("stats", "--json", "--csv", TRACE), 2, "not both")
    refused(run("export", TRACE), 2, "-o OUT")
    refused(run("export", TRACE, "-o", folder / "x.xyz"), 2, ".et.json")
    refused(run("cut", TRACE, "-o", folder / "x.json", "--step", "77"), 2, "77")
    refused(run("cut", TRACE, "-o", folder / "x.json", "--time", "5"), 2, "10ms-20ms")
    refused(run("memory", "--device", "nonsense", TRACE), 2, "cuda:0")
    refused(run("stacks", "--metric", "nonsense", TRACE), 2, "self_cpu_time_total")
    refused(run("diff", TRACE), 2, "BEFORE AFTER")
    refused(run("run", "--steps", "5:3", "true"), 2, "--steps", "10:13")
    refused(run("trigger", "x"), 2, "'x'", "mtprof ps")
    refused(run("ps", "x"), 2, "mtprof ps")
    refused(run("top"), 2, "which recording?", "PID")
    refused(run("top", "--delay", "0", "run.mtp"), 2, "--delay")
    refused(run("top", "--sort", "speed", "run.mtp"), 2, "--sort", "self", "name")
    refused(run("top", "--window", "x", "run.mtp"), 2, "--window")
    refused(run("top", "-n", "0", "run.mtp"), 2, "--count")
    refused(run("top", "-n", "1", TRACE), 3, "not an mtprof spool", "mtprof table")
    refused(run("top", "-n", "1", "nothing.mtp"), 3, "No such file")
    refused(run("diff", "--fail-over", "much", TRACE, TRACE), 2, "percentage or fraction", "5% or 0.05")
    for verb in VERBS:
        usage = run(verb, "--help").out.splitlines()[0]
        if not usage.endswith((f"mtprof {verb} [TRACE]", f"mtprof {verb}", "[FOLDER...]")):  # an argument is needed
            refused(run(verb), 2, "mtprof " + verb)
    equal(list(folder.iterdir()), [])


@test
def bad_input_is_3_and_says_which_file_and_where(folder):
    raw = gzip.open(TRACE).read()
    bad = {"missing.json": (None, "No such file"), "empty.json": (b"", "empty"), "text.json": (b"hello", "byte 0"),
           "cut.json": (raw[:10000], "byte 10000"), "no.json": (b"{}", "traceEvents"),
           "cut.json.gz": (pathlib.Path(TRACE).read_bytes()[:5000], "byte 5000")}
    for name, (content, words) in bad.items():
        if content is not None:
            (folder / name).write_bytes(content)
        for verb in ("table", "stats", "memory", "steps", "info", "stacks"):
            refused(run(verb, folder / name), 3, f"{name}: ", words)
        refused(run("export", folder / name, "-o", folder / "out.json"), 3, name, words)
        refused(run("diff", TRACE, folder / name), 3, name, words)
    refused(run("table", folder), 3, "no recordings (.mtp)")
    assert not (folder / "out.json").exists()
    (folder / "none.json").write_text('{"traceEvents": []}')
    refused(run("memory", folder / "none.json"), 3, "profile_memory")
    refused(run("stacks", folder / "none.json", "-o", folder / "x.folded"), 3, "with_stack")
    assert not (folder / "x.folded").exists()
    ran = run("table", folder / "none.json")
    assert ran.code == 0 and ran.out == "" and "nothing" in ran.err, ran


@test
def compressed_files_that_are_damaged_are_said_so_in_plain_words(folder):
    raw = bytearray(pathlib.Path(TRACE).read_bytes())
    raw[-6] ^= 1
    (folder / "sum.json.gz").write_bytes(raw)
    refused(run("table", folder / "sum.json.gz"), 3, "the gzip data is damaged", "its checksum does not match its content",
            "get it again")
    raw[5:] = raw[5:4000] + bytes([raw[4000] ^ 255]) * 50 + raw[4050:]
    (folder / "body.json.gz").write_bytes(raw)
    refused(run("table", folder / "body.json.gz"), 3, "body.json.gz: ")
    (folder / "deep.json").write_text('{"x": ' + "[" * 20000 + "]" * 20000 + ', "traceEvents": []}')
    refused(run("table", folder / "deep.json"), 3, "nested more than 10000 deep")
    ran = run("check", folder / "deep.json")
    assert ran.code == 1 and "values are nested more than 10000 deep" in ran.out, ran


@test
def memory_is_bounded_and_want_of_it_is_5(folder):
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1}'
    bomb = folder / "bomb.json.gz"
    with gzip.open(bomb, "wt") as file:
        file.write(f'{{"traceEvents": [{", ".join([event] * 200000)}]}}')
    for verb in ("table", "stats", "memory", "steps", "info", "check", "stacks"):
        refused(run(verb, bomb, "--max-memory", "4M"), 5, "bomb.json.gz: ", "over the memory limit of 4.2 MB",
                "allow more with --max-memory")
        refused(run(verb, bomb, MTPROF_MAX_MEMORY="4M"), 5, "over the memory limit of 4.2 MB")
    refused(run("export", "--max-memory=4M", bomb, "-o", folder / "x.json"), 5, "more than")
    refused(run("table", "--max-memory=12M", bomb), 5, "over the memory limit of 12.6 MB")    # read, but not averaged
    equal(run("info", "--max-memory=40M", bomb).code, 0)
    equal(run("info", "--max-memory=none", bomb, MTPROF_MAX_MEMORY="1k").code, 0)
    for size in ("x", "0", "-1", "1Q", "2GG"):
        refused(run("table", bomb, "--max-memory", size), 2, size, "2G, 500M or none")
    refused(run("table", bomb, MTPROF_MAX_MEMORY="much"), 2, "MTPROF_MAX_MEMORY", "'much'")
    refused(run("table", bomb, "--max-memory"), 2, "needs a size")
    equal([p.name for p in folder.iterdir()], ["bomb.json.gz"])


def mix(a, b):
    a = (a ^ b) * 0x9e3779b97f4a7c15 % 2**64
    return a ^ a >> 32


def header_check(header):
    """base/hash.h: mtp__hash_words."""
    words = struct.unpack(f"<{len(header) // 8}Q", header)
    lanes = [0xd6e8feb86659fd93, 0x9e3779b97f4a7c15]
    lanes += [lane ^ 2**64 - 1 for lane in lanes]
    for i, word in enumerate(words):
        lanes[i % 4] = mix(lanes[i % 4], word)
    turned = [(lane << 1 | lane >> 63) % 2**64 for lane in lanes]
    return mix(mix((lanes[0] + turned[1]) % 2**64, (lanes[2] + turned[3]) % 2**64), len(words))


def spool(path, complete=1, chunks=0, locked=0, more=b"", ledger=(), pid=77):
    """A header and its copy, without chunks. ledger: emitted, kept, dropped, lost definitions, dropped by cause."""
    header = b"mtprof1\n" + struct.pack("<IIQQQQQdQQQ", 4, 4096, pid, complete, chunks, locked, 0, 1.0, 1, 1, 1)
    header += struct.pack("<22Q", bool(ledger), 0, *ledger, *[0] * (20 - len(ledger)))
    header += struct.pack("<Q", header_check(header))
    half = header + bytes(2048 - len(header))
    path.write_bytes(half + half + more)
    return path


DAMAGED = struct.pack("<QQ", 1, 12345) + bytes(64) + struct.pack("<II", 4096, 77) + bytes(4096 - 88)  # no magic number, a wrong check


@test
def damage_is_said_by_every_verb(folder):
    chunk = DAMAGED
    bad = spool(folder / "bad.mtp", chunks=1, more=chunk)
    for verb in ("table", "stats", "memory", "steps", "info", "stacks"):
        assert "bad.mtp: damaged: 1 of 1 chunks could not be read" in run(verb, bad).err, verb
    for out in ("x.json", "x.csv", "x.et.json"):
        assert "damaged: 1 of 1 chunks" in run("export", bad, "-o", folder / out).err, out
    assert "damaged: 1 of 1 chunks" in run("diff", bad, bad).err, run("diff", bad, bad)
    assert "damaged: 1 of 1 chunks" in run("cut", bad, "--name", "x", "-o", folder / "y.json").err, run("cut", bad, "--name", "x", "-o", folder / "y.json")
    assert "1 of 1 chunks could not be read" in run("info", folder / "x.json").out, run("info", folder / "x.json")  # and the exported file records it
    equal(run("check", bad).code, 1)
    text = bytearray(spool(folder / "head.mtp").read_bytes())
    text[13] ^= 1
    (folder / "head.mtp").write_bytes(text)
    assert "its header is damaged; the intact copy was used" in run("table", folder / "head.mtp").err
    ran = run("check", folder / "head.mtp")
    assert ran.code == 1 and "one of the two copies of the header" in ran.out, ran
    text[2048 + 13] ^= 1
    (folder / "head.mtp").write_bytes(text)
    refused(run("table", folder / "head.mtp"), 3, "header is damaged, and so is its copy")


@test
def what_was_dropped_is_said_by_every_verb(folder):
    full = spool(folder / "full.mtp", ledger=(100, 0, 100, 0, 30, 10, 60))
    for verb in ("table", "stats", "memory", "steps", "info", "stacks"):
        assert "full.mtp: 90 of 100 records were dropped (the spool could not grow)" in run(verb, full).err, verb
    ran = run("export", full, "-o", folder / "x.json")
    assert ran.code == 0 and "90 of 100 records were dropped" in ran.err, ran
    assert "90 of 100 records were dropped" in run("table", folder / "x.json").err      # and the exported file records it
    ran = run("check", full)
    assert ran.code == 1 and "records were dropped while recording: 90 of 100" in ran.out, ran
    ring = spool(folder / "ring.mtp", ledger=(100, 0, 100, 0, 0, 100))
    equal(run("info", ring).err, "")                                                    # dropping was requested
    equal(run("check", ring).code, 0)
    lost = spool(folder / "lost.mtp", ledger=(100, 100, 0))                             # but the file has none of them
    assert "lost.mtp: damaged: 1 of 1 chunks could not be read" in run("table", lost).err, run("table", lost)
    ran = run("check", lost)
    assert ran.code == 1 and "100 records kept, 0 found" in ran.out, ran
    ran = run("recover", lost, "-o", folder / "found.mtp")
    assert ran.code == 0 and "100 records are lost" in ran.err, ran
    assert "100 of 100 records were dropped (in a part of the file that was damaged)" in run("table", folder / "found.mtp").err
    ran = run("check", folder / "found.mtp")
    assert ran.code == 0 and "100 of 100 records are lost" in ran.out, ran


@test
def what_is_left_of_a_spool_is_recovered(folder):
    chunk = DAMAGED
    bad = spool(folder / "bad.mtp", complete=0, locked=1, more=chunk)
    ran = run("recover", bad, "-o", folder / "once.mtp")
    assert ran.code == 0 and "damaged: 1 of 1 chunks" in ran.err and "had not been stopped" in ran.err, ran
    equal(run("recover", folder / "once.mtp", "-o", folder / "twice.mtp").code, 0)
    equal((folder / "once.mtp").read_bytes(), (folder / "twice.mtp").read_bytes())
    equal(run("check", folder / "once.mtp").code, 0)
    refused(run("recover", bad, "-o", bad), 2, "name another")
    refused(run("recover", bad), 2, "an output file")
    refused(run("recover", "-o", folder / "x.mtp"), 2, "one spool")
    refused(run("recover", TRACE, "-o", folder / "x.mtp"), 3, "not an mtprof spool")
    refused(run("recover", bad, "-o", folder / "no" / "x.mtp"), 4, "no/x.mtp")
    assert run("recover", "--help").out.startswith("usage: mtprof recover FILE -o OUT")


@test
def a_spool_that_was_cut_is_said_so_whatever_the_verb(folder):
    cut = spool(folder / "cut.mtp", chunks=5)
    for verb in ("table", "stats", "memory", "steps", "info", "stacks"):
        assert "cut.mtp is truncated: 5 chunks are missing" in run(verb, cut).err, verb
    assert "cut.mtp is truncated" in run("export", cut, "-o", folder / "x.json").err
    assert "truncated         5 chunks" in run("info", cut).out
    assert "truncated         5 chunks" in run("info", folder / "x.json").out      # and the exported file records it
    ran = run("check", cut)
    assert ran.code == 1 and "the file is truncated: 5 of its 5 chunks" in ran.out, ran


@test
def a_recovered_spool_is_clean_and_a_live_one_is_named(folder):
    ran = run("check", spool(folder / "a.mtp", complete=0, locked=1))
    assert ran.code == 0 and "recovered: process 77" in ran.out and "clean, recovered" in ran.out, ran
    assert json.loads(run("check", "--json", folder / "a.mtp").out)["recovered"]
    assert "recovered" in run("info", folder / "a.mtp").out
    with open(folder / "a.mtp", "r+b") as held:
        fcntl.fcntl(held, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))    # F_OFD_SETLK, as a recorder holds it
        ran = run("check", folder / "a.mtp")
        assert ran.code == 0 and "process 77 is still recording" in ran.out, ran
        assert "still being recorded by process 77" in run("table", folder / "a.mtp").err
        assert "ended" not in run("info", folder / "a.mtp").out
    ran = run("check", spool(folder / "a.mtp", complete=0))
    assert ran.code == 0 and "may still be running" in ran.out and "ended" not in ran.out, ran


@test
def several_spools_are_one_trace_and_each_is_told_of_by_its_name(folder):
    whole = spool(folder / "run.mtp", pid=100)
    (folder / "run.mtp.workers").mkdir()
    spool(folder / "run.mtp.workers/full.mtp", pid=101, ledger=(100, 0, 100, 0, 30, 10, 60))
    spool(folder / "run.mtp.workers/cut.mtp", pid=102, chunks=5)
    spool(folder / "run.mtp.workers/zcopy.mtp", pid=102)
    (folder / "run.mtp.workers/text.mtp").write_text("no spool")
    (folder / "run.mtp.workers/notes.txt").write_text("not even a spool's name")
    told = ("run.mtp.workers/full.mtp: 90 of 100 records were dropped", "run.mtp.workers/cut.mtp is truncated: 5 chunks",
            "run.mtp.workers/text.mtp: not read: this is not an mtprof spool", "run.mtp.workers/zcopy.mtp")
    for verb in ("table", "stats", "memory", "steps", "info", "stacks"):
        for path in (whole, folder):
            err = run(verb, path).err
            assert all(word in err for word in told[:3]) and "notes" not in err, (verb, err)
    ran = run("info", whole)
    assert ran.code == 0 and re.search(r"recordings +5\n", ran.out) and re.search(r"main +100\n", ran.out), ran
    for word in ("process 100", "process 101", "process 102", "100 records emitted, 0 kept, 100 dropped", "not read", "copy of"):
        assert word in ran.out, (word, ran.out)
    ran = run("table", "--process", "101", whole)
    assert ran.code == 0 and "full.mtp: 90 of 100" in ran.err and "cut.mtp" not in ran.err, ran
    equal(run("info", "--process=main", whole).err, "")
    equal(run("info", folder / "run.mtp.workers/full.mtp").out, run("info", folder / "run.mtp.workers/full.mtp", "--process", 101).out)
    refused(run("table", whole, "--process", 7), 2, "no recording of process 7", "100, 102, 101")
    refused(run("table", folder / "run.mtp.workers/full.mtp", "--process", 7), 2, "process 101, not of 7")
    for wrong in ("", "x", "-3", "0"):
        refused(run("table", whole, f"--process={wrong}"), 2, "--process", "mtprof info")
    refused(run("table", TRACE, "--process", 7), 2, "there is no process 7")


@test
def several_spools_are_checked_one_by_one_and_so_recovered(folder):
    whole = spool(folder / "run.mtp", pid=100)
    (folder / "run.mtp.workers").mkdir()
    spool(folder / "run.mtp.workers/a.mtp", pid=101)
    equal(run("check", whole).code, 0)
    spool(folder / "run.mtp.workers/b.mtp", pid=102, chunks=5)
    ran = run("check", whole)
    assert ran.code == 1 and ran.out.count("clean: 0 events") == 2 and "b.mtp: 1 error" in ran.out, ran
    ran = run("check", "--json", folder)
    told = json.loads(ran.out)
    equal((ran.code, [(pathlib.Path(one["file"]).name, one["clean"]) for one in told]),
          (1, [("run.mtp", True), ("a.mtp", True), ("b.mtp", False)]))
    (folder / "run.mtp.workers/c.mtp").write_text("")
    ran = run("check", folder / "run.mtp.workers")
    assert ran.code == 3 and "c.mtp" in ran.err and "b.mtp: 1 error" in ran.out, ran
    refused(run("recover", folder / "run.mtp.workers", "-o", folder / "x.mtp"), 2, "is a folder", "workers/a.mtp -o OUT")
    ran = run("recover", whole, "-o", folder / "x.mtp")
    assert ran.code == 0 and "run.mtp.workers/ are files of their own" in ran.err, ran
    refused(run("table", folder / "run.mtp.workers/nothing"), 3, "No such file")
    (folder / "empty").mkdir()
    for verb in ("table", "info", "check", "export"):
        refused(run(verb, folder / "empty", *(["-o", folder / "y.json"] if verb == "export" else [])), 3, "no recordings (.mtp)")


@test
def links_of_ones_own_are_written_through_and_others_refused(folder):
    link = folder / "link.json"
    link.symlink_to("target.json")
    equal(run("export", TRACE, "-o", link).code, 0)
    assert link.is_symlink() and json.loads((folder / "target.json").read_text())["traceEvents"]
    (folder / "target.json").write_text("precious")
    folder.chmod(0o1777)
    refused(run("export", TRACE, "-o", link), 4, "link.json: it is a link in a folder that others can write to")
    equal((folder / "target.json").read_text(), "precious")


@test
def stacks_are_those_of_python_where_the_trace_has_no_others(folder):
    stacks = pathlib.Path(TRACE).with_name("cuda_stack.json.gz")
    rows = json.loads(run("stats", "--json", "--by-stack", "3", stacks).out)
    assert any(r["stack"] and r["key"] == "aten::addmm" for r in rows), [r["stack"] for r in rows][:9]
    ran = run("table", "--by-stack", "3", pathlib.Path(TRACE).with_name("cpu_nesting.json.gz"))
    assert ran.code == 0 and "with_stack" in ran.err and "aten::" in ran.out, ran
    lines = run("stacks", stacks).out.splitlines()
    places = [line.rsplit(" ", 1)[0] for line in lines]
    assert len(lines) == len(set(places)) > 100, (len(lines), len(set(places)))
    assert any(place.endswith(";aten::linear;aten::addmm") for place in places)
    times = [int(line.rsplit(" ", 1)[1]) for line in lines]
    equal(times, sorted(times, reverse=True))


@test
def output_that_fails_is_4(folder):
    refused(run("export", TRACE, "-o", folder / "no" / "x.json"), 4, "No such file")
    with open("/dev/full", "w") as full:
        for args in (["table", TRACE], ["stats", TRACE], ["stats", "--json", TRACE], ["steps", TRACE], ["memory", TRACE],
                     ["info", TRACE], ["check", TRACE], ["diff", TRACE, TRACE], ["export", TRACE, "-o", "-"], ["--help"]):
            ran = run(*args, stdout=full)
            assert ran.code == 4 and "No space left on device" in ran.err, (args, ran)


@test
def a_pipe_that_nobody_reads_ends_it_quietly(folder):
    for args in (["table", TRACE], ["stats", "--json", TRACE], ["export", TRACE, "-o", "-"], ["cut", TRACE, "--name", "aten*", "-o", "-"]):
        reads, writes = os.pipe()
        os.close(reads)
        with os.fdopen(writes, "wb") as nobody:
            ran = run(*args, stdout=nobody)
        assert ran.code == -signal.SIGPIPE and "standard output" not in ran.err, (args, ran)


@test
def a_compressed_spool_is_named(folder):
    packed = folder / "a.mtp.gz"
    packed.write_bytes(gzip.compress(spool(folder / "a.mtp").read_bytes()))
    refused(run("table", packed), 3, "a compressed spool: decompress it first")
    refused(run("info", "-", stdin=packed.read_bytes()), 3, "a compressed spool: decompress it first")


@test
def a_trace_without_memory_has_no_timeline_in_any_form(folder):
    bare = folder / "bare.json"
    bare.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1}]}')
    for args in ([], ["--json"], ["-o", folder / "x.json"], ["-o", folder / "raw.json.gz"]):
        refused(run("memory", *args, bare), 3, "no memory events", "profile_memory")
    refused(run("memory", "--json", "--device", "cuda:7", TRACE), 2, "no memory events for cuda:7", "cpu")
    equal([path.name for path in folder.iterdir()], ["bare.json"])


@test
def a_trace_of_an_xpu_has_its_columns_even_without_memory(folder):
    at = {"pid": 1, "tid": 1, "ph": "X"}
    events = [{**at, "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9, "args": {"External id": 5}},
              {**at, "cat": "xpu_runtime", "name": "urEnqueueKernelLaunch", "ts": 2, "dur": 3, "args": {"correlation": 7}},
              {**at, "pid": 0, "tid": 2, "cat": "kernel", "name": "gemm", "ts": 6, "dur": 4,
               "args": {"device": 0, "stream": 2, "correlation": 7}}]
    xpu, again = folder / "xpu.json", folder / "again.json"
    xpu.write_text(json.dumps({"traceEvents": events}))
    equal(run("export", xpu, "-o", again).code, 0)
    for path in (xpu, again):
        table = run("table", path).out
        assert "Self XPU" in table and "CUDA" not in table, table
    events[1]["cat"] = "cuda_runtime"
    events[0]["name"] = "xpu_runtime"                 # a name is not a category
    xpu.write_text(json.dumps({"traceEvents": events}))
    assert "Self CUDA" in run("table", xpu).out


@test
def rows_are_as_many_as_asked(folder):
    everything = json.loads(run("stats", "--json", TRACE).out)
    assert len(everything) > 120, len(everything)     # more than a table shows: unlimited by default
    for verb in ("table", "stats"):
        equal(json.loads(run(verb, "--json", TRACE).out), everything)
        equal(json.loads(run(verb, "--json", "--limit", "7", TRACE).out), everything[:7])
        equal(json.loads(run(verb, "--json", "--limit", "-1", TRACE).out), everything)
        lines = list(csv.reader(io.StringIO(run(verb, "--csv", "--limit", "7", TRACE).out)))
        equal([line[0] for line in lines], ["key"] + [row["key"] for row in everything[:7]])
        equal(len(list(csv.reader(io.StringIO(run(verb, "--csv", TRACE).out)))), len(everything) + 1)
    by_count = json.loads(run("stats", "--json", "--sort", "count", "--limit", "3", TRACE).out)
    equal([row["count"] for row in by_count], sorted((row["count"] for row in everything), reverse=True)[:3])
    equal(run("stats", "--limit", "5", TRACE).out.count("\n"), 7)
    equal(len(json.loads(run("steps", "--json", "--limit", "2", TRACE).out)["steps"]), 2)
    equal(len(json.loads(run("steps", "--json", TRACE).out)["steps"]), 3)
    equal(run("steps", "--csv", "--limit", "1", TRACE).out.count("\n"), 2)
    rows = json.loads(run("diff", "--json", TRACE, TRACE).out)["rows"]
    assert len(rows) > 20
    assert re.search(r"^steps: 3 -> 3, typically \S+ -> \S+ ", run("diff", TRACE, TRACE).out, re.M), run("diff", TRACE, TRACE).out
    equal(json.loads(run("diff", "--json", "--limit", "4", TRACE, TRACE).out)["rows"], rows[:4])


@test
def every_suffix_is_documented_and_writes_something(folder):
    help_text = run("export", "--help").out
    suffixes = re.findall(r"^  (\.\S+) ", help_text, re.M)
    assert {".json", ".et.json"} < set(suffixes), suffixes
    refused(run("export", TRACE, "-o", folder / "x.other"), 2, " ".join(suffixes), ".gz")
    assert " ".join(suffixes) in run("info").out, run("info").out
    pages = {"docs/trace-format.md": (ROOT / "docs/trace-format.md").read_text().split("## Other formats")[1],
             "docs/opencl-layer.md": (ROOT / "docs/opencl-layer.md").read_text()}
    for suffix in suffixes:
        for name, text in pages.items():
            words = {word.removeprefix("trace") for word in re.findall(r"[a-z]*(?:\.[a-z]+)+", text)}
            assert suffix in words, f"{name} does not list {suffix}"
        equal(run("export", TRACE, "-o", folder / ("x" + suffix)).code, 0)


@test
def what_can_be_read_is_documented(folder):
    readable = re.findall(r"(?:\.[a-z]+)+", run("--help").out.split("Reads ")[1].split(").\n")[0])
    equal(readable, [".mtp", ".json", ".json.gz", ".json.zst"])
    (folder / "x").write_text("hello")
    refused(run("table", folder / "x"), 3, *readable)
    readme = (ROOT / "README.md").read_text()
    for suffix in readable:
        assert f"`{suffix}`" in readme, f"README.md does not say that the command reads {suffix}"


@test
def the_suffix_says_the_form(folder):
    def exported(name):
        ran = run("export", TRACE, "-o", folder / name)
        equal((ran.code, ran.err), (0, ""))
        raw = (folder / name).read_bytes()
        return gzip.decompress(raw).decode() if name.endswith(".gz") else raw.decode()
    for gz in ("", ".gz"):
        assert len(json.loads(exported("a.json" + gz))["traceEvents"]) > 7000
        nodes = json.loads(exported("a.et.json" + gz))["nodes"]
        ops = [e for e in json.load(gzip.open(TRACE))["traceEvents"] if e.get("cat") == "cpu_op"]
        equal(sum(node["name"].startswith("aten::") for node in nodes), sum(e["name"].startswith("aten::") for e in ops))
        times, sizes = json.loads(exported("a.memory.json" + gz))
        equal(len(times), len(sizes))
        equal({len(row) for row in json.loads(exported("a.memory.raw.json" + gz))}, {4})
        equal(exported("a.csv" + gz), run("stats", "--csv", TRACE).out)
        rows = json.loads(run("stats", "--json", TRACE).out)
        equal([e["name"] for e in json.loads(exported("a.averages.json" + gz))["traceEvents"]], [r["key"] for r in rows])
    equal(json.loads(run("export", TRACE, "-o", "-").out)["traceEvents"],
          json.loads(exported("b.json"))["traceEvents"])
    part = folder / "part.et.json"
    equal(run("cut", TRACE, "-o", part, "--step", "2").code, 0)
    assert 100 < len(json.loads(part.read_text())["nodes"]) < len(nodes) / 2


@test
def a_file_of_stats_is_json_or_csv(folder):
    for name, option in (("a.json", "--json"), ("a.csv", "--csv"), ("a.txt", "--json")):
        equal(run("stats", TRACE, "-o", folder / name).code, 0)
        equal((folder / name).read_bytes().decode(), run("stats", option, TRACE).out)


@test
def standard_input_is_a_dash(folder):
    raw = pathlib.Path(TRACE).read_bytes()
    for stdin in (raw, gzip.decompress(raw)):
        equal(run("table", "-", stdin=stdin), run("table", TRACE))


@test
def remarks_leave_a_file_clean(folder):
    equal(run("check", TRACE).code, 1)                                        # PyTorch's own traces break rules
    again = folder / "again.json"
    run("export", TRACE, "-o", again)
    ran = run("check", again)
    assert ran.code == 0 and "remark: rule 11" in ran.out and "\nclean: " in ran.out, ran
    told = json.loads(run("check", "--json", again).out)
    assert told["clean"] and [f["severity"] for f in told["findings"]] == ["remark"], told
    text = re.sub(r'("ph": "s", "id": \d+, "pid": \d+, "tid": \d+, "ts": )', r"\g<1>9", again.read_text(), count=1)
    again.write_text(text)                                                    # a flow start where there is no span
    ran = run("check", again)
    assert ran.code == 1 and "a flow has no span at its time" in ran.out, ran


@test
def a_duration_that_is_none_is_not_a_missing_end(folder):
    for dur in ('"soon"', "-5", "NaN", "[1]", "1e300"):
        (folder / "a.json").write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": %s, "pid": 1, "tid": 1}]' % dur)
        told = run("info", folder / "a.json").out
        assert "durations         1 was not a number, or negative" in told and "had no end" not in told, (dur, told)
    (folder / "a.json").write_text('[{"ph": "X", "name": "a", "ts": 1, "pid": 1, "tid": 1}]')
    assert "1 spans had no end" in run("info", folder / "a.json").out


@test
def what_was_skipped_is_told(folder):
    (folder / "a.json").write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}, {"name": "no time"}]')
    assert "1 event without a time" in run("info", folder / "a.json").out


@test
def a_terminal_of_100_columns_is_wide_enough(folder):
    for args in (["stats"], ["steps"], ["memory"], ["info"], ["diff", TRACE]):
        ran = run(*args, TRACE, COLUMNS="100")
        rows = [line for line in ran.out.splitlines() if not re.match("(peak|drift|slower|no change)", line)]
        assert rows and all(len(line) <= 100 for line in rows if "/" not in line), max(rows, key=len)


@test
def colours_are_for_terminals(folder):
    assert "\033" not in run("stats", TRACE).out + run("check", TRACE).out
    for env, wanted in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        try:
            reader, writer = pty.openpty()
        except OSError as error:  # a bare container
            print(f"# no terminal available here, so this was not tested: {error}", file=sys.stderr)
            return
        child = subprocess.Popen([MTPROF, "check", TRACE], stdout=writer, stderr=writer, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "NO_COLOR": "", "TERM": "xterm", **env})
        os.close(writer)
        said = b""
        try:
            while piece := os.read(reader, 65536):
                said += piece
        except OSError:  # how a terminal ends
            pass
        os.close(reader)
        equal(child.wait(), 1)
        equal(b"\033[" in said, wanted)


finish()
