"""Options that every command shares with kubectl, and how a command runs."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Annotated, Concatenate, ParamSpec, TypeAlias

import typer

from relay_cli.kubectl import Kubectl
from relay_cli.tables import Output

Params = ParamSpec("Params")

AllNamespaces: TypeAlias = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Show all namespaces.")]
OutputOption: TypeAlias = Annotated[Output, typer.Option("-o", "--output", help="A table, or JSON for programs.")]

_KUBECTL = (
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default="", annotation=Annotated[str, option])
    for name, option in (
        ("namespace", typer.Option("-n", "--namespace", help="Default: the kubeconfig's namespace.", metavar="NAME")),
        ("context", typer.Option("--context", help="Default: the kubeconfig's current context.", metavar="NAME")),
        ("kubeconfig", typer.Option("--kubeconfig", help="Default: the one that kubectl uses.", metavar="FILE")),
    )
)
_OF_KUBECTL = {parameter.name: parameter for parameter in _KUBECTL}


def command(run: Callable[Concatenate[Kubectl, Params], Awaitable[None]]) -> Callable[..., None]:
    """The command for typer: `run` with kubectl's options in place of its first parameter."""

    def parsed(*args: Params.args, **kwargs: Params.kwargs) -> None:
        kubectl = Kubectl(**{name: str(kwargs.pop(name)) for name in _OF_KUBECTL})
        asyncio.run(_awaited(run(kubectl, *args, **kwargs)))

    _, *own = inspect.signature(run, eval_str=True).parameters.values()
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    signature = inspect.Signature([*keywords, *_OF_KUBECTL.values()])
    parsed.__signature__ = signature  # type: ignore[attr-defined]
    parsed.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    parsed.__name__, parsed.__doc__ = run.__name__, run.__doc__
    return parsed


async def _awaited(done: Awaitable[None]) -> None:
    await done
