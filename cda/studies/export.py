"""`cda study export`: contrasts as items that people see, who judges which, and the files for the tool that they judge in."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args
from xml.sax.saxutils import quoteattr

import numpy as np
from pydantic import TypeAdapter, ValidationError

from cda.biases import load_bias
from cda.data.contrasts import clean_contrasts
from cda.data.load import Row, load_rows
from cda.data.tables import check_header, delimiter_of
from cda.data.triples import clean_triples
from cda.errors import DataError, did_you_mean, refuse
from cda.features import words
from cda.files.jsonl import write_json, write_jsonl
from cda.files.paths import user_path
from cda.inert import RISKY, guarded, inert, visible
from cda.jobs.options import ExportOptions
from cda.jobs.perform import Job, Made, NewFolder, perform
from cda.launch import say
from cda.records import Contrast, Exclusions, prompt_id, prompt_text
from cda.report.next_step import after_export
from cda.resources.artifacts import prompt_row, shown_path
from cda.results.commands import Written
from cda.results.study import StudyKind
from cda.run import fingerprint
from cda.stats.draws import drawn

T = TypeVar("T")
Tool = Literal["csv", "labelstudio", "prolific"]
"""Where people judge: any table, Label Studio, or a batch of Prolific's task builder."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """A contrast as people see it: plain text, hidden characters already spelled out; votes are matched by its id."""

    id: str
    bias: str
    prompt_id: str
    prompt: str
    base: str
    perturbed: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with two answers in random order; `id` is `i001`, …, in shuffled order, so that it reveals nothing.

    A contrast has its id, its bias and the index (0 or 1) of the text with the bias; an attention check that of the right text.
    """

    id: str
    prompt: str
    texts: tuple[str, str]
    prompt_id: str
    contrast: str | None = None
    bias: str | None = None
    perturbed: int | None = None
    right: int | None = None

    @property
    def is_check(self) -> bool:
        return self.right is not None


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item as one participant gets it: `a` says which of its texts stands as answer A."""

    item: str
    a: int


@dataclass(frozen=True, slots=True)
class Study:
    """Everything that was decided before the first judgement: items by id, and each participant's, in order, by their code."""

    kind: StudyKind
    judgements: int
    seed: int
    items: Mapping[str, Item]
    participants: Mapping[str, tuple[ShownItem, ...]]

    @property
    def contrasts(self) -> list[Item]:
        """Items other than attention checks."""
        return [item for item in self.items.values() if not item.is_check]

    @property
    def n_checks(self) -> int:
        return len(self.items) - len(self.contrasts)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of texts and assignments, without which text carries the bias: that could be found out by trying."""
        texts = {item.id: [item.prompt, *item.texts] for item in self.items.values()}
        shown = {code: [[task.item, task.a] for task in given] for code, given in self.participants.items()}
        return fingerprint([self.kind, self.judgements, self.seed, texts, shown])


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The work and who does it: `people` participants, at most `quota` items and `checks` checks each."""

    judgements: int
    people: int
    quota: int
    checks: int


CROWD_QUOTA = 40
"""Default number of items of a crowd participant: about half an hour."""
CROWD_CHECKS = 3
_CANDIDATES = 20  # other prompts among which the answer of an attention check is looked for


