#!/usr/bin/env python3
"""Reports of several ranks hold what `mtprof ranks --json` says: of real jobs (NCCL, Gloo), of made ones, of archives; which traces they
show; and what is said where there is nothing to compare.

usage: report_ranks.py MTPROF MAKE_RANKS FOLDER_OF_REAL_RANKS
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "browser"))
from report_file import Report, unzigzag  # noqa: E402

MTPROF, MAKE, REAL = os.path.abspath(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
TIMES = ("wall", "compute", "exposed", "waiting", "transfer", "copies", "idle", "late")
count = failed = 0


def check(name, right, why=""):
    global count, failed
    count += 1
    failed += not right
    print(f"{'ok' if right else 'not ok'} {count} - {name}", flush=True)
    if not right:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


def mtprof(*args, cwd=None):
    return subprocess.run([MTPROF, *map(str, args)], cwd=cwd, capture_output=True, text=True)


def steps_of(report):
    """Per rank its steps, as the JSON has them, without when they began."""
    columns, head = report.columns("ranks-0", after_json=True)
    columns = dict(columns)
    c = {name: [unzigzag(value) for value in values] for name, values in columns.items() if name not in ("count", "unit")}
    ranks, at = [], 0
    for many in columns["count"]:
        steps, number = [], 0
        for i in range(at, at + many):
            number += c["number"][i] + 1
            exposed, waiting = c["exposed"][i], c["waiting"][i]
            t = {"wall": c["wall"][i], "compute": c["compute"][i], "exposed": exposed, "waiting": waiting, "transfer": exposed - waiting + c["transfer"][i], "copies": c["copies"][i],
                 "idle": c["wall"][i] - c["compute"][i] - exposed - c["copies"][i] + c["idle"][i], "late": c["late"][i], "communication": exposed + c["hidden"][i]}
            steps.append({"step": number, **{f"{name}_us": ns / 1e3 for name, ns in t.items()}})
        at += many
        ranks.append(steps)
    return head, columns["unit"], ranks


def same(name, report, paths, cwd=None):
    expected = json.loads(mtprof("ranks", "--json", *paths, cwd=cwd).stdout)
    head, unit, steps = steps_of(report)
    for rank in expected["ranks"]:
        for step in rank["steps"]:
            del step["start_ns"]
    check(f"{name}: each step is that of `mtprof ranks --json`", unit == [1] and steps == [rank["steps"] for rank in expected["ranks"]], (unit, steps[0][:2], expected["ranks"][0]["steps"][:2]))
    for rank in expected["ranks"]:
        del rank["steps"]
    check(f"{name}: and so is the rest", head == expected, (head, expected))
    check(f"{name}: the page is told of ranks", report.json("head-0").get("ranks") is True)
    return expected


def shown(report):
    return [report.json(f"head-{i}")["name"] for i in range(2) if f"head-{i}" in report.blobs]


def real(folder):
    paths = sorted(REAL.glob("nccl*.json.gz"))
    done = mtprof("report", "--ranks", *paths, "-o", folder / "nccl.html")
    report = Report(folder / "nccl.html")
    expected = same("four NCCL ranks", report, paths)
    late = sorted((rank["per_step"]["late_us"], rank["rank"]) for rank in expected["ranks"] if rank["rank"] != 2)
    check("the straggler is shown, beside the rank with the median lateness", shown(report) == [f"rank {late[1][1]} (nccl{late[1][1]}.json.gz)", "rank 2 (nccl2.json.gz)"] and "diff-0" in report.blobs, shown(report))
    check("which the command says", "4 ranks are compared" in done.stdout and "rank 2, the straggler" in done.stdout, done)
    whole = json.loads(mtprof("stats", "--json", paths[2]).stdout)
    check("its trace is the straggler's", report.json("operators-1")["name"] == whole)
    gloo = sorted(REAL.glob("gloo*.json.gz"))
    mtprof("report", "--ranks", *gloo, "-o", folder / "gloo.html")
    same("four Gloo ranks", Report(folder / "gloo.html"), gloo)


def job(folder):
    made, archive = folder / "made", folder / "job.mtp"
    subprocess.run([sys.executable, MAKE, made, "--ranks", "6", "--events", "12000", "--straggler", "4", "--suffix", ".json", "--jobs", "1", "--steps", "12", "--since", "5"], check=True, stdout=subprocess.DEVNULL)
    mtprof("report", "--ranks", "made/", cwd=folder)
    report = Report(folder / "made.html")
    same("a folder", report, ["made/"], cwd=folder)
    check("a folder: the traces say which rank they are of", shown(report)[1] == "rank 4 (rank4.json)", shown(report))
    mtprof("merge", made, "-o", archive)
    mtprof("report", "job.mtp", cwd=folder)
    report = Report(folder / "job.html")
    same("an archive", report, ["job.mtp"], cwd=folder)
    check("an archive: its ranks are shown by --rank", [name.split(" ", 2)[2] for name in shown(report)] == ["(job.mtp)"] * 2 and shown(report)[1].startswith("rank 4"), shown(report))
    one = json.loads(mtprof("stats", "--json", "--rank", "4", archive).stdout)
    check("an archive: the straggler's operators", report.json("operators-1")["name"] == one)
    mtprof("report", "--rank", "3", "job.mtp", "-o", "three.html", cwd=folder)
    report = Report(folder / "three.html")
    same("--rank", report, ["job.mtp"], cwd=folder)
    check("--rank: that one is shown", shown(report) == ["rank 3 (job.mtp)"] and "diff-0" not in report.blobs, shown(report))
    done = mtprof("report", "--rank", "9", "job.mtp", "-o", "nine.html", cwd=folder)
    check("--rank: one that is not there is an error", done.returncode == 2 and "--rank 9" in done.stderr and not (folder / "nine.html").exists(), done)
    left_out(folder, made)


def left_out(folder, made):
    """What cannot be compared is said, on the page and where there is none."""
    shutil.copytree(made, folder / "odd")
    (folder / "odd/rank4.json").unlink()
    (folder / "odd/broken.json").write_text("{")
    mtprof("report", "--ranks", "odd", cwd=folder)
    report = Report(folder / "odd.html")
    expected = same("a job with a missing rank", report, ["odd"], cwd=folder)
    check("a missing rank and a file that cannot be read are on the page", len(expected["left_out"]) == 1 and "1 is missing: 4" in " ".join(expected["notes"]), expected["notes"])
    check("without a straggler the first rank is shown", shown(report) == ["rank 0 (rank0.json)"], shown(report))
    done = mtprof("report", "--ranks", made / "rank1.json", folder / "odd/broken.json", "-o", folder / "none.html")
    check("fewer than two: the words of `mtprof ranks`", done.returncode == 3 and "There is only one rank" in done.stderr and "broken.json" in done.stderr and not (folder / "none.html").exists(), done)
    done = mtprof("report", made / "rank1.json", made / "rank2.json", made / "rank3.json")
    check("three traces: --ranks is named", done.returncode == 2 and "--ranks" in done.stderr, done)
    done = mtprof("report", "--ranks", ".", cwd=made)
    check("a folder without a name gets one", done.returncode == 0 and os.path.exists(made / "ranks.html"), done)
    done = mtprof("report", made / "rank1.json", "-o", folder / "one.html")
    check("a trace of one rank is a report as ever", "ranks-0" not in Report(folder / "one.html").blobs and "ranks" not in Report(folder / "one.html").json("head-0"), done)


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    real(here)
    job(here)
print(f"1..{count}")
sys.exit(failed > 0)
