"""Tests of mtprof with real PyTorch: run with PYTHONPATH=src after a build. `make test-pytorch` fetches PyTorch if need be."""
import os
import tempfile

# One collector for all tests, not the user's
os.environ.setdefault("MTPROF_CACHE", os.path.join(tempfile.gettempdir(), f"mtprof-test-cache-{os.geteuid()}"))
