"""Nothing depends on the locale: a program that has called setlocale(LC_ALL, "") imports, computes, profiles and
exports like any other."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCALES = ("de_DE.UTF-8", "tr_TR.UTF-8", "tr_TR.ISO-8859-9", "ps_AF.UTF-8")

PROGRAM = """
import json, locale, sys
locale.setlocale(locale.LC_ALL, "")
assert locale.setlocale(locale.LC_ALL) == "C.UTF-8" or locale.localeconv()["decimal_point"] != "."
import mindtorch_v2 as torch
from mindtorch_v2.profiler import profile, record_function
with profile(record_shapes=True, activities=["cpu", "NPU"]) as prof:
    x = torch.full((2, 3), 0.25, requires_grad=True)
    with record_function("\\u0130\\u0131 I i"):
        y = torch.nn.functional.softplus(x).clamp(min=0.125, max=1e-7).add(1, alpha=2.5).sum()
    y.backward()
    torch.arange(0, 1, 0.125)
prof.export_chrome_trace(sys.argv[1])
for wrong in (lambda: torch.nn.functional.dropout(x, 1.5), lambda: torch.arange(0.5, 0, 1), lambda: torch.empty(3).uniform_(2.5, 1.5)):
    try:
        wrong()
    except (RuntimeError, ValueError) as error:
        print(error)
print(y.item(), x)
rows = [row.split()[:1] + row.split()[-1:] for row in prof.key_averages().table().splitlines()]
assert not any(row.count(",") for row in prof.key_averages().table().splitlines())
events = [e for e in json.load(open(sys.argv[1], encoding="utf-8"))["traceEvents"] if e.get("cat") == "cpu_op"]
print([(e["name"], e["args"].get("Concrete Inputs"), e["args"].get("Input Dims")) for e in events])
"""


@pytest.fixture(scope="module")
def locales(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locales")
    made = subprocess.run([ROOT / "tools" / "make_locales", folder], capture_output=True, text=True)
    if made.returncode == 77 and not os.environ.get("CI"):
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stderr
    return folder


def told(env, *args):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "0", **env}
    ran = subprocess.run([sys.executable, "-c", PROGRAM, *args], env=env, capture_output=True, text=True, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("name", LOCALES)
def test_a_program_with_a_decimal_comma_gets_what_others_get(locales, tmp_path, name):
    expected = told({"LC_ALL": "C.UTF-8"}, str(tmp_path / "plain.json"))
    assert "1.5" in expected and "0.125" in expected
    assert told({"LC_ALL": name, "LOCPATH": str(locales)}, str(tmp_path / "here.json")) == expected


@pytest.mark.parametrize("name", LOCALES)
def test_the_command_prints_the_same_in_every_locale(locales, name):
    command, trace = ROOT / "build" / "mtprof", ROOT / "tests/golden/torch/cpu_memory.json.gz"
    if not command.exists():
        pytest.skip("build/mtprof is not built")
    for verb in (["table"], ["info"], ["memory"], ["steps"], ["stats"], ["cut", "--time", "0.5ms-", "-o", "-"]):
        outputs = [subprocess.run([command, *verb, trace], capture_output=True,
                                  env={**os.environ, "LC_ALL": locale, "LOCPATH": str(locales)}) for locale in ("C", name)]
        assert outputs[0].returncode == outputs[1].returncode == 0, (verb, outputs[0].stderr)
        assert outputs[0].stdout == outputs[1].stdout and outputs[0].stderr == outputs[1].stderr
