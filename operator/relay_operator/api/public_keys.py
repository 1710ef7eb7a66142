"""Validation of public SSH keys."""

import base64
import hashlib

NO_PRIVATE_KEY = (
    "!self.contains('PRIVATE KEY') && !self.contains('PuTTY-User-Key-File')",
    "this is a private key, which nobody but its owner may have: put in the public one, and make a new pair",
)
_ONE_LINE = r"self.matches('^[a-z0-9@.-]+ +[A-Za-z0-9+/]+=*( [^\\n]*)?\\n?$')"
OPENSSH = (
    f"self.contains('PRIVATE KEY') || self.contains('PuTTY-User-Key-File') || {_ONE_LINE}",
    "this is not an OpenSSH public key, such as ssh-ed25519 AAAA... you@host: give the line of the .pub file",
)
"""Rules for a public key; for a private key, only the first reports anything."""


def fingerprint(public_key: str | None) -> str | None:
    """The fingerprint as `ssh-keygen -l` shows it; None if the text is not a key."""
    words = (public_key or "").split()
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (IndexError, ValueError):  # also binascii.Error, and letters that are not ASCII
        return None
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
