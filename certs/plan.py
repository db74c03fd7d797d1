"""The order of a rotation: from what is seen now to the next safe write. Pure; knows certificates by identity only.

A new CA is stored beside the old one, every caBundle holds both, that settles, the leaf is issued anew, every
replica serves it, the old CA goes. No step is remembered: each is told from the world, so that a crash, a new
leader or somebody else's overwrite between any two writes leads back into the same order. The first issue is
the same walk with no old CA in it.

What is kept true: the leaf that a replica serves verifies against every caBundle that we published. Two rules
carry it. A CA signs only once every caBundle has held it for the settling time, or if it is the only one there
is. A CA leaves only once every replica serves a leaf of its successor, or when it has ended.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from certs.world import Authority, Endpoint, Policy, World, due


@dataclass(frozen=True, slots=True)
class AddAuthority:
    """Store a new CA beside those there are; they stay trusted."""


@dataclass(frozen=True, slots=True)
class StoreLeaf:
    """Issue a leaf from the CA `signer` and store it with the current bundle."""

    signer: str


@dataclass(frozen=True, slots=True)
class StoreBundle:
    """Bring the serving Secret's ca.crt up to date."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Write the bundle into every webhook entry that holds something else."""


@dataclass(frozen=True, slots=True)
class KeepAuthorities:
    """Drop every stored CA but these."""

    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to write now; look again after this time."""

    time: timedelta
    reason: str = ""


Action = AddAuthority | StoreLeaf | StoreBundle | Publish | KeepAuthorities | Wait


def next_action(world: World, policy: Policy) -> Action:
    """Answer with the first step of the order that is not done yet."""
    return next(action for step in _ORDER if (action := step(world, policy)) is not None)


def _have_authority(world: World, _: Policy) -> Action | None:
    newest = world.authorities[0] if world.authorities else None
    old = newest is None or not newest.signs or world.now >= due(newest.issued, newest.ends)
    asked = world.renew_ca and not world.rotating  # one rotation at a time, or old CAs pile up
    return AddAuthority() if old or asked else None


def _forget_ended(world: World, _: Policy) -> Action | None:
    newest, *older = world.authorities
    keep = (newest.id, *(each.id for each in older if each.ends > world.now))
    return KeepAuthorities(keep) if keep != world.trusted else None


def _have_leaf(world: World, policy: Policy) -> Action | None:
    signer = _signer(world, policy)
    if signer is None or not (_lost(world) or _stale(world, policy, signer)):
        return None
    return StoreLeaf(signer.id)


def _publish(world: World, _: Policy) -> Action | None:
    return Publish() if any(held != world.trusted for held in world.published) else None


def _store_bundle(world: World, _: Policy) -> Action | None:
    return StoreBundle() if world.leaf is not None and world.bundle != world.trusted else None


def _settle(world: World, policy: Policy) -> Action | None:
    if not world.rotating or world.unchanged >= policy.settle:
        return None
    return Wait(min(policy.settle - world.unchanged, policy.look_every), "letting caBundle and leaf settle")


def _move_leaf(world: World, _: Policy) -> Action | None:
    newest = world.authorities[0].id
    return StoreLeaf(newest) if world.leaf is not None and world.leaf.issuer != newest else None


def _drop_old(world: World, policy: Policy) -> Action | None:
    if world.leaf is None or not world.rotating:
        return None
    behind = _behind(world.served, world.leaf.serial)
    return Wait(policy.look_every, behind) if behind else KeepAuthorities((world.authorities[0].id,))


def _idle(_: World, policy: Policy) -> Action | None:
    return Wait(policy.look_every)


_ORDER: Final[tuple[Callable[[World, Policy], Action | None], ...]] = (
    _have_authority,
    _forget_ended,
    _have_leaf,
    _publish,
    _store_bundle,
    _settle,
    _move_leaf,
    _drop_old,
    _idle,
)


def _lost(world: World) -> bool:
    """No caller can verify what is stored, so replacing it can break nothing."""
    return world.leaf is None or world.leaf.issuer is None or world.leaf.ends <= world.now


def _stale(world: World, policy: Policy, signer: Authority) -> bool:
    leaf = world.leaf
    if leaf is None:
        return False
    old = world.now >= due(leaf.issued, leaf.ends) and signer.ends > leaf.ends  # else nothing is gained
    return old or world.renew_leaf or not policy.names <= leaf.names


def _signer(world: World, policy: Policy) -> Authority | None:
    """The CA that may sign now: the newest if it is trusted everywhere, else the one that signed before.

    A leaf of the newest tells that it was trusted everywhere once; going back would hand out leaves of a CA
    that another leader may be dropping at this moment.
    """
    newest, issuer = world.authorities[0], world.leaf.issuer if world.leaf else None
    if not world.rotating or issuer == newest.id or _settled(world, policy):
        return newest
    usable = (each for each in world.authorities[1:] if each.signs and each.ends > world.now)
    return next((each for each in usable if each.id == issuer), None)


def _settled(world: World, policy: Policy) -> bool:
    everywhere = all(held == world.trusted for held in world.published)
    return everywhere and world.unchanged >= policy.settle


def _behind(served: tuple[Endpoint, ...], serial: int) -> str:
    """Name the replicas that serve another leaf; a Service without replicas proves nothing."""
    late = [f"{each.address} ({_shown(each)})" for each in served if each.serial != serial]
    if served and not late:
        return ""
    return f"waiting for {', '.join(late) or 'a replica'} to serve certificate {serial:x}"


def _shown(endpoint: Endpoint) -> str:
    return "no answer" if endpoint.serial is None else f"serves {endpoint.serial:x}"
