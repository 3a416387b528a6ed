"""Tests of mtprof with real PyTorch: run with PYTHONPATH=src after a build. `make test-pytorch` fetches PyTorch if need be."""
import os
import pathlib
import sys
import tempfile

# One collector for all tests, not the user's
os.environ.setdefault("MTPROF_CACHE", os.path.join(tempfile.gettempdir(), f"mtprof-test-cache-{os.geteuid()}"))
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "browser"))  # report_file
