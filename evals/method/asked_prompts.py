"""The prompts that a capable model is to answer, asked by the product's own code of whatever server answers.

Labels: pairs of embedded contrasts whose sides are known. Rewrites: of plain `audit` answers to add the bias, of `shown`
ones to remove it; half of those for length name another answer that they are to exceed, as in training. What passes the
gate's other checks is then read by its labelling question, for length too, whose gate goes by the measure. Judgements:
quality pairs in both orders. Proposals: the embedded responses, rewarded by a count of one bias's feature. Groupings: lists
of attributes with known groups. Nothing is drawn by chance but by seed, so every run asks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cda.biases import Bias, load_bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.proposals import LLMGrouper, LLMProposer, group_request
from cda.discovery.search import PromptSamples, Rated
from cda.embedded.texts import EMBEDDED_BIASES, authored_contrasts, authored_pairs, authored_responses
from cda.llm.protocol import LLM
from cda.records import Contrast, Direction, Pair, Prompt, Rewrite, RewriteRequest, prompt_id
from cda.rewriting.fidelity import not_flipped
from cda.rewriting.labels import asked_labels, label_pairs, label_request, pair_request
from cda.rewriting.rewriter import GatedRewriter, LLMRewriter, rewrite_request
from cda.scorers.judge import LLMJudge
from evals.method.answer_server import AnswerServer, request_id
from evals.method.known_groups import GROUPS
from evals.method.rate_embedded import COUNTS

SEED = 20261123
KINDS = ("label", "rewrite", "reading", "judgement", "proposal", "grouping")
N_EACH, N_JUDGED, K = 20, 20, 5
MIN_DISTINCT = 3
"""Rewards of a prompt's four responses that have to differ, for a proposer to have something to find."""
Limit = int | None


@dataclass(frozen=True, slots=True)
class Labelled:
    """One side of a labelled pair.

    Attributes:
        item: Name of the contrast, and the side.
        ids: Of the question.
        direction: `add` where the bias was added to a plain answer, `remove` where it was taken out of one that had it.
        has_bias: As the authors wrote it.
        label: As answered; None: unread.
        reason: Why it is unread.
    """

    item: str
    ids: tuple[str, ...]
    bias: str
    direction: Direction
    prompt: Prompt
    has_bias: bool
    label: bool | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """One rewrite.

    Attributes:
        item: Name of the contrast.
        ids: Of the instruction and, where it was asked, of the reading.
        text: As written; None: no usable answer.
        gate: Why the gate rejects it; None: it passes.
        by_measure: Whether it flipped by the bias's measure, as the gate of a run by rules asks; None without a text.
        by_reader: Whether a reader's label says that it flipped; None where it was not asked or could not be read.
    """

    item: str
    ids: tuple[str, ...]
    bias: str
    direction: Direction
    request: RewriteRequest
    text: str | None
    gate: str | None
    by_measure: bool | None
    by_reader: bool | None


@dataclass(frozen=True, slots=True)
class Judged:
    """One quality pair: the preference for the sound answer, −1 to 1; None: unread."""

    item: str
    ids: tuple[str, ...]
    prompt: Prompt
    margin: float | None


@dataclass(frozen=True, slots=True)
class Proposed:
    """One prompt's proposals: the bias whose feature was counted, and the attributes that can be used."""

    item: str
    bias: str
    attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """One list: its groups as known and as answered, by place; `read` is False where the fallback had to do it."""

    item: str
    ids: tuple[str, ...]
    known: list[list[int]]
    found: list[list[int]]
    read: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """Everything that was asked and what came of it; `proposals_left_out` counts attributes that cannot be used, by reason."""

    labels: list[Labelled]
    rewrites: list[Rewritten]
    judgements: list[Judged]
    proposals: list[Proposed]
    proposals_left_out: dict[str, int]
    groupings: list[Grouped]


