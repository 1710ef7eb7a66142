"""Which requests to a cloud take the proxy of the environment."""

import pytest

from relay_operator.proxies import Proxies, ProxyError

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_without_variables_everything_is_called_directly() -> None:
    assert Proxies.of_environment()("https://api.example.com/v1/me") is None


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example.com/v1/me", "http://user:pass@proxy:3128"),
        ("https://api.example.com:8443/v1/me", "http://user:pass@proxy:3128"),
        ("http://api.example.com/v1/me", "http://plain:80"),
        ("https://cloud.svc/v1/me", None),
        ("http://relay-localcloud.relay-cloud.svc:8400/v1/me", None),
        ("https://example.net/v1/me", None),
        ("https://www.Example.net/v1/me", None),
        ("https://wwwexample.net/v1/me", "http://user:pass@proxy:3128"),
        ("http://127.0.0.1:8400/v1/me", None),
        ("http://localhost:8400/v1/me", None),
        ("http://[::1]:8400/v1/me", None),
    ],
)
def test_the_proxy_follows_the_scheme_except_for_hosts_of_no_proxy_and_this_machine(
    url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pass@proxy:3128")
    monkeypatch.setenv("http_proxy", "plain:80")
    monkeypatch.setenv("NO_PROXY", " .svc, .cluster.local,Example.net")
    assert Proxies.of_environment()(url) == proxy


@pytest.mark.parametrize("direct", [None, "", "example.net,", ",", "."])
def test_an_empty_entry_of_no_proxy_names_no_host(direct: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    if direct is not None:
        monkeypatch.setenv("NO_PROXY", direct)
    assert Proxies.of_environment()("https://api.example.com./v1/me") == "http://proxy:3128"


def test_a_star_calls_all_hosts_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "*")
    assert Proxies.of_environment()("https://api.example.com/v1/me") is None


@pytest.mark.parametrize("value", ["socks5://me:secret@proxy:1080", "http://", "http://me:secret@proxy:port"])
def test_what_is_no_http_proxy_is_refused_without_its_password(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", value)
    with pytest.raises(ProxyError, match="HTTPS_PROXY must be the URL of an HTTP proxy") as refused:
        Proxies.of_environment()
    assert "secret" not in repr(refused.value)


def test_a_proxys_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy:3128")
    assert "secret" not in repr(Proxies.of_environment())
