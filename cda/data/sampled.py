"""Sampled responses by prompt, in two layouts, each with its quality; unusable rows are counted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from cda.data.load import Row, RowError, load_rows, message_text, number_of, prompt_of, side_text
from cda.errors import DataError, did_you_mean, refuse
from cda.files.jsonl import parse_json
from cda.records import Exclusions, Prompt, count_reasons, normal_text, prompt_id

COLUMNS = ("prompt", "responses", "response", "quality")
COLUMN_OPTION = "--column "
"""What messages on columns name, without another setting."""


@dataclass(frozen=True, slots=True)
class Output:
    """The text at one place of a file, or the reason why it cannot be used; and its quality (higher is better), or why not."""

    text: str | None = None
    reason: str | None = None
    quality: float | None = None
    unread_quality: str | None = None


@dataclass(slots=True)
class Placed:
    """All outputs to one prompt in file order, each at its place; `whole` if every row of the prompt could be read.

    A text that was sampled twice is here twice: it is as much more likely.
    """

    prompt: Prompt
    outputs: list[Output] = field(default_factory=list)
    whole: bool = True

    @property
    def responses(self) -> tuple[str, ...]:
        """The texts that can be used."""
        return tuple(output.text for output in self.outputs if output.text is not None)

    @property
    def quality(self) -> tuple[float | None, ...]:
        """Quality of each of `responses`, if known."""
        return tuple(output.quality for output in self.outputs if output.text is not None)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a file by `prompt_id`, in file order; and those of its rows that cannot be used at all."""

    by_prompt: Mapping[str, Placed]
    rows: Exclusions

    @property
    def responses(self) -> Exclusions:
        """Responses in the rows that can be used, and those that cannot."""
        return Exclusions(len(self._all), count_reasons([output.reason for output in self._all if output.reason]))

    @property
    def quality(self) -> Exclusions:
        """Quality numbers that are there, and those that cannot be read; their responses stay, without one."""
        unread = [output.unread_quality for output in self._all if output.unread_quality]
        return Exclusions(len(unread) + sum(output.quality is not None for output in self._all), count_reasons(unread))

    @property
    def prompts(self) -> tuple[Placed, ...]:
        """Prompts with usable responses."""
        return tuple(placed for placed in self.by_prompt.values() if placed.responses)

    @property
    def n_repeated(self) -> int:
        """Responses that repeat an earlier one of their prompt, word for word."""
        return sum(len(own.responses) - len(set(map(normal_text, own.responses))) for own in self.by_prompt.values())

    @property
    def has_quality(self) -> bool:
        return any(output.quality is not None for output in self._all)

    @property
    def _all(self) -> list[Output]:
        return [output for placed in self.by_prompt.values() for output in placed.outputs]


def load_sampled(
    reference: str, columns: Mapping[str, str] | None = None, split: str = "train", setting: str = COLUMN_OPTION
) -> Outputs:
    """As `load_outputs`; and a DataError if no prompt has two responses to choose from. Messages on columns name `setting`."""
    try:
        outputs = placed_outputs(load_rows(reference, split), columns or {}, reference, setting)
    except DataError as error:
        # The loader's message names a recipe, which these files do not have.
        raise DataError(str(error).replace("data.split=", "--split ")) from None
    if not any(len(placed.responses) > 1 for placed in outputs.prompts):
        raise DataError(
            f"{reference}: no prompt has two responses to choose from; prompts: {len(outputs.prompts)}, rows: {outputs.rows}; "
            f"responses: {outputs.responses}. Give several responses to each prompt, sampled from one policy"
        )
    return outputs


def load_outputs(reference: str, columns: Mapping[str, str] | None = None, split: str = "train") -> Outputs:
    """Outputs of a file, folder or hub id; see `placed_outputs`."""
    return placed_outputs(load_rows(reference, split), columns or {}, reference)


