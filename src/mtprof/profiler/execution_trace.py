"""ExecutionTraceObserver: PyTorch's execution trace (Chakra) of what runs between start() and stop()."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from typing import Any

import mtprof
from mtprof._native import write_file

from mtprof.profiler import session as prof
from mtprof.profiler.framework import GENERIC, Framework


class _ITraceObserver(ABC):
    """Notified when a profile starts, stops and ends."""

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def cleanup(self) -> None: ...


class ExecutionTraceObserver(_ITraceObserver):
    """Writes an execution trace to a file: register_callback(path), start(), stop(), unregister_callback().

    Passed to a profile, it shares the profile's recording; otherwise it records by itself.
    """

    _framework: Framework = GENERIC

    def __init__(self) -> None:
        self._registered = False
        self._execution_trace_running = False
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""
        self.output_file_path_observer = ""
        self._parts: list[Any] = []  # sessions and profiles that hold the recordings
        self._own: mtprof.Session | None = None
        self._pid = 0  # the process that last registered or started it: a forked child does not write its parent's file

    def __del__(self) -> None:
        if getattr(self, "_registered", False):
            self.unregister_callback()

    @classmethod
    def build_execution_trace_obs_from_env(cls) -> ExecutionTraceObserver | None:
        """An observer that writes to a temporary file if ENABLE_PYTORCH_EXECUTION_TRACE is 1, else None."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        try:
            with tempfile.NamedTemporaryFile("w+t", suffix=".et.json", delete=False) as file:
                name = file.name
        except Exception as e:
            warnings.warn(f"Execution trace will not be recorded. Exception on creating default temporary file: {e}", stacklevel=2)
            return None
        made = cls().register_callback(name)
        made.set_extra_resource_collection(os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0") == "1")
        return made

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Sets the output path; compressed if it ends in .gz. No effect if already registered."""
        if not self._registered:
            self.output_file_path = self.output_file_path_observer = os.fspath(output_file_path)
            self._registered = True
            self._pid = os.getpid()
        return self

    def unregister_callback(self) -> None:
        """Writes the file and forgets it."""
        if not self._registered:
            return
        self.stop()
        self._registered = False
        parts, self._parts = self._parts, []
        if self._pid == os.getpid():
            _write([part.trace() if isinstance(part, mtprof.Session) else part.trace for part in parts
                    if isinstance(part, mtprof.Session) or part._recorded], self.output_file_path)

    @property
    def is_registered(self) -> bool:
        """Returns True if the execution trace observer is registered, otherwise False."""
        return self._registered

    def is_running(self) -> bool:
        """Returns True if the observer is running, otherwise False."""
        return self._execution_trace_running

    def start(self) -> None:
        """Starts capturing."""
        if self._pid != os.getpid():
            self._pid, self._parts, self._own, self._execution_trace_running = os.getpid(), [], None, False
        if not self._registered or self._execution_trace_running:
            return
        current = prof.profile._current() if prof.profile._current is not None else None
        if current is None:
            self._own = prof.start_alone(self._framework, {"activities": mtprof.CPU | mtprof.NPU, "record_shapes": True})
        part = self._own if current is None else current
        if part not in self._parts:
            self._parts.append(part)
        self._execution_trace_running = True

    def stop(self) -> None:
        """Stops capturing."""
        if self._own is not None and self._pid == os.getpid():
            prof.stop_alone(self._own)
        self._own = None
        self._execution_trace_running = False

    def cleanup(self) -> None:
        """Calls unregister_callback() to make sure to finalize outputs."""
        self.unregister_callback()

    def get_output_file_path(self) -> str | None:
        """Returns the output file name or None."""
        return self.output_file_path or None

    # ------------------------------------------------------------------------------------------- resources

    def set_extra_resource_collection(self, val: bool) -> None:
        """Whether to create a folder for replay data beside the file. Nothing is generated here that would be stored in it."""
        self.extra_resources_collection = val
        if val:
            self.get_resources_dir(can_create=True)

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        if not self.extra_resources_collection:
            return None
        if not self.resources_dir:
            self.resources_dir = self.get_resources_dir_for_et_path(self.output_file_path, create_dir=can_create) or ""
        return self.resources_dir or None

    @staticmethod
    def get_resources_dir_for_et_path(trace_path: str, create_dir: bool = False) -> str | None:
        folder, name = os.path.split(trace_path)
        resources = os.path.join(folder, os.path.splitext(name)[0] + "_resources")
        if not os.path.exists(resources):
            if not create_dir:
                return None
            try:
                os.mkdir(resources)
            except OSError:
                warnings.warn(f"Execution trace exception when creating {resources}", stacklevel=2)
                return None
        return resources


def _root() -> dict[str, Any]:
    """The root node, as C writes it."""
    nothing: dict[str, list] = {"values": [], "shapes": [], "types": [], "strides": []}
    attributes = (("rf_id", "uint64", 0), ("fw_parent", "uint64", 0), ("seq_id", "int64", -1), ("scope", "uint64", 7), ("tid", "uint64", 0),
                  ("fw_tid", "uint64", 0), ("op_schema", "string", ""), ("kernel_backend", "string", ""), ("kernel_file", "string", ""),
                  ("tensor_range", "string", ""))
    return {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "inputs": nothing, "outputs": nothing,
            "attrs": [{"name": name, "type": kind, "value": value} for name, kind, value in attributes]}


def _write(traces: list[mtprof.Trace], path: str) -> None:
    """One trace as C writes it; none or several are merged into one file, with consecutive node ids."""
    if len(traces) == 1:
        traces[0].execution_trace(path)
        return
    now = time.time_ns() // 1_000_000
    whole: dict[str, Any] = {
        "schema": "1.1.1-chakra.0.0.4", "pid": os.getpid(), "time": time.strftime("%Y-%m-%d %H:%M:%S"), "start_ts": now,
        "nodes": [] if traces else [_root()], "finish_ts": now,
    }
    offset = 0
    for trace in traces:
        with tempfile.TemporaryDirectory() as folder:
            part = os.path.join(folder, "part.json")
            trace.execution_trace(part)
            with open(part, encoding="utf-8") as file:
                read = json.load(file)
        first, nodes = not whole["nodes"], read.pop("nodes")
        whole.update({key: value for key, value in read.items() if first or key == "finish_ts"})
        for node in nodes:
            if node["id"] == 1:  # the root, which all share
                if first:
                    whole["nodes"].append(node)
                continue
            node["id"] += offset
            node["ctrl_deps"] = node["ctrl_deps"] + offset if node["ctrl_deps"] > 1 else node["ctrl_deps"]
            whole["nodes"].append(node)
        offset = max((node["id"] for node in whole["nodes"]), default=1)
    text = json.dumps(whole).encode()
    write_file(path, gzip.compress(text) if path.endswith(".gz") else text)


mtprof.hide_file(_write.__code__.co_filename)
