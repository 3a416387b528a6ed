#!/usr/bin/env python3
"""Unit: programs and projects that use an installed libmtprof: by CMake, meson, make; from C99, C11, C++11, C++17 and C++20; with gcc and
clang; with the shared and the static library; and what the libraries export.

usage: tests/unit/test_consumers.py BUILD MESON     speaks TAP; what is not installed (CMake, clang, a C++ compiler) is skipped
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MAJOR, MINOR = (int(re.search(rf"#define MTP_VERSION_{part} (\d+)", (SOURCE / "include/mtprof.h").read_text())[1]) for part in ("MAJOR", "MINOR"))
HERE, NEWER, NEXT = f"{MAJOR}.{MINOR}", f"{MAJOR}.{MINOR + 1}", str(MAJOR + 1)
results = []
PROGRAM = """
#include <mtprof.h>
#include <stdio.h>

int main(void)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    mtp_token token;
    mtp_ledger ledger = MTP_LEDGER_INIT;
    if (mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK) {
        fprintf(stderr, "%s\\n", mtp_last_error());
        return 1;
    }
    token = mtp_scope_begin(MTP_NAME("scope"));
    mtp_scope_end(token);
    mtp_profile_stop(prof);
    mtp_profile_ledger(prof, &ledger);
    mtp_profile_destroy(prof);
    printf("%s %d\\n", mtp_version(), ledger.kept >= 2);
    return 0;
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(user {language})
find_package(mtprof HERE REQUIRED{parts})
add_executable(user program.{suffix})
target_link_libraries(user PRIVATE {target})
""".replace("HERE", HERE)
MESON = """
project('user', 'c', default_options: ['c_std=c11'])
executable('user', 'program.c', dependencies: dependency('mtprof'{how}))
"""
MAKEFILE = """
user: program.c
\t$(CC) $(CFLAGS) $< -o $@ $$(pkg-config --cflags --libs mtprof) -Wl,-rpath,$$(pkg-config --variable=libdir mtprof)
"""
PLUGIN = """
#include <mtprof.h>
static mtp_profile *prof;
int plugin_start(void);
int plugin_start(void)
{
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    return mtp_profile_create(&config, &prof) != MTP_OK || mtp_profile_start(prof) != MTP_OK;
}
void plugin_work(void);
void plugin_work(void)
{
    MTP_SCOPE("work") mtp_mark(MTP_NAME("mark"));
}
void plugin_stop(void);
void plugin_stop(void)
{
    mtp_profile_stop(prof);
    mtp_profile_destroy(prof);
}
"""
# It needs hardly anything of the library, and has a thread's last error there.
PLUGIN_THAT_FAILS = """
#include <mtprof.h>
int plugin_start(void);
int plugin_start(void)
{
    return 0;
}
void plugin_work(void);
void plugin_work(void)
{
    uint32_t activities;
    mtp_activity_parse("none of ours", &activities);
}
void plugin_stop(void);
void plugin_stop(void)
{
}
"""
# A thread that recorded in a plug-in ends after the plug-in was closed; so does the process, and a fork of it.
PLUGIN_HOST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void (*work)(void);
static pthread_barrier_t recorded, closed;

static void *thread(void *arg)
{
    work();
    pthread_barrier_wait(&recorded);
    pthread_barrier_wait(&closed);
    return arg;
}

int main(int argc, char **argv)
{
    pthread_barrier_init(&recorded, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    for (int i = 0; i < 5; i++) {
        int (*start)(void), status;
        void (*stop)(void);
        pthread_t t;
        void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL)
            return puts(dlerror()), 1;
        *(void **)&start = dlsym(plugin, "plugin_start");
        *(void **)&stop = dlsym(plugin, "plugin_stop");
        *(void **)&work = dlsym(plugin, "plugin_work");
        if (start() != 0)
            return 2;
        pthread_create(&t, NULL, thread, NULL);
        pthread_barrier_wait(&recorded);
        stop();
        dlclose(plugin);
        pthread_barrier_wait(&closed);
        pthread_join(t, NULL);
        if (fork() == 0)
            _exit(0);
        wait(&status);
        if (status != 0)
            return 3;
    }
    return 0;
}
"""
SEVERAL = """
import ctypes, os, sys
plugins = [ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL) for path in sys.argv[1:]]
started = [one.plugin_start() for one in plugins]
for one in plugins:
    one.plugin_work()
    one.plugin_stop()
print(*started)
"""
DIALECTS = [("c", "c99"), ("c", "c11"), ("c", "c17"), ("cpp", "c++11"), ("cpp", "c++17"), ("cpp", "c++20")]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("# " + str(more).replace("\n", "\n# ")[-4000:])


