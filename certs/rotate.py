"""The shell around the plan: looks, takes the one next step, and says when to look again.

Belongs to the gatekeeper's leader, which calls `step` in a thread of its own. Two rotators at once do no harm, since
every write is conditional: the slower one is refused and looks again. Remembers nothing that matters but how long
the world has been as it is, which a restart only makes shorter.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

from certs import authority, endpoints, plan, publish, store
from certs.api import Api, ApiError, CertificateError
from certs.config import Config, Mode
from certs.look import Look, look, world
from certs.outcome import LONGEST_PAUSE, Outcome
from certs.store import Store, StoredCa
from certs.world import World
from policy import names

_FIRST_PAUSE: Final = 1.0
_CONFLICT_PAUSE: Final = 0.1
_MOST_DOUBLINGS: Final = 10
_MOUNTED_PAUSE: Final = 3600.0


class Clock(Protocol):
    """What a rotation asks of time."""

    def now(self) -> datetime:
        """Wall time, UTC: what certificates are dated by."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


@dataclass(slots=True)
class _Memory:
    """Since when the world has been as it is, how often we have failed since the last success, and the last write."""

    seen: object = None
    since: float = 0.0
    failures: int = 0
    written: object = None


@dataclass(slots=True)
class Rotator:
    """Issues, rotates and publishes, one step at a time. `probe` answers with the serial that an endpoint serves."""

    api: Api
    config: Config
    clock: Clock
    probe: endpoints.Probe = endpoints.probe
    _memory: _Memory = field(default_factory=_Memory)

    def step(self) -> Outcome:
        """Take the next step. Raises nothing that the API server may cause: errors are in the outcome."""
        if self.config.mode is Mode.MOUNTED:
            return Outcome(_MOUNTED_PAUSE)
        try:
            outcome = self._step()
        except ApiError as error:
            return self._conflict() if error.conflict else self._failed(error)
        except (CertificateError, msgspec.MsgspecError) as error:
            return self._failed(error)
        self._memory.failures = 0
        return outcome

    def _step(self) -> Outcome:
        seen = look(self.api, self._store, self._endpoints, self.probe)
        now = self._lasting(world(seen, self.clock.now()))
        action = plan.next_action(now, self.config.policy)
        outcome = Outcome(
            self._pause(action),
            leaf_ends=now.leaf.ends if now.leaf else None,
            ca_ends=now.authorities[0].ends if now.authorities else None,
        )
        if isinstance(action, plan.Wait):
            return replace(outcome, waiting=action.reason)
        return replace(outcome, did=self._execute(action, seen))

    def _lasting(self, now: World) -> World:
        memory, seen = self._memory, (now.trusted, now.published, now.leaf and now.leaf.serial)
        if memory.seen != seen:
            memory.seen, memory.since = seen, self.clock.monotonic()
        return replace(now, unchanged=timedelta(seconds=self.clock.monotonic() - memory.since))

    def _pause(self, action: plan.Action) -> float:
        """Look again at once after a write, but not when it had to be repeated: somebody fights us."""
        again, self._memory.written = self._memory.written is type(action), type(action)
        if isinstance(action, plan.Wait):
            return action.time.total_seconds()
        return self.config.policy.look_every.total_seconds() if again else 0.0

    def _execute(self, action: plan.Action, seen: Look) -> str:
        match action:
            case plan.AddAuthority():
                return self._add_authority(seen)
            case plan.StoreLeaf(signer):
                return self._store_leaf(seen, signer)
            case plan.StoreBundle() if seen.leaf:
                data = store.serving_data(seen.leaf, seen.certificates)
                self._store.write(seen.tls, store.TLS_TYPE, data, renewed=False)
                return "brought ca.crt up to date"
            case plan.KeepAuthorities(keep):
                return self._keep(seen, keep)
        return self._publish(seen)

    def _add_authority(self, seen: Look) -> str:
        """If the CA Secret is lost, the CAs that replicas' leaves may be of are still in the serving Secret."""
        now, life = self.clock.now(), self.config.policy.ca_lifetime
        new = authority.new_ca(f"{names.WEBHOOK_SERVICE} {now:%Y-%m-%d %H:%M:%S}", now=now, lifetime=life)
        older = seen.cas or tuple(map(StoredCa, store.bundle(seen.tls)))
        data = store.authority_data((StoredCa(new.certificate, new.key), *older))
        self._store.write(seen.ca, store.OPAQUE, data, renewed=True)
        return f"stored a new CA, {_short(new.certificate)}, beside {len(older)} older"

    def _store_leaf(self, seen: Look, signer: str) -> str:
        ca = next(each for each in seen.cas if authority.fingerprint(each.certificate) == signer)
        policy, now = self.config.policy, self.clock.now()
        pair = authority.Pair(ca.certificate, ca.key or b"")
        san = sorted(policy.names)
        leaf = authority.issue(pair, names.WEBHOOK_SERVICE, names=san, now=now, lifetime=policy.leaf_lifetime)
        self._store.write(seen.tls, store.TLS_TYPE, store.serving_data(leaf, seen.certificates), renewed=True)
        return f"stored certificate {authority.serial(leaf.certificate):x} of CA {_short(ca.certificate)}"

    def _keep(self, seen: Look, keep: tuple[str, ...]) -> str:
        kept = tuple(each for each in seen.cas if authority.fingerprint(each.certificate) in keep)
        self._store.write(seen.ca, store.OPAQUE, store.authority_data(kept), renewed=False)
        return f"dropped {len(seen.cas) - len(kept)} old CAs"

    def _publish(self, seen: Look) -> str:
        """One configuration that cannot be written does not hold up the other."""
        errors: list[ApiError] = []
        stale = [each for each in seen.configurations if {*each.bundles.values()} - {seen.bundle}]
        for configuration in stale:
            try:
                publish.publish(self.api, configuration, seen.bundle)
            except ApiError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return f"published {len(seen.cas)} CAs in {len(stale)} webhook configurations"

    def _failed(self, error: Exception) -> Outcome:
        return Outcome(self._back_off(_FIRST_PAUSE), error=str(error))

    def _conflict(self) -> Outcome:
        """Somebody else wrote between our read and our write; that is no error."""
        return Outcome(self._back_off(_CONFLICT_PAUSE), waiting="somebody else wrote meanwhile: reading again")

    def _back_off(self, first: float) -> float:
        self._memory.failures = min(self._memory.failures + 1, _MOST_DOUBLINGS)
        return min(LONGEST_PAUSE, first * 2.0 ** (self._memory.failures - 1))

    def _endpoints(self) -> tuple[str, ...]:
        config = self.config
        return config.endpoints or endpoints.of_service(self.api, config.namespace, names.WEBHOOK_SERVICE)

    @property
    def _store(self) -> Store:
        return Store(self.api, self.config.namespace)


def _short(pem: bytes) -> str:
    return authority.fingerprint(pem)[:12]
