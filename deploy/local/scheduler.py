"""The configuration of kube-scheduler: the profiles that ganggate ships, with this cluster's connection. Pure."""

from pathlib import Path
from typing import Any

import yaml

from policy import names


def load_profiles(path: Path) -> dict[str, Any]:
    """The shipped KubeSchedulerConfiguration, or the plain default where none is shipped."""
    if not path.is_file():
        return {"profiles": [{"schedulerName": names.DEFAULT_SCHEDULER}]}
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def merge(shipped: dict[str, Any], kubeconfig: Path, limit: int) -> dict[str, Any]:
    """The shipped configuration with this cluster's kubeconfig and client limit (requests a second).

    With `--config` the scheduler ignores its own flags for these, hence they are set here.
    """
    return {
        **shipped,
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": limit, "burst": limit},
        "leaderElection": {"leaderElect": False},
        "enableProfiling": False,
    }
