"""Parts of documents that are made from the code: `python tests/documents.py` writes them, test_documents.py compares."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import command_reference
import measured_times
import result_reference
from model_memory import memory_table, table

ROOT = Path(__file__).parent.parent
NOTICES = ROOT / "THIRD_PARTY_NOTICES.md"
READING = ROOT / "cda" / "report" / "README.md"
RECIPES = ROOT / "recipes" / "README.md"
DISCOVER = ROOT / "cda" / "discovery" / "README.md"
EVALS = ROOT / "evals" / "README.md"
MODELS = ROOT / "docs" / "how-to" / "your-model.md"
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
GROWTH = ROOT / "docs" / "reference" / "growth.md"
_MARK = "<!-- {} -->\n(.*?)<!-- end of {} -->"


def made_parts() -> dict[tuple[Path, str], str]:
    """Document and name of each part to its text as the code makes it."""
    return {
        (NOTICES, "dependencies"): dependencies(),
        (READING, "glossary"): glossary_text(),
        (RECIPES, "memory"): memory_table(),
        (RECIPES, "times"): measured_times.cpu_times(),
        (GROWTH, "growth"): measured_times.growth(),
        (RECIPES, "gpu training"): measured_times.gpu_training(),
        (RECIPES, "gpu presets"): measured_times.gpu_presets(),
        (RECIPES, "gpu scoring"): measured_times.gpu_scoring(),
        (README, "first command"): measured_times.printed("train jargon train.seeds=3"),
        (TUTORIAL, "audit"): measured_times.printed("audit embedded --bias jargon --bias length"),
        (TUTORIAL, "train"): measured_times.printed("train jargon"),
        (DISCOVER, "recall"): recall_text(),
        (DISCOVER, "loop"): loop_text(),
        (EVALS, "real debias"): real_debias_table(),
        (EVALS, "results"): results_table(),
        (EVALS, "attempts"): attempts_text(),
        (MODELS, "published models"): published_models_table(),
    }


def part(document: Path, name: str) -> str:
    """What stands in a document between the two marks of this name."""
    found = re.search(_MARK.format(name, name), document.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, f"{document}: no part {name}"
    return found[1]


def dependencies() -> str:
    """Every direct dependency with the licence that its own metadata state, by what it is needed for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"running": project["dependencies"], **project["optional-dependencies"]}
    rows = []
    for group, requirements in groups.items():
        names = sorted(re.split(r"[\[<>=!~ ]", requirement)[0] for requirement in requirements)
        rows += [(group, name, licence(name)) for name in names if name != "cda-debias"]
    return table("needed for | package | licence", rows)


def licence(package: str) -> str:
    """As its metadata state it: an SPDX expression, else classifiers, else the first line of free text."""
    found = metadata(package)
    classified = [
        classifier.rpartition(" :: ")[2]
        for classifier in found.get_all("Classifier") or ()
        if classifier.startswith("License")
    ]
    stated = found.get("License-Expression") or "; ".join(name for name in classified if name != "OSI Approved")
    return stated or (found.get("License") or "not stated").strip().splitlines()[0]


def glossary_text() -> str:
    """Every entry of the reports' glossary, by heading."""
    from cda.auditing.report import every_entry

    parts = []
    for heading, entries in every_entry().items():
        rows = [map(_cell, (entry.term, entry.formula, entry.meaning)) for entry in entries.values()]
        parts.append(f"### {heading}\n\n{table('number | formula | meaning', rows)}")
    return "\n".join(parts)


def results_table() -> str:
    """Every eval's claim and its outcome, thresholds that were missed in words, from its result file."""
    rows = []
    for path in sorted((ROOT / "evals" / "results").glob("*.json")):
        found = _result(path.stem)
        claim = " ".join(found["claim"].removeprefix("Claim: ").split("\n\n")[0].split())
        name = f"[`{path.stem}`](results/{path.name})"
        # What has changed in the code since, where a result was not measured anew.
        since = f". {_cell(found['since'])}" if "since" in found else ""
        rows.append((name, _cell(claim), _met(found) + since, found["date"]))
    return table("eval | claim | thresholds | date", rows)


