"""A candidate in a process of its own: one line a look, `<monotonic seconds> <leads>`, until its input ends.

The time is read before the question is asked: a freeze between the two makes the line old, never wrong.
"""

import sys
import threading

from policy.gatekeeper.client import Client
from policy.gatekeeper.clock import SystemClock
from policy.gatekeeper.leader import Leadership, Timing

LOOK_SECONDS = 0.01
QUICK = Timing(duration=3, renew_deadline=2.0, retry=0.4)


def main(kubeconfig: str, namespace: str, name: str, identity: str) -> None:
    clock, stop = SystemClock(), threading.Event()
    candidate = Leadership(Client.from_kubeconfig(kubeconfig), namespace, name, identity, clock, timing=QUICK)
    runner = threading.Thread(target=candidate.run, args=(stop,), daemon=True)
    runner.start()
    threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
    while not clock.wait(stop, LOOK_SECONDS):
        moment = clock.monotonic()
        sys.stdout.write(f"{moment:.4f} {int(candidate.valid(0.0))}\n")
        sys.stdout.flush()
    runner.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
