"""A mutating webhook of the tests' own, called after ganggate's: it adds a container to every pod of one namespace."""

import base64
import json
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from pathlib import Path

from certs import authority
from tests.cluster.conftest import wait_until

NAME = "zz-sidecar"  # configurations are asked in the order of their names
PATH = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def _handler(container):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            patch = base64.b64encode(
                json.dumps([{"op": "add", "path": "/spec/containers/-", "value": container}]).encode()
            )
            response = {
                "uid": review["request"]["uid"],
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": patch.decode(),
            }
            body = json.dumps(
                {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing: a test's output is its own."""

    return Handler


def _context(folder, ca):
    now = datetime.now(UTC)
    pair = authority.issue(ca, "sidecar", names=["127.0.0.1"], now=now, lifetime=timedelta(hours=5))
    files = Path(folder) / "tls.crt", Path(folder) / "tls.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    return context


def _asked(admin, namespace):
    body = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "busybox:1.36"}]}}
    made = admin.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    return made.ok and len(made.body["spec"]["containers"]) == 2


@contextmanager
def adding(admin, namespace, container):
    """As long as it lasts, every pod made in the namespace gets the container."""
    ca = authority.new_ca("sidecar-ca", now=datetime.now(UTC), lifetime=timedelta(days=1))
    with TemporaryDirectory() as folder, ThreadingHTTPServer(("127.0.0.1", 0), _handler(container)) as server:
        server.socket = _context(folder, ca).wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hook = {
            "name": "sidecar.example.com",
            "clientConfig": {
                "url": f"https://127.0.0.1:{server.server_port}/",
                "caBundle": base64.b64encode(ca.certificate).decode(),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 5,
        }
        answer = admin.create(PATH, {"metadata": {"name": NAME}, "webhooks": [hook]})
        assert answer.ok, answer
        try:
            wait_until(lambda: _asked(admin, namespace), what="the API server to ask the webhook")
            yield
        finally:
            admin("DELETE", f"{PATH}/{NAME}")
            server.shutdown()
