"""From a question to an answer: which rule is asked for which path and operation. Pure.

Updates, deletions and subresources that no rule is about pass: the registration decides what is sent here, and a
registration that sends too much must not stop a cluster.
"""

from typing import Final

from policy import names
from webhook import mutate, validate
from webhook.config import Config
from webhook.eligibility import Facts, Gate, Pass, Refusal
from webhook.review import Answer, BadObjectError, Request

_IRRELEVANT: Final = Answer("passed", "not-judged")
_UNCHANGED: Final = Answer("passed", "unchanged")


def on_mutate(request: Request, policy: names.Policy, config: Config) -> Answer:
    """Answer /mutate/<policy>: a patch for a pod that is being created."""
    if request.sub_resource or request.operation != "CREATE":
        return _IRRELEVANT
    try:
        pod = request.pod()
    except BadObjectError as error:
        return _unreadable(error)
    change = mutate.change(pod, facts(request, policy, config))
    match change.verdict:
        case Refusal():
            return refused(change.verdict)
        case Pass(why):
            return Answer("passed", why, operations=change.operations, warnings=change.warnings)
        case Gate():
            return Answer("gated", operations=change.operations, warnings=change.warnings)


def on_validate(request: Request, policy: names.Policy, config: Config) -> Answer:
    """Answer /validate/<policy>: the final object of a create, or an update that touches our marks."""
    if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return _IRRELEVANT
    try:
        pod = request.pod()
        old = request.old_pod() if request.operation == "UPDATE" else None
    except BadObjectError as error:
        return _unreadable(error)
    refusal = validate.updated(old, pod) if old else validate.created(pod, facts(request, policy, config))
    return refused(refusal) if refusal else _UNCHANGED


def on_gate_removal(request: Request) -> Answer:
    """Answer /validate/gate-removal: whatever the matchConditions let through is refused."""
    if request.sub_resource or request.operation != "UPDATE":
        return _IRRELEVANT
    try:
        refusal = validate.gate_removed(request.old_pod(), request.pod())
    except BadObjectError as error:
        return _unreadable(error)
    return refused(refusal) if refusal else _UNCHANGED


def facts(request: Request, policy: names.Policy, config: Config) -> Facts:
    user = request.user_info
    return Facts(request.namespace, user.username, user.groups, policy, config)


def refused(refusal: Refusal) -> Answer:
    return Answer("refused", refusal.why, refusal.code, refusal.message)


def _unreadable(error: BadObjectError) -> Answer:
    return refused(Refusal("unreadable", str(error)))