def ask_all(server: AnswerServer, limit: Limit = None) -> Answered:
    """Ask everything; `limit` takes the first few of each cell, for tests."""
    llm = server.client()
    server.kind = "label"
    labels = [one for bias in EMBEDDED_BIASES for one in _labels(llm, load_bias(bias), limit)]
    rewrites = [one for bias in EMBEDDED_BIASES for one in _rewrites(server, llm, load_bias(bias), limit)]
    server.kind = "judgement"
    judgements = _judgements(llm, limit)
    server.kind = "proposal"
    proposals, left_out = _proposals(llm, limit)
    server.kind = "grouping"
    return Answered(labels, rewrites, judgements, proposals, left_out, _groupings(llm, limit))


def to_label(bias: str) -> list[Contrast]:
    """Ten contrasts of either direction, of other answers than `to_rewrite` takes for this bias."""
    place = (EMBEDDED_BIASES.index(bias) + 1) % len(EMBEDDED_BIASES)
    half = N_EACH // 2
    return [
        *authored_contrasts("audit", [bias])[place :: len(EMBEDDED_BIASES)][:half],
        *authored_contrasts("shown", [bias])[1::2][:half],
    ]


def to_rewrite(bias: str) -> list[tuple[str, RewriteRequest]]:
    """Name and request of twenty additions and twenty removals; every bias takes other `audit` answers."""
    added = authored_contrasts("audit", [bias])[EMBEDDED_BIASES.index(bias) :: len(EMBEDDED_BIASES)][:N_EACH]
    removed = authored_contrasts("shown", [bias])[::2][:N_EACH]
    relative = load_bias(bias).min_words_of_chosen is not None
    return [
        *(
            (_name(one), RewriteRequest(one.prompt, one.base, "add", one.base if relative and place % 2 else None))
            for place, one in enumerate(added)
        ),
        *((_name(one), RewriteRequest(one.prompt, one.perturbed, "remove")) for one in removed),
    ]


def _labels(llm: LLM, bias: Bias, limit: Limit) -> list[Labelled]:
    contrasts = to_label(bias.name)[:limit]
    pairs = [
        Pair(one.prompt, *((one.perturbed, one.base) if place % 2 else (one.base, one.perturbed)))
        for place, one in enumerate(contrasts)
    ]
    found = []
    for contrast, pair, answer in zip(contrasts, pairs, label_pairs(pairs, bias, llm, n_repeats=0), strict=True):
        ids = (request_id(pair_request(bias, pair, answer.shown_first)),)
        for side, label in answer.labels.items():
            found.append(
                Labelled(
                    f"{_name(contrast)}, {side}",
                    ids,
                    bias.name,
                    _direction(contrast),
                    contrast.prompt,
                    pair.side(side) == contrast.perturbed,
                    label,
                    answer.reason,
                )
            )
    return found


def _rewrites(server: AnswerServer, llm: LLM, bias: Bias, limit: Limit) -> list[Rewritten]:
    chosen = to_rewrite(bias.name)
    if limit is not None:
        chosen = [
            one for way in ("add", "remove") for one in [row for row in chosen if row[1].direction == way][:limit]
        ]
    requests = [request for _, request in chosen]
    kept = _Kept(LLMRewriter(llm))
    read: dict[str, bool | None] = {}

    def reader(prompts: Sequence[Prompt], responses: Sequence[str], of: Bias) -> list[bool | None]:
        server.kind = "reading"
        labels = asked_labels(llm, n_repeats=0)(prompts, responses, of)
        read.update(zip(responses, labels, strict=True))
        return labels

    server.kind = "rewrite"
    others = [load_bias(name) for name in EMBEDDED_BIASES]
    outcomes = GatedRewriter(kept, reader, n_repeats=0, others=others).rewrite(requests, bias)
    if bias.label_by != "ask":
        passed = [(one.prompt, out.text) for one, out in zip(requests, outcomes, strict=True) if out.text is not None]
        reader([prompt for prompt, _ in passed], [text for _, text in passed], bias)
    found = []
    for (item, request), written, outcome in zip(chosen, kept.written, outcomes, strict=True):
        ids = (request_id(rewrite_request(request, bias)),)
        by_measure = by_reader = None
        if written.text is not None:
            by_measure = not_flipped(request, written.text, bias) is None
            if written.text in read:
                ids = (*ids, request_id(label_request(bias, request.prompt, written.text)))
                label = read[written.text]
                by_reader = None if label is None else label == (request.direction == "add")
        found.append(
            Rewritten(
                item, ids, bias.name, request.direction, request, written.text, outcome.reason, by_measure, by_reader
            )
        )
    return found


