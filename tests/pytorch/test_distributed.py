"""Programs of torch.distributed under `mtprof run`: Gloo's collectives say their group, their number and their size."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this PyTorch has no Gloo", allow_module_level=True)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MTPROF = os.environ.get("MTPROF") or str(ROOT / "build" / "mtprof")
pytestmark = pytest.mark.skipif(not os.path.exists(MTPROF), reason="build/mtprof is not there: make build, or set MTPROF")
RANKS = 2
PROGRAM = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
alone = [dist.new_group([i]) for i in range(2)]
x = torch.ones(1000)
for i in range(3):
    dist.all_reduce(x)
dist.all_reduce(x, group=alone[rank])
dist.all_gather([torch.empty(10) for i in range(2)], torch.ones(10))
dist.broadcast(x, 1)
dist.reduce_scatter_tensor(torch.empty(5), torch.ones(10))
dist.all_reduce(x, async_op=True).wait()
if rank == 0:
    dist.send(torch.ones(7, dtype=torch.int64), 1)
else:
    dist.recv(torch.ones(7, dtype=torch.int64), 0)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """The exported traces of the ranks, by rank."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "talk.py").write_text(PROGRAM)
    kept = {k: v for k, v in os.environ.items() if k == "MTPROF_CACHE" or not k.startswith(("MTPROF", "PYTHONPATH"))}
    done = subprocess.run([MTPROF, "run", "-o", "job.mtp", "--no-report", "--", sys.executable, "-m", "torch.distributed.run",
                           "--standalone", "--nproc-per-node", str(RANKS), "talk.py"],
                          cwd=folder, env={**kept, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = {}
    for number, spool in enumerate([folder / "job.mtp", *sorted((folder / "job.mtp.workers").glob("*.mtp"))]):
        shown = folder / f"{number}.json"
        single = folder / f"{number}.mtp"  # not with the other processes of the run
        single.write_bytes(spool.read_bytes())
        subprocess.run([MTPROF, "export", str(single), "-o", str(shown)], check=True)
        trace = json.loads(shown.read_text())
        if any(e.get("name") == "gloo:all_reduce" for e in trace["traceEvents"]):
            found[trace["distributedInfo"]["rank"]] = trace
    return found


def told(trace):
    """(name, group, Seq, in, out, dtype, peer) of each collective, in order."""
    spans = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"].startswith("gloo:")]
    args = [e["args"] for e in sorted(spans, key=lambda e: e["ts"])]
    return [(a["Collective name"], a["Process Group Ranks"], a.get("Seq"), a["In msg nelems"], a["Out msg nelems"], a.get("dtype"),
             a.get("Src Rank", a.get("Dst Rank"))) for a in args]


def test_each_rank_knows_which_it_is(ranks):
    assert sorted(ranks) == list(range(RANKS))
    for rank, trace in ranks.items():
        info = trace["distributedInfo"]
        assert (info["backend"], info["rank"], info["world_size"], info["local_rank"]) == ("gloo", rank, RANKS, rank)
        assert trace["hostname"]
    assert len({trace["distributedInfo"]["job"] for trace in ranks.values()}) == 1


def test_collectives_say_group_number_and_size(ranks):
    both = "[0, 1]"
    for rank, trace in ranks.items():
        message = [("send", both, None, 7, 0, "Long", 1), ("recv", both, None, 0, 7, "Long", 0)][rank]
        assert told(trace) == [("allreduce", both, 1, 1000, 1000, "Float", None), ("allreduce", both, 2, 1000, 1000, "Float", None),
                               ("allreduce", both, 3, 1000, 1000, "Float", None), ("allreduce", f"[{rank}]", 1, 1000, 1000, "Float", None),
                               ("allgather", both, 4, 10, 20, "Float", None), ("broadcast", both, 5, 1000, 1000, "Float", None),
                               ("reduce_scatter", both, 6, 10, 5, "Float", None), ("allreduce", both, 7, 1000, 1000, "Float", None),
                               message, ("barrier", both, 8, 0, 0, None, None)]


def test_names_of_groups_are_unique(ranks):
    groups = {}
    for trace in ranks.values():
        for e in trace["traceEvents"]:
            if "Process Group Name" in e.get("args", {}):
                groups.setdefault(e["args"]["Process Group Name"], set()).add(e["args"]["Process Group Ranks"])
    assert sorted(len(members) for members in groups.values()) == [1, 1, 1]


def test_the_call_itself_is_not_a_second_collective(ranks):
    for trace in ranks.values():
        calls = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e["name"].startswith("c10d::")]
        assert len(calls) == 10 and not any("Collective name" in e["args"] for e in calls)
