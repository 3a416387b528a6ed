"""What the MPI collector adds to a call, by bench/mpi_cost.c: without it, with it while nothing is recorded, and recording.
Prints a table and writes JSON, name -> number; without an MPI, neither."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTOR = ROOT / "build/src/collect/mpi/libmtprof_mpi.so"
WHAT = {"probe": "MPI_Iprobe", "allreduce": "MPI_Allreduce", "message": "MPI_Irecv, MPI_Send and MPI_Wait"}


def measure(program, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MTPROF_")}
    done = subprocess.run([program], env={**kept, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more},
                          capture_output=True, text=True, check=True)
    return {name: float(ns) for name, ns in (line.split() for line in done.stdout.splitlines())}


def report(figures, name, value, what):
    figures[name] = value
    print(f"  {name:<38} {value:10.2f} ns               {what}")


def main(out):
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for mpi in ("openmpi", "mpich"):
            compiler = shutil.which(f"mpicc.{mpi}")
            if compiler is None:
                continue
            print(f"mtprof: {mpi}")
            program = f"{folder}/cost"
            subprocess.run([compiler, "-O2", "-w", "-o", program, str(ROOT / "bench/mpi_cost.c")], check=True)
            plain, off = measure(program), measure(program, LD_PRELOAD=str(COLLECTOR))
            on = measure(program, LD_PRELOAD=str(COLLECTOR), MTPROF_OUT=f"{folder}/cost.mtp")
            for name, what in WHAT.items():
                report(figures, f"mpi_{mpi}_{name}_ns", plain[name], f"{what}, without the collector")
                report(figures, f"mpi_{mpi}_{name}_off_added_ns", off[name] - plain[name], "what it adds, nothing recorded")
                report(figures, f"mpi_{mpi}_{name}_added_ns", on[name] - plain[name], "what it adds, recording")
    if out:
        pathlib.Path(out).write_text(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