def skip(name, why):
    results.append(True)
    print(f"ok {len(results)} - {name} # SKIP {why}", flush=True)


def run(*command, cwd, **env):
    kept = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "DESTDIR", "CFLAGS", "LDFLAGS")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env={**kept, "LC_ALL": "C", **env}, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def fresh(root, name, **files):
    folder = root / name
    folder.mkdir()
    for file, text in files.items():
        (folder / file.replace("__", ".")).write_text(text)
    return folder


def works(program, folder, **env):
    code, out = run(program, cwd=folder, **env)
    return code == 0 and re.fullmatch(r"\d+\.\d+\.\d+ 1\n", out) is not None, out


def check_cmake(root, prefix, mindtorch):
    if not shutil.which("cmake"):
        return skip("cmake_finds_it", "CMake is not installed")
    kinds = [("C", "c", "mtprof::mtprof", ""), ("C", "c", "mtprof::static", "")]
    kinds += [("CXX", "cpp", "mtprof::mtprof", "")] if shutil.which("c++") else []
    kinds += [("C", "c", "mtprof::mindtorch", " COMPONENTS mindtorch")] if mindtorch else []
    for number, (language, suffix, target, parts) in enumerate(kinds):
        folder = fresh(root, f"cmake{number}", CMakeLists__txt=CMAKE.format(language=language, suffix=suffix, target=target, parts=parts),
                       **{f"program__{suffix}": PROGRAM})
        code, out = run("cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder)
        if code == 0:
            code, out = run("cmake", "--build", "b", cwd=folder)
        good, said = works("b/user", folder) if code == 0 else (False, out)
        check(f"cmake_{language}_with_{target}", good, said)
        if target == "mtprof::static" and code == 0:
            check("and_that_needs_no_shared_one", "libmtprof" not in run("readelf", "-d", "b/user", cwd=folder)[1])
    check_cmake_places(root, prefix)
    for version, name in (NEWER, "a_newer_version"), (NEXT, "another_major_version"):
        folder = fresh(root, f"cmake-{version}", CMakeLists__txt=CMAKE.format(language="C", suffix="c", target="mtprof::mtprof", parts="").replace(
            f"mtprof {HERE}", f"mtprof {version}"), program__c=PROGRAM)
        code, out = run("cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder)
        check(f"{name}_is_not_found", code != 0 and "requested version" in out, out)
    if not mindtorch:
        folder = fresh(root, "cmake-part", CMakeLists__txt=CMAKE.format(language="C", suffix="c", target="x", parts=" COMPONENTS mindtorch"),
                       program__c=PROGRAM)
        code, out = run("cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder)
        check("a_part_that_is_not_installed_is_named", code != 0 and "without its part 'mindtorch'" in " ".join(out.split()), out)


def check_cmake_places(root, prefix):
    """Where find_package looks, and what it can ask for."""
    (root / "merged").mkdir()
    (root / "merged/usr").symlink_to(prefix)
    for name in ("lib", "lib64", "bin"):  # as /lib is /usr/lib
        (root / "merged" / name).symlink_to(f"usr/{name}")
    for name, asked, place in (("where_lib_is_a_link_to_usr_lib", HERE, root / "merged"), ("its_part_static", "COMPONENTS static", prefix),
                               ("its_part_mtprof", "COMPONENTS mtprof", prefix), ("a_range_of_versions", f"{HERE}...{NEWER}", prefix)):
        text = CMAKE.format(language="C", suffix="c", target="mtprof::mtprof", parts="").replace(f"mtprof {HERE}", f"mtprof {asked}").replace("3.16", "3.19")
        folder = fresh(root, f"cmake-{name}", CMakeLists__txt=text, program__c=PROGRAM)
        code, out = run("cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={place}", cwd=folder)
        if code == 0:
            code, out = run("cmake", "--build", "b", cwd=folder)
        check(f"cmake_finds_{name}", code == 0 and works("b/user", folder)[0], out)
    config = next(prefix.rglob("mtprof-config.cmake")).parent  # without a language, CMake does not know Debian's lib/x86_64-linux-gnu
    for part in "mtprof", "static":  # a project of projects, or one in CUDA only
        text = CMAKE.format(language="NONE", suffix="c", target=f"mtprof::{part}", parts="").replace("add_exec", "enable_language(C)\nadd_exec")
        folder = fresh(root, f"cmake-none-{part}", CMakeLists__txt=text, program__c=PROGRAM)
        code, out = run("cmake", "-S", ".", "-B", "b", f"-Dmtprof_DIR={config}", cwd=folder)
        if code == 0:
            code, out = run("cmake", "--build", "b", cwd=folder)
        check(f"cmake_finds_its_part_{part}_before_any_language_is_enabled", code == 0 and works("b/user", folder)[0], out)
    version = next(prefix.rglob("mtprof-config-version.cmake"))
    folder = fresh(root, "versions", CMakeLists__txt="cmake_minimum_required(VERSION 3.19)\nproject(user C)\n" + "".join(
        f'find_package(mtprof {asked} QUIET)\nmessage("{asked} ${{mtprof_FOUND}}")\nunset(mtprof_DIR CACHE)\n'
        for asked in ("0.1...0.1.3", "0.1...<0.1.5", "0.1...0.1.5", "0.1.4...<0.2")))
    now = version.read_text()
    version.write_text(re.sub('PACKAGE_VERSION ".*"', 'PACKAGE_VERSION "0.1.5"', now))
    code, out = run("cmake", "-S", ".", "-B", "b", f"-DCMAKE_PREFIX_PATH={prefix}", cwd=folder)
    version.write_text(now)
    check("a_range_ends_where_it_says", re.findall(r"^0\.1.* (\d)$", out, re.M) == ["0", "0", "1", "1"], out)


def check_meson(root, meson, pkgconfig, lib):
    folder = fresh(root, "meson", meson__build=MESON.format(how=""), program__c=PROGRAM)
    code, out = run(*meson, "setup", "b", cwd=folder, PKG_CONFIG_PATH=str(pkgconfig))
    if code == 0:
        code, out = run(*meson, "compile", "-C", "b", cwd=folder)
    good, said = works("b/user", folder, LD_LIBRARY_PATH=str(lib)) if code == 0 else (False, out)
    check("meson_finds_it", good, said)
    folder = fresh(root, "wrap", meson__build=MESON.format(how=", fallback: ['mtprof', 'mtprof_dep']"), program__c=PROGRAM)
    (folder / "subprojects").mkdir()
    (folder / "subprojects/mtprof").symlink_to(SOURCE)
    code, out = run(*meson, "setup", "b", "--force-fallback-for=mtprof", "-Dmtprof:runtime=disabled", cwd=folder)
    if code == 0:
        code, out = run(*meson, "compile", "-C", "b", "user", cwd=folder)
    good, said = works("b/user", folder) if code == 0 else (False, out)
    check("meson_builds_it_as_a_subproject", good, said)


def check_compilers(root, pkgconfig):
    folder = fresh(root, "make", Makefile=MAKEFILE, program__c=PROGRAM)
    code, out = run("make", cwd=folder, PKG_CONFIG_PATH=str(pkgconfig))
    good, said = works("./user", folder) if code == 0 else (False, out)
    check("make_with_pkg_config", good, said)
    for c, cpp in ("gcc", "g++"), ("clang", "clang++"):
        for suffix, dialect in DIALECTS:
            compiler, name = c if suffix == "c" else cpp, f"{c}_{dialect}_pedantic".replace("+", "p")
            if not shutil.which(compiler):
                skip(name, f"{compiler} is not installed")
                continue
            folder = fresh(root, name, **{f"program__{suffix}": PROGRAM})
            flags = run("pkg-config", "--cflags", "--libs", "mtprof", cwd=folder, PKG_CONFIG_PATH=str(pkgconfig))[1].split()
            code, out = run(compiler, f"-std={dialect}", *WARNINGS, f"program.{suffix}", "-o", "user", *flags,
                            f"-Wl,-rpath,{pkgconfig.parent}", cwd=folder)
            good, said = works("./user", folder) if code == 0 else (False, out)
            check(name, good, said)
    folder = fresh(root, "static", program__c=PROGRAM)
    flags = run("pkg-config", "--static", "--cflags", "--libs", "mtprof", cwd=folder, PKG_CONFIG_PATH=str(pkgconfig))[1].split()
    flags = [str(pkgconfig.parent / "libmtprof.a") if flag == "-lmtprof" else flag for flag in flags]
    code, out = run("cc", "program.c", "-o", "user", *flags, cwd=folder)
    good, said = works("./user", folder) if code == 0 else (False, out)
    check("pkg_config_static", good, said)
    folder = fresh(root, "disabled", program__c="#include <mtprof.h>\nint main(void)\n{\n    MTP_SCOPE(\"x\") {\n    }\n    return 0;\n}\n")
    flags = run("pkg-config", "--cflags", "mtprof", cwd=folder, PKG_CONFIG_PATH=str(pkgconfig))[1].split()
    code, out = run("cc", "-DMTP_DISABLE", "-std=c11", *WARNINGS, "program.c", "-o", "user", *flags, cwd=folder)
    check("disabled_calls_need_the_headers_only", code == 0 and run("./user", cwd=folder)[0] == 0, out)


def check_plugins(root, lib, include):
    """Plug-ins that are closed while threads of the program have recorded in them."""
    folder = fresh(root, "plugins", plugin__c=PLUGIN, fails__c=PLUGIN_THAT_FAILS, host__c=PLUGIN_HOST)
    code, out = run("cc", "host.c", "-o", "host", "-pthread", "-ldl", cwd=folder)
    static = [lib / "libmtprof.a", "-lz", "-lzstd", "-lm"]
    for kind, libraries in ("shared", [f"-L{lib}", "-lmtprof", f"-Wl,-rpath,{lib}"]), ("static", static), ("failing", static):
        if code == 0:
            code, out = run("cc", "-shared", "-fPIC", "fails.c" if kind == "failing" else "plugin.c", "-o", f"{kind}.so", f"-I{include}", *libraries, "-pthread", "-ldl", cwd=folder)
        status, said = run("./host", f"./{kind}.so", cwd=folder) if code == 0 else (code, out)
        check(f"a_plug_in_with_the_{kind}_library_can_be_closed", status == 0, (status, said))
    plugins = [folder / f"{name}.so" for name in ("shared", "static", "another")]  # three copies in one process
    if plugins[1].exists():
        shutil.copy(plugins[1], plugins[2])
    code, out = run(sys.executable, "-c", SEVERAL, *plugins, cwd=folder)
    check("plug_ins_with_libraries_of_their_own_are_loaded_together", code == 0 and out == "0 0 0\n", out)


def check_exports(lib):
    for name, prefix in ("libmtprof.so", "mtp_"), ("libmindtorch.so", "mt_"):
        if not (lib / name).exists():
            continue
        code, out = run("nm", "-D", "--defined-only", "--with-symbol-versions", lib / name, cwd=lib)
        names = [line.split()[-1] for line in out.splitlines()]
        version = name[3:-3].upper() + "_0.1"
        strange = [n for n in names if n != f"{version}@@{version}" and n != version and not re.fullmatch(rf"{prefix}\w+@@{version}", n)]
        check(f"{name}_exports_only_{prefix}_names_with_a_version", code == 0 and len(names) > 100 and strange == [], strange or out)


def check_frozen(root, lib):
    """A program that was compiled with the headers of 0.1."""
    folder = fresh(root, "frozen")
    code, out = run("cc", "-std=c11", *WARNINGS, f"-I{SOURCE}/tests/abi/0.1", SOURCE / "tests/abi/program.c", "-o", "user", f"-L{lib}", "-lmtprof",
                    f"-Wl,-rpath,{lib}", cwd=folder)
    if code == 0:
        code, out = run("./user", cwd=folder)
    check("a_program_of_version_0.1_runs", code == 0 and out.endswith("all is well\n"), out)


def main(build, meson):
    meson = meson.split()
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary).resolve()
        code, out = run(*meson, "install", "-C", build, "--no-rebuild", "--destdir", root / "to", "--quiet", cwd=root)
        check("it_installs", code == 0, out)
        library = next((root / "to").rglob("libmtprof.so"))
        command = next((root / "to").rglob("bin/mtprof"))
        lib, prefix = library.parent, command.parent.parent
        moved = root / "moved"
        prefix.rename(moved)  # which the files of CMake and pkg-config must not mind
        lib = moved / lib.relative_to(prefix)
        check_exports(lib)
        check_frozen(root, lib)
        check_cmake(root, moved, (lib / "libmindtorch.so").exists())
        check_meson(root, meson, lib / "pkgconfig", lib)
        check_compilers(root, lib / "pkgconfig")
        check_plugins(root, lib, moved / "include")
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
