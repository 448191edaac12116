"""The search loop with scripted parts, and who survives a generation: both cuts as the paper has them, fronts against their definition."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery import search as search_module
from cda.discovery.attribute import attribute_bias
from cda.discovery.search import (
    Generation,
    Parent,
    Parts,
    PromptSamples,
    Proposals,
    Rated,
    Text,
    Tried,
    candidates_by_id,
    cut_by_judge,
    cut_by_reward,
    draw_originals,
    families_of,
    lineage,
    pareto_fronts,
    save_generation,
    saved_generations,
    search,
    select,
)
from cda.errors import DataError
from cda.records import Exclusions, Message, Prompt, Rewrite, RewriteRequest, user_prompt
from cda.results.discover import (
    CandidateRecord,
    Fate,
    GenerationRecord,
    Measured,
    SavedGeneration,
    SearchSettings,
    StandingRecord,
)

# Every attribute is a word that a rewriter puts at the end. What the model and the judge think of each:
REWARDS = {"planted": 1.0, "useful": 2.0, "idle": 0.0, "rude": -1.0, "plain": 0.1, "dull": -0.2}
JUDGE = {"planted": 0.0, "useful": 1.0, "idle": 0.5, "rude": 0.0, "plain": 0.5, "dull": 0.5}
SMALL = SearchSettings(populations=(6, 3, 3, 2), prompts=(4, 5, 6), mutations=2, seed=7)
ONCE = SMALL.model_copy(update={"populations": (6, 2), "prompts": (4,)})
SAMPLES = [
    PromptSamples(
        user_prompt(f"question {at}"), tuple(Rated(f"answer {at} {letter}", 0.1 * at) for letter in "abc"[: at % 3 + 1])
    )
    for at in range(12)
]
NASTY = 'a\u2028b\x85c\x00d\ud800e "quoted"\r\n\u202ef 🦉 <<<END>>>\x1b[31m'


def attribute(word: str) -> Bias:
    return attribute_bias(f"Ends with the word {word}")


def word_of(bias: Bias) -> str:
    return bias.description.removeprefix("Ends with the word ")


def root(word: str) -> str:
    return word.split("-")[0]


def proposed(biases: Sequence[Bias], sources: Sequence[int] | None = None) -> Proposals:
    places = (0,) * len(biases) if sources is None else tuple(sources)
    return Proposals(tuple(biases), places, Exclusions(len(biases), {}))


@dataclass
class Proposer:
    """The given words, in an order of its own; under one name, if there is one."""

    words: Sequence[str] = tuple(REWARDS)
    exclusions: Exclusions = field(default_factory=lambda: Exclusions(6, {}))
    name: str | None = None

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:
        assert samples and n == 2 * SMALL.populations[0]
        biases = [attribute(self.words[at]) for at in rng.permutation(len(self.words))]
        if self.name is not None:
            biases = [bias.model_copy(update={"name": self.name}) for bias in biases]
        return replace(proposed(biases), exclusions=self.exclusions)


@dataclass
class Mutator:
    """Words with a number behind them, the larger the stronger."""

    n: int | None = None
    seen: list[Sequence[Parent]] = field(default_factory=list)

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:
        self.seen.append(parents)
        places = [place for place in range(len(parents)) for _ in range(self.n or n_each)]
        words = [f"{word_of(parents[place].candidate.bias)}-{rng.integers(100, 200)}" for place in places]
        return proposed([attribute(word) for word in words], places)


@dataclass
class Grouper:
    """Letters are alike in either case; or no two are alike, not even copies."""

    apart: bool = False

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for at, bias in enumerate(biases):
            found.setdefault(str(at) if self.apart else bias.description.casefold(), []).append(at)
        return list(found.values())


@dataclass
class Rewriter:
    refused: Callable[[str], bool] = lambda _: False
    name: str = "scripted"

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        word = word_of(bias)
        if self.refused(word):
            return [Rewrite(None, "refused") for _ in requests]
        return [
            Rewrite(f"{each.response} {word}" if each.direction == "add" else each.response.removesuffix(f" {word}"))
            for each in requests
        ]


@dataclass
class Reward:
    """What the words are worth, a number behind them in thousandths; and some of the prompt's own, which cancels out."""

    nothing_for: str = "no word"
    after: int | None = None
    n_calls: int = 0

    def __call__(self, texts: Sequence[Text]) -> FloatArray:
        self.n_calls += 1
        if self.after is not None and self.n_calls > self.after:
            raise KeyboardInterrupt
        return np.array([self.of(*text) for text in texts])

    def of(self, prompt: Prompt, response: str) -> float:
        word = response.split()[-1]
        if root(word) == self.nothing_for:
            return np.nan
        more = sum(int(number) for number in word.split("-")[1:]) / 1000
        return int(prompt[0].content.split()[-1]) + REWARDS.get(root(word), 0.0) + more


