"""The allow-list of clouds: what a prefix covers, and which tricks it does not fall for."""

import pytest

from relay_operator.objectstores.allowed_urls import UrlNotPlainError, UrlPrefix, why_refused

ALLOWED = (UrlPrefix.parse("https://api.example.com/gpu"), UrlPrefix.parse("http://127.0.0.1:8400"))


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/gpu",
        "https://api.example.com/gpu/",
        "https://api.example.com:443/gpu",
        "https://api.example.com/gpu/v2",
        "HTTPS://API.Example.com/gpu",
        "http://127.0.0.1:8400",
        "http://127.0.0.1:8400/anything/below",
    ],
)
def test_a_url_on_the_same_server_and_below_the_path_is_allowed(url: str) -> None:
    assert why_refused(url, ALLOWED) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/gpu",
        "https://api.example.com:8443/gpu",
        "https://api.example.com",
        "https://api.example.com/gpu2",
        "https://api.example.com/GPU",
        "https://api.example.com.evil.org/gpu",
        "https://evil.org/api.example.com/gpu",
        "https://xapi.example.com/gpu",
        "http://127.0.0.1",
        "http://127.0.0.1:84000",
    ],
)
def test_a_url_elsewhere_is_refused_and_the_sentence_names_the_setting(url: str) -> None:
    refusal = why_refused(url, ALLOWED)
    assert refusal is not None
    assert "RELAY_ALLOWED_BASE_URLS" in refusal or "plain URL" in refusal


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com/gpu",
        "ftp://api.example.com/gpu",
        "https://",
        "https:///gpu",
        "https://api.example.com@evil.org/gpu",
        "https://user:password@api.example.com/gpu",
        "https://api.example.com\\@evil.org/gpu",
        "https://api.example.com/gpu/../admin",
        "https://api.example.com/gpu/./v1",
        "https://api.example.com/gpu/%2e%2e/admin",
        "https://api.example.com/gpu?x=1",
        "https://api.example.com/gpu#x",
        "https://api.example.com/gpu\n",
        " https://api.example.com/gpu",
        "https://api.example.com/gp u",
        "https://api.example.com:0/gpu",
        "https://api.example.com:99999/gpu",
        "https://api.example.com:/gpu",
        "https://api.example.com./gpu",
        "https://api.\u212aexample.com/gpu",
        "https://api.example.com//gpu",
    ],
)
def test_a_url_that_parsers_could_read_differently_is_not_understood(url: str) -> None:
    with pytest.raises(UrlNotPlainError, match="plain URL"):
        UrlPrefix.parse(url)


def test_an_empty_allow_list_allows_nothing() -> None:
    assert why_refused("https://api.example.com", ()) is not None


def test_a_refusal_stays_short_however_long_the_url_is() -> None:
    refusal = why_refused("https://evil.org/" + "a" * 10_000, ALLOWED)
    assert refusal is not None
    assert len(refusal) < 500
