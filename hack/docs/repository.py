"""An MkDocs hook that adds to the site every file of the repository that docs/ or the README links to.

The README is the first page. Other Markdown becomes a page under its own path; any other file becomes a page that
shows its text. A broken link is left as it is, and MkDocs, in strict mode, rejects it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_DOCS = PurePosixPath("docs")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s]+)(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file that docs/ and the README link to, directly or through other Markdown."""
    waiting = [PurePosixPath("README.md"), *(_DOCS / one.src_uri for one in files.documentation_pages())]
    seen: set[PurePosixPath] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if not path.is_relative_to(_DOCS):
            files.append(_generated(path, config))
        if path.suffix == ".md":
            waiting += (found for found, _ in _linked(path, _without_code((ROOT / path).read_text("utf-8"))))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    source = _in_repository(page.file.src_uri)
    here = PurePosixPath(page.file.src_uri).parent

    def turned(match: re.Match[str]) -> str:
        found = _file_of(source, match["target"])
        if found is None:
            return match["target"]
        path, anchor = found
        return os.path.relpath(_on_site(path), here) + (f"#{anchor}" if anchor else "")

    parts = re.split(f"({_CODE.pattern})", markdown, flags=_CODE.flags)
    return "".join(part if index % 2 else _LINK.sub(turned, part) for index, part in enumerate(parts))


def _generated(path: PurePosixPath, config: MkDocsConfig) -> File:
    text = (ROOT / path).read_text("utf-8")
    if path.suffix != ".md":
        text = f"# {path}\n\n```{path.suffix.removeprefix('.')}\n{text}```\n"
    return File.generated(config, str(_on_site(path)), content=text, inclusion=InclusionLevel.NOT_IN_NAV)


def _linked(source: PurePosixPath, text: str) -> Iterator[tuple[PurePosixPath, str]]:
    for match in _LINK.finditer(text):
        found = _file_of(source, match["target"])
        if found is not None:
            yield found


def _file_of(source: PurePosixPath, link: str) -> tuple[PurePosixPath, str] | None:
    """Returns the repository file that a link leads to, and its anchor; a folder stands for its README.

    None for a link with a scheme, without a path, out of the repository, or to no file.
    """
    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return None
    target = (ROOT / source.parent / parts.path).resolve()
    if target.is_dir():
        target /= "README.md"
    if not target.is_file() or not target.is_relative_to(ROOT):
        return None
    return PurePosixPath(target.relative_to(ROOT)), parts.fragment


def _on_site(path: PurePosixPath) -> PurePosixPath:
    if path == PurePosixPath("README.md"):
        return PurePosixPath("index.md")
    if path.is_relative_to(_DOCS):
        return path.relative_to(_DOCS)
    return path if path.suffix == ".md" else path.with_name(f"{path.name}.md")


def _in_repository(src_uri: str) -> PurePosixPath:
    if src_uri == "index.md":
        return PurePosixPath("README.md")
    path = PurePosixPath(src_uri)
    return _DOCS / path if (ROOT / _DOCS / path).exists() else path


def _without_code(text: str) -> str:
    return _CODE.sub("", text)
