"""`cda study export`: a folder with which people can judge contrasts anywhere."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.sax.saxutils import quoteattr

from markupsafe import Markup
from pydantic import TypeAdapter, ValidationError

from cda.biases import load_bias
from cda.data.contrasts import clean_contrasts
from cda.data.load import Row, check_header, delimiter_of, load_rows
from cda.data.triples import clean_triples
from cda.errors import DataError, RunError
from cda.files.jsonl import write_json, write_jsonl
from cda.files.paths import unwritable
from cda.inert import RISKY, guarded, inert, visible
from cda.launch import say
from cda.records import Contrast, Exclusions, prompt_id, prompt_text
from cda.report.page import rendered, resource
from cda.resources.artifacts import prompt_row, shown_path
from cda.resources.dry_run import stop_if_dry
from cda.run import fingerprint
from cda.stats.draws import drawn
from cda.studies import design
from cda.studies.design import CHOICES, TITLE, Kind, Pairing, Plan, Study, instructions

_COLUMNS = ("study", "participant", "number", "item", "prompt", "answer_a", "answer_b", "choice", "justification",
            "seconds")  # fmt: skip
_NEEDED = ("study", "participant", "item", "choice")


def unguarded(cell: str) -> str:
    """The cell before `guarded`; a single apostrophe from elsewhere stays.

    >>> unguarded("'=1+1"), unguarded("''s"), unguarded("'tis")
    ('=1+1', "'s", "'tis")
    """
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*RISKY, "'")) else cell


def sheet(study: Study) -> tuple[str, int]:
    """A table with a row for each judgement that is wanted, in each participant's order; and its number of guarded cells."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    n_guarded = 0
    for code, given in study.participants.items():
        for number, shown in enumerate(given, 1):
            item = study.items[shown.item]
            texts = (item.prompt, item.texts[shown.a], item.texts[1 - shown.a])
            safe = tuple(map(guarded, texts))
            n_guarded += sum(before != after for before, after in zip(texts, safe, strict=True))
            writer.writerow((study.fingerprint, code, number, item.id, *safe, "", "", ""))
    return out.getvalue(), n_guarded


def sheet_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Filled rows with their numbers, apostrophes undone; commas, semicolons or tabs stand between cells."""
    csv.field_size_limit(2**27)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter_of(text), strict=True)
    names = reader.fieldnames or ()
    check_header(names, where)
    if "annotation_id" in names:
        raise DataError(f"{where}: Label Studio's table of annotations; export as JSON")
    if missing := [name for name in _NEEDED if name not in names]:
        raise DataError(
            f"{where}: no column {', '.join(missing)}. A filled table keeps the columns of items.csv: {', '.join(_COLUMNS)}"
        )
    try:
        for number, row in enumerate(reader, 2):
            if None in row or None in row.values():
                raise DataError(f"{where}: row {number} has not as many cells as the header")
            yield number, {name: unguarded(cell) for name, cell in row.items()}
    except csv.Error as error:
        raise DataError(f"{where}:{reader.line_num}: not valid CSV ({error})") from None


_SIDES = {"left": "A", "right": "B"}
_WORDS = {text.lower(): word for word, text in CHOICES.items()}


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


def annotated(content: list[Mapping[str, object]]) -> Iterator[tuple[Mapping[str, object], Mapping[str, object]]]:
    """Each task's data with each of its annotations that was not cancelled."""
    for task in content:
        data, annotations = task.get("data"), task.get("annotations")
        for annotation in annotations if isinstance(annotations, list) else ():
            if isinstance(annotation, Mapping) and not annotation.get("was_cancelled"):
                yield data if isinstance(data, Mapping) else {}, annotation


def choice_of(annotation: Mapping[str, object]) -> str | None:
    """A, B or tie; None if nothing or more than one thing was chosen."""
    chosen = {word for value in _values(annotation) if (word := _word(value))}
    return chosen.pop() if len(chosen) == 1 and chosen < CHOICES.keys() else None


def justification_of(annotation: Mapping[str, object]) -> str:
    """The text that was written with it."""
    texts = [value.get("text") for value in _values(annotation)]
    return " ".join(str(line) for text in texts if text for line in (text if isinstance(text, list) else [text]))


