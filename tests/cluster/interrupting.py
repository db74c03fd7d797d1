"""A gatekeeper that sends a signal to a process, or to itself, at one patch of a lift. Run as a module in its place.

The thread that comes to the patch SIGNAL_AT sends it with the lock held: the threads behind it have been told that we
lead and have sent nothing yet, which is the worst moment for a leader to be frozen.
"""

import os
import threading

from policy.gatekeeper import lift, main


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


if __name__ == "__main__":
    arm(int(os.environ["SIGNAL_AT"]), int(os.environ["SIGNAL_PID"]), int(os.environ["SIGNAL"]))
    main.run()
