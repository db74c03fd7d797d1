"""Packages for pip to find in a folder, without any index: what the tests of fetching share."""

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy.local.packages import Package

VERSION = "1.2"
Files = dict[str, tuple[str, int]]  # text and mode by path
# A source package that can be asked for its metadata with nothing but itself.
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
BACKEND = """
import pathlib
def prepare_metadata_for_build_wheel(folder, settings=None):
    made = pathlib.Path(folder, "{name}-1.2.dist-info")
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.2\\n")
    return made.name
"""


class Index:
    """A folder of packages that pip is told to look in, and nowhere else."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def wheel(self, name: str, files: Files) -> Package:
        info = f"{name}-{VERSION}.dist-info"
        meta = {
            f"{info}/METADATA": (f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\n", 0o644),
            f"{info}/WHEEL": ("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", 0o644),
            f"{info}/RECORD": ("", 0o644),
        }
        path = self.folder / f"{name}-{VERSION}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as packed:
            for inside, (text, mode) in (files | meta).items():
                entry = zipfile.ZipInfo(inside)
                entry.external_attr = (0o100000 | mode) << 16
                packed.writestr(entry, text)
        return self._package(name, path)

    def source(self, name: str, files: Files, wanted: str) -> Package:
        built = {"pyproject.toml": (PROJECT, 0o644), "backend.py": (BACKEND.format(name=name), 0o644)}
        path = self.folder / f"{name}-{VERSION}.tar.gz"
        with tarfile.open(path, "w:gz") as packed:
            for inside, (text, mode) in (files | built).items():
                entry = tarfile.TarInfo(f"{name}-{VERSION}/{inside}")
                entry.size, entry.mode = len(text), mode
                packed.addfile(entry, io.BytesIO(text.encode()))
        return self._package(name, path, wanted)

    def _package(self, name: str, path: Path, wanted: str | None = None) -> Package:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return Package(package=name, version=VERSION, megabytes=1, hashes=(digest,), source=wanted)
