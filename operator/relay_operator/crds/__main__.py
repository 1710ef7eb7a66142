"""`python -m relay_operator.crds` writes every generated file; `--check` names those that differ and exits 1."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from relay_operator.crds.files import GENERATED_FOLDERS, generated_files


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the files below the current folder."""
    parser = argparse.ArgumentParser(prog="python -m relay_operator.crds", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is not up to date")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository's root (default: here)")
    options = parser.parse_args(arguments)
    root: Path = options.root
    if not (root / "pyproject.toml").is_file():
        parser.error(f"{root.resolve()} is not the root of the repository; run this there, or say --root")
    files = generated_files()
    if options.check:
        return _report(list(_drifted(root, files)))
    for path in _strays(root, files):
        path.unlink()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


def _drifted(root: Path, files: Mapping[str, str]) -> Iterator[str]:
    for name, text in files.items():
        path = root / name
        if not path.is_file():
            yield f"{name} is missing"
        elif path.read_text() != text:
            yield f"{name} differs"
    for path in _strays(root, files):
        yield f"{path.relative_to(root)} belongs to no kind"


def _strays(root: Path, files: Mapping[str, str]) -> Iterator[Path]:
    present = (path for folder in GENERATED_FOLDERS for path in sorted((root / folder).glob("*")) if path.is_file())
    return (path for path in present if path.relative_to(root).as_posix() not in files)


def _report(drifted: list[str]) -> int:
    for sentence in drifted:
        sys.stderr.write(f"{sentence}: run `make generate` and commit the result\n")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())