def planned_study(
    pairings: Sequence[Pairing],
    kind: StudyKind,
    judgements: int,
    quota: int | None,
    people: int | None,
    checks: int | None,
) -> StudyPlan:
    """Fill in missing numbers, and refuse impossible ones with a DataError that says each.

    Experts judge everything and crowd participants 40 items, if `quota` (most items of a participant, besides attention
    checks) and `people` are None; a crowd gets three attention checks each if `checks` is None, experts none.
    """
    least = {"judgements": (judgements, 1), "quota": (quota, 1), "people": (people, 1), "attention": (checks, 0)}
    given = [(f"--{name}", value, low) for name, (value, low) in least.items() if value is not None]
    refuse([f"{name}: at least {low}, found {value}" for name, value, low in given if value < low])
    problems = []
    n, wanted = len(pairings), len(pairings) * judgements
    if quota is None:
        quota = math.ceil(wanted / people) if people else (min(n, CROWD_QUOTA) if kind == "crowd" else n)
    enough = max(judgements, math.ceil(wanted / min(quota, n)))
    n_people = people or enough
    each = checks if checks is not None else (CROWD_CHECKS if kind == "crowd" else 0)
    if n_people < judgements:
        problems.append(f"--people {n_people}: {judgements} judgements by different people need {judgements} or more")
    elif n_people * min(quota, n) < wanted:
        problems.append(
            f"--quota {quota}: {n} items × {judgements} judgements are {wanted}, and {n_people} participants with at most "
            f"{quota} each give {n_people * quota}. Needed: --quota {math.ceil(wanted / n_people)}, or --people {enough}"
        )
    if n_people > wanted:
        problems.append(
            f"--people {n_people}: {wanted} judgements are wanted in all, so that some would have nothing to do"
        )
    n_prompts = len({pairing.prompt_id for pairing in pairings})
    if each and (n_prompts < 2 or each > n_prompts):
        problems.append(
            f"--attention {each}: an attention check puts the answer to another prompt next to a right one, once a prompt; "
            f"{n_prompts} prompts allow {n_prompts if n_prompts > 1 else 0}"
        )
    refuse(problems)
    return StudyPlan(judgements, n_people, quota, each)


def designed(pairings: Sequence[Pairing], kind: StudyKind, plan: StudyPlan, seed: int) -> Study:
    """Draw items, checks, assignments, orders and sides; the same for the same contrasts and seed (0 or more)."""
    if seed < 0:
        raise DataError(f"--seed: at least 0, found {seed}")
    # The texts, sides included, are part of the seed: a number that is easily guessed must not give the key away.
    texts = fingerprint([[pairing.id, pairing.base, pairing.perturbed] for pairing in pairings])
    rng = np.random.default_rng([seed, int(texts, 16)])
    drafts = []
    for pairing in pairings:
        perturbed = int(rng.integers(2))
        sides = (pairing.perturbed, pairing.base) if perturbed == 0 else (pairing.base, pairing.perturbed)
        drafts.append(Item("", pairing.prompt, sides, pairing.prompt_id, pairing.id, pairing.bias, perturbed))
    drafts += _checks(pairings, plan.checks, rng)
    digits = max(3, len(str(len(drafts))))
    numbers = rng.permutation(len(drafts)).tolist()
    items = [replace(draft, id=f"i{at + 1:0{digits}d}") for draft, at in zip(drafts, numbers, strict=True)]
    codes = [f"p{at + 1:0{max(2, len(str(plan.people)))}d}" for at in range(plan.people)]
    given: dict[str, list[ShownItem]] = {code: [] for code in codes}
    prompts: dict[str, Counter[str]] = {code: Counter() for code in codes}
    for item in _shuffled([item for item in items if not item.is_check], rng):
        # Those with the least to do; among them those who know the prompt least; then by lot. Loads differ by 1 at most.
        lots = dict(zip(codes, rng.random(len(codes)).tolist(), strict=True))
        busy = {code: (len(given[code]), prompts[code][item.prompt_id], lots[code]) for code in codes}
        # Either text is A as often as the other, or once more, by lot.
        start = int(rng.integers(2))
        sides_as_a = _shuffled([(start + at) % 2 for at in range(plan.judgements)], rng)
        for code, a in zip(sorted(codes, key=busy.__getitem__), sides_as_a, strict=False):
            given[code].append(ShownItem(item.id, a))
            prompts[code][item.prompt_id] += 1
    _deal_checks([item for item in items if item.is_check], given, prompts, plan.checks, rng)
    seen = {shown.item for mine in given.values() for shown in mine}
    ordered = {code: tuple(_shuffled(mine, rng)) for code, mine in given.items()}
    kept = {item.id: item for item in sorted(items, key=lambda item: item.id) if item.id in seen}
    return Study(kind, plan.judgements, seed, kept, ordered)


def _shuffled(values: Sequence[T], rng: np.random.Generator) -> list[T]:
    return [values[at] for at in rng.permutation(len(values)).tolist()]


