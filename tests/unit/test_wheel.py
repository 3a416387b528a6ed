#!/usr/bin/env python3
"""Unit: what `pip` installs works: the wheels, from the checkout and from the sdist, and editable installs; in environments without
a compiler, moved and copied, and for programs of other environments.

usage: tests/unit/test_wheel.py SOURCE              builds them: needs patchelf, and meson-python, which is
                                                    taken from PyPI where it is missing. Speaks TAP
       tests/unit/test_wheel.py SOURCE DIST         tests those that tools/release made, with every Python that they are for
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from programs import check, finish, said, skip, verbs

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "packaging"))
import wheel_files  # noqa: E402

MEGABYTE = 1 << 20
SHARE = {"bash-completion/completions/mtprof", "zsh/site-functions/_mtprof", "fish/vendor_completions.d/mtprof.fish",
         *(f"man/man1/{name}.1" for name in ("mtprof", *(f"mtprof-{verb}" for verb in verbs(SOURCE))))}
PROGRAM = """
import signal, sys
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(10), sys.prefix, signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN)
sys.exit(3)
"""
PROFILE = """
import sys
before = set(sys.modules)
import mtprof
ours = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
session = mtprof.Session(activities=mtprof.CPU, record_shapes=True)
session.prepare()
session.start()
with mtprof.record_function("forward"):
    mtprof.dispatch_op_exit(mtprof.dispatch_op_enter("aten::add", None, (), {}))
session.stop()
print(sorted(ours), mtprof.__version__)
print(session.trace().averages().table(sort_by="self_cpu_time_total"))
import importlib.util, os
spec = importlib.util.spec_from_file_location("collector", os.path.dirname(mtprof.__file__) + "/pytorch/collector.py")  # without torch
collector = importlib.util.module_from_spec(spec)
spec.loader.exec_module(collector)
print(*collector._sources(), sep="\\n")
"""
TENSORS = """
import sys
import mindtorch_v2 as torch
with torch.profiler.profile(record_shapes=True) as prof:
    (torch.ones(8, 8) @ torch.ones(8, 8)).sum()
print(torch.__file__, torch.__version__, "numpy" in sys.modules)
print(prof.key_averages().table())
"""
C_PROGRAM = """
#include <mtprof.h>
#include <stdio.h>
int main(void)
{
    MTP_SCOPE("compiled") puts(mtp_version());
    return 0;
}
"""


def environment(*path, **more):
    """Without anything that could lead to the checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MTPROF", "PYTHON", "PIP_", "LD_", "VIRTUAL_ENV", "DESTDIR", "NINJA"))}
    return {**kept, **({"PATH": ":".join(map(str, path))} if path else {}), **more}


def run(*command, cwd="/", env=None):
    return subprocess.run([str(word) for word in command], cwd=cwd, env=env or environment(), capture_output=True, text=True, timeout=7200)  # builds, on a busy machine


def without_compiler(root):
    """A folder with the few programs that the command needs."""
    folder = root / "few programs"
    folder.mkdir(exist_ok=True)
    for name in ("sh", "readlink"):
        if not (folder / name).exists():
            (folder / name).symlink_to(shutil.which(name))
    return folder


