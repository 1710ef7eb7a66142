"""What kubectl complains of, in a sentence, and what it says that cannot be read."""

import pytest

from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl, Missing, parsed, refusal
from relay_cli.objects import CloudObject
from tests.unit.cli.conftest import Scripted

_NOISE = 'E1123 14:17:35.603372   30645 memcache.go:265] "Unhandled Error" err="connection refused"\n'
_CANNOT = 'User "ada" cannot list resource "gpupods" in API group "gpurelay.dev" in the namespace "ml"'
_NO_KIND = 'the server doesn\'t have a resource type "gpupods"'
_NO_MATCH = (
    'resource mapping not found for name: "x" namespace: "" from "STDIN": no matches for kind "GpuPod" in version '
    '"gpurelay.dev/v1alpha1"'
)
_OF_A_FILE = """Error from server ({reason}): error when {does}:
{tried}
Resource: "gpurelay.dev/v1alpha1, Resource=gpupods", GroupVersionKind: "gpurelay.dev/v1alpha1, Kind=GpuPod"
Name: "trainer", Namespace: "ml"
{cause}
"""
_UNCHECKED = (
    "* <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation\n"
)
_ASK = ": ask an administrator of the cluster for this right"


@pytest.mark.parametrize(
    ("complaint", "sentence"),
    [
        (
            f"Error from server (Forbidden): gpupods.gpurelay.dev is forbidden: {_CANNOT}\n",
            _CANNOT + _ASK,
        ),
        ("Error from server (Forbidden): no\nError from server (Forbidden): nor this\n", "no" + _ASK),
        ('error: context "there" does not exist\n', 'context "there" does not exist'),
        ("Error in configuration: context was not found\n", "Error in configuration: context was not found"),
        ("Error from server: etcdserver: no leader\n", "etcdserver: no leader"),
        (
            f"{_NOISE}error: {_NO_KIND}\n",
            f"{_NO_KIND}: install the CRDs of relay-operator, or choose another cluster with --context",
        ),
        (
            f"error: {_NO_MATCH}\nensure CRDs are installed first\n",
            f"{_NO_MATCH}: install the CRDs of relay-operator, or choose another cluster with --context",
        ),
        (_NOISE + "The connection to the server was refused\n", "The connection to the server was refused"),
        (
            _OF_A_FILE.format(
                reason="Forbidden",
                does="retrieving current configuration of",
                tried="",
                cause=f'from server for: "trainer.yaml": gpupods.gpurelay.dev "trainer" is forbidden: {_CANNOT}',
            ),
            _CANNOT + _ASK,
        ),
        (
            _OF_A_FILE.format(
                reason="Forbidden",
                does="applying patch",
                tried='{"spec":{"image":"x: y:"}}\nto:',
                cause=f'for: "STDIN": error when patching "STDIN": gpupods "trainer" is forbidden: {_CANNOT}',
            ),
            _CANNOT + _ASK,
        ),
        (
            _OF_A_FILE.format(
                reason="InternalError", does="applying patch", tried="{}\nto:", cause='for: "STDIN": no leader'
            ),
            '"STDIN": no leader',
        ),
        (
            f'{_NOISE}The GpuPod "trainer" is invalid: \n* spec.image: Required value\n* spec.volumeGb: too small\n',
            'The GpuPod "trainer" is invalid: spec.image: Required value; spec.volumeGb: too small',
        ),
        (
            f'The GpuPod "trainer" is invalid: \n* spec.image: Required value\n{_UNCHECKED}',
            'The GpuPod "trainer" is invalid: spec.image: Required value',
        ),
        (
            'The GpuPod "trainer" is invalid: spec.image: Required value\n',
            'The GpuPod "trainer" is invalid: spec.image: Required value',
        ),
        ("error: it ends:\n", "it ends:"),
        ("", "kubectl failed and did not say why"),
    ],
)
def test_a_refusal_is_one_sentence_that_says_what_to_do(complaint: str, sentence: str) -> None:
    assert str(refusal(complaint)) == sentence


def test_what_does_not_exist_is_told_apart() -> None:
    assert isinstance(refusal('Error from server (NotFound): secrets "key" not found\n'), Missing)


async def test_what_is_not_json_is_a_sentence_that_quotes_nothing_of_it(kubectl: Scripted) -> None:
    kubectl("echo 'a plugin says: hunter2 {'")
    for ask in (Kubectl().get("secret/key"), Kubectl().list(["gpupods"]), Kubectl().would_apply(["-"])):
        with pytest.raises(Failure, match=r"^kubectl printed something other than an object in JSON: ") as failed:
            await ask
        assert "hunter2" not in str(failed.value)


@pytest.mark.parametrize("levels", [240, 300, 1_020, 5_000])
async def test_an_object_that_is_nested_too_deeply_hides_no_other(kubectl: Scripted, levels: int) -> None:
    nested = '{"a":' * levels + "1" + "}" * levels
    kubectl(f"""echo '{{"items": [{{"spec": {nested}}}, {{"kind": "GpuPod"}}]}}'""")
    assert (await Kubectl().list(["gpupods"]))[1] == {"kind": "GpuPod"}


@pytest.mark.parametrize(
    ("metadata", "name"),
    [({"name": "x", "namespace": "ml"}, "GpuPod/ml/x"), ({"name": "x"}, "GpuPod/x"), ({}, "a CloudObject")],
)
def test_an_object_that_cannot_be_read_is_named(metadata: dict[str, str], name: str) -> None:
    with pytest.raises(Failure, match=f"^{name} cannot be read: "):
        parsed(CloudObject, {"kind": "GpuPod", "metadata": metadata, "spec": {"accountRef": {"kind": "Other"}}})