@dataclass
class _Kept:
    """A rewriter whose answers are kept, since the gate returns no text that it rejects."""

    rewriter: LLMRewriter
    written: Sequence[Rewrite] = ()

    @property
    def name(self) -> str:
        return self.rewriter.name

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        self.written = found = self.rewriter.rewrite(requests, bias)
        return found


def _judgements(llm: LLM, limit: Limit) -> list[Judged]:
    pairs = authored_pairs("quality")
    drawn = np.sort(np.random.default_rng(SEED).choice(len(pairs), N_JUDGED, replace=False))
    chosen = [pairs[place] for place in drawn][:limit]
    judge = LLMJudge(llm)
    prompts, sound, flawed = ([getattr(one.pair, side) for one in chosen] for side in ("prompt", "chosen", "rejected"))
    # Both orders have to be read: one of them alone could be a taste for a place.
    judge.both_orders = True
    margins = judge.margin(prompts, sound, flawed)
    return [
        Judged(
            one.item,
            tuple(request_id(judge.request(one.pair.prompt, *sides)) for sides in _both(one.pair)),
            one.pair.prompt,
            None if np.isnan(margin) else float(margin),
        )
        for one, margin in zip(chosen, margins, strict=True)
    ]


def _proposals(llm: LLM, limit: Limit) -> tuple[list[Proposed], dict[str, int]]:
    chosen = _rewarded()[:limit]
    samples = [sample for _, _, sample in chosen]
    rng = np.random.default_rng(SEED)
    found = LLMProposer(llm, k=K, n_repeats=0).propose(samples, K * len(samples), rng)
    attributes: list[list[str]] = [[] for _ in samples]
    for bias, source in zip(found.biases, found.sources, strict=True):
        attributes[source].append(bias.description)
    rows = [Proposed(item, bias, tuple(own)) for (item, bias, _), own in zip(chosen, attributes, strict=True)]
    return rows, dict(found.exclusions.reasons)


def _rewarded() -> list[tuple[str, str, PromptSamples]]:
    """Two prompts for each bias: name, the bias whose feature rewards the responses, and these."""
    found: list[tuple[str, str, PromptSamples]] = []
    material = authored_responses()
    for bias, count in COUNTS.items():
        taken = {item for item, _, _ in found}
        rated = [
            (one.item, bias, PromptSamples(one.prompt, _rated(one.responses, count)))
            for one in material
            if one.item not in taken
        ]
        found += [row for row in rated if len({one.reward for one in row[2].responses}) >= MIN_DISTINCT][:2]
    return found


def _rated(responses: Sequence[str], count: Callable[[str], float]) -> tuple[Rated, ...]:
    return tuple(Rated(text, count(text)) for text in responses)


def _groupings(llm: LLM, limit: Limit) -> list[Grouped]:
    found = []
    for number, groups in enumerate(GROUPS[:limit], 1):
        listed = [(text, place) for place, group in enumerate(groups) for text in group]
        order = np.random.default_rng([SEED, number]).permutation(len(listed))
        biases = [attribute_bias(listed[place][0]) for place in order]
        of = [listed[place][1] for place in order]
        known = [[place for place, group in enumerate(of) if group == one] for one in range(len(groups))]
        grouper = LLMGrouper(llm, n_repeats=0)
        answered = grouper.groups(biases)
        ids = (request_id(group_request(biases)),)
        read = not any(problem.startswith("questions left") for problem in grouper.repairs)
        found.append(Grouped(f"list-{number:02}", ids, sorted(known), answered, read))
    return found


def _both(pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
    return (pair.chosen, pair.rejected), (pair.rejected, pair.chosen)


def _name(contrast: Contrast) -> str:
    return str(contrast.tags["authored"])


def _direction(contrast: Contrast) -> Direction:
    return "add" if contrast.tags["direction"] == "added" else "remove"


def prompt_ids(prompts: Sequence[Prompt]) -> list[str]:
    """Cluster of each row."""
    return [prompt_id(prompt) for prompt in prompts]
