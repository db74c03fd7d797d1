"""Where things lie: the user's cache of built programs and the folders of the clusters.

Only names of paths and making of folders; no content. Folders are private to the user, for they hold keys.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.local.errors import UsageError

NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
PRIVATE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """A user's two folders: `cache` may be emptied at any time, `state` holds the clusters that run."""

    cache: Path
    state: Path

    def cluster(self, name: str) -> "Layout":
        """Folder of the cluster `name`. Raises UsageError unless it is a DNS label of at most 40 characters."""
        if not NAME.fullmatch(name):
            raise UsageError(f"name: {name!r} is no DNS label of at most 40 characters (a-z, 0-9, -)")
        return Layout(self.clusters / name)

    @property
    def clusters(self) -> Path:
        return self.state / "clusters"

    @property
    def ports(self) -> Path:
        return private(self.state / "ports")

    def lock(self, name: str) -> Path:
        """File that is locked by whoever brings the cluster `name` up or down."""
        return private(self.state / "locks") / f"{name}.lock"


@dataclass(frozen=True, slots=True)
class Layout:
    """One cluster's folder."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def pki(self) -> Path:
        return private(self.root / "pki")

    @property
    def data(self) -> Path:
        return private(self.root / "etcd")

    @property
    def config(self) -> Path:
        return private(self.root / "config")

    @property
    def kubectl_cache(self) -> Path:
        return private(self.root / "kubectl-cache")

    @property
    def logs(self) -> Path:
        return private(self.root / "logs")

    def log(self, program: str) -> Path:
        return self.logs / f"{program}.log"

    def kubeconfig(self, identity: str) -> Path:
        return private(self.root / "kubeconfig") / f"{identity}.yaml"

    def serving(self, identity: str) -> Path:
        """Folder into which the gatekeeper mirrors the webhook's serving certificate, as a kubelet would."""
        return private(self.root / "serving" / identity)

    def operator(self, name: str) -> Path:
        """An operator's own folder for temporary files: several look there for their serving certificate."""
        return private(self.root / "operators" / name)


def home(environ: Mapping[str, str] = os.environ) -> Home:
    """The user's folders: $GANGGATE_CACHE and $GANGGATE_STATE, else those of the XDG base directories."""
    return Home(
        cache=_folder(environ, "GANGGATE_CACHE", "XDG_CACHE_HOME", ".cache"),
        state=_folder(environ, "GANGGATE_STATE", "XDG_STATE_HOME", ".local/state"),
    )


def private(folder: Path) -> Path:
    """Make `folder` if it is missing, open to its owner only."""
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    return folder


def _folder(environ: Mapping[str, str], own: str, base: str, default: str) -> Path:
    if given := environ.get(own):
        return Path(given).expanduser().absolute()
    if shared := environ.get(base):
        return Path(shared).absolute() / "ganggate"
    return Path.home() / default / "ganggate"
