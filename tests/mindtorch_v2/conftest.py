"""Tests of the Python package: run with PYTHONPATH=src after a build."""
import importlib.util
import locale
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "browser"))  # report_file


def pytest_configure(config):
    for folder in sys.path:  # a folder of that name would pass for PyTorch where there is none
        if (pathlib.Path(folder) / "torch").is_dir() and not (pathlib.Path(folder) / "torch/__init__.py").exists():
            raise pytest.UsageError(f"{folder}/torch is not PyTorch, but `import torch` would succeed: remove {folder} from sys.path")
    if importlib.util.find_spec("mindtorch_v2") is None:
        raise pytest.UsageError("mindtorch_v2 is not importable: run `make build`, then with PYTHONPATH=src")
    # Loaded under a decimal comma (make test-locale), PyTorch reads an argument's default of 0.01 as 0.
    ours = locale.setlocale(locale.LC_NUMERIC)
    if ours != "C" and importlib.util.find_spec("torch") is not None:
        locale.setlocale(locale.LC_NUMERIC, "C")
        import torch  # noqa: F401

        locale.setlocale(locale.LC_NUMERIC, ours)


@pytest.fixture(autouse=True)
def _leave_modes_as_they_were():
    """A failing test must not change the grad mode or the default dtype of the next one."""
    import mindtorch_v2 as torch

    before, dtype, device = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_default_device()
    yield
    torch._C._set_grad_enabled(before)
    torch.set_default_dtype(dtype)
    torch.set_default_device(device)


def pytest_generate_tests(metafunc):
    if "each_device" in metafunc.fixturenames:
        import mindtorch_v2 as torch

        metafunc.parametrize("each_device", ["cpu", "npu"] if torch.npu.is_available() else ["cpu"], indirect=True)


@pytest.fixture
def each_device(request):
    """The test runs once on each device that this machine has."""
    import mindtorch_v2 as torch

    torch.set_default_device(request.param)


@pytest.fixture
def fresh_warnings(monkeypatch):
    """Warnings that a process shows once are shown again in each test."""
    monkeypatch.setattr("mindtorch_v2.profiler.common._WARNINGS_SHOWN", set())


@pytest.fixture
def x():
    import mindtorch_v2 as torch

    return torch.ones(2, 3)
