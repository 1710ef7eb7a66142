"""Texts of the cloud that end up in logs, status and exceptions."""

import json
import re
import traceback
from collections.abc import Iterator
from random import Random

import pytest

from relay_client import CapacityExhausted, Cloud, CloudError
from relay_client.answers import Answer, error_of
from relay_client.operations import CREATE_POD, CREATE_WEBHOOK, GET_CLUSTER_DETAIL, GET_VM, UPLOAD_FILE
from relay_client.redaction import MAX_MESSAGE_CHARS, MAX_PLACES, MAX_TEXT_CHARS, legible, presentable, secrets_in
from relay_wire.inference import BackendUpdate
from relay_wire.pods import PodCreate
from relay_wire.registry_credentials import RegistryCredentialCreate
from relay_wire.serving import EngineSettings
from relay_wire.vms import VmPage, VmRecord
from relay_wire.webhooks import WebhookCreate
from tests.unit.client.conftest import KEY
from tests.unit.client.scripted import Reply, ScriptedServer


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, or not", "plain words, or not"),
        ("key or_live_0123456789 is revoked", "key [redacted] is revoked"),
        ("key VL_0123456789abcdef.", "key [redacted]."),
        ("secret=whsec_Zm9vYmFy", "secret=[redacted]"),
        ('sent "Authorization: Bearer abc.def-1"', 'sent "Authorization: [redacted]"'),
        ("color_depth and error_message stay", "color_depth and error_message stay"),
        ("two\nlines\tand\x1b[31m red\x00", "two lines and [31m red"),
        ("right\u202eto left", "right to left"),
        ("  ", ""),
    ],
)
def test_a_text_is_made_presentable(text: str, shown: str) -> None:
    assert presentable(text) == shown


def test_a_long_text_is_cut() -> None:
    assert len(presentable("x" * 10_000)) == MAX_MESSAGE_CHARS
    assert presentable("x" * MAX_MESSAGE_CHARS) == "x" * MAX_MESSAGE_CHARS


def test_a_secret_is_masked_before_the_text_is_cut() -> None:
    assert "canary" not in presentable("x" * (MAX_MESSAGE_CHARS - 10) + "canary-value-1", ["canary-value-1"])


# Masking shortens the lines at the beginning so much that the end of what is read would be shown.
LINE = "canary-line-of-a-boot-script " * 40
LONG = "canary-value-" * 20
CUT = {
    "a secret": ("canary-value-1", ["canary-value-1"]),
    "a long secret": (LONG, [LONG]),
    "the end of a long secret that is in another": (LONG + "zzzzzzzz", [LONG, LONG[-20:] + "zzzzzzzz"]),
    "a key of the cloud": ("or_canary0123456789", []),
    "a key in other letters": ("OR_CANARY0123456789", []),
    "a token": ("bearer canary.0123", []),
    "a web token": ("eyJcanary0123456.canary0123456.canary0123", []),
    "a password": ("https://u:canary-value@host", []),
}


@pytest.mark.parametrize(("secret", "secrets"), CUT.values(), ids=CUT)
def test_no_part_of_a_secret_is_shown_wherever_a_long_text_is_cut(secret: str, secrets: list[str]) -> None:
    masked = f"{LINE.strip()} " * 3
    for before in range(4000 - len(masked) - len(secret) - 1, 4002 - len(masked)):
        text = f"{masked}{'.' * 40}{' ' * (before - 41)} {secret} and more" + "x" * 4000
        told = presentable(text, [LINE, *secrets])
        assert told.startswith("[redacted] [redacted] [redacted] ....")
        assert told.endswith("…")
        assert not re.search("(?i)can|nary|val|or_|012", told), before


def test_the_end_of_a_text_that_is_too_long_to_be_read_is_left_out_and_this_is_said() -> None:
    assert presentable("a" + " " * 100_000 + "b") == "a…"
    assert presentable("a" + " " * 1000 + "b") == "a b"
    assert presentable("no such or_der" + " " * 100_000) == "no such or_der…"


