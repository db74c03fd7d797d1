"""What ganggate installs into a cluster, read from the shipped manifests and fitted to processes on loopback.

Pure but for reading files. Objects that only kubelets could bring to life are left out: here the same programs
run as ordinary processes, and the webhooks are called by URL instead of by Service.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.local.ports import LOOPBACK

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("crds", "kustomize/base", "policies")
NEED_KUBELETS: Final = frozenset({
    "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "PodMonitor",
})  # fmt: skip
NO_API_OBJECTS: Final = frozenset({"Kustomization", "Component"})
DEFINITIONS: Final = "CustomResourceDefinition"
WEBHOOKS: Final = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})

Manifest = dict[str, Any]


def shipped(root: Path = ROOT) -> list[Manifest]:
    """Every object to apply, from deploy/crds, deploy/kustomize/base and deploy/policies."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).glob("*.yaml"))]
    return [each for path in files for each in read(path) if each["kind"] not in NEED_KUBELETS]


def read(path: Path) -> Iterator[Manifest]:
    """The API objects of one file; kustomize's own documents are none."""
    return parse(path.read_text())


def parse(text: str) -> Iterator[Manifest]:
    for document in yaml.safe_load_all(text):
        if document and document.get("kind", "Kustomization") not in NO_API_OBJECTS:
            yield document


def stages(manifests: Iterable[Manifest], webhook_port: int) -> tuple[list[Manifest], list[Manifest], list[Manifest]]:
    """Split into what must be there first (definitions, namespaces), what follows, and the webhooks."""
    first: list[Manifest] = []
    then: list[Manifest] = []
    webhooks: list[Manifest] = []
    for each in manifests:
        if each["kind"] in WEBHOOKS:
            webhooks.append(by_url(each, webhook_port))
        else:
            (first if each["kind"] in {DEFINITIONS, "Namespace"} else then).append(each)
    return first, then, webhooks


def by_url(configuration: Manifest, port: int, **client: str) -> Manifest:
    """The same webhooks, called at a loopback port instead of through their Service; `client` is added (caBundle)."""
    return {**configuration, "webhooks": [_by_url(each, port, client) for each in configuration["webhooks"]]}


def has_ca_bundle(configuration: Manifest) -> bool:
    """Tell whether the API server knows whom to trust for every webhook of the configuration."""
    return all(each["clientConfig"].get("caBundle") for each in configuration["webhooks"])


def _by_url(webhook: Manifest, port: int, added: Mapping[str, str]) -> Manifest:
    client = {**webhook["clientConfig"], **added}
    path = client.pop("service")["path"]
    return {**webhook, "clientConfig": {**client, "url": f"https://{LOOPBACK}:{port}{path}"}}
