"""How other workloads in the namespace learn a workload's endpoint."""

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from relay_operator.api.meta import Model
from relay_operator.api.references import DataKey, LabelKey, LabelValue, ObjectName
from relay_operator.api.schema import field_rules, rules

PLACEHOLDERS: Final = ("endpointUrl", "host", "id", "deployToken")
"""The placeholders of a template, written as `{{endpointUrl}}`; `deployToken` is for Secrets only."""

Template: TypeAlias = Annotated[str, Field(max_length=2048)]
_KNOWN_ALONE = (
    "self.all(key, !self[key].replace('{{endpointUrl}}', '').replace('{{host}}', '').replace('{{id}}', '')"
    ".replace('{{deployToken}}', '').contains('{{'))"
)
_ONLY_IN_SECRETS = (
    "!has(self.configMap) || !has(self.configMap.keys) || "
    "self.configMap.keys.all(key, !self.configMap.keys[key].contains('{{deployToken}}'))"
)
_NONE_OF_OURS = "self.all(key, !key.startsWith('gpurelay.dev/') && key != 'app.kubernetes.io/managed-by')"


class ConnectionTarget(Model):
    """A Secret or ConfigMap that the operator writes and owns; deleted with the object."""

    name: ObjectName = Field(description="Its name. One that exists and is not this object's is never overwritten.")
    keys: dict[DataKey, Template] | None = Field(
        None,
        min_length=1,
        max_length=32,
        json_schema_extra=field_rules(
            (_KNOWN_ALONE, "a template may name {{endpointUrl}}, {{host}}, {{id}} and, in a Secret, {{deployToken}}")
        ),
        description="Keys and what they hold, with {{endpointUrl}}, {{host}}, {{id}} and, in a Secret, {{deployToken}} "
        "filled in. Absent: one key for each of these that is known.",
    )
    labels: dict[LabelKey, LabelValue] | None = Field(
        None,
        max_length=32,
        json_schema_extra=field_rules(
            (_NONE_OF_OURS, "labels of gpurelay.dev and app.kubernetes.io/managed-by are the operator's")
        ),
        description="Labels put on it.",
    )


class Connection(Model):
    """Where the endpoint and its token are written, in the object's own namespace."""

    model_config = rules(
        ("has(self.secret) || has(self.configMap)", "set secret, configMap or both"),
        (
            _ONLY_IN_SECRETS,
            "deployToken is a secret: it can go into connection.secret, not into connection.configMap",
        ),
    )

    secret: ConnectionTarget | None = Field(None, description="A Secret, with the deploy token if there is one.")
    config_map: ConnectionTarget | None = Field(None, description="A ConfigMap, without the deploy token.")
