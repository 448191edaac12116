"""`cda samples`: how many contrasts, votes and prompts an interval of the wanted width needs."""

from __future__ import annotations

from typing import Unpack

from cda.errors import DataError
from cda.jobs.options import SampleArguments
from cda.jobs.perform import Job, Made, perform
from cda.results.commands import SampleSizes
from cda.stats import sample_size as needed


def samples(half_width: float, **options: Unpack[SampleArguments]) -> SampleSizes:
    """The numbers, with a line on each for a terminal. DataError: an option outside its range."""
    share, flipped, error = options["share"], options["flipped"], options["majority_error"]
    per_prompt, within, effect, sd = (options[name] for name in ("per_prompt", "within_prompt", "effect", "sd"))
    if per_prompt < 1 or not 0 <= within <= 1:
        raise DataError(f"{per_prompt} contrasts of one prompt, alike by {within}: at least 1, and 0 to 1")
    design = 1 + (per_prompt - 1) * within  # variance of contrasts that share prompts over that of others
    found = SampleSizes(
        contrasts=needed.triples_for_share(half_width, share, design),
        contrasts_for_change=needed.triples_for_change(half_width, flipped, design),
        votes=(votes := needed.votes_for_majority(error, options["vote_correlation"])),
        majority_error=needed.majority_error(votes, options["vote_correlation"]),
        prompts=needed.prompts_for_effect(effect, sd),
    )
    points = f"± {100 * half_width:g} points"
    lines = [
        f"{found.contrasts} contrasts for skew or miscalibration near {share:.0%} {points}",
        f"{found.contrasts_for_change} contrasts for its change by training {points}, where {flipped:.0%} of them flip",
        f"{votes} votes a contrast: with fewer, more than {error:.0%} of majorities would turn with more votes "
        f"({found.majority_error:.1%} with {votes})",
        f"{found.prompts} prompts for a mean margin or a RATE effect ± {effect:g}, where it varies between prompts by an "
        f"SD of {sd:g} (at most sd_margin of audit.json)",
    ]
    if per_prompt > 1:
        lines.append(f"{per_prompt} contrasts of one prompt, alike by {within:g}, count as {per_prompt / design:.1f}")
    plan = [f"prints      the contrasts, votes and prompts that {points} need; reads and writes no file"]
    return perform(Job(lambda: plan, lambda _: Made(found, remark="\n".join(lines))), None)
