"""nvprof's databases as lists of events, with torch.autograd.profiler's names."""

from __future__ import annotations

from typing import Any

from mtprof.profiler.event import FunctionEvent
from mtprof.profiler.events import EventList


class EnforceUnique:
    """Raises an error if a key is seen more than once."""

    def __init__(self) -> None:
        self.seen: set[tuple] = set()

    def see(self, *key: Any) -> None:
        """Observe a key and raise an error if it is seen multiple times."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


def load_nvprof(path: Any) -> EventList:
    """Open an nvprof trace file and parses autograd annotations."""
    return EventList(parse_nvprof_trace(path))


_MARKERS = """
SELECT start.id AS id, start.name AS name, start.timestamp AS start, end.timestamp AS end
FROM CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS end ON start.id = end.id
WHERE start.name != 0 AND end.name = 0
"""
_KERNELS = """
SELECT start.id AS id, runtime._id_ AS runtime_id, runtime.cbid AS cbid,
       kernel.start AS start, kernel.end AS end, kernel.name AS name
FROM CUPTI_ACTIVITY_KIND_MARKER AS start
INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS end ON start.id = end.id
INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS runtime ON (start.timestamp < runtime.start AND runtime.end < end.timestamp)
INNER JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = runtime.correlationId
"""


def parse_nvprof_trace(path: Any) -> list[FunctionEvent]:
    """The annotated functions of an nvprof database, with their kernels."""
    import sqlite3

    with sqlite3.connect(path) as database:
        database.row_factory = sqlite3.Row
        names = {row["id"]: row["value"] for row in database.execute("SELECT _id_ AS id, value FROM StringTable")}
        markers, kernels = EnforceUnique(), EnforceUnique()
        functions: dict[int, FunctionEvent] = {}
        for row in database.execute(_MARKERS):
            markers.see(row["id"])
            functions[row["id"]] = FunctionEvent(id=row["id"], node_id=0, name=names[row["name"]], start_us=row["start"],
                                                 end_us=row["end"], thread=0)
        for row in database.execute(_KERNELS):
            kernels.see(row["id"], row["runtime_id"])
            if row["cbid"] != 211:  # cudaLaunchKernel
                raise AssertionError(f"Expected cbid to be 211, but got {row['cbid']}")
            functions[row["id"]].append_kernel(row["name"], 0, row["end"] - row["start"])
    return sorted(functions.values(), key=lambda event: event.time_range.start)
