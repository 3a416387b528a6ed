"""Packages that were built for another Python, or not at all, report it."""
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHER = "cpython-399-x86_64-linux-gnu"


def error_of(folder, package):
    ran = subprocess.run([sys.executable, "-c", f"import {package}"], env={**os.environ, "PYTHONPATH": str(folder)}, cwd=folder,
                         capture_output=True, text=True)
    assert ran.returncode != 0
    return ran.stderr.splitlines()[-1]


@pytest.fixture
def packages(tmp_path):
    subprocess.run([ROOT / "tools" / "place_python", "--packages", ROOT / "src", tmp_path], check=True)
    return tmp_path


@pytest.mark.parametrize("package, extension", [("mtprof", "_native"), ("mindtorch_v2", "_C")])
def test_the_error_names_what_is_wrong(packages, package, extension):
    suffix, folder = sysconfig.get_config_var("EXT_SUFFIX"), packages / package
    if package == "mindtorch_v2":
        source = next(pathlib.Path(ROOT / "src" / "mtprof").glob(f"_native{suffix}"))
        (packages / "mtprof" / source.name).symlink_to(source)
    said = error_of(packages, package)
    assert said.startswith("ImportError") and "circular" not in said and "make build" in said
    assert f"{package}.{extension} is not built" in said
    (folder / f"{extension}.{OTHER}.so").write_bytes(b"another's")
    said = error_of(packages, package)
    assert "circular" not in said and OTHER in said and sysconfig.get_config_var("SOABI") in said and sys.executable in said
    (folder / f"{extension}{suffix}").write_bytes(b"broken")
    said = error_of(packages, package)
    assert "circular" not in said and "make build" in said and str(folder) in said


def test_linked_packages_are_those_of_the_source(packages):
    there = {str(f.relative_to(packages)) for f in packages.rglob("*.py")}
    assert there == {str(f.relative_to(ROOT / "src")) for p in ("mtprof", "mindtorch_v2") for f in (ROOT / "src" / p).rglob("*.py")}
    (packages / "mtprof" / "gone.py").symlink_to(ROOT / "src" / "mtprof" / "gone.py")
    subprocess.run([ROOT / "tools" / "place_python", "--packages", ROOT / "src", packages], check=True)
    assert not (packages / "mtprof" / "gone.py").is_symlink()
