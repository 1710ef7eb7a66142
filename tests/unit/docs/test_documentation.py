"""What the documentation names exists, and what exists is in it: headings, settings, options, metrics, reasons."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry
from typer.main import get_group

from relay_cli.__main__ import application
from relay_localcloud.__main__ import main as localcloud
from relay_localcloud.control.orgs import OrganizationChange
from relay_localcloud.settings import Settings as CloudSettings
from relay_operator.__main__ import main as operator
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.inferencebatch_spec import TRANSIENT_CODES
from relay_operator.api.reasons import REASONS, Resolver
from relay_operator.api.workload import PricedSpec, WorkloadSpec
from relay_operator.crds import DEFINITIONS
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[3]
_FOLDERS = (".", "docs", "charts", "hack", "bench", "examples", "tests")
_CODE = ("operator", "tests", "hack", "bench")
_NOT_OURS = {".venv", ".demo", "node_modules"}
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
_MAKE = re.compile(r"(?:^|[`$] ?|\n {4})make (?P<target>[a-z][a-z-]*)", re.MULTILINE)
_SETTING = re.compile(rf"\b{PREFIX}[A-Z_]+\b")
# Of tests, Makefile and chart; the operator never reads them.
_OTHER_VARIABLES = {"RELAY_TEST_BROWSER", "RELAY_TEST_KUBECONFIG"}


def _pages() -> tuple[Path, ...]:
    found: set[Path] = set()
    for folder in _FOLDERS:
        pattern = "*.md" if folder == "." else "**/*.md"
        found |= set((ROOT / folder).glob(pattern))
    return tuple(sorted(page for page in found if not _NOT_OURS & set(page.relative_to(ROOT).parts)))


PAGES = _pages()
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@cache
def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives to headings."""
    without_blocks = re.sub(r"^```.*?^```$", "", _text(page), flags=re.DOTALL | re.MULTILINE)
    headings = (match["text"] for match in _HEADING.finditer(without_blocks))
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def _relative_links(page: Path) -> Iterator[tuple[str, str]]:
    """Path and anchor of every link that stays in the repository."""
    for match in _LINK.finditer(re.sub(r"^```.*?^```$|`[^`\n]*`", "", _text(page), flags=re.DOTALL | re.MULTILINE)):
        if "://" not in match["target"]:
            path, _, anchor = match["target"].partition("#")
            yield path, anchor


@every_page
def test_every_relative_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for path, anchor in _relative_links(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} does not exist"
        if anchor:
            assert anchor in _anchors(target), f"{target.name} has no heading for #{anchor}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = set(re.findall(r": (\S+\.md)$", _text(ROOT / "mkdocs.yml"), re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if not page.startswith("decisions/0")} <= navigation


@every_page
def test_every_make_target_that_is_mentioned_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {match["target"] for match in _MAKE.finditer(_text(page))} <= targets


@cache
def _python_files() -> frozenset[str]:
    return frozenset(f"/{path.relative_to(ROOT)}" for folder in _CODE for path in (ROOT / folder).rglob("*.py"))


@every_page
def test_every_python_file_that_is_mentioned_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w-]+\.py)`", _text(page)))
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in _python_files())} == set()


@every_page
def test_every_setting_that_is_mentioned_exists(page: Path) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    assert set(_SETTING.findall(_text(page))) <= known


@every_page
def test_every_setting_is_called_by_its_variable(page: Path) -> None:
    fields = {name for name in Settings.model_fields if "_" in name}
    assert {name for name in fields if f"`{name}`" in _text(page) or f"`{name} " in _text(page)} == set()


def test_every_metric_is_explained_and_no_other() -> None:
    page = _text(ROOT / "docs" / "metrics.md")
    suffixes = {"counter": "_total", "info": "_info"}
    metrics = {
        metric.name + suffixes.get(metric.type, "") for metric in Metrics(CollectorRegistry()).registry.collect()
    }
    assert set(re.findall(r"^\| `(gpurelay_[a-z_]+)`", page, re.MULTILINE)) == metrics


def test_every_alert_of_the_chart_has_its_heading_and_no_other() -> None:
    chart = (ROOT / "charts" / "relay-operator" / "templates" / "monitoring.yaml").read_text()
    alerts = re.findall(r"^ +- alert: (\w+)$", chart, re.MULTILINE)
    assert re.findall(r"^## (Relay\w+)$", _text(ROOT / "docs" / "alerts.md"), re.MULTILINE) == alerts


