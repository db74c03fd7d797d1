"""What the tests with Spark's operator share: a cluster on which it runs, and the program of a driver.

The nodes are simulated, so nothing runs in a driver's pod and nobody would make its executors. Spark itself does, as a
process of the test in client mode: it is told the driver's own settings and the name of its pod, listens on loopback
only, and makes, watches and replaces executors as it would inside.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.process import tail
from tests.cluster.conftest import MakeCluster, make_cluster
from tests.spark.space import Pod, admin, gang_namespace, pods

__all__ = ["admin", "gang_namespace", "make_cluster"]

STOP_SECONDS = 20
# It opens a session and keeps it; there is no application for it to run.
IDLE = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
HERE = {
    "spark.submit.deployMode": "client",
    "spark.kubernetes.submitInDriver": "false",
    "spark.jars": "",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.port": "0",
    "spark.driver.blockManager.port": "0",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


@pytest.fixture(scope="session")
def cluster(make_cluster: MakeCluster) -> Cluster:
    """4 nodes of 8 GPUs, ganggate, and Spark's operator. Leave it as you found it."""
    made = make_cluster(name=f"spark-{os.getpid()}", nodes=4, gpus=8)
    made.start_operators(["spark"])
    return made


def environment(cluster: Cluster, namespace: str, folder: Path) -> dict[str, str]:
    """The operator's own, so the same Java and the same Spark, as the namespace's ServiceAccount."""
    cluster.kubectl(
        "create", "rolebinding", "spark", "-n", namespace, "--clusterrole=edit", f"--serviceaccount={namespace}:default"
    )
    config = json.loads(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": cluster.kubectl("create", "token", "default", "-n", namespace).strip()}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    return {**cluster.processes["spark"].program.env, "KUBECONFIG": str(kubeconfig), "SPARK_LOCAL_DIRS": str(folder)}


def spark_submit(env: dict[str, str], *arguments: str) -> list[str]:
    return [str(Path(env["SPARK_HOME"], "bin", "spark-submit")), *arguments]


def settings(values: dict[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in ("--conf", f"{key}={value}")]


@contextmanager
def running(cluster: Cluster, namespace: str, env: dict[str, str], folder: Path) -> Iterator[Path]:
    """The program of the namespace's driver, while the block lasts; its log."""
    command = spark_submit(env, *inside(cluster, driver(cluster, namespace), folder), *settings(HERE), *IDLE)
    log = folder / "driver.log"
    with log.open("wb") as file:
        child = subprocess.Popen(command, env=env, stdout=file, stderr=file, start_new_session=True)
    try:
        yield log
    except AssertionError as error:
        error.add_note(f"end of the driver's log:\n{tail(log, 30)}")
        raise
    finally:
        end(child)


def inside(cluster: Cluster, pod: Pod, folder: Path) -> list[str]:
    """What the driver would find in its pod: its settings, and the template of its executors if it has one."""
    told = {
        key: text
        for volume in pod["spec"]["volumes"]
        if "configMap" in volume
        for key, text in data(cluster, pod["metadata"]["namespace"], volume["configMap"]["name"]).items()
    }
    properties, template = folder / "spark.properties", folder / "template.yaml"
    properties.write_text(told["spark.properties"])
    found = ["--deploy-mode", "client", "--properties-file", str(properties)]
    if "podspec-configmap-key" not in told:
        return found
    template.write_text(told["podspec-configmap-key"])
    return [*found, *settings({"spark.kubernetes.executor.podTemplateFile": str(template)})]


def data(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.kubectl.raw(f"/api/v1/namespaces/{namespace}/configmaps/{name}")["data"]
    return found


def end(child: "subprocess.Popen[bytes]") -> None:
    """As a kubelet ends a container: asked first, then not."""
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def of_role(found: Sequence[Pod], role: str) -> list[Pod]:
    return [pod for pod in found if pod["metadata"].get("labels", {}).get("spark-role") == role]


def driver(cluster: Cluster, namespace: str) -> Pod:
    (found,) = of_role(pods(cluster, namespace), "driver")
    return found
