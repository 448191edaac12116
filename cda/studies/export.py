"""`cda study export`: contrasts in, a folder out with which people can judge them anywhere."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from markupsafe import Markup

from cda.biases import load_bias
from cda.data.contrasts import clean_contrasts
from cda.data.load import Row, load_rows
from cda.data.triples import clean_triples
from cda.errors import DataError, RunError
from cda.files.jsonl import write_json, write_jsonl
from cda.inert import inert, visible
from cda.launch import say
from cda.records import Contrast, Exclusions, Triple, prompt_id, prompt_text
from cda.report.page import rendered
from cda.resources.artifacts import prompt_row, shown_path
from cda.studies.design import CHOICES, TITLE, Kind, Pairing, Plan, Study, designed, instructions, planned, readme
from cda.studies.forms import assignments_json, config, key_json, sheet, tasks

_COLUMN_SETTING = re.compile(r"audit\.(?:triple_)?columns\.")
_TRIPLE = {"original", "rewrite", "rewrite_of_rewrite"}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What `cda study export` was asked; None where nothing was said.

    Attributes:
        biases: Names or bias files; empty: those that the file names.
        kind: Who the participants are.
        judgements: Wanted on each contrast.
        quota: Most items of a participant, besides attention checks.
        people: Number of participants.
        checks: Attention checks of each participant.
        seed: Of every draw.
        columns: Our name to the name of the column in the file.
    """

    biases: tuple[str, ...] = ()
    kind: Kind = "experts"
    judgements: int = 3
    quota: int | None = None
    people: int | None = None
    checks: int | None = None
    seed: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)


def export_study(reference: str, out: Path, options: ExportOptions) -> Study:
    """Write the study's folder.

    Raises:
        DataError: No usable contrasts, ids that occur twice, or numbers that cannot be met.
        RunError: The folder holds something, or cannot be made.
    """
    _check_free(out)
    rows = load_rows(reference)
    triples = _are_triples(rows, options.columns)
    try:
        contrasts, exclusions = (_of_triples if triples else _of_contrasts)(rows, reference, options)
    except DataError as problem:
        # The readers speak of the recipe's settings.
        raise DataError(_COLUMN_SETTING.sub("--column ", str(problem))) from None
    pairings = [_pairing(one, None if triples else one.tags.get("item")) for one in contrasts]
    _check_unique(pairings, reference)
    plan = planned(pairings, options.kind, options.judgements, options.quota, options.people, options.checks)
    study = designed(pairings, options.kind, plan, options.seed)
    n_guarded = _write(study, out, contrasts if triples else ())
    say(_told(study, plan, exclusions, n_guarded, reference, out))
    return study


def _check_free(out: Path) -> None:
    try:
        used = out.exists() and (not out.is_dir() or any(out.iterdir()))
    except (OSError, ValueError) as error:
        raise RunError(f"{out}: no folder can be made there ({error})") from None
    if used:
        # A new key beside answers to the old one would turn them round.
        raise RunError(f"{out}: holds something already. A study gets a new folder of its own")


def _are_triples(rows: Sequence[Row], columns: Mapping[str, str]) -> bool:
    present = {key for row in rows for key in row}
    return {columns.get(name, name) for name in _TRIPLE} <= present and columns.get("base", "base") not in present


def _of_contrasts(rows: Sequence[Row], where: str, options: ExportOptions) -> tuple[Sequence[Contrast], Exclusions]:
    unnamed = any(row.get(options.columns.get("id", "id")) in (None, "") for row in rows)
    # Of a file that holds no contrasts at all, that is what has to be said.
    are_contrasts = any(options.columns.get(name, name) in row for row in rows for name in ("perturbed", "biased"))
    names = _bias_names(rows, where, options, needed=unnamed and are_contrasts)
    found = clean_contrasts(rows, names, options.columns, where)
    if found.ids.notice:
        say(f"{where}: {found.ids.notice}")
    return found.contrasts, found.exclusions


def _of_triples(rows: Sequence[Row], where: str, options: ExportOptions) -> tuple[Sequence[Contrast], Exclusions]:
    found = clean_triples(rows, _bias_names(rows, where, options, needed=False), options.columns, where)
    contrasts = {one.id: one for one in map(_contrast_of, found.triples)}
    same = len(found.triples) - len(contrasts)
    reasons = dict(found.exclusions.reasons) | ({"with the two rewrites of another triple": same} if same else {})
    return list(contrasts.values()), Exclusions(found.exclusions.seen, reasons)


def _contrast_of(triple: Triple) -> Contrast:
    """Both sides rewritten, as in RATE: the one that carries the attribute against the one that does not."""
    with_it, without = triple.rewrite, triple.rewrite_of_rewrite
    if triple.has_attribute:
        with_it, without = without, with_it
    return Contrast(triple.bias, triple.prompt, with_it, without)


