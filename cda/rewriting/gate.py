"""The fidelity gate: a rewriter whose rewrites have passed the checks, asked again for those that have not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from cda.biases import Bias
from cda.records import Rewrite, RewriteRequest
from cda.results.facts import GateCounts
from cda.rewriting.asked import Labeller, Resampling, Rewriter
from cda.rewriting.fidelity import ENFORCED, WORDS_WITHIN, Violation, not_flipped, violations


@dataclass
class Gated:
    """A Rewriter whose rewrites have passed the gate; a failed one is asked for again, and is never the unmodified text.

    Attributes:
        rewriter: Writes. Asked again only where it can give another answer (`Resampling`).
        labeller: Labels rewrites of biases that are labelled by asking; None goes by the bias's measure.
        n_repeats: Further answers asked for after a failure.
        words_within: Largest change of the word count, as a share.
        others: Biases whose measured labels are looked after.
        counts: What was found, by bias, since this gate was made: see `report`.
    """

    rewriter: Rewriter
    labeller: Labeller | None = None
    n_repeats: int = 2
    words_within: float = WORDS_WITHIN
    others: Sequence[Bias] = ()
    counts: dict[str, _Counts] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        return self.rewriter.name

    def checks_flips(self, bias: Bias) -> bool:
        """Whether anything says that a rewrite flipped the bias: its measure, or a labeller that is asked about it."""
        return bias.measure is not None or (self.labeller is not None and bias.label_by == "ask")

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        """Rewrite every request; what fails every time is returned with the last failure's reason."""
        counts = self.counts.setdefault(bias.name, _Counts())
        outcomes = [Rewrite(None, "no answer")] * len(requests)
        left = list(range(len(requests)))
        for sample in range(self.n_repeats + 1):
            by = self._sampled(sample)
            if by is None or not left:
                break
            counts.asked += len(left)
            asked = [requests[row] for row in left]
            for row, outcome in zip(left, self._gated(asked, by.rewrite(asked, bias), bias, counts), strict=True):
                outcomes[row] = outcome
            left = [row for row in left if outcomes[row].text is None]
        counts.failed += len(left)
        return outcomes

    def report(self, bias: Bias) -> GateCounts:
        """Calls, rewrites accepted and failed, reasons of every rejected answer, and what accepted ones still drifted in."""
        counts = self.counts.get(bias.name, _Counts())
        return GateCounts(
            asked=counts.asked,
            accepted=counts.accepted,
            failed=counts.failed,
            rejected_answers=dict(sorted(counts.rejected.items())),
            found_in_accepted=dict(sorted(counts.found.items())),
        )

    def _sampled(self, sample: int) -> Rewriter | None:
        if sample == 0:
            return self.rewriter
        return self.rewriter.resampled(sample) if isinstance(self.rewriter, Resampling) else None

    def _gated(
        self, requests: Sequence[RewriteRequest], written: Sequence[Rewrite], bias: Bias, counts: _Counts
    ) -> list[Rewrite]:
        """Each rewrite, or why it is rejected. Only what passes everything else is labelled, since that costs a call."""
        gated = list(written)
        reported: dict[int, list[Violation]] = {}
        asks = self.labeller is not None and bias.label_by == "ask"
        for row, (request, rewrite) in enumerate(zip(requests, written, strict=True)):
            if rewrite.text is None:
                continue
            label: bool | Literal["measure"] = request.direction == "add" if asks else "measure"
            found = violations(
                request, rewrite.text, bias, words_within=self.words_within, others=self.others, relabelled=label
            )
            gated[row], reported[row] = _decided(rewrite, found), found
        passed = [row for row, rewrite in enumerate(gated) if rewrite.text is not None]
        if self.labeller is not None and asks and passed:
            prompts = [requests[row].prompt for row in passed]
            labels = self.labeller(prompts, [gated[row].text or "" for row in passed], bias)
            for row, relabelled in zip(passed, labels, strict=True):
                reason = not_flipped(requests[row], gated[row].text or "", bias, relabelled)
                if reason:
                    reported[row].append(Violation("flipped", reason))
                    gated[row] = _decided(gated[row], [Violation("flipped", reason)])
        for row, rewrite in enumerate(gated):
            if rewrite.text is None:
                counts.rejected[rewrite.reason or "no text"] += 1
            else:
                counts.accepted += 1
                counts.found.update(one.reason for one in reported[row])
        return gated


def _decided(rewrite: Rewrite, found: Sequence[Violation]) -> Rewrite:
    """The rewrite, or the reason of its gravest enforced finding."""
    return next((Rewrite(None, one.reason) for one in found if one.check in ENFORCED), rewrite)


@dataclass
class _Counts:
    asked: int = 0
    accepted: int = 0
    failed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
