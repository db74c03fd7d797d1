"""Which stores a decision may rest on, and what of them a snapshot shows."""

import pytest

from policy.gatekeeper.flights import Flights
from policy.gatekeeper.snapshot import DEVICES, Stores, take
from policy.rules.objects import DeviceClass, DeviceClassSpec, ObjectMeta
from tests.virtual_clock import VirtualClock


@pytest.fixture
def stores():
    found = Stores(VirtualClock())
    for store in found.by_name.values():
        store.replace((), 1)
        store.watching(on=True)
    return found


def device_class(name, resource):
    return DeviceClass(ObjectMeta(name=name, uid=name, resource_version="2"), DeviceClassSpec(resource))


def test_resources_of_device_classes_are_told_once_and_in_order(stores):
    named = [("a", "x.io/b"), ("b", ""), ("c", "x.io/a"), ("d", "x.io/b")]
    stores.by_name[DEVICES].replace([device_class(*each) for each in named], 3)
    assert take(stores, Flights()).devices == ("x.io/a", "x.io/b")


@pytest.mark.parametrize(("name", "waits"), [("pods", True), (DEVICES, False), ("jobs.batch", False)])
def test_what_may_not_be_read_holds_up_no_more_than_it_must(stores, name, waits):
    """Owners hold their own groups; without DeviceClasses what no node offers is told to be so."""
    store = stores.by_name[name]
    assert stores.not_ready() == []
    store.watching(on=False)
    store._synced = False  # as before the first list
    store.denied = f"list {name}"
    assert stores.not_ready() == ([name] if waits else [])