def _checks(pairings: Sequence[Pairing], n_each: int, rng: np.random.Generator) -> list[Item]:
    """Attention checks, one for each prompt used: the prompt's own answer against another prompt's."""
    if not n_each:
        return []
    by_prompt: dict[str, list[Pairing]] = {}
    for pairing in pairings:
        by_prompt.setdefault(pairing.prompt_id, []).append(pairing)
    checks = []
    for name in _shuffled(list(by_prompt), rng)[: 4 * n_each]:
        mine = by_prompt[name][int(rng.integers(len(by_prompt[name])))]
        right = mine.base if rng.integers(2) else mine.perturbed
        known = _words(f"{mine.prompt} {right}")
        others = [pairing for pairing in pairings if pairing.prompt_id != name]
        # Prompts may be alike; the answer that shares the fewest words is the one that surely misses the question.
        found = [(_words(other.base), other.base) for other in _shuffled(others, rng)[:_CANDIDATES]]
        _, wrong = min(found, key=lambda answer: len(known & answer[0]) / max(1, len(known | answer[0])))
        at = int(rng.integers(2))
        texts = (right, wrong) if at == 0 else (wrong, right)
        checks.append(Item("", mine.prompt, texts, mine.prompt_id, right=at))
    return checks


def _words(text: str) -> set[str]:
    return set(words(text.lower()))


def _deal_checks(
    checks: Sequence[Item],
    given: Mapping[str, list[ShownItem]],
    prompts: Mapping[str, Counter[str]],
    n_each: int,
    rng: np.random.Generator,
) -> None:
    """Different checks for each participant: of prompts they do not see otherwise, and evenly used."""
    used: Counter[str] = Counter()
    for code, mine in given.items():
        lots = dict(zip([check.id for check in checks], rng.random(len(checks)).tolist(), strict=True))
        order = sorted(checks, key=lambda check: (prompts[code][check.prompt_id], used[check.id], lots[check.id]))
        for check in order[:n_each]:
            mine.append(ShownItem(check.id, int(rng.integers(2))))
            used[check.id] += 1


TITLE = "Which answer is better?"
CHOICES = {"A": "A is better", "B": "B is better", "tie": "No difference"}

_ALL = (
    "You will see a question and two answers to it, A and B. Read both to the end, then say which one is better.",
    "Better means: the one you would rather have given to the person who asked. Is it right? Does it answer what was asked? "
    "Can that person understand it and do something with it? How much each of these counts is for you to judge.",
    "Judge each item by itself. Who or what wrote an answer does not matter, and which of the two stands as A is drawn by lot. "
    "Everything is shown as plain text, just as it was written.",
    "Choose “no difference” where you would not mind which of the two is given, and not where it is hard to decide.",
)
_KIND: dict[StudyKind, str] = {
    "experts": "Check what you would check in your own work. Each item asks for a few words on what decided it.",
    "crowd": "No special knowledge is needed. A reason is welcome, but not needed.",
}
_CHECKS = "In a few items one answer is plainly wrong; they show that items are being read."


def instructions(study: Study) -> tuple[str, ...]:
    """Paragraphs for participants."""
    return (*_ALL, _KIND[study.kind] + (f" {_CHECKS}" if study.n_checks else ""))


_ANSWER = {"csv": ("study", "participant", "item"), "prolific": ("META_study", "META_TASK_GROUP_ID", "META_item")}
TEXTS = ("prompt", "answer_a", "answer_b")
_TO_FILL = {"csv": ("choice", "justification", "seconds"), "prolific": ()}


