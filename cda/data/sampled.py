"""Rows to a policy's answers by prompt, each at its place in the file; every row and answer of no use is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cda.data.load import Row, load_rows
from cda.data.messages import RowError, prompt_of
from cda.data.sampled_cells import COLUMNS, Counted, Output, Quality, cells, is_listed
from cda.errors import DataError
from cda.records import Exclusions, Prompt, count_reasons, normal_text, prompt_id

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
