"""The settings: names, defaults, and what a bad value says."""

import json
import os
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path, PurePosixPath

import pytest

from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.allowed_urls import why_refused
from relay_operator.settings import (
    ListenAddress,
    Settings,
    SettingsError,
    describe_settings,
    load_settings,
    misspelt_settings,
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in os.environ:
        if variable.startswith("RELAY_"):
            monkeypatch.delenv(variable)


def test_the_defaults_are_the_documented_ones() -> None:
    settings = load_settings()
    assert settings.watch_namespaces == ()
    assert settings.allowed_base_urls == ()
    assert str(settings.webhook_listen) == "0.0.0.0:8088"
    assert str(settings.metrics_listen) == "0.0.0.0:9090"
    assert settings.webhook_public_url == ""
    assert settings.leader_election is True
    assert settings.poll_transition_seconds == 5
    assert settings.poll_settled_seconds == 300
    assert settings.log_format == "json"


def test_lists_are_separated_by_commas_or_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_WATCH_NAMESPACES", "team-a, team-b team-c")
    assert load_settings().watch_namespaces == ("team-a", "team-b", "team-c")


def test_listen_addresses_are_read_with_ipv6_hosts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_WEBHOOK_LISTEN", "[::1]:0")
    address = load_settings().webhook_listen
    assert address == ListenAddress("::1", 0)
    assert str(address) == "[::1]:0"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RELAY_WORKERS", "0"),
        ("RELAY_WORKERS", "many"),
        ("RELAY_WEBHOOK_LISTEN", "8088"),
        ("RELAY_METRICS_LISTEN", "0.0.0.0:99999"),
        ("RELAY_ALLOWED_BASE_URLS", "https://user@api.example.com"),
        ("RELAY_DEFAULT_BASE_URL", "api.example.com"),
        ("RELAY_WATCH_NAMESPACES", "Team_A"),
        ("RELAY_NAMESPACE", ""),
        ("RELAY_LOG_FORMAT", "xml"),
        ("RELAY_LEADER_ELECTION", "perhaps"),
        ("RELAY_POLL_SETTLED_SECONDS", "-1"),
        ("RELAY_FILE_ROOTS", "data"),
        ("RELAY_FILE_ROOTS", "/"),
        ("RELAY_FILE_ROOTS", "/data/../etc"),
        ("RELAY_ALLOWED_PRIVATE_NETWORKS", "inside"),
        ("RELAY_ALLOWED_PRIVATE_NETWORKS", "10.0.0.0/33"),
    ],
)
def test_a_bad_value_is_one_sentence_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    sentence = str(refused.value)
    assert sentence.startswith(f"{variable}=")
    assert "\n" not in sentence
    assert "pydantic" not in sentence


def test_lease_times_that_would_allow_two_leaders_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_LEASE_DURATION_SECONDS", "5")
    with pytest.raises(SettingsError, match="two replicas could lead at once"):
        load_settings()


def test_the_default_urls_are_allowed_without_being_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_DEFAULT_BASE_URL", "https://api.example.com/")
    settings = load_settings()
    assert settings.default_base_url == "https://api.example.com"
    assert why_refused("https://api.example.com", settings.allowed_prefixes()) is None
    assert why_refused("https://other.example.com", settings.allowed_prefixes()) is not None


def test_batches_reach_folders_and_networks_that_are_named_and_none_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().store_policy() == StorePolicy()
    monkeypatch.setenv("RELAY_FILE_ROOTS", "/data, /more/data/")
    monkeypatch.setenv("RELAY_ALLOWED_PRIVATE_NETWORKS", "10.0.0.1/8 fd00:1::/64")
    assert load_settings().store_policy() == StorePolicy(
        file_roots=(PurePosixPath("/data"), PurePosixPath("/more/data")),
        private_networks=(ip_network("10.0.0.0/8"), ip_network("fd00:1::/64")),
    )


def test_only_kinds_that_can_be_switched_on_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings(["VmSnapshot"]).assumed_kinds == ()
    monkeypatch.setenv("RELAY_ASSUMED_KINDS", "VmSnapshot")
    assert load_settings(["VmSnapshot"]).assumed_kinds == load_settings().assumed_kinds == ("VmSnapshot",)
    monkeypatch.setenv("RELAY_ASSUMED_KINDS", "VmSnapshot GpuPod")
    with pytest.raises(SettingsError, match="RELAY_ASSUMED_KINDS='GpuPod' cannot be used: it takes VmSnapshot"):
        load_settings(["VmSnapshot"])


@pytest.mark.parametrize("name", ["", "relay/operator", "Relay", "x" * 254])
def test_a_lease_has_a_name_that_an_object_can_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_LEASE_NAME", name)
    with pytest.raises(SettingsError, match="RELAY_LEASE_NAME="):
        load_settings()


def test_a_password_in_a_url_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_WEBHOOK_PUBLIC_URL", "https://relay:hunter2@hooks.example.com")
    with pytest.raises(SettingsError, match="RELAY_WEBHOOK_PUBLIC_URL=") as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)


def test_names_that_read_like_settings_are_told_in_the_log(tmp_path: Path) -> None:
    meant = {
        "RELAY_POLL_SECONDS": "RELAY_POLL_SETTLED_SECONDS",
        "RELAY_WATCH_NAMESPACE": "RELAY_WATCH_NAMESPACES",
        "RELAY_WEBHOOK_URL": "RELAY_WEBHOOK_PUBLIC_URL",
    }
    environment = {**os.environ, **dict.fromkeys(meant, "3"), "KUBECONFIG": str(tmp_path / "absent")}
    command = [sys.executable, "-m", "relay_operator", "run"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    warned = [line["message"] for line in map(json.loads, ran.stderr.splitlines()) if line["level"] == "warning"]
    assert warned == [f"{name} is not a setting and has no effect: is {near} meant?" for name, near in meant.items()]


@pytest.mark.parametrize("service", ["RELAY", "RELAY_OPERATOR", "RELAY_METRICS", "RELAY_OPERATOR_WEBHOOK"])
def test_variables_of_a_service_are_no_misspelt_settings(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for end in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_METRICS", "PORT", "PORT_9090_TCP", "PORT_9090_TCP_ADDR"):
        monkeypatch.setenv(f"{service}_{end}", "10.0.0.1")
    monkeypatch.setenv("RELAY_WORKERS", "3")
    assert misspelt_settings() == []


def test_every_setting_is_described_with_its_default() -> None:
    text = describe_settings()
    for name, field in Settings.model_fields.items():
        assert f"RELAY_{name.upper()} (default: " in text
        assert field.description
        assert field.description in text
    assert "RELAY_WEBHOOK_LISTEN (default: 0.0.0.0:8088)" in text
    assert "RELAY_LEADER_ELECTION (default: true)" in text
