"""The one way to the terminal: authors of objects, logs and the cloud's answers must not control it."""

import signal
import sys

import typer


def harmless(text: str) -> str:
    """The text with its control characters replaced, except line feeds and tabs. Pure."""
    return "".join(one if one.isprintable() or one in "\n\t" else "\N{REPLACEMENT CHARACTER}" for one in text)


def say(text: str) -> None:
    """Print the output of a command on stdout; it ends where the text ends. `?` is what the locale cannot show."""
    encoding = getattr(sys.stdout, "encoding", "utf-8")  # a closed stdout is None
    typer.echo(harmless(text).encode(encoding, errors="replace").decode(encoding), nl=False)


def complain(sentence: str) -> None:
    """Print a sentence on stderr, apart from the output that programs read."""
    sys.stderr.write(harmless(f"kubectl relay: {sentence}\n"))


def agreed(question: str) -> bool:
    """Ask on stderr; no answer means no."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's would go on waiting for the answer
    try:
        sys.stderr.write(harmless(f"{question} [y/N]: "))
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    finally:
        signal.signal(signal.SIGINT, former)
