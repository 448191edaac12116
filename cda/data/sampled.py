"""The columns of sampled responses: which layout a file has, and each response of a row with its quality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cda.data.load import Row, load_rows
from cda.data.messages import RowError, prompt_of
from cda.errors import DataError, did_you_mean
from cda.files.jsonl import parse_json
from cda.records import Exclusions, Prompt, count_reasons, normal_text, prompt_id

COLUMNS = ("prompt", "responses", "response", "quality")
Quality = float | None


@dataclass(frozen=True, slots=True)
class Output:
    """What stands at one place of a file: a text, or the reason why there is none to be used."""

    text: str | None
    reason: str | None = None
    quality: Quality = None


@dataclass(slots=True)
class Counted:
    """Counts of responses and quality numbers, and why some were not used."""

    n_responses: int = 0
    n_quality: int = 0
    bad_responses: list[str] = field(default_factory=list)
    bad_quality: list[str] = field(default_factory=list)


def is_listed(rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str) -> bool:
    """Whether a row holds the list of a prompt's responses."""
    problems = [
        f"{where}: {setting}{name} is unknown.{did_you_mean(name, COLUMNS)} Known: {', '.join(COLUMNS)}"
        for name in columns
        if name not in COLUMNS
    ]
    names = {name: columns.get(name, name) for name in COLUMNS}
    present = {key for row in rows for key in row}
    has = ", ".join(sorted(map(str, present)))
    needed = ["prompt", *(name for name in ("responses", "response", "quality") if name in columns)]
    problems += [
        f"{where}: no column '{names[name]}'.{did_you_mean(names[name], present)} Found: {has}. "
        f"Map it with {setting}{name}=<your column>"
        for name in needed
        if names[name] not in present
    ]
    mapped = [name for name in ("responses", "response") if name in columns]
    layouts = mapped or [name for name in ("responses", "response") if name in present]
    if len(layouts) != 1:
        what = "both responses and response" if layouts else "neither responses (a list) nor response"
        problems.append(
            f"{where}: {what}. Found: {has}. Say which holds the sampled texts with {setting}responses=<your column> "
            f"(a list) or {setting}response=<your column> (one text a row)"
        )
    if problems:
        raise DataError("\n".join(problems))
    return layouts == ["responses"]


def cells(row: Row, names: Mapping[str, str], listed: bool, counted: Counted) -> list[Output]:
    """Every response of a row with its quality."""
    quality = row.get(names["quality"])
    if listed:
        responses = _listed(row.get(names["responses"]))
        qualities = _qualities(quality, len(responses), counted)
    else:
        responses, qualities = [row.get(names["response"])], [quality]
    return [_output(value, number, counted) for value, number in zip(responses, qualities, strict=True)]


def _output(value: object, quality: object, counted: Counted) -> Output:
    counted.n_responses += 1
    try:
        text = _text(value)
    except RowError as problem:
        counted.bad_responses.append(str(problem))
        return Output(None, str(problem))
    return Output(text, None, _number(quality, counted))


def _listed(value: object) -> list[object]:
    found = _from_json(value)
    if not isinstance(found, list | tuple):
        raise RowError("responses is missing" if found is None else "responses is not a list")
    if not found:
        raise RowError("no responses")
    return list(found)


def _qualities(value: object, n: int, counted: Counted) -> list[object]:
    """One quality a response; none of them where their number is another, since then nobody knows whose is whose."""
    try:
        found = _from_json(value)
    except RowError:
        found = value
    if found is None or found == "":
        return [None] * n
    if isinstance(found, list | tuple) and len(found) == n:
        return list(found)
    counted.n_quality += n
    counted.bad_quality += ["quality is not one number for each response"] * n
    return [None] * n


def _from_json(value: object) -> object:
    """A list that stands as JSON text, as CSV files hold it; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return parse_json(value)
        except ValueError:
            raise RowError("a list that is not valid JSON") from None
    return value


def _text(value: object) -> str:
    """A response as text, also where it stands as one assistant message."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise RowError("response is not one message")
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("content")
    if value is None:
        raise RowError("empty response")
    if not isinstance(value, str):
        raise RowError("response is not text")
    if not value.strip():
        raise RowError("empty response")
    return value


def _number(value: Any, counted: Counted) -> Quality:
    if value is None or value == "":
        return None
    counted.n_quality += 1
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
        number = math.nan
    if not math.isfinite(number):
        counted.bad_quality.append("quality is not a finite number")
        return None
    return number


_OPTION = "--column "


@dataclass(frozen=True, slots=True)
class Sampled:
    """What was sampled for one prompt.

    Attributes:
        prompt: The prompt.
        responses: In file order. A text that was sampled twice is here twice: it is as much more likely.
        quality: Reference quality of each, higher is better; None where the file has none.
    """

    prompt: Prompt
    responses: tuple[str, ...]
    quality: tuple[Quality, ...]


