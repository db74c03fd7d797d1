"""Two nouns, CA and leaf: makes them and reads them back, as PEM.

Pure but for the random keys and serials: takes the time as an argument, touches no file, no network and no
Secret. Everything is ECDSA P-256, which every TLS stack that an API server or a client may use accepts.
"""

import hashlib
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATE: Final = timedelta(hours=1)  # clocks of API servers and webhooks differ
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----\n?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM; the key never shows in a repr, hence in no log."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_ca(common_name: str, *, now: datetime, lifetime: timedelta) -> Pair:
    """Make a self-signed CA that may sign leaves only (path length 0), valid from an hour ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(common_name, ())
    builder = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(ca=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _pem_of_key(key))


def issue(
    ca: Pair,
    common_name: str,
    *,
    names: Sequence[str] = (),
    organizations: Sequence[str] = (),
    client: bool = False,
    now: datetime,
    lifetime: timedelta,
) -> Pair:
    """Issue a leaf: a server's for `names` (DNS names or IP addresses), a client's if `client`, or both.

    Kubernetes reads a client's user from the common name (at most 64 characters) and its groups from the
    organizations. The leaf ends with its CA at the latest. Raises ValueError when it would be of no use:
    neither names nor `client`, or a CA that has ended.
    """
    signer, key = x509.load_pem_x509_certificate(ca.certificate), ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, signer.not_valid_after_utc)
    if end <= now:
        raise ValueError(f"CA {signer.subject.rfc4514_string()} ended at {signer.not_valid_after_utc}, now {now}")
    builder = (
        _builder(_name(common_name, organizations), signer.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(ca=False), critical=True)
        .add_extension(_extended_key_usage(server=bool(names), client=client), critical=False)
        .add_extension(_issuer_key_id(signer), critical=False)
    )
    if names:
        builder = builder.add_extension(_alternative_names(names), critical=False)
    return Pair(_pem(builder.sign(_private_key(ca.key), hashes.SHA256())), _pem_of_key(key))


def serial(pem: bytes) -> int:
    """Serial number of the first certificate in `pem`."""
    return x509.load_pem_x509_certificate(pem).serial_number


def serial_of_der(der: bytes) -> int:
    """Serial number of a certificate as a TLS handshake hands it over."""
    return x509.load_der_x509_certificate(der).serial_number


def issued_at(pem: bytes) -> datetime:
    """When we issued it, UTC: an hour after its validity begins."""
    return x509.load_pem_x509_certificate(pem).not_valid_before_utc + BACKDATE


def not_after(pem: bytes) -> datetime:
    """Last moment of validity, UTC."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


def names_of(pem: bytes) -> frozenset[str]:
    """DNS names and IP addresses that the certificate vouches for."""
    extensions = x509.load_pem_x509_certificate(pem).extensions
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = found.get_values_for_type(x509.IPAddress)
    return frozenset((*found.get_values_for_type(x509.DNSName), *map(str, addresses)))


def fingerprint(pem: bytes) -> str:
    """SHA-256 of the certificate's DER in hexadecimal: its identity in logs, annotations and comparisons."""
    return hashlib.sha256(_der(x509.load_pem_x509_certificate(pem))).hexdigest()


def bundle(*cas: Pair | bytes) -> bytes:
    """Join CA certificates into one PEM, each once, in the order given; private keys are left out."""
    certificates = (ca.certificate if isinstance(ca, Pair) else ca for ca in cas)
    return b"".join(dict.fromkeys(single for pem in certificates for single in split_bundle(pem)))


def split_bundle(pem: bytes) -> tuple[bytes, ...]:
    """Split a PEM into its certificates, each normalized; none in, none out. ValueError if unreadable."""
    return tuple(map(_pem, x509.load_pem_x509_certificates(pem))) if _BEGIN in pem else ()


def split_keys(pem: bytes) -> tuple[bytes, ...]:
    """Split a PEM into its private keys; none in, none out."""
    return tuple(_KEY.findall(pem))


def issued_by(pem: bytes, ca: bytes) -> bool:
    """Tell whether the first certificate of `pem` names `ca` as its issuer and carries its signature."""
    try:
        x509.load_pem_x509_certificate(pem).verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def matches(pair: Pair) -> bool:
    """Tell whether both halves can be read and belong together: a file read in mid-swap does not."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return certificate.public_key() == key.public_key()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(common_name: str, organizations: Iterable[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,  # RSA key exchange only
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _extended_key_usage(*, server: bool, client: bool) -> x509.ExtendedKeyUsage:
    usages = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
    if not usages:
        raise ValueError("a leaf needs names (a server's) or client=True")
    return x509.ExtendedKeyUsage(usages)


def _issuer_key_id(signer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    own = signer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _alternative_names(names: Iterable[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(name) for name in dict.fromkeys(names)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"private key: want ECDSA, got {type(key).__name__}")
    return key


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)
