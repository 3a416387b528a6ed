#!/usr/bin/env python3
"""Golden: runs the code blocks of the README unchanged, one after another in one folder, as a reader would.

usage: tests/golden/readme.py SOURCE_ROOT BUILD_ROOT     writes TAP

C is compiled with warnings as errors, Python is run with warnings as errors. The two commands that build and test the
project are only compared with the Makefile: CI runs them. Those that install it have tests of their own. Links and pictures must exist; the verbs shown must be the command's.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
TEXT = (ROOT / "README.md").read_text()
INSTALL = {"pip install": "tests/unit/test_wheel.py", "make install": "tests/golden/readme_install.py", "make deb": "tests/golden/readme_install.py"}
BLOCKS = [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S)]
ENVIRONMENT = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}", PYTHONPATH=str(ROOT / "src"), PYTHONWARNINGS="error",
                   LD_LIBRARY_PATH=f"{BUILD / 'src'}:{os.environ.get('LD_LIBRARY_PATH', '')}")


TRAIN = """import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""


class Skipped(Exception):
    pass


def need_pytorch():
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:  # the folder beside this file is not PyTorch
        raise Skipped("PyTorch is not installed")
    ENVIRONMENT.setdefault("MTPROF_CACHE", os.path.join(tempfile.gettempdir(), f"mtprof-test-cache-{os.geteuid()}"))


def run(command, folder, **more):
    ran = subprocess.run(command, cwd=folder, env={**ENVIRONMENT, **more}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert ran.returncode == 0, f"{command}: {ran.returncode}\n{ran.stdout}"
    return ran.stdout


def run_c(code, folder, name):
    source = folder / f"{name}.c"
    source.write_text(code)
    run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", str(source), "-o", str(folder / name),
         f"-L{BUILD / 'src'}", "-lmtprof"], folder)
    assert "Self CPU time total" in run([str(folder / name)], folder)


def run_python(code, folder, name):
    if not list((ROOT / "src/mindtorch_v2").glob("_C*.so")):
        raise Skipped("mindtorch_v2 is not built")
    (folder / f"{name}.py").write_text(code)
    of_pytorch = code.startswith("import torch\n")
    if of_pytorch:
        need_pytorch()
    run([sys.executable, f"{name}.py"], folder, **({"PYTHONWARNINGS": "default"} if of_pytorch else {}))


def run_shell(code, folder, name):
    elsewhere = next((test for first, test in INSTALL.items() if code.startswith(first)), None)
    if elsewhere:
        raise Skipped(f"{elsewhere} runs it")
    if re.match(r"make\b", code):
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
        assert all(line.split()[0] == "make" and line.split()[1] in targets for line in code.splitlines()), code
        return
    if code.startswith("mtprof run"):
        need_pytorch()
        (folder / "train.py").write_text(TRAIN)
    elif not (folder / "trace.json.gz").exists():
        raise Skipped("the blocks before it left no trace")
    if "traces/" in code and not (folder / "traces").exists():
        run([sys.executable, str(ROOT / "bench/make_ranks.py"), "traces", "--ranks", "4", "--events", "20000", "--straggler", "3", "--since", "20"], folder)
    verbs = re.findall(r"^  (\w+)  ", run([str(BUILD / "mtprof"), "--help"], folder), re.M)
    for line in code.splitlines():
        assert line.split()[1] in verbs, line
        run(["sh", "-c", line], folder, PYTHONWARNINGS="default")


def links(folder):
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("http") or (ROOT / target).exists(), f"{target} is not there"


def numbers(folder):
    """Counts that the text gives are those of the tree."""
    ops = len(re.findall(r"^ *X\(\w+, \"|\) Y\(\w+\) ", (ROOT / "include/mindtorch_ops.h").read_text(), re.M))
    told = re.findall(r"(?<![\d,])(\d+) ops\b", TEXT)
    assert told and set(told) == {str(ops)}, f"mindtorch_ops.h has {ops} ops, the text says {told}"


def main():
    known = {"c": run_c, "python": run_python, "sh": run_shell}
    work = [(f"block_{i}_{language}", known[language], code) for i, (language, code) in enumerate(BLOCKS, 1)]
    failed = 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mtprof-readme-"))
    work += [("links", lambda code, folder, name: links(folder), ""), ("every_block_has_a_language", lambda *_: whole(), "")]
    work.append(("numbers", lambda code, folder, name: numbers(folder), ""))
    print(f"1..{len(work)}")
    for n, (name, function, code) in enumerate(work, 1):
        try:
            function(code, folder, name)
            print(f"ok {n} {name}")
        except Skipped as why:
            print(f"ok {n} {name} # SKIP {why}")
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            failed += 1
            print(f"not ok {n} {name}\n# " + str(error).replace("\n", "\n# "))
    shutil.rmtree(folder)
    return failed != 0


def whole():
    """No code is in an indented block, or in one without a language."""
    outside = re.sub(r"^```\w+\n.*?^```$", "", TEXT, flags=re.M | re.S)
    assert "```" not in outside, "a block without a language"
    assert not re.search(r"^    \S", outside, re.M), "an indented block"


sys.exit(main())
