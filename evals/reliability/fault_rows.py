"""Attempts to make `cda` take one text for several, to let the order of rows decide, or to read tables wrongly.

Texts in several spellings, rows that disagree, votes that count several times, messages and separators of tables, and texts
that are the same token ids to a model. Each attack was survived by no version before texts had one identity.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cda.data.contrasts import clean_contrasts, load_votes
from cda.data.load import load_rows
from cda.data.pairs import clean_pairs, split_by_prompt
from cda.data.triples import clean_triples
from cda.errors import DataError
from cda.records import Contrast, Pair, prompt_id, user_prompt
from cda.scorers.compared import Comparison
from evals.reliability.fault_runs import Attempt

QUESTIONS = [f"Où est le café numéro {number} ?\nRéponds en français." for number in range(12)]
SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: f"{text} ",
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.replace("é", "e\u0301").replace("ù", "u\u0300"),
)
CONTRAST = {"prompt": "Why?", "base": "Because.", "perturbed": "Owing to the causal substrate."}
TRIPLE = {"prompt": "Why?", "original": "Because.", "rewrite": "Owing to causes.", "rewrite_of_rewrite": "As it is so."}
MESSAGES = [{"role": "user", "content": "What is a violin?"}]


def _in_spellings() -> Iterator[tuple[int, str]]:
    return ((number, spell(text)) for number, text in enumerate(QUESTIONS) for spell in SPELLINGS)


def _contrasts(rows: Sequence[dict[str, Any]], *opinions: Any) -> tuple[Contrast, ...]:
    return clean_contrasts(rows, ["jargon"], {}, "contrasts.jsonl", *opinions).contrasts


def _refused(attack: Callable[[], object], *named: str) -> str | None:
    """What went wrong, where an attack is to end in an error that names something."""
    try:
        found = attack()
    except DataError as error:
        return None if all(one in str(error) for one in named) else f"does not name {', '.join(named)}: {error}"
    return f"accepted: {found!r:.200}"


def clusters(_: Path) -> str | None:
    found = {prompt_id(user_prompt(text)) for _, text in _in_spellings()}
    return None if len(found) == len(QUESTIONS) else f"12 questions in four spellings are {len(found)} clusters"


def contamination(_: Path) -> str | None:
    from cda.counterfactuals.pairs import teachable

    audited = {prompt_id(user_prompt(text)) for text in QUESTIONS}
    rows = [Contrast("jargon", user_prompt(text), "a", "b") for _, text in _in_spellings()]
    kept = len(teachable(rows, audited)[0])
    return f"{kept} of {len(rows)} audited prompts are taught" if kept else None


def split(_: Path) -> str | None:
    texts = list(_in_spellings())
    held = split_by_prompt([Pair(user_prompt(text), "a", "b") for _, text in texts], 0.5, np.random.default_rng(0))
    sides = {(number, one) for (number, _), one in zip(texts, held, strict=True)}
    return None if len(sides) == len(QUESTIONS) else "a question is in the training and in the validation part"


def duplicates(_: Path) -> str | None:
    rows = [{"prompt": spell("Où ?\nIci."), "chosen": "là", "rejected": spell("été")} for spell in SPELLINGS]
    found = len(clean_pairs(rows).pairs)
    return None if found == 1 else f"one pair in four spellings is {found} pairs"


def stored_otherwise(_: Path) -> str | None:
    """Votes on an export that a spreadsheet saved with other line ends."""
    (one,) = _contrasts([CONTRAST | {"base": "Yes.\nIt is."}])
    (found,) = _contrasts([CONTRAST | {"base": "Yes.\r\nIt is. "}], {one.id: ["base"]})
    return None if found.votes == ("base",) else "votes are lost where a file was saved with other line ends"


def annotators(_: Path) -> str | None:
    rows = [CONTRAST | {"preferred": word} for word in ("base", "perturbed", "perturbed")]
    for order in (rows, rows[::-1]):
        (found,) = _contrasts(order)
        if sorted(found.votes) != ["base", "perturbed", "perturbed"] or found.preferred is not None:
            return f"three annotators: votes {found.votes}, preferred {found.preferred}"
    return None


def thrice(folder: Path) -> str | None:
    """Rows without an id, given three times, through study export, import and audit."""
    from cda.results.study import Rules
    from cda.studies.export import ExportOptions, export_study
    from cda.studies.import_answers import import_study

    rows = 3 * [CONTRAST | {"bias": "jargon", "prompt": f"Why {at}?"} for at in range(3)]
    path, study = folder / "contrasts.jsonl", folder / "study"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    export_study(str(path), study, ExportOptions(judgements=2))
    with (study / "items.csv").open(encoding="utf-8-sig", newline="") as file:
        items = [{**row, "choice": "A"} for row in csv.DictReader(file)]
    with (folder / "filled.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, items[0], delimiter=";")
        writer.writeheader()
        writer.writerows(items)
    import_study(study, [folder / "filled.csv"], None, Rules())
    votes = load_votes(str(study / "votes.jsonl"))
    found = [(len(one.votes), len(one.verdicts)) for one in _contrasts(load_rows(str(path)), votes, votes)]
    return None if found == [(2, 2)] * 3 else f"two votes and verdicts on each of three contrasts became {found}"


def sides(_: Path) -> str | None:
    swapped = CONTRAST | {"base": CONTRAST["perturbed"], "perturbed": CONTRAST["base"] + "\n"}
    return _refused(lambda: _contrasts([CONTRAST, swapped]), "rows 1, 2", "swapped")


def attribute(_: Path) -> str | None:
    rows = [TRIPLE | {"has_attribute": word, "prompt": text} for word, text in (("yes", "Why?"), ("no", "Why? "))]
    return _refused(lambda: clean_triples(rows, ["jargon"], {}, "t.jsonl").triples, "rows 1, 2")


def second_id(_: Path) -> str | None:
    rows = [CONTRAST | {"id": "a"}, CONTRAST | {"id": "b"}]
    (found,) = _contrasts(rows, {"a": ["base"], "b": ["perturbed", "tie"]})
    known = {"a", "b"} <= set(getattr(found, "ids", (found.tags.get("item"),)))
    return None if len(found.votes) == 3 and known else f"votes {found.votes}; matched by {found.tags}"


def one_vote_each(folder: Path) -> str | None:
    path = folder / "votes.csv"
    path.write_text("id,vote,participant\nc1,base,p1\nc1,base,p1\nc1,perturbed,p2\nc1,base,p2\n", encoding="utf-8")
    return _refused(lambda: load_votes(str(path)), "row 2: p1", "row 4: p2")


def preferences(_: Path) -> str | None:
    """Rows on one pair that disagree, in preference data."""
    one, other = {"prompt": "q", "chosen": "a", "rejected": "b"}, {"prompt": "q", "chosen": "b", "rejected": "a"}
    found = [[pair.chosen for pair in clean_pairs(rows).pairs] for rows in ([one, other, one], [other, one, one])]
    return None if found == [["a"], ["a"]] else f"two rows for a and one for b teach {found}"


def messages(folder: Path) -> str | None:
    for text in (json.dumps(MESSAGES), repr(MESSAGES)):
        with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("prompt", "chosen", "rejected"), *[(text, f"a {at}", "b") for at in range(8)]])
        read = clean_pairs(load_rows(str(folder / "pairs.csv"))).pairs
        if len(read) != 8 or any(one.prompt != user_prompt("What is a violin?") for one in read):
            return f"messages as text are read as prose: {read[0].prompt[0].content[:60]}"
    return None


def cut_messages(folder: Path) -> str | None:
    """A spreadsheet cuts cells at 32,767 characters."""
    path = folder / "pairs.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("prompt", "chosen", "rejected"), (json.dumps(MESSAGES)[:-8], "a", "b")])
    return _refused(lambda: clean_pairs(load_rows(str(path))).pairs, "pairs.csv:2", "'prompt'")


def separators(folder: Path) -> str | None:
    tables = {"a.csv": "prompt;chosen;rejected\n\"q, r\";a;b\n", "b.csv": "sep=;\nprompt;chosen;rejected\nq, r;a;b\n",
              "c.tsv": "prompt\tchosen\trejected\nq, r\ta\tb\n"}  # fmt: skip
    for name, text in tables.items():
        (folder / name).write_text(text, encoding="utf-8")
        try:
            rows = load_rows(str(folder / name))
        except DataError as error:
            return str(error)
        if rows != [{"prompt": "q, r", "chosen": "a", "rejected": "b"}]:
            return f"{name}: read as {rows}"
    return None


def double_spaces(_: Path) -> str | None:
    """60 pairs that differ in double spaces alone, in 8-bit: the same token ids, in other batches."""
    from cda.embedded.model import embedded_model_folder
    from cda.models.config import ModelSpec
    from cda.models.load import load_reward_model
    from cda.scorers.classifier import ClassifierScorer
    from cda.scorers.engine import score_texts

    words = [
        "the",
        "kettle",
        "boils",
        "water",
        "while",
        "steam",
        "rises",
        "past",
        "a",
        "cold",
        "window",
        "and",
        "nobody",
        "minds",
        "how",
        "long",
        "it",
        "takes",
    ]
    comparisons: list[Comparison] = []
    for at in range(60):
        text = " ".join(words[(at * 7 + step * 5) % len(words)] for step in range(20 + 3 * at))
        comparisons.append((user_prompt(f"Tell me about number {at}."), text.replace(" ", "  ", 1 + at), text))
    model = load_reward_model(ModelSpec(str(embedded_model_folder()), "8bit"))
    texts = [(prompt, text) for prompt, *both in comparisons for text in both]
    margins = score_texts(ClassifierScorer(model, 300), texts).margins(comparisons)
    if not np.any(margins):
        return None
    return f"{np.count_nonzero(margins)} of 60 pairs get a preference, {np.abs(margins).max():.2g} reward units at most"


ATTEMPTS: tuple[Attempt, ...] = (
    Attempt("wrong numbers", "12 questions in four spellings are 12 clusters", clusters),
    Attempt("wrong numbers", "audited prompts in other spellings are not taught", contamination),
    Attempt("wrong numbers", "spellings of a question stay on one side of the split", split),
    Attempt("wrong numbers", "one pair in four spellings is one pair", duplicates),
    Attempt("wrong numbers", "votes find a contrast that was saved with other line ends", stored_otherwise),
    Attempt("wrong numbers", "a row an annotator is a vote an annotator, in any order", annotators),
    Attempt("wrong numbers", "rows without id given three times keep their number of votes", thrice),
    Attempt("wrong numbers", "the same pair with both sides perturbed is refused", sides),
    Attempt("wrong numbers", "the same triple with the attribute and without it is refused", attribute),
    Attempt("wrong numbers", "votes under the second id of a duplicate count and match", second_id),
    Attempt("wrong numbers", "a participant votes on an item once", one_vote_each),
    Attempt("wrong numbers", "preference rows that disagree are outvoted, not ordered", preferences),
    Attempt("wrong numbers", "messages that a table holds as text are messages", messages),
    Attempt("wrong numbers", "messages that were cut are refused with their column", cut_messages),
    Attempt("wrong numbers", "semicolons and tabs stand between cells as commas do", separators),
    Attempt("wrong numbers", "texts that are the same token ids are a tie in 8-bit", double_spaces),
)  # fmt: skip
