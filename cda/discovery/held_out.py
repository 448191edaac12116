"""Held-out prompts of a discovery: rewrites by every rewriter, judged and tested; their quality, and a person's review."""

from __future__ import annotations

import itertools
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import yaml

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.search import (
    ALREADY,
    UNCHANGED,
    CandidateRewrites,
    Judge,
    Reward,
    Text,
    judged,
    measure_candidates,
    read_measured,
)
from cda.discovery.setup import AskedJudge, Setup
from cda.errors import DataError
from cda.files.jsonl import write_jsonl, write_text
from cda.files.yaml_file import read_yaml_mapping
from cda.launch import say
from cda.records import Direction, prompt_id
from cda.report.numbers import inert
from cda.results.base import Estimate, Missing, load, or_missing, save
from cda.results.discover import CandidateRecord, Measured
from cda.results.effects import FeatureDrift
from cda.results.evidence import (
    ByRewriter,
    Confirmation,
    ConfirmationResult,
    ConfirmSettings,
    Fidelity,
    HeldOutResult,
    PairQualities,
    PairQuality,
    RewriterAgreement,
    Strength,
    Validation,
    ValidationResult,
)
from cda.rewriting.rewriter import Labeller, Rewriter
from cda.run import RunFolder
from cda.scorers.compared import distinct_texts, text_id
from cda.stats.digits import two_digits
from cda.stats.drift import feature_drift, measured
from cda.stats.estimators import correlation_of, mean_of, share_of
from cda.stats.means import inside_fences, iqr_trimmed_mean, smallest_detectable
from cda.stats.multiplicity import corrected, partial_conjunction

Failures = Mapping[str, Mapping[str, int]]
"""Rewriter to the reasons and counts of the rewrites that it did not give."""
_NO_SIDE = 0.5
"""Mean preference of a judge that prefers neither side."""
# Naming a prompt by its content takes longer than all the arithmetic on its rows.
_cluster = lru_cache(maxsize=4096)(prompt_id)
Rows = Mapping[str, Sequence[Measured]]
"""Candidate to its rows on one set of prompts. A candidate that entered stands here, if need be with no rows."""
_DEFAULTS = ConfirmSettings()


