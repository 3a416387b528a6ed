"""Messages between the loader and its workers: pickled objects over a pipe, with arrays and tensors out of band.

A message is a header (length of the pickle, count of buffers), the lengths of the buffers, the pickle, the buffers;
array data is read from the pipe directly into new memory. If the other end died, reading raises EOFError and writing
BrokenPipeError.
"""

import fcntl
import io
import os
import pickle
import select
import struct
from multiprocessing import reduction

import numpy

import mindtorch_v2 as torch

_HEADER = struct.Struct("<QQ")
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20


def _to_tensor(array, requires_grad, dtype=None):
    t = torch.from_numpy(array)
    return (t if dtype is None else t._as(dtype)).requires_grad_(requires_grad)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value):
        if type(value) is torch.Tensor:
            t, bits = value.detach().cpu(), value.dtype == torch.bfloat16  # NumPy has no bfloat16
            array = numpy.ascontiguousarray((t._as(torch.int16) if bits else t).numpy()).reshape(tuple(value.shape))
            return _to_tensor, (array, value.requires_grad and value.is_leaf, value.dtype if bits else None)
        return NotImplemented


def make_pipe():
    """(read end, write end) as file descriptors that are closed on exec."""
    ends = os.pipe()
    try:
        fcntl.fcntl(ends[1], _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # the system's limit is lower: slower, but works
    return ends


class End:
    """An end of a pipe for a process that is not forked: pickling transfers the descriptor to it."""

    def __init__(self, fd):
        self.fd = fd

    def __int__(self):
        return self.fd

    def __reduce__(self):
        return _arrived, (reduction.DupFd(self.fd),)


def _arrived(descriptor):
    return End(descriptor.detach())


def send(fd, value):
    buffers = []
    out = io.BytesIO()
    _Pickler(out, protocol=5, buffer_callback=buffers.append).dump(value)
    views = [buffer.raw() for buffer in buffers]
    sizes = struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
    _write(fd, memoryview(_HEADER.pack(out.tell(), len(views)) + sizes + out.getvalue()))
    for view in views:
        _write(fd, view)


def receive(fd):
    length, count = _HEADER.unpack(_read(fd, _HEADER.size))
    sizes = struct.unpack(f"<{count}Q", _read(fd, 8 * count))
    body = _read(fd, length)
    buffers = [_read(fd, size) for size in sizes]
    return pickle.loads(body, buffers=buffers)


def readable(fds, seconds):
    """The descriptors that are readable or at their end; empty after a timeout, in seconds."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(None if seconds is None else max(0, int(seconds * 1000)))]


def _write(fd, view):
    while view.nbytes:
        view = view[os.write(fd, view) :]


def _read(fd, size):
    memory = numpy.empty(size, numpy.uint8)  # not a bytearray, which would be zeroed first
    view = memoryview(memory)
    while view.nbytes:
        got = os.readv(fd, [view])
        if got == 0:
            raise EOFError("the other end was closed")
        view = view[got:]
    return memory
