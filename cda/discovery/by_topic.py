"""A discovery by topic: one search in each topic, then each topic's attributes on the test prompts of all others.

runs/discover-my-model-by_topic/
    material/            prompts, responses and rewards of all topics, each split by itself
    topics/TOPIC/        a whole discovery each (see `discover`), and carried/: attributes of other topics on its test prompts
    topics.json, topics.md, report.html
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cda.discovery.attribute import bias_yaml, opposite_bias, with_short_name
from cda.discovery.discover import Discovered, DiscoveryRun
from cda.discovery.discovery_result import BIASES, CARRIED, earlier_tests, named_as_asked, stage_run
from cda.discovery.held_out import REVIEW, ROWS, confirm, read_discovery
from cda.discovery.material import material_counts, read_material, topics_made
from cda.discovery.search import read_measured
from cda.discovery.setup import FOLDER, topic_folder
from cda.files.jsonl import write_text
from cda.files.paths import own_folder
from cda.jobs.perform import Job, Made, Within, perform
from cda.launch import say
from cda.provenance import versions
from cda.report.numbers import n_of
from cda.results.base import Missing, Test, or_missing
from cda.results.discover import (
    CandidateRecord,
    Decision,
    DiscoverResult,
    Measured,
    SearchFacts,
    TopicAttribute,
    TopicCell,
    TopicMaterial,
    TopicSearch,
    TopicsResult,
)
from cda.results.effects import Heterogeneity
from cda.results.evidence import Confirmation, ConfirmationResult, ConfirmSettings
from cda.results.facts import StageRun
from cda.stats.levels import heterogeneity
from cda.stats.multiplicity import corrected, holm_of

Failed = dict[str, dict[str, dict[str, int]]]
"""Candidate to rewriter to the reasons and counts of missing rewrites."""


@dataclass(frozen=True, slots=True)
class HeldOutTests:
    """Tests on one topic's test prompts, by candidate `id`, with the rewrites behind them."""

    results: Mapping[str, Confirmation]
    rows: Mapping[str, Sequence[Measured]]
    failed: Failed


@dataclass(frozen=True, slots=True)
class TopicTests:
    """All that was tested in one topic: what it found itself (or was given), and what was carried over to it."""

    found: HeldOutTests
    carried: HeldOutTests

    def rows(self, candidate: str) -> Sequence[Measured]:
        return self.found.rows.get(candidate) or self.carried.rows.get(candidate) or ()

    def failed(self, candidate: str) -> Mapping[str, Mapping[str, int]]:
        return self.found.failed.get(candidate) or self.carried.failed.get(candidate) or {}


def run_by_topic(run: DiscoveryRun, given: Sequence[CandidateRecord], review: bool) -> Made[TopicsResult | str]:
    """Search (or measure what is given) in each topic by itself, carry attributes over, and write everything."""
    run.material()
    counts = topics_made(run.asked.folder.stage("material"))
    runs = {topic: DiscoveryRun(replace(run.asked, topic=topic)) for topic in counts.prompts}
    found: dict[str, DiscoverResult] = {}
    waiting: list[Path] = []
    for at, (topic, own) in enumerate(runs.items(), 1):
        say(f"\ntopic {at} of {len(runs)}: {topic}")
        job: Job[Discovered] = Job(list, partial(own.found, given, review), Within(own.asked.folder.path))
        discovered = perform(job, own.asked.loaded)
        if isinstance(discovered, DiscoverResult):
            found[topic] = discovered
        else:
            waiting.append(own.asked.folder.path / REVIEW)
    if waiting:
        files = "\n  ".join(map(str, waiting))
        return Made(
            f"candidates to review in {n_of(len(waiting), 'topic')}; edit, then run the same command again:\n  {files}"
        )
    chosen = attributes_to_carry(found, run.asked.setup.section.carried)
    tests = {topic: _tests(own, found[topic], chosen) for topic, own in runs.items()}
    result = _with_files(topics_result(run, counts, found, chosen, tests), chosen, run.asked.folder.path)
    return Made(result, {f"{FOLDER}/": None}, names=named_as_asked(run.asked))


