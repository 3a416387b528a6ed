"""Forks while other threads are inside the runtime: the child has all locks free, and can do everything by itself."""
import os
import subprocess
import sys

import pytest

PROGRAM = """if True:
    import os, signal, sys, threading, time
    import mindtorch_v2 as torch

    import mindtorch_v2.nn.functional
    torch.set_num_threads(2)
    weight = torch.ones(64, 64, requires_grad=True)

    def draw():
        torch.randn(500000), torch.randperm(300), torch.rand(3, 5).bernoulli_()

    def compute():
        (torch.ones(300000) + 1).sum().item()

    def differentiate():
        (weight.tanh() * weight).sum().backward()

    def allocate():
        [torch.empty(n) for n in range(1, 4000, 50)]

    def forget():
        torch.nn.functional.dropout(torch.ones(5000), 0.5)

    jobs = {"draw": draw, "compute": compute, "differentiate": differentiate, "allocate": allocate, "dropout": forget}
    others = [jobs[name] for name in sys.argv[1].split()]
    going = True

    def repeat(job):
        while going:
            job()

    threads = [threading.Thread(target=repeat, args=(job,)) for job in others]
    for t in threads:
        t.start()
    hung = 0
    for i in range(int(sys.argv[2])):
        time.sleep(0.001)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            for job in jobs.values():
                job()
            os._exit(0)
        hung += os.waitpid(child, 0)[1] != 0
        if hung:
            break
    going = False
    for t in threads:
        t.join()
    sys.exit(hung)
"""


@pytest.mark.parametrize("others", ["draw", "draw dropout", "compute", "differentiate differentiate", "allocate"])
def test_a_child_forked_while_other_threads_work_does_not_hang(others):
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM, others, "15"], env=environment, timeout=120)
    assert ran.returncode == 0


def test_the_child_draws_from_where_the_parent_was():
    code = """if True:
        import os, sys, threading
        import mindtorch_v2 as torch
        torch.manual_seed(3)
        torch.rand(5)
        expected = torch.randn(7).tolist()
        torch.manual_seed(3)
        torch.rand(5)
        child = os.fork()
        right = torch.randn(7).tolist() == expected
        if child == 0:
            os._exit(not right)
        sys.exit(os.waitpid(child, 0)[1] != 0 or not right)
    """
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
