"""Claim: a rewrite that is kept has flipped the bias. Rules take out again what they put in, and what they cannot take out of
texts that people or models wrote is counted and left out; a language model's rewrites and the embedded triples flip.

Rules behind the gate: additions to plain answers (`audit` bases, and sound `train` answers that the measure finds without the
bias), the way back of each that was kept, and removals from authored answers with the bias (`audit` and `shown`). A language
model's: the answers in `answers/prompts.jsonl` (prompts_answered.py), by the measure and by the gate's labelling question,
which somebody else answered. Embedded triples: both rewrites, by their blind readers.

Thresholds: at least 95% of the ways back flip by the measure (jargon, sycophancy, structure, length; vagueness 90%); every
rule rewrite that was kept flips by the measure, and every other one has its reason; of authored jargon, sycophancy and
vagueness rules take out less than half; at least 95% of the model's rewrites flip by the reader, and of the triples.

    python -m evals.method.flip_rates      (about two minutes)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cda.biases import Bias, load_bias
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import EMBEDDED_BIASES, authored_contrasts, authored_pairs, authored_triples
from cda.errors import CdaError
from cda.records import Direction, Prompt, RewriteRequest
from cda.rewriting.fidelity import not_flipped
from cda.rewriting.rewriter import GatedRewriter
from evals.method.prompts_answered import KEPT, Cell, asked, kept_answers, rewrite_cells
from evals.shared import Check, finish

BACK = {"length": 0.95, "structure": 0.95, "jargon": 0.95, "sycophancy": 0.95, "vagueness": 0.9}
BEYOND_RULES, OUT = ("jargon", "sycophancy", "vagueness"), 0.5
ANSWERS, TRIPLES = 0.95, 0.95
Json = dict[str, Any]
Text = tuple[Prompt, str]


@dataclass(frozen=True, slots=True)
class Rates:
    """Rewrites by the rules from one source in one direction.

    Attributes:
        requests: What was asked.
        texts: What was kept, None where nothing was; as long as `requests`.
        reasons: Why nothing was kept, with counts.
        n_unflipped: Kept texts that have not flipped by the measure.
    """

    requests: list[RewriteRequest]
    texts: list[str | None]
    reasons: dict[str, int]
    n_unflipped: int

    @property
    def cell(self) -> Cell:
        return Cell("kept", [text is not None for text in self.texts], [one.prompt for one in self.requests])

    @property
    def kept(self) -> list[Text]:
        return [(one.prompt, text) for one, text in zip(self.requests, self.texts, strict=True) if text is not None]

    @property
    def is_accounted_for(self) -> bool:
        """True if all that was kept has flipped, and all else has a reason."""
        return self.n_unflipped == 0 and sum(self.reasons.values()) == self.texts.count(None)

    def to_json(self) -> Json:
        return self.cell.to_json() | {"left out": self.reasons, "kept but not flipped": self.n_unflipped}


def by_rules(bias: Bias, texts: Sequence[Text], direction: Direction) -> Rates:
    """Rewrites of texts by the rules behind the gate, as a run without an LLM makes them."""
    requests = [RewriteRequest(prompt, text, direction) for prompt, text in texts]
    found = GatedRewriter(RuleRewriter()).rewrite(requests, bias)
    unflipped = [
        one.text is not None and not_flipped(request, one.text, bias) is not None
        for request, one in zip(requests, found, strict=True)
    ]
    reasons = Counter(one.reason for one in found if one.reason is not None)
    return Rates(requests, [one.text for one in found], dict(sorted(reasons.items())), sum(unflipped))


def rule_rates(bias: Bias, limit: int | None = None) -> dict[str, Rates]:
    """Additions and their ways back by source, and removals from authored answers by source; `limit` for tests."""
    found: dict[str, Rates] = {}
    plain: dict[str, list[Text]] = {
        "audit": [(one.prompt, one.base) for one in authored_contrasts("audit", [bias.name])],
        "train": [
            (one.pair.prompt, one.pair.chosen)
            for one in authored_pairs("train")
            if bias.name not in one.sound_shows and (bias.name == "length" or not bias.shows(one.pair.chosen))
        ],
    }
    for source, texts in plain.items():
        added = by_rules(bias, texts[:limit], "add")
        found[f"add, {source}"] = added
        found[f"back, {source}"] = by_rules(bias, added.kept, "remove")
    for source in ("audit", "shown"):
        contrasts = authored_contrasts(source, [bias.name])[:limit]  # type: ignore[arg-type]
        found[f"remove, {source}"] = by_rules(bias, [(one.prompt, one.perturbed) for one in contrasts], "remove")
    return found


def together(rates: dict[str, Rates], step: str) -> Cell:
    """All sources of one step."""
    cells = [one.cell for name, one in rates.items() if name.startswith(f"{step}, ")]
    return Cell(step, [hit for one in cells for hit in one.hits], [prompt for one in cells for prompt in one.prompts])


def triple_cells() -> dict[str, Cell]:
    """Embedded triples that flipped by their readers, by bias and what the original has."""
    found = {}
    for bias in EMBEDDED_BIASES:
        for has, name in ((False, "add, then remove"), (True, "remove, then add")):
            own = [one.triple for one in authored_triples([bias]) if one.triple.has_attribute == has]
            found[f"{bias}, {name}"] = Cell(name, [one.flipped is True for one in own], [one.prompt for one in own])
    return found


def main() -> int:
    rules = {name: rule_rates(load_bias(name)) for name in EMBEDDED_BIASES}
    triples = triple_cells()
    try:
        kept = kept_answers()
        rewrites = asked(kept)[0].rewrites
    except CdaError as error:
        print(error, file=sys.stderr)
        return 2
    written = [one for one in rewrites if one.text is not None]
    by_reader, by_measure = (rewrite_cells(written, what) for what in ("by_reader", "by_measure"))
    n_unread = sum(one.by_reader is None for one in written)
    all_rules = [one for rates in rules.values() for one in rates.values()]
    flipped = Cell(
        "triples",
        [hit for one in triples.values() for hit in one.hits],
        [p for one in triples.values() for p in one.prompts],
    )
    checks = [
        *(
            Check(f"{name}: {least:.0%} of the rules' additions taken out again", str(cell), cell.meets(least))
            for name, least in BACK.items()
            for cell in [together(rules[name], "back")]
        ),
        Check("every rule rewrite that was kept flips by the measure, every other one has its reason",
              f"{sum(len(one.kept) for one in all_rules)} kept of {sum(len(one.texts) for one in all_rules)}, "
              f"{sum(one.n_unflipped for one in all_rules)} of them not flipped",
              all(one.is_accounted_for for one in all_rules)),
        *(
            Check(f"{name}: rules take out less than {OUT:.0%} of what authors wrote", str(cell), not cell.meets(OUT))
            for name in BEYOND_RULES
            for cell in [together(rules[name], "remove")]
        ),
        Check(f"{ANSWERS:.0%} of a language model's rewrites flip by the reader",
              f"{by_reader['all']}; {len(rewrites) - len(written)} not written, {n_unread} not read"
              + ("" if kept else f"; {KEPT.name} holds no answers"), by_reader["all"].meets(ANSWERS)),
        Check(f"{TRIPLES:.0%} of the embedded triples flipped by their readers", str(flipped), flipped.meets(TRIPLES)),
    ]  # fmt: skip
    numbers = {
        "rules": {name: {step: one.to_json() for step, one in rates.items()} for name, rates in rules.items()},
        "language model, by the reader": {name: cell.to_json() for name, cell in by_reader.items()},
        "language model, by the measure": {name: cell.to_json() for name, cell in by_measure.items()},
        "language model, not read": n_unread,
        "triples, by their readers": {name: cell.to_json() for name, cell in triples.items()},
    }
    return finish("flip_rates", (__doc__ or "").split("\n\n")[0], checks, numbers)


if __name__ == "__main__":
    sys.exit(main())
