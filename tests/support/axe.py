"""axe-core, which checks the accessibility of a page; fetched from npm once per machine."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from tests.support import npm
from tests.support.toolchain import cache_folder, locked

_PACKAGE = "axe-core@4.14.1"
_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
"""SHA-512 of the package in Base64; `npm view` prints it for another release (`dist.integrity`)."""


def axe() -> str:
    """Returns the script, which defines `axe` in the page that runs it. Raises InstallError."""
    key = hashlib.sha256(f"{_PACKAGE} {_SHA512}".encode()).hexdigest()[:16]
    script = cache_folder() / f"axe-{key}.js"
    if not script.exists():
        with locked(script.with_name(f"{script.name}.lock"), "axe-core"):
            if not script.exists():
                with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="installing-") as scratch:
                    (npm.unpacked(_PACKAGE, _SHA512, Path(scratch)) / "axe.min.js").rename(script)
    return script.read_text()