def annotator(annotation: Mapping[str, object]) -> str | None:
    """A name for an annotator, distinct from the codes of the study's participants."""
    by = annotation.get("completed_by")
    if isinstance(by, Mapping):
        by = by.get("id", by.get("email"))
    return None if by is None or isinstance(by, bool) or not isinstance(by, int | str) else f"label-studio-{by}"


def _values(annotation: Mapping[str, object]) -> list[Mapping[str, object]]:
    result = annotation.get("result")
    parts = result if isinstance(result, list) else []
    values = [part.get("value") for part in parts if isinstance(part, Mapping)]
    return [value for value in values if isinstance(value, Mapping)]


def _word(value: Mapping[str, object]) -> str | None:
    if "selected" in value:
        return _SIDES.get(str(value["selected"]))
    choices = value.get("choices")
    if isinstance(choices, list) and len(choices) == 1:
        return _WORDS.get(str(choices[0]).strip().lower())
    return "several" if choices else None


_VERSION = 1
_KEEP = "Keep this file to yourself: it says which answer is which. No participant may see it."


def assignments_json(study: Study) -> dict[str, object]:
    """The assignments: participant to items in order, with the text (0 or 1) that stands as answer A."""
    return {
        "study": study.fingerprint,
        "version": _VERSION,
        "kind": study.kind,
        "judgements": study.judgements,
        "seed": study.seed,
        "participants": {code: [asdict(shown) for shown in given] for code, given in study.participants.items()},
    }


def key_json(study: Study) -> dict[str, object]:
    """Which text is which, for the organiser alone."""
    items = [asdict(item) | {"texts": list(item.texts)} for item in study.items.values()]
    checksum = fingerprint(items)
    return {"note": _KEEP, "study": study.fingerprint, "version": _VERSION, "checksum": checksum, "items": items}


def study_of(assignments: Any, key: Any, where: str) -> Study:
    """The study that was exported, from the content of its two files; DataError if they were changed, or are of two studies."""
    try:
        items = {row["id"]: row for row in key["items"]}
        study = TypeAdapter(Study).validate_python({**assignments, "items": items})
        stated, of_key, checksum = assignments["study"], key["study"], key["checksum"]
    except (KeyError, TypeError, ValueError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise DataError(
            f"{where}: assignments.json or key.json is not as `cda study export` wrote it "
            f"({type(error).__name__}: {why}). Take the files of the export"
        ) from None
    if stated != of_key:
        raise DataError(f"{where}: assignments.json is of study {stated}, key.json of study {of_key}")
    if fingerprint(key["items"]) != checksum or study.fingerprint != stated:
        raise DataError(f"{where}: assignments.json or key.json was changed after the export; take the original files")
    return study


_COLUMN_SETTING = re.compile(r"audit\.(?:triple_)?columns\.")
_TRIPLE = {"original", "rewrite", "rewrite_of_rewrite"}
FILES = (
    "index.html",
    "README.md",
    "assignments.json",
    "key.json",
    "items.csv",
    "label_studio.json",
    "label_studio.xml",
)
"""Files of a study's folder."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of `cda study export`, as its help explains them; `columns` are our names to those of the file."""

    biases: tuple[str, ...] = ()
    kind: Kind = "experts"
    judgements: int = 3
    quota: int | None = None
    people: int | None = None
    checks: int | None = None
    seed: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None


def export_study(reference: str, out: Path, options: ExportOptions) -> Study:
    """Write the study's folder.

    Raises:
        DataError: No usable contrasts, ids that occur twice, or numbers that cannot be met.
        RunError: The folder holds something, or cannot be made.
    """
    _check_new(out)
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
    plan = design.planned(pairings, options.kind, options.judgements, options.quota, options.people, options.checks)
    study = design.designed(pairings, options.kind, plan, options.seed)
    asked = _asked(study, plan, exclusions, reference)
    files = ", ".join([*FILES, *(["contrasts.jsonl"] if triples else [])])
    stop_if_dry(None, lambda: [f"reads       {asked[0]}", f"asks        {asked[1]}", f"writes      {out}: {files}"])
    n_guarded = _write(study, out, contrasts if triples else ())
    say(_summary(study, asked, n_guarded, out))
    return study


def _check_new(out: Path) -> None:
    """Raise RunError if the study's folder holds something, or cannot be made."""
    try:
        used = out.exists() and (not out.is_dir() or any(out.iterdir()))
        problem = unwritable(out)
    except (OSError, ValueError) as error:
        raise RunError(f"{out}: no folder can be made there ({error})") from None
    if used:
        # Answers to the old key would be reversed by a new one.
        raise RunError(f"{out}: is not empty. A study gets a new folder of its own")
    if problem:
        raise RunError(f"{problem}. Name a folder elsewhere")


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


def _page(study: Study) -> str:
    """The page on which people judge: every participant's items, and nothing that says which text is which."""
    data = {
        "study": study.fingerprint,
        "required": study.kind == "experts",
        "items": {item.id: {"prompt": item.prompt, "texts": list(item.texts)} for item in study.items.values()},
        "participants": {code: [[task.item, task.a] for task in given] for code, given in study.participants.items()},
    }
    # JSON that cannot end its script element or begin a comment in it, whatever the texts hold.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    inside_script = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return rendered(
        "annotation.html.j2",
        script="annotation.js",
        styles=("report.css", "annotation.css"),
        title=TITLE,
        instructions=design.instructions(study),
        choices=CHOICES,
        required=study.kind == "experts",
        data=Markup(inside_script),
    )