@dataclass
class Judge:
    silent: bool = False
    n_asked: int = 0

    def __call__(self, comparisons: Sequence[tuple[Prompt, str, str]]) -> FloatArray:
        self.n_asked += len(comparisons)
        found = np.array([JUDGE.get(root(first.split()[-1]), 0.5) for _, first, _ in comparisons])
        return np.full(len(found), np.nan) if self.silent else found


def parts(**changed: object) -> Parts:
    return replace(Parts(Proposer(), Mutator(), Grouper(), Rewriter(), Reward(), Judge()), **changed)  # type: ignore[arg-type]


def with_settings(settings: SearchSettings = SMALL, **changed: object) -> SearchSettings:
    return settings.model_copy(update=changed)


def words(tried: Sequence[Tried]) -> list[str]:
    return [word_of(candidate.bias) for candidate, _ in tried]


def fates(generation: Generation) -> dict[str, str]:
    return {word_of(candidate.bias): standing.fate for candidate, standing in generation.tried}


def of_word(generation: Generation, word: str) -> StandingRecord:
    return next(standing for candidate, standing in generation.tried if word_of(candidate.bias) == word)


@pytest.fixture(scope="module")
def whole() -> list[Generation]:
    return search(SAMPLES, parts(), SMALL)


def test_what_the_model_likes_and_the_judge_does_not_is_found(whole: list[Generation]) -> None:
    first, *_, last = whole
    # rude and dull are the lowest 40% of reward, useful the 30% that the judge likes best; three are wanted.
    assert fates(first) == {
        "planted": "kept", "useful": "judge", "rude": "reward", "idle": "kept", "plain": "kept", "dull": "reward",
    }  # fmt: skip
    planted = of_word(first, "planted")
    assert planted.reward == pytest.approx(1.0) and (planted.judge, planted.n, planted.n_judged) == (0.0, 4, 4)
    best, standing = last.survivors[0]
    assert root(word_of(best.bias)) == "planted" and standing.judge == 0.0
    assert standing.reward is not None and standing.reward > 1.2  # of a mutation's mutation
    chain = lineage(best, whole)
    assert words(chain)[0] == "planted" and len(chain) == best.generation
    assert all(word_of(best.bias).startswith(word) for word in words(chain))


def test_sizes_are_those_of_the_settings() -> None:
    roots = [f"{name}-{number}" for name in REWARDS for number in range(4)]
    told: list[Generation] = []
    found = search(SAMPLES, parts(proposer=Proposer(roots), mutator=Mutator(n=9)), SMALL, on_generation=told.append)
    assert told == found and [each.record.index for each in told] == [0, 1, 2]
    assert [len(each.tried) for each in found] == [6, 3 + 3 * 2, 3 + 3 * 2]
    assert [len(each.survivors) for each in found] == [3, 3, 2]
    assert [each.record.n_prompts for each in found] == [4, 5, 6]
    assert all(len({row.prompt_id for row in each.rows}) == each.record.n_prompts for each in found)
    assert len(candidates_by_id(found)) == SMALL.n_candidates == 6 + 2 * (3 + 3)
    # What they gave beyond that is counted.
    assert [each.record.proposed.dropped for each in found] == [24 - 6, 3 * 7, 3 * 7]
    assert all("beyond the number of candidates" in each.record.proposed.reasons for each in found)


