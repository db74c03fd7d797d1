"""The process type, with real processes: readiness, early death, frozen and stubborn programs, used pids."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from deploy.local import procfs
from deploy.local.process import Process, ProcessError, Program, always_ready, stop_all, tail

Make = Callable[..., Process]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Process] = []

    def program(script: str, **changes: object) -> Process:
        base = Program(
            name="trial",
            argv=(sys.executable, "-c", script),
            env={},
            log=tmp_path / "trial.log",
            start_limit=10.0,
            stop_limit=5.0,
        )
        made.append(Process(replace(base, **changes), changed=lambda _: None))
        return made[-1]

    yield program
    for process in made:
        process.kill()


def appears(path: Path) -> Callable[[], str | None]:
    return lambda: None if path.exists() else f"no {path.name}"


def until(check: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


SLEEP = "import signal; signal.pause()"


# The first thread ends; the other one stays until it is told, as a killed server's may while it closes its sockets.
HALF_ENDED = """
import ctypes, signal, threading
threading.Thread(target=signal.sigwait, args=([signal.SIGUSR1],)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_start_returns_when_it_is_ready(make: Make, tmp_path: Path) -> None:
    flag = tmp_path / "ready"
    process = make(f"import pathlib, signal; pathlib.Path({str(flag)!r}).touch(); signal.pause()", ready=appears(flag))
    process.start()
    assert flag.exists()
    assert process.alive
    assert process.memory > 1_000_000


def test_an_exit_while_waiting_is_told_at_once_with_status_and_the_logs_tail(make: Make) -> None:
    process = make("print('port is taken'); raise SystemExit(3)", ready=lambda: "no answer", start_limit=60.0)
    began = time.monotonic()
    with pytest.raises(
        ProcessError, match=r"trial exited with status 3 before it was ready; end of .*:\nport is taken"
    ):
        process.start()
    assert time.monotonic() - began < 10
    assert not process.alive


def test_death_by_signal_is_named(make: Make) -> None:
    process = make("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", ready=lambda: "no answer")
    with pytest.raises(ProcessError, match="exited by SIGSEGV"):
        process.start()


def test_not_ready_in_time_says_what_is_missing(make: Make) -> None:
    process = make("print('still thinking', flush=True); " + SLEEP, ready=lambda: "HTTP 503", start_limit=1.0)
    with pytest.raises(ProcessError, match=r"not ready within 1 s: HTTP 503; end of .*:\nstill thinking"):
        process.start()


def test_a_probe_answered_by_somebody_else_is_no_readiness(make: Make) -> None:
    process = make("pass", ready=lambda: None if not process.alive else "not yet")
    with pytest.raises(ProcessError, match="something else answered"):
        process.start()


def test_stop_lets_it_clean_up(make: Make, tmp_path: Path) -> None:
    script = (
        "import signal, sys, time\n"
        "def end(*_): print('cleaned', flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); print('listening', flush=True); signal.pause()"
    )
    process = make(script, ready=lambda: None if "listening" in tail(tmp_path / "trial.log", 5) else "deaf")
    process.start()
    process.stop()
    assert not process.alive
    assert process.tail().endswith("cleaned")


def test_stop_kills_what_ignores_term(make: Make, tmp_path: Path) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    )
    process = make(script, ready=lambda: None if process.tail() else "starting", stop_limit=0.5)
    process.start()
    process.stop()
    assert not process.alive


def test_children_end_with_it_even_when_the_leader_was_killed_first(make: Make, tmp_path: Path) -> None:
    script = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); print(p.pid, flush=True); p.wait()"
    process = make(script, ready=lambda: None if process.tail() else "no child yet")
    process.start()
    child = int(process.tail())
    os.kill(process.pid or 0, signal.SIGKILL)
    until(lambda: not process.alive)
    assert procfs.identify(child) is not None
    process.stop()
    assert procfs.identify(child) is None


def test_a_frozen_process_does_nothing_until_it_is_thawed(make: Make, tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    process = make(
        f"import threading\nwhile True: open({str(ticks)!r}, 'a').write('.'); threading.Event().wait(0.01)",
        ready=appears(ticks),
    )
    process.start()
    process.pause()
    until(lambda: process_state(process.pid) == "T")
    frozen = ticks.stat().st_size
    threading.Event().wait(0.2)
    assert ticks.stat().st_size == frozen
    assert process.alive
    process.resume()
    until(lambda: ticks.stat().st_size > frozen)


def test_a_frozen_process_can_be_stopped_gently(make: Make) -> None:
    process = make(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit()); print(1, flush=True); signal.pause()"
    )
    process.start()
    until(lambda: process.tail() == "1")
    process.pause()
    began = time.monotonic()
    process.stop()
    assert not process.alive
    assert time.monotonic() - began < process.program.stop_limit


def test_another_starter_finds_it_by_identity_and_ends_it(make: Make) -> None:
    started = make(SLEEP)
    started.start()
    found = Process(started.program, changed=lambda _: None, identity=started.identity)
    assert found.alive
    found.stop()
    assert not found.alive
    assert not started.alive


def test_a_pid_that_was_used_again_is_never_signalled(make: Make) -> None:
    stranger = make(SLEEP)
    stranger.start()
    identity = stranger.identity
    assert identity is not None
    for former in (
        msgspec.structs.replace(identity, started=identity.started - 1),
        msgspec.structs.replace(identity, boot="another boot"),
    ):
        process = Process(stranger.program, changed=lambda _: None, identity=former)
        assert not process.alive
        process.kill()
        process.stop()
        assert stranger.alive


def test_a_second_start_is_a_second_process_and_is_reported(make: Make) -> None:
    pids: list[int | None] = []
    process = make(SLEEP)
    process.changed = lambda changed: pids.append(changed.pid)
    process.start()
    process.start()
    assert pids == [process.pid]
    process.kill()
    process.start()
    assert len(set(pids)) == 2
    assert process.alive


def test_several_are_stopped_within_one_limit(make: Make) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); signal.pause()"
    processes = [make(deaf, stop_limit=1.0) for _ in range(3)]
    for process in processes:
        process.start()
    until(lambda: tail(processes[0].program.log, 9).split() == ["1"] * 3)
    began = time.monotonic()
    stop_all(processes)
    assert not any(process.alive for process in processes)
    assert time.monotonic() - began < 2.5


def test_the_mark_in_the_environment_finds_it(make: Make) -> None:
    process = make(SLEEP, env={"GANGGATE_TEST_MARK": "here"}, ready=always_ready)
    process.start()
    until(lambda: list(procfs.marked("GANGGATE_TEST_MARK", "here")) == [process.pid])
    assert list(procfs.marked("GANGGATE_TEST_MARK", "her")) == []
    process.kill()
    assert list(procfs.marked("GANGGATE_TEST_MARK", "here")) == []


def test_the_tail_is_bounded_and_empty_without_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log, 5) == ""
    log.write_text("\n".join(f"{number} {'x' * 1_000}" for number in range(1_000)))
    assert [line.split()[0] for line in tail(log, 3).splitlines()] == ["997", "998", "999"]
    assert len(tail(log, 1_000)) <= 65_536


def process_state(pid: int | None) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_runs_until_its_last_thread_is_gone(make: Make) -> None:
    """Else its ports are taken when it is started again."""
    process = make(HALF_ENDED, stop_limit=0.2)
    process.start(wait=False)
    stat = Path(f"/proc/{process.pid}/stat")
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
    assert process.alive
    assert not process.wait_gone(0.2)
    process.kill()
    until(lambda: not process.alive)
