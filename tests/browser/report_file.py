"""A report as data: what src/present/report/*.c wrote, read without a browser."""
import base64
import json
import re
import zlib


class Report:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.html = file.read()
        self.blobs = {}
        for name, text in re.findall(r'<script type="application/octet-stream" id="([a-z_]+-\d)">([A-Za-z0-9+/=]*)</script>', self.html):
            assert name not in self.blobs, f"{name} is there twice"
            self.blobs[name] = zlib.decompress(base64.b64decode(text, validate=True))
        # what is left must be the page itself
        self.page = re.sub(r'<script type="application/octet-stream"[^>]*>[^<]*</script>\n?', "", self.html)

    def json(self, name):
        return json.loads(self.blobs[name].decode("utf-8"))

    def columns(self, name, after_json=False):
        """[(column, numbers)...], and the JSON in front of them."""
        data, head = self.blobs[name], None
        if after_json:
            text, _, data = data.partition(b"\0")
            head = json.loads(text.decode("utf-8"))
        columns, at = [], 0
        while at < len(data):
            label, count, planes = data[at:at + 8].rstrip(b"\0").decode(), int.from_bytes(data[at + 8:at + 12], "little"), data[at + 12]
            at += 16
            numbers = [0] * count
            for plane in range(planes):
                part = data[at:at + count]
                assert len(part) == count, f"{name}: {label} is cut"
                at += count
                if any(part):
                    shift = 8 * plane
                    for i, byte in enumerate(part):
                        if byte:
                            numbers[i] |= byte << shift
            columns.append((label, numbers))
        return (columns, head) if after_json else columns

    def spans(self, trace=0):
        """[(row, level, start, duration, name, category)...]; times in ns since the trace's first event."""
        head, labels, columns = self.json(f"head-{trace}"), self.json(f"labels-{trace}"), dict(self.columns(f"spans-{trace}"))
        made, at = [], 0
        for number, row in enumerate(head["rows"]):
            open_, deepest = [], 0
            for i in range(at, at + row["count"]):
                level = len(open_) - columns["pop"][i]
                start = open_[level][1] if columns["pop"][i] > 0 else open_[level - 1][0] if level > 0 else 0
                start += unzigzag(columns["gap"][i])
                del open_[level:]
                open_.append((start, start + columns["dur"][i]))
                name, category = labels[columns["label"][i]][:2]
                made.append((number, level, start, columns["dur"][i], name, category))
                deepest = max(deepest, level + 1)
            assert deepest == row["depth"], (deepest, row)
            at += row["count"]
        assert at == len(columns["pop"]) == head["shown"]
        return made


def unzigzag(number):
    return number >> 1 if number % 2 == 0 else -(number + 1 >> 1)