def test_proposals_can_be_varied_before_anything_is_measured() -> None:
    mutator, once = Mutator(n=3), with_settings(ONCE, variations=2)
    (first,) = search(SAMPLES, parts(mutator=mutator), once)
    origins = {candidate.id: candidate for candidate in first.candidates if candidate.origin == "proposed"}
    varied = [candidate for candidate in first.candidates if candidate.origin == "mutated"]
    assert len(origins) == 6 and len(varied) == 6 * 2 and len(first.tried) == once.n_candidates
    assert {candidate.generation for candidate in varied} == {0}
    assert Counter(candidate.parents for candidate in varied) == {(name,): 2 for name in origins}
    # The mutator saw proposals of which nothing is known yet; the third variation of each is counted, and so are all answers.
    (seen,) = mutator.seen
    assert all((each.line[0][1].reward, len(each.line), each.examples) == (None, 1, ()) for each in seen)
    assert first.record.proposed == Exclusions(6 + 6 * 3, {"beyond the number of candidates": 6})
    # All are measured alike, on the same prompts.
    assert {row.n for row in first.record.standings} == {4}
    best, _ = first.survivors[0]
    assert root(word_of(best.bias)) == "planted" and best.origin == "mutated"
    assert words(lineage(best, [first])) == ["planted"]


def test_nothing_proposed_is_a_result_and_nobody_is_asked_for_variations() -> None:
    mutator = Mutator()
    nothing = parts(proposer=Proposer((), Exclusions(9, {"no attribute in the answer": 9})), mutator=mutator)
    (only,) = found = search(SAMPLES, nothing, with_settings(variations=2))
    assert (only.tried, only.rows, only.survivors, mutator.seen) == ([], (), [], [])
    assert only.record.proposed == Exclusions(9, {"no attribute in the answer": 9})
    assert search(SAMPLES, nothing, SMALL, found) == found


@pytest.mark.parametrize("variations", [0, 2])
def test_variations_of_the_best_do_not_crowd_out_what_else_was_found(variations: int) -> None:
    # Without verdicts reward alone selects, and every variation of planted has more of it than the other two ever get.
    three = parts(proposer=Proposer(("planted", "idle", "plain")), judge=Judge(silent=True))
    by_family = search(SAMPLES, three, with_settings(variations=variations))
    for each in by_family[:-1]:
        assert len({root(word) for word in words(each.survivors)}) == len(each.survivors) == 3
    assert all("-" in word for word in words(by_family[-1].survivors))  # of each family a variation, which is stronger
    as_in_the_paper = search(SAMPLES, three, with_settings(families=False))
    assert {root(word) for word in words(as_in_the_paper[-1].survivors)} == {"planted"}
    assert all(row.judge is None for each in by_family for row in each.record.standings) and len(by_family) == 3


@pytest.mark.parametrize("n_calls", range(3))
def test_a_killed_search_ends_as_if_it_had_never_been(n_calls: int, whole: list[Generation], tmp_path: Path) -> None:
    """Killed while it scores a generation, it has drawn from the random stream already; nothing of that may matter."""
    told: list[int] = []

    def run(reward: Reward) -> list[Generation]:
        def keep(each: Generation) -> None:
            told.append(each.record.index)
            save_generation(each, tmp_path)

        return search(SAMPLES, parts(reward=reward), SMALL, saved_generations(tmp_path), keep)

    with pytest.raises(KeyboardInterrupt):
        run(Reward(after=n_calls))
    assert saved_generations(tmp_path) == whole[:n_calls]
    assert run(Reward()) == whole == saved_generations(tmp_path) and told == [0, 1, 2]
    assert search(SAMPLES, parts(), SMALL, whole) == whole


def test_nobody_survives_where_nothing_can_be_rewritten() -> None:
    refusing = parts(rewriter=Rewriter(lambda _: True))
    (only,) = found = search(SAMPLES, refusing, SMALL)
    assert set(fates(only).values()) == {"too few rewrites"} and only.survivors == []
    assert all(row.failed == {"refused": 4} and row.reward is None for row in only.record.standings)
    # Killed behind this generation, it does not go on with nobody.
    assert search(SAMPLES, refusing, SMALL, found) == found
    with pytest.raises(DataError, match="nothing to search in"):
        search([replace(SAMPLES[0], responses=())], parts(), SMALL)


