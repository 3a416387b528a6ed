#!/usr/bin/env python3
"""Unit: a C++ program whose callbacks throw. The exception reaches whoever called us, and later profiles work.

usage: tests/unit/test_exceptions.py INCLUDE_DIR SHARED_LIB [FLAG...]     speaks TAP; flags are the compiler's
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

INCLUDE, LIB = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()

PROGRAM = r"""
#include <mtprof.h>
#include <pthread.h>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <stdexcept>

static int throws_left, ready;
#define CHECK(cond) do { if (!(cond)) { std::printf("line %d: %s: %s\n", __LINE__, #cond, mtp_last_error()); return 1; } } while (0)

static void maybe_throw(const char *what) { if (throws_left > 0) { throws_left--; throw std::runtime_error(what); } }
static void on_ready(mtp_profile *, void *) { ready++; maybe_throw("ready"); }
static void on_warning(void *, mtp_warning, const char *) { maybe_throw("warning"); }
static mtp_action by_step(void *, uint64_t step) { if (step == 1) maybe_throw("schedule"); return step % 2 ? MTP_ACTION_RECORD_AND_SAVE : MTP_ACTION_RECORD; }

template <class F> static bool throws(F call) { throws_left = 1; try { call(); } catch (const std::runtime_error &) { return true; } return false; }

static int plain(void)
{
    mtp_profile *prof;
    CHECK(mtp_profile_create(nullptr, &prof) == MTP_OK);
    CHECK(mtp_profile_start(prof) == MTP_OK);
    MTP_SCOPE("plain") {}
    CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger l = MTP_LEDGER_INIT;
    CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.emitted == 3 && l.kept == 3);
    mtp_profile_destroy(prof);
    return 0;
}

static int ready_throws_in_stop(void)
{
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    c.on_trace_ready = on_ready;
    CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(mtp_profile_start(prof) == MTP_OK);
        CHECK(throws([&] { mtp_profile_stop(prof); }));
        CHECK(!mtp_profile_is_recording(prof) && mtp_recording() == 0);
        if (plain()) return 1;
    }
    mtp_profile_destroy(prof);
    return plain();
}

static int ready_throws_in_step(void)
{
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    c.on_trace_ready = on_ready;
    std::memset(&c.schedule, 0, sizeof c.schedule);
    c.schedule.warmup = 1;
    c.schedule.active = 1;
    CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    ready = 0;
    CHECK(mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 10; i++) {
        if (i % 2 == 1)
            CHECK(throws([&] { mtp_profile_step(prof); }));
        else
            CHECK(mtp_profile_step(prof) == MTP_OK);
        CHECK(mtp_profile_step_number(prof) == (uint64_t)i + 1);
        CHECK(mtp_profile_is_recording(prof) == (i % 2 == 0));
    }
    CHECK(ready == 5);
    throws_left = 0;
    CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
    return plain();
}

static int others_throw(void)
{
    mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *prof;
    c.on_warning = on_warning;
    c.chunk_bytes = 4096;
    c.buffer_bytes = 4 * 4096; /* records are dropped: a warning after the stop */
    CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    CHECK(mtp_profile_start(prof) == MTP_OK);
    for (int i = 0; i < 5000; i++) MTP_SCOPE("many") {}
    CHECK(throws([&] { mtp_profile_stop(prof); }));
    if (plain()) return 1;
    mtp_profile_destroy(prof);
    c = MTP_PROFILE_CONFIG_INIT;
    c.schedule_callback = by_step;
    CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
    CHECK(mtp_profile_start(prof) == MTP_OK);
    CHECK(throws([&] { mtp_profile_step(prof); }));
    CHECK(mtp_profile_step(prof) == MTP_OK);
    CHECK(mtp_profile_stop(prof) == MTP_OK);
    mtp_profile_destroy(prof);
    return plain();
}

static uint64_t frame;
static uint32_t capture(void *, uint64_t *frames, uint32_t) { frames[0] = frame; maybe_throw("capture"); return 1; }
static void describe(void *, uint64_t, char *out, size_t room) { std::snprintf(out, room, "f.py:1:f"); maybe_throw("describe"); }
static void one_scope(void) { MTP_SCOPE("scope") {} }

/* The frame is known: only capture is called; it is not: only describe throws. */
static int a_stack_provider_throws(void)
{
    mtp_stack_provider p = {sizeof p, capture, [](void *, uint64_t, char *out, size_t room) { std::snprintf(out, room, "f.py:1:f"); }, NULL};
    mtp_stack_provider q = {sizeof q, [](void *, uint64_t *frames, uint32_t) { frames[0] = ++frame; return 1u; }, describe, NULL};
    for (const mtp_stack_provider &one : {p, q}) {
        mtp_profile_config c = MTP_PROFILE_CONFIG_INIT;
        mtp_profile *prof;
        mtp_ledger l = MTP_LEDGER_INIT;
        sigset_t blocked;
        int cancel;
        c.with_stack = true;
        CHECK(mtp_stack_provider_set(&one) == MTP_OK);
        CHECK(mtp_profile_create(&c, &prof) == MTP_OK);
        CHECK(mtp_profile_start(prof) == MTP_OK);
        CHECK(throws(one_scope));
        one_scope();
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
        CHECK(!sigismember(&blocked, SIGUSR1) && cancel == PTHREAD_CANCEL_ENABLE);
        CHECK(mtp_profile_stop(prof) == MTP_OK);
        CHECK(mtp_profile_ledger(prof, &l) == MTP_OK && l.kept == 3 && l.emitted == l.kept + l.dropped);
        mtp_profile_destroy(prof);
    }
    return 0;
}

int main(int, char **argv)
{
    if (!std::strcmp(argv[1], "a_stack_provider_throws")) return a_stack_provider_throws();
    if (!std::strcmp(argv[1], "ready_throws_in_stop")) return ready_throws_in_stop();
    if (!std::strcmp(argv[1], "ready_throws_in_step")) return ready_throws_in_step();
    return others_throw();
}
"""
CASES = ("ready_throws_in_stop", "ready_throws_in_step", "others_throw", "a_stack_provider_throws")


def main():
    compiler = shutil.which("g++") or shutil.which("clang++")
    print(f"1..{len(CASES)}")
    if compiler is None:
        for n, case in enumerate(CASES, 1):
            print(f"ok {n} {case} # SKIP no C++ compiler")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "throws.cpp"), pathlib.Path(folder, "throws")
        source.write_text(PROGRAM)
        built = subprocess.run([compiler, "-std=c++17", "-O1", *sys.argv[3:], f"-I{INCLUDE}", str(source), "-o", str(program), str(LIB),
                                f"-Wl,-rpath,{LIB.parent}"], capture_output=True, text=True)
        for n, case in enumerate(CASES, 1):
            if built.returncode != 0:
                print(f"not ok {n} {case}\n# {built.stderr[:2000]}")
                failed += 1
                continue
            try:
                ran = subprocess.run([str(program), case], capture_output=True, text=True, timeout=30)
                good, said = ran.returncode == 0, f"{ran.returncode}: {ran.stdout}{ran.stderr}"
            except subprocess.TimeoutExpired:
                good, said = False, "it hung"
            print(f"{'ok' if good else 'not ok'} {n} {case}")
            if not good:
                print("# " + said.replace("\n", "\n# "))
            failed += not good
    return failed != 0


sys.exit(main())
