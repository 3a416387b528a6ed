"""The collector's compilation, its cache, and what happens where it cannot be had."""
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: `make test-pytorch` fetches it")

ATTACH = """
    import torch, mtprof
    from mtprof.pytorch import collector
    attached = collector.attach(shapes=True, memory=True)
    print(attached.kind)
"""
PROFILE = """
    import mtprof.pytorch as profiler
    import torch
    with profiler.profile() as prof:
        torch.ones(3).exp()
    print(sorted(event.name for event in prof.events()))
"""


def run(code, **environment):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=600)


def test_it_is_compiled_once_also_by_processes_that_start_together(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MTPROF_CACHE": str(tmp_path / "cache")}
    running = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(ATTACH)], env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for _ in range(3)]
    results = [process.communicate(timeout=600) for process in running]
    assert [out for out, _ in results] == ["callbacks\n"] * 3
    assert sum("compiling the collector" in err for _, err in results) == 1
    assert len([name for name in os.listdir(tmp_path / "cache") if name.endswith(".so")]) == 1


def test_a_cache_that_others_may_write_is_not_used(tmp_path):
    os.chmod(tmp_path, 0o777)
    done = run(ATTACH, MTPROF_CACHE=str(tmp_path))
    assert done.returncode == 0 and "MTPROF_CACHE" in done.stderr and os.listdir(tmp_path) == []


def test_a_damaged_file_in_the_cache_is_said(tmp_path):
    good = run(ATTACH + "    print(collector.find())\n")
    path = good.stdout.split()[-1]
    with open(tmp_path / os.path.basename(path), "wb") as file:
        file.write(b"not a library")
    os.chmod(tmp_path, 0o700)
    done = run(ATTACH, MTPROF_CACHE=str(tmp_path))
    assert done.returncode == 0 and "cannot be loaded" in done.stderr and "Traceback" not in done.stderr


def test_a_compiler_that_fails_is_quoted(tmp_path):
    os.chmod(tmp_path, 0o700)
    done = run(ATTACH, MTPROF_CACHE=str(tmp_path), CXX="false")
    assert done.returncode == 0 and "the compiler failed" in done.stderr and "Traceback" not in done.stderr
    assert [name for name in os.listdir(tmp_path) if name.endswith(".so")] == []


def test_without_a_compiler_ops_have_names_only(tmp_path):
    os.chmod(tmp_path, 0o700)
    done = run(PROFILE, MTPROF_CACHE=str(tmp_path), PATH="/nowhere", CXX="")
    assert done.returncode == 0, done.stderr
    assert "no C++ compiler" in done.stderr
    if "by name only" not in done.stderr:
        pytest.skip(f"no ITT here: {done.stderr.strip()[-200:]}")
    assert "aten::exp" in done.stdout


def test_without_a_compiler_one_that_was_compiled_before_is_used_but_not_of_other_sources(tmp_path):
    os.chmod(tmp_path, 0o700)
    path = run(ATTACH + "    print(collector.find())\n").stdout.split()[-1]
    shutil.copy(path, tmp_path)
    done = run(ATTACH, MTPROF_CACHE=str(tmp_path), PATH="/nowhere", CXX="")
    assert done.stdout == "callbacks\n", done.stderr
    version, source, compiler = os.path.basename(path).removeprefix("mtprof_torch-").rsplit("-", 2)
    os.rename(tmp_path / os.path.basename(path), tmp_path / f"mtprof_torch-{version}-{'0' * len(source)}-{compiler}")
    done = run(ATTACH, MTPROF_CACHE=str(tmp_path), PATH="/nowhere", CXX="")
    assert done.stdout != "callbacks\n" and "no C++ compiler" in done.stderr


def test_without_libmtprof_the_collector_says_so():
    done = run("""
        import importlib.util, torch
        import mtprof.pytorch.collector as c   # finds its path only
    """)
    path = next(folder for folder in sys.path if os.path.exists(os.path.join(folder, "mtprof/pytorch/collector.py")))
    done = run(f"""
        import importlib.util, torch
        spec = importlib.util.spec_from_file_location("alone", {os.path.join(path, 'mtprof/pytorch/collector.py')!r})
        alone = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(alone)
        print(alone.attach().kind)
    """, MTPROF_CACHE="")
    assert done.returncode == 0 and "None" in done.stdout and "libmtprof" in done.stderr and "Traceback" not in done.stderr
