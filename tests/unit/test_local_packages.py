"""Packages fetched once, whole and as pinned, whoever asks and however often it is interrupted; with the real pip."""

import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local import packages, tools
from deploy.local.errors import LocalError
from tests.unit.package_index import Index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    return Index(tmp_path / "index", monkeypatch)


def silent(_: str) -> None:
    pass


def test_every_package_is_pinned() -> None:
    for package in packages.catalogue().values():
        assert re.fullmatch(r"\d+(\.\d+)+", package.version)
        assert package.hashes
        assert all(re.fullmatch(r"[0-9a-f]{64}", each) for each in package.hashes)


def test_a_wheel_is_installed_once_and_named_while_it_is(index: Index, tmp_path: Path) -> None:
    package = index.wheel("thing", {"thing/bin/run": ("#!/bin/sh\n", 0o755)})
    said: list[str] = []
    folder = packages.ensure(tmp_path / "cache", package, said.append)
    assert os.access(folder / "thing" / "bin" / "run", os.X_OK)
    assert said == ["downloading thing 1.2, 1 MB"]
    again: list[str] = []
    assert packages.ensure(tmp_path / "cache", package, again.append) == folder
    assert again == []


def test_of_a_source_package_the_wanted_folder_lies_there_as_it_was(index: Index, tmp_path: Path) -> None:
    files = {"deps/bin/run": ("#!/bin/sh\n", 0o755), "deps/jars/a.jar": ("jar", 0o644), "thing/code.py": ("", 0o644)}
    folder = packages.ensure(tmp_path / "cache", index.source("thing", files, "deps"), silent)
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) == [
        "bin/run",
        "jars/a.jar",
    ]
    assert os.access(folder / "bin" / "run", os.X_OK)
    assert not os.access(folder / "jars" / "a.jar", os.X_OK)
    assert (folder / "jars" / "a.jar").read_text() == "jar"


@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_a_file_with_another_hash_is_refused_and_leaves_nothing(index: Index, tmp_path: Path, kind: str) -> None:
    files = {"deps/code": ("", 0o644)}
    made = index.wheel("thing", files) if kind == "wheel" else index.source("thing", files, "deps")
    with pytest.raises(LocalError, match=r"thing: pip could not fetch 1\.2:\n(.*\n)*.*(?i:hash)"):
        packages.ensure(tmp_path / "cache", replace(made, hashes=("0" * 64,)), silent)
    assert list((tmp_path / "cache" / "packages").iterdir()) == []


def test_another_version_lies_beside_it(index: Index, tmp_path: Path) -> None:
    package = index.wheel("thing", {"thing/code": ("", 0o644)})
    assert packages.place(tmp_path, package) != packages.place(tmp_path, replace(package, version="1.3"))
    assert packages.place(tmp_path, package) != packages.place(tmp_path, replace(package, hashes=("0" * 64,)))


def test_two_at_once_fetch_once(index: Index, tmp_path: Path) -> None:
    package = index.wheel("thing", {"thing/code": ("", 0o644)})
    said: list[str] = []
    threads = [
        threading.Thread(target=packages.ensure, args=(tmp_path / "cache", package, said.append)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(text.startswith("downloading") for text in said) == 1
    assert (packages.place(tmp_path / "cache", package) / "thing" / "code").exists()


def test_after_an_interruption_nothing_is_half_there(index: Index, tmp_path: Path) -> None:
    package = index.source("thing", {"deps/code": ("", 0o644)}, "deps")

    def interrupt(text: str) -> None:
        if text.startswith("unpacking"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        packages.ensure(tmp_path / "cache", package, interrupt)
    assert list((tmp_path / "cache" / "packages").iterdir()) == []
    assert (packages.ensure(tmp_path / "cache", package, silent) / "code").exists()


def test_the_draft_of_a_killed_process_is_cleared_away(index: Index, tmp_path: Path) -> None:
    package = index.wheel("thing", {"thing/code": ("", 0o644)})
    draft = tmp_path / "cache" / "packages" / f".{package.key}.12345"
    draft.mkdir(parents=True)
    packages.ensure(tmp_path / "cache", package, silent)
    assert not draft.exists()


def test_a_long_download_says_how_far_it_is(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "REPORT_SECONDS", 0.0)
    package = index.wheel("thing", {"thing/code": ("", 0o644)})
    said: list[str] = []
    packages.ensure(tmp_path / "cache", package, said.append)
    assert "downloading thing 1.2: 0 MB on disk" in said


def test_tools_are_told_by_their_folders(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = index.source("thing", {"deps/bin/spark-submit": ("", 0o755)}, "deps")
    monkeypatch.setattr(packages, "catalogue", lambda: {"spark": package})
    found = tools.ensure(tmp_path / "cache", {"spark"}, silent)
    assert {name: (folder / "bin" / "spark-submit").exists() for name, folder in found.items()} == {"spark": True}
