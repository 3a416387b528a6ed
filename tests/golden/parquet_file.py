"""A small Parquet reader, written from the format's specification alone: only what mtprof writes, and it checks everything on the way.

read(path) returns the columns of a file as {name: list}, None where a value is missing.
"""
import ctypes
import ctypes.util
import struct
import zlib

TYPES = {0: "bool", 1: "int32", 2: "int64", 5: "double", 6: "bytes"}
ZSTD = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
ZSTD.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t


class Thrift:
    """The compact protocol: structs become {field: value}."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            b = self.byte()
            value |= (b & 0x7f) << shift
            shift += 7
            if b < 0x80:
                return value

    def zigzag(self):
        v = self.varint()
        return v >> 1 ^ -(v & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return struct.unpack("b", bytes([self.byte()]))[0]
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 8:
            length = self.varint()
            self.at += length
            return bytes(self.data[self.at - length:self.at])
        if kind == 9:
            head = self.byte()
            return [self.value(head & 15) for _ in range(head >> 4 if head >> 4 < 15 else self.varint())]
        assert kind == 12, kind
        return self.struct()

    def struct(self):
        fields, last = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            assert last not in fields
            fields[last] = self.value(head & 15)


def bits(data, at, count, width):
    """count values of width bits, lowest first; returns them and the bytes they take."""
    length = (count * width + 7) // 8
    word = int.from_bytes(data[at:at + length], "little")
    assert at + length <= len(data)
    return [word >> i * width & (1 << width) - 1 for i in range(count)], length


def hybrid(data, at, end, count, width):
    """RLE and bit-packed runs."""
    out = []
    while len(out) < count:
        t = Thrift(data, at)
        head = t.varint()
        at = t.at
        assert at < end or width == 0, "runs end early"
        if head & 1:
            values, length = bits(data, at, (head >> 1) * 8, width)
            assert any(values[count - len(out):]) is False, "padding is not zero"
        else:
            length = (width + 7) // 8
            values = [int.from_bytes(data[at:at + length], "little")] * (head >> 1)
            assert values and len(out) + len(values) <= count, "a run is too long"
        out += values
        at += length
    assert at == end, (at, end)
    return out[:count]


def delta(data, at, count, width):
    t = Thrift(data, at)
    block, miniblocks, total, value = t.varint(), t.varint(), t.varint(), t.zigzag()
    assert block % 128 == 0 and block // miniblocks % 32 == 0 and total == count
    per = block // miniblocks
    half, whole = 1 << width - 1, 1 << width
    out = [value]
    while len(out) < total:
        least = t.zigzag()
        widths = [t.byte() for _ in range(miniblocks)]
        for w in widths:
            assert w <= width
            if len(out) >= total:
                break
            values, length = bits(data, t.at, per, w)
            t.at += length
            for v in values[:total - len(out)]:
                value = (value + least + v + half) % whole - half
                out.append(value)
    assert t.at == len(data), "bytes after the last block"
    return out


def plain(data, at, count, kind):
    out = []
    if kind == "bool":
        values, length = bits(data, at, count, 1)
        out, at = [bool(v) for v in values], at + length
    elif kind == "bytes":
        for _ in range(count):
            length = int.from_bytes(data[at:at + 4], "little")
            out.append(data[at + 4:at + 4 + length].decode("utf-8"))   # a STRING is valid UTF-8
            assert at + 4 + length <= len(data)
            at += 4 + length
    else:
        out = list(struct.unpack_from(f"<{count}{'d' if kind == 'double' else 'q' if kind == 'int64' else 'i'}", data, at))
        at += count * (4 if kind == "int32" else 8)
    assert at == len(data), (at, len(data))
    return out


def page(data, at):
    """The header of a page, its uncompressed bytes, and where the next one is."""
    t = Thrift(data, at)
    head = t.struct()
    packed = data[t.at:t.at + head[3]]
    assert len(packed) == head[3] and zlib.crc32(packed) == head[4] & 0xffffffff, "CRC"
    room = ctypes.create_string_buffer(max(head[2], 1))
    assert ZSTD.ZSTD_decompress(room, head[2], bytes(packed), len(packed)) == head[2]
    return head, room.raw[:head[2]], t.at + head[3]


def unsigned(value, element):
    return value % (1 << 64) if element.get(6) == 14 else value


def check_statistics(meta, values, element, kind):
    s = meta[12]
    there = [v for v in values if v is not None]
    assert s[3] == len(values) - len(there), "null_count"
    if 5 not in s:
        assert not there or kind == "bytes" and max(len(v.encode()) for v in there) > 200 or any(v != v for v in there), (element, there[:3])
        return

    def read(raw):
        return raw.decode() if kind == "bytes" else unsigned(struct.unpack({"bool": "?", "int32": "<i", "int64": "<q", "double": "<d"}[kind], raw)[0], element)
    order = (lambda v: v.encode()) if kind == "bytes" else None
    assert read(s[6]) == min(there, key=order) and read(s[5]) == max(there, key=order), (element, read(s[6]), read(s[5]))


def chunk(data, part, element, rows):
    meta, kind, optional = part[3], TYPES[element[1]], element[3] == 1
    assert meta[1] == element[1] and meta[3] == [element[4]] and meta[4] == 6 and meta[5] == rows
    start = meta.get(11, meta[9])
    at, end, unpacked, dictionary, values, encodings = start, start + meta[7], 0, None, [], {3}
    while at < end:
        head, content, then = page(data, at)
        unpacked += then - at - head[3] + head[2]
        if head[1] == 2:
            assert dictionary is None and at == meta[11] and head[7][2] == 0
            dictionary = plain(content, 0, head[7][1], kind)
            assert len(set(dictionary)) == len(dictionary), "readers of dictionaries take equal members for one"
            encodings.add(0)
        else:
            assert dictionary is None or values or at == meta[9]
            count, encoding = head[5][1], head[5][2]
            encodings.add(encoding)
            present, at_value = [1] * count, 0
            if optional:
                at_value = 4 + int.from_bytes(content[:4], "little")
                present = hybrid(content, 4, at_value, count, 1)
            n = sum(present)
            if encoding == 8:
                found = [dictionary[i] for i in hybrid(content, at_value + 1, len(content), n, content[at_value])]
            elif encoding == 5:
                found = delta(content, at_value, n, 32 if kind == "int32" else 64)
            else:
                assert encoding == 0
                found = plain(content, at_value, n, kind)
            found = iter(found)
            values += [unsigned(next(found), element) if p else None for p in present] if kind == "int64" else [next(found) if p else None for p in present]
        at = then
    assert at == end and len(values) == rows and unpacked == meta[6] and encodings == set(meta[2]), (encodings, meta[2])
    check_statistics(meta, values, element, kind)
    return values


def footer(data):
    assert data[:4] == data[-4:] == b"PAR1"
    length = int.from_bytes(data[-8:-4], "little")
    t = Thrift(data, len(data) - 8 - length)
    meta = t.struct()
    assert t.at == len(data) - 8, "bytes after the footer"
    return meta


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    meta = footer(data)
    root, *elements = meta[2]
    assert root[5] == len(elements) == len(meta[7]) and meta[6].startswith(b"mtprof version ")
    out = {e[4].decode(): [] for e in elements}
    end = 4
    for group in meta[4]:
        assert len(group[1]) == len(elements) and group[3] > 0 and group[5] == end
        for part, element in zip(group[1], elements):
            first = part[3].get(11, part[3][9])
            assert first == end, "column chunks follow each other"
            end = first + part[3][7]
            out[element[4].decode()] += chunk(data, part, element, group[3])
        assert group[6] == end - group[5] and group[2] == sum(part[3][6] for part in group[1])
    assert all(len(values) == meta[3] for values in out.values()) and len(data) - 8 - int.from_bytes(data[-8:-4], "little") == end
    return out


def schema(path):
    """{column: (type, optional)} and the number of row groups."""
    with open(path, "rb") as file:
        meta = footer(file.read())
    return {e[4].decode(): (TYPES[e[1]], e[3] == 1) for e in meta[2][1:]}, len(meta[4])
