"""Sampled responses by prompt, in two layouts, each with its quality; unusable rows are counted."""

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
_SETTING = "--column "
Quality = float | None


@dataclass(frozen=True, slots=True)
class Output:
    """The text at one place of a file, or the reason why there is none to be used."""

    text: str | None
    reason: str | None = None
    quality: Quality = None


@dataclass(slots=True)
class Placed:
    """All outputs to one prompt, each at its place.

    Attributes:
        prompt: The prompt.
        outputs: In file order, with those that cannot be used among them.
        whole: Every row of the prompt could be read. Otherwise the outputs' places are unknown.
    """

    prompt: Prompt
    outputs: list[Output] = field(default_factory=list)
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a file.

    Attributes:
        by_prompt: `prompt_id` to the outputs at their places, in file order.
        rows: Rows of the file, and those that cannot be used at all.
        responses: Responses in the rows that can be used, and those that cannot.
        quality: Quality numbers that are there, and those that cannot be read; their responses stay, without one.
    """

    by_prompt: Mapping[str, Placed]
    rows: Exclusions
    responses: Exclusions
    quality: Exclusions


@dataclass(frozen=True, slots=True)
class Sampled:
    """Responses sampled for one prompt.

    Attributes:
        prompt: The prompt.
        responses: In file order. A text that was sampled twice is here twice: it is as much more likely.
        quality: Reference quality of each, higher is better; None if the file has none.
    """

    prompt: Prompt
    responses: tuple[str, ...]
    quality: tuple[Quality, ...]


@dataclass(frozen=True, slots=True)
class CleanSampled:
    """Sampled responses of a file.

    Attributes:
        prompts: Each prompt once, in file order.
        rows: As in `Outputs`.
        responses: As in `Outputs`.
        quality: As in `Outputs`.
        n_repeated: Responses that repeat an earlier one of their prompt, word for word; they are kept.
        has_quality: True if any response has a quality.
    """

    prompts: tuple[Sampled, ...]
    rows: Exclusions
    responses: Exclusions
    quality: Exclusions
    n_repeated: int
    has_quality: bool


def load_sampled(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> CleanSampled:
    """Sampled responses of a file, folder or hub id; see `clean_sampled`."""
    return clean_sampled(_rows(reference, split), columns or {}, reference)


def load_outputs(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> Outputs:
    """Outputs of a file, folder or hub id; see `placed_outputs`."""
    return placed_outputs(_rows(reference, split), columns or {}, reference)


def _rows(reference: str, split: str) -> list[Row]:
    try:
        return load_rows(reference, split)
    except DataError as error:
        # The loader's message names a recipe, which these files do not have.
        raise DataError(str(error).replace("data.split=", "--split ")) from None


def clean_sampled(rows: Sequence[Row], columns: Mapping[str, str], where: str) -> CleanSampled:
    """Turn rows into sampled responses by prompt, those that cannot be used left out; arguments as of `placed_outputs`.

    Raises:
        DataError: As there; and if no prompt has two responses to choose from.
    """
    placed = placed_outputs(rows, columns, where)
    prompts = []
    for own in placed.by_prompt.values():
        usable = [(output.text, output.quality) for output in own.outputs if output.text is not None]
        if usable:
            prompts.append(Sampled(own.prompt, *zip(*usable, strict=True)))
    if not any(len(sampled.responses) > 1 for sampled in prompts):
        raise DataError(
            f"{where}: no prompt has two responses to choose from, so there is no best of n; {len(prompts)} prompts, "
            f"rows: {placed.rows}; responses: {placed.responses}"
        )
    return CleanSampled(
        tuple(prompts),
        placed.rows,
        placed.responses,
        placed.quality,
        sum(len(sampled.responses) - len(set(map(normal_text, sampled.responses))) for sampled in prompts),
        any(quality is not None for sampled in prompts for quality in sampled.quality),
    )


def placed_outputs(rows: Sequence[Row], columns: Mapping[str, str], where: str) -> Outputs:
    """Turn rows into outputs by prompt, each at its place, counting unusable rows.

    Two layouts: a row a prompt with `prompt` and `responses` (a list, or a list as JSON text), or a row a response with
    `prompt` and `response`; rows of one prompt are put together in both. Optional: `quality`, a number for each response
    (in the first layout a list of them), such as a gold reward, a grade or 0 and 1 for wrong and right.

    Args:
        rows: Loaded rows.
        columns: Our name to the name of the column in the rows.
        where: File named in errors.

    Raises:
        DataError: A column is unknown, missing or ambiguous, or no response can be used.
    """
    names = {name: columns.get(name, name) for name in COLUMNS}
    listed = _is_listed(rows, columns, where)
    by_prompt: dict[str, Placed] = {}
    bad_rows: list[str] = []
    reader = _Reader()
    for row in rows:
        placed = None
        try:
            prompt = prompt_of(row.get(names["prompt"]))
            placed = by_prompt.setdefault(prompt_id(prompt), Placed(prompt))
            placed.outputs += reader.outputs(row, names, listed)
        except RowError as problem:
            bad_rows.append(str(problem))
            if placed is not None:
                placed.whole = False
    outputs = Outputs(
        by_prompt,
        Exclusions(len(rows), count_reasons(bad_rows)),
        Exclusions(reader.n_responses, count_reasons(reader.bad_responses)),
        Exclusions(reader.n_quality, count_reasons(reader.bad_quality)),
    )
    if outputs.responses.dropped == outputs.responses.seen:
        raise DataError(f"{where}: no usable response; rows: {outputs.rows}; responses: {outputs.responses}")
    return outputs


def _is_listed(rows: Sequence[Row], columns: Mapping[str, str], where: str) -> bool:
    """True if a row holds the list of a prompt's responses."""
    problems = [
        f"{where}: {_SETTING}{name} is unknown.{did_you_mean(name, COLUMNS)} Known: {', '.join(COLUMNS)}"
        for name in columns
        if name not in COLUMNS
    ]
    present = {key for row in rows for key in row}
    has = ", ".join(sorted(map(str, present)))
    needed = {name: columns.get(name, name) for name in COLUMNS if name == "prompt" or name in columns}
    problems += [
        f"{where}: no column '{column}'.{did_you_mean(column, present)} Found: {has}. "
        f"Map it with {_SETTING}{name}=<your column>"
        for name, column in needed.items()
        if column not in present
    ]
    mapped = [name for name in ("responses", "response") if name in columns]
    layouts = mapped or [name for name in ("responses", "response") if name in present]
    if len(layouts) != 1:
        what = "both responses and response" if layouts else "neither responses (a list) nor response"
        problems.append(
            f"{where}: {what}. Found: {has}. Say which holds the sampled texts with {_SETTING}responses=<your column> "
            f"(a list) or {_SETTING}response=<your column> (one text a row)"
        )
    if problems:
        raise DataError("\n".join(problems))
    return layouts == ["responses"]


