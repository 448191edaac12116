"""Plain CDA beside the result of a run: the headline's measures at dose 1, where another dose was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from cda.metrics.votes import TieRule
from cda.results.skew import Plain
from cda.stages.audit_groups import PLAIN, Group, Scorings, with_plain
from cda.stages.audit_quality import by_section
from cda.stages.audit_result import plain_skew, quality, unseen_phrases
from cda.stages.audit_sources import AuditTexts
from cda.stages.audit_triple_skew import triple_skews
from cda.stages.audit_votes import votes_moved


def plain(groups: Sequence[Group], texts: AuditTexts, scorings: Scorings, rule: TieRule, seed: int) -> Plain | None:
    """Skew, votes and quality before and with all of the adapter, on the rows of the audit; None where that is the result.

    Each measure has the form that it has for the result, with `after` at dose 1. No test of it joins the audit's family.
    """
    if PLAIN not in scorings:
        return None
    found = [with_plain(group) for group in groups]
    two = {"before": scorings["before"], "after": scorings[PLAIN]}
    return Plain(
        skew={group.bias.name: plain_skew(group) for group in found},
        votes=votes_moved(found, rule, seed),
        unseen_phrases=unseen_phrases(found),
        quality=quality(texts.pairs, two),
        quality_sections=by_section(texts.quality, two, seed),
        triple_skew=triple_skews(texts.triples, texts.released_triples, two),
    )
