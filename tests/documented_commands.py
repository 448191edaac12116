"""The commands that the documents show, and the files of a user that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from made_release import make_release

from scripts.paper_release import main as paper_release

ROOT = Path(__file__).parent.parent
READMES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "recipes" / "README.md",
    *(ROOT / "cda").rglob("README.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
LAUNCHES = sorted((ROOT / "recipes" / "accelerate").glob("*.yaml"))
_FENCED = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:cda|accelerate|torchrun|pip|python|pytest) .+|^pytest$", re.MULTILINE)
_HEADER = re.compile(r"^#\s+((?:cda|accelerate) .+)$", re.MULTILINE)
_INLINE = re.compile(r"`(cda [a-z][^`]*)`")
_PYTHON = re.compile(r"(?<!`)`python (?:-m )?([\w./]+)")


def commands() -> list[str]:
    """Every command in a code block of a README or in the header of a recipe or of a config of accelerate, parts joined by && apart; none twice."""
    texts = [path.read_text(encoding="utf-8") for path in READMES]
    found = [line for text in texts for block in _FENCED.findall(text) for line in _COMMAND.findall(block)]
    found += [line for path in [*RECIPES, *LAUNCHES] for line in _HEADER.findall(path.read_text(encoding="utf-8"))]
    return sorted({part.strip() for line in found for part in line.split(" && ")})


def inline_commands() -> list[str]:
    """Every `cda …` within a sentence; most have placeholders."""
    found = [one for path in READMES for one in _INLINE.findall(path.read_text(encoding="utf-8").replace("\n", " "))]
    return sorted(set(found))


def python_programs() -> list[str]:
    """Files and modules that a sentence tells the reader to run."""
    return sorted({one for path in READMES for one in _PYTHON.findall(path.read_text(encoding="utf-8"))})


def worked_example() -> str:
    """The bias file that the documents show."""
    return _yaml_in(ROOT / "docs" / "how-to" / "your-bias.md")


def prompt_example() -> str:
    """The prompt file that the README of prompts shows."""
    return _yaml_in(ROOT / "cda" / "prompts" / "README.md")


def _yaml_in(path: Path) -> str:
    """The first YAML file that a document shows."""
    shown = re.findall(r"^```yaml\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(shown[0])


def write_user_files(folder: Path) -> None:
    """What the documents take the reader to have: pairs, contrasts, votes, triples, scores, queries, a bias file, a release."""
    release = make_release(folder / "Preference-Model-Biases")
    assert paper_release([str(release), str(folder / "paper-files")]) == 0
    sides = {"chosen": "Light scatters.", "rejected": "It is."}
    pair = {"prompt": "Why is the sky blue?"} | sides
    contrast = {"id": "a", "prompt": "Why?", "base": "So.", "perturbed": "Henceforth thus.", "preferred": "base"}
    ids = [f"r{number}" for number in range(24)]
    triple = {
        "prompt": "Why?",
        "original": "So.",
        "rewrite": "Thus.",
        "rewrite_of_rewrite": "So!",
        "has_attribute": "no",
    }
    taught = [
        {"bias": "jargon", "prompt": f"Why {row}?", "base": "So.", "perturbed": "Henceforth thus."} for row in range(8)
    ]
    _write(folder / "paper-files" / "counterfactuals.jsonl", taught)
    _write(folder / "my_pairs.jsonl", [pair])
    _write(folder / "their_pairs.jsonl", [{"question": "Why is the sky blue?"} | sides])
    sources = [{"prompt": f"Why {one}?", "source": ("web", "forum")[at % 2]} | sides for at, one in enumerate(ids)]
    _write(folder / "my_preferences.jsonl", sources)
    weighted = [row | {"weight": str(1 + at % 2)} for at, row in enumerate(sources)]
    for name in ("rows", "kept"):
        _write(folder / f"{name}.jsonl", weighted)
    _write(folder / "my_labels.jsonl", [{"chosen_list": "yes", "rejected_list": "no"} for _ in ids])
    _write(folder / "my_heldout.jsonl", [pair])
    numbered = [contrast, *(contrast | {"id": one, "prompt": f"Why {one}?"} for one in ids)]
    by = [{"topic": ("home", "music")[row % 2], "year": str(1950 + 2 * row)} for row in range(len(numbered))]
    _write(folder / "my_contrasts.jsonl", [row | own for row, own in zip(numbered, by, strict=True)])
    _write(folder / "my_taught.jsonl", [contrast | {"prompt": "How?"}])
    _write(folder / "my_triples.jsonl", [triple])
    for name, score in (("before", "1.0"), ("after", "-0.5")):
        scored = [row | {"perturbed_score": score, "base_score": "0"} for row in numbered]
        _write(folder / f"{name}.jsonl", scored)
    votes = ["id,vote", "a,base", "a,tie", *(f"{one},base" for one in ids)]
    (folder / "my_votes.csv").write_text("\n".join(votes) + "\n", encoding="utf-8")
    (folder / "worth-noting.yaml").write_text(worked_example(), encoding="utf-8")
    (folder / "my_judge.yaml").write_text(prompt_example(), encoding="utf-8")
    (folder / "recipes").symlink_to(ROOT / "recipes")


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
