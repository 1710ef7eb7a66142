"""The command lines that run in a container for a shell, a command or a subsystem of SSH. Pure."""

from collections.abc import Sequence
from typing import Final

SFTP: Final = "sftp"
NO_SHELL: Final = 127
"""The exit status of what cannot be executed, such as a shell that an image does not have."""

_SHELL: Final = 'export TERM="$0"; command -v bash >/dev/null 2>&1 && exec bash; exec sh'
_COMMAND: Final = 'export TERM="$0"; exec sh -c "$1"'
_SERVERS: Final = (
    *("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server"),
    *("/usr/libexec/sftp-server", "/usr/lib/sftp-server"),
)
"""The paths of sftp-server in Linux distributions."""
_NO_SERVER: Final = (
    "This container has no sftp-server, which sftp and scp need: install openssh-sftp-server in its image, or use "
    "`tar -cf - FILES | ssh ... tar -xf - -C FOLDER`."
)
_FILES: Final = f'for each in {" ".join(_SERVERS)}; do [ -x "$each" ] && exec "$each"; done; echo "$0" >&2; exit 127'


def of_shell(terminal: str) -> Sequence[str]:
    """A shell on a terminal of this type; bash if the image has it. Not a login shell, whose profile changes PATH."""
    return ("sh", "-c", _SHELL, terminal or "dumb")


def of_command(command: str, terminal: str) -> Sequence[str]:
    """The client's command, run by `sh -c`."""
    return ("sh", "-c", _COMMAND, terminal or "dumb", command)


def of_files() -> Sequence[str]:
    """The container's own sftp-server; if it has none, one sentence on stderr and the status 127."""
    return ("sh", "-c", _FILES, _NO_SERVER)