class Environment:
    """A virtual environment: a fresh one of this python, or, without, one that is there."""

    def __init__(self, folder, python=None, *options):
        self.folder, self.bin, self.python = folder, folder / "bin", folder / "bin" / "python3"
        self.made = run(python, "-m", "venv", *options, folder) if python else None

    def pip(self, *words, cwd="/", **more):
        return run(self.python, "-m", "pip", "--disable-pip-version-check", *words, cwd=cwd,
                   env=environment(self.bin, os.environ["PATH"], PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0", **more))

    def package(self, name="mtprof"):
        return next(self.folder.glob(f"lib*/python3*/site-packages/{name}"))


# ------------------------------------------------------------------------------------------------------ the file


def check_version():
    version = run(SOURCE / "tools" / "version").stdout.strip()
    header = (SOURCE / "include" / "mtprof.h").read_text()
    parts = [re.search(rf"#define MTP_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    check("the_version_is_the_header_s", version == ".".join(parts), version)
    places = [SOURCE / name for name in ("meson.build", "pyproject.toml", "packaging/mindtorch_v2/pyproject.toml", "docs/man/mtprof.txt")]
    places += [f for name in ("mtprof", "mindtorch_v2") for f in (SOURCE / "src" / name).rglob("*.py")] + list((SOURCE / "src").rglob("meson.build"))
    check("and_said_nowhere_else", not [f for f in places if version in f.read_text()], places)
    return version


def check_set_version(root):
    (root / "tools").mkdir(parents=True)
    shutil.copy(SOURCE / "tools/version", root / "tools")
    shutil.copytree(SOURCE / "include", root / "include")
    told = [run(root / "tools/version", "--set", new).stdout.strip() for new in ("12.0.34", "0.08.0", "1.2", "1.2.3rc1", "1.2.3\n4")]
    now = run(root / "tools/version").stdout.strip()
    check("a_version_that_c_would_not_read_is_refused", [*told, now] == ["12.0.34", "", "", "", "", "12.0.34"], (told, now))


def check_launcher(root):
    """Of several Pythons that share a folder, such as ~/.local, the command is that of the package that was installed last."""
    for number, python in enumerate(("3.9", "3.10", "3.12", "3.11")):
        folder = root / f"lib/python{python}/site-packages/mtprof/bin"
        folder.mkdir(parents=True)
        (folder / "mtprof").write_text(f'#!/bin/sh\necho {python} "$@"\n')
        (folder / "mtprof").chmod(0o755)
        os.utime(folder / "mtprof", (0, 10 ** 9 + number % 3))  # 3.12
    (root / "bin").mkdir()
    shutil.copy(SOURCE / "packaging/mtprof", root / "bin")
    done = run("sh", root / "bin/mtprof", "a b")
    check("the_command_is_that_of_the_last_installation", done.stdout == "3.12 a b\n", said(done))


def elf_files(folder):
    return [f for f in folder.rglob("*") if f.is_file() and not f.is_symlink() and f.open("rb").read(4) == b"\x7fELF"]


def check_file(path, version):
    """What the wheel of mtprof has, and how large it is."""
    names = set(zipfile.ZipFile(path).namelist())
    print(f"# {path.name}: {path.stat().st_size / MEGABYTE:.2f} MB")
    check("the_wheel_of_mtprof_has_at_most_3_mb", path.stat().st_size <= 3 * MEGABYTE, path.stat().st_size)
    ours = {p.relative_to(SOURCE / "src").as_posix() for kind in ("*.py", "*.pyi", "py.typed") for p in (SOURCE / "src/mtprof").rglob(kind)}
    wanted = ours | {f"mtprof/lib/libmtprof{part}" for part in (".so.0", "_run.so", "_itt.so", "_nvtx.so", "_malloc.so", "_mpi.so", "_nccl.so")}
    wanted |= {f"mtprof/include/{p.name}" for p in (SOURCE / "include").glob("mtprof*.h")}
    wanted |= {f"mtprof/pytorch/source/collect/torch/{p.name}" for p in (SOURCE / "src/collect/torch").iterdir() if p.suffix in (".cpp", ".h")}
    wanted |= {"mtprof/bin/mtprof", "mtprof/lib/pkgconfig/mtprof.pc", f"mtprof-{version}.data/scripts/mtprof"}
    wanted |= {f"mtprof-{version}.dist-info/licenses/{name}" for name in ("LICENSE", "packaging/LICENSES-bundled")}
    wanted |= {f"mtprof-{version}.data/data/share/{name}" for name in SHARE}
    check("it_has_all_files", wanted <= names, wanted - names)
    extra = [n for n in names if n.startswith("mindtorch") or n.endswith((".a", ".c", ".pyc"))]
    check("and_nothing_of_mindtorch_v2", not extra, extra)
    metadata = wheel_files.read(path).files[f"mtprof-{version}.dist-info/METADATA"][0].decode()
    check("it_needs_nothing", "Requires-Dist" not in metadata and "License-Expression: Apache-2.0" in metadata and "# mtprof" in metadata, metadata)


def check_libraries(package):
    """Its libraries find each other, need only the system's, and export only our names."""
    files = elf_files(package)
    dynamic = {f: run("readelf", "-d", f, env=environment(LC_ALL="C")).stdout for f in files}
    if not any(dynamic.values()):
        return skip("libraries", "readelf is not installed")
    paths = {f.name: re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", text) for f, text in dynamic.items()}
    bad = {name: found for name, found in paths.items() if any(not part.startswith("$ORIGIN") for one in found for part in one.split(":"))}
    check("rpaths_are_relative", files and not bad, paths)
    told = {f.name for f in files if re.search(rb"/include/python3|" + re.escape(f"{str(SOURCE)[1:]}/src/".encode()), f.read_bytes())}
    check("no_folder_of_the_machine_that_built_them_is_in_them", not told, told)
    needed = {name for text in dynamic.values() for name in re.findall(r"NEEDED\).*\[(.*)\]", text)}
    foreign = {n for n in needed if not re.match(r"(lib(c|m|gcc_s|dl|pthread|rt)\.so|ld-linux|libmtprof\.so\.0)", n)}
    check("only_the_system_s_libraries_are_needed", not foreign, needed)
    exported = run("nm", "-D", "--defined-only", package / "lib" / "libmtprof.so.0").stdout.split("\n")
    names = {line.split()[-1] for line in exported if line and " A " not in line}  # A: the node of the version script
    check("only_our_names_are_exported", names and all(name.startswith("mtp_") for name in names), [n for n in names if not n.startswith("mtp_")])
    versions = {tuple(map(int, v.split("."))) for f in files for v in re.findall(r"GLIBC_(2\.\d+)", run("objdump", "-T", f).stdout)}
    newest = max(versions, default=(0, 0))
    print(f"# glibc {'.'.join(map(str, newest))} or later: manylinux_{newest[0]}_{newest[1]}")
    if platform.libc_ver()[1] == "2.36":  # of later ones we do not know
        check("glibc_2_34_is_enough", newest <= (2, 34), newest)


# ------------------------------------------------------------------------------------------------------ installed


def recorded(env, work):
    told = run(env.bin / "mtprof", "stats", "--json", "--python-functions", "run.mtp", cwd=work)
    return {row["key"]: row["count"] for row in json.loads(told.stdout)} if told.returncode == 0 else said(told)


def check_run(name, env, work, python, *command):
    """`mtprof run` records the functions of a program of this python."""
    (work / "prog.py").write_text(PROGRAM)
    done = run(*(command or [env.bin / "mtprof"]), "run", "--", python, "prog.py", cwd=work, env=environment(env.bin, without_compiler(work.parent)))
    names = recorded(env, work)
    good = done.returncode == 3 and isinstance(names, dict) and names.get("prog.py(3): fib") == 177
    check(name, good and done.stdout.startswith("55 ") and done.stdout.endswith(" True\n"), (said(done), names))


def import_time(env):
    """Of `import mtprof`, in milliseconds: the least of many."""
    told = [run(env.python, "-I", "-X", "importtime", "-c", "import mtprof").stderr.splitlines()[-1] for _ in range(20)]
    return min(int(line.split("|")[1]) for line in told) / 1000


def check_installed(env, work, version):
    few = without_compiler(work.parent)
    done = run(env.python, "-c", PROFILE, cwd=work, env=environment(few))
    lines = done.stdout.splitlines()
    check("import_mtprof_profiles", done.returncode == 0 and "aten::add" in done.stdout and "forward" in done.stdout, said(done))
    check("and_imports_nothing_but_python", lines and lines[0] == f"['mtprof'] {version}", said(done))
    check("the_collector_s_sources_are_there", lines[-2:] and all(line.startswith(str(env.package())) for line in lines[-2:]), said(done))
    print(f"# import mtprof: {import_time(env):.2f} ms")
    check_run("mtprof_run_records_its_python", env, work, "python3")
    check_run("so_does_python_m_mtprof", env, work, "python3", env.python, "-m", "mtprof")
    other = work / "another"  # which cannot even be loaded
    other.mkdir(exist_ok=True)
    (other / "libmtprof.so.0").touch()
    check_run("it_takes_its_own_library_not_that_of_the_environment", env, work, "python3", "/usr/bin/env", f"LD_LIBRARY_PATH={other}", env.bin / "mtprof")
    done = run(env.bin / "mtprof", "info", env=environment(few))
    check("info_names_headers_and_collectors", done.returncode == 0 and f"PKG_CONFIG_PATH={env.package()}/lib/pkgconfig" in done.stdout and
          f"{env.package()}/lib/libmtprof_itt.so" in done.stdout and "scopes, Python, PyTorch, itt, nvtx" in done.stdout, said(done))


def check_c(env, work, where=""):
    """A program in C uses the library of the wheel."""
    (work / "program.c").write_text(C_PROGRAM)
    line = next((one.split(None, 1)[1] for one in run(env.bin / "mtprof", "info").stdout.splitlines() if one.startswith("  #include")), "false")
    done = run("sh", "-c", line.replace("PROGRAM.c", "program.c -o program"), cwd=work)
    ran = run(work / "program") if done.returncode == 0 else done
    check(f"a_program_in_c_compiles_as_info_says{where}", ran.returncode == 0, said(ran))
    done = run(env.bin / "mtprof", "run", "--", work / "program", cwd=work)
    check("and_is_recorded", recorded(env, work).get("compiled") == 1, said(done))


def check_places(root, env, work):
    """Environments that are moved and copied; programs of others."""
    other = Environment(root / "other", sys.executable, "--without-pip")
    check_run("programs_of_another_environment_are_recorded", env, work, other.python)
    system = shutil.which("python3", path="/usr/bin")
    if system and run(system, "-c", "import sys; print(sys.version_info[:2])").stdout == f"{sys.version_info[:2]}\n":
        check_run("those_of_the_system_s_python_too", env, work, system)
    copy, moved = Environment(root / "copy of it"), Environment(root / "moved")
    shutil.copytree(env.folder, copy.folder, symlinks=True)
    env.folder.rename(moved.folder)
    check_run("a_copied_environment_works", copy, work, copy.python)
    check_run("a_moved_one_works", moved, work, moved.python)
    moved.folder.rename(env.folder)


def check_ways(path, python, root, work):
    """pip's other ways to install, and other places."""
    ways = root / "ways"
    for way, *more in (("target",), ("prefix",), ("user", f"PYTHONUSERBASE={ways / 'user'}")):
        words = ["--user"] if way == "user" else [f"--{way}", ways / way]
        done = python.pip("install", "--no-deps", "--ignore-installed", *words, path, **dict(one.split("=", 1) for one in more))
        check(f"pip_installs_it_by_{way}", done.returncode == 0, said(done))
        check_run(f"a_{way}_works", Environment(ways / way), work, sys.executable)
    odd = Environment(ways / "ä place 日本", sys.executable)
    done = odd.pip("install", path)
    check("pip_installs_it_into_a_folder_with_spaces_and_letters", done.returncode == 0, said(done))
    check_run("which_works", odd, work, odd.python)
    check_run("also_in_the_c_locale", odd, work, odd.python, "/usr/bin/env", "LC_ALL=C", odd.bin / "mtprof")
    check_c(odd, work, "_there")
    check_links(path, ways, work)
    check_read_only_environment(odd, ways)


def check_links(path, ways, work):
    """As pipx links the command, and as uv installs with --link-mode symlink: every file is a link to one of a cache."""
    env, cache = Environment(ways / "linked", sys.executable, "--without-pip"), ways / "cache"
    with zipfile.ZipFile(path) as wheel:
        for one in wheel.infolist():
            mode = one.external_attr >> 16 & 0o777
            pathlib.Path(wheel.extract(one, cache)).chmod(mode or 0o644)
    site = next(env.folder.glob("lib/python3*/site-packages"))
    for file in (f for f in (cache / "mtprof").rglob("*") if f.is_file()):
        there = site / file.relative_to(cache)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.symlink_to(file)
    (env.bin / "mtprof").symlink_to(next(cache.glob("*.data/scripts/mtprof")))
    check_run("an_environment_of_links_works", env, work, env.python)
    (ways / "bin").mkdir()
    (ways / "bin" / "mtprof").symlink_to("../linked/bin/mtprof")
    check_run("and_a_link_to_its_command", env, work, env.python, ways / "bin" / "mtprof")


def check_read_only_environment(env, ways):
    """Nothing is written into an environment. Root may write anywhere: another user tries."""
    work, before = ways / "work", sorted(env.package().rglob("*"))
    work.mkdir()
    for folder, mode in (ways.parent, 0o755), (ways, 0o755), (work, 0o777):
        folder.chmod(mode)
    (work / "prog.py").write_text(PROGRAM)
    run("chmod", "-R", "a-w,a+rX", env.folder)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

    def as_nobody(*command):
        return subprocess.run(command, cwd=work, env=environment(HOME=str(work)), capture_output=True, text=True, **nobody)

    version = "import sys; sys.exit(sys.version_info[:2] != {})".format(sys.version_info[:2])
    pythons = [p for p in (env.python, "/usr/bin/python3") if os.path.exists(p) and as_nobody("sh", "-c", '"$0" -c "$1"', p, version).returncode == 0]
    done = as_nobody(env.bin / "mtprof", "run", "--", *pythons[:1], "prog.py")
    names = recorded(env, work)
    check("a_read_only_environment_works", done.returncode == 3 and isinstance(names, dict) and names.get("prog.py(3): fib") == 177, (said(done), names),
          skip="" if pythons else "this Python is root's alone")
    run("chmod", "-R", "u+w", env.folder)
    check("and_stays_as_it_is", sorted(env.package().rglob("*")) == before, set(env.package().rglob("*")) - set(before))


def tools_release():
    loader = importlib.machinery.SourceFileLoader("release", str(SOURCE / "tools" / "release"))
    release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(release)
    return release


def check_release_folder(root):
    """A folder may have other files: of these, none is removed, or counted to the release."""
    release, out = tools_release(), root / "Downloads"
    (out / "photos").mkdir(parents=True)
    for name in ("thesis.odt", "mtprof-notes.txt", "mtprof-0.0.9.tar.gz", "mtprof-0.0.9-source.tar.xz", "mindtorch_v2-0.0.9-cp311-none-any.whl", "SHA256SUMS"):
        (out / name).touch()
    release.clear(out)
    left = {path.name for path in out.iterdir()}
    check("a_release_removes_only_files_of_releases", left == {"photos", "thesis.odt", "mtprof-notes.txt"}, left)
    (out / "mtprof-0.1.0.tar.gz").touch()
    release.write_sums(out)
    check("and_sums_up_only_its_own", [line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()] == ["mtprof-0.1.0.tar.gz"])


def check_merged(path, env, root):
    """The wheel of a release has the extensions of several Pythons: here of this one and of an invented one."""
    release = tools_release()
    this, invented = wheel_files.read(path), wheel_files.read(path)
    tag = this.tags[0].split("-")[0]
    native = next(name for name in this.files if "/_native." in name and name.endswith(".so"))
    invented.files[native.replace(tag[2:], "399")] = invented.files.pop(native)
    invented.retag([this.tags[0].replace(tag, "cp399")])
    (root / "two").mkdir()
    merged = release.merge([path, invented.write(root / "two")], root / "two")
    check("wheels_of_several_pythons_become_one", merged.name.split("-")[2:4] == [f"{tag}.cp399", "none"] and
          len([n for n in zipfile.ZipFile(merged).namelist() if "/_native." in n]) == 3, merged.name)  # and _native.pyi
    done = env.pip("install", "--force-reinstall", merged)
    check("which_pip_takes", done.returncode == 0 and run(env.python, "-c", "import mtprof").returncode == 0, said(done))


def check_tensors(path, env, work, version):
    """The wheel of mindtorch_v2, beside mtprof's."""
    wheel = wheel_files.read(path)
    metadata = wheel.files[f"{wheel.info}/METADATA"][0].decode()
    print(f"# {path.name}: {path.stat().st_size / MEGABYTE:.2f} MB")
    check("mindtorch_v2_needs_mtprof_and_numpy", re.findall(r"Requires-Dist: (.*)", metadata) == [f"mtprof == {version}", "numpy"], metadata)
    check("it_says_what_it_is", "Description-Content-Type: text/markdown\n\n# mindtorch_v2\n" in metadata, metadata)
    check("and_has_no_file_of_mtprof", all(name.startswith(("mindtorch_v2/", wheel.info)) for name in wheel.files), list(wheel.files))
    ours = {p.relative_to(SOURCE / "src").as_posix() for kind in ("*.py", "py.typed") for p in (SOURCE / "src/mindtorch_v2").rglob(kind)}
    ours.add(f"{wheel.info}/licenses/LICENSE")
    check("but_all_of_its_own", ours | {"mindtorch_v2/__init__.pyi", "mindtorch_v2/lib/libmindtorch.so.0"} <= wheel.files.keys(), ours - wheel.files.keys())
    done = env.pip("install", "--no-deps", path)
    check("it_installs_beside_mtprof", done.returncode == 0, said(done))
    done = run(env.python, "-W", "error", "-c", TENSORS, cwd=work, env=environment(without_compiler(work.parent)))
    check("its_profiler_works_without_numpy", "aten::mm" in done.stdout and f"{version} False" in done.stdout, said(done))


# ------------------------------------------------------------------------------------------------------- building


def build_wheel(python, source, out, build, *more):
    done = python.pip("wheel", "--no-deps", "-w", out, f"--config-settings=build-dir={build}", *more, source)
    return done, next(out.glob("*.whl"), None)


READ_ONLY = """
import os, sys, types
folders = []
def build_wheel(directory, settings=None, metadata=None):
    folders.append(os.path.abspath(settings.get("build-dir", ".")))
    raise SystemExit(f"{folders[0]} {os.path.isdir(folders[0])}")
sys.modules["mesonpy"] = types.SimpleNamespace(build_wheel=build_wheel, build_sdist=None, **{
    f"get_requires_for_build_{kind}": None for kind in ("sdist", "wheel", "editable")})
sys.path[:0] = ["packaging"] if sys.argv[1] == "mtprof" else ["packaging", "packaging/mindtorch_v2"]
import mtprof_backend, importlib
importlib.import_module("mtprof_backend" if sys.argv[1] == "mtprof" else "backend").build_wheel("/")
"""


def check_read_only(python):
    """meson-python's default is a folder in the checkout, which may be read-only. With a meson-python that says what it is asked for."""
    for package in ("mtprof", "mindtorch_v2"):
        done = run(python.python, "-B", "-c", READ_ONLY, package, cwd=SOURCE)
        folder, _, there = done.stderr.strip().rpartition(" ")
        check(f"{package}_is_not_built_in_the_checkout", there == "True" and not pathlib.Path(folder).is_relative_to(SOURCE), said(done))


def build_sdist(python, out):
    if not (SOURCE / ".git").exists() or not shutil.which("git"):
        return skip("the_sdist", "this is not a git checkout")
    code = "import sys; sys.path.insert(0, 'packaging'); import mtprof_backend as b; b.build_sdist(sys.argv[1], {'build-dir': sys.argv[2]})"
    done = run(python.python, "-B", "-c", code, out, out / "build", cwd=SOURCE, env=environment(python.bin, os.environ["PATH"]))
    path = next(out.glob("*.tar.gz"), None)
    check("an_sdist_is_made", done.returncode == 0 and path, said(done))
    return path


def check_sdist(python, root, version):
    (root / "sdist").mkdir()
    path = build_sdist(python, root / "sdist")
    if path is None:
        return
    with tarfile.open(path) as sdist:
        names = sdist.getnames()
    check("it_has_the_sources_and_their_licence", {f"mtprof-{version}/{name}" for name in ("PKG-INFO", "LICENSE", "meson.build", "src/base/os.c")} <= set(names))
    done, wheel = build_wheel(python, path, root / "from sdist", root / "sdist" / "wheel", "--config-settings=setup-args=-Dbuildtype=debug")
    check("which_builds_by_itself", done.returncode == 0 and wheel, said(done)[-3000:])


def check_editable(python, work, build):
    done = python.pip("install", "--no-deps", f"--config-settings=build-dir={build}", "-e", SOURCE)
    check("an_editable_install_is_made", done.returncode == 0, said(done)[-3000:])
    done = run(python.python, "-c", "import mtprof, mtprof.profiler; print(mtprof.__file__)", cwd=work, env=environment(python.bin, os.environ["PATH"]))
    check("it_imports_the_checkout", done.stdout == f"{SOURCE}/src/mtprof/__init__.py\n", said(done))
    done = run(python.bin / "mtprof", "--version", env=environment(python.bin, os.environ["PATH"]))
    check("and_has_the_command", done.returncode == 0 and done.stdout.startswith("mtprof "), said(done))
    done = run(python.bin / "mtprof", "run", "--", python.python, "-c", "def f(): pass\nf()", cwd=work, env=environment(python.bin, os.environ["PATH"]))
    check("which_records", "<string>(1): f" in recorded(python, work), said(done))
    python.pip("uninstall", "-y", "mtprof")


def check_readme(python, work, build):
    """The lines for users of Python, as they are there."""
    text = (SOURCE / "README.md").read_text()
    block = re.search(r"^```sh\n(pip install .*?)^```$", text, re.M | re.S)
    lines = block[1].splitlines() if block else []
    for line in lines:
        done = run("sh", "-c", line, cwd=SOURCE if line.startswith("pip") else work, env=environment(
            python.bin, os.environ["PATH"], PIP_NO_INDEX="1", PIP_NO_BUILD_ISOLATION="0", PIP_NO_DEPS="1", PIP_CONFIG_SETTINGS=f"build-dir={build}"))
        check(f"readme_{line.partition('#')[0].strip().replace(' ', '_')}", done.returncode == 0, said(done)[-3000:])
    check("the_readme_has_lines_for_python", len(lines) >= 4, lines)


def can_build(python):
    """Or why not."""
    if run(python.python, "-c", "import mesonpy", env=environment(python.bin, os.environ["PATH"])).returncode != 0:
        if os.environ.get("MTP_TEST_OFFLINE"):
            return "meson-python is not installed for python3 (pip install meson-python)"
        done = run(python.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "meson-python", "ninja", env=None)
        if done.returncode != 0:
            return "meson-python is not installed for python3, and cannot be had from PyPI"
    return None if shutil.which("patchelf") else "patchelf is not installed"


def test_built(root, version):
    python = Environment(root / "builds", sys.executable, "--system-site-packages")
    why = python.made.returncode and "python3 -m venv fails (Debian: python3-venv)" or can_build(python)
    if why:
        return skip("wheels", why)
    work, build = root / "work", root / "build"
    work.mkdir()
    check_read_only(python)
    check_editable(python, work, build)  # first: a wheel's rpaths are not those of the build folder
    done, wheel = build_wheel(python, SOURCE, root / "wheels", build)
    check("a_wheel_is_built", done.returncode == 0 and wheel, said(done)[-3000:])
    if wheel is None:
        return None
    check_file(wheel, version)
    env = Environment(root / "installed", sys.executable)
    done = env.pip("install", wheel)
    check("pip_installs_it", done.returncode == 0, said(done))
    check_libraries(env.package())
    check_installed(env, work, version)
    check_c(env, work)
    check_places(root, env, work)
    check_ways(wheel, python, root, work)
    check_merged(wheel, env, root)
    check_sdist(python, root, version)
    done, tensors = build_wheel(python, SOURCE / "packaging" / "mindtorch_v2", root / "tensors", build)
    check("a_wheel_of_mindtorch_v2_is_built", done.returncode == 0 and tensors, said(done)[-3000:])
    if tensors is not None:
        check_tensors(tensors, env, work, version)
    check_readme(python, work, build)
    return None


# --------------------------------------------------------------------------------------------------- of a release


def test_released(root, dist, version):
    """With each interpreter that the wheel names, and none of its own: other Pythons are recorded, too."""
    wheel, tensors = (next(dist.glob(f"{name}-{version}-*.whl"), None) for name in ("mtprof", "mindtorch_v2"))
    check_file(wheel, version)
    check("it_was_made_with_opencl", "mtprof/lib/libmtprof_opencl.so" in zipfile.ZipFile(wheel).namelist())
    pythons = tools_release().interpreters() + [p for p in [shutil.which("python3", path="/usr/bin")] if p]
    work = root / "work"
    work.mkdir()
    for i, python in enumerate(pythons):
        print(f"# {run(python, '-VV').stdout.strip()}")
        env = Environment(root / f"env{i}", python)
        done = env.pip("install", wheel)
        check("pip_installs_it", done.returncode == 0, said(done))
        if done.returncode == 0:
            check_libraries(env.package())
            check_installed(env, work, version)
            for other in pythons:
                check_run("functions_of_another_python_are_recorded", env, work, other)
            if tensors is not None:
                check_tensors(tensors, env, work, version)


def main():
    version = check_version()
    with tempfile.TemporaryDirectory(prefix="mtprof-wheel-") as temporary:
        root = pathlib.Path(temporary).resolve()
        check_set_version(root / "a version")
        check_launcher(root / "launched here")
        check_release_folder(root)
        if len(sys.argv) > 2:
            test_released(root, pathlib.Path(sys.argv[2]).resolve(), version)
        else:
            test_built(root, version)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
