"""What people do with the `openai` client, for any version of it: imports that client and the standard library alone.

python openai_plays.py PLAY INFERENCE_URL API_KEY CONTROL_URL
"""

import io
import json
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import openai

ENDPOINT: Final = "/v1/chat/completions"
REFUSALS: dict[str, type[openai.APIStatusError]] = {
    "nonesuch": openai.NotFoundError,
    "messages-only": openai.BadRequestError,
    "refuse": openai.UnprocessableEntityError,
    "busy": openai.RateLimitError,
    "down": openai.InternalServerError,
    "full": openai.InternalServerError,
}


@dataclass(frozen=True)
class Ground:
    """A client of a local cloud, and the control interface of that."""

    client: openai.OpenAI
    control_url: str

    def control(self, method: str, path: str, **body: object) -> None:
        """One call of the control interface."""
        request = urllib.request.Request(self.control_url + path, json.dumps(body).encode(), method=method)
        urllib.request.urlopen(request, timeout=180).close()


Play = Callable[[Ground], None]


def chat(ground: Ground) -> None:
    """An answer, with its usage."""
    answer = ground.client.chat.completions.create(model="echo", messages=[{"role": "user", "content": "one two"}])
    assert answer.choices[0].message.content == "one two"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (2, 2, 4)
    assert "echo" in {model.id for model in ground.client.models.list()}


def stream(ground: Ground) -> None:
    """The same in pieces, the usage with the last."""
    pieces = list(
        ground.client.chat.completions.create(
            model="echo",
            messages=[{"role": "user", "content": "one two three"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = [piece.choices[0].delta.content for piece in pieces if piece.choices]
    assert "".join(part for part in text if part) == "one two three"
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.total_tokens == 6


def errors(ground: Ground) -> None:
    """Each refusal is the exception that stands for it."""
    for model, error in REFUSALS.items():
        _refused(error, partial(_asked, ground.client, model))
    stranger = ground.client.with_options(api_key="or_never_issued_0123456789")
    _refused(openai.AuthenticationError, stranger.models.list)
    _refused(openai.NotFoundError, partial(ground.client.files.retrieve, "file_nonesuch"))
    _refused(openai.BadRequestError, partial(ground.client.batches.list, limit=0))


def files(ground: Ground) -> None:
    """Uploaded, listed over several pages, read, deleted."""
    client = ground.client
    made = [client.files.create(file=(f"{n}.jsonl", _input(n + 1)), purpose="batch") for n in range(5)]
    assert [file.filename for file in client.files.list(limit=2)] == [file.filename for file in reversed(made)]
    assert client.files.list(limit=2).has_more
    assert client.files.retrieve(made[2].id) == made[2]
    assert client.files.content(made[2].id).read() == _input(3)
    with client.files.with_streaming_response.content(made[2].id) as answer:
        assert b"".join(answer.iter_bytes(100)) == _input(3)
    assert client.files.delete(made[0].id).deleted
    assert made[0].id not in {file.id for file in client.files.list(limit=3)}


def batches(ground: Ground) -> None:
    """Created, listed over several pages, waited for, read, cancelled."""
    client = ground.client
    file = client.files.create(file=io.BytesIO(_input(3)), purpose="batch")
    made = [
        client.batches.create(
            input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h", metadata={"number": str(number)}
        )
        for number in range(5)
    ]
    assert [batch.id for batch in client.batches.list(limit=2)] == [batch.id for batch in reversed(made)]
    assert client.batches.cancel(made[4].id).status == "cancelling"
    ground.control("POST", "/clock", advanceSeconds=600)
    assert client.batches.retrieve(made[4].id).status == "cancelled"
    done = client.batches.retrieve(made[0].id)
    assert (done.status, done.metadata) == ("completed", {"number": "0"})
    assert done.request_counts is not None
    assert (done.request_counts.total, done.request_counts.completed, done.request_counts.failed) == (3, 3, 0)
    assert done.output_file_id is not None
    answers = [json.loads(line) for line in client.files.content(done.output_file_id).text.splitlines()]
    assert {answer["custom_id"] for answer in answers} == {"r0", "r1", "r2"}
    assert answers[0]["response"]["body"]["choices"][0]["message"]["content"] == "hello"
    _refused(openai.ConflictError, partial(client.batches.cancel, made[0].id))


PLAYS: dict[str, Play] = {
    "chat": chat,
    "stream": stream,
    "errors": errors,
    "files": files,
    "batches": batches,
}


def ground_at(inference_url: str, api_key: str, control_url: str) -> Ground:
    """A client that tells of every refusal at once, rather than trying again."""
    return Ground(openai.OpenAI(base_url=f"{inference_url}/v1", api_key=api_key, max_retries=0), control_url)


def _input(count: int) -> bytes:
    body = {"model": "echo", "messages": [{"role": "user", "content": "hello"}]}
    record = {"method": "POST", "url": ENDPOINT, "body": body}
    return b"".join(json.dumps({"custom_id": f"r{n}", **record}).encode() + b"\n" for n in range(count))


def _asked(client: openai.OpenAI, model: str) -> None:
    client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}])


def _refused(error: type[openai.APIStatusError], call: Callable[[], object]) -> None:
    try:
        call()
    except error as refusal:
        if not isinstance(refusal.body, dict) or not refusal.body.get("message"):
            raise AssertionError(f"the body of {refusal!r} is not an error") from refusal
    else:
        raise AssertionError(f"{error.__name__} was not raised")


if __name__ == "__main__":
    PLAYS[sys.argv[1]](ground_at(*sys.argv[2:]))
    sys.stdout.write(openai.__version__)
