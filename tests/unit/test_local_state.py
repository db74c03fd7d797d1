"""The state file: whole at any moment, and enough to tell an abandoned cluster from one that is in use."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from deploy.local import procfs, state, teardown
from deploy.local.errors import LocalError, NotFoundError, UsageError
from deploy.local.locking import locked
from deploy.local.paths import Home, home
from deploy.local.procfs import Identity
from deploy.local.roster import MARKER, Roster
from deploy.local.state import Phase, Run, State


def identity() -> Identity:
    mine = procfs.identify(os.getpid())
    assert mine is not None
    return mine


def dead() -> Identity:
    return msgspec.structs.replace(identity(), started=1)


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return Home(cache=tmp_path / "cache", state=tmp_path / "state")


def folder(place: Home, name: str, content: State) -> Path:
    layout = place.cluster(name)
    layout.root.mkdir(parents=True)
    state.save(layout.state, content)
    return layout.root


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    run = Run(("etcd", "--flag=1"), {"A": "b"}, "/log", identity())
    content = State(name="a", starter=dead(), ports={"etcd": 1}, tied=True, phase=Phase.UP, runs={"etcd": run})
    state.save(tmp_path / "state.json", content)
    assert state.load(tmp_path / "state.json") == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


def test_no_file_is_no_cluster_and_a_torn_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no cluster"):
        state.load(tmp_path / "state.json")
    (tmp_path / "state.json").write_text('{"name": 5')
    with pytest.raises(LocalError, match=r"state\.json"):
        state.load(tmp_path / "state.json")


@pytest.mark.parametrize(
    ("phase", "tied", "starter", "abandoned"),
    [
        (Phase.STARTING, False, dead, True),
        (Phase.STARTING, False, identity, False),
        (Phase.UP, False, dead, False),  # as every cluster that the command line brought up
        (Phase.UP, True, dead, True),
        (Phase.UP, True, identity, False),
    ],
)
def test_abandoned_is_what_nobody_would_take_down(phase: Phase, tied: bool, starter: object, abandoned: bool) -> None:
    assert State(name="a", starter=starter(), phase=phase, tied=tied).abandoned() is abandoned


def test_reap_takes_abandoned_clusters_and_leaves_the_others(place: Home) -> None:
    folder(place, "left", State(name="left", starter=dead()))
    folder(place, "used", State(name="used", starter=dead(), phase=Phase.UP))
    assert teardown.reap(place) == ["left"]
    assert teardown.listed(place) == ["used"]


def test_reap_waits_for_nobody_who_is_at_work(place: Home) -> None:
    folder(place, "busy", State(name="busy", starter=dead()))
    with locked(place.lock("busy")):
        assert teardown.reap(place) == []
    assert teardown.reap(place) == ["busy"]


def test_down_kills_also_what_is_on_no_record_and_nothing_else(place: Home) -> None:
    root = folder(place, "torn", State(name="torn", starter=dead()))
    place.cluster("torn").state.write_text("{")
    environment = {**os.environ, MARKER: str(root)}
    sleep = [sys.executable, "-c", "import signal; signal.pause()"]
    with subprocess.Popen(sleep, env=environment) as ours, subprocess.Popen(sleep) as stranger:
        try:
            teardown.down(place, "torn")
            assert ours.wait(timeout=10) == -9
            assert stranger.poll() is None
        finally:
            stranger.kill()
    assert not root.exists()


def test_down_of_what_is_not_there_is_not_found(place: Home) -> None:
    with pytest.raises(NotFoundError, match="no cluster 'nothing'"):
        teardown.down(place, "nothing")


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a" * 41, "../x", "a/b", "a.b"])
def test_a_name_that_is_no_label_is_refused(place: Home, name: str) -> None:
    with pytest.raises(UsageError, match="name: "):
        place.cluster(name)


def test_a_program_that_runs_is_not_enlisted_twice(place: Home) -> None:
    folder(place, "a", State(name="a", starter=identity(), ports={"etcd": 1, "etcd-metrics": 2}))
    roster = Roster.load(place.cluster("a"))
    process = roster.enlist("etcd", [sys.executable, "-c", "import signal; signal.pause()"])
    process.start(wait=False)
    try:
        with pytest.raises(LocalError, match=f"etcd runs already, as pid {process.pid}"):
            roster.enlist("etcd", ["true"])
        again = Roster.load(place.cluster("a"))
        assert again.pids() == {"etcd": process.pid}
        with pytest.raises(NotFoundError, match="'kwok' is none of etcd"):
            again.get("kwok")
    finally:
        process.kill()
    assert Roster.load(place.cluster("a")).pids() == {}


def test_folders_follow_the_environment(tmp_path: Path) -> None:
    assert home({"GANGGATE_CACHE": "/c", "GANGGATE_STATE": "/s"}) == Home(Path("/c"), Path("/s"))
    assert home({"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}) == Home(Path("/c/ganggate"), Path("/s/ganggate"))
    assert home({}) == Home(Path.home() / ".cache/ganggate", Path.home() / ".local/state/ganggate")