def placed_outputs(
    rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str = COLUMN_OPTION
) -> Outputs:
    """Turn rows into outputs by prompt, each at its place, counting unusable rows; `columns` maps our name to the rows'.

    Two layouts: a row a prompt with `prompt` and `responses` (a list, or a list as JSON text), or a row a response with
    `prompt` and `response`; rows of one prompt are put together in both. Optional: `quality`, a number for each response
    (in the first layout a list of them), such as a gold reward, a grade or 0 and 1 for wrong and right.

    Raises:
        DataError: A column is unknown, missing or ambiguous, or no response can be used.
    """
    names = {name: columns.get(name, name) for name in COLUMNS}
    listed = _is_listed(rows, columns, where, setting)
    by_prompt: dict[str, Placed] = {}
    bad_rows: list[str] = []
    for row in rows:
        placed = None
        try:
            prompt = prompt_of(row.get(names["prompt"]))
            placed = by_prompt.setdefault(prompt_id(prompt), Placed(prompt))
            placed.outputs += _outputs(row, names, listed)
        except RowError as problem:
            bad_rows.append(str(problem))
            if placed is not None:
                placed.whole = False
    outputs = Outputs(by_prompt, Exclusions(len(rows), count_reasons(bad_rows)))
    if not outputs.prompts:
        raise DataError(f"{where}: no usable response; rows: {outputs.rows}; responses: {outputs.responses}")
    return outputs


def _is_listed(rows: Sequence[Row], columns: Mapping[str, str], where: str, setting: str) -> bool:
    problems = [
        f"{where}: {setting}{name} is unknown.{did_you_mean(name, COLUMNS)} Known: {', '.join(COLUMNS)}"
        for name in columns
        if name not in COLUMNS
    ]
    present = {key for row in rows for key in row}
    has = ", ".join(sorted(map(str, present)))
    needed = {name: columns.get(name, name) for name in COLUMNS if name == "prompt" or name in columns}
    problems += [
        f"{where}: no column '{column}'.{did_you_mean(column, present)} Found: {has}. "
        f"Map it with {setting}{name}=<your column>"
        for name, column in needed.items()
        if column not in present
    ]
    mapped = [name for name in ("responses", "response") if name in columns]
    layouts = mapped or [name for name in ("responses", "response") if name in present]
    if len(layouts) != 1:
        what = "both responses and response" if layouts else "neither responses (a list) nor response"
        problems.append(
            f"{where}: {what}. Found: {has}. Say which holds the sampled texts with {setting}responses=<your column> "
            f"(a list) or {setting}response=<your column> (one text a row)"
        )
    refuse(problems)
    return layouts == ["responses"]


def _outputs(row: Row, names: Mapping[str, str], listed: bool) -> list[Output]:
    """Every response of a row with its quality; RowError if it has no list of them."""
    quality: Any = row.get(names["quality"])
    if not listed:
        return [_output(row.get(names["response"]), quality)]
    responses = _from_json(row.get(names["responses"]))
    if not isinstance(responses, list | tuple):
        raise RowError("responses is missing" if responses is None else "responses is not a list")
    if not responses:
        raise RowError("no responses")
    with suppress(RowError):  # text that is no list either
        quality = _from_json(quality)
    if quality is None or quality == "":
        return [_output(response, None) for response in responses]
    if isinstance(quality, list | tuple) and len(quality) == len(responses):
        return [_output(response, number) for response, number in zip(responses, quality, strict=True)]
    unread = "quality is not one number for each response"
    return [replace(_output(response, None), unread_quality=unread) for response in responses]


def _output(response: object, quality: Any) -> Output:
    try:
        text = response_text(response)
    except RowError as problem:
        return Output(reason=str(problem))
    if quality is None or quality == "":
        return Output(text)
    number = number_of(quality)
    return (
        Output(text, unread_quality="quality is not a finite number")
        if math.isnan(number)
        else Output(text, quality=number)
    )


def _from_json(value: object) -> object:
    """A list that stands as JSON text, as CSV files hold it; anything else as it is."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return parse_json(value)
        except ValueError:
            raise RowError("a list that is not valid JSON") from None
    return value


def response_text(value: object) -> str:
    """A response as text, also if it stands as one assistant message."""
    value = message_text(value)
    if isinstance(value, list | tuple):
        raise RowError("response is not one message")
    return side_text(value, "empty response", "response is not text")
