"""CA and leaf, checked from outside: by the ssl module, by the strict verifier of cryptography, by a stranger's CA."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs import authority
from certs.authority import Pair, issue, new_ca

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = ("svc", "svc.ns", "svc.ns.svc", "127.0.0.1", "::1")


@pytest.fixture(scope="module")
def ca() -> Pair:
    return new_ca("a CA", now=NOW, lifetime=30 * DAY)


@pytest.fixture(scope="module")
def leaf(ca: Pair) -> Pair:
    return issue(ca, "svc", names=NAMES, now=NOW, lifetime=10 * DAY)


def parsed(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def extension(pair: Pair, kind: type[x509.ExtensionType]) -> x509.Extension:
    return parsed(pair).extensions.get_extension_for_class(kind)


def verify(pair: Pair, cas: bytes, name: str = "svc.ns.svc", at: datetime = NOW) -> None:
    store = Store(x509.load_pem_x509_certificates(cas))
    verifier = PolicyBuilder().store(store).time(at.replace(tzinfo=None)).build_server_verifier(x509.DNSName(name))
    verifier.verify(parsed(pair), [])


def handshake(served: Pair, trusted: bytes, name: str, folder) -> None:
    """A TLS client of OpenSSL against the pair, in memory. Raises ssl.SSLError as a client would see it."""
    (folder / "pair.pem").write_bytes(served.key + served.certificate)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(folder / "pair.pem")
    client_context = ssl.create_default_context(cadata=trusted.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, there, server_hostname=name)
    server = server_context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_ca_accepts_the_leaf_under_each_name(name, tmp_path) -> None:
    now = datetime.now(UTC)
    fresh = new_ca("a CA", now=now, lifetime=DAY)
    served = issue(fresh, "svc", names=NAMES, now=now, lifetime=DAY)
    handshake(served, fresh.certificate, name, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served, fresh.certificate, "other.example.com", tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(served, trustme.CA().cert_pem.bytes(), name, tmp_path)


def test_overlapping_cas_of_one_name_verify_leaves_of_both(tmp_path) -> None:
    """The bundle of a rotation holds two CAs that differ in the key only."""
    now = datetime.now(UTC)
    old, new = (new_ca("the same name", now=now, lifetime=DAY) for _ in range(2))
    for signer in (old, new):
        handshake(
            issue(signer, "svc", names=["svc"], now=now, lifetime=DAY), authority.bundle(new, old), "svc", tmp_path
        )


def test_the_strict_verifier_agrees(ca: Pair, leaf: Pair) -> None:
    verify(leaf, ca.certificate)
    with pytest.raises(VerificationError):
        verify(leaf, new_ca("a CA", now=NOW, lifetime=30 * DAY).certificate)
    with pytest.raises(VerificationError):
        verify(leaf, ca.certificate, at=NOW + 11 * DAY)


def test_clocks_may_differ_by_an_hour(ca: Pair, leaf: Pair) -> None:
    verify(leaf, ca.certificate, at=NOW - timedelta(minutes=59))
    assert authority.issued_at(leaf.certificate) == NOW
    with pytest.raises(VerificationError):
        verify(leaf, ca.certificate, at=NOW - timedelta(minutes=61))


def test_a_leaf_never_outlives_its_ca(ca: Pair) -> None:
    assert authority.not_after(issue(ca, "svc", names=["svc"], now=NOW + 25 * DAY, lifetime=10 * DAY).certificate) == (
        NOW + 30 * DAY
    )
    with pytest.raises(ValueError, match="ended at 2026-03-31"):
        issue(ca, "svc", names=["svc"], now=NOW + 30 * DAY, lifetime=DAY)


def test_what_a_ca_may_do(ca: Pair) -> None:
    constraints, usage = extension(ca, x509.BasicConstraints), extension(ca, x509.KeyUsage)
    assert constraints.critical and constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert usage.critical and usage.value.key_cert_sign and not usage.value.digital_signature
    own = extension(ca, x509.SubjectKeyIdentifier).value.digest
    assert extension(ca, x509.AuthorityKeyIdentifier).value.key_identifier == own


def test_what_a_leaf_may_do(ca: Pair, leaf: Pair) -> None:
    constraints, usage = extension(leaf, x509.BasicConstraints), extension(leaf, x509.KeyUsage)
    assert constraints.critical and not constraints.value.ca
    assert usage.critical and usage.value.digital_signature and not usage.value.key_cert_sign
    assert list(extension(leaf, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert (
        extension(leaf, x509.AuthorityKeyIdentifier).value.key_identifier
        == extension(ca, x509.SubjectKeyIdentifier).value.digest
    )
    assert isinstance(parsed(leaf).public_key().curve, ec.SECP256R1)
    assert authority.names_of(leaf.certificate) == set(NAMES)
    alternatives = extension(leaf, x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.IPAddress) == [
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
    ]


def test_a_clients_certificate_says_user_and_groups(ca: Pair) -> None:
    client = issue(ca, "someone", organizations=["g1", "g2"], client=True, now=NOW, lifetime=DAY)
    subject = parsed(client).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["someone"]
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["g1", "g2"]
    assert list(extension(client, x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    both = issue(ca, "peer", names=["peer"], client=True, now=NOW, lifetime=DAY)
    assert set(extension(both, x509.ExtendedKeyUsage).value) == {
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    with pytest.raises(ValueError, match="needs names"):
        issue(ca, "nobody", now=NOW, lifetime=DAY)


def test_a_key_never_shows(ca: Pair, leaf: Pair) -> None:
    for pair in (ca, leaf):
        shown = f"{pair!r} {pair}"
        assert "PRIVATE" not in shown and pair.key.decode().split("\n")[1] not in shown


def test_serials_differ_and_are_read_back(ca: Pair, leaf: Pair) -> None:
    again = issue(ca, "svc", names=NAMES, now=NOW, lifetime=10 * DAY)
    assert authority.serial(leaf.certificate) == parsed(leaf).serial_number != authority.serial(again.certificate)
    der = parsed(leaf).public_bytes(serialization.Encoding.DER)
    assert authority.serial_of_der(der) == authority.serial(leaf.certificate)


def test_bundles_hold_each_ca_once_in_order_and_no_key(ca: Pair) -> None:
    other = new_ca("another CA", now=NOW, lifetime=DAY)
    joined = authority.bundle(other, ca, other.certificate)
    assert authority.split_bundle(joined) == (other.certificate, ca.certificate)
    assert b"PRIVATE" not in joined
    assert authority.split_bundle(b"") == authority.split_bundle(b"no certificate here") == ()
    with pytest.raises(ValueError):
        authority.split_bundle(b"-----BEGIN CERTIFICATE-----\nrubbish\n-----END CERTIFICATE-----\n")


def test_a_bundle_is_normalized(ca: Pair) -> None:
    noisy = b"# a comment\n" + ca.certificate.replace(b"\n", b"\r\n") + b"\n\n"
    assert authority.bundle(noisy) == ca.certificate
    assert authority.fingerprint(noisy) == authority.fingerprint(ca.certificate)


def test_keys_are_split(ca: Pair, leaf: Pair) -> None:
    assert authority.split_keys(ca.key + leaf.key) == (ca.key, leaf.key)
    assert authority.split_keys(b"") == authority.split_keys(ca.certificate) == ()


def test_who_issued_what(ca: Pair, leaf: Pair) -> None:
    assert authority.issued_by(leaf.certificate, ca.certificate)
    assert not authority.issued_by(leaf.certificate, new_ca("a CA", now=NOW, lifetime=DAY).certificate)
    assert not authority.issued_by(leaf.certificate, new_ca("another", now=NOW, lifetime=DAY).certificate)


def test_a_pair_matches_or_not(ca: Pair, leaf: Pair) -> None:
    assert authority.matches(ca) and authority.matches(leaf)
    assert not authority.matches(Pair(leaf.certificate, ca.key))
    assert not authority.matches(Pair(b"", b"")) and not authority.matches(Pair(leaf.certificate, b"rubbish"))
    rsa = trustme.CA(key_type=trustme.KeyType.RSA).issue_cert("svc", key_type=trustme.KeyType.RSA)
    assert authority.matches(Pair(rsa.cert_chain_pems[0].bytes(), rsa.private_key_pem.bytes()))