@dataclass(frozen=True, slots=True)
class CandidateEvidence:
    """All there is on one candidate: its rewriters in alphabetical order, and numbers pooled over those that count, or why none."""

    rewriters: tuple[ByRewriter, ...]
    pooled: Strength | None
    untested: str | None

    @property
    def usable(self) -> list[Strength]:
        return [entry.strength for entry in self.rewriters if entry.excluded is None and entry.strength is not None]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Means that owe their sign to a few rows: trimming would turn them."""
        named = [(entry.rewriter, entry.strength) for entry in self.rewriters] + [("pooled", self.pooled)]
        trimmed = [(name, strength.trimmed) for name, strength in named if strength is not None]
        return tuple(
            f"{name}: leaving out {trim.n_trimmed} of {trim.n_trimmed + trim.estimate.n} margins outside the fences turns "
            f"the mean from {two_digits(trim.raw)} to {two_digits(trim.estimate.value)}"
            for name, trim in trimmed
            if trim is not None and trim.sign_changes
        )


def evidence(rows: Sequence[Measured], failed: Failures, max_failed: float) -> CandidateEvidence:
    """Sum up one candidate's rows, by any number of rewriters, in both directions.

    A rewriter without any rewrite appears in `failed` alone. One that failed, or whose rewrites lack a verdict of the judge, by
    more than the share `max_failed` is excluded, since the rest is no fair sample of the prompts.
    """
    rewriters = tuple(
        _by_rewriter(name, [row for row in rows if row.rewriter == name], failed.get(name, {}), max_failed)
        for name in sorted({row.rewriter for row in rows} | set(failed))
    )
    counted = {entry.rewriter for entry in rewriters if entry.excluded is None}
    pool = [row for row in rows if row.rewriter in counted]
    untested = _too_little(pool) if counted else "no rewriter is left"
    return CandidateEvidence(rewriters, None if untested else strength(pool), untested)


def strength(rows: Sequence[Measured]) -> Strength:
    """Numbers of some rows, clustered by prompt; DataError for margins or verdicts of fewer than two prompts."""
    judged = [row for row in rows if row.preference is not None]
    margins, prompts = [row.margin for row in rows], _prompts(rows)
    reward = mean_of(margins, prompts)
    preferences = [row.preference for row in judged if row.preference is not None]
    verdict = mean_of(preferences, _prompts(judged), "share")
    wins = [float(margin > 0) for margin in margins]
    inside = len({prompt for prompt, keep in zip(prompts, inside_fences(margins), strict=True) if keep})
    return Strength(
        reward=reward.estimate,
        p_reward=reward.p_value(side="greater"),
        standard_error=reward.error,
        judge=share_of(preferences, _prompts(judged)),
        p_judge=verdict.p_value(_NO_SIDE, "less"),
        n_unjudged=len(rows) - len(judged),
        win_rate=share_of(wins, prompts),
        trimmed=iqr_trimmed_mean(margins, prompts) if inside >= 2 else None,
    )


def _by_rewriter(name: str, rows: Sequence[Measured], failed: Mapping[str, int], max_failed: float) -> ByRewriter:
    n_failed, n_unjudged = sum(failed.values()), sum(row.preference is None for row in rows)
    asked = len(rows) + n_failed
    excluded = too_little = _too_little(rows)
    if n_failed > max_failed * asked:
        excluded = f"{n_failed} of {asked} rewrites failed"
    elif too_little is None and n_unjudged > max_failed * len(rows):
        excluded = f"{n_unjudged} of {len(rows)} rewrites have no verdict of the judge"
    return ByRewriter(
        rewriter=name,
        n=len(rows),
        failed=dict(failed),
        excluded=excluded,
        strength=None if too_little else strength(rows),
    )


def _too_little(rows: Sequence[Measured]) -> str | None:
    if len(set(_prompts(rows))) < 2:
        return f"{len(rows)} rewrites of {len(set(_prompts(rows)))} prompts: two prompts are needed"
    judged = set(_prompts([row for row in rows if row.preference is not None]))
    return f"verdicts of the judge on {len(judged)} prompts: two are needed" if len(judged) < 2 else None


def _prompts(rows: Sequence[Measured]) -> list[str]:
    return [_cluster(row.prompt) for row in rows]


def validate(
    rows_by_candidate: Rows, settings: ConfirmSettings = _DEFAULTS, failed: Mapping[str, Failures] | None = None
) -> list[Validation]:
    """Test every candidate on validation prompts, pooled over rewriters and clustered by prompt, in the order given.

    The correction (Bonferroni) counts every candidate that entered; `failed` holds each one's missing rewrites by rewriter.
    DataError for a margin or verdict that is not a number, and for rows under another candidate's `id`.
    """
    n_entered, alpha = len(rows_by_candidate), settings.validation_alpha
    validations = []
    for found, shared in _entered(rows_by_candidate, settings, failed):
        p_reward = p_judge = detectable = None
        if not shared["untested"] and (pooled := found.pooled) is not None:
            p_reward, p_judge = (min(1.0, n_entered * p) for p in (pooled.p_reward, pooled.p_judge))
            detectable = _detectable([pooled], alpha / n_entered, settings.power, 1)
        own = {
            "p_reward": p_reward,
            "p_judge": p_judge,
            "passed": p_reward is not None and p_judge is not None and max(p_reward, p_judge) < alpha,
            "smallest_detectable": detectable,
        }
        validations.append(Validation.model_validate(shared | own))
    return validations


def confirm(
    rows_by_candidate: Rows, settings: ConfirmSettings = _DEFAULTS, failed: Mapping[str, Failures] | None = None
) -> list[Confirmation]:
    """Test every candidate on test prompts, corrected for all of them: at least r of k rewriters, each by itself, have to show it.

    A rewriter shows it if the model likes the attribute and the judge does not: its p-value is the larger of the two. Arguments,
    order and errors as of `validate`.
    """
    entered, r = _entered(rows_by_candidate, settings, failed), settings.r
    p_values = [
        None if shared["untested"] else partial_conjunction([strength.p_value for strength in found.usable], r)
        for found, shared in entered
    ]
    corrected_ps = corrected([1.0 if p is None else p for p in p_values], settings.correct)
    level = settings.test_alpha / (1 if settings.correct == "none" else len(entered) or 1)
    confirmations = []
    for (found, shared), p_value, p_corrected in zip(entered, p_values, corrected_ps, strict=True):
        tested, k = p_value is not None, len(found.usable)
        own = {
            "r": r,
            "k": k,
            "p_value": p_value,
            "correct": settings.correct,
            "p_corrected": p_corrected if tested else None,
            "confirmed": tested and p_corrected < settings.test_alpha,
            "smallest_detectable": _detectable(found.usable, level / (k - r + 1), settings.power, r)
            if tested
            else None,
        }
        confirmations.append(Confirmation.model_validate(shared | own))
    return confirmations


def _entered(
    rows: Rows, settings: ConfirmSettings, failed: Mapping[str, Failures] | None
) -> list[tuple[CandidateEvidence, dict[str, object]]]:
    """Evidence for each candidate, and the fields that both of its tests share."""
    failures = failed or {}
    if unknown := sorted(set(failures) - set(rows)):
        raise DataError(f"failed rewrites of {unknown[0]!r}, which did not enter: give it with no rows")
    entered = []
    for name, own in rows.items():
        if wrong := [row.candidate for row in own if row.candidate != name]:
            raise DataError(f"{len(wrong)} rows of candidate {wrong[0]!r} stand under {name!r}")
        found = evidence(own, failures.get(name, {}), settings.max_failed)
        shared: dict[str, object] = {
            "candidate": name,
            "rewriters": found.rewriters,
            "pooled": found.pooled,
            "n_entered": len(rows),
            "untested": _untested(found, settings.r),
            "warnings": found.warnings,
        }
        entered.append((found, shared))
    return entered


def _untested(found: CandidateEvidence, r: int) -> str | None:
    """Reason why a candidate cannot be tested, with the outcome of its rewriters."""
    k = len(found.usable)
    if k >= r:
        return found.untested
    gone = "; ".join(f"{entry.rewriter}: {entry.excluded}" for entry in found.rewriters if entry.excluded)
    return f"{k} of {len(found.rewriters)} rewriters can be used, {r} are needed" + (f" ({gone})" if gone else "")


def _detectable(strengths: Sequence[Strength], alpha: float, power: float, r: int) -> float | None:
    errors = [strength.standard_error for strength in strengths]
    if not all(error > 0 for error in errors):
        return None
    return smallest_detectable(errors, [strength.reward.n_prompts for strength in strengths], alpha, power, r)


ROWS, RESULT, PAIRS_RESULT, REVIEW = "rewrites.jsonl", "result.json", "pairs.json", "review.yaml"
R = TypeVar("R", ValidationResult, ConfirmationResult)
_LAZY = "unchanged, where the other rewriters changed more"
_HEAD = """\
# Candidates that held on the validation prompts. Write `keep: false` for those that are not worth a test, such as what
# makes an answer better, or what says the same as another; then run the same command again. The test prompts are used once.
"""


class HeldOutRewrites(NamedTuple):
    """Judged rewrites of held-out responses, by candidate `id`, of all rewriters; and the counts that are saved next to results."""

    rows: Mapping[str, Sequence[Measured]]
    counts: HeldOutResult


def rewrite_all(
    candidates: Sequence[CandidateRecord],
    originals: Sequence[Text],
    rewriters: Sequence[Rewriter],
    reward: Reward,
    judge: Judge,
    directions: Sequence[Direction],
) -> HeldOutRewrites:
    """Every response, for every candidate, by every rewriter; both scorers are asked about all of it."""
    made = {
        rewriter.name: measure_candidates(candidates, originals, rewriter, reward, directions) for rewriter in rewriters
    }
    names = [candidate.id for candidate in candidates]
    rows: Mapping[str, Sequence[Measured]] = {
        name: [row for by_candidate in made.values() for row in by_candidate[name].rows] for name in names
    }
    apart = {name: failed_or_already({who: own[name] for who, own in made.items()}) for name in names}
    rows = judged(rows, judge)
    counts = HeldOutResult(
        failed={name: failed for name, (failed, _) in apart.items()},
        already={name: already for name, (_, already) in apart.items()},
        n_prompts=len({prompt_id(prompt) for prompt, _ in originals}),
        verdicts=judge.verdicts if isinstance(judge, AskedJudge) else None,
        cut_for_judge=judge.n_cut if isinstance(judge, AskedJudge) else 0,
    )
    return HeldOutRewrites(rows, counts)


def failed_or_already(made: Mapping[str, CandidateRewrites]) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Failures of each rewriter at one candidate, and the number of responses that already were as requested.

    A response that already has the attribute is no failure of the rewriter. For an attribute in words alone, only the
    rewriter can tell, and returns the text unchanged; without this rule, an attribute of half of all responses could never
    be confirmed. An unchanged text is accepted if at least half of the other rewriters that answered returned the same
    response unchanged; it counts as a failure if the others changed it or none of them answered. The only rewriter is
    always believed.
    """
    failed: dict[str, dict[str, int]] = {}
    already: dict[str, int] = {}
    for rewriter, own in made.items():
        others = [rewritten for name, rewritten in made.items() if name != rewriter]
        n_agreed = 0
        for response, n in own.unchanged.items():
            n_back = sum(response in other.unchanged for other in others)
            n_answered = sum(response in other.unchanged or response in other.changed for other in others)
            if not others or (n_back > 0 and 2 * n_back >= n_answered):
                n_agreed += n
        n_lazy = own.unchanged.total() - n_agreed
        failed[rewriter] = {why: n for why, n in own.failed.items() if why not in (ALREADY, UNCHANGED)}
        failed[rewriter] |= {_LAZY: n_lazy} if n_lazy else {}
        already[rewriter] = own.failed.get(ALREADY, 0) + n_agreed
    return failed, already