def _readme(study: Study, contrasts_file: bool) -> str:
    """README.md of the folder, for the person who runs the study."""
    made = "- `contrasts.jsonl`: the pairs that were made of your triples, for `cda audit --pairs`. **Keep it to yourself.**\n"
    contrasts, folder = (made, "THIS_FOLDER/") if contrasts_file else ("", "your_")
    return resource("study_readme.txt").format(
        study=study,
        n_pairs=len(study.contrasts),
        checks=f" and {study.n_checks} attention checks" if study.n_checks else "",
        n_people=len(study.participants),
        load=design.low_to_high([len(given) for given in study.participants.values()]),
        contrasts=contrasts,
        folder=folder,
        told="\n".join(f"> {paragraph}\n>" for paragraph in design.instructions(study)).removesuffix("\n>"),
    )


def _write(study: Study, out: Path, contrasts: Sequence[Contrast]) -> int:
    """All files at once: a folder that is there is whole. Returns the number of cells of the table that got an apostrophe."""
    table, n_guarded = sheet(study)
    texts = {
        "index.html": _page(study), "README.md": _readme(study, bool(contrasts)), "label_studio.xml": config(study),
        # Spreadsheets take a table without the mark for one in the machine's own encoding.
        "items.csv": "\ufeff" + table,
    }  # fmt: skip
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent, ignore_cleanup_errors=True) as beside:
            partial = Path(beside) / out.name
            partial.mkdir()
            for name, text in texts.items():
                (partial / name).write_text(text, encoding="utf-8", newline="")
            write_json(partial / "assignments.json", assignments_json(study))
            write_json(partial / "key.json", key_json(study), private=True)
            write_json(partial / "label_studio.json", tasks(study))
            if contrasts:
                rows = (
                    {"id": contrast.id, "bias": contrast.bias, "prompt": prompt_row(contrast.prompt),
                     "base": contrast.base, "perturbed": contrast.perturbed}
                    for contrast in contrasts
                )  # fmt: skip
                write_jsonl(partial / "contrasts.jsonl", rows)
            if out.exists():
                out.rmdir()
            partial.replace(out)
    except OSError as error:
        raise RunError(f"{out}: cannot be written ({error.strerror or error})") from None
    return n_guarded


def _asked(study: Study, plan: Plan, exclusions: Exclusions, reference: str) -> tuple[str, str]:
    """The contrasts, and the work that judging them is."""
    n = len(study.contrasts)
    loads = [sum(not study.items[task.item].is_check for task in given) for given in study.participants.values()]
    load = design.low_to_high(loads)
    return (
        f"{n} contrasts of {shown_path(reference)} ({exclusions})",
        f"{plan.people} participants ({study.kind}), {load} contrasts and {plan.checks} attention checks each; "
        f"{plan.judgements} judgements on every contrast, {n * plan.judgements} in all",
    )


def _summary(study: Study, asked: Sequence[str], n_guarded: int, out: Path) -> str:
    lines = [*asked]
    if n_guarded:
        lines.append(f"{n_guarded} cells of items.csv start with an apostrophe, so that no spreadsheet runs them")
    lines += [
        f"Study {study.fingerprint}: {out}; give people index.html alone, and keep key.json to yourself (see README.md)",
        f"Then: cda study import {out} results-*.json",
    ]
    return "\n".join(map(inert, lines))
