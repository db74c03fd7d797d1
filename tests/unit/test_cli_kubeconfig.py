"""What is wrong with a kubeconfig, in the terms of whoever named it."""

import pytest

from policy.cli import kubeconfig
from policy.cli.failures import Failure

GOOD = "clusters: [{name: c, cluster: {server: https://x}}]\ncontexts: [{name: a}, {name: b}]\n"


def said(given=None, context=None, **environ):
    with pytest.raises(Failure) as refused:
        kubeconfig.located(given, context, environ)
    return refused.value.message


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return str(path)


def test_a_good_one_is_located_however_it_is_named(good, tmp_path, monkeypatch):
    assert kubeconfig.located(good, "b", {}) == good
    assert kubeconfig.located(None, "a", {"KUBECONFIG": good}) == good
    assert kubeconfig.located(None, None, {"KUBECONFIG": f"/missing:{good}:{good}"}) == f"{good}:{good}"
    at_home = tmp_path / ".kube" / "config"
    at_home.parent.mkdir()
    at_home.write_text(GOOD)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert kubeconfig.located(None, None, {}) == kubeconfig.located(None, None, {"KUBECONFIG": ""}) == str(at_home)


def test_a_missing_file_names_who_asked_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    how = "no such file; name a kubeconfig with --kubeconfig or $KUBECONFIG"
    assert said("/missing") == f"--kubeconfig: /missing: {how}"
    assert said(KUBECONFIG="/a:/b") == f"$KUBECONFIG: /a, $KUBECONFIG: /b: {how}"
    assert said() == f"kubeconfig: {tmp_path}/.kube/config: {how}"


@pytest.mark.parametrize(
    "content, why",
    [
        (b"", "is no kubeconfig: it has no clusters"),
        (b"just text", "is no kubeconfig: it has no clusters"),
        (b"clusters: []", "is no kubeconfig: it has no clusters"),
        (b"a: [", "is no YAML: expected the node content, but found '<stream end>'"),
        (b"\xff\xfe\xfd", "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)
def test_what_is_no_kubeconfig(tmp_path, content, why):
    path = tmp_path / "bad"
    path.write_bytes(content)
    assert said(str(path)) == f"--kubeconfig: {path} {why}"


def test_a_folder_is_none(tmp_path):
    assert said(str(tmp_path)) == f"--kubeconfig: {tmp_path} cannot be read: Is a directory"


def test_a_context_that_is_not_there_lists_those_that_are(good):
    assert said(good, "c") == "--context: 'c' is none of a, b"
