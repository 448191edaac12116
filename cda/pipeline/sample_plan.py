"""The size of an audit that wanted intervals need, in words."""

from __future__ import annotations

from cda.errors import DataError
from cda.stats.sample_size import (
    majority_error,
    prompts_for_effect,
    triples_for_change,
    triples_for_share,
    votes_for_majority,
)


def sample_plan(
    half_width: float,
    share: float,
    flipped: float,
    per_prompt: int,
    within_prompt: float,
    vote_correlation: float,
    tolerated_error: float,
    effect: float = 0.1,
    sd: float = 1.0,
) -> str:
    """Contrasts and votes that a 95% interval of ± `half_width` needs, and prompts that one of ± `effect` needs (unit of `sd`).

    `half_width` is a share, 0 to 0.5; correlations within a prompt (of `per_prompt` contrasts) and of two votes are from 0 to 1;
    `flipped` is the expected share of preferences that change, `tolerated_error` that of majorities which infinitely many votes
    would turn; `sd` is that of margins between prompts. DataError: a number outside its range.
    """
    if per_prompt < 1 or not 0 <= within_prompt <= 1:
        raise DataError(f"{per_prompt} contrasts of one prompt, alike by {within_prompt}: at least 1, and 0 to 1")
    design = 1 + (per_prompt - 1) * within_prompt
    one, change = triples_for_share(half_width, share, design), triples_for_change(half_width, flipped, design)
    votes = votes_for_majority(tolerated_error, vote_correlation)
    error = majority_error(votes, vote_correlation)
    lines = [
        f"{one} contrasts for skew or miscalibration near {share:.0%} ± {100 * half_width:g} points",
        f"{change} contrasts for its change by training ± {100 * half_width:g} points, where {flipped:.0%} of them flip",
        f"{votes} votes a contrast: with fewer, more than {tolerated_error:.0%} of majorities would turn with more votes "
        f"({error:.1%} with {votes})",
        f"{prompts_for_effect(effect, sd)} prompts for a mean margin or a RATE effect ± {effect:g}, where it varies between prompts by an "
        f"SD of {sd:g} (at most sd_margin of audit.json)",
    ]
    if per_prompt > 1:
        lines.append(
            f"{per_prompt} contrasts of one prompt, alike by {within_prompt:g}, count as {per_prompt / design:.1f}"
        )
    return "\n".join(lines)