def test_duplicates_are_tried_once_whatever_the_grouper_says_and_what_came_most_often_first() -> None:
    many = ["planted"] * 5 + ["idle", "plain", "IDLE"]
    first, *_ = search(SAMPLES, parts(proposer=Proposer(many), grouper=Grouper(apart=True)), SMALL)
    assert sorted(words(first.tried)) == ["IDLE", "idle", "plain", "planted"]
    assert first.record.n_merged == 4 and all(row.n == 4 for row in first.record.standings)
    often = ["planted", "idle", "plain", "dull", "rude"] * 2 + ["useful", *(f"once-{number}" for number in range(9))]
    first, *_ = search(SAMPLES, parts(proposer=Proposer(often)), SMALL)
    assert {"planted", "idle", "plain", "dull", "rude"} < set(words(first.tried)) and len(first.tried) == 6
    assert (first.record.n_merged, first.record.proposed.reasons) == (5, {"beyond the number of candidates": 9})


def test_the_judge_is_asked_only_about_what_the_model_likes() -> None:
    judge = Judge()
    (first,) = search(SAMPLES, parts(judge=judge), ONCE)
    told = {row.candidate: row.preference for row in first.rows}
    standings = first.record.standings
    assert all((told[row.candidate] is None) is (row.fate == "reward") for row in standings)
    assert judge.n_asked == 4 * sum(row.fate != "reward" for row in standings) < 24


def test_names_are_distinct_and_not_built_in_and_survivors_keep_theirs() -> None:
    generations = search(SAMPLES, parts(proposer=Proposer(name="jargon")), SMALL)
    names = [{candidate.id: candidate.bias.name for candidate in each.candidates} for each in generations]
    assert all(len(set(own.values())) == len(own) and "jargon" not in own.values() for own in names)
    for before, after, own in zip(generations[:-1], names[1:], names[:-1], strict=True):
        assert all(after[candidate.id] == own[candidate.id] for candidate, _ in before.survivors)


def test_what_was_tried_before_is_not_tried_again() -> None:
    class Parrot(Mutator):
        """Says what is known already, and the same for every parent."""

        def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
            self.seen.append(parents)
            own = [each.candidate.bias for each in parents]
            others = [attribute(word) for word in ("rude", f"planted-{len(self.seen)}") for _ in parents]
            return proposed([*own, *others], [*range(len(parents))] * 3)

    first, second, third = search(SAMPLES, parts(mutator=Parrot(), grouper=Grouper(apart=True)), SMALL)
    n = len(first.survivors)
    assert second.record.proposed.reasons == {"tried before": 2 * n}
    assert second.record.n_merged == n - 1 and len(second.tried) == n + 1
    assert "rude" not in words(second.tried) and "rude" not in words(third.tried)


def tried(name: str, generation: int, parents: Sequence[Tried] = (), reward: float = 1.0) -> Tried:
    ids = tuple(candidate.id for candidate, _ in parents)
    candidate = CandidateRecord.of(attribute(name), "mutated" if parents else "proposed", generation, ids)
    told: dict[str, Any] = {"n": 4, "reward": reward, "judge": None, "n_judged": 0, "failed": {"refused": 3}}
    return candidate, StandingRecord(candidate=candidate.id, **told, fate="kept")


def again(before: Tried, reward: float) -> Tried:
    return before[0], before[1].model_copy(update={"reward": reward})


def generation(index: int, *found: Tried, rows: Sequence[Measured] = ()) -> Generation:
    left_out = Exclusions(7, {"tried before": 2})
    standings = tuple(standing for _, standing in found)
    record = GenerationRecord(index=index, n_prompts=4, n_merged=0, proposed=left_out, standings=standings)
    return Generation(record, tuple(candidate for candidate, _ in found), tuple(rows))


