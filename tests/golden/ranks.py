#!/usr/bin/env python3
"""mtprof ranks and mtprof merge on jobs whose clocks and stragglers are known: made ones (bench/make_ranks.py), and four
real gloo ranks of PyTorch 2.13, recorded on one machine, whose clocks are shifted here. Four real NCCL ranks of PyTorch
2.11 that shared an H200: DistributedDataParallel, from step 4 on rank 2 multiplies and softmaxes 30 more matrices; of the
host's events, only launches and communication were kept.

usage: ranks.py MTPROF MAKE_RANKS FOLDER_OF_REAL_RANKS
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

MTPROF, MAKE, REAL = sys.argv[1:4]
RANKS = 8


def run(*args, code=0):
    done = subprocess.run([MTPROF, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, (args, done.returncode, done.stdout[-500:], done.stderr[-500:])
    return done


def ranks_of(*paths):
    return json.loads(run("ranks", "--json", *paths).stdout)


def load(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as f:
        return json.load(f)


def save(path, trace):
    with (gzip.open if str(path).endswith(".gz") else open)(path, "wt") as f:
        json.dump(trace, f)


def make(folder, *options):
    subprocess.run([sys.executable, MAKE, folder, "--ranks", str(RANKS), "--events", "48000", "--straggler", "5", "--suffix",
                    ".json", "--jobs", "1", "--steps", "30", "--since", "10", *options], check=True, stdout=subprocess.DEVNULL)
    return load(os.path.join(folder, "truth.json.txt"))


def copy(folder, source=None):
    os.makedirs(folder)
    for r in range(RANKS):
        shutil.copy(os.path.join(source or made, f"rank{r}.json"), folder)
    return folder


def off_by(truth, rank, clock):
    """The greatest difference between the clock that was found and the one that was planted, in ns."""
    worst = 0
    for t in (10**9, truth["length_ns"] // 2, truth["length_ns"]):
        shown = truth["base_ns"] + t + truth["offset_ns"][rank] + int(truth["drift"][rank] * t)
        found = shown + clock["offset_ns"] + round(clock["drift_ppm"] * (shown - int(clock["at_ns"])) / 1e6)
        worst = max(worst, abs(found - truth["base_ns"] - t))
    return worst


def planted_clocks_and_the_straggler_are_found():
    found = ranks_of(made)
    for r in found["ranks"]:
        off = off_by(truth, r["rank"], r["clock"])
        assert off < 5000 and off <= r["clock"]["error_ns"] + 2, (r["rank"], off, r["clock"])
    first = found["findings"][0]
    assert (first["id"], first["rank"], first["since_step"]) == ("straggler", 5, truth["since_step"]), first
    assert first["op"] == "ampere_sgemm_128x64_tn", first
    assert 25e3 < first["per_step_us"] < 36e3, first
    assert not found["notes"], found["notes"]


def times_of_a_step_add_up():
    for r in ranks_of(made)["ranks"]:
        for s in r["steps"]:
            assert abs(s["waiting_us"] + s["transfer_us"] - s["exposed_us"]) < 0.002
            assert abs(s["compute_us"] + s["exposed_us"] + s["copies_us"] + s["idle_us"] - s["wall_us"]) < 0.002
            assert s["exposed_us"] <= s["communication_us"] + 0.002
        total = sum(s["waiting_us"] for s in r["steps"]) / len(r["steps"])
        assert abs(total - r["per_step"]["waiting_us"]) < 0.1


def the_text_begins_with_the_verdict():
    text = run("ranks", made).stdout
    assert "1. Rank 5 (node0) is the straggler since step 20" in text
    assert re.search(r"^   \* 5  node0 ", text, re.M), text
    short = run("ranks", "--budget", "150", made).stdout
    assert "straggler" in short and len(short) <= 600


def an_archive_gives_the_same_answers():
    run("merge", made, "-o", job)
    a, b = ranks_of(made), ranks_of(job)
    for x, y in zip(a["ranks"], b["ranks"]):
        x.pop("file"), y.pop("file")
    assert a == b
    table = run("info", job).stdout
    assert len(re.findall(r"communication calls", table)) == RANKS - 1 and "reference" in table
    with open(job, "rb") as f:
        assert open(os.path.join(made, "rank3.json"), "rb").read() in f.read()


def one_rank_of_an_archive_is_on_the_jobs_clock():
    assert "it has 8 ranks; choose one (--rank 0)" in run("table", job, code=2).stderr
    assert "there is no rank 99" in run("table", "--rank", "99", job, code=2).stderr
    one = os.path.join(folder, "one.json")
    run("export", "--rank", "3", job, "-o", one)
    before, after = load(os.path.join(made, "rank3.json")), load(one)

    def steps(t):
        return [float(e["ts"]) * 1e3 + t["baseTimeNanoseconds"] for e in t["traceEvents"]
                if e.get("ph") == "X" and e["name"].startswith("ProfilerStep")]
    for x, y in zip(steps(before), steps(after)):
        assert abs(x - y - truth["offset_ns"][3] - truth["drift"][3] * (x - truth["base_ns"])) < 6000


def a_timeline_keeps_ranks_apart():
    out = os.path.join(folder, "all.json.gz")
    run("merge", job, "-o", out)
    all_ranks = load(out)
    spans = [e for e in all_ranks["traceEvents"] if e.get("ph") == "X"]
    assert len(spans) == truth["events"]
    names = {e["pid"]: e["args"]["name"] for e in all_ranks["traceEvents"] if e["name"] == "process_name"}
    assert len(names) == 2 * RANKS and len(set(names.values())) == 2 * RANKS, names
    rank = {pid: int(re.match(r"rank (\d+): ", name).group(1)) for pid, name in names.items()}
    owner = {}
    for e in spans:
        if "correlation" in e["args"]:
            assert owner.setdefault(e["args"]["correlation"], rank[e["pid"]]) == rank[e["pid"]]
    ends = {}
    for e in spans:  # all leave an all-reduce together
        if e["name"].startswith("nccl"):
            ends.setdefault(e["args"]["Seq"], []).append(e["ts"] + e["dur"])
    assert all(len(x) == RANKS and max(x) - min(x) < 15 for x in ends.values())
    assert all_ranks["distributedInfo"]["world_size"] == RANKS and len(all_ranks["mtprof.clocks"]) == RANKS
    run("check", out, code=1)  # notes: ranks follow one another, and the made ones have no flows
    assert ": 0 errors" in run("check", out, code=1).stdout


def each_bad_file_is_named_and_the_rest_is_compared():
    bad = copy(os.path.join(folder, "bad"))
    os.remove(f"{bad}/rank1.json")
    with open(f"{bad}/rank2.json", "r+") as f:
        f.truncate(os.path.getsize(f.name) // 2)
    shutil.copy(f"{bad}/rank3.json", f"{bad}/rank3_again.json")
    other = load(f"{bad}/rank4.json")
    other["distributedInfo"]["job"] = "another"
    save(f"{bad}/rank4.json", other)
    other = load(f"{bad}/rank6.json")
    other["distributedInfo"]["world_size"] = 16
    save(f"{bad}/rank6.json", other)
    found = ranks_of(bad)
    assert [r["rank"] for r in found["ranks"]] == [0, 3, 5, 7]
    problems = {os.path.basename(x["file"]): x["problem"] for x in found["left_out"]}
    assert "byte" in problems["rank2.json"] and "rank 3 is already in" in problems["rank3_again.json"], problems
    assert "another job (another" in problems["rank4.json"] and "of 16 ranks" in problems["rank6.json"], problems
    assert any("Of 8 ranks, 4 are missing: 1, 2, 4, 6" in n for n in found["notes"]), found["notes"]
    assert found["findings"][0]["rank"] == 5
    done = run("merge", bad, "-o", os.path.join(folder, "rest.mtp"))
    assert "Left out" in done.stderr and len(ranks_of(os.path.join(folder, "rest.mtp"))["ranks"]) == 4


def without_common_calls_the_time_of_day_counts():
    alone = copy(os.path.join(folder, "alone"))
    for r in range(RANKS):
        t = load(f"{alone}/rank{r}.json")
        for e in t["traceEvents"]:
            if "Seq" in e.get("args", {}):
                e["args"]["Process Group Name"] = str(r)
        save(f"{alone}/rank{r}.json", t)
    found = ranks_of(alone)
    assert all(r["clock"]["error_ns"] is None and r["clock"]["by"] == "time of day" for r in found["ranks"][1:])
    assert any(n.startswith("No communication call was found on two ranks") for n in found["notes"]), found["notes"]
    text = run("ranks", alone).stdout
    assert "clocks tied by the time of day, with an unknown error" in text, text[:300]


def contradictions_are_named():
    wrong = copy(os.path.join(folder, "wrong"))
    t = load(f"{wrong}/rank6.json")
    for e in t["traceEvents"]:
        if e["name"].startswith("nccl") and e["args"]["Seq"] == 77:
            e["ts"] -= 200000
    save(f"{wrong}/rank6.json", t)
    found = ranks_of(wrong)
    assert any("contradict" in n and "rank 6 left nccl" in n and " 77 " in n for n in found["notes"]), found["notes"]
    for r in found["ranks"]:
        assert off_by(truth, r["rank"], r["clock"]) <= r["clock"]["error_ns"] + 2


def a_timeline_beside_the_traces_is_no_rank():
    both = copy(os.path.join(folder, "both"))
    run("merge", both, "-o", f"{both}/all.json.gz")
    found = ranks_of(both)
    assert [r["rank"] for r in found["ranks"]] == list(range(RANKS)), found["left_out"]
    assert [x["file"] for x in found["left_out"]] == [f"{both}/all.json.gz"], found["left_out"]
    assert "timeline of several ranks" in run("ranks", f"{both}/all.json.gz", code=3).stderr


def inputs_are_not_overwritten():
    kept = copy(os.path.join(folder, "kept"))
    before = open(f"{kept}/rank3.json", "rb").read()
    os.symlink("rank4.json", f"{kept}/link.json")
    for out in (f"{kept}/rank3.json", f"{kept}/../kept/rank3.json", f"{kept}/link.json"):
        assert "is one of the files that are merged" in run("merge", kept, "-o", out, code=2).stderr
    assert open(f"{kept}/rank3.json", "rb").read() == before
    again = os.path.join(folder, "again.mtp")
    run("merge", job, "-o", again)
    assert open(again, "rb").read() == open(job, "rb").read()


def of_a_truncated_archive_the_whole_ranks_are_compared():
    path = os.path.join(folder, "cut.mtp")
    whole = open(job, "rb").read()
    with open(path, "wb") as f:
        f.write(whole[:len(whole) // 2])
    found, kept = ranks_of(path), RANKS // 2 - 1
    assert [r["rank"] for r in found["ranks"]][:kept] == list(range(kept)), found["left_out"]
    assert found["left_out"] and all("truncated: the part rank" in x["problem"] for x in found["left_out"]), found["left_out"]
    assert len(found["ranks"]) + len(found["left_out"]) == RANKS
    shown = run("info", path).stdout
    assert shown.count("it is not complete: the file is truncated") == len(found["left_out"]), shown
    run("table", "--rank", 0, path)
    assert "the file is truncated: the part rank7.json is not complete" in run("table", "--rank", 7, path, code=3).stderr
    again = run("merge", path, "-o", os.path.join(folder, "whole.mtp"))
    assert again.stderr.count("the file is truncated") == len(found["left_out"]), again.stderr
    run("info", os.path.join(folder, "whole.mtp"))


def a_folder_of_an_archive_alone_is_the_archive():
    alone = os.path.join(folder, "only")
    os.mkdir(alone)
    shutil.copy(job, alone)
    assert len(ranks_of(alone)["ranks"]) == RANKS
    shutil.copy(job, f"{alone}/second.mtp")
    assert "it has 2 files that 'mtprof merge' wrote: name one of them" in run("ranks", alone, code=3).stderr


def texts_are_unescaped_and_harmless():
    odd = copy(os.path.join(folder, "odd"))
    for r in range(RANKS):
        t = load(f"{odd}/rank{r}.json")
        t["hostname"] = "h\u00f6st\x1b[31m"
        save(f"{odd}/rank{r}.json", t)
    shutil.copy(f"{odd}/rank0.json", f"{odd}/rank0_\x1b[31m.json")
    os.remove(f"{odd}/rank1.json")
    assert {r["host"] for r in ranks_of(odd)["ranks"]} == {"h\u00f6st\x1b[31m"}
    done = run("merge", odd, "-o", os.path.join(folder, "odd.mtp"))
    shown = run("ranks", odd).stdout + run("info", os.path.join(folder, "odd.mtp")).stdout + done.stderr
    assert "\x1b" not in shown and "h\u00f6st?[31m" in shown, shown


def one_rank_is_not_compared():
    found = ranks_of(os.path.join(made, "rank5.json"))
    assert len(found["ranks"]) == 1 and not found["findings"]
    assert any("only one rank" in n for n in found["notes"])


def what_cannot_be_read_is_an_error():
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    assert "has no traces" in run("ranks", empty, code=3).stderr
    assert "No such file" in run("ranks", os.path.join(folder, "nothing"), code=3).stderr
    assert "expected a folder or files" in run("ranks", code=2).stderr
    assert "the suffix must be" in run("merge", made, "-o", os.path.join(folder, "x.txt"), code=2).stderr
    whole = open(job, "rb").read()
    for part, what in ((whole[:9000], "truncated"), (whole[:20], ""), (whole[:100] + b"!" + whole[101:], "damaged")):
        path = os.path.join(folder, "damaged.mtp")
        with open(path, "wb") as f:
            f.write(part)
        assert what in run("ranks", path, code=3).stderr
        assert what in run("table", "--rank", "0", path, code=3).stderr


def real_gloo_ranks_with_shifted_clocks_are_aligned():
    real = os.path.join(folder, "gloo")
    shifts = [0, 47_000_000, -31_000_000, 12_345_678]
    drifts = [0, 2e-5, -1.5e-5, 7e-6]
    os.mkdir(real)
    first = None
    for r in range(4):
        t = load(os.path.join(REAL, f"gloo{r}.json.gz"))
        first = first or min(e["ts"] for e in t["traceEvents"] if e.get("ph") == "X")
        for e in t["traceEvents"]:
            if "ts" in e:
                e["ts"] = round(e["ts"] + shifts[r] / 1e3 + drifts[r] * (e["ts"] - first), 3)
        save(f"{real}/rank{r}.json", t)
    found = ranks_of(real)
    assert [r["rank"] for r in found["ranks"]] == [0, 1, 2, 3]
    for r in found["ranks"]:
        # It is one machine: without the shift, the clocks are the same.
        error = r["clock"]["error_ns"]
        assert error is not None and abs(r["clock"]["offset_ns"] + shifts[r["rank"]]) <= error + 20000, r["clock"]
    straggler = found["findings"][0]
    assert (straggler["id"], straggler["rank"], straggler["since_step"]) == ("straggler", 2, 4), straggler
    assert straggler["op"] in ("aten::normal_", "aten::mm"), straggler


def real_nccl_ranks_show_the_straggler():
    found = ranks_of(*(os.path.join(REAL, f"nccl{r}.json.gz") for r in range(4)))
    assert [r["rank"] for r in found["ranks"]] == [0, 1, 2, 3]
    straggler = found["findings"][0]
    assert (straggler["id"], straggler["rank"], straggler["since_step"]) == ("straggler", 2, 4), straggler
    since = [step["wall_us"] for r in found["ranks"] for step in r["steps"] if step["step"] >= 4]
    assert abs(straggler["share"] - straggler["per_step_us"] / (sum(since) / len(since))) < 1e-6, straggler  # not of the steps before
    assert "gemm" in straggler["op"] or "softmax" in straggler["op"].lower(), straggler
    for r in found["ranks"]:
        assert abs(r["clock"]["offset_ns"]) <= r["clock"]["error_ns"] and 0.1 < r["overlap"] < 0.2, r


def without_kernels_nccls_calls_say_nothing_about_waiting_and_clocks():
    """What its profiler plug-in records: calls of the host, which enqueue and return at once."""
    host = os.path.join(folder, "host_only")
    os.mkdir(host)
    for r in range(4):
        t = load(os.path.join(REAL, f"nccl{r}.json.gz"))
        t["traceEvents"] = [e for e in t["traceEvents"] if e.get("cat") in ("cpu_op", "user_annotation")]
        for e in t["traceEvents"]:
            if e["name"] == "record_param_comms":
                args = {k: e["args"][k] for k in ("Collective name", "Process Group Name", "Group size", "In msg nelems")}
                e.update(name="ncclAllReduce", args=args)
        save(f"{host}/rank{r}.json", t)
    found, text = ranks_of(host), run("ranks", host).stdout
    assert all(r["only_started"] and r["per_step"]["waiting_us"] == 0 for r in found["ranks"]), found["ranks"][0]
    assert found["findings"] == [] and "contradict" not in text, text
    assert "Who waits for whom cannot be said" in text and "Nothing stands out" not in text and "enqueue" in text, text


def nccls_calls_are_not_matched_with_kernels():
    """Of some ranks the kernels, of others only what their hosts enqueued: nothing is said of who waited for the latter."""
    mixed, some = os.path.join(folder, "mixed"), os.path.join(folder, "some")
    os.mkdir(mixed)
    os.mkdir(some)
    for r in range(4):
        t = load(os.path.join(REAL, f"nccl{r}.json.gz"))
        if r % 2 == 0:
            save(f"{some}/rank{r}.json", t)
        else:
            t["traceEvents"] = [e for e in t["traceEvents"] if e.get("cat") in ("cpu_op", "user_annotation")]
        save(f"{mixed}/rank{r}.json", t)
    found, kernels, text = ranks_of(mixed), ranks_of(some), run("ranks", mixed).stdout
    of = {r["rank"]: r for r in found["ranks"]}
    assert all(of[r]["only_started"] and of[r]["per_step"]["waiting_us"] == of[r]["per_step"]["late_us"] == 0 for r in (1, 3)), of[1]
    for r in kernels["ranks"]:
        one = of[r["rank"]]
        assert one["matched"] == r["matched"] > 0 and one["per_step"]["waiting_us"] == r["per_step"]["waiting_us"], (one, r)
    assert [(f["id"], f["rank"], f["op"], f["per_step_us"]) for f in found["findings"]] == \
        [(f["id"], f["rank"], f["op"], f["per_step_us"]) for f in kernels["findings"]], (found["findings"], kernels["findings"])
    assert "2 of 4 ranks have device work" in text and "2 traces have only the host's calls" in text and "on one rank only" not in text, text


def perfettos_archive_has_a_manifest_and_a_timeline_for_each_rank():
    tar, whole = os.path.join(folder, "job.tar"), os.path.join(folder, "whole.json")
    run("merge", made, "-o", tar)
    run("merge", made, "-o", whole)
    unpacked = os.path.join(folder, "unpacked")
    with tarfile.open(tar) as t:
        names = t.getnames()
        t.extractall(unpacked)
    assert names == ["perfetto_manifest.json"] + [f"rank{r}.json" for r in range(RANKS)], names
    manifest = load(os.path.join(unpacked, names[0]))["perfetto_manifest"]
    assert manifest["version"] == 1 and [f["path"] for f in manifest["files"]] == names[1:], manifest
    assert len({f["machine"]["name"] for f in manifest["files"]}) == RANKS
    # Perfetto rejects a manifest whose "clocks" name no file to be in step with.
    assert "clocks" not in manifest["files"][0], manifest["files"][0]
    assert all(f["clocks"] == {"sync_to": {"file": names[1]}, "offset_ns": 0} for f in manifest["files"][1:]), manifest["files"][1]

    def spans(trace):
        return sorted((e["ts"], e["dur"], e["name"]) for e in trace["traceEvents"] if e["ph"] == "X")

    together = load(whole)
    parts = [load(os.path.join(unpacked, name)) for name in names[1:]]
    assert sorted(s for p in parts for s in spans(p)) == spans(together)
    for r, part in enumerate(parts):
        assert part["distributedInfo"]["rank"] == r and part["distributedInfo"]["ranks"] == [r] and len(part["mtprof.clocks"]) == 1
        assert part["baseTimeNanoseconds"] == together["baseTimeNanoseconds"]
        run("check", os.path.join(unpacked, f"rank{r}.json"))
    assert os.path.getsize(tar) % 512 == 0 and open(tar, "rb").read()[-1024:] == bytes(1024)


def findings_of_one_rank_tell_of_communication_once():
    found = json.loads(run("explain", "--json", os.path.join(REAL, "nccl0.json.gz")).stdout)["findings"]
    assert found[0]["id"] == "exposed-communication" and "mtprof ranks" in json.dumps(found[0]), found[0]
    assert not any("ncclDevKernel" in f["title"] for f in found), [f["title"] for f in found]


TESTS = [planted_clocks_and_the_straggler_are_found, times_of_a_step_add_up, the_text_begins_with_the_verdict,
         an_archive_gives_the_same_answers, one_rank_of_an_archive_is_on_the_jobs_clock, a_timeline_keeps_ranks_apart,
         each_bad_file_is_named_and_the_rest_is_compared, without_common_calls_the_time_of_day_counts, contradictions_are_named,
         a_timeline_beside_the_traces_is_no_rank, inputs_are_not_overwritten,
         of_a_truncated_archive_the_whole_ranks_are_compared, a_folder_of_an_archive_alone_is_the_archive, texts_are_unescaped_and_harmless,
         one_rank_is_not_compared, what_cannot_be_read_is_an_error, real_gloo_ranks_with_shifted_clocks_are_aligned,
         real_nccl_ranks_show_the_straggler, without_kernels_nccls_calls_say_nothing_about_waiting_and_clocks,
         nccls_calls_are_not_matched_with_kernels,
         findings_of_one_rank_tell_of_communication_once, perfettos_archive_has_a_manifest_and_a_timeline_for_each_rank]

with tempfile.TemporaryDirectory() as folder:
    made, job = os.path.join(folder, "made"), os.path.join(folder, "job.mtp")
    truth = make(made)
    failed = 0
    print(f"1..{len(TESTS)}")
    for i, test in enumerate(TESTS, 1):
        try:
            test()
            print(f"ok {i} - {test.__name__}")
        except Exception as e:  # whatever it is, the others still run
            failed += 1
            print(f"not ok {i} - {test.__name__}\n# " + repr(e)[:1500].replace("\n", "\n# "))
sys.exit(failed > 0)