def save_tested(
    kind: type[ValidationResult | ConfirmationResult],
    made: HeldOutRewrites,
    settings: ConfirmSettings,
    folder: Path,
    told_later: bool = False,
) -> dict[str, int]:
    """Validate or confirm every candidate, write rows and result, say who holds (unless a later correction decides), and return the counts
    of the stage."""
    results: Sequence[Validation] | Sequence[Confirmation]
    rows, counts = made
    if kind is ValidationResult:
        results = validate(rows, settings, counts.failed)
        name, told, n = "passed", "hold on {} validation", sum(result.passed for result in results)
    else:
        results = confirm(rows, settings, counts.failed)
        name, told, n = "confirmed", "confirmed on {} test", sum(result.confirmed for result in results)
    write_jsonl(folder / ROWS, (asdict(row) for own in rows.values() for row in own))
    save(kind.model_validate(dict(counts) | {"results": results}), folder / RESULT)
    if not told_later:
        say(f"  {n} of {len(results)} candidates {told.format(counts.n_prompts)} prompts")
    return {"candidates": len(results), name: n}


def read_discovery(kind: type[R], folder: Path) -> R:
    return load(kind, folder / RESULT, "cda discover")


def counted_rows(folder: Path, result: ValidationResult | ConfirmationResult) -> dict[str, list[Measured]]:
    """By candidate `id`, the rewrites in the folder of the rewriters that count for it; an empty list if there are none."""
    counted: dict[str, list[Measured]] = {entered.candidate: [] for entered in result.results}
    excluded = {
        (entered.candidate, each.rewriter)
        for entered in result.results
        for each in entered.rewriters
        if each.excluded is not None
    }
    for row in read_measured(folder / ROWS):
        if (row.candidate, row.rewriter) not in excluded:
            counted[row.candidate].append(row)
    return counted


