#!/usr/bin/env python3
"""Fork a Python program that is recording: usage: tests/stress/forks.py FORKS (PYTHONPATH: the packages)

No child hangs; none records by inheritance, but each can record on its own; the parent's recording stays complete.
"""
import os
import signal
import sys
import threading


def child(profile, record_function, tries_itself):
    signal.alarm(20)
    with record_function("of a child"):
        pass
    if tries_itself:
        with profile() as prof:
            with record_function("its own"):
                pass
        assert [row.count for row in prof.key_averages() if row.key == "its own"] == [1]
    os._exit(0)


def main(forks):
    import warnings
    from mindtorch_v2.profiler import ProfilerActivity, profile, record_function
    warnings.simplefilter("ignore")
    done, counts = threading.Event(), [0] * 4

    def work(k):
        while not done.wait(0.0002):        # else the buffer fills up before the forks are done
            for _ in range(10):
                with record_function("of a thread"):
                    counts[k] += 1

    with profile(activities=[ProfilerActivity.CPU], buffer_bytes="256M") as prof:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for i in range(forks):
            pid = os.fork()
            if pid == 0:
                try:
                    child(profile, record_function, i % 10 == 0)
                finally:
                    os._exit(1)
            status = os.waitpid(pid, 0)[1]
            assert status == 0, f"child {i}: {'it hung' if os.WIFSIGNALED(status) else 'it failed'}"
        done.set()
        for thread in threads:
            thread.join()
    rows = {row.key: row.count for row in prof.key_averages()}
    assert rows["of a thread"] == sum(counts) and "of a child" not in rows, rows
    print(f"row 7: {forks} runs: Python: no hang, all {sum(counts)} scopes of the parent kept", file=sys.stderr)
    print("1..1\nok 1 - forks_of_a_python_program")


if __name__ == "__main__":
    main(int(sys.argv[1]))
