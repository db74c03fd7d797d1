"""What each operator needs to run as an ordinary process on loopback: flags, settings, objects, ports. Pure.

Knows the operators' own names for things; of a cluster it is told ports and a folder. Installs and starts nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local import probes
from deploy.local.errors import UsageError
from deploy.local.manifests import Manifest
from deploy.local.ports import LOOPBACK
from deploy.local.process import Probe

CLIENT_LIMIT: Final = 1_000  # requests a second, where a limit can be set; some defaults are 5
CERTIFICATES: Final = Path("k8s-webhook-server", "serving-certs")  # below the folder for temporary files
WEBHOOK_SUFFIX: Final = "-webhook"
JAVA: Final = "java"
SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator runs: what its flags, settings and environment depend on.

    `webhook` is 0 where none is served; `tools` holds the folders of what it runs beside itself, by name.
    """

    folder: Path
    health: int
    webhook: int = 0
    api_server: int = field(default=0, kw_only=True)
    tools: Mapping[str, Path] = field(default_factory=dict, hash=False, kw_only=True)

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self.health}"

    @property
    def certificates(self) -> Path:
        return self.folder / CERTIFICATES

    @property
    def settings(self) -> Path:
        return self.folder / "settings.yaml"


def _nothing(_: Place) -> Manifest:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """One operator. Folders are those of its own module; `objects` must exist before it starts.

    `crds` is a pattern of files, of which those in `but` are left out; `hooks` is a kustomization of webhooks;
    `looked_for` is a file that the program waits for at a place of its own; `tools` are what it runs beside itself,
    by name. One that cannot read our keys is known by a `token`.
    """

    name: str
    flags: Callable[[Place], tuple[str, ...]]
    crds: str
    but: frozenset[str] = frozenset({"kustomization.yaml"})
    settings: Callable[[Place], Manifest] = _nothing
    objects: tuple[Manifest, ...] = ()
    serves: bool = False
    hooks: str | None = None
    ready: str = "/readyz"
    fixed_port: int | None = None
    needs: tuple[str, ...] = ()
    looked_for: Path | None = None
    environment: Callable[[Place], Mapping[str, str]] = _nothing
    tools: tuple[str, ...] = ()
    token: bool = False

    @property
    def ports(self) -> tuple[str, ...]:
        """Names of the ports that it listens on: of its health, and of its webhooks."""
        return (self.name, f"{self.name}{WEBHOOK_SUFFIX}") if self.serves else (self.name,)


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


# --- settings --------------------------------------------------------------------------------------------------


def _by_settings(place: Place) -> tuple[str, ...]:
    return (f"--config={place.settings}",)


def _settings(api: str, certificates: str, place: Place, **webhook: str) -> Manifest:
    """The settings file that controllers of one family share; `certificates` is their word for managing their own."""
    return {
        "apiVersion": api,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": place.address},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": LOOPBACK, "port": place.webhook, **webhook},
        "clientConnection": {"qps": CLIENT_LIMIT, "burst": CLIENT_LIMIT},
        certificates: {"enable": False},
    }


def _jobset_settings(place: Place) -> Manifest:
    api = "config.jobset.x-k8s.io/v1alpha1"
    return _settings(api, "internalCertManagement", place, certDir=str(place.certificates))


def _lws_settings(place: Place) -> Manifest:
    api = "config.lws.x-k8s.io/v1alpha1"
    return _settings(api, "internalCertManagement", place, certDir=str(place.certificates))


def _trainer_settings(place: Place) -> Manifest:
    return _settings("config.trainer.kubeflow.org/v1alpha1", "certManagement", place)


# --- flags -----------------------------------------------------------------------------------------------------


def _kuberay_flags(place: Place) -> tuple[str, ...]:
    return (
        "--metrics-addr=0",
        f"--health-probe-bind-address={place.address}",
        "--enable-leader-election=false",
        f"--qps={CLIENT_LIMIT}",
        f"--burst={CLIENT_LIMIT}",
    )


def _mpi_flags(_: Place) -> tuple[str, ...]:
    return (
        f"--kube-api-qps={CLIENT_LIMIT}",
        f"--kube-api-burst={CLIENT_LIMIT}",
        f"--controller-queue-rate-limit={CLIENT_LIMIT}",
        f"--controller-queue-burst={CLIENT_LIMIT}",
    )


