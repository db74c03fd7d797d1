"""A gatekeeper that sends a signal to a process, or to itself, at one patch of a lift or one write to an owner.

Run as a module in its place.

The thread that comes to the patch SIGNAL_AT sends it with the lock held: the threads behind it have been told that we
lead and have sent nothing yet, which is the worst moment for a leader to be frozen.
"""

import os
import threading

from policy.gatekeeper import levers, lift, main


def arm(at: int, pid: int, number: int) -> None:
    send, lock, begun = lift.Lifter._send, threading.Lock(), [0]

    def counted(self, patch, *, dry=False):
        if dry:  # a dry run writes nothing
            return send(self, patch, dry=True)
        with lock:
            begun[0] += 1
            if begun[0] == at:
                os.kill(pid or os.getpid(), number)
        return send(self, patch)

    lift.Lifter._send = counted


def arm_levers(at: int, pid: int, number: int) -> None:
    write, begun = levers.Levers._write, [0]

    def counted(self, owner, pull):
        begun[0] += 1
        if begun[0] == at:
            os.kill(pid or os.getpid(), number)
        write(self, owner, pull)

    levers.Levers._write = counted


if __name__ == "__main__":
    chosen = arm_levers if os.environ["SIGNAL_WHAT"] == "lever" else arm
    chosen(int(os.environ["SIGNAL_AT"]), int(os.environ["SIGNAL_PID"]), int(os.environ["SIGNAL"]))
    main.run()
