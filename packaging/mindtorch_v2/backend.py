"""PEP 517: mindtorch_v2, from the checkout that this folder is in. There is no sdist of its own: mtprof's has everything."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import mtprof_backend  # noqa: E402

get_requires_for_build_wheel = mtprof_backend.get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel_directory = os.path.abspath(wheel_directory)
    os.chdir(HERE.parent.parent)
    return mtprof_backend.build_runtime_wheel(wheel_directory, HERE, config_settings)
