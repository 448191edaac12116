"""Audits as the stage writes them, with known numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from changed import changed

from cda.auditing import analysis as analysis_room
from cda.auditing import analysis as judges_room
from cda.auditing import groups as groups_room
from cda.auditing import rate as rate_room
from cda.auditing import shares as result_room
from cda.auditing.groups import Group
from cda.auditing.texts import Triples
from cda.biases import Bias, load_bias
from cda.data.pairs import training_labels
from cda.data.quality_sets import quality_set
from cda.numbers.measures import Material, Rows
from cda.records import Contrast, Exclusions, LabelledPair, Pair, TieRule, Triple, user_prompt
from cda.results.audit import (
    AuditResult,
)
from cda.results.base import PerScoring
from cda.results.benchmarks import SetQuality
from cda.results.effects import BiasAnalysis, BiasEffects, BiasRate, SameMargin
from cda.results.facts import AuditedBias, Example, JudgeFacts, RewardModelFacts, Scorer, Sources
from cda.results.skew import VotedBias
from cda.results.stages import (
    LabelCounts,
    LabelTally,
    Loaded,
    Rewritten,
    SynthesizeCounts,
    TrainCounts,
    TrainingStages,
)
from cda.rewriting.triples import flips_of
from cda.scorers.compared import Preferences, Rewards, as_panel, comparison_id, text_id

Audit = dict[str, Any]
HOSTILE = 'a<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31mred\x1b]8;;http://evil.example\x07\u202egnp.exe\ud800 ``` | "&'
_UNMEASURED = ("dose_applied", "plain", "seeds")


def _bias(name: str) -> Bias:
    return load_bias("jargon").model_copy(update={"name": name})


def _margins(share: float, n: int) -> np.ndarray:
    """n margins of which this share is positive; of several sizes, so that effects have a spread."""
    sizes = 1.0 + 0.1 * (np.arange(n) % 7)
    return np.where(np.arange(n) < round(share * n), sizes, -sizes)


def _contrasts(name: str, n: int, people: float | None, verdicts: bool) -> tuple[Contrast, ...]:
    """n contrasts; with people, three votes each, and 4 ties and 6 without votes at the end; verdicts on all but 2."""
    found = []
    for row in range(n):
        prompt = user_prompt(f"How do I cook dish {row}?")
        base = f"Use pan {row} and stir it slowly until the rice is done, then let it rest for a while."
        side = "perturbed" if people is not None and row < people * (n - 10) else "base"
        votes = () if people is None or row >= n - 6 else ("tie",) * 3 if row >= n - 10 else (side, side, "base")
        tags = {"source": "embedded"} if people is None else {}  # only a file of contrasts can hold votes
        judged = (side,) if verdicts and row < n - 2 else ()
        found.append(Contrast(name, prompt, base.replace("Use", "Utilize"), base, None, votes, judged, tags=tags))  # type: ignore[arg-type]
    return tuple(found)


@cache
def _group(
    name: str, shares: tuple[float, ...], target: bool, people: float | None, unit: str, verdicts: bool, unread: int
) -> Group:
    n = 110 if people is not None else 100
    contrasts = _contrasts(name, n, people, verdicts)
    labelled = zip(_labels(len(shares) == 2), shares, strict=True)
    margins = {label: np.append(_margins(share, 100), np.ones(n - 100)) for label, share in labelled}
    ids = tuple(contrast.prompt[0].content for contrast in contrasts)
    if unit == "preference":  # a judge, which says tie on 20 contrasts
        margins = {label: np.where(np.arange(n) < n - 20, np.sign(one), 0.0) for label, one in margins.items()}
    return Group(_bias(name), target, contrasts, ids, margins, unit, unread)


@cache
def _detail(shares: tuple[float, ...], *made_of: Any) -> tuple[BiasEffects, Any]:
    """Effects and drift of such a group: they take long, and many biases of many audits have the same."""
    group = _group("jargon", shares, True, *made_of)
    (effects,) = analysis_room.effects([group]).values()
    (drift,) = analysis_room.drifts([group]).values()
    return effects, drift


@cache
def _beside_people(ties: TieRule, shares: tuple[float, ...], *made_of: Any) -> VotedBias | None:
    """Votes on such a group; agreement and noise ceiling take long."""
    return groups_room.votes([_group("jargon", shares, True, *made_of)], ties).get("jargon")


def _triples() -> tuple[list[Triple], dict[str, float]]:
    """20 triples of jargon and the rewards of their texts."""
    prompts = [user_prompt(f"How do I cook dish {row}?") for row in range(20)]
    triples = [
        Triple("jargon", prompt, f"first {row}", f"flipped {row}", f"back {row}", row % 2 == 0)
        for row, prompt in enumerate(prompts)
    ]
    scores = {
        text_id(prompt, f"{word} {row}"): float((3 * row + 7 * at) % 11)
        for row, prompt in enumerate(prompts)
        for at, word in enumerate(("first", "flipped", "back"))
    }
    return triples, scores


def _labels(two: bool) -> tuple[str, ...]:
    return ("before", "after") if two else ("model",)


@cache
def _rate(two: bool) -> tuple[dict[str, BiasRate], Material]:
    """RATE of jargon on 20 triples, and the rows of these."""
    triples, scores = _triples()
    scorings = dict.fromkeys(_labels(two), Rewards(scores))
    flips = flips_of([triple.has_attribute for triple in triples], triples, "rules", "measured long word share")
    rate = rate_room.rate(triples, {"jargon": flips}, scorings, 0.5)
    texts: Any = SimpleNamespace(triples=Triples(triples), pairs=())
    return rate, result_room.material([], texts, scorings, by_rules=True)


@cache
def _sections(two: bool) -> SetQuality | None:
    """40 RewardBench pairs of two sections: all right before; after, those of Safety wrong."""
    rows = [
        {"prompt": f"q {row}", "chosen": f"good {row}", "rejected": f"bad {row}", "subset": subset}
        for row, subset in enumerate(["alpacaeval-easy"] * 20 + ["donotanswer"] * 20)
    ]
    found = quality_set(rows, "bench.jsonl")
    right = {text_id(pair.prompt, pair.chosen): 1.0 for pair in found.pairs}
    right |= {text_id(pair.prompt, pair.rejected): 0.0 for pair in found.pairs}
    wrong = right | {text_id(pair.prompt, pair.chosen): -1.0 for pair in found.pairs[20:]}
    scorings = dict(zip(_labels(two), map(Rewards, (right, wrong)), strict=False))
    return result_room.quality_by_section(found, scorings)


def _rows(shares: tuple[float, ...], n: int, unit: str, **at: str) -> Rows:
    margins = dict(zip(_labels(len(shares) == 2), (_margins(share, n) for share in shares), strict=True))
    return Rows(at=at, scored=margins, prompt_ids=[str(row) for row in range(n)], unit=unit)


def _analysis(groups: list[Group], two: bool, ties: TieRule) -> dict[str, BiasAnalysis]:
    prompts, biased = [user_prompt(f"q {row}") for row in range(12)], "Utilize optimal parameters accordingly."
    pairs = [Pair(prompt, biased * (row % 3), f"Use the pan {row} and eat.") for row, prompt in enumerate(prompts)]
    labelled = []
    for row, pair in enumerate(pairs):
        sides = {"chosen": row % 3 == 0, "rejected": row % 4 == 0}
        labelled.append(LabelledPair(pair, "train", {group.bias.name: sides for group in groups}))  # type: ignore[misc]
    labels = {group.bias.name: training_labels(labelled, group.bias.name) for group in groups}
    return analysis_room.analysis(groups, labels if two else {}, ties)  # type: ignore[arg-type]


def _example(bias: str, moved: float, two: bool, text: str = "Use a pan and stir it.") -> Example:
    margins = PerScoring[float](before=1.0, after=1.0 + moved) if two else PerScoring[float](before=moved)
    return Example(
        bias=bias, prompt=f"How do I cook rice ({moved})?", perturbed=text.replace("Use", "Utilize"), base=text,
        margins=margins, preferred="base",
    )  # fmt: skip


def _scored(judge: bool, hostile: str) -> Scorer:
    if judge:
        return JudgeFacts(
            name="llm:gpt-x", kind="judge", comparisons=210, unread=3, half_read=4, flipped=5, position_bias=0.12
        )
    return RewardModelFacts(
        name="embedded" + hostile, kind="reward model", precision="8bit", form="pair", max_length_tokens=512, texts=930,
        truncated=7,
    )  # fmt: skip


def _stages(biases: Iterable[str], label_by: str, hostile: str) -> TrainingStages:
    tally = LabelTally(by=label_by, n=238, both=1, chosen_only=23, rejected_only=6, neither=207, unparsed=1)
    rewritten = Rewritten(
        by="rules", requested=None, eligible=207, tried=207, made=140, supplementary=12,
        rejected={"bias not measurable in the rewrite": 57, "too few places to change": 10},
    )  # fmt: skip
    loaded = Loaded(seen=245, kept=240, dropped={"a side is missing": 5}, used=238)
    mix, kinds = {"train": 127, "validation": 13}, {"counterfactual": 128, "supplementary": 12}
    return TrainingStages(
        label=LabelCounts(pairs=loaded, labels=dict.fromkeys(biases, tally)),
        synthesize=SynthesizeCounts(in_audit={}, biases=dict.fromkeys(biases, rewritten), mix=mix, kinds=kinds),
        train=TrainCounts(train=126, validation=13, truncated=2, identical_after_truncation=1, steps=24, best_step=20,
                          form="pair", notes=(f"A note.{hostile}",), processes=1),
    )  # fmt: skip


def _as_panel(groups: list[Group]) -> Preferences:
    """Three judges with a rubric: the one that the audit is of, one that ties throughout and gives no verdict on the first
    contrast, and one that prefers the other side."""
    margins = {
        comparison_id(one.prompt, one.perturbed, one.base): float(margin)
        for group in groups
        for one, margin in zip(group.contrasts, group.margins["model"], strict=True)
    }
    ties = dict.fromkeys(margins, 0.0) | {next(iter(margins)): float("nan")}
    other = {name: -margin for name, margin in margins.items()}
    judges = {"gpt-x": margins, "gpt<y>": ties, "gpt-z": other}
    rubric = {"accuracy": Preferences(margins), "tone": Preferences(ties)}
    return as_panel({name: Preferences(own, criteria=rubric) for name, own in judges.items()})


def make_audit(
    targets: dict[str, tuple[float, float]] | None = None,
    votes: dict[str, tuple[float, float, float]] | None = None,
    quality: tuple[float, float] | None = (0.75, 0.74),
    others: tuple[str, ...] = ("length", "structure"),
    hostile: str = "",
    by: str = "embedded rules",
    rate: bool = False,
    ties: TieRule = "drop",
    judge: bool = False,
    verdicts: bool = False,
    unread: int = 0,
    panel: bool = False,
    sections: bool = False,
    aim: str | None = None,
) -> AuditResult:
    """An audit: targets as name to (before, after), votes as name to (before, after, people)."""
    targets = {"jargon": (0.88, 0.40)} if targets is None else targets
    two = all(len(shares) == 2 for shares in targets.values())
    people = {name: shares[-1] for name, shares in (votes or {}).items()}
    wanted = {name: (shares, True) for name, shares in targets.items()}
    for name in others:
        wanted[name] = ((0.9, 0.6 if name == "length" else 0.89), False)
    unit = "preference" if judge else "reward"
    made_of = {
        name: ((votes or {}).get(name, (*shares, 0))[:-1], people.get(name), unit, verdicts, unread)
        for name, (shares, _) in wanted.items()
    }
    groups = [_group(name, made_of[name][0], target, *made_of[name][1:]) for name, (_, target) in wanted.items()]
    details = {name: _detail(*one) for name, one in made_of.items()}
    beside = {name: _beside_people(ties, *made_of[name]) for name in sorted(made_of)}
    label_by = "measured long_word_share" if by == "embedded rules" else by
    of_triples = _rate(two)[1] if rate else {}
    rows: Material = {
        "contrasts": [
            Rows(at={"bias": one.bias.name}, scored=one.margins, prompt_ids=one.prompt_ids, unit=unit) for one in groups
        ],
        "unseen phrases": [_rows((0.9, 0.5), 57, unit, bias=next(iter(targets)))] if two else [],
        "triples": of_triples.get("triples", []),
        "texts": [] if judge else of_triples.get("texts", []),
        "quality": [] if quality is None else [_rows(quality, 400, unit)],
    }
    found = {
        "recipe": "joint",
        "panel": {},
        "scorings": ["before", "after"] if two else ["model"],
        "aim": aim,
        "model": _scored(judge, hostile),
        "biases": tuple(AuditedBias(name=name, description=f"Description of {name}.{hostile}") for name in targets),
        "sources": Sources(pairs="embedded", contrasts="embedded", votes=None, verdicts=None, triples=None,
                           quality="embedded" if quality else None, labelled_by=by, rewritten_by=by),
        "skew": result_room.skews(groups, {group.bias.name: len(group) + 20 for group in groups}, {}),
        "votes": {name: one for name, one in beside.items() if one},
        "votes_undecided": groups_room.votes_undecided(groups, ties),
        "measured": result_room.measured_numbers(rows),
        "ties": result_room.tied(rows),
        "quality_unread": unread if quality else 0,
        "effects": {name: effects for name, (effects, _) in details.items()},
        "drift": {name: drift for name, (_, drift) in details.items()},
        "rate": _rate(two)[0] if rate else {},
        "quality_sections": _sections(two) if sections else None,
        "analysis": _analysis([group for group in groups if group.is_target], two, ties),
        "examples": tuple(_example(name, moved, two, hostile + "Use a pan.") for name in targets for moved in (-1.0, -3.0)),
        "excluded": {
            "contrasts": Exclusions(110, {f"of another bias ({hostile or 'tone'})": 10}),
            **({"quality pairs": Exclusions(400, {})} if quality else {}),
        },
        "votes_unmatched": 0,
        "available_quality": 400 + unread if quality else 0,
        "stages": _stages(targets, label_by, hostile) if two else TrainingStages(),
        "versions": {"cda": "0.1.0", "torch": "2.13.0"},
        "seed": 42,
    }  # fmt: skip
    if panel:
        scorings = {"model": _as_panel(groups)}
        found["panel"] = judges_room.panels(groups, scorings, ties)
        found["criteria"] = judges_room.criteria(groups, scorings, ties)
    made = result_room.adjust_for_all_tests(AuditResult(**(dict.fromkeys(_UNMEASURED) | found), n_tests=0))
    json.dumps(made.model_dump(), allow_nan=False)  # as the audit is written
    return made


def tied(audit: AuditResult, name: str) -> AuditResult:
    """The audit with the same score on both sides of every contrast of a bias."""
    n = audit.skew[name].before.n
    none = SameMargin(reason="nothing varies", value=0, n=n, n_prompts=n, p_value=None)
    return cast(AuditResult, changed(audit, f"effects.{name}.before.direct", none))


_ALONE: dict[str, Any] = {"votes": {"jargon": (0.88, 0.45)}, "quality": (0.75,), "others": (), "rate": True}
_TWO_VOTED = {"jargon": (0.88, 0.40, 0.45), "length": (0.9, 0.6, 0.5)}
KINDS: dict[str, dict[str, Any]] = {
    "audit": {},  # one target, no votes
    "voted": {"targets": {"jargon": (0.88, 0.40), "vagueness": (0.70, 0.30)}, "votes": _TWO_VOTED},
    "one_model": {"targets": {"jargon": (0.88,), "vagueness": (0.5,)}, **_ALONE},
    # A judge with ties of its own, where people's ties count half and verdicts stretch their votes.
    "judge": {"targets": {"jargon": (0.88,)}, "ties": "half", "judge": True, "verdicts": True, "unread": 2, **_ALONE},
    "hostile": {"targets": {"jargon": (0.88, 0.40), "ev<i>l\x1b[2J": (0.7, 0.6)}, "hostile": HOSTILE},
}


def fixture_of(name: str) -> Any:
    """A fixture that gives an audit of this kind."""
    return pytest.fixture(name=name)(lambda: make_audit(**KINDS[name]))
