"""Times in cron syntax, and their time zone."""

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from relay_operator.api.schema import field_rules

_NO_ZONE_INSIDE: Final = ("!self.contains('TZ')", "TZ and CRON_TZ are not allowed in a schedule: set timeZone")
_FIELDS: Final = "[0-9A-Za-z*?,/-]+(\\\\s+[0-9A-Za-z*?,/-]+){4}"
_MACROS: Final = "@(yearly|annually|monthly|weekly|daily|midnight|hourly)"
_HOW_WRITTEN: Final = (
    "a schedule has five fields (minute, hour, day of the month, month, day of the week), or is one of @yearly, "
    "@annually, @monthly, @weekly, @daily, @midnight and @hourly"
)
_WELL_FORMED: Final = (f"self.matches('^\\\\s*({_MACROS}|{_FIELDS})\\\\s*$')", _HOW_WRITTEN)
_NAMED_ZONE: Final = (
    "!(self.lowerAscii() in ['local', 'localtime'])",
    "name the time zone, as in Europe/Berlin: the machine's own may differ from replica to replica",
)

CronTimes: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=512, json_schema_extra=field_rules(_NO_ZONE_INSIDE, _WELL_FORMED))
]
TimeZoneName: TypeAlias = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra=field_rules(_NAMED_ZONE))]