def unguarded(cell: str) -> str:
    """The cell before `guarded`; a single apostrophe from elsewhere stays.

    >>> unguarded("'=1+1"), unguarded("''s"), unguarded("'tis")
    ('=1+1', "'s", "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*RISKY, "'")) else cell


def sheet(study: Study, tool: Literal["csv", "prolific"] = "csv") -> tuple[str, int]:
    """A table with a row for each judgement that is wanted, in each participant's order; and its number of guarded cells.

    Prolific does not show columns whose name begins with META_, and gives the rows of one META_TASK_GROUP_ID to one person.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow((*_ANSWER[tool], *TEXTS, *_TO_FILL[tool]))
    n_guarded = 0
    for code, given in study.participants.items():
        for shown in given:
            item = study.items[shown.item]
            texts = (item.prompt, item.texts[shown.a], item.texts[1 - shown.a])
            safe = tuple(map(guarded, texts))
            n_guarded += sum(before != after for before, after in zip(texts, safe, strict=True))
            writer.writerow((study.fingerprint, code, item.id, *safe, *("" for _ in _TO_FILL[tool])))
    return out.getvalue(), n_guarded


def sheet_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Filled rows with their numbers under the names of the csv form, apostrophes undone; commas, semicolons or tabs stand
    between cells. Without a column `choice`, which Prolific's report has under the question's own name, it is the column that
    holds choices."""
    csv.field_size_limit(2**27)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter_of(text), strict=True)
    names = reader.fieldnames or ()
    check_header(names, where)
    if "annotation_id" in names:
        raise DataError(f"{where}: Label Studio's table of annotations; export as JSON")
    ours = dict(zip(_ANSWER["prolific"], _ANSWER["csv"], strict=True))
    if missing := [name for name in _ANSWER["csv"] if name not in {ours.get(name, name) for name in names}]:
        raise DataError(
            f"{where}: no column {', '.join(missing)}. An answered table keeps the columns of the exported one"
        )
    try:
        rows = []
        for number, row in enumerate(reader, 2):
            if None in row or None in row.values():
                raise DataError(f"{where}: row {number} has not as many cells as the header")
            rows.append((number, {ours.get(name, name): unguarded(cell) for name, cell in row.items()}))
    except csv.Error as error:
        raise DataError(f"{where}:{reader.line_num}: not valid CSV ({error})") from None
    if "choice" not in names:
        answers = [
            name for name in names if name not in (*TEXTS, *ours) and any(choice_of(row.get(name)) for _, row in rows)
        ]
        if len(answers) != 1:
            raise DataError(f"{where}: no column choice, and {len(answers)} others hold {', '.join(CHOICES.values())}")
        rows = [(number, row | {"choice": row[answers[0]]}) for number, row in rows]
    yield from rows


def choice_of(value: object) -> str | None:
    """A, B or tie, by its letter or in the words that participants see; None for anything else."""
    word = str(value).strip().lower()
    return next((name for name, text in CHOICES.items() if word in (name.lower(), name[0].lower(), text.lower())), None)


def tasks(study: Study) -> list[dict[str, object]]:
    """A task per item. Label Studio deals tasks out by itself, so that sides are drawn once per item."""
    return [
        {"data": {"study": study.fingerprint, "item": item.id, "prompt": item.prompt,
                  "answer_a": item.texts[0], "answer_b": item.texts[1]}}
        for item in study.items.values()
    ]  # fmt: skip


def config(study: Study) -> str:
    """The labelling configuration. Label Studio folds spaces and tabs unless it is configured to keep them."""
    told = "\n".join(f'  <Header size="5" value={quoteattr(line)}/>' for line in instructions(study))
    required = str(study.kind == "experts").lower()
    choices = "\n".join(
        f'    <Choice value={quoteattr(text)} hotkey="{at}"/>' for at, text in enumerate(CHOICES.values(), 1)
    )
    return f"""<View>
  <Header value={quoteattr(TITLE)}/>
{told}
  <View style="white-space: pre-wrap"><Text name="prompt" value="$prompt"/></View>
  <View style="white-space: pre-wrap; display: grid; grid-template-columns: 1fr 1fr; gap: 1rem">
    <View><Header size="4" value="A"/><Text name="answer_a" value="$answer_a"/></View>
    <View><Header size="4" value="B"/><Text name="answer_b" value="$answer_b"/></View>
  </View>
  <Choices name="choice" toName="prompt" choice="single" showInLine="true" required="true">
{choices}
  </Choices>
  <TextArea name="justification" toName="prompt" rows="2" maxSubmissions="1" required="{required}"
            placeholder="What decided it?"/>