SHORT_LINES = "\n".join(f"{n:06}" for n in range(149_000))
LONG_LINES = "\n".join(f"{n:05}" + "-value" * 16 for n in range(10_000))
ONE_LINE = "".join(map(str, range(190_000)))
SHAPES = {
    "short lines": (SHORT_LINES, "no 148999, 000007 and 149000", "no [redacted], [redacted] and 149000"),
    "lines": (LONG_LINES, "no 00007" + "-value" * 16 + "s", "no [redacted]s"),
    "the beginning of a line": (LONG_LINES, "no 00007-value" * 3, "no 00007-value" * 3),
    "one line": (ONE_LINE, f"no {ONE_LINE}{ONE_LINE}", "no…"),
    "one line in all that is read": (ONE_LINE, ONE_LINE, "[redacted]…"),
    "empty lines": ("\n" * 2**20, "no \n\n", "no"),
    "a long text": (SHORT_LINES, "no 000007 " + "x" * 2**23, "no [redacted] " + "x" * (MAX_MESSAGE_CHARS - 15) + "…"),
}


@pytest.mark.parametrize(("secret", "text", "told"), SHAPES.values(), ids=SHAPES)
def test_secrets_of_any_shape_are_masked(secret: str, text: str, told: str) -> None:
    assert presentable(text, [secret]) == told


FILLED = "".join(map(str, range(1000, 1975)))
"""So long that masking it shows where what is read ends."""


def masked_one_by_one(text: str, lines: list[str]) -> str:
    """The text cut before a line that reaches beyond what is read, then without each line, the longest first."""
    at = min(len(text), 4000)
    for line in sorted(lines, key=len):
        start = text.find(line, max(0, at - len(line) + 1), at + len(line) - 1)
        at = at if start < 0 else start
    head = text[:at]
    for line in sorted(lines, key=len, reverse=True):
        head = head.replace(line, "[redacted]")
    return head


@pytest.mark.parametrize("before", ["", FILLED], ids=["short", "cut"])
def test_nothing_is_shown_that_masking_line_by_line_hides(before: str) -> None:
    for seed in range(500):
        chance = Random(seed)
        end = "".join(chance.choices("ab", k=chance.randint(6, 150)))
        parts = [end[chance.randint(0, len(end) - 6) :][: chance.randint(4, 20)] for _ in range(6)]
        # Which of two lines of one length is masked first makes a difference where they overlap.
        by_length = {len(part): part for part in [*parts, end[-6:]]}
        told = presentable(before + end, [" \r\n ".join(by_length.values()), FILLED])
        lines = [FILLED, *(line for line in by_length.values() if len(line) >= 6)]
        expected = masked_one_by_one(before + end, lines)
        assert not any(line in told for line in lines), seed
        assert expected.startswith(told.removesuffix("…")), seed
        assert told.endswith("…") or told == expected, seed


@pytest.mark.parametrize("lines", [MAX_PLACES, MAX_PLACES + 1])
def test_a_text_is_withheld_if_too_many_lines_may_be_in_it(lines: int) -> None:
    secret = "\n".join(f"canary-{n}" for n in range(lines))
    told = "no [redacted]" if lines == MAX_PLACES else "[redacted], since it may repeat values of the request"
    assert presentable("no canary-7", [secret, secret]) == told


def test_a_text_is_withheld_if_a_line_may_be_in_too_many_places_of_it() -> None:
    withheld = "[redacted], since it may repeat values of the request"
    secret = "a" * 3000
    assert presentable("a" * 2**23, [f"{secret}b"]) == "a" * (MAX_MESSAGE_CHARS - 1) + "…"
    assert presentable("a" * 2**23, [f"{secret}b\n{secret}c"]) == withheld


