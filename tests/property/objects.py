"""JSON that decodes as a Kubernetes object of ours, whatever it says: for promises that hold for any object."""

import functools
import types
import typing

import msgspec
from hypothesis import strategies as st

from policy import names

# fmt: off
_WORDS = [
    "", "a", "b", "1", "-3", "0", "1x", "500m", "100Ei", "1e30", "cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi",
    "Always", "Job", "batch/v1", "In", "Exists", "Gt", "DoNotSchedule", "metadata.name", "NoSchedule", "Equal",
    "2026-01-01T00:00:00Z", "yesterday", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "1-3,7", "3-1,-,x",
    names.GATE, names.VOLCANO_PODGROUP, names.COSCHEDULING_LITE_NAME, names.COSCHEDULING_LITE_MIN, names.GROUP_NAME,
    names.QUEUE_NAME, names.QUEUE_NAME_LONG, names.ANNOTATION_LIFTED, names.ANNOTATION_QUEUES, names.GROUP_MIN_MEMBER,
    names.COMPLETION_INDEX, names.HOSTNAME_LABEL, names.ANNOTATION_GIVEN_BACK, names.ANNOTATION_WOKEN, names.FIELD_MANAGER,
    '{"group":"g","why":"deadlock","at":1}', "reason", "FailedCreate", '{"min":8,"at":1.5}', '{"min":-8,"at":1}', "{", "Terminating",
]
# fmt: on
WORDS = st.sampled_from(_WORDS) | st.text(max_size=6)
_INTS = st.integers(-2, 5) | st.integers(-(2**63), 2**63 - 1)


@functools.cache
def json_of(kind: object) -> st.SearchStrategy[object]:
    """Values that decode as `kind`, a type as msgspec reads it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([json_of(one) for one in inner])
    if origin is tuple:
        return st.lists(json_of(inner[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(WORDS, json_of(inner[1]), max_size=2)
    return {
        str: WORDS,
        int: _INTS,
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        typing.Any: WORDS | st.none(),
        msgspec.Raw: st.dictionaries(WORDS, WORDS, max_size=2) | st.just({"f:spec": {"f:suspend": {}}}),
    }[kind]


def _struct(kind: type[msgspec.Struct]) -> st.SearchStrategy[object]:
    hints = typing.get_type_hints(kind, include_extras=True)
    told = {f.encode_name: st.deferred(lambda h=hints[f.name]: json_of(h)) for f in msgspec.structs.fields(kind)}
    required = {f.encode_name for f in msgspec.structs.fields(kind) if f.required}
    return st.fixed_dictionaries(
        {key: told[key] for key in required}, optional={key: told[key] for key in told.keys() - required}
    )