@pytest.mark.parametrize("kind", [definition.singular for definition in DEFINITIONS])
def test_every_kind_has_a_page_that_names_only_conditions_and_reasons_that_exist(kind: str) -> None:
    page = _text(ROOT / "docs" / "kinds" / f"{kind}.md")
    rows = re.findall(r"^\| ((?:`\w+(?:=\w+)?`(?:, )?)+) \|", page, re.MULTILINE)
    named = {word.partition("=")[0] for row in rows for word in re.findall(r"`([^`]+)`", row)}
    assert named <= {*map(str, Reason), *map(str, ConditionType)}
    assert f"[`{_kind_name(kind)}`](docs/kinds/{kind}.md)" in _text(ROOT / "README.md")


@pytest.mark.parametrize("kind", [definition.singular for definition in DEFINITIONS])
def test_every_page_of_a_kind_leads_to_all_reasons(kind: str) -> None:
    assert "](../reference/conditions.md)" in _text(ROOT / "docs" / "kinds" / f"{kind}.md")


def test_what_a_person_has_to_resolve_is_on_a_page_of_a_kind() -> None:
    pages = " ".join(_text(page) for page in (ROOT / "docs" / "kinds").glob("*.md"))
    by_people = {Resolver.AUTHOR, Resolver.ACCOUNT_OWNER, Resolver.ADMINISTRATOR}
    reasons = {reason for reason, doc in REASONS.items() if doc.resolver in by_people}
    assert {reason for reason in (*reasons, *ConditionType) if not re.search(rf"`{reason}(=\w+)?`", pages)} == set()


def _kind_name(singular: str) -> str:
    return next(definition.kind for definition in DEFINITIONS if definition.singular == singular)


def test_the_page_about_failed_records_names_those_that_are_sent_again() -> None:
    page = _text(ROOT / "docs" / "batches" / "from-a-file-to-answers.md")
    rows = re.findall(r"^\| (?P<codes>[\w`, ]+) \| [^|]+ \| (?P<again>yes|never)", page, re.MULTILINE)
    named = {
        again: {code for codes, told in rows if told == again for code in re.findall(r"\w+", codes)}
        for _, again in rows
    }
    assert {code for code in TRANSIENT_CODES if code.isdecimal()} <= named["yes"] <= set(TRANSIENT_CODES)
    assert named["never"].isdisjoint(TRANSIENT_CODES)


def test_the_readme_is_read_in_one_go() -> None:
    lines = _text(ROOT / "README.md").splitlines()
    first = lines[2 : lines.index("", 2)]
    assert (len(lines) < 150, len(first) <= 3) == (True, True), "what it is and for whom, in three lines; then the rest"


@every_page
def test_every_manifest_in_a_code_block_is_yaml_of_a_kind_that_exists(page: Path) -> None:
    kinds = {definition.kind for definition in DEFINITIONS}
    for block in re.findall(r"^```yaml\n(.*?)^```$", _text(page), re.DOTALL | re.MULTILINE):
        for document in yaml.safe_load_all(block):
            if isinstance(document, dict) and str(document.get("apiVersion", "")).startswith("gpurelay.dev/"):
                assert document["kind"] in kinds


def _rows(page: Path, first: str) -> list[tuple[str, ...]]:
    """The cells of the table whose head begins with this cell, without its head."""
    lines = _text(page).splitlines()
    (head,) = (number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    table = lines[head + 2 : lines.index("", head)]
    return [tuple(cell.strip() for cell in _cells(row)) for row in table]


def _cells(row: str) -> list[str]:
    return re.split(r"(?<!\\)\|", row.strip())[1:-1]


@every_page
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: Path) -> None:
    without_blocks = re.sub(r"^```.*?^```$", "", _text(page), flags=re.DOTALL | re.MULTILINE)
    for table in re.findall(r"(?:^ *\|.*\|$\n?)+", without_blocks, re.MULTILINE):
        head, *rows = table.splitlines()
        assert [row for row in rows if len(_cells(row)) != len(_cells(head))] == []


LOCALCLOUD = ROOT / "docs" / "localcloud.md"
CONTROL = LOCALCLOUD.parent / "localcloud" / "control.md"


def test_every_setting_of_the_local_cloud_is_explained_with_its_default() -> None:
    told = {name.strip("`"): json.loads(default.replace(",", "")) for name, default, _ in _rows(CONTROL, "setting")}
    assert told == CloudSettings().model_dump(by_alias=True)