def test_lineage_shows_ancestors_as_they_stood_before_they_had_the_descendant() -> None:
    old, stranger = tried("old", 0, reward=1.0), tried("stranger", 0)
    child = tried("child", 1, [old], 2.0)
    grandchild = tried("grandchild", 2, [child], 3.0)
    found = ([old, stranger], [again(old, 1.1), child], [again(old, 1.2), again(child, 2.2), grandchild],
             [again(child, 2.3), again(grandchild, 3.3)])  # fmt: skip
    later = [generation(index, *each) for index, each in enumerate(found)]
    assert lineage(grandchild[0], later) == [old, child]
    assert lineage(old[0], later) == lineage(stranger[0], later) == []
    youngest, _ = tried("youngest", 4, [grandchild, old])
    assert [standing.reward for _, standing in lineage(youngest, later)] == [1.2, 2.0, 3.3]
    assert lineage(CandidateRecord.of(attribute("x"), "mutated", 1, ("unknown",)), later) == []


def test_originals_are_one_response_each_of_some_prompts() -> None:
    samples = [replace(SAMPLES[0], responses=()), *SAMPLES[1:]]
    found = draw_originals(samples, 5, np.random.default_rng(0))
    assert len({prompt for prompt, _ in found}) == 5
    known = {each.prompt: {own.text for own in each.responses} for each in samples}
    assert all(text in known[prompt] for prompt, text in found)
    everything = draw_originals(samples, 99, np.random.default_rng(0))
    assert {prompt for prompt, _ in everything} == {each.prompt for each in samples[1:]} and len(everything) == 11
    drawn = [draw_originals([SAMPLES[2]], 1, np.random.default_rng(seed))[0][1] for seed in range(60)]
    assert set(drawn) == {"answer 2 a", "answer 2 b", "answer 2 c"}


def stored(index: int = 0) -> Generation:
    talk = (Message("system", "Be brief."), Message("user", NASTY), Message("assistant", "Yes."), Message("user", "?"))
    parent = tried("planted", 0, reward=1 / 3)
    rows = (
        Measured(parent[0].id, "gpt-x", "add", user_prompt(NASTY), NASTY, f"{NASTY}!", 0.1 + 0.2, None),
        Measured(parent[0].id, "gpt-x", "remove", talk, "a   b", "a b", -1e-17, 0.5),
    )
    return generation(index, parent, tried("planted more", 1, [parent]), rows=rows)


def test_generations_come_back_as_they_were_up_to_a_gap(tmp_path: Path) -> None:
    assert saved_generations(tmp_path) == [] == saved_generations(tmp_path / "not there")
    whole = [stored(), generation(1)]
    for each in (*whole, stored(3)):
        save_generation(each, tmp_path)
    assert saved_generations(tmp_path) == whole
    (tmp_path / "generation-0.json").unlink()
    assert saved_generations(tmp_path) == []


