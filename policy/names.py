"""Every label, annotation, gate, verb and event reason that ganggate writes or reads.

The only place where such a string is written. Knows nothing but strings: no import of ours, no logic.
"""

from enum import StrEnum
from typing import Final

DOMAIN: Final = "ganggate.io"
SYSTEM_NAMESPACE: Final = "ganggate-system"
CONTROLLER: Final = "ganggate.io/gatekeeper"  # reportingController of our events

# --- what we put on pods -------------------------------------------------------------------------------------
GATE: Final = "ganggate.io/gang"  # the scheduling gate: the only one we ever remove
LABEL_GROUP: Final = "ganggate.io/group"  # hash of the group's identity; a hint, always recomputed
LABEL_BINPACK: Final = "ganggate.io/binpack"  # what the preferred pod affinity of section 10 selects
BINPACK_VALUE: Final = "true"
ANNOTATION_LIFTED: Final = "ganggate.io/lifted"  # written by the lift patch only; guarded by admission

# --- what we put on owners -----------------------------------------------------------------------------------
ANNOTATION_GIVEN_BACK: Final = "ganggate.io/given-back"  # beside our suspension: whose it is, since when and why
ANNOTATION_WOKEN: Final = "ganggate.io/woken"  # a time: its change makes the owner's controller try again

# --- what operators of a cluster write -----------------------------------------------------------------------
NAMESPACE_POLICY: Final = "scheduling-policy"  # namespace label: gang | binpack | hybrid
ANNOTATION_DEADLOCK: Final = "ganggate.io/deadlock"  # namespace annotation: break (default) | report
DEADLOCK_REPORT: Final = "report"
ANNOTATION_POLICY: Final = "ganggate.io/policy"  # of a Queue: gang (whole groups only) or binpack (members singly)
ANNOTATION_QUEUES: Final = "ganggate.io/queues"  # namespace annotation: allowed queues, the first is the default
LABEL_EXEMPT: Final = "ganggate.io/exempt"  # pod label: only holders of the verb lift may set it
LABEL_MANAGED: Final = "app.kubernetes.io/managed-by"  # on objects that we made, value MANAGER
LABEL_AGGREGATE: Final = "ganggate.io/aggregate-to-gatekeeper"  # on ClusterRoles whose rights the gatekeeper gets
MANAGER: Final = "ganggate"
FIELD_MANAGER: Final = "ganggate"

# --- RBAC: the virtual resource whose verb `lift` lets one remove our gate -----------------------------------
LIFT_VERB: Final = "lift"
LIFT_RESOURCE: Final = "groups"

# --- groups of other projects, read and (the first) written --------------------------------------------------
GROUP_NAME: Final = "scheduling.k8s.io/group-name"  # Volcano's join key, an annotation
VOLCANO_PODGROUP: Final = "volcano.sh/podgroup"
VOLCANO_GROUP_NAME: Final = "scheduling.volcano.sh/group-name"
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
COSCHEDULING_OLD_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
COSCHEDULING_LITE_NAME: Final = "pod-group.scheduling.sigs.k8s.io/name"
COSCHEDULING_LITE_MIN: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
TASK_SPEC: Final = "volcano.sh/task-spec"
OWN_PODGROUP_PREFIX: Final = "ganggate-"  # + uid of the root owner

# --- labels of operators, by which a pod tells its role ------------------------------------------------------
JOBSET_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"  # an annotation
JOBSET_NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"  # an annotation
KUBEFLOW_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
KUBEFLOW_JOB_ROLE: Final = "training.kubeflow.org/job-role"
RAY_GROUP: Final = "ray.io/group"
RAY_REPLICA: Final = "ray.io/worker-group-replica-name"
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
SPARK_ROLE: Final = "spark-role"

# --- queues --------------------------------------------------------------------------------------------------
QUEUE_NAME: Final = "volcano.sh/queue-name"
QUEUE_NAME_LONG: Final = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"

VOLCANO_API: Final = "scheduling.volcano.sh"
VOLCANO_VERSION: Final = "v1beta1"
COSCHEDULING_API: Final = "scheduling.x-k8s.io"
COSCHEDULING_OLD_API: Final = "scheduling.sigs.k8s.io"
COSCHEDULING_VERSION: Final = "v1alpha1"
NATIVE_API: Final = "scheduling.k8s.io"