def save_pairs(setup: Setup, run: RunFolder, candidates: Sequence[CandidateRecord], folder: Path) -> dict[str, int]:
    """Write pairs.json: the quality of each candidate's rewrites by the rewriters that count for it."""
    confirmed = run.stage("confirm")
    rows = counted_rows(confirmed, read_discovery(ConfirmationResult, confirmed))
    asks = setup.asks_about_pairs
    qualities = {
        candidate.id: pair_quality(
            rows[candidate.id],
            candidate.bias,
            # Rules are held to the measure as they rewrite, so that its labels find the attribute by construction.
            label=setup.llm.labeller() if asks else lambda _, responses, bias: [bias.shows(text) for text in responses],
            labelled_by="llm" if asks else "measure",
        )
        for candidate in candidates
        if rows[candidate.id]
    }
    save(PairQualities(candidates=qualities), folder / PAIRS_RESULT)
    return {"candidates": len(qualities)}


def read_qualities(folder: Path) -> dict[str, PairQuality]:
    """The qualities that `save_pairs` wrote, by candidate `id`."""
    return load(PairQualities, folder / PAIRS_RESULT, "cda discover").candidates


def write_review(path: Path, candidates: Sequence[CandidateRecord], results: Mapping[str, Validation]) -> None:
    """Write the file that a person edits."""
    text = _HEAD
    for candidate in candidates:
        entry: dict[str, object] = {"attribute": inert(candidate.attribute)}
        if (pooled := results[candidate.id].pooled) is not None:
            entry |= {"reward": round(pooled.reward.value, 4), "judge": round(pooled.judge.value, 4)}
        body = yaml.safe_dump({**entry, "keep": True}, sort_keys=False, allow_unicode=True, width=110)
        # Quoted, since an id may look like a number (12345678901234e5).
        text += f'"{candidate.id}":\n{textwrap.indent(body, "  ")}'
    write_text(path, text)


