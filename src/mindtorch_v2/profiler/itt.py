"""Ranges and marks for Intel VTune, with torch.profiler.itt's names."""

from mtprof.itt import is_available, mark, range, range_pop, range_push

__all__ = ["is_available", "range_push", "range_pop", "mark", "range"]