</View>
"""


KEY = "key.json"
_VERSION = 2
_KEEP = "Keep this file to yourself: it says which answer is which. No participant may see it."


def key_json(study: Study) -> dict[str, object]:
    """The whole study, for the organiser alone: which text is which, and who gets what in which order."""
    content = {**asdict(study), "items": [asdict(item) for item in study.items.values()]}
    content = json.loads(json.dumps(content))
    return {"note": _KEEP, "version": _VERSION, "study": study.fingerprint, "checksum": fingerprint(content), **content}


def study_of(key: Any, where: str) -> Study:
    """The study that was exported, from the content of its key; DataError if it was changed, or is of another version."""
    try:
        content = {name: key[name] for name in ("kind", "judgements", "seed", "items", "participants")}
        study = TypeAdapter(Study).validate_python({**content, "items": {row["id"]: row for row in key["items"]}})
        changed = (key["study"], key["checksum"]) != (study.fingerprint, fingerprint(content))
    except (KeyError, TypeError, ValueError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise DataError(
            f"{where}: {KEY} is not as `cda study export` of this version writes it ({type(error).__name__}: {why}). Take the "
            "file of the export"
        ) from None
    if changed:
        raise DataError(f"{where}: {KEY} was changed after the export; take the original file")
    return study


_COLUMN_SETTING = re.compile(r"audit\.(?:triple_)?columns\.")
_TRIPLE = {"original", "rewrite", "rewrite_of_rewrite"}


def export_study(reference: str, folder: str | Path, options: ExportOptions) -> Written:
    """Write the study's folder; it says what it holds.

    Raises:
        DataError: No usable contrasts, ids that occur twice, or numbers that cannot be met.
        RunError: The folder holds something, or cannot be made.
    """
    out = user_path(folder)
    _check(options)
    rows, columns = load_rows(reference), options.columns
    present = {key for row in rows for key in row}
    triples = {columns.get(name, name) for name in _TRIPLE} <= present and columns.get("base", "base") not in present
    try:
        contrasts, exclusions = (_of_triples if triples else _of_contrasts)(rows, reference, options)
    except DataError as problem:
        # The readers' messages name the recipe's settings.
        raise DataError(_COLUMN_SETTING.sub("--column ", str(problem))) from None
    contrasts, exclusions = _limited(contrasts, exclusions, options)
    pairings = [_pairing(contrast, None if triples else contrast.tags.get("item")) for contrast in contrasts]
    shared = [name for name, n in Counter(pairing.id for pairing in pairings).items() if n > 1]
    if shared:
        more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
        raise DataError(
            f"{reference}: votes are matched by id, but several contrasts share one: {', '.join(shared[:5])}{more}. "
            "Give each an id of its own"
        )
    plan = planned_study(pairings, options.kind, options.judgements, options.quota, options.people, options.checks)
    study = designed(pairings, options.kind, plan, options.seed)
    asked = _asked(study, plan, exclusions, reference)
    files, n_guarded = _files(study, options.tool, made=triples)
    names = ", ".join([*files, KEY, *(["contrasts.jsonl"] if triples else [])])
    lines = [*asked]
    if n_guarded:
        lines.append(f"{n_guarded} cells start with an apostrophe, so that no spreadsheet runs them")
    lines += [
        f"Study {study.fingerprint}: {out}; see its README.md, and keep {KEY} to yourself",
        *after_export(str(out), str(out / "items.csv") if options.tool == "csv" else None).lines(),
    ]

    def work(new: Path) -> Made[Written]:
        source = str(out / "contrasts.jsonl") if triples else reference
        _write(study, new, source, files, contrasts if triples else ())
        return Made(Written(folder=out, rows={"contrasts": len(study.contrasts)}), remark="\n".join(map(inert, lines)))

    # Answers to the old key would be reversed by a new one: a study gets a new folder of its own.
    says = [f"reads       {asked[0]}", f"asks        {asked[1]}"]
    return perform(Job(lambda: says, work, NewFolder(out, names)), None)


def _check(options: ExportOptions) -> None:
    """Refuse a tool or kind that is not known."""
    known = {"--to": (options.tool, get_args(Tool)), "--participants": (options.kind, get_args(StudyKind))}
    refuse([
        f"{name}: {', '.join(values)}; found '{found}'.{did_you_mean(found, values)}"
        for name, (found, values) in known.items()
        if found not in values
    ])  # fmt: skip


def _limited(
    contrasts: Sequence[Contrast], exclusions: Exclusions, options: ExportOptions
) -> tuple[Sequence[Contrast], Exclusions]:
    """At most so many contrasts of each bias, in their order; the others are counted with those left out."""
    kept = {
        id(contrast)
        for bias in dict.fromkeys(contrast.bias for contrast in contrasts)
        for contrast in drawn([own for own in contrasts if own.bias == bias], options.limit, options.seed)
    }
    if len(kept) == len(contrasts):
        return contrasts, exclusions
    reasons = {**exclusions.reasons, "not drawn (--limit)": len(contrasts) - len(kept)}
    return [contrast for contrast in contrasts if id(contrast) in kept], Exclusions(exclusions.seen, reasons)


def _of_contrasts(rows: Sequence[Row], where: str, options: ExportOptions) -> tuple[Sequence[Contrast], Exclusions]:
    unnamed = any(row.get(options.columns.get("id", "id")) in (None, "") for row in rows)
    # A file without contrasts is reported as such, and not for its missing biases.
    are_contrasts = any(options.columns.get(name, name) in row for row in rows for name in ("perturbed", "biased"))
    names = _bias_names(rows, where, options, needed=unnamed and are_contrasts)
    cleaned = clean_contrasts(rows, names, options.columns, where)
    if cleaned.ids.notice:
        say(f"{where}: {cleaned.ids.notice}")
    return cleaned.contrasts, cleaned.exclusions


def _of_triples(rows: Sequence[Row], where: str, options: ExportOptions) -> tuple[Sequence[Contrast], Exclusions]:
    """Both sides rewritten, as in RATE: the one that carries the attribute against the one that does not."""
    cleaned = clean_triples(rows, _bias_names(rows, where, options, needed=False), options.columns, where)
    contrasts = {}
    for triple in cleaned.triples:
        sides = (triple.rewrite, triple.rewrite_of_rewrite)
        contrast = Contrast(triple.bias, triple.prompt, *(reversed(sides) if triple.has_attribute else sides))
        contrasts[contrast.id] = contrast
    same = len(cleaned.triples) - len(contrasts)
    reasons = dict(cleaned.exclusions.reasons) | ({"with the two rewrites of another triple": same} if same else {})
    return list(contrasts.values()), Exclusions(cleaned.exclusions.seen, reasons)


def _bias_names(rows: Sequence[Row], where: str, options: ExportOptions, needed: bool) -> list[str]:
    """Names of the biases; if rows have ids, one without a name will do."""
    if options.biases:
        return [load_bias(name).name if name.endswith((".yaml", ".yml")) else name for name in options.biases]
    column = options.columns.get("bias", "bias")
    names = list(dict.fromkeys(str(row[column]) for row in rows if row.get(column) not in (None, "")))
    if not names and needed:
        raise DataError(
            f"{where}: rows without an id are known by their bias and texts, and there is no column '{column}' either. "
            "Give --bias NAME, as `cda audit` will be given it, or an id in each row"
        )
    return names or ["bias"]


def _pairing(contrast: Contrast, item: object) -> Pairing:
    texts = map(visible, (prompt_text(contrast.prompt), contrast.base, contrast.perturbed))
    name = str(item) if item is not None else contrast.id
    return Pairing(name, contrast.bias, prompt_id(contrast.prompt), *texts)


_HOW: Mapping[Tool, str] = {
    "csv": "`items.csv` has a row for each judgement: give each participant (`p01`, `p02`, …) the rows of their code, as a spreadsheet or a form, "
    "and have the column `choice` filled with A, B or tie. A cell that a spreadsheet could take for a formula starts with an "
    "apostrophe; the import undoes it. Import the filled table, or several.",
    "labelstudio": "Make a project with `label_studio.xml` as its labelling configuration and import `label_studio.json`. Each task is to be "
    "annotated {study.judgements} times, which the Community edition sets by its API alone: POST to `/api/projects` with "
    '`"maximum_annotations": {study.judgements}` as you create the project. Export as JSON, and import that file.',
    "prolific": "Upload `prolific.csv` as the dataset of a batch of Prolific's task builder. Its META_ columns are not shown, and "
    "META_TASK_GROUP_ID gives the rows of one participant's code to one person: ask for one annotator for each task group. Ask "
    "one multiple-choice question with the options {choices}. Import the batch's report (CSV); name the column of a "
    "free-text question `justification`.",
}
_README = """# A study of {n_pairs} pairs{checks}

