"""The shared configuration file: strict on our keys, silent on the gatekeeper's."""

from pathlib import Path

import pytest

from policy.gatekeeper import config as gatekeeper_config
from policy.gatekeeper import errors
from webhook.config import Config, ConfigError, load, parse

SHIPPED = Path(__file__).parents[2] / "deploy/kustomize/base/config.yaml"


def test_the_file_that_is_shipped_holds_the_defaults():
    assert load(SHIPPED) == Config()


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}"])
def test_an_empty_file_is_the_defaults(text):
    assert parse(text) == Config()


def test_no_file_is_the_defaults():
    assert load(None) == Config()


def test_every_key_is_read_and_the_gatekeepers_are_passed_over():
    assert parse(
        "schedulerProfiles: [default-scheduler, fast]\nbinpackSchedulerName: fast\nkueue: true\n"
        "liveSchedulers: [volcano]\nlogLevel: debug\nliftConcurrency: 64\nplacement: 'on'\n"
    ) == Config(("default-scheduler", "fast"), "fast", kueue=True, live_schedulers=("volcano",), log_level="debug")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kueue: perhaps", ["kueue", "'perhaps'"]),
        ("logLevel: loud", ["logLevel", "'loud'"]),
        ("logLevel: off", ["logLevel", "False"]),  # YAML 1.1 reads a bare off as a boolean
        ("schedulerProfiles: default-scheduler", ["schedulerProfiles", "'default-scheduler'"]),
        ("schedulerProfiles: []", ["schedulerProfiles", "[]"]),
        ("schedulerProfiles: ['']", ["schedulerProfiles", "['']"]),
        ("schedulerProfiles: [1]", ["schedulerProfiles", "[1]"]),
        ("binpackSchedulerName: fast", ["binpackSchedulerName", "'fast'"]),
        ("liveSchedulers: [default-scheduler]", ["liveSchedulers", "'default-scheduler'"]),
        ("- a\n- b", ["mapping", "list"]),
        ("a: [", ["no YAML"]),
    ],
)
def test_an_error_names_file_key_and_value_in_one_line(tmp_path, text, named):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert all(part in str(caught.value) for part in [str(path), *named])
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text_is_said(tmp_path):
    with pytest.raises(ConfigError, match="none.yaml"):
        load(tmp_path / "none.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="binary"):
        load(tmp_path / "binary")


def test_kinds_of_owners_are_read_as_the_gatekeeper_reads_them(tmp_path):
    text = "ownerKinds: [{apiVersion: example.com/v1, kind: Training, plural: trainings}]"
    assert parse(text).kinds.of("example.com", "Training").plural == "trainings"
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert gatekeeper_config.load(str(path)).owner_kinds == parse(text).owner_kinds


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ("[{apiVersion: batch/v1, kind: Job, plural: jobs}]", "ownerKinds: Job of 'batch' is known already"),
        ("[{apiVersion: v1, kind: Foo, plural: foos}]", "apiVersion: 'v1': must be group/version"),
        ("[{apiVersion: a/v1, kind: Foo}]", "missing required field `plural`"),
    ],
)
def test_kinds_that_cannot_be_used_stop_both_processes(tmp_path, kinds, told):
    path = tmp_path / "settings.yaml"
    path.write_text(f"ownerKinds: {kinds}")
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert told in str(caught.value)
    with pytest.raises(errors.ConfigError) as caught:
        gatekeeper_config.load(str(path))
    assert told in str(caught.value)
    assert str(path) in str(caught.value)
