"""What a schedule may not say is refused at apply, in words that say what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_schedule.runs import SPEC, batch_schedule
from tests.cluster.batch_side import batch
from tests.support.kube import KubeError

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest

FORM = "a schedule has five fields (minute, hour, day of the month, month, day of the week), or is one of @yearly"
REFUSED: dict[str, tuple[Manifest, str]] = {
    "a zone inside": (batch_schedule(schedule="CRON_TZ=UTC 0 6 * * *"), "not allowed in a schedule: set timeZone"),
    "four fields": (batch_schedule(schedule="0 6 * *"), FORM),
    "six fields": (batch_schedule(schedule="0 0 6 * * *"), FORM),
    "an interval": (batch_schedule(schedule="@every 1h"), FORM),
    "a last day": (batch_schedule(schedule="0 0 * * 5#2"), FORM),
    "nothing": (batch_schedule(schedule=""), "schedule in body should be at least 1 chars long"),
    "the machine's zone": (batch_schedule(timeZone="Local"), "name the time zone, as in Europe/Berlin"),
    "an unknown policy": (batch_schedule(concurrencyPolicy="Queue"), 'supported values: "Allow", "Forbid", "Replace"'),
    "no time to start": (batch_schedule(startingDeadlineSeconds=0), "should be greater than or equal to 1"),
    "a history below nothing": (batch_schedule(failedBatchesHistoryLimit=-1), "should be greater than or equal to 0"),
    "a name too long": (batch_schedule("n" * 53), "the name has at most 52 characters"),
    "no template": (batch_schedule(batchTemplate=None), "spec.batchTemplate: Required value"),
    "a placeholder that is none": (
        batch_schedule(batchTemplate={"spec": SPEC | {"output": {"url": "s3://answers/{week}/"}}}),
        "the placeholders of a template are {name}, {date}, {year}, {month}, {day}, {hour}, {minute}",
    ),
    "the same in the name of a ConfigMap": (
        batch_schedule(batchTemplate={"spec": SPEC | {"output": {"configMapRef": {"name": "a-{week}"}}}}),
        "spec.batchTemplate.spec.output.configMapRef.name in body should match",
    ),
    "a placeholder in a batch by itself": (
        batch(output={"url": "s3://answers/{date}/"}),
        "a placeholder such as {date} belongs in the template of an InferenceBatchSchedule",
    ),
    "a template without a model": (
        batch_schedule(batchTemplate={"spec": {name: value for name, value in SPEC.items() if name != "model"}}),
        "spec.batchTemplate.spec.model: Required value",
    ),
}


@pytest.mark.parametrize(("manifest", "says"), REFUSED.values(), ids=REFUSED)
async def test_it_is_refused_with_a_sentence_that_says_why(kube: Kube, manifest: Manifest, says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.create(manifest, dry_run=True)
    assert refused.value.status == 422
    assert says in refused.value.message


@pytest.mark.parametrize(
    "manifest",
    [
        batch_schedule("n" * 52),
        batch_schedule(schedule="@hourly"),
        batch_schedule(
            batchTemplate={
                "spec": SPEC
                | {"input": {"url": "https://{hour}/{minute}"}, "output": {"url": "s3://{year}/{month}/{day}"}}
            }
        ),
        batch_schedule(schedule=" */15  9-17 ? JAN,feb mon-fri ", timeZone="America/Argentina/Buenos_Aires"),
    ],
    ids=["a long name", "a macro", "placeholders", "everything that a field can be"],
)
async def test_what_is_in_bounds_is_taken(kube: Kube, manifest: Manifest) -> None:
    assert (await kube.create(manifest, dry_run=True))["spec"] == manifest["spec"]


async def test_the_template_can_be_changed(kube: Kube) -> None:
    await kube.create(batch_schedule("changed", suspend=True))
    other = {"model": "another", "input": {"inline": None, "fileId": "file-1"}}
    changed = await kube.patch("InferenceBatchSchedule", "changed", {"spec": {"batchTemplate": {"spec": other}}})
    assert changed["spec"]["batchTemplate"]["spec"] == SPEC | {"model": "another", "input": {"fileId": "file-1"}}
    await kube.delete("InferenceBatchSchedule", "changed")
