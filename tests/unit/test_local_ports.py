"""Ports: reserved once, whoever reserves at the same moment; given back; stale claims taken over."""

import socket
import threading
from pathlib import Path

import pytest

from deploy.local import ports
from deploy.local.errors import LocalError


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return folder(tmp_path, "cluster")


def folder(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir(exist_ok=True)
    return tmp_path / name


def test_a_reserved_port_is_not_given_again(tmp_path: Path, owner: Path) -> None:
    claims = folder(tmp_path, "ports")
    first = ports.reserve(claims, owner, ["a", "b"], candidates=[20001, 20002, 20003])
    assert first == {"a": 20001, "b": 20002}
    assert ports.reserve(claims, owner, ["c"], candidates=[20001, 20002, 20003]) == {"c": 20003}


def test_a_port_that_is_bound_is_passed_over(tmp_path: Path, owner: Path) -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        taken = server.getsockname()[1]
        assert not ports.free(taken)
        assert ports.reserve(folder(tmp_path, "ports"), owner, ["a"], candidates=[taken, 20004]) == {"a": 20004}


def test_when_none_is_left_the_error_names_what_needed_it(tmp_path: Path, owner: Path) -> None:
    with pytest.raises(LocalError, match="port of webhook"):
        ports.reserve(folder(tmp_path, "ports"), owner, ["webhook"], candidates=[])


def test_release_gives_back_the_owners_ports_only(tmp_path: Path, owner: Path) -> None:
    claims, other = folder(tmp_path, "ports"), folder(tmp_path, "other")
    ports.reserve(claims, owner, ["a"], candidates=[20001])
    ports.reserve(claims, other, ["a"], candidates=[20002])
    ports.release(claims, owner)
    assert [entry.name for entry in claims.iterdir()] == ["20002"]


def test_a_claim_whose_cluster_is_gone_is_taken_over(tmp_path: Path, owner: Path) -> None:
    claims, gone = folder(tmp_path, "ports"), folder(tmp_path, "gone")
    ports.reserve(claims, gone, ["a"], candidates=[20001])
    assert pytest.raises(LocalError, ports.reserve, claims, owner, ["a"], candidates=[20001])
    gone.rmdir()
    assert ports.reserve(claims, owner, ["a"], candidates=[20001]) == {"a": 20001}
    assert (claims / "20001").read_text() == str(owner)


def test_reserving_at_the_same_moment_gives_different_ports(tmp_path: Path, owner: Path) -> None:
    claims, found = folder(tmp_path, "ports"), []
    start = threading.Barrier(8)

    def reserve() -> None:
        start.wait()
        found.extend(ports.reserve(claims, owner, "abcd", candidates=range(20100, 20200)).values())

    threads = [threading.Thread(target=reserve) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 32
