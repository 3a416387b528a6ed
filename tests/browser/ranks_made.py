"""Jobs that never ran, as a report has them: what src/present/report/ranks_page.c writes, for any number of ranks and steps."""
import base64
import json
import random
import re
import zlib

COLUMNS = ("number", "wall", "compute", "exposed", "hidden", "waiting", "transfer", "copies", "idle", "late")
EXACT = 250000  # as in src/present/report/ranks_page.c


def zigzag(number):
    return 2 * number if number >= 0 else -2 * number - 1


def column(name, values):
    planes = max((value.bit_length() + 7) // 8 for value in values)
    return name.encode().ljust(8, b"\0") + len(values).to_bytes(4, "little") + bytes([planes, 0, 0, 0]) + b"".join(bytes(value >> 8 * plane & 255 for value in values) for plane in range(planes))


def made(ranks, steps, straggler=None, since=0, host="node%d", file="traces/rank%d.json.gz", notes=(), started=False, first=10):
    """The bytes of the part. steps 0: the traces have none, each is one."""
    chance, list_, columns = random.Random(7), [], {name: [] for name in COLUMNS}
    unit = 1000 if ranks * max(1, steps) > EXACT else 1
    for rank in range(ranks):
        sums = dict.fromkeys((*COLUMNS[1:], "communication"), 0)
        for step in range(max(1, steps)):
            late = 3_000_000 + chance.randrange(200_000) if rank == straggler and step >= since else chance.randrange(50_000)
            t = {"compute": 14_000_000 + late, "exposed": 5_000_000 - late, "hidden": 900_000, "copies": 20_000 + rank, "idle": 100_000 + chance.randrange(1000), "transfer": 1_200_000, "late": 0 if started else late}
            t["wall"] = t["compute"] + t["exposed"] + t["copies"] + t["idle"]
            t["waiting"] = t["exposed"] - t["transfer"]
            t["communication"] = t["exposed"] + t["hidden"]
            for name in sums:
                sums[name] += t[name]
            gap = (first if step == 0 else 1) if steps else -1
            for name, value in {**t, "number": gap - 1, "transfer": 0, "idle": 0}.items():
                if name in columns:
                    columns[name].append(zigzag(value if name == "number" else round(value / unit)))
        mean = {f"{name}_us": total // max(1, steps) / 1e3 for name, total in sums.items()}
        clock = {"by": "communication calls" if rank else "reference", "at_ns": "0", "offset_ns": 1000 * rank, "drift_ppm": 0.0, "error_ns": 2000 if rank else 0}
        list_.append({"rank": rank, "file": file % rank if "%d" in file else file, "host": host % (rank // 8) if "%d" in host else host, "job": "made", "backend": "nccl", "world_size": ranks, "pid": 1, "spans": 9, "clock": clock, "calls": 10,
                      "matched": 0 if started else 10, "last": 1, **({"only_started": True} if started else {}), "overlap": .5, "per_step": mean})
    title = {"id": "straggler", "title": f"Rank {straggler} is the straggler", "text": "It is late.", "rank": straggler, "since_step": first + since if since else -1, "per_step_us": 3000.0, "share": .15, "op": "", "op_us": 0}
    head = {"findings": [title] if straggler is not None else [], "notes": list(notes), "ranks": list_, "left_out": []}
    return json.dumps(head).encode() + b"\0" + column("count", [max(1, steps)] * ranks) + column("unit", [unit]) + b"".join(column(name, values) for name, values in columns.items())


def put_into(report, to, **job):
    """A copy of a report, with another job's ranks."""
    packed = base64.b64encode(zlib.compress(made(**job))).decode()
    to.write_text(re.sub(r'(id="ranks-0">)[^<]*', lambda found: found[1] + packed, report.read_text(encoding="utf-8")), encoding="utf-8")
    return to.as_uri()
