"""What a Reflector lists and watches: a resource, the struct for its objects, and which of them.

Pure. The paths are those of https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris.
"""

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_JSON: Final = "application/json"
_METADATA: Final = "application/json;as={};g=meta.k8s.io;v=v1"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """One resource in all namespaces; `group` is empty for the core API.

    `metadata_only` asks the server for PartialObjectMetadata: `type` then is a struct with nothing but metadata.
    """

    group: str
    version: str
    plural: str
    type: type[T]
    field_selector: str = ""
    label_selector: str = ""
    metadata_only: bool = False
    bookmarks: bool = True  # events have none: the API server does not cache them
    alias: str = ""  # where one resource is watched twice, for different objects

    @property
    def name(self) -> str:
        """As threads, readiness and metrics show it."""
        return self.alias or self.resource

    @property
    def resource(self) -> str:
        """As RBAC and kubectl write it: `pods`, `queues.scheduling.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        return f"{group_path(self.group, self.version)}/{self.plural}"

    @property
    def selectors(self) -> dict[str, str]:
        """The query parameters common to list and watch."""
        both = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {key: text for key, text in both.items() if text}

    @property
    def list_accept(self) -> str:
        return _METADATA.format("PartialObjectMetadataList") if self.metadata_only else _JSON

    @property
    def watch_accept(self) -> str:
        return _METADATA.format("PartialObjectMetadata") if self.metadata_only else _JSON


def group_path(group: str, version: str) -> str:
    """Where an API group and version live."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"
