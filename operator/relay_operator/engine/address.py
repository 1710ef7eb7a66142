"""What the cloud is asked for: an id, after that of what it is part of if nothing else finds it. Pure."""


def address(cloud_id: str, part_of: str) -> str:
    """The id, and before it the one of what it is part of; no id of the cloud's has a slash (`RESOURCE_ID`)."""
    return f"{part_of}/{cloud_id}" if part_of else cloud_id


def parts_of(asked: str) -> tuple[str, str]:
    """The id of what it is part of, empty if it is not told, and its own."""
    part_of, _, cloud_id = asked.rpartition("/")
    return part_of, cloud_id
