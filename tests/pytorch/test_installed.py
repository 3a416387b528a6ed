"""What `make install` leaves records PyTorch without the checkout: `mtprof run`, and `mtprof.pytorch` with the folder that `mtprof info` names."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MTPROF") or ROOT / "build" / "mtprof").parent
pytestmark = [pytest.mark.skipif(shutil.which("meson") is None, reason="meson is not on PATH"),
              pytest.mark.skipif(not (BUILD / "build.ninja").exists(), reason="there is no build folder: make build")]
PROGRAM = """
import torch
torch.ones(3, 4) @ torch.ones(4, 5)
"""
FROM_INSIDE = """
import mtprof.pytorch as profiler
import torch
with profiler.profile(record_shapes=True) as prof:
    torch.ones(3, 4) @ torch.ones(4, 5)
print([e.key for e in prof.key_averages(group_by_input_shape=True) if e.input_shapes == [[3, 4], [4, 5]]])
print(profiler.__file__)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The command, in a folder that the program's variables cannot name, and what runs there."""
    root = tmp_path_factory.mktemp("a place")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root / "dest"], check=True, capture_output=True)
    command = next((root / "dest").rglob("bin/mtprof"))
    theirs = {k: v for k, v in os.environ.items() if not k.startswith(("MTPROF", "PYTHONPATH", "LD_LIBRARY"))}
    theirs.update(MTPROF_CACHE=str(root / "cache"))
    if "pytorch" in os.environ.get("PYTHONPATH", ""):  # where it was fetched to
        theirs["PYTHONPATH"] = ":".join(p for p in os.environ["PYTHONPATH"].split(":") if "pytorch" in p)

    def run(*args, **more):
        return subprocess.run([str(a) for a in args], env={**theirs, **more}, cwd=root, capture_output=True, text=True, timeout=300)

    yield command, run, theirs.get("PYTHONPATH", "")
    links = pathlib.Path(f"/tmp/mtprof-links-{os.geteuid()}")
    for link in links.iterdir() if links.exists() else ():
        if os.readlink(link).startswith(str(root)):
            link.unlink()


def test_run_records_pytorch(installed):
    command, run, _ = installed
    done = run(command, "run", "--shapes", "--", sys.executable, "-c", PROGRAM)
    assert done.returncode == 0, done
    told = run(command, "stats", "--by-shape", "--json", "run.mtp")
    assert '"aten::mm"' in told.stdout and "[[3, 4], [4, 5]]" in told.stdout, (done.stderr, told)


def test_a_program_imports_it_from_the_folder_that_info_names(installed):
    command, run, theirs = installed
    home = re.search(r"PYTHONPATH=(.*)", run(command, "info").stdout)[1]
    done = run(sys.executable, "-c", FROM_INSIDE, PYTHONPATH=":".join(p for p in (home, theirs) if p))
    assert done.returncode == 0 and "aten::mm" in done.stdout and done.stdout.splitlines()[-1].startswith(home), done
