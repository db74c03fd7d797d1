"""The rotation's one promise, over every interleaving we can think of: what is served is trusted.

The model has several rotators at once, each of which can be frozen or killed between any two requests, API
servers that see a webhook configuration late, kubelets that refresh a Secret late, replicas that come and go,
and people who overwrite caBundles and delete Secrets. Only the plan is real; the writes are conditional as the
API server's are.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from certs import plan
from certs.world import Authority, Endpoint, Leaf, Policy, World

LAG = timedelta(seconds=50)  # of API servers and kubelets; shorter than the settling time, which is the point of it
POLICY = Policy(
    names=frozenset({"svc"}),
    ca_lifetime=timedelta(hours=30),
    leaf_lifetime=timedelta(hours=10),
    settle=timedelta(seconds=60),
)
START = datetime(2026, 1, 1, tzinfo=UTC)
CONFIGURATIONS, API_SERVERS, ROTATORS = range(2), range(2), range(2)


@dataclass(frozen=True)
class AuthoritySecret:
    version: int
    authorities: tuple[Authority, ...]
    asked: bool = False


@dataclass(frozen=True)
class ServingSecret:
    version: int
    leaf: Leaf
    bundle: tuple[str, ...]
    asked: bool = False


@dataclass(frozen=True)
class CaBundle:
    version: int
    holds: tuple[str, ...] = ()
    ours: bool = True
    written: datetime = START


@dataclass
class Rotator:
    """What a process remembers between looks, and the request that it is about to make."""

    program: Iterator[None] | None = None
    seen: object = None
    since: datetime = START


@dataclass
class Cluster:
    """Stored objects, conditional writes, and everybody who sees them late."""

    now: datetime = START
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    ca: AuthoritySecret | None = None
    tls: ServingSecret | None = None
    bundles: list[CaBundle] = field(default_factory=lambda: [CaBundle(0) for _ in CONFIGURATIONS])
    views: list[list[CaBundle]] = field(
        default_factory=lambda: [[CaBundle(0) for _ in CONFIGURATIONS] for _ in API_SERVERS]
    )
    mounted: list[tuple[datetime, Leaf]] = field(default_factory=list)  # with the moment each was replaced
    ends: dict[str, datetime] = field(default_factory=dict)  # of every CA there ever was
    replicas: dict[str, Leaf | None] = field(default_factory=dict)
    mute: set[str] = field(default_factory=set)  # replicas that do not answer a probe at the moment
    listed: bool = True  # whether the Service's EndpointSlices show any replica
    publishing: bool = True  # whether we may write webhook configurations

    def next(self) -> int:
        return next(self.counter)

    def pass_time(self, time: timedelta) -> None:
        self.now += time
        for view in self.views:
            for index, bundle in enumerate(self.bundles):
                if self.now - bundle.written >= LAG:
                    view[index] = bundle

    def write_tls(self, expected: ServingSecret | None, leaf: Leaf, bundle: tuple[str, ...]) -> None:
        if self.tls != expected:
            return
        same = self.tls is not None and self.tls.leaf == leaf
        if self.tls is not None and not same:
            self.mounted.append((self.now, self.tls.leaf))
        self.tls = ServingSecret(self.next(), leaf, bundle, asked=same and self.tls.asked)

    def write_ca(
        self, expected: AuthoritySecret | None, authorities: tuple[Authority, ...], *, asked: bool = False
    ) -> None:
        if self.ca == expected:
            self.ca = AuthoritySecret(self.next(), authorities, asked)

    def write_bundle(self, index: int, holds: tuple[str, ...], *, ours: bool, expected: CaBundle | None = None) -> bool:
        if expected is not None and self.bundles[index].version != expected.version:
            return False
        self.bundles[index] = CaBundle(self.next(), holds, ours, self.now)
        return True

    def mountable(self) -> list[Leaf]:
        """What a kubelet may mount into a new pod: what is stored, or what it still holds from lately."""
        stale = [leaf for replaced, leaf in self.mounted if self.now - replaced < LAG]
        return stale + ([self.tls.leaf] if self.tls else [])


def look(cluster: Cluster, me: Rotator) -> Iterator[None]:
    """One step of a rotator; the generator stands still between any two requests to the API server."""
    bundles = list(cluster.bundles)
    yield
    tls = cluster.tls
    yield
    ca = cluster.ca
    yield
    world = observed(cluster, me, bundles, ca, tls, probed(cluster))
    action = plan.next_action(world, POLICY)
    yield
    yield from execute(cluster, action, world, bundles, ca, tls)


def probed(cluster: Cluster) -> tuple[Endpoint, ...]:
    serials = {name: leaf.serial if leaf else None for name, leaf in cluster.replicas.items() if cluster.listed}
    return tuple(Endpoint(name, None if name in cluster.mute else serial) for name, serial in serials.items())


def observed(
    cluster: Cluster,
    me: Rotator,
    bundles: list[CaBundle],
    ca: AuthoritySecret | None,
    tls: ServingSecret | None,
    served: tuple[Endpoint, ...],
) -> World:
    authorities = ca.authorities if ca else ()
    trusted = {each.id for each in authorities}
    leaf = replace(tls.leaf, issuer=tls.leaf.issuer if tls.leaf.issuer in trusted else None) if tls else None
    published = tuple(bundle.holds for bundle in bundles)
    seen = (authorities, published, leaf)
    if seen != me.seen:
        me.seen, me.since = seen, cluster.now
    return World(
        now=cluster.now,
        authorities=authorities,
        leaf=leaf,
        bundle=tls.bundle if tls else (),
        published=published,
        unchanged=cluster.now - me.since,
        served=served,
        renew_ca=ca is not None and ca.asked,
        renew_leaf=tls is not None and tls.asked,
    )


def execute(
    cluster: Cluster,
    action: plan.Action,
    world: World,
    bundles: list[CaBundle],
    ca: AuthoritySecret | None,
    tls: ServingSecret | None,
) -> Iterator[None]:
    match action:
        case plan.AddAuthority():
            new = Authority(f"ca{cluster.next()}", cluster.now, cluster.now + POLICY.ca_lifetime)
            cluster.ends[new.id] = new.ends
            orphans = world.bundle if ca is None else ()
            kept = [Authority(each, cluster.now, cluster.now + POLICY.ca_lifetime, signs=False) for each in orphans]
            cluster.write_ca(ca, (new, *world.authorities, *kept))
        case plan.KeepAuthorities(keep):
            kept = [each for each in world.authorities if each.id in keep]
            cluster.write_ca(ca, tuple(kept), asked=world.renew_ca)
        case plan.StoreLeaf(signer):
            ends = next(each.ends for each in world.authorities if each.id == signer)
            ends = min(ends, cluster.now + POLICY.leaf_lifetime)
            cluster.write_tls(tls, Leaf(cluster.next(), signer, cluster.now, ends, POLICY.names), world.trusted)
        case plan.StoreBundle():
            assert tls is not None
            cluster.write_tls(tls, tls.leaf, world.trusted)
        case plan.Publish():
            for index, bundle in enumerate(bundles):
                if bundle.holds != world.trusted and cluster.publishing:
                    cluster.write_bundle(index, world.trusted, ours=True, expected=bundle)
                yield
        case plan.Wait():
            pass


DISTURBANCES = (
    "kill rotator",
    "empty caBundle",
    "overwrite caBundle",
    "delete CA Secret",
    "delete TLS Secret",
    "forbid or allow publishing",
    "hide or show endpoints",
    "mute or unmute replica",
    "stop replica",
)


class Rotation(RuleBasedStateMachine):
    """Few rules, and those that bring a rotation forward more often than those that disturb it."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.rotators = [Rotator() for _ in ROTATORS]
        self.deleted = False
        self.names = itertools.count(1)

    @initialize(how=st.sampled_from(["empty", "installed", "a replica is mute", "endpoints are hidden"]))
    def begin(self, how: str) -> None:
        """From nothing, or with a replica that serves; what keeps it from being asked is rare if left to chance."""
        if how == "empty":
            return
        self.run_alone(0, 20, refresh=False)
        self.cluster.replicas["pod-0"] = self.cluster.tls.leaf
        self.cluster.mute |= {"pod-0"} if "mute" in how else set()
        self.cluster.listed = "hidden" not in how

    def run_alone(self, who: int, looks: int, *, refresh: bool) -> None:
        for _ in range(looks):
            self.run_one(who, 8)
            self.what_is_served_is_trusted()
            for name in self.cluster.replicas.keys() - self.cluster.mute if refresh else ():
                self.reload(name, 9)
            self.cluster.pass_time(POLICY.look_every)

    def run_one(self, who: int, requests: int) -> None:
        me = self.rotators[who]
        for _ in range(requests):
            me.program = me.program or look(self.cluster, me)
            if next(me.program, self) is self:
                me.program = None

    @rule(who=st.sampled_from(ROTATORS), requests=st.integers(1, 12))
    def proceed(self, who: int, requests: int) -> None:
        self.run_one(who, requests)

    @rule(who=st.sampled_from(ROTATORS), looks=st.integers(1, 40), refresh=st.booleans())
    def proceed_in_peace(self, who: int, looks: int, refresh: bool) -> None:
        """Many looks on end: without this hardly a run gets through one rotation."""
        self.run_alone(who, looks, refresh=refresh)

    @rule(seconds=st.sampled_from([1, 9, 49, 50, 60, 3600, 3 * 3600]))
    def pass_time(self, seconds: int) -> None:
        self.cluster.pass_time(timedelta(seconds=seconds))

    @rule(pick=st.none() | st.integers(0, 9))
    def start_replica(self, pick: int | None) -> None:
        """It takes what its kubelet has, which may be a while old; until then it does not answer."""
        name = f"pod-{next(self.names)}"
        self.cluster.replicas[name] = None
        if pick is not None:
            self.reload(name, pick)

    @rule(replica=st.integers(0, 9), pick=st.integers(0, 9))
    def load(self, replica: int, pick: int) -> None:
        if name := self.nth(replica):
            self.reload(name, pick)

    def nth(self, number: int) -> str | None:
        names = sorted(self.cluster.replicas)
        return names[number % len(names)] if names else None

    def reload(self, name: str, pick: int) -> None:
        """What is mounted never goes back for a running replica."""
        fresh = self.cluster.replicas[name] is None
        found = self.cluster.mountable() if fresh else [self.cluster.tls.leaf] if self.cluster.tls else []
        if found:
            self.cluster.replicas[name] = found[min(pick, len(found) - 1)]

    @rule(server=st.sampled_from(API_SERVERS), index=st.sampled_from(CONFIGURATIONS))
    def api_server_sees(self, server: int, index: int) -> None:
        self.cluster.views[server][index] = self.cluster.bundles[index]

    @precondition(lambda self: self.cluster.ca is not None)
    @rule()
    def ask_for_ca(self) -> None:
        self.cluster.ca = replace(self.cluster.ca, version=self.cluster.next(), asked=True)

    @precondition(lambda self: self.cluster.tls is not None)
    @rule()
    def ask_for_leaf(self) -> None:
        self.cluster.tls = replace(self.cluster.tls, version=self.cluster.next(), asked=True)

    @rule(what=st.sampled_from(DISTURBANCES), number=st.integers(0, 9))
    def disturb(self, what: str, number: int) -> None:
        cluster, index, name = self.cluster, number % len(CONFIGURATIONS), self.nth(number)
        match what:
            case "kill rotator":
                self.rotators[number % len(ROTATORS)] = Rotator(since=cluster.now)
            case "empty caBundle":
                cluster.write_bundle(index, (), ours=False)
            case "overwrite caBundle":
                cluster.write_bundle(index, ("stranger",), ours=False)
            case "delete CA Secret" | "delete TLS Secret":
                self.delete_secret("ca" if "CA" in what else "tls")
            case "forbid or allow publishing":
                cluster.publishing = not cluster.publishing
            case "hide or show endpoints":
                cluster.listed = not cluster.listed
            case "mute or unmute replica" if name:
                cluster.mute ^= {name}
            case "stop replica" if name:
                del cluster.replicas[name]

    def delete_secret(self, what: str) -> None:
        """Once a run, and no rotator has read before and writes after.

        With both gone nothing is left to tell which CA the replicas use; and that a Secret was absent, present
        and absent again is the one thing that a conditional create cannot notice.
        """
        if self.deleted or self.cluster.ca is None or self.cluster.tls is None:
            return
        self.deleted = True
        setattr(self.cluster, what, None)
        for rotator in self.rotators:
            rotator.program = None

    @invariant()
    def what_is_served_is_trusted(self) -> None:
        for name, leaf in self.cluster.replicas.items():
            if leaf is None or leaf.ends <= self.cluster.now:
                continue
            for bundle in itertools.chain(*self.cluster.views, self.cluster.bundles):
                if bundle.ours and any(self.cluster.ends[ca] > self.cluster.now for ca in bundle.holds):
                    assert leaf.issuer in bundle.holds, (
                        f"{name} serves a leaf of {leaf.issuer}, trusted: {bundle.holds}"
                    )

    def teardown(self) -> None:
        """Left alone, it comes to rest: one CA, published everywhere, served by all."""
        self.cluster.replicas.setdefault("last", None)
        self.cluster.mute.clear()
        self.cluster.listed = self.cluster.publishing = True
        self.run_alone(0, 90, refresh=True)
        ca, tls = self.cluster.ca, self.cluster.tls
        assert ca is not None and tls is not None and not ca.asked and not tls.asked
        assert tls.leaf.issuer == ca.authorities[0].id and tls.leaf.ends > self.cluster.now
        assert all(bundle.holds == tls.bundle for bundle in self.cluster.bundles)
        assert len(ca.authorities) == 1


SHAPE = settings(
    max_examples=200,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # of a shared machine
)
TestRotation = Rotation.TestCase
TestRotation.settings = SHAPE

WEAKENED = {
    "no settling": ("_ORDER", tuple(step for step in plan._ORDER if step is not plan._settle)),
    "signs before it is trusted everywhere": ("_settled", lambda world, policy: world.unchanged >= policy.settle),
    "drops without asking the replicas": ("_behind", lambda served, serial: ""),
    "takes silence for consent": (
        "_behind",
        lambda served, serial: "late" if any(each.serial not in (None, serial) for each in served) else "",
    ),
    "takes an empty list for consent": (
        "_behind",
        lambda served, serial: "late" if any(each.serial != serial for each in served) else "",
    ),
}


@pytest.mark.parametrize("how", WEAKENED)
def test_the_model_notices_a_weaker_plan(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Else the promise above would hold for want of trying."""
    monkeypatch.setattr(plan, *WEAKENED[how])
    shape = settings(SHAPE, max_examples=2000, phases=[Phase.generate], database=None, report_multiple_bugs=False)
    with pytest.raises(AssertionError, match="serves a leaf of"):
        run_state_machine_as_test(seed(1)(type("Weakened", (Rotation,), {})), settings=shape)