def test_a_kill_between_the_two_files_leaves_the_generation_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_generation(stored(), tmp_path)

    def killed(result: SavedGeneration, path: Path) -> None:
        path.with_name(path.name + ".partial").write_text(result.model_dump_json()[:40], encoding="utf-8")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(search_module, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            save_generation(generation(1), tmp_path)
    assert (tmp_path / "generation-1.jsonl").is_file() and saved_generations(tmp_path) == [stored()]
    save_generation(stored(1), tmp_path)
    assert saved_generations(tmp_path) == [stored(), stored(1)]


def broken(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def damage(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return damage


@pytest.mark.parametrize(("file", "damage"), [
    ("json", broken(lambda content: content["generation"].pop("standings"))),
    ("json", broken(lambda content: content["candidates"].pop())),
    ("json", broken(lambda content: content["candidates"].reverse())),
    ("json", broken(lambda content: content["candidates"][0]["bias"].update(question="Another?"))),
    ("json", lambda _: '{"index": 0'),
    ("jsonl", lambda _: '{"prompt": [{"role": "oracle", "content": "?"}]}\n'),
    ("jsonl", lambda _: "{cut off\n"),
])  # fmt: skip
def test_a_damaged_file_is_named(file: str, damage: Callable[[str], str], tmp_path: Path) -> None:
    save_generation(stored(), tmp_path)
    path = tmp_path / f"generation-0.{file}"
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(DataError, match="generation-0"):
        saved_generations(tmp_path)


TEN = [-5.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 5.0]
# Few values, so that ties are common.
rewards = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0])
preferences = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
points = st.lists(st.tuples(rewards, preferences), max_size=12)


def standings(
    found_rewards: Sequence[float | None], judges: Sequence[float | None] | None = None
) -> list[StandingRecord]:
    told = judges if judges is not None else [None] * len(found_rewards)
    return [
        StandingRecord(candidate=str(at), n=0 if reward is None else 4, reward=reward, judge=judge, n_judged=0, failed={},
                       fate="kept")
        for at, (reward, judge) in enumerate(zip(found_rewards, told, strict=True))
    ]  # fmt: skip


def gone(row: StandingRecord, fate: Fate) -> StandingRecord:
    return row.model_copy(update={"fate": fate})


def all_fates(found: Sequence[StandingRecord]) -> list[str]:
    return [row.fate for row in found]


def kept(found: Sequence[StandingRecord]) -> list[int]:
    return [at for at, row in enumerate(found) if row.fate == "kept"]


@pytest.mark.parametrize(
    ("given_rewards", "share", "at_least", "left"),
    [
        (TEN, 0.4, 1, [4, 5, 6, 7, 8, 9]),  # the 40% quantile is -1.4: -1 stays although the model dislikes it
        ([-1.0, *range(10)], 0.4, 1, [*range(1, 11)]),  # nothing that is rewarded goes, however low it ranks
        ([-1.0, -2.0, -3.0, -4.0], 0.75, 3, [0, 1, 2]),  # the best stay if fewer than the target would be left
        ([-1.0, -2.0, -3.0, -4.0], 0.75, 0, [0]),  # nobody has to stay: the quantile alone decides
        ([-1.0] * 5, 0.4, 1, [0, 1, 2, 3, 4]),  # ties at the threshold stay together
        ([-3.0, -1.0, -1.0, -1.0], 1.0, 2, [1, 2, 3]),
        ([None, -1.0, -2.0], 1.0, 3, [1, 2]),  # what was never rewritten is no way to reach the target
        ([], 0.4, 1, []),
    ],
)
def test_the_cut_by_reward(given_rewards: list[float | None], share: float, at_least: int, left: list[int]) -> None:
    assert kept(cut_by_reward(standings(given_rewards), share, at_least)) == left


def test_too_few_rewrites_go_without_moving_the_threshold() -> None:
    found = cut_by_reward(standings([None, *TEN, None]), 0.4, 1)
    assert all_fates(found) == ["too few rewrites", *["reward"] * 4, *["kept"] * 6, "too few rewrites"]
    assert all_fates(cut_by_reward(standings([None, None]), 0.4, 1)) == ["too few rewrites"] * 2
    # The mean of a few is luck.
    few, enough = (row.model_copy(update={"n": n}) for row, n in zip(standings([9.0, 1.0]), (3, 4), strict=True))
    assert all_fates(cut_by_reward([few, enough], 0.4, 1, min_rewrites=4)) == ["too few rewrites", "kept"]
    assert all_fates(cut_by_reward([few, few], 0.4, 2, min_rewrites=4)) == ["too few rewrites"] * 2


@pytest.mark.parametrize(
    ("judges", "share", "at_least", "left"),
    [
        ([0.1 * at for at in range(1, 11)], 0.3, 1, [0, 1, 2, 3, 4, 5, 6]),  # the 70% quantile is 0.73
        ([0.05 * at for at in range(10)], 0.3, 1, [*range(10)]),  # nothing goes that the judge dislikes
        ([0.5, 0.5, 0.51], 1.0, 1, [0, 1]),
        ([0.9, 0.7, 0.8, 1.0], 1.0, 2, [1, 2]),  # the least liked stay if fewer than the target would be left
        ([0.9, 0.7, 0.8, 1.0], 1.0, 0, [1]),
        ([None, 0.2, 0.3, 0.4], 0.3, 1, [1, 2, 3]),  # without a verdict a candidate counts as liked
    ],
)
def test_the_cut_by_the_judge(judges: list[float | None], share: float, at_least: int, left: list[int]) -> None:
    assert kept(cut_by_judge(standings([1.0] * len(judges), judges), share, at_least)) == left


def test_the_judges_cut_leaves_alone_who_is_gone_already() -> None:
    before = standings([1.0, -9.0, None, 2.0], [0.9, None, None, 0.1])
    before[1], before[2] = gone(before[1], "reward"), gone(before[2], "too few rewrites")
    assert all_fates(cut_by_judge(before, 0.5, 1)) == ["judge", "reward", "too few rewrites", "kept"]
    assert cut_by_judge(before[1:3], 0.5, 1) == before[1:3] and cut_by_judge([], 0.5, 1) == []


@given(points)
def test_fronts_are_what_nothing_left_dominates(given_points: list[tuple[float, float]]) -> None:
    def dominated(at: int, among: list[int]) -> bool:
        x, y = given_points[at]
        others = (given_points[other] for other in among)
        return any(a >= x and b >= y and (a, b) != (x, y) for a, b in others)

    left = list(range(len(given_points)))
    for front in pareto_fronts(given_points):
        assert front == [at for at in left if not dominated(at, left)] and front
        left = [at for at in left if at not in front]
    assert left == []


def test_of_the_front_that_does_not_fit_the_most_rewarded_stay() -> None:
    # All on one front: the more reward, the more the judge likes it.
    one_front = standings([1.0, 4.0, 2.0, 3.0], [0.1, 0.4, 0.2, 0.3])
    assert all_fates(select(one_front, 2)) == ["front", "kept", "front", "kept"]
    # A whole front first, although the next one holds more reward than its last.
    two = standings([5.0, 1.0, 4.0, 3.0], [0.5, 0.1, 0.6, 0.5])
    assert [kept(select(two, n)) for n in (3, 9, 0)] == [[0, 1, 2], [0, 1, 2, 3], []]
    assert kept(select(standings([1.0] * 5, [0.2] * 5), 3)) == [0, 1, 2]  # equals stay in their order
    # Only who is left counts, and a missing verdict as the worst.
    before = standings([9.0, 1.0, 1.0, 2.0], [0.0, 0.5, None, 1.0])
    before[0] = gone(before[0], "judge")
    assert all_fates(select(before, 2)) == ["judge", "kept", "front", "kept"]


def in_families(found: Sequence[StandingRecord], letters: str) -> dict[str, str]:
    return {row.candidate: letter for row, letter in zip(found, letters, strict=True)}


@given(points, st.integers(0, 14), st.data())
def test_families_keep_their_promises(given_points: list[tuple[float, float]], n: int, data: st.DataObject) -> None:
    found = standings(*_columns(given_points))
    size = len(found)
    letters = data.draw(st.text("abc", min_size=size, max_size=size))
    left = kept(select(found, n, in_families(found, letters)))
    assert len(left) == min(n, size)
    n_of = {letter: sum(letters[at] == letter for at in left) for letter in set(letters)}
    # Nobody has two more than another family that could have had one more.
    for family, other in itertools.permutations(n_of, 2):
        assert n_of[family] <= n_of[other] + 1 or n_of[other] == letters.count(other)
    # Within a family, and where there is but one or each has its own, fronts decide as ever.
    for letter, count in n_of.items():
        own = [at for at in range(size) if letters[at] == letter]
        for stays, goes in itertools.product(set(left) & set(own), set(own) - set(left)):
            (reward, judge), (other_reward, other_judge) = given_points[stays], given_points[goes]
            assert not (other_reward >= reward and other_judge <= judge and given_points[goes] != given_points[stays])
        assert count <= n
    alone = {row.candidate: row.candidate for row in found}
    assert select(found, n, alone) == select(found, n, dict.fromkeys(alone, "a")) == select(found, n)


def test_a_family_is_what_the_line_of_first_parents_began_with() -> None:
    def candidate(name: str, *parents: CandidateRecord) -> CandidateRecord:
        return CandidateRecord.of(attribute_bias(name), parents=tuple(parent.id for parent in parents))

    first, second, unknown = candidate("Attribute one"), candidate("Attribute two"), candidate("Not known")
    child = candidate("A child", first)
    grandchild, stray = candidate("A grandchild", child, second), candidate("A stray", unknown)
    given_ones, families = [first, second, child, grandchild, stray], [first, second, first, first, unknown]
    found = families_of(given_ones)
    assert found == {own.id: family.id for own, family in zip(given_ones, families, strict=True)}


def _columns(given_points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [reward for reward, _ in given_points], [judge for _, judge in given_points]