# --- schedulers ----------------------------------------------------------------------------------------------
DEFAULT_SCHEDULER: Final = "default-scheduler"
BINPACK_SCHEDULER: Final = "binpack-scheduler"
REWRITTEN_SCHEDULERS: Final = frozenset({"volcano", "scheduler-plugins-scheduler", "kube-batch"})

# --- pods that are never ours --------------------------------------------------------------------------------
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
KUEUE_MANAGED: Final = "kueue.x-k8s.io/managed"
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
UNTOUCHED_NAMESPACES: Final = frozenset({"kube-system", SYSTEM_NAMESPACE})
NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
NODES_GROUP: Final = "system:nodes"
DAEMONSET_REQUESTERS: Final = frozenset(
    {
        "system:serviceaccount:kube-system:daemon-set-controller",
        "system:kube-controller-manager",
    }
)

# --- Kubernetes' own keys ------------------------------------------------------------------------------------
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"  # of an EndpointSlice
JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
# By which operators tell their pods apart by owner.
OWNER_NAME_LABELS: Final = (
    JOB_NAME_LABEL,
    "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
    "sparkoperator.k8s.io/app-name",
    "volcano.sh/job-name",
)
DEFAULT_GRACE_SECONDS: Final = 30  # spec.terminationGracePeriodSeconds of a pod that states none
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"  # + its name: a resource that a DeviceClass provides
DISRUPTION_TARGET: Final = "DisruptionTarget"  # condition of a pod that is ended for the sake of something else
PREEMPTED_BY_SCHEDULER: Final = "PreemptionByScheduler"  # its reason
API_APPROVED: Final = "api-approved.kubernetes.io"

# --- leader election, certificates, webhook configurations ---------------------------------------------------
LEASE_NAME: Final = "ganggate-gatekeeper"
# Mounted by the webhook: its leaf and key, and the CAs' certificates.
CERT_SECRET: Final = "ganggate-webhook-tls"  # noqa: S105 -- the name of a Secret, not a secret
# The CAs' keys: mounted nowhere.
CA_SECRET: Final = "ganggate-webhook-ca"  # noqa: S105 -- the name of a Secret, not a secret
ANNOTATION_ROTATE: Final = "ganggate.io/rotate"  # on either Secret, any value: renew what it holds now
CERT_FIELD_MANAGER: Final = "ganggate-certs"
WEBHOOK_SERVICE: Final = "ganggate-webhook"
MUTATING_CONFIG: Final = "ganggate"
VALIDATING_CONFIG: Final = "ganggate"
WEBHOOK_DOMAIN: Final = "webhook.ganggate.io"


class Policy(StrEnum):
    """Value of the namespace label `scheduling-policy`, and last element of the mutating path."""

    GANG = "gang"
    BINPACK = "binpack"
    HYBRID = "hybrid"


class Reason(StrEnum):
    """Reasons of events, conditions and `ganggate why`. Each has one entry in docs/reasons.md."""

    FORMING = "GangForming"
    NAMESPACE_QUOTA_SHORT = "NamespaceQuotaShort"
    QUEUE_CAPABILITY_SHORT = "QueueCapabilityShort"
    QUEUE_MISSING = "QueueMissing"
    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_ALLOWED = "QueueNotAllowed"
    NODES_SHORT = "NodesShort"
    BEHIND_RESERVATION = "BehindReservation"
    NEVER_FITS = "NeverFits"
    REQUESTS_MISSING = "RequestsMissing"
    CREATE_REFUSED = "CreateRefused"
    GIVEN_BACK = "GangGivenBack"
    RESUMED = "GangResumed"
    QUOTA_DEADLOCK = "QuotaDeadlock"
    QUOTA_DISAGREES = "QuotaDisagrees"
    QUOTA_NEVER_BINDS = "QuotaNeverBinds"
    PODGROUP_MISSING = "PodGroupMissing"
    PODGROUP_INVALID = "PodGroupInvalid"
    OWNER_GONE = "OwnerGone"
    OWNER_UNREADABLE = "OwnerUnreadable"
    FOREIGN_GATE = "ForeignGate"
    ADMITTED = "GangAdmitted"
    LIFTED = "GangLifted"
    RUNNING = "GangRunning"
    FINISHED = "GangFinished"
    LIFT_REFUSED = "LiftRefused"
    BIND_TIMEOUT = "GangBindTimeout"
    DEGRADED = "GangDegraded"
    PREEMPTED = "GangPreempted"
    BYPASSED = "GateBypassed"
    TOO_MANY_GROUPS = "TooManyGroups"
    RELEASED = "GateReleased"