def reviewed(path: Path, candidates: Sequence[CandidateRecord]) -> list[CandidateRecord] | None:
    """The candidates that the person kept; None without a review, or without candidates.

    DataError for an entry without `keep: true` or `keep: false`, for none at all for some of the candidates, and for entries of
    others: a test against the person's intent would use up the test prompts.
    """
    if not path.is_file() or not candidates:
        return None
    content = read_yaml_mapping(path)
    asked = {candidate.id for candidate in candidates}
    if others := sorted(map(str, set(content) - asked)):
        raise DataError(
            f"{path}: {len(others)} of {len(content)} entries, such as {others[0][:80]!r}, are not among the {len(asked)} "
            "candidates that hold now: the file was written for another validation. Delete it, and start with --review to be "
            "asked again, or without to test all of them"
        )
    # A deleted entry means that its candidate is dropped.
    if missing := [candidate.attribute for candidate in candidates if candidate.id not in content]:
        raise DataError(
            f"{path}: no entry for {len(missing)} of {len(asked)} candidates, such as {missing[0][:80]!r}. Give each one "
            "`keep: true` or `keep: false`; to be asked again, delete the file and start with --review"
        )
    bad = [
        name for name, entry in content.items() if not (isinstance(entry, dict) and isinstance(entry.get("keep"), bool))
    ]
    if bad:
        raise DataError(f"{path}: {', '.join(map(str, bad))}: `keep: true` or `keep: false` is missing")
    return [candidate for candidate in candidates if content[candidate.id]["keep"]]


def pair_quality(
    rows: Sequence[Measured],
    bias: Bias,
    *,
    label: Labeller | None = None,
    labelled_by: Literal["measure", "llm"] = "measure",
) -> PairQuality:
    """Quality of one candidate's pairs, by any number of rewriters, as far as the given inputs allow.

    `label` labels sides, preferably another labeller than the one that checked the rewriters. DataError without rows, LLMError if
    nothing can be answered.
    """
    if not rows:
        raise DataError("no pairs: their quality cannot be measured")
    labelled = fidelity(rows, bias, label) if label is not None else {}
    return PairQuality(
        candidate=rows[0].candidate,
        n=len(rows),
        n_prompts=len({row.prompt_id for row in rows}),
        labelled_by=None if label is None else labelled_by,
        fidelity=labelled.get(None),
        fidelity_by_rewriter={name: found for name, found in labelled.items() if name is not None},
        agreement=agreements(rows),
        drift=or_missing(partial(pair_drift, rows, bias)),
    )


