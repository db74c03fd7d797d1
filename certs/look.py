"""One look at everything that a rotation depends on: four reads and, during a rotation, a probe of each replica.

The order of the reads matters, since others write between them. Webhook configurations come before the CA Secret,
so that a publication from an old list of CAs meets a newer resourceVersion. The serving Secret comes before the CA
Secret, so that a leaf signed by a CA that is being dropped does so too.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from certs import authority, publish, store
from certs.api import Api
from certs.authority import Pair
from certs.endpoints import Probe
from certs.publish import Configuration
from certs.store import Secret, Store, StoredCa
from certs.world import Authority, Endpoint, Leaf, World
from policy import names


@dataclass(frozen=True, slots=True)
class Look:
    """What was read, in the form that writes need; `World` is what the plan sees of it."""

    configurations: tuple[Configuration, ...]
    tls: Secret
    ca: Secret
    leaf: Pair | None
    cas: tuple[StoredCa, ...]
    served: tuple[Endpoint, ...]

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """The stored CAs' certificates, newest first."""
        return tuple(each.certificate for each in self.cas)

    @property
    def bundle(self) -> bytes:
        """What every caBundle should hold."""
        return authority.bundle(*self.certificates)


def look(api: Api, store_: Store, list_endpoints: Callable[[], Iterable[str]], probe: Probe) -> Look:
    """Read it all. Raises ApiError or CertificateError. Replicas are asked only while an old CA is still about."""
    configurations = publish.read(api)
    tls = store_.read(names.CERT_SECRET)
    ca = store_.read(names.CA_SECRET)
    cas = store.authorities(ca)
    served = tuple(Endpoint(each, probe(each)) for each in list_endpoints()) if len(cas) > 1 else ()
    return Look(configurations, tls, ca, store.serving(tls), cas, served)


def world(seen: Look, now: datetime) -> World:
    """The world of the plan, but for how long it has been so."""
    return World(
        now=now,
        authorities=tuple(map(_authority, seen.cas)),
        leaf=_leaf(seen.leaf.certificate, seen.certificates) if seen.leaf else None,
        bundle=_ids(store.bundle(seen.tls)),
        published=tuple(_published(held) for each in seen.configurations for held in each.bundles.values()),
        served=seen.served,
        renew_ca=seen.ca.rotation_asked,
        renew_leaf=seen.tls.rotation_asked,
    )


def _authority(ca: StoredCa) -> Authority:
    issued, ends = authority.issued_at(ca.certificate), authority.not_after(ca.certificate)
    return Authority(authority.fingerprint(ca.certificate), issued, ends, signs=ca.key is not None)


def _leaf(pem: bytes, cas: Iterable[bytes]) -> Leaf:
    issuer = next((authority.fingerprint(ca) for ca in cas if authority.issued_by(pem, ca)), None)
    serial, names_ = authority.serial(pem), authority.names_of(pem)
    return Leaf(serial, issuer, authority.issued_at(pem), authority.not_after(pem), names_)


def _published(held: bytes) -> tuple[str, ...]:
    """CAs of a caBundle; one that is no list of certificates, or holds more than that, equals none of ours."""
    try:
        cas = authority.split_bundle(held)
    except ValueError:
        return ("unreadable",)
    return _ids(cas) if authority.bundle(*cas) == held else ("padded", *_ids(cas))


def _ids(cas: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(map(authority.fingerprint, cas))
