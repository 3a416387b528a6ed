"""How much memory this process uses."""
import gc
import os


def resident():
    """Bytes of this process that are in memory, after a garbage collection."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