{n_people} participants ({study.kind}), {load} items for each, {study.judgements} judgements wanted on each pair.
Study {study.fingerprint}, seed {study.seed}.

{how}

`key.json` says which answer is which. **Keep it to yourself**: a participant who knows it is no judge.{made}

    cda study import THIS_FOLDER ANSWERS
    cda audit my-org/my-reward-model --contrasts {folder}contrasts.jsonl --votes THIS_FOLDER/votes.jsonl

Do not export again into this folder while people are judging: their answers belong to this study alone. Tell participants:

{told}
"""
_MADE = "\n`contrasts.jsonl` holds the pairs that were made of your triples; keep it to yourself, too."


def _files(study: Study, tool: Tool, made: bool) -> tuple[dict[str, str | list[dict[str, object]]], int]:
    """The files to give out, by name, and their number of guarded cells."""
    files: dict[str, str | list[dict[str, object]]] = {"README.md": _readme(study, tool, made)}
    if tool == "labelstudio":
        return files | {"label_studio.json": tasks(study), "label_studio.xml": config(study)}, 0
    table, n_guarded = sheet(study, tool)
    # Spreadsheets take a table without the mark for one in the machine's own encoding.
    return files | ({"items.csv": "\ufeff" + table} if tool == "csv" else {"prolific.csv": table}), n_guarded


def _readme(study: Study, tool: Tool, made: bool) -> str:
    return _README.format(
        study=study,
        how=_HOW[tool].format(study=study, choices=", ".join(CHOICES.values())),
        n_pairs=len(study.contrasts),
        checks=f" and {study.n_checks} attention checks" if study.n_checks else "",
        n_people=len(study.participants),
        load=_low_to_high([len(given) for given in study.participants.values()]),
        made=_MADE if made else "",
        folder="THIS_FOLDER/" if made else "your_",
        told="\n>\n".join(f"> {paragraph}" for paragraph in instructions(study)),
    )


def _low_to_high(numbers: Collection[int]) -> str:
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def _write(
    study: Study,
    new: Path,
    source: str,
    files: Mapping[str, str | list[dict[str, object]]],
    contrasts: Sequence[Contrast],
) -> None:
    for name, content in files.items():
        if isinstance(content, str):
            (new / name).write_text(content, encoding="utf-8", newline="")
        else:
            write_json(new / name, content)
    write_json(new / KEY, {**key_json(study), "contrasts": source}, private=True)
    if contrasts:
        rows = (
            {"id": contrast.id, "bias": contrast.bias, "prompt": prompt_row(contrast.prompt),
             "base": contrast.base, "perturbed": contrast.perturbed}
            for contrast in contrasts
        )  # fmt: skip
        write_jsonl(new / "contrasts.jsonl", rows)


def _asked(study: Study, plan: StudyPlan, exclusions: Exclusions, reference: str) -> tuple[str, str]:
    """The contrasts, and the work that judging them is."""
    n = len(study.contrasts)
    loads = [sum(not study.items[task.item].is_check for task in given) for given in study.participants.values()]
    return (
        f"{n} contrasts of {shown_path(reference)} ({exclusions})",
        f"{plan.people} participants ({study.kind}), {_low_to_high(loads)} contrasts and {plan.checks} checks each; "
        f"{plan.judgements} judgements a contrast, {n * plan.judgements} in all",
    )
