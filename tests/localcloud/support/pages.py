"""The console's pages as bytes: how they and their forms are sent, and what a person reads in them."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Server

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGpG4mWEYhL6KYQ9JQjqLnqWmHqDyyB0jJ1BwBMzX9tQ me@host"
SCRIPT = "<script>alert(1)</script>"
QUOTES = "\"'><img src=x onerror=alert(1)>"


async def page(server: Server, path: str, **headers: str) -> Answer:
    return await request("GET", server.url + path, headers={name.replace("_", "-"): headers[name] for name in headers})


def text_of(answer: Answer) -> str:
    """What a person reads, in one line."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.raw.decode())))


class _Inline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in named):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            leads_to_script = (value or "").strip().lower().startswith("javascript:")
            if name == "style" or name.startswith("on") or leads_to_script:
                self.found.append(f"<{tag} {name}={value}>")


def inline_of(answer: Answer) -> list[str]:
    """The scripts and styles that a page contains, instead of referring to them."""
    parser = _Inline()
    parser.feed(answer.raw.decode())
    return parser.found


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and sentence of the page that says what is wrong."""
    found = re.search(r'id="refusal" role="alert"[^>]*>([^<]*)<', answer.raw.decode())
    assert found is not None, answer.raw
    return answer.status, html.unescape(found[1])


async def send(server: Server, path: str, back: str, **form: object) -> Answer:
    """Send a form as the page that it is on does."""
    sent = {"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"}
    fields = urlencode({"back": back, **form}).encode()
    return await request("POST", f"{server.url}/console/{path}", raw=fields, headers=sent)


def wrong(answer: Answer) -> tuple[int, str, str]:
    """Status, the field that is wrong, and what stands beside it."""
    shown = answer.raw.decode()
    field = re.search(r'data-field="([^"]*)"', shown)
    beside = re.findall(r'class="wrong" data-about="([^"]+)">([^<]+)<', shown)
    assert field is not None, shown
    ((about, message),) = beside
    assert about == field[1]
    return answer.status, about, html.unescape(message)
