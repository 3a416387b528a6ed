#!/usr/bin/env python3
"""`mtprof run` as a launcher starts it: each rank has its own files and knows which it is. Speaks TAP."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import check, finish, said

MTPROF, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
# variables, and what they mean
LAUNCHERS = {
    "torchrun": ({"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "run 7"},
                 {"backend": "", "rank": 2, "world_size": 4, "local_rank": 1, "job": "run 7"}),
    "open_mpi": ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "PMIX_NAMESPACE": "12"},
                 {"backend": "", "rank": 2, "world_size": 4, "local_rank": 0, "job": "12"}),
    "hydra": ({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "2"}, {"backend": "", "rank": 2, "world_size": 4, "local_rank": 2}),
    "slurm": ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "99"},
              {"backend": "", "rank": 2, "world_size": 4, "local_rank": 0, "job": "99"}),
    "torchrun_inside_slurm": ({"RANK": "2", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "TORCHELASTIC_RUN_ID": "none",
                               "SLURM_JOB_ID": "99"}, {"backend": "", "rank": 2, "world_size": 4, "job": "99"}),
}
NO_RANKS = {
    "one_of_one": {"RANK": "0", "WORLD_SIZE": "1"},
    "a_word": {"RANK": "high", "WORLD_SIZE": "4"},
    "no_size": {"RANK": "3"},
    "beyond_the_size": {"RANK": "4", "WORLD_SIZE": "4"},
    "negative": {"RANK": "-1", "WORLD_SIZE": "4"},
    "huge": {"RANK": "99999999999999999999", "WORLD_SIZE": "4"},
}
OURS = ("MTPROF_", "OMPI_", "PMI", "SLURM_", "MPI_LOCAL", "MV2_", "TORCHELASTIC", "PBS_")


def run(folder, out, variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return subprocess.run([MTPROF, "run", "-o", out, "--", PROGRAM, "scopes"], cwd=folder, env={**kept, **variables}, capture_output=True,
                          text=True, errors="replace", timeout=120)


def head(spool, folder):
    out = folder / "shown.json"
    out.unlink(missing_ok=True)
    subprocess.run([MTPROF, "export", str(spool), "-o", str(out)], check=False)
    return json.loads(out.read_text()) if out.exists() else {}


def files(folder):
    return sorted(p.name for p in folder.iterdir() if p.name != "shown.json")


def try_launcher(name, variables, expected):
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        done = run(folder, "job.mtp", variables)
        check(f"{name}_each_rank_has_its_own_file", done.returncode == 0 and files(folder) == ["job.r2.mtp"], f"{files(folder)} {said(done)}")
        check(f"{name}_only_rank_0_prints", done.stderr == "", done.stderr)
        told = head(folder / "job.r2.mtp", folder)
        check(f"{name}_says_which_rank_it_is", told.get("distributedInfo") == expected and told.get("hostname"), told.get("distributedInfo"))


def try_names():
    ranks = LAUNCHERS["torchrun"][0]
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for out, expected in (("a%r.mtp", "a2.mtp"), ("x.y.mtp", "x.y.r2.mtp"), ("t.json.gz", "t.r2.json.gz"), (".r2.mtp", ".r2.r2.mtp")):
            done = run(folder, out, ranks)
            check(f"the_name_{out.replace('%', '')}_gets_a_rank", done.returncode == 0 and expected in files(folder), f"{files(folder)} {said(done)}")
        done = run(folder, "first.mtp", {**ranks, "RANK": "0"})
        check("rank_0_prints_and_has_the_report", "written  first.r0.mtp" in done.stderr and "the other 3 ranks" in done.stderr and
              "first.r0.html" in files(folder), said(done))
        done = run(folder, "a%r.mtp", {})
        check("without_ranks_it_is_rank_0", done.returncode == 0 and "a0.mtp" in files(folder), said(done))


def shown(*arguments, cwd):
    return subprocess.run([MTPROF, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)


def ranks_in(*arguments, cwd):
    done = shown("ranks", "--json", *arguments, cwd=cwd)
    return [(r["rank"], r["spans"]) for r in json.loads(done.stdout)["ranks"]] if done.returncode == 0 else said(done)


def spans_of(rank, path, cwd):
    done = shown("info", "--rank", str(rank), path, cwd=cwd)
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  spans")][:1] or said(done)


def try_all_ranks_in_one_run():
    """A launcher, as torchrun is one, whose ranks have processes of their own."""
    launch = f"for r in 10 0 2; do RANK=$r WORLD_SIZE=11 '{PROGRAM}' start spawn & done; '{PROGRAM}' scopes 3; wait"
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        done = subprocess.run([MTPROF, "run", "-o", "job.mtp", "--", "sh", "-c", launch], cwd=folder, env=kept, capture_output=True, text=True,
                              timeout=120)
        check("mtprof_run_points_to_mtprof_ranks", done.returncode == 0 and "mtprof ranks job.mtp" in done.stderr.replace("'", ""), said(done))
        check("its_report_compares_the_ranks", 'id="ranks-0"' in (folder / "job.html").read_text(), said(done))
        found = ranks_in("job.mtp", cwd=folder)
        check("ranks_of_one_run_are_told_apart", [r for r, _ in found] == [0, 2, 10] and len({n for _, n in found}) == 1, found)
        check("so_are_those_of_its_folder_of_processes", ranks_in("job.mtp.workers/", cwd=folder) == found, ranks_in("job.mtp.workers/", cwd=folder))
        done = shown("info", "job.mtp", cwd=folder)
        check("info_lists_them", "ranks             0, 2, 10 (" in done.stdout, said(done))
        done = shown("report", "job.mtp", cwd=folder)
        page = (folder / "job.html").read_text() if done.returncode == 0 else ""
        check("its_report_compares_them", "3 ranks are compared; the other pages are of rank 0" in done.stdout and 'id="ranks-0"' in page, said(done))
        done = shown("report", "--process", "main", "job.mtp", "-o", "main.html", cwd=folder)
        check("but_not_that_of_one_process", done.returncode == 0 and 'id="ranks-0"' not in (folder / "main.html").read_text(), said(done))
        done = shown("info", "--rank", "2", "job.mtp", cwd=folder)
        check("a_rank_has_all_of_its_processes", "recordings        2" in done.stdout and spans_of(2, "job.mtp", folder) == [str(found[1][1])],
              said(done))
        done = shown("table", "--rank", "3", "job.mtp", cwd=folder)
        check("another_rank_is_an_error_that_names_them", done.returncode == 2 and "no rank 3" in done.stderr and "0, 2, 10" in done.stderr, said(done))
        check("as_a_whole_it_is_of_no_rank", head(folder / "job.mtp", folder).get("distributedInfo") == {"backend": "", "rank": 0, "world_size": 1})
        done = shown("merge", "job.mtp", "-o", "all.mtp", cwd=folder)
        check("merging_keeps_each_ranks_processes", done.returncode == 0 and ranks_in("all.mtp", cwd=folder) == found and
              spans_of(10, "all.mtp", folder) == [str(found[2][1])], f"{said(done)} {ranks_in('all.mtp', cwd=folder)}")
        one = shown("export", "--rank", "10", "job.mtp", "-o", "ten.json", cwd=folder)
        done = shown("info", "--rank", "0", "ten.json", cwd=folder)
        check("a_trace_of_one_rank_is_not_another", one.returncode == 0 and done.returncode == 2 and "of rank 10, not of 0" in done.stderr,
              said(one) + said(done))
        for path in ("job.mtp", "all.mtp"):
            done = shown("digest", "--json", "--by", "rank", path, cwd=folder)
            check(f"a_digest_of_{path}_has_each_rank", done.returncode == 0 and
                  sorted(int(e["rank"]) for e in json.loads(done.stdout)["entries"]) == [0, 2, 10], said(done)[:2000])
            done = shown("export", "--parquet", f"lake_{path}", "--job", "j", path, cwd=folder)
            made = sorted(p.name for p in (folder / f"lake_{path}" / "spans" / "job=j").glob("*"))
            check(f"tables_of_{path}_have_each_rank", done.returncode == 0 and made == ["rank=0", "rank=10", "rank=2"], f"{made} {said(done)}")
        for verb in ("ranks", "merge", "check", "recover", "top", "ps"):  # they read all of it
            done = shown(verb, "--rank", "2", "job.mtp", *(["-o", "one.mtp"] if verb in ("merge", "recover") else []), cwd=folder)
            check(f"{verb}_does_not_ignore_a_rank", done.returncode == 2 and "--rank" in done.stderr and not (folder / "one.mtp").exists(), said(done))
        orphans = folder / "orphans"
        shutil.copytree(folder / "job.mtp.workers", orphans / "killed.mtp.workers")
        shutil.copy(folder / "job.mtp", orphans / "killed.mtp.workers" / "1-1.mtp")
        check("those_of_a_killed_run_are_found_in_a_folder", ranks_in("orphans", cwd=folder) == found, ranks_in("orphans", cwd=folder))
        one = shown("digest", "--json", "--by", "rank", "--rank", "2", "job.mtp", cwd=folder)
        check("or_the_one_that_is_asked_for", [int(e["rank"]) for e in json.loads(one.stdout)["entries"]] == [2], said(one)[:2000])
        done = subprocess.run([MTPROF, "run", "-o", "plain.mtp", "--", PROGRAM, "start", "spawn"], cwd=folder, env=kept, capture_output=True, text=True,
                              timeout=120)
        check("processes_without_ranks_are_one_program", "mtprof ranks" not in done.stderr and len(ranks_in("plain.mtp", cwd=folder)) == 1, said(done))


def try_ranks_that_are_started_again():
    """torchrun --max-restarts: all ranks anew, in other processes."""
    launch = f"for n in 3 7 5; do for r in 0 1; do RANK=$r WORLD_SIZE=2 '{PROGRAM}' calls $n & done; wait; done"
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS) and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        done = subprocess.run([MTPROF, "run", "--no-report", "-o", "job.mtp", "--", "sh", "-c", launch], cwd=folder, env=kept, capture_output=True,
                              text=True, timeout=120)
        check("a_job_that_is_started_again_is_recorded", done.returncode == 0 and "6 processes" in done.stderr, said(done))
        whole = shown("merge", "job.mtp", "-o", "all.mtp", cwd=folder)
        for path in ("job.mtp", "all.mtp"):
            done = shown("ranks", "--json", path, cwd=folder)
            found = json.loads(done.stdout) if done.returncode == 0 else {"ranks": [], "notes": []}
            check(f"one_run_of_{path}_is_compared", [(r["rank"], r["calls"]) for r in found["ranks"]] == [(0, 7), (1, 7)], said(whole) + said(done)[:2000])
            check(f"and_the_others_in_{path}_are_told_of", any("2 ranks were started again (up to 3 runs" in n for n in found["notes"]), found["notes"])


def main():
    for name, (variables, expected) in LAUNCHERS.items():
        try_launcher(name, variables, expected)
    for name, variables in NO_RANKS.items():
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            done = run(folder, "job.mtp", variables)
            info = head(folder / "job.mtp", folder).get("distributedInfo")
            check(f"{name}_is_no_rank", done.returncode == 0 and "job.mtp" in files(folder) and info == {"backend": "", "rank": 0, "world_size": 1},
                  f"{info} {said(done)}")
    try_names()
    try_all_ranks_in_one_run()
    try_ranks_that_are_started_again()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
