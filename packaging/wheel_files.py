"""Wheels as files: read, changed, written again with a new RECORD."""
import base64
import dataclasses
import hashlib
import pathlib
import struct
import zipfile

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

SINCE = (1980, 1, 1, 0, 0, 0)  # zip's first moment: the same files make the same wheel


@dataclasses.dataclass
class Wheel:
    name: str
    version: str
    tags: list  # ["cp311-cp311-linux_x86_64"]
    files: dict  # path: (bytes, whether it is executable), without RECORD

    @property
    def stem(self):
        return f"{self.name}-{self.version}"

    @property
    def info(self):
        return f"{self.stem}.dist-info"

    def add(self, path, content, executable=False):
        self.files[path] = content, executable

    def keep(self, wanted):
        """Only the files whose path is wanted, and the metadata."""
        self.files = {path: file for path, file in self.files.items() if path.startswith(self.info) or wanted(path)}

    def prefer_own_libraries(self):
        """RPATH, as linked, where patchelf, which meson-python runs, has made it RUNPATH: that comes after LD_LIBRARY_PATH."""
        self.files = {path: (_with_rpath(content), executable) for path, (content, executable) in self.files.items()}

    def rename(self, folder, requires):
        """Another distribution of the same version, after this folder's pyproject.toml."""
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        old, self.name = self.info, project["name"]
        self.files = {path.replace(old, self.info, 1): file for path, file in self.files.items()}
        lines = ["Metadata-Version: 2.4", f"Name: {self.name}", f"Version: {self.version}", f"Summary: {project['description']}",
                 f"Keywords: {','.join(project['keywords'])}", f"License-Expression: {project['license']}", "License-File: LICENSE",
                 *(f"Classifier: {one}" for one in project["classifiers"]), f"Requires-Python: {project['requires-python']}",
                 *(f"Requires-Dist: {one}" for one in requires), "Description-Content-Type: text/markdown", "",
                 (folder / project["readme"]).read_text(encoding="utf-8").rstrip("\n")]
        self.add(f"{self.info}/METADATA", ("\n".join(lines) + "\n").encode())

    def retag(self, tags):
        self.tags = tags
        lines = self.files[f"{self.info}/WHEEL"][0].decode().splitlines()
        lines = [line for line in lines if line and not line.startswith("Tag:")] + [f"Tag: {tag}" for tag in tags]
        self.add(f"{self.info}/WHEEL", ("\n".join(lines) + "\n").encode())

    def filename(self):
        parts = zip(*(tag.split("-") for tag in self.tags))
        return f"{self.stem}-{'-'.join('.'.join(dict.fromkeys(part)) for part in parts)}.whl"

    def write(self, folder):
        """The path of the new file."""
        record, path = f"{self.info}/RECORD", pathlib.Path(folder) / self.filename()
        lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, (content, _) in self.files.items()] + [f"{record},,"]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for name, (content, executable) in [*self.files.items(), (record, (("\n".join(lines) + "\n").encode(), False))]:
                entry = zipfile.ZipInfo(name, SINCE)
                entry.external_attr = (0o100755 if executable else 0o100644) << 16
                out.writestr(entry, content, zipfile.ZIP_DEFLATED)
        return path


def _with_rpath(content):
    """An ELF file whose entry RUNPATH is called RPATH; of other content, the same."""
    if not content.startswith(b"\x7fELF\x02\x01"):  # 64 bits, little-endian
        return content
    content, RPATH, RUNPATH, PT_DYNAMIC = bytearray(content), 15, 29, 2
    start, size, count = *struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54)
    for header in range(start, start + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, header)
        for entry in range(offset, offset + length, 16) if kind == PT_DYNAMIC else ():
            if struct.unpack_from("<Q", content, entry) == (RUNPATH,):
                struct.pack_into("<Q", content, entry, RPATH)
    return bytes(content)


def _digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def read(path):
    with zipfile.ZipFile(path) as wheel:
        files = {one.filename: (wheel.read(one), bool(one.external_attr >> 16 & 0o100)) for one in wheel.infolist() if not one.is_dir()}
    name, version = pathlib.Path(path).name.split("-")[:2]
    files.pop(f"{name}-{version}.dist-info/RECORD")
    told = files[f"{name}-{version}.dist-info/WHEEL"][0].decode().splitlines()
    return Wheel(name, version, [line[5:] for line in told if line.startswith("Tag: ")], files)
