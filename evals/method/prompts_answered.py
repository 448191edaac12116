"""Claim: a capable language model that sees a prompt and nothing else does what our prompts for labels, rewrites, verdicts,
proposals and groupings ask of it, and its answers are read.

The product's own code asks, through the real client, a local server that gives the answers kept in `answers/prompts.jsonl`:
for each of the five biases 20 labels of pairs, 20 additions and 20 removals, then the gate's labelling question about each
rewrite, which a second reader answers who has not written it; 20 quality pairs in both orders; 10 proposals; 10 groupings.

Thresholds: 98% of the labels, readings and verdicts read at the first answer; 90% of the labels of sides agree with the
authors; 90% of the rewrites pass the gate at the first try, and 95% of those that were read have flipped by the reader, who
is never the writer; 90% of the quality pairs judged right (a tie is not); each proposal gives a usable attribute, and 80% of
the attributes asked for are usable; each grouping read, 80% of the paraphrases put together and 95% of the rest kept apart.

    python -m evals.method.prompts_answered                        replay (a quarter of a minute)
    python -m evals.method.prompts_answered --ask FOLDER           the questions that have no answer yet: FOLDER/questions.jsonl, and
                                                            FOLDER/sheets/KIND-NN.jsonl in random order for those who answer
    python -m evals.method.prompts_answered --take FOLDER --by NAME    FOLDER/answers/*.jsonl (rows of `id` and `answer`, the reply word
                                                            for word) into answers/prompts.jsonl, as answered by NAME
                                                            (a row's own `by` comes before it)

Ask, have the sheets answered, take; then ask again: the readings of the new rewrites are open, for somebody else to answer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cda.embedded.texts import EMBEDDED_BIASES
from cda.errors import CdaError, DataError
from cda.files.jsonl import read_jsonl, write_jsonl
from cda.records import Prompt, content_id
from cda.results.base import Estimate
from cda.stats.estimators import share_of
from evals.method.answer_server import AnswerServer
from evals.method.asked_prompts import KINDS, SEED, Answered, Grouped, K, Labelled, Rewritten, ask_all, prompt_ids
from evals.shared import ROOT, Check, finish

KEPT = ROOT / "evals" / "answers" / "prompts.jsonl"
SHEET = 20
READ, LABELS, GATE, FLIPPED, JUDGED, USABLE, TOGETHER, APART = 0.98, 0.9, 0.9, 0.95, 0.9, 0.8, 0.8, 0.95
_ANSWER_KEYS = frozenset({"id", "answer", "by"})
_MATERIAL = re.compile(r"<<<(?:USER )?MESSAGE>>>\n(.*?)\n<<<END>>>", re.DOTALL)
# Words by which an attribute names what the rewards of its prompt count.
_NAMED = {
    "length": r"long|length|word|brief|short|concise|extended|detail|expan",
    "structure": r"list|bullet|number|enumerat|steps?\b|itemi",
    "jargon": r"jargon|technical|formal|specialist|latinate|academic|vocabulary|terminolog|long words|polysyllab|register",
    "sycophancy": r"prais|flatter|compliment|admir|affirm|validat|encourag|warm|enthusias",
    "vagueness": r"vague|hedg|tentativ|may\b|might|uncertain|noncommittal|qualif|approximat|soften|loose|possib|conditional",
}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """A kept answer: what kind of question it answers, who answered, and what."""

    kind: str
    by: str
    text: str


def kept_answers(path: Path = KEPT) -> dict[str, Answer]:
    """Answers by question id; none where there is no file.

    Raises:
        DataError: A row lacks a field, or an id stands twice.
    """
    found: dict[str, Answer] = {}
    for number, row in enumerate(read_jsonl(path) if path.is_file() else (), 1):
        lacking = [name for name in ("id", "kind", "by", "answer") if not isinstance(row.get(name), str)]
        if lacking:
            raise DataError(f"{path.name}: row {number} has no {lacking[0]}")
        if row["id"] in found:
            raise DataError(f"{path.name}: row {number} answers {row['id']} again; leave one of them")
        found[row["id"]] = Answer(row["kind"], row["by"], row["answer"])
    return found


def asked(answers: Mapping[str, Answer], limit: int | None = None) -> tuple[Answered, AnswerServer]:
    """What came of asking everything, and the server, which knows what is open."""
    with AnswerServer({name: one.text for name, one in answers.items()}) as server:
        return ask_all(server, limit), server


def write_questions(questions: Sequence[Json], folder: Path) -> dict[str, list[int]]:
    """Write the questions and their sheets; number of rows of each sheet, by kind.

    Raises:
        DataError: The folder has sheets already, to which answers may be under way.
    """
    if any((folder / "sheets").glob("*.jsonl")):
        raise DataError(f"{folder / 'sheets'} holds sheets already; take their answers and name a new folder")
    (folder / "sheets").mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / "questions.jsonl", sorted(questions, key=lambda one: (KINDS.index(one["kind"]), one["id"])))
    sizes: dict[str, list[int]] = {}
    for kind in KINDS:
        rows = [one for one in questions if one["kind"] == kind]
        for number, sheet in enumerate(dealt(rows), 1):
            write_jsonl(folder / "sheets" / f"{kind}-{number:02}.jsonl", sheet)
            sizes.setdefault(kind, []).append(len(sheet))
    return sizes


def dealt(rows: Sequence[Json]) -> list[list[Json]]:
    """Sheets of at most 20 in random order; questions with the same material go to different sheets."""
    n_sheets = -(-len(rows) // SHEET)
    ordered = sorted(rows, key=lambda row: (content_id(SEED, _material(row)), row["id"]))
    sheets = [ordered[start::n_sheets] for start in range(n_sheets)]
    return [sorted(sheet, key=lambda row: content_id(SEED, "order", row["id"])) for sheet in sheets]


def _material(row: Json) -> str:
    """What the user of the chat had said, in either notation."""
    user = row["messages"][1]["content"]
    found = _MATERIAL.search(user)
    return found[1] if found else str(user)


def take(folder: Path, by: str | None, path: Path = KEPT) -> Counter[str]:
    """Add a folder's answers to the kept ones; how many were added, by kind.

    Raises:
        DataError: Rows that answer no question of the folder, twice, differently from what is kept, or with nothing; or
            nobody is named. Nothing is taken then.
    """
    kinds = {row["id"]: row["kind"] for row in read_jsonl(folder / "questions.jsonl")}
    kept, new, problems = kept_answers(path), dict[str, Answer](), list[str]()
    files = sorted((folder / "answers").glob("*.jsonl"))
    if not files:
        raise DataError(f"{folder / 'answers'}: no .jsonl file with answers")
    for file in files:
        for number, row in enumerate(read_jsonl(file), 1):
            where = f"answers/{file.name}: row {number}"
            if problem := _trouble(row, kinds, new):
                problems.append(f"{where}: {problem}")
                continue
            answer = Answer(kinds[row["id"]], row.get("by") or by or "", row["answer"])
            if not answer.by:
                problems.append(f"{where}: nobody is named who answered; add --by NAME")
            elif row["id"] in kept and kept[row["id"]] != answer:
                problems.append(f"{where}: {row['id']} has another answer already; take it out of {path.name} first")
            else:
                new[row["id"]] = answer
    if problems:
        more = f"\nand {len(problems) - 20} more" if len(problems) > 20 else ""
        raise DataError("\n".join(problems[:20]) + more)
    added = {name: one for name, one in new.items() if name not in kept}
    everything = sorted((kept | added).items(), key=lambda one: (KINDS.index(one[1].kind), one[0]))
    write_jsonl(path, ({"id": name, "kind": a.kind, "by": a.by, "answer": a.text} for name, a in everything))
    return Counter(one.kind for one in added.values())


def _trouble(row: Json, kinds: Mapping[str, str], seen: Mapping[str, Answer]) -> str | None:
    """What is wrong with a row of answers."""
    if row.get("id") not in kinds:
        return f"{row.get('id')!r} is the id of no question in questions.jsonl"
    if unknown := sorted(set(row) - _ANSWER_KEYS):
        return f"{', '.join(unknown)}: unknown; a row has id and answer"
    if not isinstance(row.get("answer"), str) or not row["answer"].strip():
        return "no answer; give the reply's text (JSON too is given as a text)"
    return f"{row['id']} is answered a second time" if row["id"] in seen else None


@dataclass(frozen=True, slots=True)
class Cell:
    """A share with its interval by what it belongs to."""

    name: str
    hits: list[bool]
    prompts: list[Prompt]

    @property
    def estimate(self) -> Estimate | None:
        return share_of(self.hits, prompt_ids(self.prompts)) if self.hits else None

    def __str__(self) -> str:
        found = self.estimate
        if found is None:
            return "n = 0"
        return f"{sum(self.hits)} of {found.n}, {found.value:.1%} [{found.low:.1%}, {found.high:.1%}]"

    def to_json(self) -> Json:
        found = self.estimate
        return {"hits": sum(self.hits), "n": len(self.hits)} | (
            {"value": found.value, "low": found.low, "high": found.high, "n_prompts": found.n_prompts} if found else {}
        )

    def meets(self, least: float) -> bool:
        return bool(self.hits) and sum(self.hits) >= least * len(self.hits)


def label_cells(rows: Sequence[Labelled]) -> dict[str, Cell]:
    """Labels of sides that agree with the authors, of those read: all, and by bias and direction."""
    read = [row for row in rows if row.label is not None]
    return {
        name: Cell(name, [row.label == row.has_bias for row in own], [row.prompt for row in own])
        for name, own in _by_cell(read)
    }


def rewrite_cells(rows: Sequence[Rewritten], what: str) -> dict[str, Cell]:
    """Rewrites for which something holds: `gate`, or of those for which it is known, `by_measure` or `by_reader`."""
    known = [row for row in rows if what == "gate" or getattr(row, what) is not None]
    return {
        name: Cell(
            name,
            [row.gate is None if what == "gate" else bool(getattr(row, what)) for row in own],
            [row.request.prompt for row in own],
        )
        for name, own in _by_cell(known)
    }


def _by_cell(rows: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    yield "all", list(rows)
    for bias, direction in itertools.product(EMBEDDED_BIASES, ("add", "remove")):
        yield f"{bias}, {direction}", [row for row in rows if (row.bias, row.direction) == (bias, direction)]


def pairs_of(groupings: Sequence[Grouped]) -> tuple[list[bool], list[bool]]:
    """Of the paraphrases whether they were put together, and of all other pairs whether they were kept apart."""
    together, apart = [], []
    for one in groupings:
        known, found = (
            {place: number for number, group in enumerate(groups) for place in group}
            for groups in (one.known, one.found)
        )
        for first, second in itertools.combinations(sorted(known), 2):
            same = found[first] == found[second]
            if known[first] == known[second]:
                together.append(same)
            else:
                apart.append(not same)
    return together, apart


def read_by_writer(rewrites: Sequence[Rewritten], answers: Mapping[str, Answer]) -> list[str]:
    """Rewrites whose reading was answered by whoever wrote them."""
    return [
        row.item for row in rewrites if len(row.ids) == 2 and len({answers[name].by for name in row.ids if name in answers}) == 1
        and all(name in answers for name in row.ids)
    ]  # fmt: skip


def failures(found: Answered) -> Json:
    """What failed, by name and question ids."""
    return {
        "labels unread": [[row.item, *row.ids, row.reason] for row in found.labels if row.label is None],
        "labels wrong": [
            [row.item, *row.ids] for row in found.labels if row.label is not None and row.label != row.has_bias
        ],
        "rewrites rejected": [[row.item, *row.ids, row.gate] for row in found.rewrites if row.gate is not None],
        "rewrites not flipped by the reader": [
            [row.item, *row.ids] for row in found.rewrites if row.by_reader is False
        ],
        "rewrites not flipped by the measure": [
            [row.item, *row.ids] for row in found.rewrites if row.by_measure is False
        ],
        "judged wrong or unread": [
            [row.item, *row.ids, row.margin] for row in found.judgements if row.margin is None or row.margin <= 0
        ],
        "proposals without an attribute": [row.item for row in found.proposals if not row.attributes],
        "groupings not as known": [
            [row.item, *row.ids, row.found] for row in found.groupings if not row.read or row.found != row.known
        ],
    }


def checks_of(found: Answered, server: AnswerServer, answers: Mapping[str, Answer]) -> tuple[list[Check], Json]:
    """Every threshold, and the numbers behind it."""
    open_by_kind = Counter(one["kind"] for one in server.open_questions.values())
    n_asked = Counter(server.asked.values())
    unread = _unread(found)
    labels = label_cells(found.labels)
    gate, by_reader, by_measure = (rewrite_cells(found.rewrites, what) for what in ("gate", "by_reader", "by_measure"))
    margins = [row.margin for row in found.judgements if row.margin is not None]
    judged = Cell(
        "judged", [(row.margin or 0) > 0 for row in found.judgements], [row.prompt for row in found.judgements]
    )
    usable = [len(row.attributes) for row in found.proposals]
    named = sum(
        any(re.search(_NAMED[row.bias], one, re.IGNORECASE) for one in row.attributes) for row in found.proposals
    )
    together, apart = pairs_of(found.groupings)
    own = read_by_writer(found.rewrites, answers)
    n_read = {kind: n_asked[kind] - unread[kind] for kind in ("label", "reading", "judgement")}
    checks = [
        Check("every question has an answer",
              f"{sum(n_asked.values())} asked, {sum(open_by_kind.values())} without an answer"
              + (f" ({_counted(open_by_kind)})" if open_by_kind else ""), bool(n_asked) and not open_by_kind),
        *(Check(f"{READ:.0%} of the {kind}s read", f"{n} of {n_asked[kind]}", n_asked[kind] > 0 and n >= READ * n_asked[kind])
          for kind, n in n_read.items()),
        Check(f"{LABELS:.0%} of the labels of sides agree with the authors", str(labels["all"]), labels["all"].meets(LABELS)),
        Check(f"{GATE:.0%} of the rewrites pass the gate at the first try", str(gate["all"]), gate["all"].meets(GATE)),
        Check(f"{FLIPPED:.0%} of the rewrites that were read have flipped", str(by_reader["all"]), by_reader["all"].meets(FLIPPED)),
        Check("no rewrite was read by its writer", f"{len(own)} were", not own and bool(by_reader["all"].hits)),
        Check(f"{JUDGED:.0%} of the quality pairs judged right", str(judged), judged.meets(JUDGED)),
        Check("each proposal gives a usable attribute", f"{sum(map(bool, usable))} of {len(usable)}", bool(usable) and all(usable)),
        Check(f"{USABLE:.0%} of the attributes asked for are usable", f"{sum(usable)} of {K * len(usable)}",
              sum(usable) >= USABLE * K * len(usable)),
        Check("each grouping read", f"{sum(row.read for row in found.groupings)} of {len(found.groupings)}",
              all(row.read for row in found.groupings)),
        Check(f"{TOGETHER:.0%} of the paraphrases put together", f"{sum(together)} of {len(together)}", np.mean(together) >= TOGETHER),
        Check(f"{APART:.0%} of the other pairs kept apart", f"{sum(apart)} of {len(apart)}", np.mean(apart) >= APART),
    ]  # fmt: skip
    checks = [Check(one.threshold, one.found, bool(one.passed)) for one in checks]
    numbers = {
        "asked": dict(n_asked),
        "without an answer": dict(open_by_kind),
        "first answer not of the schema": sorted(server.asked_again),
        "kept answers that no question asks for": sum(name not in server.asked for name in answers),
        "answered by": dict(sorted(Counter(answers[name].by for name in server.asked if name in answers).items())),
        "read": n_read,
        "labels that agree": {name: cell.to_json() for name, cell in labels.items()},
        "rewrites that pass the gate": {name: cell.to_json() for name, cell in gate.items()},
        "rewrites flipped by the reader": {name: cell.to_json() for name, cell in by_reader.items()},
        "rewrites flipped by the measure": {name: cell.to_json() for name, cell in by_measure.items()},
        "rejected, by reason": {bias: _reasons(found.rewrites, bias) for bias in EMBEDDED_BIASES},
        "quality pairs": judged.to_json()
        | {"wrong": sum(one < 0 for one in margins), "tie or by the order": margins.count(0.0)},
        "attributes": {"usable": usable, "left out": found.proposals_left_out},
        "proposals in which the counted feature is named": [named, len(usable)],
        "groupings": {"together": [sum(together), len(together)], "apart": [sum(apart), len(apart)]},
        "failures": failures(found),
    }
    return checks, numbers


def _unread(found: Answered) -> Counter[str]:
    """Questions without a readable answer, by kind; of a pair judged in two orders at least one, and both counted as unread."""
    unread: Counter[str] = Counter()
    unread["label"] = len({row.ids for row in found.labels if row.label is None})
    unread["reading"] = sum(len(row.ids) == 2 and row.by_reader is None for row in found.rewrites)
    unread["judgement"] = 2 * sum(row.margin is None for row in found.judgements)
    return unread


def _reasons(rewrites: Sequence[Rewritten], bias: str) -> dict[str, int]:
    return dict(sorted(Counter(row.gate for row in rewrites if row.bias == bias and row.gate is not None).items()))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in counts.items())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--ask", type=Path, metavar="FOLDER")
    parser.add_argument("--take", type=Path, metavar="FOLDER")
    parser.add_argument("--by", metavar="NAME", help="with --take: who answered")
    options = parser.parse_args(argv)
    try:
        if options.take:
            print(f"taken: {_counted(take(options.take, options.by)) or 'nothing new'}")
            return 0
        answers = kept_answers()
        found, server = asked(answers)
        if options.ask:
            sizes = write_questions(list(server.open_questions.values()), options.ask)
            print(json.dumps({"open": sum(map(sum, sizes.values())), "sheets": sizes}))
            return 0
    except CdaError as error:
        print(error, file=sys.stderr)
        return 2
    checks, numbers = checks_of(found, server, answers)
    return finish("prompts_answered", (__doc__ or "").split("\n\n")[0], checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