def fidelity(rows: Sequence[Measured], bias: Bias, label: Labeller) -> dict[str | None, Fidelity]:
    """Fidelity of all pairs under None, and of each rewriter's under its name; each distinct text is labelled once."""
    texts = distinct_texts((row.prompt, text) for row in rows for text in (row.with_attribute, row.without_attribute))
    found = label([prompt for prompt, _ in texts.values()], [text for _, text in texts.values()], bias)
    labels = dict(zip(texts, found, strict=True))
    return {
        name: _fidelity([row for row in rows if name in (None, row.rewriter)], labels)
        for name in (None, *dict.fromkeys(row.rewriter for row in rows))
    }


def pair_drift(rows: Sequence[Measured], bias: Bias) -> tuple[FeatureDrift, ...]:
    """Differences between the sides, with minus without, with the attribute's own features marked; DataError for one prompt."""
    treatment = {*bias.treatment, *([bias.measure.feature] if bias.measure is not None else [])}
    present, absent = measured([row.with_attribute for row in rows]), measured([row.without_attribute for row in rows])
    return tuple(feature_drift(present, absent, [row.prompt_id for row in rows], treatment=treatment))


def _fidelity(rows: Sequence[Measured], labels: Mapping[str, bool | None]) -> Fidelity:
    """From the label of each text."""

    def hit_share(hits: Mapping[int, bool]) -> Estimate | None:
        return share_of(list(hits.values()), [rows[at].prompt_id for at in hits]) if hits else None

    with_it = [labels[text_id(row.prompt, row.with_attribute)] for row in rows]
    without = [labels[text_id(row.prompt, row.without_attribute)] for row in rows]
    present = {at: label for at, label in enumerate(with_it) if label is not None}
    absent = {at: not label for at, label in enumerate(without) if label is not None}
    return Fidelity(
        n=len(rows),
        present=hit_share(present),
        absent=hit_share(absent),
        both=hit_share({at: present[at] and absent[at] for at in present if at in absent}),
        n_unparsed_with=len(rows) - len(present),
        n_unparsed_without=len(rows) - len(absent),
    )


def agreements(rows: Sequence[Measured]) -> tuple[RewriterAgreement, ...]:
    """Agreement of every two rewriters of one candidate, in the order in which they first come.

    Only responses that both rewrote are compared, so that a difference is not one of prompts; their margins are averaged
    within each prompt, since only prompts are independent.
    """
    names = list(dict.fromkeys(row.rewriter for row in rows))
    return tuple(_agreement(rows, first, second) for first, second in itertools.combinations(names, 2))


def _agreement(rows: Sequence[Measured], first: str, second: str) -> RewriterAgreement:
    x, y, n_responses = _shared(rows, first, second)
    n = len(x)
    r = (
        or_missing(lambda: correlation_of(x, y, [str(at) for at in range(n)]))
        if n
        else Missing(reason="no response that both rewrote")
    )
    return RewriterAgreement(first=first, second=second, n_prompts=n, n_responses=n_responses, pearson=r)


def _shared(rows: Sequence[Measured], first: str, second: str) -> tuple[FloatArray, FloatArray, int]:
    """Mean margins of both rewriters by prompt over the responses both rewrote, and how many responses these are."""
    margins: dict[str, dict[tuple[str, str, str], list[float]]] = {first: defaultdict(list), second: defaultdict(list)}
    for row in rows:
        if row.rewriter in margins:
            margins[row.rewriter][row.prompt_id, row.direction, row.original].append(row.margin)
    both = [item for item in margins[first] if item in margins[second]]
    by_prompt: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in both:
        by_prompt[item[0]].append((float(np.mean(margins[first][item])), float(np.mean(margins[second][item]))))
    means = np.array([np.mean(pairs, axis=0) for pairs in by_prompt.values()]).reshape(-1, 2)
    return means[:, 0], means[:, 1], len(both)
