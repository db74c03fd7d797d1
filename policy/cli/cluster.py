"""A real cluster behind the commands, by kubeconfig or by the pod's own account.

Turns every refusal of the API server into a line that says which verb on which resource.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import click
from kubernetes import config as kubernetes_config

from policy.cli import kubeconfig, leadership, reports, settings
from policy.cli.failures import Failure
from policy.cli.options import Flags
from policy.cli.reports import Report
from policy.cli.world import Denied, World
from policy.gatekeeper import observe
from policy.gatekeeper.client import Client
from policy.gatekeeper.config import Settings
from policy.gatekeeper.errors import ApiError, ConfigError, StreamError, TransportError
from policy.gatekeeper.observe import ForbiddenError, Partial
from policy.rules.conclusions import Group
from policy.rules.model import Snapshot

_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")  # where a pod finds its own
_FALLBACK: Final = "default"


class Cluster:
    """Fulfils policy.cli.world.World."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags

    @cached_property
    def client(self) -> Client:
        with answered(None):
            if self._inside:
                return Client.in_cluster()
            return Client.from_kubeconfig(self._kubeconfig, self._flags.context)

    @cached_property
    def _kubeconfig(self) -> str:
        return kubeconfig.located(self._flags.kubeconfig, self._flags.context)

    @cached_property
    def _inside(self) -> bool:
        """In a pod, and nobody named a kubeconfig."""
        told = self._flags.kubeconfig or self._flags.context or os.environ.get(kubeconfig.VARIABLE)
        at_home = Path(kubeconfig.HOME).expanduser().exists()
        return not told and "KUBERNETES_SERVICE_HOST" in os.environ and not at_home

    @cached_property
    def namespace(self) -> str:
        return self._flags.namespace or self._implied() or _FALLBACK

    def _implied(self) -> str:
        if self._inside:
            return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() if _OWN_NAMESPACE.exists() else ""
        with answered(None):
            contexts, current = kubernetes_config.list_kube_config_contexts(self._kubeconfig)
        wanted = self._flags.context or current["name"]
        found: dict[str, Any] = next((c["context"] for c in contexts if c["name"] == wanted), {})
        return str(found.get("namespace") or "")

    def now(self) -> float:
        return time.time()

    @cached_property
    def settings(self) -> Settings:
        with answered(self):
            return settings.running(self.client)

    def snapshot(self) -> Snapshot:
        with answered(self):
            return observe.once(self.client, self.settings.owner_kinds)

    def partial(self, namespace: str) -> tuple[Partial, dict[str, Report]]:
        with answered(self):
            found = observe.within(self.client, namespace, self.settings.owner_kinds)
            told, unseen = reports.in_namespace(self.client, namespace)
        return Partial(found.snapshot, tuple(dict.fromkeys((*found.unseen, *unseen)))), told

    def last_report(self, group: Group) -> Report | None:
        return reports.last(self.client, group)

    def silence(self) -> str:
        return leadership.silence(self.client, self.now())


@contextmanager
def answered(world: World | None) -> Iterator[None]:
    """Turn what the client raises into one line for people; None where there is no client yet."""
    try:
        yield
    except (ConfigError, kubernetes_config.ConfigException) as error:
        raise Failure(str(error)) from error
    except ForbiddenError as error:
        raise Denied(error.lack, str(error)) from error
    except (ApiError, StreamError) as error:
        raise Failure(f"API server {world.client.host if world else ''}: {_said(error)}") from error


def _said(error: ApiError | StreamError) -> str:
    if isinstance(error, TransportError):
        return f"no answer: {error.message}"
    return f"{error.reason}: {error.message}" if isinstance(error, ApiError) else f"unreadable answer: {error}"


def of(ctx: click.Context, flags: Flags) -> World:
    """The world that a test put there, else the cluster that the flags name."""
    make: Callable[[Flags], World] = ctx.obj or Cluster
    return make(flags)
