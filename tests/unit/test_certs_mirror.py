"""What a kubelet does with a mounted Secret, done by us: all files change at once, and only their owner reads them."""

import stat
from pathlib import Path


from certs.mirror import DATA, current, swap

FIRST = {"tls.crt": b"certificate 1", "tls.key": b"key 1", "ca.crt": b"ca 1"}
SECOND = {name: content.replace(b"1", b"2") for name, content in FIRST.items()}


def test_files_appear_and_change_as_one_generation(tmp_path: Path) -> None:
    swap(tmp_path, FIRST, "2026_01_01")
    held = (tmp_path / DATA).resolve()
    assert current(tmp_path) == FIRST == {name: (tmp_path / name).read_bytes() for name in FIRST}
    swap(tmp_path, SECOND, "2026_01_02")
    assert current(tmp_path) == SECOND == {name: (tmp_path / name).read_bytes() for name in SECOND}
    assert not held.exists(), "the old generation is removed"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["..2026_01_02", DATA, "ca.crt", "tls.crt", "tls.key"]


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    swap(tmp_path / "made", FIRST, "2026_01_01")
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "made" / "tls.key").stat().st_mode) == 0o600


def test_what_an_interrupted_swap_left_is_cleared(tmp_path: Path) -> None:
    swap(tmp_path, FIRST, "2026_01_01")
    (tmp_path / "..2026_01_02").mkdir()
    (tmp_path / "..tmp-..data").symlink_to("nowhere")
    assert current(tmp_path) == FIRST
    swap(tmp_path, SECOND, "2026_01_03")
    assert current(tmp_path) == SECOND
    assert not (tmp_path / "..2026_01_02").exists()


def test_nothing_is_mounted_before_the_first_swap(tmp_path: Path) -> None:
    assert current(tmp_path) == {} == current(tmp_path / "missing")
