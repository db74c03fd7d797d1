"""REST with the API server: bytes in, bytes out, over the official client's connection.

Takes configuration, TLS and credentials from the kubernetes package and never its models: they cost 70 times the
decoding of a struct and lose unknown fields. Knows no kind, no watch and no rule.
"""

import threading
from collections.abc import Mapping
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
import yaml
from kubernetes import config as kubernetes_config
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as Urllib3TimeoutError

from policy.gatekeeper.errors import ApiError, ConfigError, TransportError, api_error
from policy.gatekeeper.stream import Stream

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"

POOL_SIZE: Final = 96  # 64 lifts at once, a watch for each resource, lease and events
CONNECT_TIMEOUT: Final = 5.0  # seconds
DEFAULT_TIMEOUT: Final = 30.0  # seconds; the API server itself gives up after 60
_FIRST_ERROR: Final = 400
_UNREADABLE: Final = (  # whatever the official loader raises over a file that is no kubeconfig
    kubernetes_config.ConfigException,
    yaml.YAMLError,
    OSError,
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
)


class Client:
    """One API server, as one identity. Thread-safe; not to be shared across a fork (TLS state)."""

    def __init__(self, configuration: Configuration, pool_size: int = POOL_SIZE) -> None:
        configuration.connection_pool_maxsize = pool_size
        configuration.keep_alive = True  # a peer that vanished is noticed by the kernel too
        self._configuration = configuration
        self._pools: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        self._host: str = configuration.host.rstrip("/")
        self._pool: urllib3.HTTPConnectionPool = self._pools.connection_from_url(self._host)
        # Only a proxy that is not tunnelled through wants whole URLs; the pool itself takes paths.
        whole = self._pools.proxy is not None and self._pool.scheme == "http"
        self._prefix = self._host if whole else urlsplit(self._host).path
        self._refresh = threading.Lock()

    @classmethod
    def from_kubeconfig(cls, path: str | None = None, context: str | None = None, pool_size: int = POOL_SIZE) -> Self:
        """Connect as a kubeconfig says: `path`, else KUBECONFIG, else ~/.kube/config. Raises ConfigError."""
        configuration = Configuration()
        try:
            kubernetes_config.load_kube_config(path, context, configuration, persist_config=False)
        except _UNREADABLE as error:
            raise ConfigError(f"kubeconfig {path or '(default)'}: {error}") from error
        return cls(configuration, pool_size)

    @classmethod
    def in_cluster(cls, pool_size: int = POOL_SIZE) -> Self:
        """Connect as the pod's service account; its token is read again every minute. Raises ConfigError."""
        configuration = Configuration()
        try:
            kubernetes_config.load_incluster_config(configuration)
        except (kubernetes_config.ConfigException, OSError) as error:
            raise ConfigError(f"service account: {error}") from error
        return cls(configuration, pool_size)

    @property
    def host(self) -> str:
        """Where the API server is, as a URL."""
        return self._host

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        accept: str = JSON,
    ) -> bytes:
        """Send one request, never repeated, and return the answer's body.

        `body` is sent as it is when bytes, else as JSON. `timeout` is in seconds, for connecting and for each wait
        for data. Raises ApiError for a status of 400 or more, TransportError (one of them) when no answer came.
        """
        data = _encode(body)
        headers = self._headers(accept, content_type if data is not None else None)
        answer = self._open(method, self._url(path, query), headers, body=data, timeout=timeout, preload=True)
        if answer.status >= _FIRST_ERROR:
            raise _refused(answer)
        return answer.data

    def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float = DEFAULT_TIMEOUT) -> bytes:
        """GET `path`. Raises as `request` does."""
        return self.request("GET", path, query=query, timeout=timeout)

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, timeout: float, accept: str = JSON
    ) -> Stream:
        """Open a watch; `timeout` is the longest silence in seconds, once it is open. Raises as `request` does."""
        headers = self._headers(accept)
        answer = self._open("GET", self._url(path, query), headers, timeout=DEFAULT_TIMEOUT, preload=False)
        if answer.status >= _FIRST_ERROR:
            try:
                raise _refused(answer)
            finally:
                answer.close()
        _be_patient(answer, timeout)
        return Stream(answer)

    def close(self) -> None:
        """Close idle connections; the client may be used again."""
        self._pools.clear()

    def _open(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        *,
        body: bytes | None = None,
        timeout: float | None,
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.urlopen(
                method,
                url,
                body=body,
                headers=headers,
                timeout=_timeout(timeout),
                retries=False,  # a repeated write could take effect twice
                redirect=False,
                assert_same_host=False,
                preload_content=preload,
            )
        except HTTPError as error:
            raise _unanswered(error, method, url) from error

    def _url(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._prefix}{path}?{urlencode(query)}" if query else self._prefix + path

    def _headers(self, accept: str, content_type: str | None = None) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": "ganggate"}
        if content_type:
            headers["Content-Type"] = content_type
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        return headers

    def _authorization(self) -> str | None:
        """The bearer token, refreshed by one thread at a time: an exec plugin may take seconds."""
        try:
            with self._refresh:
                settings: dict[str, Any] = self._configuration.auth_settings()
        except (kubernetes_config.ConfigException, OSError, ValueError) as error:
            raise TransportError(f"credentials: {error}", "Credentials") from error
        bearer = settings.get("BearerToken")
        return bearer["value"] if bearer else None


def _encode(body: object | None) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)


def _timeout(seconds: float | None) -> urllib3.Timeout:
    longest = DEFAULT_TIMEOUT if seconds is None else seconds
    return urllib3.Timeout(connect=min(CONNECT_TIMEOUT, longest), read=longest)


def _be_patient(answer: urllib3.BaseHTTPResponse, seconds: float) -> None:
    """Let reads wait longer than the headers were waited for; the pool sets its own limit on the next use."""
    sock = getattr(answer.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _refused(answer: urllib3.BaseHTTPResponse) -> ApiError:
    try:
        body = answer.data
    except HTTPError:  # the status alone must do
        body = b""
    return api_error(answer.status, answer.reason or "", body, answer.headers.get("Retry-After"))


def _unanswered(error: HTTPError, method: str, url: str) -> TransportError:
    reason = "Timeout" if isinstance(error, Urllib3TimeoutError) else "NoAnswer"
    return TransportError(f"{method} {urlsplit(url).path}: {error}", reason)
