"""prof.trace: the recording for tools that want all of it, as arrays."""

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
        """{table: {column: array}}: views of the recording itself, nothing is copied, nothing can be written.

        spans has start and end (ns), name (see text()), parent, category ...; memory, steps, details, tracks, shapes,
        stacks and instants are beside it. include/mtprof_trace.h tells what each column holds.
        """
        import numpy

        return {table: {name: numpy.asarray(column) for name, column in columns.items()}
                for table, columns in self._trace.columns().items()}

    def text(self, id: int) -> str:
        """What a number in a column of names stands for."""
        return self._trace.text(int(id))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trace, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._trace)})

    def __repr__(self) -> str:
        info = self._trace.info()
        return f"<RecordedTrace: {info['spans']} spans, {info['memory_events']} memory events>"
