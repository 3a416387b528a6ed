#!/usr/bin/env python3
"""A stand-in for NCCL drives the profiler plug-in through each version of its interface. Speaks TAP."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from programs import Programs, check, finish, said

VERSIONS = range(1, 7)


def of(trace, name):
    return [e["args"] for e in sorted(trace.spans, key=lambda e: e["ts"]) if e["name"] == name]


def try_version(p, host, version):
    done, trace = p.under(host, str(version))
    check(f"version_{version}_is_served_without_errors", done.returncode == 0 and done.stdout.splitlines() == ["mtprof mask 15", "done"], said(done))
    names = trace.names()
    check(f"version_{version}_shows_each_call", names == {"nccl group": 3, "ncclAllReduce": 3, "ncclAllGather": 3, "ncclSend": 3, "ncclBroadcast": 1,
                                                         "ncclReduceScatter": 1, "nccl proxy send": 2}, names)
    reduced, gathered, sent = of(trace, "ncclAllReduce"), of(trace, "ncclAllGather"), of(trace, "ncclSend")
    told = {k: reduced[-1].get(k) for k in ("Collective name", "Process Group Name", "Process Group Description", "Seq", "In msg nelems",
                                            "Out msg nelems", "In msg bytes", "dtype", "Is asynchronized op", "Group rank")}
    check(f"version_{version}_says_what_is_reduced", told == {
        "Collective name": "allreduce", "Process Group Name": "0xabcdef", "Process Group Description": "world", "Seq": 5, "In msg nelems": 1000,
        "Out msg nelems": 1000, "In msg bytes": 4000, "dtype": "Float", "Is asynchronized op": True, "Group rank": 2}, told)
    check(f"version_{version}_counts_collectives_in_order", [a["Seq"] for a in reduced] == [1, 3, 5] and [a["Seq"] for a in gathered] == [2, 4, 6]
          and "Seq" not in sent[0], (reduced, gathered))
    knows_size = version >= 4
    check(f"version_{version}_knows_sizes_as_far_as_they_are_told", gathered[0].get("Out msg nelems") == (40 if knows_size else None) and
          gathered[0].get("Group size") == (4 if knows_size else None), gathered[:1])
    check(f"version_{version}_names_peers", sent[0]["Peer in group"] == 3 and sent[0]["In msg nelems"] == 7 and
          of(trace, "nccl proxy send")[0]["Steps"] == 4, sent)
    check(f"version_{version}_marks_what_another_thread_ended", trace.marks == ["end of a call of NCCL"], trace.marks)


def main(collector, mtprof, host):
    with tempfile.TemporaryDirectory() as folder:
        p = Programs(mtprof, folder, NCCL_PROFILER_PLUGIN=os.path.abspath(collector))
        for version in VERSIONS:
            try_version(p, host, version)
        done = p.plain(host, "4", NCCL_PROFILER_PLUGIN=os.path.abspath(collector))
        check("without_a_profile_it_serves_all_the_same", done.returncode == 0 and done.stdout.splitlines()[-1] == "done" and
              "records nothing" in done.stderr, said(done))
    return finish()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
