"""Sets of ids are exact, bounded in memory, and leave nothing behind."""

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.ids import CACHE_KIB, Ids
from tests.support.eventually import PATIENCE_SECONDS

ODD_IDS = ["a", "A", "a ", " a", "a\0", "a\0b", "a\0c", "1", "01", "1.0", "é", "e\u0301", "😀", "null", "a%", "x" * 512]


@pytest.fixture
def ids() -> Iterator[Ids]:
    with Ids() as made:
        yield made


def test_ids_that_differ_by_a_character_are_different(ids: Ids) -> None:
    assert ids.add(ODD_IDS, range(1, len(ODD_IDS) + 1)) == []
    assert len(ids) == len(ODD_IDS)
    assert ids.holds(ODD_IDS) == [True] * len(ODD_IDS)
    assert ids.holds(["a\0d", "b", ""]) == [False] * 3


def test_a_repeated_id_is_told_with_the_first_mark(ids: Ids) -> None:
    assert ids.add(["a", "b"], [1, 2]) == []
    assert ids.add(["c", "b", "c", "a"], [3, 4, 5, 6]) == [(1, 2), (2, 3), (3, 1)]
    assert len(ids) == 3


def test_a_set_that_is_cleared_is_as_good_as_new(ids: Ids) -> None:
    ids.add(["a", "b"], [1, 2])
    ids.clear()
    assert (len(ids), ids.holds(["a", "b"])) == (0, [False, False])
    assert ids.add(["a"], [3]) == []


def test_an_id_is_claimed_once(ids: Ids) -> None:
    ids.put(["a", "b", "a"])
    assert len(ids) == 2
    assert ids.claim(["a", "a", "c"], [1, 2, 3]) == [(1, 1), (2, None)]
    assert ids.claim(["b", "a"], [4, 5]) == [(1, 1)]


def test_nothing_is_done_for_no_ids(ids: Ids) -> None:
    ids.put([])
    assert ids.add([], []) == []
    assert ids.claim([], []) == []


@given(st.lists(st.lists(st.text(max_size=3), max_size=20), max_size=10))
def test_repeats_are_those_that_a_dictionary_finds(batches: list[list[str]]) -> None:
    first: dict[str, int] = {}
    number = 0
    with Ids() as ids:
        for batch in batches:
            marks = range(number + 1, number + len(batch) + 1)
            expected = []
            for index, (each, mark) in enumerate(zip(batch, marks, strict=True)):
                if first.setdefault(each, mark) != mark:
                    expected.append((index, first[each]))
            assert ids.add(batch, marks) == expected
            number += len(batch)
        assert len(ids) == len(first)


def test_many_ids_take_little_memory_and_no_name_on_disk(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from bench.usage import peak, restart_peak\n"
        "from relay_operator.records.ids import Ids\n"
        "ids = Ids()\n"
        "restart_peak()\n"
        "before = peak()\n"
        "for start in range(1, 400_000, 1000):\n"
        "    ids.add([f'{n * 7919 % 1000003:040}' for n in range(start, start + 1000)], range(start, start + 1000))\n"
        "print(peak() - before, len(ids), os.listdir(os.environ['SQLITE_TMPDIR']))\n"
    )
    printed = _run(script, tmp_path).stdout
    grown, count, left = printed.split(maxsplit=2)
    assert int(grown) < 2 * CACHE_KIB * 1024
    assert int(count) == 400_000
    assert left.strip() == "[]"


def test_a_folder_without_room_is_told_in_a_sentence(tmp_path: Path) -> None:
    script = (
        "import resource\n"
        "from relay_operator.records.ids import Ids, NoTemporarySpace\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "ids = Ids()\n"
        "try:\n"
        "    for start in range(1, 1_000_000, 1000):\n"
        "        ids.add([f'{n:040}' for n in range(start, start + 1000)], range(start, start + 1000))\n"
        "except NoTemporarySpace as error:\n"
        "    print(error)\n"
    )
    printed = _run(script, tmp_path).stdout
    assert printed.startswith("no room for temporary files (")
    assert "TMPDIR" in printed


def test_a_closed_set_holds_no_file_open() -> None:
    def opened() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    with Ids() as ids:
        ids.add([f"{n:0100}" for n in range(200_000)], range(1, 200_001))
        assert opened() > before
    assert opened() == before


def _run(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"SQLITE_TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(["operator", "."])}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=Path(__file__).parents[3],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
