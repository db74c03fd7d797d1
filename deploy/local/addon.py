"""The command lines of the gatekeeper and the webhook as ordinary processes with identities of their own. Pure."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.kubeconfig import GATEKEEPER, WEBHOOK
from deploy.local.manifests import ROOT
from deploy.local.paths import Layout
from deploy.local.ports import LOOPBACK
from policy import names

PROGRAMS: Final = (GATEKEEPER, WEBHOOK)


@dataclass(frozen=True, slots=True)
class Addon:
    """What both command lines depend on. `config` is handed through to both."""

    layout: Layout
    ports: Mapping[str, int]
    config: Path | None = None

    def gatekeeper(self, program: str, identity: str, extra: Sequence[str] = ()) -> tuple[str, ...]:
        """Command line of the replica `program`; its leader mirrors the webhook's certificate to disk."""
        return (
            sys.executable, "-m", "policy.gatekeeper.main",
            "--kubeconfig", str(self.layout.kubeconfig(GATEKEEPER)),
            "--bind", f"{LOOPBACK}:{self.ports[program]}",
            "--namespace", names.SYSTEM_NAMESPACE,
            "--identity", identity,
            "--webhook-endpoint", f"{LOOPBACK}:{self.ports[WEBHOOK]}",
            "--mirror-cert-dir", str(self.layout.serving(WEBHOOK)),
            *self._config(), *extra,
        )  # fmt: skip

    def webhook(self) -> tuple[str, ...]:
        return (
            sys.executable, "-m", "webhook.server",
            "--bind", f"{LOOPBACK}:{self.ports[WEBHOOK]}",
            "--cert-dir", str(self.layout.serving(WEBHOOK)),
            "--drain", "1",  # no Service whose endpoints take seconds to follow
            *self._config(),
        )  # fmt: skip

    def _config(self) -> tuple[str, ...]:
        return ("--config", str(self.config)) if self.config else ()


def environment() -> dict[str, str]:
    """Makes our packages found wherever the process is started, and its log appear without delay."""
    return {"PYTHONPATH": str(ROOT.parent), "PYTHONUNBUFFERED": "1"}