class Counted(list[str]):
    """Secrets that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("alike", [1, MAX_PLACES])
def test_the_secrets_are_gone_through_once_for_all_texts_of_an_error(alike: int) -> None:
    secrets = Counted(f"canary-{n}" for n in range(alike))
    said = {"message": "no canary-0", "code": "x canary-0", "type": "y canary-0"}
    error = error_of(UPLOAD_FILE, Answer(400, {}, json.dumps({"error": said}).encode()), 0, secrets)
    withheld = ["[redacted], since it may repeat values of the request"] * 3
    told = ["no [redacted]", "x [redacted]", "y [redacted]"] if alike == 1 else withheld
    assert [error.message, error.code, error.error_type] == told
    assert secrets.times == 1


async def shown(cloud: Cloud, server: ScriptedServer, said: str, body: PodCreate) -> str:
    server.will(Reply(400, json.dumps({"error": said, "code": said}).encode()))
    with pytest.raises(CloudError) as caught:
        await cloud.call(CREATE_POD, body)
    error = caught.value
    return " ".join([str(error), repr(error), str(vars(error)), "".join(traceback.format_exception(error))])


async def test_an_error_repeats_no_secret_of_its_own_request(cloud: Cloud, server: ScriptedServer) -> None:
    pod = PodCreate(image="busybox", env_vars={"TOKEN": "canary-env", "PEM": "-----BEGIN\ncanary-line\n", "N": "3"})
    told = await shown(cloud, server, f"bad env TOKEN=canary-env, canary-line, N=3 with {KEY}", pod)
    assert "canary" not in told
    assert KEY not in told
    assert "bad env TOKEN=[redacted], [redacted], N=3 with [redacted]" in told


async def test_a_code_is_understood_whatever_the_request_has_in_it(cloud: Cloud, server: ScriptedServer) -> None:
    pod = PodCreate(image="busybox", env_vars={"MODE": "CAPACITY", "TOKEN": "canary-value-1"})
    server.will(Reply(409, b'{"error": "full", "code": "INSUFFICIENT_GPU_CAPACITY"}'))
    with pytest.raises(CapacityExhausted) as caught:
        await cloud.call(CREATE_POD, pod)
    assert caught.value.code == "INSUFFICIENT_GPU_CAPACITY"
    code = "X" * 90 + "canary-value-1" + "X" * 90
    assert "canary" not in await shown(cloud, server, code, pod)


def test_the_secrets_of_a_request_are_all_texts_that_it_hides() -> None:
    settings = EngineSettings(env={"HF_TOKEN": "canary-1"}, extra_args=["--api-key=canary-2"], version="1")
    assert [*secrets_in(settings)] == ["canary-1", "--api-key=canary-2"]
    login = RegistryCredentialCreate(name="n", server="s", auth_type="basic", credentials={"password": "canary-3"})
    assert [*secrets_in(login)] == ["canary-3"]
    assert [*secrets_in(BackendUpdate(api_key="canary-4"))] == ["canary-4"]


async def test_an_unreadable_answer_is_described_not_quoted(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(201, b'{"id":"wh_1","secret":{"value":"canary"}}'))
    with pytest.raises(CloudError) as caught:
        await cloud.call(CREATE_WEBHOOK, WebhookCreate(name="n", url="https://x.example"))
    told = "".join(traceback.format_exception(caught.value))
    assert "secret: Input should be a valid string" in told
    assert "canary" not in told


async def test_models_do_not_show_their_secrets(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(201, b'{"id":"wh_1","secret":"whsec_canary"}'))
    created = await cloud.call(CREATE_WEBHOOK, WebhookCreate(name="n", url="https://x.example"))
    assert created.secret == "whsec_canary"
    assert "canary" not in repr(created) + str(created)
    assert "canary" not in repr(PodCreate(image="i", env_vars={"A": "canary"}))


async def test_an_error_without_a_text_still_says_what_came(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(403, b"<html>", content_type="text/html"))
    with pytest.raises(CloudError, match=r"get_vm: 403: HTTP 403 came without an error text .* \(text/html, 6 bytes\)"):
        await cloud.call(GET_VM, id="x")


ODD = {
    "a terminal's colours": ("red \x1b[31malert", "red [31malert"),
    "lines": ("one\r\ntwo\u2028three", "one two three"),
    "the other direction": ("safe\u202egnp.exe", "safe gnp.exe"),
    "a rubbed out letter": ("a\x7fb", "a b"),
    "a novel": ("x" * 5000, "x" * (MAX_TEXT_CHARS - 1) + "…"),
    "another alphabet": ("größer \u0436", "größer \u0436"),
    "an empty novel": ("a\x1b" + " \n" * 50_000 + "b", "a…"),
    "a few empty lines": ("a\x1b" + " \n" * 5000 + "b", "a b"),
    "a tab": ("denied;\texit 137", "denied;\texit 137"),
    "a tab among others": ("a\x1b\tb", "a\tb"),
    "quotes": ('a "word" \\ n', 'a "word" \\ n'),
}


@pytest.mark.parametrize("ascii_", [True, False], ids=["escaped", "as it is"])
@pytest.mark.parametrize(("said", "shown_"), ODD.values(), ids=ODD)
async def test_every_text_of_a_result_is_legible(
    cloud: Cloud, server: ScriptedServer, said: str, shown_: str, ascii_: bool
) -> None:
    vm = {"id": "pod_1", "name": said, "status": said, "statusReason": said, "endpointUrl": said}
    replica = {"id": said, "gpuCount": 1, "status": said, "healthy": False, "nvlinkEnabled": False, "createdAt": ""}
    detail = {**CLUSTER, "statusReason": said, "replicas": [replica], "healthChecks": [said]}
    server.will(*(Reply(200, json.dumps(body, ensure_ascii=ascii_).encode()) for body in (vm, detail)))
    pod = await cloud.call(GET_VM, id="pod_1")
    assert (pod.name, pod.status, pod.status_reason, pod.endpoint_url) == (shown_,) * 4
    cluster = await cloud.call(GET_CLUSTER_DETAIL, id="cluster_1")
    assert (cluster.status_reason, cluster.replicas[0].status, cluster.health_checks) == (shown_, shown_, [shown_])
    assert cluster.replicas[0].id == shown_


CLUSTER: dict[str, object] = {
    "id": "cluster_1",
    "organizationId": "o",
    "name": "n",
    "status": "running",
    "gpusPerReplica": 1,
    "tier": "t",
    "resourceSize": "s",
    "replicaCount": 1,
    "allowFallback": False,
    "diskSizeGb": 1,
    "privileged": False,
    "createdAt": "",
    "updatedAt": "",
}


async def test_a_secret_in_a_result_stays_as_it_is(cloud: Cloud, server: ScriptedServer) -> None:
    secret = {"deployToken": "a\nb", "envVars": {"PEM": "-----BEGIN\nline\n"}, "replicas": []}
    server.will(Reply(200, json.dumps({**CLUSTER, **secret, "statusReason": "two\nlines"}).encode()))
    cluster = await cloud.call(GET_CLUSTER_DETAIL, id="cluster_1")
    assert (cluster.deploy_token, cluster.env_vars) == ("a\nb", {"PEM": "-----BEGIN\nline\n"})
    assert cluster.status_reason == "two lines"


async def test_what_is_plain_is_handed_on_as_it_was_read() -> None:
    pod = VmRecord(id="pod_1")
    assert legible(pod, b'{"id":"pod_1"}') is pod
    assert legible(pod, b'{"id":"pod_1","items":[' + b'"",' * 4000 + b'""]}') is pod
    odd = pod.model_copy(update={"status_reason": "\n"})
    assert legible(odd, b'{"id":"pod_1","statusReason":"\\n"}') == pod.model_copy(update={"status_reason": ""})


async def test_only_what_is_odd_in_a_list_is_copied() -> None:
    plain, odd = VmRecord(id="pod_1", name="a"), VmRecord(id="pod_2", name="two\nlines", status="s")
    read = legible(VmPage(items=[plain, odd]), b'{"items":[{"id":"pod_1","name":"two\\nlines"}]}')
    assert [each.name for each in read.items] == ["a", "two lines"]
    assert (read.items[1].id, read.items[1].status) == ("pod_2", "s")
    assert read.items[0] is plain
