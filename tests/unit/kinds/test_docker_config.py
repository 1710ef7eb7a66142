"""What a dockerconfigjson logs in with, and what is said of one that cannot be used."""

from __future__ import annotations

import base64
import json

import pytest

from relay_operator.kinds.docker_config import Login, login, same_server

CANARY = "canary-of-ada"
ENTRY = {"username": "ada", "password": CANARY, "email": "ada@example.com", "auth": "unread"}
AUTH = {"auth": base64.b64encode(f"ada:{CANARY}:x".encode()).decode()}


def config(servers: object) -> str:
    return json.dumps({"auths": servers, "credsStore": "desktop"})


@pytest.mark.parametrize(
    ("text", "server", "found"),
    [
        (config({"ghcr.io": ENTRY}), None, Login("ghcr.io", "ada", CANARY)),
        (config({"ghcr.io": AUTH}), None, Login("ghcr.io", "ada", f"{CANARY}:x")),
        (config({"https://ghcr.io/": ENTRY}), "ghcr.io", Login("https://ghcr.io/", "ada", CANARY)),
        (config({"https://ghcr.io/": ENTRY, "ghcr.io": {}}), None, Login("https://ghcr.io/", "ada", CANARY)),
        (config({"a.io": {}, "b.io:5000": ENTRY, "c.io": {}}), "B.io:5000", Login("b.io:5000", "ada", CANARY)),
        (
            config({"": ENTRY, " ": ENTRY, "https://": {}, "ghcr.io": AUTH}),
            None,
            Login("ghcr.io", "ada", f"{CANARY}:x"),
        ),
        (
            config({"https://index.docker.io/v1/": ENTRY, "ghcr.io": {}}),
            "docker.io",
            Login("https://index.docker.io/v1/", "ada", CANARY),
        ),
    ],
    ids=["written out", "encoded", "another spelling", "one server twice", "one of three", "blank names", "the hub"],
)
def test_the_login_of_one_server_is(text: str, server: str | None, found: Login) -> None:
    assert login(text, server) == found
    assert CANARY not in repr(found)


THREE = config({"a.io": ENTRY, "b.io": ENTRY, "c.io": ENTRY})


@pytest.mark.parametrize(
    ("text", "server", "says"),
    [
        (THREE, None, "it names 3 servers: say in spec.server"),
        (THREE, "d.io", "it does not name the server d.io"),
        (config({}), None, "it names no server"),
        ("{}", "ghcr.io", "it names no server"),
        (config({"": ENTRY}), None, "it names no server"),
        (config({" ": ENTRY}), None, "it names no server"),
        (config({"https://": ENTRY}), "ghcr.io", "it names no server"),
        (config({"ghcr.io": {}}), None, "it has no user and password"),
        (config({"ghcr.io": {"identitytoken": CANARY}}), None, "it has no user and password"),
        (config({"ghcr.io": {"auth": CANARY}}), None, "it has no user and password"),
        (config({"ghcr.io": {"auth": "gIGC"}}), None, "it has no user and password"),
        (config({"ghcr.io": {"auth": "é"}}), None, "it has no user and password"),
        (config({"ghcr.io": {"username": "ada"}}), None, "it has no user and password"),
        (config({"ghcr.io": CANARY}), None, "it is not what `docker login` writes"),
        (f'{{"auths": {{"ghcr.io": {{"password": "{CANARY}"', None, "it is not what `docker login` writes"),
        (CANARY, None, "it is not what `docker login` writes"),
        ("", None, "it is not what `docker login` writes"),
        ('{"auths": null}', None, "it is not what `docker login` writes"),
        ("[" * 100_000, None, "it is not what `docker login` writes"),
        (f'{{"auths": {"[" * 10_000}', None, "it is not what `docker login` writes"),
    ],
)
def test_what_cannot_be_used_is_told_without_what_is_in_it(text: str, server: str | None, says: str) -> None:
    told = login(text, server)
    assert isinstance(told, str)
    assert told.startswith(says)
    assert CANARY not in told
    assert "a.io" not in told


def of_many(servers: int) -> str:
    return config({**{f"{number}.io": {} for number in range(servers)}, "ghcr.io": ENTRY})


def test_a_file_with_many_values_is_read() -> None:
    assert login(of_many(990), "ghcr.io") == Login("ghcr.io", "ada", CANARY)


@pytest.mark.parametrize("ending", ["", "]"], ids=["could be decoded", "could not be decoded"])
def test_a_file_with_too_many_values_is_told_and_not_decoded(ending: str) -> None:
    """Whoever decodes the one that cannot be decoded learns that, and not of its values."""
    assert login(of_many(1_000) + ending, "ghcr.io") == (
        "it is not what `docker login` writes, with more than 2000 values: leave in it only the servers that are used"
    )


@pytest.mark.parametrize("name", ["GHCR.io", "https://ghcr.io", "http://ghcr.io/", "ghcr.io"])
def test_spellings_of_one_server_are_the_same(name: str) -> None:
    assert same_server(name) == "ghcr.io"
    assert same_server(f"{name.rstrip('/')}:5000") != "ghcr.io"
