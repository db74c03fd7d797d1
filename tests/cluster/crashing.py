"""A gatekeeper that kills itself, as SIGKILL would, at one write of a lift or a cure. Run as a module in its place.

CRASH_AT says where: `decision` (decided, nothing written), `report` (the PodGroup told, no gate lifted), or a number of
patches that were answered; `lever-before-N` and `lever-after-N`, the Nth write to an owner. The product has no such
switch: this wraps the parts from outside.
"""

import os
import signal
import threading

from policy.gatekeeper import levers, lift, main


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after_patches(count: int) -> None:
    send, answered, lock = lift.Lifter._send, [0], threading.Lock()

    def counted(self, patch, *, dry=False):
        if dry:  # a dry run writes nothing
            return send(self, patch, dry=True)
        with lock:
            if answered[0] == count:
                die()
            refusal = send(self, patch)
            answered[0] += 1
            return refusal

    lift.Lifter._send = counted


def before_anything() -> None:
    lift.Lifter.start = lambda self, group, writes, lifted: die()


def after_report() -> None:
    lift.Lifter._one = lambda self, under_way, patch: die()


def at_lever(moment: str, number: int) -> None:
    write, begun = levers.Levers._write, [0]

    def counted(self, owner, pull):
        begun[0] += 1
        if begun[0] == number and moment == "before":
            die()
        write(self, owner, pull)
        if begun[0] == number:
            die()

    levers.Levers._write = counted


def arm(where: str) -> None:
    if where.startswith("lever-"):
        _, moment, number = where.split("-")
        at_lever(moment, int(number))
    elif where == "decision":
        before_anything()
    elif where == "report":
        after_report()
    else:
        after_patches(int(where))


if __name__ == "__main__":
    arm(os.environ["CRASH_AT"])
    main.run()
