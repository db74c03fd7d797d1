"""go.mod files and cache keys of the programs, against the form in which Kubernetes is published."""

import dataclasses
from pathlib import Path

import pytest

from deploy.local import build, modules
from deploy.local.errors import UsageError
from deploy.local.toolchain import Go, new_enough

PUBLISHED = """\
module k8s.io/kubernetes

go 1.25.3

godebug default=go1.25

require (
	example.org/pinned v1.2.3
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
	example.org/fork => example.org/other v1.0.0
)

replace k8s.io/kubectl => ./staging/src/k8s.io/kubectl
"""
GO = Go(Path("/usr/bin/go"), "go1.26.8", "linux/amd64")


REPLACING = """\
module example.org/own

go 1.24.2

replace (
	k8s.io/api => k8s.io/api v0.32.5
	k8s.io/client-go v1.5.2 => k8s.io/client-go v0.32.5
	example.org/folder => ./folder
	example.org/above => ../above
)

replace example.org/one => example.org/other v1.0.0 // because
"""


def module(name: str, version: str | None = None) -> modules.Module:
    return next(each for each in modules.catalogue(version) if each.name == name)


def test_libraries_of_the_same_release_stand_in_for_the_folders() -> None:
    text = modules.render(module("kubernetes", "v1.35.4"), PUBLISHED)
    assert [line for line in text.splitlines() if line.startswith("replace")] == [
        "replace k8s.io/api => k8s.io/api v0.35.4",
        "replace k8s.io/client-go => k8s.io/client-go v0.35.4",
        "replace k8s.io/kubectl => k8s.io/kubectl v0.35.4",
    ]
    assert "require k8s.io/kubernetes v1.35.4" in text.splitlines()


def test_language_and_godebug_are_the_modules_own() -> None:
    lines = modules.render(module("kubernetes"), PUBLISHED).splitlines()
    assert "go 1.25.3" in lines
    assert "godebug default=go1.25" in lines


def test_a_language_without_tool_lines_is_raised() -> None:
    assert "go 1.24.0" in modules.render(module("etcd"), "module x\n\ngo 1.23.4\n").splitlines()
    assert "go 1.24.0" in modules.render(module("etcd"), "module x\n").splitlines()


def test_every_program_has_a_tool_line() -> None:
    for each in modules.catalogue():
        lines = modules.render(each, "module x\n\ngo 1.26.0\n").splitlines()
        assert [line for line in lines if line.startswith("tool ")] == [
            f"tool {path}" for path in each.programs.values()
        ]


def operators(program: str) -> modules.Module:
    return next(each for each in modules.operators() if program in each.programs)


def test_modules_that_share_a_go_mod_are_all_required_at_their_versions() -> None:
    together = operators("kuberay")
    lines = modules.render(together, "module a\n\ngo 1.24.1\n", "module b\n\ngo 1.25.0\n", "module c\n").splitlines()
    required = [line for line in lines if line.startswith("require ")]
    assert required == [f"require {path} {version}" for path, version in together.pins.items()]
    assert len(required) == 3
    assert len([line for line in lines if line.startswith("tool ")]) == 3
    assert "go 1.25.0" in lines


def test_a_program_is_of_the_module_that_its_package_lies_in() -> None:
    together = modules.Module(
        name="n",
        module="example.org/a",
        version="v1.0.0",
        programs={"root": "example.org/a", "inner": "example.org/a/b/cmd", "other": "example.org/ab/cmd"},
        beside={"example.org/a/b": "v2.0.0", "example.org/ab": "v3.0.0"},
    )
    assert together.origin("root") == ("example.org/a", "v1.0.0")
    assert together.origin("inner") == ("example.org/a/b", "v2.0.0")
    assert together.origin("other") == ("example.org/ab", "v3.0.0")


def test_every_operator_has_a_version() -> None:
    versions = modules.operator_versions()
    assert sorted(versions) == ["jobset", "kuberay", "lws", "mpi", "spark", "trainer", "training"]
    assert versions["jobset"] != versions["lws"]


def test_replacements_by_other_versions_are_said_again_where_a_module_needs_them() -> None:
    lines = modules.render(operators("spark"), REPLACING).splitlines()
    assert [line for line in lines if line.startswith("replace")] == [
        "replace k8s.io/api => k8s.io/api v0.32.5",
        "replace k8s.io/client-go v1.5.2 => k8s.io/client-go v0.32.5",
        "replace example.org/one => example.org/other v1.0.0",
    ]
    assert "replace" not in modules.render(operators("training"), REPLACING)


def test_only_kubernetes_takes_the_version_that_was_asked_for() -> None:
    default = {each.name: each.version for each in modules.catalogue()}
    asked = {each.name: each.version for each in modules.catalogue("v1.34.4")}
    assert asked == default | {"kubernetes": "v1.34.4"}
    assert default["kubernetes"] == modules.default_kubernetes_version()


@pytest.mark.parametrize("version", ["1.37.2", "v1.37", "v2.0.0", "v1.37.2-rc.1", "v1.37.2 ", ""])
def test_a_version_of_another_form_is_refused_by_field_and_value(version: str) -> None:
    with pytest.raises(UsageError) as refusal:
        modules.catalogue(version)
    assert "kubernetes-version" in str(refusal.value)
    assert repr(version) in str(refusal.value)


def test_the_version_is_stamped_into_kubernetes_only() -> None:
    assert (
        "-X k8s.io/component-base/version.gitVersion=v1.36.3" in modules.build_flags(module("kubernetes", "v1.36.3"))[2]
    )
    assert "-X k8s.io/component-base/version.gitMinor=36" in modules.build_flags(module("kubernetes", "v1.36.3"))[2]
    assert modules.build_flags(module("etcd")) == ("-trimpath", "-ldflags", "-s -w")


def test_cache_keys_tell_apart_version_toolchain_platform_and_program() -> None:
    kubernetes = module("kubernetes")
    keys = {
        build.key(kubernetes, "kubectl", GO),
        build.key(kubernetes, "kube-apiserver", GO),
        build.key(module("kubernetes", "v1.36.3"), "kubectl", GO),
        build.key(kubernetes, "kubectl", Go(GO.command, "go1.27.3", GO.target)),
        build.key(kubernetes, "kubectl", Go(GO.command, GO.version, "linux/arm64")),
    }
    assert len(keys) == 5
    assert build.key(kubernetes, "kubectl", Go(Path("/elsewhere/go"), GO.version, GO.target)) in keys


def test_a_neighbour_s_version_is_part_of_the_key_and_a_lonely_module_s_key_is_as_it_was() -> None:
    shared = operators("jobset")
    later = dataclasses.replace(shared, beside={path: f"{version}0" for path, version in shared.beside.items()})
    assert build.key(shared, "jobset", GO) != build.key(later, "jobset", GO)
    assert build.key(shared, "lws", GO).startswith(f"lws-{shared.origin('lws')[1]}-")
    assert build.key(module("etcd"), "etcd", GO) == "etcd-v3.7.3-63c890764298"


@pytest.mark.parametrize(
    ("version", "enough"),
    [("go1.26", True), ("go1.26.0", True), ("go1.27rc1", True), ("go2.0", True), ("go1.25.9", False), ("devel", False)],
)
def test_toolchain_versions(version: str, enough: bool) -> None:
    assert new_enough(version) is enough
