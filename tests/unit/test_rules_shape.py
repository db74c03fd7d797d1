"""The shape of a pod: what quota scopes and the scheduler's filters look at."""

import msgspec

from policy.rules.objects import Pod
from policy.rules.quantity import NANO
from policy.rules.shape import shape_of


def pod(spec, labels=None, annotations=None, status=None):
    metadata = {"name": "p", "namespace": "n", "labels": labels or {}, "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Pod)


def asking(**requests):
    return {"containers": [{"name": "c", "resources": {"requests": requests}}]}


def test_more_than_18_gigabytes_are_held_exactly():
    assert shape_of(pod(asking(memory="512Gi"))).requests == {"memory": 512 * 2**30 * NANO}