def attributes_to_carry(found: Mapping[str, DiscoverResult], most: int) -> dict[str, CandidateRecord]:
    """Attributes that are measured in every topic, by `id`: all that were given, or the first of each topic's.

    They are chosen among those that entered a topic's test by their validation numbers, so that nothing is selected on the test
    prompts that the table reports.
    """
    chosen: dict[str, CandidateRecord] = {}
    for result in found.values():
        tested = {entry.candidate for entry in result.tested}
        rewards = {row.candidate: row.pooled.reward.value for row in result.validated if row.pooled}
        ranked = sorted(tested, key=lambda name: (-rewards.get(name, 0.0), name))
        for name in ranked if result.given else ranked[:most]:
            chosen.setdefault(name, result.candidates[name])
    return chosen


def _tests(run: DiscoveryRun, own: DiscoverResult, chosen: Mapping[str, CandidateRecord]) -> TopicTests:
    """The topic's own tests, and those of attributes that are carried over to it, which are made here."""
    there = {entry.candidate for entry in own.tested}
    carried = [candidate for name, candidate in chosen.items() if name not in there]
    if carried:
        say(f"\n{n_of(len(carried), 'attribute')} of other topics in: {run.asked.topic}")
        run.tested(ConfirmationResult, carried, read_material(run.asked.folder.stage("material"))["test"], carried=True)
    folder = run.asked.folder
    nothing = HeldOutTests({}, {}, {})
    return TopicTests(
        _read(folder.stage("confirm")) if there else nothing, _read(folder.stage(CARRIED)) if carried else nothing
    )


def _read(folder: Path) -> HeldOutTests:
    result = read_discovery(ConfirmationResult, folder)
    rows: dict[str, list[Measured]] = {entry.candidate: [] for entry in result.results}
    for row in read_measured(folder / ROWS):
        rows[row.candidate].append(row)
    return HeldOutTests({entry.candidate: entry for entry in result.results}, rows, result.failed)


def topics_result(
    run: DiscoveryRun,
    counts: TopicMaterial,
    found: Mapping[str, DiscoverResult],
    chosen: Mapping[str, CandidateRecord],
    tests: Mapping[str, TopicTests],
) -> TopicsResult:
    """The result over all topics; bias files are written later."""
    first, folder = next(iter(found.values())), run.asked.folder
    tested = {entry.candidate for result in found.values() for entry in result.tested}
    whole = {name: getattr(first, name) for name in SearchFacts.model_fields if name != "schema_version"} | {
        "material": material_counts(folder.stage("material")),
        "versions": versions(),
        "stages": {"material": stage_run(folder, "material")} | _stages(run, found),
    }
    return TopicsResult(
        **whole,
        **counts.model_dump(include={"left_out", "n_left_out", "n_without"}),
        searches=tuple(_search(run, topic, result, tests[topic]) for topic, result in found.items()),
        by_attribute=by_attribute(chosen, tests, run.asked.setup.strictness),
        n_not_carried=len(tested - set(chosen)),
    )


def _search(run: DiscoveryRun, topic: str, result: DiscoverResult, tests: TopicTests) -> TopicSearch:
    folder = replace(run.asked, topic=topic).folder
    return TopicSearch(
        topic=topic,
        folder=f"{FOLDER}/{topic_folder(topic)}",
        prompts=result.material.prompts,
        n_candidates=len({row.candidate for generation in result.generations for row in generation.standings}),
        n_validated=len(result.validated),
        n_tested=len(result.tested),
        n_confirmed=sum(entry.confirmed for entry in result.tested),
        n_carried_in=len(tests.carried.results),
        # A search that is made again makes both again.
        earlier_tests=max(result.earlier_tests, earlier_tests(folder, CARRIED) if tests.carried.results else 0),
    )


def _stages(run: DiscoveryRun, found: Mapping[str, DiscoverResult]) -> dict[str, StageRun]:
    """Those of each topic, with the measurement of carried attributes."""
    stages: dict[str, StageRun] = {}
    for topic, result in found.items():
        folder = replace(run.asked, topic=topic).folder
        names = [name for name in result.stages if name != "material"] + [CARRIED] * bool(folder.record(CARRIED))
        stages |= {f"{topic}: {name}": stage_run(folder, name) for name in names}
    return stages


