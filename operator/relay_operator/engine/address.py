"""The address of a resource: its id, prefixed with the id of its whole if the cloud needs both to find it. Pure."""


def address(cloud_id: str, part_of: str) -> str:
    """The id, after `part_of` and a slash if there is one; no id of the cloud has a slash (`RESOURCE_ID`)."""
    return f"{part_of}/{cloud_id}" if part_of else cloud_id


def parts_of(asked: str) -> tuple[str, str]:
    """The id of the whole, empty if the address has none, and the resource's own id."""
    part_of, _, cloud_id = asked.rpartition("/")
    return part_of, cloud_id
