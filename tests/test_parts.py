"""The quick part of the suite is what its name says."""

from __future__ import annotations

import subprocess
import sys

import parts
import pytest


def test_every_name_in_the_declaration_exists() -> None:
    files = {path.name for path in parts.TESTS.rglob("*.py")}
    assert {*parts.SLOW_FILES, *parts.LONG} <= files
    assert all((parts.TESTS / folder).is_dir() for folder in parts.SLOW_FOLDERS)
    sources = [path.read_text(encoding="utf-8") for path in parts.TESTS.rglob("conftest.py")]
    assert all(any(f"def {name}(" in source for source in sources) for name in parts.SLOW_FIXTURES)


@pytest.mark.parametrize(
    ("file", "fixtures", "quick"),
    [
        ("data/test_shapes.py", (), True), ("golden/test_golden.py", (), False), ("test_lint.py", (), False),
        ("finetuning/test_applied.py", ("llama", "trained_fp32"), False), ("finetuning/test_applied.py", ("llama",), True),
        ("studies/test_study_page.py", ("page", "browser"), False),
    ],
)  # fmt: skip
def test_a_test_is_quick_by_its_folder_its_file_and_its_fixtures(
    file: str, fixtures: tuple[str, ...], quick: bool
) -> None:
    assert parts.is_quick(parts.TESTS / file, fixtures) is quick


def test_all_that_were_collected_are_marked_by_it_and_the_quick_ones_are_many(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    quick = [item for item in items if item.get_closest_marker("quick")]
    assert request.node in quick
    for item in quick:
        assert parts.is_quick(item.path, getattr(item, "fixturenames", ())), item.nodeid
    if len({item.path for item in items}) > 120:  # the whole suite
        assert len(quick) > 0.4 * len(items)


@pytest.mark.parametrize("program", [[sys.executable, "-c", ""], [parts.Path(sys.executable).with_name("mypy")]])
def test_a_quick_test_starts_no_program_of_its_environment(program: list[str]) -> None:
    with pytest.raises(AssertionError, match=r"name its file in tests/parts\.py"):
        subprocess.run(program, check=False)


def test_a_quick_test_loads_no_trainer() -> None:
    if parts.TRAINER in sys.modules:
        pytest.skip("loaded by a test that is not quick")
    with pytest.raises(AssertionError, match="a quick test needs trl"):
        __import__(parts.TRAINER)
