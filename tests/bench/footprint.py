"""What gatekeeper and webhook weigh: `python -m tests.bench.footprint`.

Memory and CPU of both on an idle cluster, while 5,000 pods come (a third finished, a third bound, a third held behind
them), and with those pods at rest. Memory is that of the process group: `resident` counts pages which two processes
share in both, `proportional` counts none twice, `peak` is the highest resident of one process since its start. CPU is
user and system time of this machine; its load is printed, since neighbours make every second of CPU do less.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import urllib3

from deploy.local import procfs
from deploy.local.cluster import Cluster
from deploy.local.settings import Settings
from policy.gatekeeper.client import Client
from tests.bench import load
from tests.cluster.submissions import job, template

PROGRAMS = ("gatekeeper", "webhook")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 2**20
SETTLE_SECONDS = 10.0
GANG, HELD_GANG = 10, 100
FREE = 92  # GPUs that nobody gets: every held gang is larger
FILL_SECONDS = 600.0


@dataclass(frozen=True)
class Sample:
    """One process group at one moment; bytes and seconds."""

    resident: int
    proportional: int
    peak: int
    cpu: float


def sample(leader: int) -> Sample:
    members = list(procfs.group(leader))
    return Sample(
        resident=sum(field(pid, "status", "VmRSS") for pid in members),
        proportional=sum(field(pid, "smaps_rollup", "Pss") for pid in members),
        peak=max(field(pid, "status", "VmHWM") for pid in members),
        cpu=sum(cpu_seconds(pid) for pid in members),
    )


def field(pid: int, file: str, name: str) -> int:
    """A line such as `VmRSS:  1234 kB` of /proc/<pid>/<file>, in bytes."""
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/{pid}/{file} has no {name}")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, and of those children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / TICKS


class Meter:
    """Samples both programs around each phase; `rows` is the table."""

    def __init__(self, cluster: Cluster) -> None:
        self._pids = {name: cluster.processes[name].pid for name in PROGRAMS}
        self.rows = [("phase", "process", "resident", "proportional", "peak", "CPU", "of one core", "load")]

    @contextmanager
    def phase(self, what: str) -> Iterator[None]:
        before, began = self._samples(), time.monotonic()
        yield
        lasted = time.monotonic() - began
        for name, after in self._samples().items():
            cpu = after.cpu - before[name].cpu
            memory = [f"{n / MIB:.0f} MiB" for n in (after.resident, after.proportional, after.peak)]
            used = (f"{cpu:.1f} s in {lasted:.0f} s", f"{cpu / lasted:.1%}", f"{os.getloadavg()[0]:.1f}")
            self.rows.append((what, name, *memory, *used))

    def _samples(self) -> dict[str, Sample]:
        return {name: sample(pid) for name, pid in self._pids.items()}


def fill(client: Client, pods: int, gpus: int) -> dict[str, int]:
    """Create the mix and wait until it stands; how many pods of each kind there are."""
    finished, bound = pods // 3, min(pods // 3, gpus - FREE)
    mix = {"finished": finished, "bound": bound, "held": pods - finished - bound}
    submit(client, "finished", finished, GANG, "500ms")
    wait(client, "finished", "succeeded", finished)
    submit(client, "bound", bound, GANG, "2h")
    wait(client, "bound", "ready", bound)
    submit(client, "held", mix["held"], HELD_GANG, "2h")
    wait(client, "held", "active", mix["held"])
    return mix


def submit(client: Client, space: str, pods: int, size: int, runs: str) -> None:
    """Gangs of at least `size` pods of one GPU."""
    load.namespace(client, space, "gang")
    sizes = [size] * (pods // size)
    sizes[-1] += pods % size
    load.submit(client, space, [job(f"{space}-{i}", n, space, template(space, runs)) for i, n in enumerate(sizes)])


def wait(client: Client, space: str, count: str, pods: int) -> None:
    """Until the Jobs of the namespace count so many pods."""
    end = time.monotonic() + FILL_SECONDS
    path = f"/apis/batch/v1/namespaces/{space}/jobs"
    while (found := sum(j["status"].get(count, 0) for j in msgspec.json.decode(client.get(path))["items"])) < pods:
        if time.monotonic() > end:
            raise TimeoutError(f"{found} of {pods} pods {space} after {FILL_SECONDS:.0f} s")
        rest(1.0)


def silence(cluster: Cluster) -> None:
    """Until no event has been written for a while: they trail behind, 50 a second."""
    url, before = f"http://127.0.0.1:{cluster.ports['gatekeeper']}/metrics", None
    while (now := written(url)) != before:
        before = now
        rest(SETTLE_SECONDS)


def written(url: str) -> list[str]:
    lines = urllib3.request("GET", url).data.decode().splitlines()
    return [line for line in lines if line.startswith("ganggate_events_total")]


def rest(seconds: float) -> None:
    threading.Event().wait(seconds)


def measured(cluster: Cluster, pods: int, gpus: int, seconds: float) -> Iterator[str]:
    meter, client = Meter(cluster), Client.from_kubeconfig(str(cluster.kubeconfig))
    rest(SETTLE_SECONDS)
    with meter.phase("idle"):
        rest(seconds)
    with meter.phase(f"{pods} pods coming"):
        mix = fill(client, pods, gpus)
    silence(cluster)
    with meter.phase(f"{pods} pods at rest"):
        rest(seconds)
    yield f"{gpus // 8} nodes; " + ", ".join(f"{n} {kind}" for kind, n in mix.items())
    widths = [max(map(len, column)) for column in zip(*meter.rows, strict=True)]
    for row in meter.rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--nodes", type=int, default=220, help="of 8 GPUs each")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long rest is measured")
    options = parser.parse_args()
    cluster = Cluster(
        Settings(name="footprint", nodes=options.nodes, tied=True), say=lambda text: print(text, file=sys.stderr)
    )
    cluster.up()
    try:
        for line in measured(cluster, options.pods, options.nodes * 8, options.seconds):
            print(line)
    finally:
        cluster.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
