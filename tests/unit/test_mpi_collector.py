#!/usr/bin/env python3
"""MPI programs of several ranks under `mtprof run`: their traces say what they did, and they did it all the same. Speaks TAP."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import check, finish, is_foreign_safe, skip

COLLECTOR, MTPROF, SOURCE = (os.path.abspath(path) for path in sys.argv[1:4])
RANKS = 4
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1"}
# mpicc, mpirun, and what it takes
MPIS = {"openmpi": ["--oversubscribe"], "mpich": []}


def run(command, cwd):
    kept = {k: v for k, v in ENVIRONMENT.items() if not k.startswith("MTPROF_")}
    return subprocess.run(command, cwd=cwd, env=kept, capture_output=True, text=True, errors="replace", timeout=240)


class Ranks:
    """One run of a mode: traces and what the program knows, by rank."""

    def __init__(self, mpi, program, folder, mode, options=()):
        self.name, self.folder = f"{mpi}_{mode}", pathlib.Path(tempfile.mkdtemp(dir=folder))
        launcher = [shutil.which(f"mpirun.{mpi}"), *MPIS[mpi], "-n", str(RANKS)]
        self.done = run([*launcher, MTPROF, "run", "-o", "job.mtp", *options, "--", program, mode, str(self.folder / "known")], self.folder)
        self.known = [json.loads(p.read_text()) for p in (self.folder / f"known.{i}" for i in range(RANKS)) if p.exists()]
        self.traces = [self.read(i) for i in range(RANKS)]

    def read(self, rank):
        spool, out = self.folder / f"job.r{rank}.mtp", self.folder / f"job.r{rank}.json"
        told = run([MTPROF, "export", str(spool), "-o", str(out)], self.folder)
        checked = run([MTPROF, "check", str(out)], self.folder)
        check(f"the_trace_of_rank_{rank}_of_{self.name}_is_well_formed", told.returncode == 0 and checked.returncode == 0,
              told.stderr + checked.stdout + checked.stderr + self.done.stderr)
        return json.loads(out.read_text()) if out.exists() else {"traceEvents": []}

    def check(self, name, good, more=""):
        check(f"{self.name}_{name}", good, f"{more}\n{self.done.returncode} {self.done.stdout[-500:]} {self.done.stderr[-1500:]}")

    def spans(self, rank, name=None):
        return [e for e in self.traces[rank]["traceEvents"] if e.get("ph") == "X" and e.get("cat") == "cpu_op"
                and (name is None or e["name"] == name)]

    def ended_well(self):
        self.check("ends_as_without_us", self.done.returncode == 0 and len(self.known) == RANKS and not any(k["failed"] for k in self.known),
                   self.known)


def sent_bytes(trace):
    bytes_to = collections.Counter()
    for e in trace:
        if e["args"].get("Collective name") in ("send", "sendrecv") and "Dst Rank" in e["args"]:
            bytes_to[e["args"]["Dst Rank"]] += e["args"]["In msg bytes"]
    return bytes_to


def received_bytes(trace):
    """Of receives whose source and size were known, and of the messages that came to others."""
    bytes_from = collections.Counter()
    inner = [(e["ts"], e["ts"] + e["dur"], e["tid"]) for e in trace if e["name"] == "message"]
    for e in trace:
        args = e["args"]
        if e["name"] == "message":
            bytes_from[args["Src Rank"]] += args["Out msg bytes"]
        elif args.get("Collective name") in ("recv", "sendrecv") and args.get("Src Rank", -1) >= 0 and \
                not any(e["tid"] == tid and e["ts"] <= begin and end <= e["ts"] + e["dur"] for begin, end, tid in inner) and \
                not ("Request" in args and "Tag" not in args):  # its wait has the message
            bytes_from[args["Src Rank"]] += args["Out msg bytes"]
    return bytes_from


def check_bytes(ranks):
    """To themselves they are not counted."""
    for i in range(RANKS):
        sent, received = sent_bytes(ranks.spans(i)), received_bytes(ranks.spans(i))
        known = ranks.known[i] if i < len(ranks.known) else {"sent": [], "received": []}
        ranks.check(f"rank_{i}_sent_what_it_knows", [sent[p] for p in range(RANKS) if p != i] == [b for p, b in enumerate(known["sent"]) if p != i],
                    (sent, known))
        ranks.check(f"rank_{i}_received_what_it_knows",
                    [received[p] for p in range(RANKS) if p != i] == [b for p, b in enumerate(known["received"]) if p != i], (received, known))


def collectives(trace):
    """Those in which ranks meet, in order, by group: (name, sequence)."""
    met = collections.defaultdict(list)
    for e in trace:
        if "Seq" in e["args"] and e["args"]["Collective name"] not in ("wait", "test"):
            met[e["args"]["Process Group Name"], e["args"]["Process Group Ranks"]].append((e["args"]["Collective name"], e["args"]["Seq"]))
    return met


def check_sequences(ranks):
    """Each group has the same collectives on all of its ranks, and a name of its own."""
    by_group = collections.defaultdict(dict)
    for i in range(RANKS):
        for (name, members), calls in collectives(ranks.spans(i)).items():
            by_group[name, members][i] = calls
    names = [name for name, _ in by_group]
    ranks.check("names_of_groups_are_unique", len(names) == len(set(names)), names)
    for (name, members), calls in by_group.items():
        expected = json.loads(members)
        same = len({json.dumps(c) for c in calls.values()}) == 1 and sorted(calls) == sorted(expected)
        ranks.check(f"group_{name}_agrees", same, (members, calls))
    return by_group


def check_ranks(ranks):
    infos = [t.get("distributedInfo", {}) for t in ranks.traces]
    ranks.check("ranks_are_known", [(i.get("backend"), i.get("rank"), i.get("world_size")) for i in infos] == [("mpi", r, RANKS) for r in range(RANKS)],
                infos)
    ranks.check("the_job_and_the_machine_are_known", len({(t.get("hostname"), t.get("distributedInfo", {}).get("job")) for t in ranks.traces}) == 1
                and ranks.traces[0].get("hostname"), infos)
    ranks.check("only_rank_0_prints", ranks.done.stderr.count("written  ") == 1 and "job.r0.mtp" in ranks.done.stderr)


def check_clocks(ranks):
    """One machine, one clock: each offset is zero, give or take the error that is stated."""
    for i in range(1, RANKS):
        ties = ranks.traces[i].get("mtprof.clock_ties", [])
        ranks.check(f"rank_{i}_has_ties_of_init_and_finalize", [t["peer_rank"] for t in ties] == [0, 0] and ties[0]["at_ns"] < ties[1]["at_ns"], ties)
        ranks.check(f"the_clocks_of_rank_{i}_agree_within_the_error", all(abs(t["offset_ns"]) <= t["error_ns"] for t in ties), ties)
        base = int(ranks.traces[i].get("mtprof.clock_base_ns", 0))
        events = [ranks.traces[i]["baseTimeNanoseconds"] + int(e["ts"] * 1000) for e in ranks.spans(i)]
        ranks.check(f"ties_of_rank_{i}_are_in_the_times_of_its_trace", all(min(events) <= t["at_ns"] + base <= max(events) + 10**9 for t in ties), ties)


def try_halo(mpi, program, folder):
    ranks = Ranks(mpi, program, folder, "halo")
    ranks.ended_well()
    check_ranks(ranks)
    check_bytes(ranks)
    check_sequences(ranks)
    check_clocks(ranks)
    for i in range(RANKS):
        asked = {e["args"]["Request"] for e in ranks.spans(i) if "Request" in e["args"] and e["name"] != "MPI_Wait"}
        waited = {n for e in ranks.spans(i, "MPI_Waitall") for n in json.loads(e["args"]["Requests"])}
        each = [len(json.loads(e["args"]["Requests"])) for e in ranks.spans(i, "MPI_Waitall")]
        # sends that are complete at once may share a handle; numbers are used again
        ranks.check(f"rank_{i}_waited_for_its_requests", waited == asked and len(asked) == 4 and len(each) == 20 and min(each) >= 2,
                    (asked, waited, each))
    sums = ranks.spans(0, "MPI_Allreduce")
    ranks.check("an_allreduce_says_all", len(sums) == 20 and {k: sums[-1]["args"][k] for k in (
        "Process Group Name", "Process Group Ranks", "Group size", "Seq", "In msg nelems", "Out msg nelems", "In msg bytes", "dtype")} == {
            "Process Group Name": "MPI_COMM_WORLD", "Process Group Ranks": "[0, 1, 2, 3]", "Group size": 4, "Seq": 20, "In msg nelems": 1,
            "Out msg nelems": 1, "In msg bytes": 8, "dtype": "Double"}, sums[-1:])


def try_workers(mpi, program, folder):
    ranks = Ranks(mpi, program, folder, "workers")
    ranks.ended_well()
    check_bytes(ranks)


def try_straggler(mpi, program, folder):
    ranks = Ranks(mpi, program, folder, "straggler")
    ranks.ended_well()
    check_sequences(ranks)


def try_splits(mpi, program, folder):
    ranks = Ranks(mpi, program, folder, "splits")
    ranks.ended_well()
    check_bytes(ranks)
    groups = check_sequences(ranks)
    ranks.check("each_of_the_copies_is_a_group", sum(1 for _, members in groups if members == "[0, 2]") == 21, sorted(groups))
    sides = [[e["args"].get("Intercommunicator") for e in ranks.spans(i, "MPI_Bcast")] for i in range(RANKS)]
    ranks.check("communicators_of_two_groups_are_told_apart", sides == [[None, True], [None, True], [True], [True]], sides)
    gathered = [ranks.spans(i, "MPI_Gatherv")[0]["args"] for i in range(RANKS)]
    ranks.check("counts_of_each_rank_are_summed_at_the_root", [(a["In msg nelems"], a["Out msg nelems"]) for a in gathered] ==
                [(1, 10), (2, 0), (3, 0), (4, 0)], gathered)


def try_odd(mpi, program, folder):
    ranks = Ranks(mpi, program, folder, "odd")
    ranks.ended_well()
    check_sequences(ranks)
    spans = ranks.spans(1)
    nelems = {e["name"]: (e["args"]["In msg nelems"], e["args"]["Out msg nelems"]) for e in spans if "In msg nelems" in e["args"]}
    ranks.check("in_place_means_what_is_there", nelems.get("MPI_Allgather") == (2, 8) and nelems.get("MPI_Gather") == (1, 0), nelems)
    ranks.check("derived_types_have_their_size", [e["args"]["In msg bytes"] for e in spans if e["name"] == "MPI_Bcast"] == [24], nelems)
    waits = [e["args"] for e in spans if e["name"] == "MPI_Wait"]
    ranks.check("a_wait_says_for_what", [(a["Collective name"], a.get("Of"), "Seq" in a) for a in waits][0] == ("wait", "allreduce", True), waits)


def try_threads(mpi, program, folder):
    ranks = Ranks(mpi, program, folder, "threads")
    ranks.ended_well()
    check_bytes(ranks)
    check_sequences(ranks)


def try_death(mpi, program, folder, mode):
    ranks = Ranks(mpi, program, folder, mode)
    ranks.check("fails_as_without_us", ranks.done.returncode != 0)
    for i in range(RANKS):
        ranks.check(f"rank_{i}_is_kept", len(ranks.spans(i, "MPI_Allreduce")) == 20, len(ranks.spans(i)))
    for i in range(RANKS):
        (ranks.folder / f"job.r{i}.json").unlink(missing_ok=True)
    told = json.loads(run([MTPROF, "ranks", "--json", str(ranks.folder)], ranks.folder).stdout or "{}")
    ranks.check("the_end_of_a_rank_contradicts_no_clock", len(told.get("ranks", [])) == RANKS and
                not any("contradict" in n for n in told["notes"]), told)


def try_alone(mpi, program, folder):
    """One rank is recorded, the others are not: nobody waits for those."""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    launcher = [shutil.which(f"mpirun.{mpi}"), *MPIS[mpi]]
    done = run([*launcher, "-n", "1", MTPROF, "run", "-o", "job.mtp", "--", program, "halo", ":", "-n", "3", program, "halo"], place)
    check(f"{mpi}_one_rank_of_four_can_be_recorded", done.returncode == 0 and (place / "job.r0.mtp").exists(), done.stderr)


def try_one_run(mpi, program, folder):
    """mtprof run -- mpirun: one run of all ranks."""
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    launcher = [shutil.which(f"mpirun.{mpi}"), *MPIS[mpi], "-n", "4"]
    done = run([MTPROF, "run", "-o", "job.mtp", "--", *launcher, program, "halo"], place)
    spools = [place / "job.mtp", *(place / "job.mtp.workers").glob("*.mtp")]
    check(f"{mpi}_a_run_of_mpirun_records_each_rank", done.returncode == 0 and len([s for s in spools if s.exists()]) == 4,
          f"{[str(s) for s in spools]}\n{done.stderr}")
    told = json.loads(run([MTPROF, "ranks", "--json", "job.mtp"], place).stdout or "{}")
    check(f"{mpi}_a_run_of_mpirun_is_compared_by_rank", [r["rank"] for r in told.get("ranks", [])] == [0, 1, 2, 3], told)
    check(f"{mpi}_no_other_files_are_left", sorted(p.name for p in place.iterdir() if not p.name.endswith(".html")) ==
          ["job.mtp", "job.mtp.workers"] and not list((place / "job.mtp.workers").glob(".*")), list(place.rglob("*")))


def try_mpi(mpi, folder):
    program = str(pathlib.Path(folder) / f"mpi_calls_{mpi}")
    made = run([shutil.which(f"mpicc.{mpi}"), "-O1", "-w", "-o", program, SOURCE, "-lpthread"], folder)
    check(f"{mpi}_compiles", made.returncode == 0, made.stderr)
    plain = run([shutil.which(f"mpirun.{mpi}"), *MPIS[mpi], "-n", "4", program, "halo"], folder)
    if made.returncode != 0 or plain.returncode != 0:
        skip(f"{mpi}_programs", "its programs do not run here, either")
        return
    for each in (try_halo, try_workers, try_straggler, try_splits, try_odd, try_threads, try_alone, try_one_run):
        each(mpi, program, folder)
    for mode in ("dies", "killed", "aborts"):
        try_death(mpi, program, folder, mode)


def main():
    if not is_foreign_safe(COLLECTOR):
        return finish()
    with tempfile.TemporaryDirectory() as folder:
        for mpi in MPIS:
            if shutil.which(f"mpicc.{mpi}") and shutil.which(f"mpirun.{mpi}"):
                try_mpi(mpi, folder)
            else:
                skip(f"{mpi}_programs", f"mpicc.{mpi} or mpirun.{mpi} is not installed")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
