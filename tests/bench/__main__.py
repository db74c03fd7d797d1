"""`make bench`: ratios in one run, on a control plane of its own. Absolute times are this machine's; ratios travel.

Exits 2, as a bench that measured nothing of ours, when the run without a gang is under 100 pods/s: then the control
plane's own client limits are what is measured.
"""

import argparse
import statistics
import sys

from deploy.local.cluster import Cluster
from deploy.local.settings import Settings
from policy.gatekeeper.client import Client
from tests.bench import creates
from tests.bench.arms import Shape, bare_lift, run

LEAST_PODS_PER_SECOND = 100
SHAPES = (Shape(200, 5), Shape(500, 2), Shape(1, 1000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--creates", type=int, default=300, help="pods per side of the webhook's comparison")
    options = parser.parse_args()
    cluster = Cluster(Settings(name="bench", nodes=options.nodes, gpus=8), say=_say)
    cluster.up()
    try:
        client = Client.from_kubeconfig(str(cluster.kubeconfig))
        cluster.processes["gatekeeper"].pause()
        for line in creates.compare(client, options.creates):
            print(line, flush=True)
        cluster.processes["gatekeeper"].resume()
        return _lifts(client, options.rounds)
    finally:
        cluster.down()


def _lifts(client: Client, rounds: int) -> int:
    slowest = 1e9
    for shape in SHAPES:
        arms = {"none": [], "bare": [], "ganggate": []}
        for serial in range(rounds):
            for arm, times in arms.items():
                times.append(run(client, shape, arm, serial))
        whole = {arm: statistics.median(t.whole for t in times) for arm, times in arms.items()}
        slowest = min(slowest, shape.total / whole["none"])
        print(f"{shape}: first submission to last bind, median of {rounds}: no gang {whole['none']:.2f} s, "
              f"gated + bare loop {whole['bare']:.2f} s, ganggate {whole['ganggate']:.2f} s; "
              f"ratio to the bare loop {whole['ganggate'] / whole['bare']:.2f}", flush=True)  # fmt: skip
    _lift_alone(client, rounds)
    if slowest < LEAST_PODS_PER_SECOND:
        print(f"the run without a gang made {slowest:.0f} pods/s, fewer than {LEAST_PODS_PER_SECOND}: no verdict")
        return 2
    return 0


def _lift_alone(client: Client, rounds: int) -> None:
    shape = Shape(1, 1000)
    bare = [bare_lift(client, shape, serial).lift for serial in range(rounds)]
    ours = [run(client, shape, "ganggate", 100 + serial).lift for serial in range(rounds)]
    low, high = statistics.median(bare), statistics.median(ours)
    print(f"lift of {shape}, last member created to last gate gone, 64 at once, median of {rounds}: "
          f"bare loop {low:.2f} s, ganggate {high:.2f} s; ratio {high / low:.2f}")  # fmt: skip


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
