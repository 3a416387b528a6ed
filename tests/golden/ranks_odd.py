#!/usr/bin/env python3
"""What mtprof ranks must not claim: clocks that calls do not prove, and stragglers that are none. Small jobs, made here, whose
true times are known.

usage: ranks_odd.py MTPROF
"""
import json
import os
import random
import subprocess
import sys
import tempfile

MTPROF = sys.argv[1]
BASE = 1_790_000_000_000_000_000
US, MS = 1_000, 1_000_000


class Rank:
    """A trace in the making. Times are true ones, in ns; the clock adds its offset, and from `set_at` on `set_by`."""

    def __init__(self, job, number, offset):
        self.job, self.number, self.offset, self.now, self.events = job, number, offset, 10 * MS, []
        self.set_at, self.set_by, self.whole, self.begins = 1 << 62, 0, 1, 0

    def shown(self, t):
        return (t + self.offset + (self.set_by if t >= self.set_at else 0)) // self.whole * self.whole

    def add(self, name, start, end, category="cpu_op", **args):
        if start < self.begins:
            return
        a, b = self.shown(start), self.shown(end)
        device = category == "kernel"
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 0 if device else 100, "tid": 7 if device else 100,
                            "ts": a / 1000, "dur": (b - a) / 1000, "args": {**args, **({"device": 0, "stream": 7} if device else {})}})

    def work(self, length, name="mm"):
        self.add(name, self.now, self.now + length, "kernel" if self.job.nccl else "cpu_op")
        self.now += length

    def write(self, folder):
        with open(os.path.join(folder, f"rank{self.number}.json"), "w") as f:
            json.dump({"schemaVersion": 1, "baseTimeNanoseconds": BASE, "traceEvents": self.events, "distributedInfo": {
                "backend": "nccl", "rank": self.number, "world_size": len(self.job.ranks)}}, f)