def by_attribute(
    chosen: Mapping[str, CandidateRecord], tests: Mapping[str, TopicTests], settings: ConfirmSettings
) -> tuple[TopicAttribute, ...]:
    """Every chosen attribute in every topic and over all of them, with its decisions; the widest spread first."""
    if not chosen:
        return ()
    cells = {topic: _cells(topic, own, chosen, settings) for topic, own in tests.items()}
    over_all = _corrected_over_all(tests, settings)
    pooled = {entry.candidate: entry for entry in _pooled(chosen, tests, settings)}
    rows = []
    for name, candidate in chosen.items():
        own = [cells[topic][name].model_copy(update={"p_over_all": over_all.get((topic, name))}) for topic in tests]
        whole = pooled[name]
        rows.append(
            TopicAttribute(
                candidate=name,
                name=candidate.bias.name,
                attribute=candidate.attribute,
                short_name=candidate.bias.short_name,
                found_in=tuple(
                    topic for topic, each in tests.items() if name in each.found.results and candidate.origin != "given"
                ),
                levels=tuple(own),
                together=_cell(
                    "all topics together", whole, True, whole.p_corrected, whole.n_entered, settings.test_alpha
                ),
                differ={"model": _differs(own)},
            )
        )
    return tuple(sorted(_adjusted(rows), key=_order))


def _order(row: TopicAttribute) -> tuple[int, float]:
    rewards = [reward.value for cell in row.levels if (reward := cell.of("reward", "model"))]
    return -len(row.in_topics("confirmed", "shared", "opposite")), -max(rewards, default=0.0)


def _cells(
    topic: str, tests: TopicTests, chosen: Mapping[str, CandidateRecord], settings: ConfirmSettings
) -> dict[str, TopicCell]:
    """Decisions of one topic: its own tests are corrected as it reports them; those of carried attributes, in both directions, among
    themselves. Attributes that were given get the other direction, too."""
    turned = [name for name in chosen if name in tests.carried.results or chosen[name].origin == "given"]
    same = [name for name in turned if name in tests.carried.results]
    opposite = _opposite({name: tests.rows(name) for name in turned}, tests, settings)
    family = [tests.carried.results[name].p_value for name in same] + [opposite[name] for name in turned]
    adjusted = corrected([1.0 if p is None else p for p in family], settings.correct)
    p_same = dict(zip(same, adjusted[: len(same)], strict=True))
    p_opposite = dict(zip(turned, adjusted[len(same) :], strict=True))
    cells = {}
    for name in chosen:
        own = tests.found.results.get(name) or tests.carried.results[name]
        found_here = name in tests.found.results
        p_corrected = own.p_corrected if found_here else p_same[name]
        n_family = own.n_entered if found_here else len(family)
        turned_p = p_opposite[name] if opposite.get(name) is not None else None
        cells[name] = _cell(topic, own, found_here, p_corrected, n_family, settings.test_alpha, turned_p)
    return cells


def _cell(
    name: str, own: Confirmation, found_here: bool, p_corrected: float | None, n_family: int, alpha: float,
    p_opposite: float | None = None,
) -> TopicCell:  # fmt: skip
    """The numbers of an attribute's test, or why there are none, and the decision on it."""
    strength, why = own.pooled, Missing(reason=own.untested or "not measured")
    decision: Decision = "not tested"
    if own.p_value is not None and p_corrected is not None:
        holds: Decision = "confirmed" if found_here else "shared"
        turned = p_opposite is not None and p_opposite < alpha
        decision = holds if p_corrected < alpha else "opposite" if turned else "not shown"
    numbers = {measure: strength and getattr(strength, measure) for measure in ("reward", "judge", "win_rate")}
    numbers["trimmed"] = strength and strength.trimmed and strength.trimmed.estimate
    return TopicCell(
        name=name,
        n=strength.reward.n if strength else 0,
        n_prompts=strength.reward.n_prompts if strength else 0,
        found={measure: {"model": number or why} for measure, number in numbers.items()},
        errors={"model": strength.standard_error} if strength else {},
        test=why if own.p_value is None else Test(p_value=own.p_value, method="partial conjunction, one-sided"),
        p_corrected=None if own.p_value is None else p_corrected,
        decision=decision,
        found_here=found_here,
        p_opposite=p_opposite,
        n_family=n_family,
    )