def _bias_names(rows: Sequence[Row], where: str, options: ExportOptions, needed: bool) -> list[str]:
    """Names of the biases; where rows have ids, one without a name will do."""
    if options.biases:
        return [load_bias(one).name if one.endswith((".yaml", ".yml")) else one for one in options.biases]
    column = options.columns.get("bias", "bias")
    found = list(dict.fromkeys(str(row[column]) for row in rows if row.get(column) not in (None, "")))
    if not found and needed:
        raise DataError(
            f"{where}: rows without an id are known by their bias and texts, and there is no column '{column}' either. "
            "Give --bias NAME, as `cda audit` will be given it, or an id in each row"
        )
    return found or ["bias"]


def _pairing(contrast: Contrast, item: object) -> Pairing:
    prompt, base, perturbed = map(visible, (prompt_text(contrast.prompt), contrast.base, contrast.perturbed))
    return Pairing(
        str(item) if item is not None else contrast.id,
        contrast.bias,
        prompt_id(contrast.prompt),
        prompt,
        base,
        perturbed,
    )


def _check_unique(pairings: Sequence[Pairing], where: str) -> None:
    shared = [name for name, n in Counter(one.id for one in pairings).items() if n > 1]
    if shared:
        more = f" and {len(shared) - 5} more" if len(shared) > 5 else ""
        raise DataError(
            f"{where}: votes are matched by id, but several contrasts share one: {', '.join(shared[:5])}{more}. "
            "Give each an id of its own"
        )


def page(study: Study) -> str:
    """The page on which people judge: every participant's items, and nothing that says which text is which."""
    data = {
        "study": study.fingerprint,
        "required": study.kind == "experts",
        "items": {one.id: {"prompt": one.prompt, "texts": list(one.texts)} for one in study.items.values()},
        "participants": {code: [[one.item, one.a] for one in given] for code, given in study.participants.items()},
    }
    return rendered(
        "annotation.html.j2",
        script="annotation.js",
        styles=("report.css", "annotation.css"),
        title=TITLE,
        instructions=instructions(study),
        choices=CHOICES,
        required=study.kind == "experts",
        data=Markup(_inside_script(data)),
    )


def _inside_script(data: object) -> str:
    """JSON that cannot end its script element or begin a comment in it, whatever the texts hold."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _write(study: Study, out: Path, contrasts: Sequence[Contrast]) -> int:
    """All files at once: a folder that is there is whole. Returns how many cells of the table got an apostrophe."""
    table = sheet(study)
    texts = {
        "index.html": page(study), "README.md": readme(study, bool(contrasts)), "label_studio.xml": config(study),
        # Spreadsheets take a table without the mark for one in the machine's own encoding.
        "items.csv": "\ufeff" + table.text,
    }  # fmt: skip
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent, ignore_cleanup_errors=True) as made:
            partial = Path(made) / out.name
            partial.mkdir()
            for name, text in texts.items():
                (partial / name).write_text(text, encoding="utf-8", newline="")
            write_json(partial / "assignments.json", assignments_json(study))
            write_json(partial / "key.json", key_json(study), private=True)
            write_json(partial / "label_studio.json", tasks(study))
            if contrasts:
                write_jsonl(partial / "contrasts.jsonl", map(_contrast_row, contrasts))
            if out.exists():
                out.rmdir()
            partial.replace(out)
    except OSError as error:
        raise RunError(f"{out}: cannot be written ({error.strerror or error})") from None
    return table.n_guarded


def _contrast_row(one: Contrast) -> dict[str, object]:
    return {
        "id": one.id, "bias": one.bias, "prompt": prompt_row(one.prompt), "base": one.base, "perturbed": one.perturbed
    }  # fmt: skip


def _told(study: Study, plan: Plan, exclusions: Exclusions, n_guarded: int, reference: str, out: Path) -> str:
    n = sum(not one.is_check for one in study.items.values())
    loads = [sum(not study.items[one.item].is_check for one in given) for given in study.participants.values()]
    load = f"{min(loads)}" if min(loads) == max(loads) else f"{min(loads)} to {max(loads)}"
    lines = [
        f"{n} contrasts of {shown_path(reference)} ({exclusions})",
        f"{plan.people} participants ({study.kind}), {load} contrasts and {plan.checks} attention checks each; "
        f"{plan.judgements} judgements on every contrast, {n * plan.judgements} in all",
    ]
    if n_guarded:
        lines.append(f"{n_guarded} cells of items.csv start with an apostrophe, so that no spreadsheet runs them")
    lines += [
        f"Study {study.fingerprint}: {out}; give people index.html alone, and keep key.json to yourself (see README.md)",
        f"Then: cda study import {out} results-*.json",
    ]
    return "\n".join(map(inert, lines))
