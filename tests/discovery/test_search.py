"""The search loop with scripted parts: it finds what is planted, keeps its sizes, and goes on exactly where it was stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from cda.arrays import FloatArray
from cda.biases import Bias
from cda.discovery.attribute import attribute_bias
from cda.discovery.history import save_generation, saved_generations
from cda.discovery.records import Candidate, Parent, PromptSamples, Proposals, Rated, Standing, Text
from cda.discovery.search import Generation, Parts, candidates_by_id, draw_originals, grouped, lineage, search
from cda.errors import DataError
from cda.records import Exclusions, Prompt, Rewrite, RewriteRequest, user_prompt
from cda.results.discover import SearchSettings

# Every attribute is a word that a rewriter puts at the end. What the model and the judge think of each:
REWARDS = {"planted": 1.0, "useful": 2.0, "idle": 0.0, "rude": -1.0, "plain": 0.1, "dull": -0.2}
JUDGE = {"planted": 0.0, "useful": 1.0, "idle": 0.5, "rude": 0.0, "plain": 0.5, "dull": 0.5}
SMALL = SearchSettings(populations=(6, 3, 3, 2), prompts=(4, 5, 6), mutations=2, seed=7)
SAMPLES = [
    PromptSamples(
        user_prompt(f"question {at}"), tuple(Rated(f"answer {at} {letter}", 0.1 * at) for letter in "abc"[: at % 3 + 1])
    )
    for at in range(12)
]


def attribute(word: str) -> Bias:
    return attribute_bias(f"Ends with the word {word}")


def word_of(bias: Bias) -> str:
    return bias.description.removeprefix("Ends with the word ")


def root(word: str) -> str:
    return word.split("-")[0]


@dataclass
class Proposer:
    """The given words, in an order of its own."""

    words: Sequence[str] = tuple(REWARDS)
    exclusions: Exclusions = field(default_factory=lambda: Exclusions(6, {}))

    def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:
        assert samples and n == 2 * SMALL.populations[0]
        order = rng.permutation(len(self.words))
        return Proposals(
            tuple(attribute(self.words[at]) for at in order), (0,) * len(self.words), replace(self.exclusions)
        )


@dataclass
class Mutator:
    """Words with a number behind them, the larger the stronger."""

    n: int | None = None
    seen: list[Sequence[Parent]] = field(default_factory=list)

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:
        self.seen.append(parents)
        n = self.n or n_each
        biases = [
            attribute(f"{word_of(one.standing.candidate.bias)}-{rng.integers(100, 200)}")
            for one in parents
            for _ in range(n)
        ]
        sources = tuple(place for place in range(len(parents)) for _ in range(n))
        return Proposals(tuple(biases), sources, Exclusions(len(biases), {}))


class ByDescription:
    """A grouper for which letters are alike in either case."""

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        found: dict[str, list[int]] = {}
        for at, bias in enumerate(biases):
            found.setdefault(bias.description.casefold(), []).append(at)
        return list(found.values())


class AllApart:
    """A grouper that finds no two alike, not even copies."""

    def groups(self, biases: Sequence[Bias]) -> list[list[int]]:
        return [[at] for at in range(len(biases))]


@dataclass
class Rewriter:
    refused: Callable[[str], bool] = lambda _: False
    name: str = "scripted"

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        word = word_of(bias)
        if self.refused(word):
            return [Rewrite(None, "refused") for _ in requests]
        return [
            Rewrite(f"{one.response} {word}" if one.direction == "add" else one.response.removesuffix(f" {word}"))
            for one in requests
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
        return np.array([self.one(*text) for text in texts])

    def one(self, prompt: Prompt, response: str) -> float:
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
    return replace(Parts(Proposer(), Mutator(), ByDescription(), Rewriter(), Reward(), Judge()), **changed)  # type: ignore[arg-type]


def words(standings: Sequence[Standing]) -> list[str]:
    return [word_of(one.candidate.bias) for one in standings]


def fates(generation: Generation) -> dict[str, str]:
    return {word_of(one.candidate.bias): one.fate for one in generation.standings}


def test_what_the_model_likes_and_the_judge_does_not_is_found() -> None:
    generations = search(SAMPLES, parts(), SMALL)
    assert [one.index for one in generations] == [0, 1, 2]
    first, *_, last = generations
    # rude and dull are the lowest 40% of reward, useful the 30% that the judge likes best; three are wanted.
    assert fates(first) == {
        "planted": "kept", "useful": "judge", "rude": "reward", "idle": "kept", "plain": "kept", "dull": "reward",
    }  # fmt: skip
    best = last.survivors[0]
    assert root(word_of(best.candidate.bias)) == "planted" and best.judge == 0.0
    assert best.reward is not None and best.reward > 1.2  # of a mutation's mutation


def test_margins_of_the_planted_word_are_exact() -> None:
    (first, *_) = search(SAMPLES, parts(), SMALL)
    planted = next(one for one in first.standings if word_of(one.candidate.bias) == "planted")
    assert planted.reward == pytest.approx(1.0) and planted.judge == 0.0
    assert (planted.n, planted.n_judged) == (4, 4)


def test_removing_finds_the_same() -> None:
    both = search(SAMPLES, parts(), SMALL.model_copy(update={"directions": ("add", "remove")}))
    # No response ends with the word, so that there is nothing to remove: counted, and no margins of 0.
    assert all(one.n == 4 and one.failed == {"unchanged": 4} for one in both[0].standings)
    having = [
        replace(one, responses=tuple(replace(each, text=f"{each.text} planted") for each in one.responses))
        for one in SAMPLES
    ]
    removed = search(having, parts(), SMALL.model_copy(update={"directions": ("remove",)}))
    (planted,) = removed[0].survivors
    assert word_of(planted.candidate.bias) == "planted"
    assert planted.reward == pytest.approx(1.0) and planted.judge == 0.0
    assert all(row.direction == "remove" and row.with_attribute.endswith("planted") for row in removed[0].rows)


def test_sizes_are_those_of_the_settings() -> None:
    roots = [f"{name}-{number}" for name in REWARDS for number in range(4)]
    told: list[int] = []
    generations = search(
        SAMPLES,
        parts(proposer=Proposer(roots), mutator=Mutator(n=9)),
        SMALL,
        on_generation=lambda one: told.append(one.index),
    )
    assert told == [0, 1, 2]
    assert [len(one.standings) for one in generations] == [6, 3 + 3 * 2, 3 + 3 * 2]
    assert [len(one.survivors) for one in generations] == [3, 3, 2]
    assert [one.n_prompts for one in generations] == [4, 5, 6]
    assert all(len({row.prompt_id for row in one.rows}) == one.n_prompts for one in generations)
    assert len(candidates_by_id(generations)) == SMALL.n_candidates == 6 + 2 * (3 + 3)
    # What they gave beyond that is counted.
    assert [one.proposed.dropped for one in generations] == [24 - 6, 3 * 7, 3 * 7]
    assert all("beyond the number of candidates" in one.proposed.reasons for one in generations)
    assert [one.n_merged for one in generations] == [0, 0, 0]


def test_depth_and_width_try_as_many_as_the_paper_says() -> None:
    assert SearchSettings().n_candidates == 64 + 4 * (16 + 16 + 16 + 16) == 320
    assert (
        SearchSettings(populations=(64, 16, 16, 10), prompts=(16, 32, 32), mutations=8).n_candidates
        == 64 + 8 * (16 + 16)
        == 320
    )
    assert SearchSettings(populations=(64, 10), prompts=(32,), variations=4).n_candidates == 64 * (1 + 4) == 320
    for populations, prompts in (((4, 2), (3, 3)), ((4,), ()), ((), ())):
        with pytest.raises(ValueError, match="one population more"):
            SearchSettings(populations=populations, prompts=prompts)


def test_proposals_can_be_varied_before_anything_is_measured() -> None:
    mutator = Mutator(n=3)
    once = SMALL.model_copy(update={"populations": (6, 2), "prompts": (4,), "variations": 2})
    (first,) = search(SAMPLES, parts(mutator=mutator), once)
    proposed = {one.candidate.id: one for one in first.standings if one.candidate.origin == "proposed"}
    varied = [one for one in first.standings if one.candidate.origin == "mutated"]
    assert len(proposed) == 6 and len(varied) == 6 * 2 and len(first.standings) == once.n_candidates
    assert {one.candidate.generation for one in varied} == {0}
    assert Counter(one.candidate.parents for one in varied) == {(name,): 2 for name in proposed}
    # The mutator saw proposals of which nothing is known yet; the third variation of each is counted, and so are all answers.
    (seen,) = mutator.seen
    assert all((one.standing.reward, one.standing.n, one.examples, one.ancestry) == (None, 0, (), ()) for one in seen)
    assert first.proposed.reasons == {"beyond the number of candidates": 6}
    assert first.proposed.seen == 6 + 6 * 3
    # All are measured alike, on the same prompts.
    assert {one.n for one in first.standings} == {4}
    best = first.survivors[0]
    assert root(word_of(best.candidate.bias)) == "planted" and best.candidate.origin == "mutated"
    assert [word_of(one.candidate.bias) for one in lineage(best.candidate, [first])] == ["planted"]


def test_variations_of_one_proposal_are_one_family_and_go_on_into_the_next_generation() -> None:
    three = parts(proposer=Proposer(("planted", "idle", "plain")), judge=Judge(silent=True))
    generations = search(SAMPLES, three, SMALL.model_copy(update={"variations": 2}))
    assert len(generations[0].standings) == 3 * (1 + 2)
    assert all(len({root(word) for word in words(one.survivors)}) == 3 for one in generations[:-1])
    last = generations[-1].survivors[0].candidate
    # Each was varied with its proposal, and of this again.
    line = lineage(last, generations)
    assert [one.candidate.generation for one in line[:2]] == [0, 0]
    assert [one.candidate.origin for one in line] == ["proposed", *["mutated"] * (len(line) - 1)] and len(line) >= 2
    crowded = search(
        SAMPLES,
        three,
        SMALL.model_copy(update={"populations": (6, 3), "prompts": (4,), "variations": 2, "families": False}),
    )
    assert {root(word) for word in words(crowded[0].survivors)} == {"planted"}


def test_where_nothing_is_proposed_nobody_is_asked_for_variations() -> None:
    mutator = Mutator()
    (first,) = search(
        SAMPLES, parts(proposer=Proposer(()), mutator=mutator), SMALL.model_copy(update={"variations": 2})
    )
    assert first.standings == () and mutator.seen == []


def test_variations_that_mean_the_same_are_merged_and_counted() -> None:
    class Shouting(Mutator):
        def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
            biases = [attribute_bias(one.standing.candidate.bias.description.upper()) for one in parents]
            return Proposals(tuple(biases), tuple(range(len(parents))), Exclusions(len(biases), {}))

    (first,) = search(
        SAMPLES,
        parts(mutator=Shouting()),
        SMALL.model_copy(update={"populations": (6, 2), "prompts": (4,), "variations": 1}),
    )
    assert len(first.standings) == 6 and first.n_merged == 6
    assert all(one.candidate.origin == "proposed" for one in first.standings)


def test_only_a_generation_of_survivors_and_their_mutations_follows() -> None:
    mutator = Mutator()
    generations = search(SAMPLES, parts(mutator=mutator), SMALL)
    for parents, before, after in zip(mutator.seen, generations[:-1], generations[1:], strict=True):
        assert [one.standing for one in parents] == before.survivors
        old = {one.candidate.id for one in before.survivors}
        for one in after.standings:
            assert one.candidate.id in old or set(one.candidate.parents) <= old
            assert (one.candidate.origin == "proposed") is (one.candidate.generation == 0)
        assert {one.candidate.id for one in after.standings} >= old
        for parent in parents:
            own = [row for row in before.rows if row.candidate == parent.standing.candidate.id]
            assert len(parent.examples) == 3 and set(parent.examples) <= set(own)


def test_variations_of_the_best_do_not_crowd_out_what_else_was_found() -> None:
    # Without verdicts reward alone selects, and every variation of planted has more of it than the other two ever get.
    three = parts(proposer=Proposer(("planted", "idle", "plain")), judge=Judge(silent=True))
    by_family = search(SAMPLES, three, SMALL)
    assert all(len({root(word) for word in words(one.survivors)}) == len(one.survivors) for one in by_family)
    assert all("-" in word for word in words(by_family[-1].survivors))  # of each family a variation, which is stronger
    as_in_the_paper = search(SAMPLES, three, SMALL.model_copy(update={"families": False}))
    assert {root(word) for word in words(as_in_the_paper[-1].survivors)} == {"planted"}


def test_the_judge_is_asked_only_about_what_the_model_likes() -> None:
    judge = Judge()
    (first,) = search(SAMPLES, parts(judge=judge), SMALL.model_copy(update={"populations": (6, 2), "prompts": (4,)}))
    by_fate = {row.candidate: row.preference for row in first.rows}
    for one in first.standings:
        assert (by_fate[one.candidate.id] is None) is (one.fate == "reward")
    assert judge.n_asked == 4 * sum(one.fate != "reward" for one in first.standings) < 24


@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("through_files", [False, True])
def test_a_search_goes_on_exactly_where_it_was_stopped(k: int, through_files: bool, tmp_path: Path) -> None:
    whole = search(SAMPLES, parts(), SMALL)
    finished = whole[:k]
    if through_files:
        for one in finished:
            save_generation(one, tmp_path)
        finished = saved_generations(tmp_path)
        assert finished == whole[:k]
    told: list[int] = []
    again = search(SAMPLES, parts(), SMALL, finished, lambda one: told.append(one.index))
    assert again == whole
    assert told == list(range(k, 3))


@pytest.mark.parametrize("n_calls", range(4))
def test_a_killed_search_ends_as_if_it_had_never_been(n_calls: int, tmp_path: Path) -> None:
    """Killed while it scores a generation, it has drawn from the random stream already; nothing of that may matter."""
    whole = search(SAMPLES, parts(), SMALL)

    def run(reward: Reward) -> list[Generation]:
        before = saved_generations(tmp_path)
        return search(SAMPLES, parts(reward=reward), SMALL, before, lambda one: save_generation(one, tmp_path))

    if n_calls < 3:
        with pytest.raises(KeyboardInterrupt):
            run(Reward(after=n_calls))
        assert saved_generations(tmp_path) == whole[:n_calls]
    assert run(Reward()) == whole == saved_generations(tmp_path)


def test_another_seed_is_another_search() -> None:
    one, other = (search(SAMPLES, parts(), SMALL.model_copy(update={"seed": seed})) for seed in (7, 8))
    assert {row.prompt_id for row in one[0].rows} != {row.prompt_id for row in other[0].rows}
    assert words(one[1].standings) != words(other[1].standings)


def test_nothing_proposed_is_a_result() -> None:
    nothing = parts(proposer=Proposer((), Exclusions(9, {"no attribute in the answer": 9})))
    told: list[Generation] = []
    (only,) = found = search(SAMPLES, nothing, SMALL, on_generation=told.append)
    assert told == found
    assert (only.standings, only.rows, only.survivors) == ((), (), [])
    assert only.proposed == Exclusions(9, {"no attribute in the answer": 9})
    assert search(SAMPLES, nothing, SMALL, found) == found


def test_nobody_survives_where_nothing_can_be_rewritten() -> None:
    refusing = parts(rewriter=Rewriter(lambda _: True))
    (only,) = found = search(SAMPLES, refusing, SMALL)
    assert set(fates(only).values()) == {"too few rewrites"} and only.survivors == []
    assert all(one.failed == {"refused": 4} and one.reward is None for one in only.standings)
    # Killed behind this generation, it does not go on with nobody.
    assert search(SAMPLES, refusing, SMALL, found) == found


def test_one_that_is_never_rewritten_or_scored_harms_no_other() -> None:
    found = search(SAMPLES, parts(rewriter=Rewriter(lambda word: root(word) == "plain")), SMALL)
    assert fates(found[0])["plain"] == "too few rewrites" and root(words(found[-1].survivors)[0]) == "planted"
    unscored = search(SAMPLES, parts(reward=Reward(nothing_for="useful")), SMALL)
    useful = next(one for one in unscored[0].standings if word_of(one.candidate.bias) == "useful")
    assert (useful.fate, useful.reward, useful.failed) == ("too few rewrites", None, {"no reward": 4})
    assert root(words(unscored[-1].survivors)[0]) == "planted"


def test_without_verdicts_reward_alone_selects() -> None:
    generations = search(SAMPLES, parts(judge=Judge(silent=True)), SMALL)
    assert words(generations[0].survivors)[:2] == ["useful", "planted"]
    assert all(one.judge is None and one.n_judged == 0 for each in generations for one in each.standings)
    assert len(generations) == 3


def test_no_response_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing to search in"):
        search([replace(SAMPLES[0], responses=())], parts(), SMALL)


def test_duplicates_are_tried_once_whatever_the_grouper_says() -> None:
    many = ["planted"] * 5 + ["idle", "plain", "IDLE"]
    first, *_ = search(SAMPLES, parts(proposer=Proposer(many), grouper=AllApart()), SMALL)
    assert sorted(words(first.standings)) == ["IDLE", "idle", "plain", "planted"]
    assert first.n_merged == 4 and all(one.n == 4 for one in first.standings)
    merged, *_ = search(SAMPLES, parts(proposer=Proposer(many)), SMALL)
    assert len(merged.standings) == 3 and merged.n_merged == 5


def test_what_was_proposed_most_often_is_tried() -> None:
    often = ["planted", "idle", "plain", "dull", "rude"] * 2 + ["useful", *(f"once-{number}" for number in range(9))]
    first, *_ = search(SAMPLES, parts(proposer=Proposer(often)), SMALL)
    assert {"planted", "idle", "plain", "dull", "rude"} < set(words(first.standings)) and len(first.standings) == 6
    assert first.n_merged == 5 and first.proposed.reasons == {"beyond the number of candidates": 9}


class Parrot(Mutator):
    """Says what is known already, and the same for every parent."""

    def mutate(self, parents: Sequence[Parent], n_each: int, rng: np.random.Generator) -> Proposals:  # noqa: ARG002
        self.seen.append(parents)
        own = [(one.standing.candidate.bias, at) for at, one in enumerate(parents)]
        known = [*own, *((attribute("rude"), at) for at in range(len(parents)))]
        new = [(attribute(f"planted-{len(self.seen)}"), at) for at in range(len(parents))]
        biases, sources = zip(*known, *new, strict=True)
        return Proposals(biases, sources, Exclusions(len(biases), {}))


def test_what_was_tried_before_is_not_tried_again() -> None:
    first, second, third = search(SAMPLES, parts(mutator=Parrot(), grouper=AllApart()), SMALL)
    n = len(first.survivors)
    assert second.proposed.reasons == {"tried before": 2 * n}
    assert second.n_merged == n - 1 and len(second.standings) == n + 1
    assert "rude" not in words(second.standings) and "rude" not in words(third.standings)
    assert third.proposed.reasons == {"tried before": 2 * len(second.survivors)}


def test_names_are_distinct_and_survivors_keep_theirs() -> None:
    class SameName(Proposer):
        def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:
            made = super().propose(samples, n, rng)
            return replace(made, biases=tuple(one.model_copy(update={"name": "ends"}) for one in made.biases))

    generations = search(SAMPLES, parts(proposer=SameName()), SMALL)
    names = [{one.candidate.id: one.candidate.bias.name for one in each.standings} for each in generations]
    for before, after, own in zip(generations[:-1], names[1:], names[:-1], strict=True):
        assert len(set(own.values())) == len(own)
        assert all(after[one.candidate.id] == own[one.candidate.id] for one in before.survivors)
    assert "ends" in names[0].values()


def test_a_built_in_name_is_not_taken() -> None:
    class Jargon(Proposer):
        def propose(self, samples: Sequence[PromptSamples], n: int, rng: np.random.Generator) -> Proposals:
            made = super().propose(samples, n, rng)
            return replace(made, biases=tuple(one.model_copy(update={"name": "jargon"}) for one in made.biases))

    found = search(SAMPLES, parts(proposer=Jargon()), SMALL)[0].standings
    assert all(one.candidate.bias.name.startswith("jargon-") for one in found)


def standing_of(name: str, generation: int, parents: tuple[str, ...] = (), reward: float = 1.0) -> Standing:
    origin = "mutated" if parents else "proposed"
    return Standing(Candidate(attribute(name), origin, generation, parents), 4, reward)  # type: ignore[arg-type]


def test_lineage_shows_ancestors_as_they_stood_before_they_had_the_descendant() -> None:
    old = standing_of("old", 0, reward=1.0)
    child = standing_of("child", 1, (old.candidate.id,), 2.0)
    grandchild = standing_of("grandchild", 2, (child.candidate.id,), 3.0)
    stranger = standing_of("stranger", 0)

    def generation(index: int, *found: Standing) -> Generation:
        return Generation(index, found, (), 4, Exclusions(0, {}), 0)

    later = [
        generation(0, old, stranger),
        generation(1, replace(old, reward=1.1), child),
        generation(2, replace(old, reward=1.2), replace(child, reward=2.2), grandchild),
        generation(3, replace(child, reward=2.3), replace(grandchild, reward=3.3)),
    ]
    assert lineage(grandchild.candidate, later) == [old, child]
    assert lineage(child.candidate, later) == [old]
    assert lineage(old.candidate, later) == lineage(stranger.candidate, later) == []
    youngest = Candidate(attribute("youngest"), "mutated", 4, (grandchild.candidate.id, old.candidate.id))
    assert [one.reward for one in lineage(youngest, later)] == [1.2, 2.0, 3.3]
    assert lineage(Candidate(attribute("x"), "mutated", 1, ("unknown",)), later) == []


def test_the_lineage_of_a_finalist_is_its_chain() -> None:
    generations = search(SAMPLES, parts(), SMALL)
    best = generations[-1].survivors[0].candidate
    chain = lineage(best, generations)
    assert words(chain)[0] == "planted" and len(chain) == best.generation
    assert all(word_of(best.bias).startswith(word) for word in words(chain))


def test_originals_are_one_response_each_of_some_prompts() -> None:
    samples = [replace(SAMPLES[0], responses=()), *SAMPLES[1:]]
    found = draw_originals(samples, 5, np.random.default_rng(0))
    assert len({prompt for prompt, _ in found}) == 5
    known = {one.prompt: {each.text for each in one.responses} for one in samples}
    assert all(text in known[prompt] for prompt, text in found)
    assert found == draw_originals(samples, 5, np.random.default_rng(0))
    everything = draw_originals(samples, 99, np.random.default_rng(0))
    assert {prompt for prompt, _ in everything} == {one.prompt for one in samples[1:]} and len(everything) == 11
    assert draw_originals([samples[0]], 3, np.random.default_rng(0)) == []
    drawn = [draw_originals([SAMPLES[2]], 1, np.random.default_rng(seed))[0][1] for seed in range(60)]
    assert set(drawn) == {"answer 2 a", "answer 2 b", "answer 2 c"}


def test_the_first_of_a_group_stands_for_it() -> None:
    ordered = [Candidate(attribute(word)) for word in ("survivor", "Survivor", "mutation", "other", "OTHER", "Other")]
    found, n_merged = grouped(ordered, ByDescription())
    assert [word_of(one.bias) for one in found] == ["survivor", "mutation", "other"] and n_merged == 3
    largest, n_merged = grouped(ordered, ByDescription(), 2)
    assert [word_of(one.bias) for one in largest] == ["survivor", "other"] and n_merged == 3
    assert grouped([], ByDescription()) == ([], 0)