@dataclass(frozen=True, slots=True)
class CleanSampled:
    """Sampled responses of a file.

    Attributes:
        prompts: Each prompt once, in file order.
        rows: Rows of the file, and those that cannot be used at all.
        responses: Responses in the rows that can be used, and those that cannot.
        quality: Quality numbers that are there, and those that cannot be read; their responses stay, without one.
        n_repeated: Responses that repeat an earlier one of their prompt, word for word; they are kept.
        has_quality: Whether any response has a quality.
    """

    prompts: tuple[Sampled, ...]
    rows: Exclusions
    responses: Exclusions
    quality: Exclusions
    n_repeated: int
    has_quality: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """All outputs to one prompt, each at its place.

    Attributes:
        prompt: The prompt.
        outputs: In file order, with those that cannot be used among them.
        whole: Every row of the prompt could be read. Where one could not, nobody knows which place an output has.
    """

    prompt: Prompt
    outputs: tuple[Output, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a file.

    Attributes:
        by_prompt: `prompt_id` to what stands there, in file order.
        rows: Rows of the file, and those that cannot be used at all.
        responses: As in `CleanSampled`.
        quality: As there.
    """

    by_prompt: Mapping[str, Placed]
    rows: Exclusions
    responses: Exclusions
    quality: Exclusions


def load_sampled(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> CleanSampled:
    """Sampled responses of a file, folder or hub id; see `clean_sampled`."""
    return clean_sampled(_rows(reference, split), columns or {}, reference, _OPTION)


def load_outputs(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> Outputs:
    """Outputs of a file, folder or hub id; see `placed_outputs`."""
    return placed_outputs(_rows(reference, split), columns or {}, reference, _OPTION)


def clean_sampled(
    rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str = "columns."
) -> CleanSampled:
    """Turn rows into sampled responses by prompt, those that cannot be used left out; arguments as of `placed_outputs`.

    Raises:
        DataError: As there; and where no prompt has two responses to choose from.
    """
    placed = placed_outputs(rows, columns, where, setting)
    prompts = []
    for one in placed.by_prompt.values():
        usable = [(output.text, output.quality) for output in one.outputs if output.text is not None]
        if usable:
            prompts.append(Sampled(one.prompt, *zip(*usable, strict=True)))
    if not any(len(one.responses) > 1 for one in prompts):
        raise DataError(
            f"{where}: no prompt has two responses to choose from, so there is no best of n; {len(prompts)} prompts, "
            f"rows: {placed.rows}; responses: {placed.responses}"
        )
    return CleanSampled(
        tuple(prompts),
        placed.rows,
        placed.responses,
        placed.quality,
        sum(len(one.responses) - len(set(map(normal_text, one.responses))) for one in prompts),
        any(quality is not None for one in prompts for quality in one.quality),
    )


def placed_outputs(rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str = "columns.") -> Outputs:
    """Turn rows into outputs by prompt, each at its place, counting what cannot be used.

    Two layouts: a row a prompt with `prompt` and `responses` (a list, or a list as JSON text), or a row a response with
    `prompt` and `response`; rows of one prompt are put together in both. Optional: `quality`, a number for each response
    (in the first layout a list of them), such as a gold reward, a grade or 0 and 1 for wrong and right.

    Args:
        rows: Loaded rows.
        columns: Our name to the name of the column in the rows.
        where: File named in errors.
        setting: What maps columns, as it stands before our name of one in messages.

    Raises:
        DataError: A column is unknown, missing or ambiguous, or no response can be used.
    """
    names = {name: columns.get(name, name) for name in COLUMNS}
    listed = is_listed(rows, columns, where, setting)
    found: dict[str, _Found] = {}
    bad_rows: list[str] = []
    counted = Counted()
    for row in rows:
        group = None
        try:
            prompt = prompt_of(row.get(names["prompt"]))
            group = found.setdefault(prompt_id(prompt), _Found(prompt))
            group.outputs += cells(row, names, listed, counted)
        except RowError as problem:
            bad_rows.append(str(problem))
            if group is not None:
                group.whole = False
    outputs = Outputs(
        {name: Placed(one.prompt, tuple(one.outputs), one.whole) for name, one in found.items()},
        Exclusions(len(rows), count_reasons(bad_rows)),
        Exclusions(counted.n_responses, count_reasons(counted.bad_responses)),
        Exclusions(counted.n_quality, count_reasons(counted.bad_quality)),
    )
    if outputs.responses.dropped == outputs.responses.seen:
        raise DataError(f"{where}: no usable response; rows: {outputs.rows}; responses: {outputs.responses}")
    return outputs


def _rows(reference: str, split: str) -> list[Row]:
    try:
        return load_rows(reference, split)
    except DataError as error:
        # The loader speaks of a recipe, which these files have none of.
        raise DataError(str(error).replace("data.split=", "--split ")) from None


@dataclass(slots=True)
class _Found:
    """A prompt and what was found for it so far."""

    prompt: Prompt
    outputs: list[Output] = field(default_factory=list)
    whole: bool = True