def _result(name: str) -> Any:
    return json.loads((ROOT / "evals" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def _met(found: Any) -> str:
    missed = [check for check in found.get("checks", ()) if not check["passed"]]
    if found["passed"]:
        return _by_source(found) or (f"all {len(found['checks'])} met" if found.get("checks") else "met")
    said = _cell("; ".join(f"{check.get('threshold') or check['name']}: {check['found']}" for check in missed))
    return f"**{len(missed)} of {len(found['checks'])} missed**: {said}"


def _by_source(found: Any) -> str:
    """Numbers that were compared with printed ones and others, each kind by itself; empty for results of another kind."""
    sources = found.get("by_source", {}).items()
    counts = [f"{source['equal']} of {source['compared']} from the {name}" for name, source in sources]
    return f"equal: {', '.join(counts)}" if counts else ""


def attempts_text() -> str:
    """Attempts to break a run or to make it return a wrong number, by kind, from the result file."""
    kinds = _result("faults")["numbers"]["by_kind"].items()
    return table(
        "kind of attempt | survived / tried", ((kind, "{survived} / {tried}".format(**row)) for kind, row in kinds)
    )


def published_models_table() -> str:
    """How published reward models are scored by their authors and by cda, and what the eval found, from the families and its result."""
    from cda.models.families import FAMILIES

    families = {family.key: family for family in FAMILIES}
    rows = []
    for row in _result("reward_models")["numbers"]["rows"]:
        names = ", ".join(row["models"]) or f"any: {row['title']}"
        if row["status"] == "refused":
            rows.append((names, row["official"], "refused", f"refused: {row['reason'].split('. ')[0]}"))
            continue
        family = families.get(row["family"])
        read = row["reading"].split(",")[0] if family is None else _how_read(family)
        found = [row[place] for place in ("alone", "padded", "packed") if row[place] is not None]
        checked = f"{row['status']}: off by {max(found):.0e} at most"
        checked += "" if row["packed"] is not None else ", not packed"
        rows.append((names, row["official"], f"{read}; {_form(row['reading'])}", checked))
    cells = ([_cell(cell) for cell in row] for row in rows)
    return table("model | as its authors score it | how cda reads it | tiny copy in the eval", cells)


def _form(reading: str) -> str:
    return {"pair": "pair of texts"}.get(form := reading.split(", ")[1], form)


def _how_read(family: Any) -> str:
    """A family's declaration in a few words: its key, the token that is read, and what is special in its texts."""
    places = {"config": "last token but padding", "last_token": "last token", "last_attended": "last token"}
    special = {
        "two BOS": family.doubles_bos,
        "BOS added": family.adds_bos,
        "an empty system turn": family.system == "",
        "the beginning cut": family.cuts_left,
        "an end token asked for": family.last is not None,
    }
    read = "tokens that its head chooses" if family.points else places[family.reads]
    read = "place of an answer's first token" if any("decoder" in name for name in family.names) else read
    read = "its own code" if family.runs_code else read
    if family.encoding is not None and family.encoding.compares is not None:
        read = f"two answers compared in both orders at the {read}"
    return ", ".join([f"family `{family.key}`", read, *(words for words, there in special.items() if there)])


def loop_text() -> str:
    """What a search of the embedded model confirmed, and what training against the strongest did, from the result file."""
    found = _result("discover_loop")
    numbers = found["numbers"]
    tested = numbers["tested"]
    rows = []
    for row in tested:
        p = "< 0.001" if row["p_corrected"] < 0.001 else f"{row['p_corrected']:.3f}"
        confirmed = "yes" if row["confirmed"] else "no"
        rows.append((_cell(row["attribute"]), _reward(row["reward"]), _interval(row["judge"]), p, confirmed))
    before, after = (_reward(numbers["measured"][when]["reward"]) for when in ("before", "after"))
    change = numbers["change_of_quality_held_out"]
    points = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * change[key] for key in ("value", "low", "high")))
    asked = "That is what was asked for." if found["passed"] else f"{_met(found)}."
    return f"""\
The run of {found["date"]} took {numbers["seconds_to_discover"] / 60:.1f} minutes to find and test {len(tested)} attributes \
on {numbers["test_prompts"]} prompts, and confirmed {sum(row["confirmed"] for row in tested)}:

{table("attribute | reward | judge prefers it | p, corrected | confirmed", rows)}
Training against the first, which was the strongest on the validation prompts, took its reward on these prompts from {before} to \
{after} at the dose chosen, {numbers["dose"]["chosen"]:g}, with quality at {points.replace("-", "−")} points (n = {change["n"]}, held out). \
{asked}
"""


