"""What a rotation's decision rests on, as values: the policy, and the world as seen at one moment.

Knows certificates by identity, serial and dates only; no PEM, no key, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

_RENEW_AT: Final = 2 / 3  # of a certificate's life; cert-manager's default as well


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things last and which names the leaf vouches for.

    `settle`: API servers watch the webhook configurations, kubelets refresh mounted Secrets about once a minute.
    `look_every`: how soon an overwritten caBundle is noticed, and how often replicas are asked what they serve.
    """

    names: frozenset[str]
    ca_lifetime: timedelta = timedelta(days=365)
    leaf_lifetime: timedelta = timedelta(days=90)
    settle: timedelta = timedelta(seconds=60)
    look_every: timedelta = timedelta(seconds=10)

    def __post_init__(self) -> None:
        """Refuse what cannot work: raises ValueError, naming the field and the value."""
        if not self.names or not all(name.isascii() for name in self.names):
            raise ValueError(f"names {sorted(self.names)}: want one at least, DNS names in ASCII or IP addresses")
        if self.leaf_lifetime <= timedelta(0) or self.leaf_lifetime * 3 > self.ca_lifetime:
            raise ValueError(
                f"leaf_lifetime {self.leaf_lifetime}: want more than 0 and at most a third of"
                f" ca_lifetime {self.ca_lifetime}, or a CA's last leaf would be cut short"
            )
        if self.look_every <= timedelta(0):
            raise ValueError(f"look_every {self.look_every}: want more than 0")


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA that is stored; `signs` tells whether its private key is stored too."""

    id: str
    issued: datetime
    ends: datetime
    signs: bool = True


@dataclass(frozen=True, slots=True)
class Leaf:
    """The serving certificate that is stored; its issuer is None when no stored CA signed it."""

    serial: int
    issuer: str | None
    issued: datetime
    ends: datetime
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A replica of the webhook and the serial that it serves, None when it did not answer."""

    address: str
    serial: int | None


@dataclass(frozen=True, slots=True)
class World:
    """All that a decision rests on, seen at one moment.

    `authorities` are newest first. `bundle` is what the serving Secret's ca.crt holds, `published` what each
    webhook entry's caBundle holds. `unchanged` is how long this process has seen authorities, caBundles and leaf
    as they are. `renew_ca` and `renew_leaf`: somebody asked for it.
    """

    now: datetime
    authorities: tuple[Authority, ...] = ()
    leaf: Leaf | None = None
    bundle: tuple[str, ...] = ()
    published: tuple[tuple[str, ...], ...] = ()
    unchanged: timedelta = timedelta(0)
    served: tuple[Endpoint, ...] = ()
    renew_ca: bool = False
    renew_leaf: bool = False

    @property
    def trusted(self) -> tuple[str, ...]:
        """What every caBundle should hold."""
        return tuple(authority.id for authority in self.authorities)

    @property
    def rotating(self) -> bool:
        """Tell whether an old CA is still about."""
        return len(self.authorities) > 1


def due(issued: datetime, ends: datetime) -> datetime:
    """The moment from which a certificate is to be renewed."""
    return issued + (ends - issued) * _RENEW_AT