class Job:
    def __init__(self, ranks, nccl=True, seed=1):
        self.nccl, self.chance, self.number = nccl, random.Random(seed), 0
        self.ranks = [Rank(self, r, 0 if r == 0 else self.chance.randrange(-40 * MS, 40 * MS)) for r in range(ranks)]

    def all_reduce(self, members=None, transfer=20 * US, **more):
        group = [self.ranks[m] for m in members or range(len(self.ranks))]
        self.number += 1
        last, numbers = max(r.now for r in group), [r.number for r in group]
        for r in group:
            leave = last + transfer + self.chance.randrange(2 * US)
            r.add("ncclDevKernel_AllReduce_Sum" if self.nccl else "MPI_Allreduce", r.now, leave, "kernel" if self.nccl else "cpu_op", **{
                "Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "Group size": len(group), "Seq": self.number,
                "Process Group Name": "g" + str(numbers), "Process Group Ranks": str(numbers), **more})
            r.now = leave

    def message(self, a, b, name=None, waits=True, **more):
        """From a to b: b does not leave before a has entered; a leaves at once unless it waits."""
        a, b = self.ranks[a], self.ranks[b]
        end = max(a.now, b.now) + 15 * US + self.chance.randrange(2 * US)
        for r, kind, leave in ((a, "send", end if waits else a.now + 5 * US), (b, "recv", end)):
            r.add((name or {}).get(kind, "ncclDevKernel_SendRecv"), r.now, leave, "kernel" if self.nccl else "cpu_op", **{
                "Collective name": kind, "In msg nelems": 8, "Out msg nelems": 8, "Process Group Name": "p", "Group size": len(self.ranks),
                "Dst Rank" if kind == "send" else "Src Rank": b.number if kind == "send" else a.number, **more})
            r.now = leave

    def steps(self, count, body):
        for s in range(count):
            starts = [r.now for r in self.ranks]
            body(s)
            for r, start in zip(self.ranks, starts):
                r.add(f"ProfilerStep#{s}", start, r.now, "user_annotation")
                r.now += 30 * US

    def compared(self):
        with tempfile.TemporaryDirectory() as folder:
            for r in self.ranks:
                r.write(folder)
            done = subprocess.run([MTPROF, "ranks", "--json", folder], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

    def check_clocks(self, found, unknown=()):
        """No clock is off by more than its stated error."""
        for r, at in zip(self.ranks, found["ranks"]):
            clock = at["clock"]
            assert (clock["error_ns"] is None) == (r.number in unknown), (r.number, clock, found["notes"])
            for t in (0, max(x.now for x in self.ranks)):
                shown = BASE + t + r.offset
                off = shown + clock["offset_ns"] - BASE - t + clock["drift_ppm"] * (shown - int(clock["at_ns"])) / 1e6
                assert clock["error_ns"] is None or abs(off) <= clock["error_ns"] + 3, (r.number, off, clock)


def straggler(found):
    return [(f["rank"], f["op"]) for f in found["findings"] if f["id"] == "straggler"]


def messages_of_traces_that_begin_apart_prove_nothing_wrong():
    job = Job(2)
    job.ranks[1].begins = 70 * MS  # it misses the first of them

    def step(_):
        job.ranks[0].work(5 * MS)
        job.message(0, 1, Seq=3)
        job.ranks[1].work(5 * MS)
        job.message(1, 0, Seq=3)
    job.steps(12, step)
    job.check_clocks(job.compared(), unknown=(1,))


def messages_tie_the_clocks_of_a_pipeline():
    job = Job(3)

    def step(_):
        for a, b in ((0, 1), (1, 2), (2, 1), (1, 0)):
            job.ranks[a].work(2 * MS)
            job.message(a, b)
    job.steps(8, step)
    found = job.compared()
    job.check_clocks(found)
    assert all(r["matched"] == r["calls"] for r in found["ranks"]), found["notes"]
    assert not straggler(found), found["findings"]


def messages_of_mpi_are_told_apart_by_their_tags():
    job = Job(2, nccl=False)
    sends = {"send": "MPI_Isend", "recv": "MPI_Recv"}
    for _ in range(30):
        job.ranks[0].work(MS)
        job.message(0, 1, sends, waits=False, Tag=7)
        job.ranks[0].work(3 * MS)
        job.message(0, 1, {"send": "MPI_Send", "recv": "MPI_Recv"}, Tag=8)
        job.ranks[1].work(MS)
        job.message(1, 0, {"send": "MPI_Send", "recv": "MPI_Recv"}, Tag=7)
    found = job.compared()
    job.check_clocks(found)
    assert not any("contradict" in n for n in found["notes"]), found["notes"]
    assert [r["matched"] for r in found["ranks"]] == [90, 90], found["notes"]


def waits_of_mpi_are_not_missed_on_other_ranks():
    job = Job(2, nccl=False)
    for _ in range(5):
        for r in job.ranks:
            r.add("MPI_Waitall", r.now, r.now + MS)
            r.now += 2 * MS
        job.all_reduce()
    found = job.compared()
    assert not any("on one rank only" in n for n in found["notes"]), found["notes"]


def a_receive_that_only_begins_proves_nothing():
    job = Job(2, nccl=False)
    for _ in range(20):
        r, s = job.ranks
        r.add("MPI_Irecv", r.now, r.now + US, **{"Collective name": "recv", "Src Rank": 1, "Tag": 1, "Process Group Name": "p"})
        s.now = r.now = r.now + 5 * MS
        s.add("MPI_Send", s.now, s.now + US, **{"Collective name": "send", "Dst Rank": 0, "Tag": 1, "Process Group Name": "p"})
        job.message(0, 1, {"send": "MPI_Send", "recv": "MPI_Recv"}, Tag=2)
    job.check_clocks(job.compared(), unknown=(1,))


def neighbours_do_not_wait_for_the_others():
    job = Job(4, nccl=False)
    for i in range(20):
        for r in job.ranks:
            start = r.now + (4 * MS if r.number > 1 else 0)
            r.add("MPI_Neighbor_allgather", start, start + 30 * US, **{"Collective name": "neighbor_allgather", "Seq": i, "Group size": 4,
                  "Process Group Name": "cart"})
            r.now += 5 * MS
        job.all_reduce()
    found = job.compared()
    job.check_clocks(found)
    assert not any("contradict" in n for n in found["notes"]), found["notes"]


def calls_that_only_start_communication_prove_nothing():
    job = Job(2, nccl=False)
    for i in range(20):
        for r in job.ranks:
            start = r.now + (4 * MS if r.number else 0)
            r.add("AllReduce", start, start + 10 * US, **{"Collective name": "allreduce", "Seq": i, "Process Group Name": "0x1",
                  "In msg nelems": 8, "Is asynchronized op": True})
            r.now += 5 * MS
    job.check_clocks(job.compared(), unknown=(1,))


def a_call_that_a_rank_died_in_proves_nothing():
    job = Job(3, nccl=False)
    for _ in range(20):
        for r in job.ranks:
            r.work(MS)
        job.all_reduce()
    for r in job.ranks[:2]:  # rank 2 came later
        r.add("MPI_Allreduce", r.now, r.now + MS, **{**r.events[-1]["args"], "Seq": 99, "unfinished": True})
    r = job.ranks[2]
    r.work(9 * MS)
    r.add("MPI_Allreduce", r.now, r.now + MS, **{**r.events[-2]["args"], "Seq": 99})
    found = job.compared()
    job.check_clocks(found)
    assert not any("contradict" in n for n in found["notes"]), found["notes"]


def groups_of_two_sides_do_not_wait_for_their_own():
    job = Job(4, nccl=False)
    for i in range(20):
        for r in job.ranks:  # 0 and 2 are one side: 0 leaves when 1 and 3 have entered
            start = r.now + (3 * MS if r.number == 2 else 0)
            r.add("MPI_Barrier", start, r.now + (3 * MS if r.number % 2 else 0) + 40 * US, **{
                "Collective name": "barrier", "Seq": i, "Process Group Name": "inter", "Group size": 4, "Intercommunicator": True})
            r.now += 5 * MS
        job.all_reduce()
    found = job.compared()
    job.check_clocks(found)
    assert not any("contradict" in n for n in found["notes"]), found["notes"]


def whole_microseconds_prove_no_more_than_they_say():
    for seed in range(8):
        job = Job(3, seed=seed)
        for r in job.ranks:
            r.whole = 1000
        for _ in range(40):
            for r in job.ranks:
                r.work(job.chance.randrange(3) * 300 + 100 * US)
            job.all_reduce(transfer=0)
        found = job.compared()
        job.check_clocks(found)
        assert not any("contradict" in n for n in found["notes"]), found["notes"]


def a_trace_without_events_or_steps_keeps_no_others_from_being_compared():
    job = Job(4)

    def step(_):
        for r in job.ranks:
            r.work(9 * MS if r.number == 1 else 5 * MS)
        job.all_reduce()
    job.steps(12, step)
    job.ranks[0].events = [e for e in job.ranks[0].events if e["cat"] != "user_annotation"]
    job.ranks[3].events = []
    found = job.compared()
    assert [x["problem"] for x in found["left_out"]] == ["it has no events"], found["left_out"]
    assert "1 rank has no numbered steps and cannot be compared by step: 0." in found["notes"], found["notes"]
    assert straggler(found)[0][0] == 1, found["findings"]
    for r in job.ranks:
        r.events = [e for e in r.events if e["name"] == f"ProfilerStep#{r.number}"]
    with tempfile.TemporaryDirectory() as folder:
        job.ranks[1].write(folder), job.ranks[2].write(folder)
        text = subprocess.run([MTPROF, "ranks", folder], capture_output=True, text=True, check=True).stdout
    assert "Nothing stands out" not in text and "no step in common" in text, text


def calls_before_and_after_the_steps_are_not_taken_for_those_of_a_trace_without_steps():
    job = Job(2)
    job.ranks[1].begins = 150 * MS  # it has two calls, of steps whose begin it missed; rank 0 has two outside of its steps

    def step(_=0):
        for r in job.ranks:
            r.work(25 * MS)
        job.all_reduce(Seq=-1)
    step()
    job.steps(5, step)
    step()
    job.ranks[1].events = [e for e in job.ranks[1].events if e["cat"] != "user_annotation"]
    assert len([e for e in job.ranks[1].events if "nccl" in e["name"]]) == 2, job.ranks[1].events
    job.check_clocks(job.compared(), unknown=(1,))


def who_leaves_at_the_very_instant_that_the_last_enters_contradicts_nothing():
    for seed in range(4):
        job = Job(3, nccl=False, seed=seed)
        for s in range(40):
            for r in job.ranks:
                r.now += job.chance.randrange(MS)
            last = max(r.now for r in job.ranks)
            for r in job.ranks:  # its clock is fast or slow, and shows whole nanoseconds
                args = {"Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "Process Group Name": "g", "Seq": s}
                a, b = (t + round(t * (r.number - 1) * 33.3e-6) for t in (r.now, last))
                r.add("MPI_Allreduce", a, b, **args)
                r.now = last
        found = job.compared()
        assert not any("contradict" in n for n in found["notes"]), found["notes"]


def messages_that_were_begun_and_are_waited_for_later_are_communication():
    for overlapped in (False, True):
        job = Job(2, nccl=False)

        def step(s):
            start = job.ranks[0].now
            for r in job.ranks:
                r.now = start
                for kind, peer in (("recv", "Src Rank"), ("send", "Dst Rank")):
                    r.add(f"c10d::{kind}", r.now, r.now + 10 * US)
                    r.add(f"gloo:{kind}", r.now + 5 * US, start + 9 * MS, "user_annotation", **{
                        "Collective name": kind, peer: 1 - r.number, "Tag": 0, "Process Group Name": "0"})
                    r.now += 20 * US
                if overlapped:
                    r.work(8 * MS)
                r.now = start + 10 * MS
        job.steps(5, step)
        for rank in job.compared()["ranks"]:
            mean = rank["per_step"]
            assert rank["calls"] == rank["matched"] == 10, rank
            assert 8990 < mean["communication_us"] < 9010, mean
            assert not overlapped or abs(mean["compute_us"] - 8000) < 1, mean
            assert 980 < mean["exposed_us"] < 1010 if overlapped else 8990 < mean["exposed_us"] < 9010, mean


def a_message_of_gloo_is_sent_when_its_call_begins():
    for was_set in (False, True):
        job = Job(2, nccl=False)
        job.ranks[1].set_at, job.ranks[1].set_by = 150 * MS if was_set else 1 << 62, 30 * MS
        for i in range(40):
            s, r = job.ranks[::-1] if i % 2 else job.ranks
            s.now = r.now = max(s.now, r.now) + MS
            args = {"Process Group Name": "0", "Tag": 0}
            s.add("c10d::send", s.now, s.now + 4 * MS)  # the other has it before this thread goes on
            s.add("gloo:send", s.now + 3 * MS, s.now + 5 * MS, "user_annotation", **args, **{"Collective name": "send", "Dst Rank": r.number})
            r.add("c10d::recv_", r.now, r.now + 10 * US)
            r.add("gloo:recv", r.now + 5 * US, r.now + MS, "user_annotation", **args, **{"Collective name": "recv", "Src Rank": s.number})
            s.now += 6 * MS
        found = job.compared()
        job.check_clocks(found, unknown=(1,) if was_set else ())
        told = [n for n in found["notes"] if "contradict" in n]
        assert len(told) == was_set and not any("left gloo:send" in n for n in told), found["notes"]


def work_just_before_a_call_is_computation():
    job = Job(2, nccl=False)

    def step(_):
        for r in job.ranks:
            r.add("outer", r.now, r.now + 3 * MS)
            r.work(2 * MS)
            r.now += 2 * MS  # 1 ms of it idle
        job.all_reduce()
        for r in job.ranks:
            r.work(MS)
    job.steps(8, step)
    for rank in job.compared()["ranks"]:
        assert abs(rank["per_step"]["compute_us"] - 4000) < 1, rank["per_step"]


def nothing_is_proved_about_a_clock_that_was_set():
    job = Job(4)
    job.ranks[2].set_at, job.ranks[2].set_by = 150 * MS, 30 * MS

    def step(_):
        for r in job.ranks:
            r.work(10 * MS + job.chance.randrange(50 * US))
        job.all_reduce()
    job.steps(20, step)
    found = job.compared()
    job.check_clocks(found, unknown=(2,))
    assert any("Nothing is proved about the clock of rank 2." in n for n in found["notes"]), found["notes"]
    assert not straggler(found), found["findings"]


def noise(seed, ranks, steps, slow=lambda rank, step: 0):
    job = Job(ranks, seed=seed)

    def step(s):
        for r in job.ranks:
            for _ in range(3):
                r.work(3 * MS + int(abs(job.chance.gauss(0, 400 * US))))
            if slow(r.number, s):
                r.work(slow(r.number, s), "slow")
        job.all_reduce()
    job.steps(steps, step)
    return job.compared()


def noise_is_no_straggler():
    named = [(seed, ranks, steps) for seed in range(10) for ranks in (2, 8) for steps in (1, 3, 12) if straggler(noise(seed, ranks, steps))]
    assert not named, named


def one_late_step_is_no_straggler():
    for at in (0, 5, 11):
        found = noise(1, 4, 12, lambda rank, step: 40 * MS if (rank, step) == (2, at) else 0)
        assert not straggler(found), (at, found["findings"])


def a_late_rank_is_named():
    for ranks, steps, since in ((2, 12, 0), (8, 12, 6), (8, 3, 0), (16, 30, 27)):
        found = noise(3, ranks, steps, lambda rank, step: 8 * MS if rank == 1 and step >= since else 0)
        assert straggler(found) == [(1, "slow")], (ranks, steps, found["findings"])


def long_pauses_at_the_begin_do_not_hide_who_is_late_afterwards():
    def slow(rank, step):
        if step == 0:
            return (300, 900, 500, 0)[rank] * MS  # what programs do first
        return 8 * MS if rank == 2 and step >= since else 0
    for since in (1, 6):
        found = noise(5, 4, 17, slow)
        assert straggler(found) == [(2, "slow")], (since, found["findings"])
        assert [f["since_step"] for f in found["findings"] if f["id"] == "straggler"] in ([6], [-1], [1]), found["findings"]
    found = noise(5, 4, 17, lambda rank, step: slow(rank, step) if step == 0 else 0)
    assert not straggler(found), found["findings"]
    assert all(f["share"] <= 1 for f in found["findings"]), found["findings"]


def who_waited_for_a_late_rank_is_not_late():
    """Ranks 2 and 3 get messages of 0 and 1, of which 1 is slow; then 2 and 3, 0 and 1, and all of them meet."""
    job = Job(4)

    def step(_):
        job.ranks[1].work(4 * MS, "slow")
        for a, b in ((0, 2), (1, 3)):
            job.ranks[a].work(5 * MS)
            job.message(a, b, waits=False)
            job.ranks[b].work(5 * MS + job.chance.randrange(50 * US))
        job.all_reduce([2, 3])
        job.all_reduce([0, 1])
        job.all_reduce()
    job.steps(12, step)
    assert straggler(job.compared()) == [(1, "slow")], job.compared()["findings"]


TESTS = [messages_of_traces_that_begin_apart_prove_nothing_wrong, messages_tie_the_clocks_of_a_pipeline,
         messages_of_mpi_are_told_apart_by_their_tags, waits_of_mpi_are_not_missed_on_other_ranks, a_receive_that_only_begins_proves_nothing, neighbours_do_not_wait_for_the_others,
         calls_that_only_start_communication_prove_nothing, a_call_that_a_rank_died_in_proves_nothing, groups_of_two_sides_do_not_wait_for_their_own,
         whole_microseconds_prove_no_more_than_they_say, a_trace_without_events_or_steps_keeps_no_others_from_being_compared,
         calls_before_and_after_the_steps_are_not_taken_for_those_of_a_trace_without_steps,
         who_leaves_at_the_very_instant_that_the_last_enters_contradicts_nothing,
         messages_that_were_begun_and_are_waited_for_later_are_communication, a_message_of_gloo_is_sent_when_its_call_begins, work_just_before_a_call_is_computation, nothing_is_proved_about_a_clock_that_was_set, noise_is_no_straggler,
         one_late_step_is_no_straggler, a_late_rank_is_named,
         long_pauses_at_the_begin_do_not_hide_who_is_late_afterwards, who_waited_for_a_late_rank_is_not_late]

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
