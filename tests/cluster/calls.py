"""Raw calls of the API server as one identity: status, answer and the warnings that admission adds.

Not the product's client: tests see what a stranger's program would, warnings included.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True)
class Answer:
    code: int
    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def warning(self) -> str:
        return self.headers.get("Warning", "")

    @property
    def ok(self) -> bool:
        return self.code < 300

    @property
    def message(self) -> str:
        return self.body.get("message", "")


class Caller:
    """One identity, by its kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        configuration = Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=configuration, persist_config=False)
        self._host, self._pool = configuration.host, RESTClientObject(configuration).pool_manager

    def __call__(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Answer:
        headers = {"Content-Type": kind, "Accept": "application/json"}
        answer = self._pool.request(method, self._host + path, body=json.dumps(body) if body else None, headers=headers)
        return Answer(answer.status, json.loads(answer.data or b"{}"), answer.headers)

    def create(self, path: str, body: dict[str, Any]) -> Answer:
        return self("POST", path, body)

    def patch(self, path: str, body: dict[str, Any], kind: str = STRATEGIC) -> Answer:
        return self("PATCH", path, body, kind)