def _training_flags(place: Place) -> tuple[str, ...]:
    return (
        *(f"--enable-scheme={each}" for each in ("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")),
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={place.address}",
        f"--webhook-server-port={place.webhook}",
        f"--kube-api-qps={CLIENT_LIMIT}",
        f"--kube-api-burst={CLIENT_LIMIT}",
    )


# Its webhook is a program of its own, which makes certificates for the name of a Service: it does not run here, and
# what only it fills in has no effect (`gpu` and tolerations of a SparkApplication; defaults of its restartPolicy).
def _spark_flags(place: Place) -> tuple[str, ...]:
    return (
        "controller",
        "start",
        "--namespaces=",  # all of them
        "--leader-election=false",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={place.address}",
        f"--workqueue-ratelimiter-bucket-qps={CLIENT_LIMIT}",
        f"--workqueue-ratelimiter-bucket-size={CLIENT_LIMIT}",
    )


def _spark_environment(place: Place) -> Mapping[str, str]:
    """It starts `spark-submit`, which talks to the API server by itself."""
    return {
        "KUBERNETES_SERVICE_HOST": LOOPBACK,
        "KUBERNETES_SERVICE_PORT": str(place.api_server),
        "JAVA_HOME": str(place.tools[JAVA]),
        "SPARK_HOME": str(place.tools[SPARK]),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


# --- objects ---------------------------------------------------------------------------------------------------

_TRAINING_OBJECTS: Final[tuple[Manifest, ...]] = (
    _namespace("kubeflow"),
    # Its certificate rotator cannot be turned off: it fills the one and enters its CA in the other, which calls nobody.
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "training-operator-webhook-cert", "namespace": "kubeflow"},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [],
    },
)

_ALL: Final = (
    Operator(
        name="jobset",
        flags=_by_settings,
        settings=_jobset_settings,
        crds="config/components/crd/bases/*.yaml",
        serves=True,
        hooks="config/components/webhook",  # it panics on what its own defaulting would have set
    ),
    Operator(
        name="lws",
        flags=_by_settings,
        settings=_lws_settings,
        crds="config/crd/bases/*.yaml",
        serves=True,
        hooks="config/webhook",
    ),
    Operator(name="kuberay", flags=_kuberay_flags, crds="config/crd/bases/*.yaml"),
    Operator(
        name="mpi",
        flags=_mpi_flags,
        crds="manifests/base/kubeflow.org_mpijobs.yaml",
        objects=(_namespace("mpi-operator"),),  # where its lock lies
        ready="/healthz",
        fixed_port=8080,
    ),
    Operator(
        name="trainer",
        flags=_by_settings,
        settings=_trainer_settings,
        crds="manifests/base/crds/*.yaml",
        serves=True,
        needs=("jobset",),
    ),
    Operator(
        name="training",
        flags=_training_flags,
        crds="manifests/base/crds/*.yaml",
        but=frozenset({"kustomization.yaml", "kubeflow.org_mpijobs.yaml"}),  # an older version of mpi's
        objects=_TRAINING_OBJECTS,
        serves=True,
        looked_for=Path("/tmp", CERTIFICATES, "tls.crt"),  # noqa: S108 -- the path is written into the program
    ),
    Operator(
        name="spark",
        flags=_spark_flags,
        crds="config/crd/bases/*.yaml",
        environment=_spark_environment,
        tools=(JAVA, SPARK),
        token=True,
    ),
)
OPERATORS: Final[Mapping[str, Operator]] = {each.name: each for each in _ALL}
LIGHT: Final = tuple(each.name for each in _ALL if not each.tools)  # those that need nothing but their program


def chosen(names: Iterable[str]) -> list[Operator]:
    """The operators of these names and those they need, each once and after what it needs.

    Raises UsageError for a name that none of those that run here has.
    """
    found: dict[str, Operator] = {}
    for name in names:
        if name not in OPERATORS:
            raise UsageError(f"operator: {name!r} is none of {', '.join(OPERATORS)}")
        needed = chosen(OPERATORS[name].needs)
        found |= {each.name: each for each in (*needed, OPERATORS[name]) if each.name not in found}
    return list(found.values())


def probe(name: str, ports: Mapping[str, int]) -> Probe:
    """How the operator shows that it is ready: by its health, and by answering at its webhooks' port."""
    operator = OPERATORS[name]
    health = probes.http_probe(ports[name], operator.ready)
    return probes.every(health, *(probes.port_probe(ports[each]) for each in operator.ports[1:]))