def test_every_field_of_an_organization_that_control_changes_is_explained() -> None:
    told = {name.strip("`") for name, _, _ in _rows(CONTROL, "field")}
    assert told == {field.alias for field in OrganizationChange.model_fields.values()}


@pytest.mark.parametrize(
    ("command", "page"),
    [
        ("serve", LOCALCLOUD),
        *((word, LOCALCLOUD.parent / "localcloud" / "backup.md") for word in ("backup", "rotate-key")),
    ],
    ids=["serve", "backup", "rotate-key"],
)
def test_every_option_of_the_local_cloud_is_explained(
    command: str, page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        localcloud([command, "--help"])
    options = set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    assert options
    assert {option for option in options if not re.search(rf"{option}(?![\w-])", _text(page))} == set()


def test_every_command_of_the_operator_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        operator(["--help"])
    commands = set(re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE))
    pages = " ".join(_text(ROOT / "docs" / page) for page in ("operations.md", "localcloud.md"))
    assert commands
    assert {command for command in commands if f"relay-operator {command}" not in pages} == set()


def test_every_command_of_kubectl_relay_has_its_heading_and_no_other() -> None:
    commands = set(get_group(application()).commands)
    assert set(re.findall(r"^## (\w+)$", _text(ROOT / "docs" / "cli.md"), re.MULTILINE)) == commands


def test_every_annotation_that_people_set_is_explained_and_no_other() -> None:
    ours = {meta.CREATE_INTENT, meta.API_KEY_SECRET, meta.FINALIZER, meta.LEADER_LABEL, meta.COST_CENTER}
    known = {one for one in vars(meta).values() if isinstance(one, str) and one.startswith(meta.ANNOTATION_PREFIX)}
    theirs = known - ours - {meta.ANNOTATION_PREFIX, meta.API_VERSION}
    told = _rows(ROOT / "docs" / "operations.md", "annotation")
    assert {meta.ANNOTATION_PREFIX + name.strip("`") for name, _, _ in told} == theirs


@pytest.mark.parametrize(
    ("spec", "heading"),
    [
        (PricedSpec, "limit-its-price"),
        (WorkloadSpec, "limit-its-life"),
        (WorkloadSpec, "run-by-the-clock"),
        (WorkloadSpec, "recover-by-itself"),
        (WorkloadSpec, "connect-from-other-workloads"),
    ],
)
def test_what_several_kinds_share_is_found_from_the_page_of_each(spec: type[PricedSpec], heading: str) -> None:
    shown_with_pods = ROOT / "docs" / "kinds" / "gpupod.md"
    for definition in DEFINITIONS:
        page = ROOT / "docs" / "kinds" / f"{definition.singular}.md"
        if issubclass(definition.spec, spec) and page != shown_with_pods:
            assert f"gpupod.md#{heading}" in _text(page)
    assert heading in _anchors(shown_with_pods)


_OF_OTHERS = {"process_factory"}
"""Names in the code of libraries."""


@cache
def _names() -> frozenset[str]:
    sources = (f"{path.stem} {path.read_text()}" for folder in _CODE for path in (ROOT / folder).rglob("*.py"))
    return frozenset(name for source in sources for name in re.findall(r"\w+", source))


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("0*.md")), ids=lambda page: page.stem)
def test_every_name_of_code_in_a_decision_exists(page: Path) -> None:
    code = " ".join(re.findall(r"`([^`\n]+)`", _text(page)))
    named = set(re.findall(r"(?<![\w/-])(?!gpurelay_)(?:_?[a-z]+(?:_[a-z]+)+|_[a-z]+)(?![\w-])", code))
    assert named - _names() - _OF_OTHERS == set()


def _heads() -> Iterator[tuple[str, ...]]:
    """What `kubectl get` prints above the objects of each kind, without and with `-o wide`."""
    for definition in DEFINITIONS:
        usual = [column.name.upper() for column in definition.printed if column.priority == 0]
        yield ("NAME", *usual)
        yield ("NAME", *usual, *(column.name.upper() for column in definition.printed if column.priority))


@every_page
def test_every_table_of_kubectl_has_the_columns_of_a_kind(page: Path) -> None:
    heads = {tuple(re.split(r" {2,}", line.strip())) for line in re.findall(r"^NAME .*$", _text(page), re.MULTILINE)}
    assert heads <= set(_heads())
