"""PEP 517: meson-python, and what it leaves to us: the interpreter to build for, the command in editable installs, and the wheel of
mindtorch_v2 (packaging/mindtorch_v2/backend.py)."""
import contextlib
import pathlib
import sys
import tempfile

import mesonpy
import wheel_files

get_requires_for_build_sdist = mesonpy.get_requires_for_build_sdist
get_requires_for_build_wheel = mesonpy.get_requires_for_build_wheel
get_requires_for_build_editable = mesonpy.get_requires_for_build_editable
build_sdist = mesonpy.build_sdist


def _settings(given, *more):
    """The user's settings, and ours before them."""
    settings = dict(given or {})
    args = settings.get("setup-args", [])
    settings["setup-args"] = [f"-Dpython_path={sys.executable}", *more, *([args] if isinstance(args, str) else args)]
    return settings


@contextlib.contextmanager
def _outside(settings):
    """These settings with a build folder, by default a temporary one: meson-python's is in the checkout, which may be read-only."""
    with tempfile.TemporaryDirectory(prefix="mtprof-build-") as temporary:
        yield settings if settings.keys() & {"build-dir", "builddir"} else {**settings, "build-dir": temporary}


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with _outside(_settings(config_settings)) as settings:
        name = mesonpy.build_wheel(wheel_directory, settings, metadata_directory)
    wheel = wheel_files.read(pathlib.Path(wheel_directory) / name)
    wheel.prefer_own_libraries()
    return wheel.write(wheel_directory).name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """meson-python's, which has no scripts: with the command, which is run in the build folder."""
    settings = _settings(config_settings)
    if not settings.keys() & {"build-dir", "builddir"}:
        settings["build-dir"] = f"build-{sys.implementation.cache_tag}"
    build = pathlib.Path(settings.get("build-dir") or settings["builddir"]).absolute()
    name = mesonpy.build_editable(wheel_directory, settings, metadata_directory)
    wheel = wheel_files.read(pathlib.Path(wheel_directory) / name)
    quoted = str(build / "mtprof").replace("'", "'\\''")
    wheel.add(f"{wheel.stem}.data/scripts/mtprof", f"#!/bin/sh\nexec '{quoted}' \"$@\"\n".encode(), executable=True)
    return wheel.write(wheel_directory).name


def build_runtime_wheel(wheel_directory, folder, config_settings=None):
    """The same build with the tensor runtime; of its files, those of mindtorch_v2."""
    with tempfile.TemporaryDirectory() as temporary, _outside(_settings(config_settings, "-Druntime=enabled")) as settings:
        name = mesonpy.build_wheel(temporary, settings)
        wheel = wheel_files.read(pathlib.Path(temporary) / name)
    wheel.prefer_own_libraries()
    wheel.keep(lambda path: path.startswith("mindtorch_v2/"))
    wheel.files.pop(f"{wheel.info}/licenses/packaging/LICENSES-bundled")  # zlib and zstd are libmtprof's
    wheel.rename(folder, [f"mtprof == {wheel.version}", "numpy"])
    return wheel.write(wheel_directory).name