def _reward(estimate: Any) -> str:
    return "{:+.2f} [{:.2f}, {:.2f}]".format(*(estimate[key] for key in ("value", "low", "high"))).replace("-", "−")


def recall_text() -> str:
    """What a search without an LLM finds of what was planted, condition by condition, from the result file."""
    rows = []
    for name, cell in _result("discover_recall")["numbers"]["cells"].items():
        recall = "" if name in ("null", "judge does not care", "model does not care") else _interval(cell["recall"])
        rows.append((name, recall, cell["n"], _interval(cell["anything_confirmed"])))
    return table("planted in a reward model | found and confirmed | n | anything confirmed", rows)


def real_debias_table() -> str:
    """Each way on the real model, mean over seeds: gaps, change of accuracy, doses."""
    ways = _result("real_debias")["numbers"]["ways"]
    named = {
        "ours": "moved to people’s shares, the rest kept (`ours`)",
        "ours, dose": "the same at a dose chosen by votes",
        "paper": "plain CDA: the paper's pairs (`paper`)",
        "half": "mean of the weights of base model and plain CDA (`half`)",
        "mixing": "counterfactuals mixed with ordinary pairs (`mixing`)",
        "features": "measured features taken off, no training (`features`)",
        "direction": "directions of hidden states projected out, no training (`direction`)",
        "lowess": "a curve of length taken off, no training (`lowess`)",
    }

    def gap(found: Any, side: str) -> str:
        spread = f" ± {100 * sd:.0f}" if (sd := found["sd"][side]) is not None else ""
        change = f" ({100 * found['change']['value']:+.0f})".replace("-", "−") if side == "after" else ""
        return f"{100 * found[side]['value']:.0f}{spread}{change}"

    def cells(found: Any, side: str) -> list[str]:
        gaps = [found["taught_gap"], *(found["biases"][bias]["gap"] for bias in ("jargon", "length", "structure"))]
        return [", ".join(map(str, found["seeds"])), *(gap(each, side) for each in gaps)]

    rows = [["no training", *cells(ways["ours"], "before"), "", ""]]
    for way, words in named.items():
        found = ways[way]
        doses = (
            ", ".join("/".join(format(dose, "g") for dose in both) for both in found["chosen"])
            if way == "ours, dose"
            else ""
        )
        rows.append([words, *cells(found, "after"), _points(found["accuracy"]["change"]), doses])
    heading = "way | seeds | mean gap of jargon and length | jargon | length | structure | accuracy | doses chosen by either half"
    return table(heading, rows)


def _points(change: Any) -> str:
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * change[key] for key in ("value", "low", "high"))).replace(
        "-", "−"
    )


def _interval(share: Any) -> str:
    return f"{share['value']:.0%} [{100 * share['low']:.0f}, {100 * share['high']:.0f}]"


def _cell(text: str) -> str:
    """Text that stays in its cell and as it is: bars, stars and angle brackets mean something in Markdown."""
    return re.sub(r"([|*<>])", r"\\\1", text)


def write() -> None:
    """Bring every document up to date, and name those that changed."""
    made = {**result_reference.files(), **command_reference.files()}
    for (document, name), own in made_parts().items():
        text = made.get(document) or document.read_text(encoding="utf-8")
        made[document] = text.replace(f"<!-- {name} -->\n{part(document, name)}", f"<!-- {name} -->\n{own}")
    for file, text in made.items():
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(ROOT)} written")


if __name__ == "__main__":
    write()
