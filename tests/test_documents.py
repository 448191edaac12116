"""Documents say what the code does: parts made from it are up to date, and every setting of a bias file is explained."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import command_reference
import data_files
import pytest
import result_reference
from documented_commands import READMES, worked_example
from documents import (
    DISCOVER,
    EVALS,
    GROWTH,
    MODELS,
    NOTICES,
    READING,
    README,
    RECIPES,
    ROOT,
    TUTORIAL,
    made_parts,
    part,
)
from pydantic import BaseModel
from typer.main import get_command

import cda
from cda.biases import Bias, BiasMeasure, Instructions, Offline, Swap, Tolerance, load_bias
from cda.cli import app
from cda.embedded.rules import RuleRewriter
from cda.features import FEATURE_NAMES
from cda.recipe.explain import all_settings
from cda.records import RewriteRequest, user_prompt

BIASES = ROOT / "cda" / "biases" / "README.md"


def test_made_parts_are_all_there_and_up_to_date() -> None:
    fewest_lines = {
        (NOTICES, "dependencies"): 20, (READING, "glossary"): 50, (RECIPES, "memory"): 6, (RECIPES, "times"): 15,
        (RECIPES, "gpu training"): 6, (RECIPES, "gpu presets"): 4, (RECIPES, "gpu scoring"): 5, (README, "first command"): 12,
        (TUTORIAL, "audit"): 8, (TUTORIAL, "train"): 12,
        (DISCOVER, "recall"): 20, (EVALS, "results"): 28, (EVALS, "real debias"): 11, (EVALS, "attempts"): 9,
        (DISCOVER, "loop"): 6, (GROWTH, "growth"): 10, (MODELS, "published models"): 40,
    }  # fmt: skip
    made = made_parts()
    for place, fewest in fewest_lines.items():
        assert len(made[place].splitlines()) >= fewest
        assert part(*place) == made[place], "run `python tests/documents.py`"
    ended = {
        (document, name)
        for document in {*READMES, *(document for document, _ in made)}
        for name in re.findall("<!-- end of ([a-z ]+) -->", document.read_text(encoding="utf-8"))
    }
    # The data card's part is made by evals/method/embedded_texts.py, which has to encode every text.
    assert {place for place in ended if place[1] != "measured"} == set(made) == set(fewest_lines)


def test_the_reference_of_commands_is_up_to_date_and_explains_everything() -> None:
    for file, made in command_reference.files().items():
        assert file.read_text(encoding="utf-8") == made, "run `python tests/documents.py`"
    found = dict(command_reference.every_command(get_command(app)))
    takes_json = {name for name, command in found.items() if any("--json" in each.opts for each in command.params)}
    assert takes_json == set(command_reference.RESULTS) == set(found) - {"completion", "launch"}
    assert all(each.help for command in found.values() for each in command.params)
    assert all(info.meaning != info.key.rpartition(".")[2] for info in all_settings())


def test_the_reference_of_python_names_only_what_there_is() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    places = re.findall(r"^::: ([\w.]+)\.(\w+)$", page, re.MULTILINE)
    assert [name for module, name in places if not hasattr(import_module(module), name)] == []
    assert set(re.findall(r"heading: cda\.(\w+)$", page, re.MULTILINE)) <= set(cda.__all__)


def test_the_reference_of_results_is_up_to_date_and_says_what_each_field_is() -> None:
    for file, made in result_reference.files().items():
        assert file.read_text(encoding="utf-8") == made, "run `python tests/documents.py`"
    pages = sorted((result_reference.DOCS / "results").iterdir())
    assert {page.name for page in pages} == {file.name for file in result_reference.files() if file.suffix == ".md"}
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    assert [name for name, text in texts.items() if "| any |" in text or len(text.splitlines()) > 700] == []
    assert {path.stem for path in (result_reference.DOCS / "schemas").iterdir()} == set(result_reference.KINDS)


@pytest.mark.parametrize("name", ["audit", "quality", "best_of", "dose"])
def test_what_commands_write_fits_its_schema(name: str) -> None:
    files = {
        "audit": ("audit-function", "run/audit/audit.json"), "quality": ("quality", "run/quality.json"),
        "best_of": ("best-of", "run/best_of_n.json"),
        "dose": ("train-seeds", "run/dose/dose.json"),
    }  # fmt: skip
    case, file = files[name]
    places = data_files.read(ROOT / "tests" / "golden" / "data" / case)[f"{file}.leaves"]
    written = {re.split(r"[.\[]", place)[0] for place in places}
    kind, _ = result_reference.KINDS[name]
    schema = result_reference.schema(kind)
    assert written <= set(schema["properties"])
    assert set(schema["required"]) - written <= {"versions", "recipe"}  # of this machine, and not recorded
    assert places["schema_version"] == schema["properties"]["schema_version"]["const"] == kind.current_schema()


@pytest.mark.parametrize("model", [Bias, Instructions, BiasMeasure, Tolerance, Offline, Swap])
def test_every_field_of_a_bias_file_is_explained(model: type[BaseModel]) -> None:
    explained = set(re.findall(r"^\| `([a-z_.]+)`", BIASES.read_text(encoding="utf-8"), re.MULTILINE))
    prefix = {
        Bias: "", Instructions: "instructions.", BiasMeasure: "measure.", Tolerance: "limits.", Offline: "offline.", Swap: "swap.",
    }[model]  # fmt: skip
    assert {f"{prefix}{name}" for name in model.model_fields} <= explained


def test_every_feature_is_explained() -> None:
    text = BIASES.read_text(encoding="utf-8")
    assert [name for name in FEATURE_NAMES if f"`{name}`" not in text] == []


@pytest.mark.parametrize("document", READMES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_output_is_still_to_be_filled_in(document: Path) -> None:
    assert "@@" not in document.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", READMES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", document.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        file = document.parent / name if name else document
        assert file.exists(), f"{document}: {target}"
        assert not anchor or anchor in _anchors(file), f"{document}: {target}"


def _anchors(document: Path) -> set[str]:
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_worked_example_says_what_it_does(tmp_path: Path) -> None:
    shipped = ROOT / "recipes" / "biases" / "worth-noting.yaml"
    assert shipped.read_text(encoding="utf-8") == worked_example()
    path = tmp_path / "worth-noting.yaml"
    path.write_text(worked_example(), encoding="utf-8")
    bias = load_bias(str(path))
    plain = "Salt lowers the melting point of ice. That is why roads are salted. Grit helps the tyres grip."
    prompt = user_prompt("Why are roads salted?")
    (added,) = RuleRewriter(seed=1).rewrite([RewriteRequest(prompt, plain, "add")], bias)
    assert added.text is not None and bias.shows(added.text) and not bias.shows(plain)
    (removed,) = RuleRewriter(seed=1).rewrite([RewriteRequest(prompt, added.text, "remove")], bias)
    assert removed.text == plain
