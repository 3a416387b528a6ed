"""prof.trace: the whole recording as arrays, for tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mtprof

if TYPE_CHECKING:
    import numpy


class RecordedTrace:
    """A recording: columns() as NumPy arrays; averages(), events(), info() and exports are mtprof.Trace's."""

    def __init__(self, trace: mtprof.Trace) -> None:
        self._trace = trace

    def columns(self) -> dict[str, dict[str, numpy.ndarray]]:
        """{table: {column: array}}: read-only views of the recording, without a copy.

        spans has start and end (ns), name (see text()), parent, category ...; the other tables are memory, steps, details,
        tracks, shapes, stacks and instants. include/mtprof_trace.h describes each column.
        """
        import numpy

        return {table: {name: numpy.asarray(column) for name, column in columns.items()}
                for table, columns in self._trace.columns().items()}

    def text(self, id: int) -> str:
        """The text of an id in a column of names."""
        return self._trace.text(int(id))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trace, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._trace)})

    def __repr__(self) -> str:
        info = self._trace.info()
        return f"<RecordedTrace: {info['spans']} spans, {info['memory_events']} memory events>"