@dataclass(slots=True)
class _Reader:
    """Reads responses and quality numbers, counts them, and why some were not used."""

    n_responses: int = 0
    n_quality: int = 0
    bad_responses: list[str] = field(default_factory=list)
    bad_quality: list[str] = field(default_factory=list)

    def outputs(self, row: Row, names: Mapping[str, str], listed: bool) -> list[Output]:
        """Every response of a row with its quality."""
        responses, qualities = [row.get(names["response"])], [row.get(names["quality"])]
        if listed:
            found = _from_json(row.get(names["responses"]))
            if not isinstance(found, list | tuple):
                raise RowError("responses is missing" if found is None else "responses is not a list")
            if not found:
                raise RowError("no responses")
            responses, qualities = list(found), self._qualities(qualities[0], len(found))
        return [self._output(value, quality) for value, quality in zip(responses, qualities, strict=True)]

    def _output(self, value: object, quality: object) -> Output:
        self.n_responses += 1
        try:
            text = _text(value)
        except RowError as problem:
            self.bad_responses.append(str(problem))
            return Output(None, str(problem))
        return Output(text, None, self._number(quality))

    def _qualities(self, value: object, n: int) -> list[object]:
        """One quality per response; none if their number differs, since they cannot be assigned then."""
        try:
            found = _from_json(value)
        except RowError:
            found = value
        if found is None or found == "":
            return [None] * n
        if isinstance(found, list | tuple) and len(found) == n:
            return list(found)
        self.n_quality += n
        self.bad_quality += ["quality is not one number for each response"] * n
        return [None] * n

    def _number(self, value: Any) -> Quality:
        if value is None or value == "":
            return None
        self.n_quality += 1
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):  # the last: a whole number beyond all floats
            number = math.nan
        if not math.isfinite(number):
            self.bad_quality.append("quality is not a finite number")
            return None
        return number


def _from_json(value: object) -> object:
    """A list that stands as JSON text, as CSV files hold it; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return parse_json(value)
        except ValueError:
            raise RowError("a list that is not valid JSON") from None
    return value


def _text(value: object) -> str:
    """A response as text, also if it stands as one assistant message."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise RowError("response is not one message")
        value = value[0]
    if isinstance(value, Mapping):
        value = value.get("content")
    if value is None or (isinstance(value, str) and not value.strip()):
        raise RowError("empty response")
    if not isinstance(value, str):
        raise RowError("response is not text")
    return value