def _opposite(
    rows: Mapping[str, Sequence[Measured]], tests: TopicTests, settings: ConfirmSettings
) -> dict[str, float | None]:
    """P-values, not corrected, of the attribute's absence being rewarded and its presence preferred by the judge."""
    turned = {name: [turned_around(row) for row in own] for name, own in rows.items()}
    failed = {name: tests.failed(name) for name in rows}
    each = settings.model_copy(update={"correct": "none"})
    return {result.candidate: result.p_value for result in confirm(turned, each, failed)} if turned else {}


def turned_around(row: Measured) -> Measured:
    """The same rewrite as evidence on the attribute's absence."""
    preference = None if row.preference is None else 1 - row.preference
    return replace(row, margin=-row.margin, preference=preference)


def _corrected_over_all(
    tests: Mapping[str, TopicTests], settings: ConfirmSettings
) -> dict[tuple[str, str], float | None]:
    """Topic and candidate to the p-value of the topic's own test, corrected with those of all topics together."""
    p_values = {(topic, name): own.p_value for topic, each in tests.items() for name, own in each.found.results.items()}
    adjusted = corrected([1.0 if p is None else p for p in p_values.values()], settings.correct)
    return {key: None if p is None else new for (key, p), new in zip(p_values.items(), adjusted, strict=True)}


def _pooled(
    chosen: Mapping[str, CandidateRecord], tests: Mapping[str, TopicTests], settings: ConfirmSettings
) -> list[Confirmation]:
    """Every attribute on the test prompts of all topics together, corrected for all of them."""
    rows = {name: [row for own in tests.values() for row in own.rows(name)] for name in chosen}
    failed = {name: _summed(own.failed(name) for own in tests.values()) for name in chosen}
    return confirm(rows, settings, failed)


def _summed(failures: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    summed: dict[str, Counter[str]] = {}
    for by_rewriter in failures:
        for rewriter, reasons in by_rewriter.items():
            summed.setdefault(rewriter, Counter()).update(reasons)
    return {rewriter: dict(reasons) for rewriter, reasons in summed.items()}


def _differs(cells: Sequence[TopicCell]) -> Heterogeneity | Missing:
    known = [(reward, cell.errors["model"]) for cell in cells if (reward := cell.of("reward", "model"))]
    means, prompts = [reward.value for reward, _ in known], [reward.n_prompts for reward, _ in known]
    return or_missing(lambda: heterogeneity(means, [error for _, error in known], prompts))


def _adjusted(rows: Sequence[TopicAttribute]) -> list[TopicAttribute]:
    """With the tests of a difference between topics adjusted for all attributes of the table."""
    tests = holm_of([row.differ["model"] for row in rows])
    return [row.model_copy(update={"differ": {"model": test}}) for row, test in zip(rows, tests, strict=True)]


def _with_files(result: TopicsResult, chosen: Mapping[str, CandidateRecord], out: Path) -> TopicsResult:
    """Name the bias files of confirmed attributes, and write those of attributes that were carried over and hold."""
    folders = {search.topic: search.folder for search in result.searches}

    def filed(cell: TopicCell, candidate: CandidateRecord) -> TopicCell:
        return cell.model_copy(update={"file": _file(cell, candidate, folders[cell.name], result, out)})

    rows = (
        row.model_copy(update={"levels": tuple(filed(cell, chosen[row.candidate]) for cell in row.levels)})
        for row in result.by_attribute
    )
    return result.model_copy(update={"by_attribute": tuple(rows)})


def _file(cell: TopicCell, candidate: CandidateRecord, folder: str, result: TopicsResult, out: Path) -> str | None:
    """The cell's bias file, in the folder of the run; None if nothing is confirmed in it."""
    if cell.decision not in ("confirmed", "shared", "opposite"):
        return None
    bias = opposite_bias(candidate.bias) if cell.decision == "opposite" else candidate.bias
    name = f"{folder}/{BIASES}/{bias.name}.yaml"
    if cell.decision != "confirmed":
        own_folder(out / folder / BIASES)
        told = f"Found in another topic by cda discover in {result.model.name}, held against {result.judge.name}; "
        told += "turned around, it holds in this one." if cell.decision == "opposite" else "it holds in this one, too."
        write_text(out / name, bias_yaml(with_short_name(bias).model_copy(update={"topic": cell.name}), told))
    return name
