"""Building once, whoever asks and however often it is interrupted; with a stand-in for the Go command."""

import os
import stat
import threading
from pathlib import Path

import pytest

from deploy.local import build, modules, toolchain
from deploy.local.errors import LocalError, UsageError
from deploy.local.toolchain import Go

SCRIPT = """#!/bin/sh
case "$1" in
env) echo "{version}"; echo linux; echo amd64 ;;
mod) echo "$4" >> "{calls}.mod"; echo '{{"GoMod": "{published}", "Dir": "/sources/'"$4"'"}}' ;;
build)
    echo "$@" >> "{calls}"
    echo example.org/some/package
    {build}
    while [ "$1" != -o ]; do shift; done
    echo built > "$2" ;;
esac
"""


class FakeGo:
    """A Go command that notes its builds in `calls`."""

    def __init__(self, folder: Path, *, version: str = "go1.26.8", then: str = ":") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.calls, self.command = folder, folder / "calls", folder / "go"
        published = folder / "published.mod"
        published.write_text("module m\n\ngo 1.26.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n")
        self.script(version, published, then)

    def script(self, version: str, published: Path, then: str) -> None:
        self.command.write_text(SCRIPT.format(version=version, published=published, calls=self.calls, build=then))
        self.command.chmod(self.command.stat().st_mode | stat.S_IXUSR)

    def builds(self) -> list[str]:
        return (
            [Path(line.split()[-1]).name for line in self.calls.read_text().splitlines()] if self.calls.exists() else []
        )


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    fake = FakeGo(tmp_path / "path")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    return fake


ALL = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"]


def test_everything_is_built_once_and_named_while_it_is(go: FakeGo, tmp_path: Path) -> None:
    said: list[str] = []
    built = build.ensure(tmp_path / "cache", None, said.append)
    assert sorted(built) == ALL
    assert all(path.read_text() == "built\n" for path in built.values())
    assert "6-9 minutes on two cores" in said[0]
    assert all(any(f"building {name} " in line for line in said) for name in ALL)
    again: list[str] = []
    assert build.ensure(tmp_path / "cache", None, again.append) == built
    assert again == []
    assert len(go.builds()) == 6


def test_another_version_is_built_beside_it(go: FakeGo, tmp_path: Path) -> None:
    first = build.ensure(tmp_path / "cache", None, lambda _: None)
    second = build.ensure(tmp_path / "cache", "v1.36.3", lambda _: None)
    assert {name for name in ALL if first[name] != second[name]} == {name for name in ALL if name.startswith("kube")}


def test_two_at_once_build_once(go: FakeGo, tmp_path: Path) -> None:
    threads = [threading.Thread(target=build.ensure, args=(tmp_path / "cache", None, lambda _: None)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(go.builds()) == 6


def test_a_failed_build_ends_with_the_tail_of_its_log_and_leaves_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FakeGo(tmp_path / "path", then="echo 'undefined: Frobnicate'; exit 2")
    monkeypatch.setenv("PATH", str(broken.folder))
    with pytest.raises(
        LocalError, match=r"kube-apiserver: go build failed; end of .*build\.log:\n(.*\n)*undefined: Frob"
    ):
        build.ensure(tmp_path / "cache", None, lambda _: None)
    assert [path.name for path in (tmp_path / "cache" / "programs").rglob("*") if path.is_file()] == ["build.log"]


def test_after_an_interruption_only_what_is_missing_is_built(
    go: FakeGo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(text: str) -> None:
        if text.startswith("[3/6] building"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build.ensure(tmp_path / "cache", None, interrupt)
    assert len(go.builds()) == 2
    build.ensure(tmp_path / "cache", None, lambda _: None)
    assert len(go.builds()) == 6


def test_an_interruption_ends_the_build_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = FakeGo(tmp_path / "path", then=f"echo $$ > {tmp_path}/pid; exec sleep 600")
    monkeypatch.setenv("PATH", f"{slow.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(build, "REPORT_SECONDS", 0.2)

    def interrupt(text: str) -> None:
        if "1 packages compiled" in text and (tmp_path / "pid").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build.ensure(tmp_path / "cache", None, interrupt)
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()
    assert not list((tmp_path / "cache" / "programs").rglob(".kube-apiserver*"))


def test_the_draft_of_a_killed_build_is_cleared_away(go: FakeGo, tmp_path: Path) -> None:
    built = build.ensure(tmp_path / "cache", None, lambda _: None)
    draft = built["kwok"].with_name(".kwok.12345")
    built["kwok"].rename(draft)
    build.ensure(tmp_path / "cache", None, lambda _: None)
    assert built["kwok"].exists()
    assert not draft.exists()


def test_operators_are_built_by_name_with_the_folder_of_their_sources(go: FakeGo, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    said: list[str] = []
    built = build.ensure_operators(cache, ["lws", "training"], said.append)
    assert list(built) == ["lws", "training"]
    assert all(each.binary.read_text() == "built\n" for each in built.values())
    origins = {name: module.origin(name)[0] for module in modules.operators() for name in module.programs}
    assert {name: str(each.sources) for name, each in built.items()} == {
        name: f"/sources/{origins[name]}" for name in built
    }
    assert "one to three minutes" in said[0]
    assert {each.name for each in build.operator_targets(cache) if each.binary.exists()} == {"lws", "training"}


def test_operators_that_share_a_go_mod_fetch_its_modules_once(go: FakeGo, tmp_path: Path) -> None:
    build.ensure_operators(tmp_path / "cache", ["jobset"], lambda _: None)
    build.ensure_operators(tmp_path / "cache", ["lws", "kuberay"], lambda _: None)
    fetched = [line for line in go.calls.with_name("calls.mod").read_text().splitlines() if "@" in line]
    [shared] = [each for each in modules.operators() if "jobset" in each.programs]
    assert fetched == [f"{path}@{version}" for path, version in shared.pins.items()]
    assert len(go.builds()) == 3


def test_an_operator_that_nobody_knows_is_refused_with_those_that_can_be_built(go: FakeGo, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="operator: 'kubelet' is none of jobset, .*spark"):
        build.ensure_operators(tmp_path / "cache", ["jobset", "kubelet"], lambda _: None)
    assert go.builds() == []


def test_without_a_go_no_operator_is_built_and_none_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build.operator_targets(tmp_path / "cache") == []
    assert not (tmp_path / "cache").exists()


def test_an_old_go_on_the_path_gives_way_to_the_cached_one(tmp_path: Path) -> None:
    FakeGo(tmp_path / "old", version="go1.22.1")
    cached = FakeGo(tmp_path / "cache" / "toolchain" / "go" / "bin", version="go1.27.3")
    found = toolchain.find_go(tmp_path / "cache", lambda _: None, search=str(tmp_path / "old"))
    assert found == Go(cached.command, "go1.27.3", "linux/amd64")


def test_a_go_that_is_new_enough_is_taken_from_the_path(go: FakeGo, tmp_path: Path) -> None:
    assert toolchain.find_go(tmp_path / "cache", lambda _: None).command == go.command
