"""Many texts: each distinct one computed once, kept at once, the same whoever computes it; long ones treated as asked."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from devices import on_a_cpu
from summed import summed_model
from tiny import load

from cda.arrays import FloatArray
from cda.errors import ModelError, RunError
from cda.files.hub import ask_again
from cda.models.config import ModelSpec, Precision
from cda.models.load import RewardModel
from cda.models.template import Encoded, Template
from cda.recipe.load import load_recipe
from cda.records import Prompt, user_prompt
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.resources.sources import model_source
from cda.run import fingerprint
from cda.scorers import batching, engine
from cda.scorers.batching import Batch, Exchange, dealt, forward, in_threads, token_ids
from cda.scorers.classifier import ClassifierScorer, n_workers
from cda.scorers.compared import Rewards, Text, TextScore, text_id
from cda.scorers.engine import ScoreCache, joined_rewards, scope_of, score_texts

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
TOLERANCE = 1e-4
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT)])}


@pytest.fixture(scope="module")
def reward_model(llama: Path) -> RewardModel:
    return load(llama, limit=24)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ScoreCache]:
    with ScoreCache(tmp_path / "scores.sqlite") as opened:
        yield opened


@pytest.fixture
def given(texts: Texts) -> list[Text]:
    """Twelve texts."""
    return list(zip(texts.prompts, texts.responses, strict=True))


@pytest.fixture
def asked(given: list[Text]) -> list[Text]:
    """Twelve texts, eight of them cut at 24 tokens, and two of them asked for twice."""
    return [*given, given[3], given[8]]


class Counting(ClassifierScorer):
    """Counts the texts that really go through the model."""

    n_computed = 0

    def _forward(self, ids: list[list[int]]) -> FloatArray:
        self.n_computed += len(ids)
        return super()._forward(ids)


def assert_same(found: Rewards, expected: Rewards) -> None:
    assert (list(found.by_text), found.read) == (list(expected.by_text), expected.read)
    np.testing.assert_allclose(list(found.by_text.values()), list(expected.by_text.values()), atol=TOLERANCE, rtol=0)


def test_each_distinct_text_is_computed_once_and_gets_its_own_reward(
    reward_model: RewardModel, asked: list[Text]
) -> None:
    scorer = Counting(reward_model, 100)
    found = score_texts(scorer, asked)
    assert scorer.n_computed == 12 == len(found.by_text)
    assert (len(found.read), found.n_cached) == (8, 0)
    assert list(found.by_text) == [text_id(*text) for text in asked[:12]]
    alone = ClassifierScorer(reward_model, 1)
    for prompt, response in asked:
        assert found.of(prompt, response) == pytest.approx(alone.score([prompt], [response])[0], abs=TOLERANCE)
    assert np.ptp(list(found.by_text.values())) > 1
    with pytest.raises(KeyError):
        found.of(user_prompt("never asked"), "")


def test_a_cache_hit_computes_nothing_and_loses_nothing(
    reward_model: RewardModel, asked: list[Text], cache: ScoreCache, words: Callable[..., str]
) -> None:
    prompt = user_prompt(words(3))
    same = [(prompt, words(40)), (prompt, words(41))]  # the same to the model: they differ after the cut alone
    scope, scorer = scope_of(reward_model), Counting(reward_model, 100)
    first = score_texts(scorer, [*asked, *same], cache=cache, scope=scope)
    assert (scorer.n_computed, first.n_cached, len(cache)) == (13, 0, 14)  # the two are one to the model
    again = Counting(reward_model, 100)
    second = score_texts(again, [*same, *asked], cache=cache, scope=scope)
    assert (again.n_computed, second.n_cached, len(second.by_text)) == (0, 14, 14)
    assert (second.by_text, second.read) == (first.by_text, first.read)
    assert len(second.read) == 10
    assert np.isnan(second.margins([(prompt, words(40), words(41))])).all()
    # What is new alone is computed; another scope computes all.
    score_texts(again, [*asked, (prompt, words(4, start=50))], cache=cache, scope=scope)
    assert again.n_computed == 1
    score_texts(again, asked, cache=cache, scope="two")
    assert again.n_computed == 1 + 12
    with pytest.raises(ValueError, match="scope"):
        score_texts(scorer, asked, cache=cache)


KILLED = """
import os, signal, sys
from summed import summed_model
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.engine import ScoreCache, score_texts

class Killed(ClassifierScorer):
    batches = 0
    def _forward(self, ids):
        found = super()._forward(ids)
        self.batches += 1
        print(len(ids), flush=True)
        if self.batches == 4:  # computed, and not handed on
            os.kill(os.getpid(), signal.SIGKILL)
        return found

texts = [(user_prompt("w1 w2"), " ".join(f"w{(row + at) % 60}" for at in range(1 + row % 9))) for row in range(60)]
score_texts(Killed(summed_model(), 80), texts, cache=ScoreCache(sys.argv[1]), scope="s")
"""


def test_a_kill_loses_the_batch_under_way_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    program = [sys.executable, "-P", "-c", KILLED, str(path)]
    process = subprocess.run(program, env=ENVIRONMENT, capture_output=True, text=True, timeout=240, cwd=ROOT)
    assert process.returncode == -9, process.stderr
    sizes = list(map(int, process.stdout.split()))
    assert len(sizes) == 4
    texts = [(user_prompt("w1 w2"), " ".join(f"w{(row + at) % 60}" for at in range(1 + row % 9))) for row in range(60)]
    with ScoreCache(path) as cache:
        assert len(cache) == sum(sizes[:3]) > 0
        scorer = Counting(summed_model(), 80)
        resumed = score_texts(scorer, texts, cache=cache, scope="s")
    assert resumed.n_cached == sum(sizes[:3]) and scorer.n_computed == 60 - resumed.n_cached
    fresh = score_texts(ClassifierScorer(summed_model(), 80), texts)
    assert np.ptp(list(fresh.by_text.values())) > 1
    assert_same(resumed, fresh)


def test_long_texts_are_dropped_where_that_is_asked_cached_or_not(
    reward_model: RewardModel, asked: list[Text], cache: ScoreCache
) -> None:
    cut = score_texts(ClassifierScorer(reward_model), asked)
    scorer = Counting(reward_model, over_length="drop")
    for n_cached in (0, 4):
        found = score_texts(scorer, asked, cache=cache, scope="s")
        assert set(found.dropped) == set(cut.read) and len(found.dropped) == 8
        assert found.scored.keys() == cut.by_text.keys() - cut.read.keys()
        assert (len(found.by_text), found.read, found.n_cached) == (12, {}, n_cached)
    assert scorer.n_computed == 4
    # Kept by a run that cut them, they are still too long.
    score_texts(ClassifierScorer(reward_model), asked, cache=cache, scope="s")
    found = score_texts(scorer, asked, cache=cache, scope="s")
    assert set(found.dropped) == set(cut.read) and found.n_cached == 12


def test_long_texts_are_refused_before_any_is_scored(
    reward_model: RewardModel, asked: list[Text], cache: ScoreCache
) -> None:
    # The longest: a prompt of 6 words, a response of 45, five marks of the template.
    with pytest.raises(ModelError, match="8 of 12 texts are longer than 24 tokens, the longest has 56"):
        score_texts(ClassifierScorer(reward_model, over_length="refuse"), asked, cache=cache, scope="s")
    assert len(cache) == 0
    short = [text for text in asked if len(text[1].split()) < 10]
    assert len(score_texts(ClassifierScorer(reward_model, over_length="refuse"), short).by_text) == 3


def test_rewards_that_are_no_numbers_are_refused_and_the_others_kept(
    llama: Path, asked: list[Text], cache: ScoreCache
) -> None:
    import torch

    reward_model = load(llama)
    broken = reward_model.template.encode(user_prompt("good"), "bad").ids
    with torch.no_grad():
        # `good` alone is broken, so only the texts that hold it are.
        reward_model.model.model.embed_tokens.weight[broken[2]] = float("nan")
    with pytest.raises(ModelError) as error:
        score_texts(ClassifierScorer(reward_model), [(user_prompt("good"), "bad"), *asked], cache=cache, scope="s")
    assert str(error.value) == (
        f"{llama}: 1 of 13 rewards are NaN or infinite (first: response 'bad'). Try model.precision=fp32"
    )
    assert len(cache) == 12


@on_a_cpu
def test_the_number_of_workers(reward_model: RewardModel, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert (n_workers("auto", reward_model), n_workers(3, reward_model)) == (4, 3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert n_workers("auto", reward_model) == 16
    monkeypatch.setattr(type(reward_model.model), "device", torch.device("cuda"))
    assert n_workers("auto", reward_model) == 1 == n_workers(1, reward_model)
    with pytest.raises(ModelError, match="workers=2: the model is on a GPU"):
        n_workers(2, reward_model)


def test_workers_score_the_same_in_the_same_order(asked: list[Text], cache: ScoreCache) -> None:
    scorer = ClassifierScorer(summed_model(), 60, workers=2)
    found = score_texts(scorer, asked, cache=cache, scope="s")
    assert len(cache) == 12 and found.read
    assert_same(found, score_texts(ClassifierScorer(summed_model(), 60), asked))


LAUNCHED = """
import json, os, sys
from pathlib import Path
from summed import summed_model
from cda.records import user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.engine import ScoreCache, score_texts

folder = Path(sys.argv[1])

class Counting(ClassifierScorer):
    n_computed = n_tokens = 0
    def _forward(self, ids):
        self.n_computed += len(ids)
        self.n_tokens += sum(map(len, ids))
        return super()._forward(ids)

texts = [(user_prompt("w1 w2"), " ".join(f"w{(row * at) % 60}" for at in range(1 + 7 * row % 43))) for row in range(61)]
scorer = Counting(summed_model(), 100)
for _ in range(2):
    found = score_texts(
        scorer, texts, cache=ScoreCache(folder / "scores.sqlite"), scope="summed", launched=folder / "shared"
    )
result = {"rewards": dict(found.by_text), "read": dict(found.read), "n": scorer.n_computed, "tokens": scorer.n_tokens}
(folder / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
"""


@pytest.fixture
def launched(tmp_path: Path) -> list[str]:
    script = tmp_path / "launched.py"
    script.write_text(LAUNCHED, encoding="utf-8")
    return [str(script), str(tmp_path)]


def test_two_launched_processes_share_the_work_and_both_have_the_whole(launched: list[str], tmp_path: Path) -> None:
    both = ENVIRONMENT | {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }
    started = [
        subprocess.Popen(
            [sys.executable, *launched], env=both | {"RANK": rank}, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        for rank in "01"
    ]
    try:
        said = [process.communicate(timeout=280)[1] for process in started]
    finally:
        for process in started:  # one that waits for the other for ever
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert list(first["rewards"].items()) == list(second["rewards"].items())
    assert first["read"] == second["read"]
    texts = [
        (user_prompt("w1 w2"), " ".join(f"w{(row * at) % 60}" for at in range(1 + 7 * row % 43))) for row in range(61)
    ]
    assert_same(Rewards(first["rewards"], first["read"]), score_texts(ClassifierScorer(summed_model(), 100), texts))
    assert first["n"] + second["n"] == len(first["rewards"]) and abs(first["n"] - second["n"]) <= 1
    assert abs(first["tokens"] - second["tokens"]) <= 24


def spaced(n: int) -> list[Text]:
    """As many texts of rising length, each of them followed by one that differs in spaces alone."""
    prompt = user_prompt("w1 w2")
    texts = [" ".join(f"w{(3 * row + at) % 60}" for at in range(2 + row)) for row in range(n)]
    return [(prompt, shown) for text in texts for shown in (text, text.replace(" ", "  "))]


class Noisy(Counting):
    """Rewards move with the batch, as they do below fp32."""

    def _forward(self, ids: list[list[int]]) -> FloatArray:
        return super()._forward(ids) + 1e-3 * self.n_computed


def test_texts_of_the_same_token_ids_are_scored_once_and_are_a_tie(reward_model: RewardModel) -> None:
    texts = spaced(10)
    scorer = Noisy(reward_model, 40)
    found = score_texts(scorer, texts)
    assert scorer.n_computed == 10 and len(found.by_text) == 20 and found.n_alike == 10
    pairs = [(prompt, first, second) for (prompt, first), (_, second) in zip(texts[::2], texts[1::2], strict=True)]
    assert [found.of(prompt, first) for prompt, first, _ in pairs] == [found.of(p, second) for p, _, second in pairs]
    assert found.margins(pairs).tolist() == [0.0] * 10
    assert np.ptp(list(found.by_text.values())) > 0


def test_rewards_of_two_processes_are_one_where_the_tokens_are_the_same() -> None:
    """Each process scores its share; what they have in common is the first one's."""
    a, b = (text_id(user_prompt("q"), response) for response in "ab")
    first = Rewards({a: 1.0, "b": 2.0}, tokens={a: "x"})
    second = Rewards({b: 3.0, "d": np.nan}, tokens={b: "x"}, n_cached=1)
    whole = joined_rewards([first, second])
    assert whole.scored == {a: 1.0, "b": 2.0, b: 1.0}
    assert (whole.dropped, whole.n_cached) == (["d"], 1)
    unlike = Rewards({a: 1.0, b: 1.5}, tokens={a: "x", b: "x"})
    assert unlike.margins([(user_prompt("q"), "a", "b")]).tolist() == [0.0]


@pytest.mark.parametrize("n_batches", [1, 3, 5])
def test_below_fp32_a_resumed_run_makes_the_batches_of_an_unbroken_one(
    reward_model: RewardModel, cache: ScoreCache, monkeypatch: pytest.MonkeyPatch, n_batches: int
) -> None:
    """Though what was kept is not computed again, and some texts are the same to the model."""
    monkeypatch.setattr(ClassifierScorer, "precision", property(lambda _: "8bit"))

    class ByBatch(ClassifierScorer):
        made = 0

        def _forward(self, ids: list[list[int]]) -> FloatArray:
            if self.made == n_batches:
                raise KeyboardInterrupt
            self.made += 1
            return super()._forward(ids) + 1e-3 * len(str(ids))

    class Whole(ByBatch):
        made = -1000

    texts = spaced(12)
    unbroken = score_texts(Whole(reward_model, 40), texts)
    with pytest.raises(KeyboardInterrupt):
        score_texts(ByBatch(reward_model, 40), texts, cache=cache, scope="s")
    assert 0 < len(cache) < 24
    assert score_texts(Whole(reward_model, 40), texts, cache=cache, scope="s").by_text == unbroken.by_text


def test_scores_of_other_batches_are_kept_apart_where_they_count(
    llama: Path, given: list[Text], tmp_path: Path
) -> None:
    """Whoever scores each text alone, because padding moves a model's scores, is not given the scores that were moved."""

    def cached(precision: Precision) -> list[int]:
        reward_model = load(llama, precision=precision)
        with ScoreCache(tmp_path / f"{precision}.sqlite") as cache:
            sizes = (None, 96, 1, 96, 1)
            scorers = (ClassifierScorer(reward_model, size) for size in sizes)
            return [score_texts(scorer, given, cache=cache, scope="s").n_cached for scorer in scorers]

    assert cached("fp32") == [0, 12, 0, 12, 12]
    assert cached("bf16") == [0, 0, 0, 12, 12]


# Nine batches of different lengths.
GIVEN: list[Batch] = [
    {row: Encoded([1, 2 + row] * (1 + row), False), row + 9: Encoded([3 + row], False)} for row in range(9)
]


def test_every_batch_gets_the_rewards_of_this_thread_until_one_fails() -> None:
    asked: list[int] = []

    def following() -> Iterator[Batch]:
        for batch in GIVEN:
            asked.append(min(batch))
            yield batch

    def compute(batch: Batch) -> FloatArray:
        assert torch.get_num_threads() == 2  # half of the four
        return forward(summed_model(), token_ids(batch))

    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        answered = 0
        for batch, rewards in in_threads(compute, following(), 2):
            answered += 1
            # A thread has one batch at most, so that no more can be lost; and the texts are not all fetched beforehand.
            assert len(asked) <= answered + 2
            np.testing.assert_allclose(rewards, forward(summed_model(), token_ids(batch)), atol=1e-5, rtol=0)
        assert sorted(asked) == list(range(9)) and answered == 9
        assert list(in_threads(compute, [], 2)) == []
        unknown: Batch = {0: Encoded([10**6], False)}
        with pytest.raises(IndexError, match="index out of range"):
            list(in_threads(compute, [*GIVEN[:3], unknown, *GIVEN], 2))
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("cda-score")]


ENDLESS = """
import itertools
from summed import summed_model
from cda.models.template import Encoded
from cda.scorers.batching import forward, token_ids
from cda.scorers.batching import in_threads

model = summed_model()
batches = ({0: Encoded([1, 5, 6], False)} for _ in itertools.count())
for at, _ in enumerate(in_threads(lambda batch: forward(model, token_ids(batch)), batches, 2)):
    if at == 3:
        print("under way", flush=True)
"""


def test_ctrl_c_ends_scoring(tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        # A suite that a shell runs in its background is deaf to Ctrl-C, and so would be what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n", process.communicate()[1]
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=60)
    assert process.returncode != 0
    assert problems.count("Traceback") == problems.count("KeyboardInterrupt") == 1


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_shares_are_even_in_number_and_in_every_measure_of_size(n: int) -> None:
    sizes = np.random.default_rng(0).lognormal(6, 1, 1000).astype(int)
    hands = dealt(sizes.tolist(), n)
    assert sorted(row for hand in hands for row in hand) == list(range(1000))
    assert max(map(len, hands)) - min(map(len, hands)) <= 1
    for measure in (sizes, np.minimum(sizes, 512)):  # 512: as they are cut
        sums = [measure[hand].sum() for hand in hands]
        assert max(sums) - min(sums) <= measure.max()
    assert dealt([], 2) == [[], []] and dealt([5], 2) == [[0], []]


AsProcess = Callable[[int], None]


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> AsProcess:
    """This process is one of two."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_PORT", "1")
    return lambda number: monkeypatch.setenv("RANK", str(number))


def exchanged(folder: Path, name: str, *rows: object) -> list[dict[str, object]]:
    return list(Exchange(folder, name, poll_s=0.01).gathered(lambda: rows))


def test_a_failure_is_told_and_forgotten_by_the_next_attempt(as_process: AsProcess, tmp_path: Path) -> None:
    def fails() -> list[object]:
        raise ModelError("m: 3 of 9 rewards are NaN")

    as_process(1)
    with pytest.raises(ModelError, match="3 of 9"):
        list(Exchange(tmp_path, "a").gathered(fails))
    as_process(0)
    with pytest.raises(
        RunError, match=r"process 1 of 2 failed while process 0 waited for process 1: m: 3 of 9 rewards"
    ):
        exchanged(tmp_path, "a", {"x": 1})
    as_process(1)
    assert exchanged(tmp_path, "a", {"x": 2}) == [{"x": 1}, {"x": 2}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "scores.sqlite"


@pytest.fixture(scope="module")
def whole_model(llama: Path) -> RewardModel:
    return load(llama)


def test_scores_come_back_exactly_and_only_in_their_scope(path: Path) -> None:
    written = {f"{row:016x}": TextScore(row / 3, f"read{row}" if row % 2 else None) for row in range(12_000)}
    with ScoreCache(path) as cache:
        assert len(cache) == 0 and cache  # an empty cache is a cache
        cache.keep("one", written.items())
        cache.keep("two", [("0" * 16, TextScore(-5.0)), ("dropped", TextScore(None))])
        cache.keep("two", [("0" * 16, TextScore(2.0))])  # the first one stays
    with ScoreCache(path) as cache:
        assert len(cache) == 12_001
        assert cache.lookup("one", [*written, "unknown"]) == written
        assert cache.lookup("two", [*written, "dropped"]) == {"0" * 16: TextScore(-5.0)}
        assert cache.lookup("three", list(written)) == {} == cache.lookup("one", [])


WRITING = """
import os, signal, sys
from cda.scorers.engine import ScoreCache
from cda.scorers.compared import TextScore

cache, number = ScoreCache(sys.argv[1]), int(sys.argv[2])
for batch in range(25):
    names = [f"{8 * batch + row + 200 * number}" for row in range(8)]
    cache.keep("s", [(name, TextScore(float(name))) for name in names])
    assert len(cache.lookup("s", names)) == 8
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_several_processes_write_the_same_file_and_a_commit_outlives_a_kill(path: Path) -> None:
    program = [sys.executable, "-P", "-c", WRITING, str(path)]
    running = [
        subprocess.Popen([*program, str(number)], stderr=subprocess.PIPE, text=True, cwd=ROOT) for number in range(3)
    ]
    assert [process.communicate(timeout=120)[1] for process in running] == [""] * 3
    assert [process.returncode for process in running] == [-9] * 3
    with ScoreCache(path) as cache:
        names = [str(number) for number in range(600)]
        assert cache.lookup("s", names) == {name: TextScore(float(name)) for name in names}


def test_a_scope_changes_with_everything_that_decides_a_reward(
    llama: Path, llama_maker: ModelMaker, whole_model: RewardModel, trained_fp32: Trained, tmp_path: Path
) -> None:
    adapter, other_adapter = trained_fp32.result.adapter, tmp_path / "adapter"
    shutil.copytree(adapter, other_adapter)
    here = scope_of(whole_model, adapter)
    shutil.copytree(llama, tmp_path / "model")  # a copy elsewhere is the same
    assert scope_of(load(tmp_path / "model"), other_adapter, 1.0) == here
    config = other_adapter / "adapter_config.json"
    config.write_text(config.read_text().replace('"lora_alpha": 16', '"lora_alpha": 17'))
    own_code = replace(whole_model, spec=replace(whole_model.spec, trust_remote_code=True))
    scopes = [
        here,
        scope_of(whole_model),
        scope_of(whole_model, adapter, 0.5),
        scope_of(whole_model, other_adapter),
        scope_of(own_code),
        scope_of(load(llama, limit=32)),
        scope_of(load(llama, precision="bf16")),
        scope_of(load(llama_maker("scope-other", config={"num_hidden_layers": 1}))),
        scope_of(load(llama_maker("scope-plain", chat_template=None))),
    ]
    assert len(set(scopes)) == len(scopes)


@pytest.mark.parametrize("part", ["form", "segments", "chat template", "special tokens", "padding"])
def test_a_scope_changes_with_how_a_text_becomes_tokens(whole_model: RewardModel, part: str) -> None:
    """Each by itself, whatever else was the same: a template may be changed after the model was loaded."""
    tokenizer = copy.deepcopy(whole_model.template.tokenizer)
    template = Template(tokenizer, 64, whole_model.template.pad_token_id)
    changed = replace(whole_model, template=template)
    assert scope_of(changed) == scope_of(whole_model)
    if part == "form":
        template.form = "plain text"
    elif part == "segments":
        template.segments = not template.segments
    elif part == "chat template":
        tokenizer.chat_template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
    elif part == "special tokens":
        tokenizer.eos_token = "w1"
    else:
        template.pad_token_id += 1
    assert scope_of(changed) != scope_of(whole_model)


def test_a_scope_holds_every_library_between_a_text_and_its_score(
    whole_model: RewardModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = engine.versions()
    scopes = {scope_of(whole_model)}
    for name in ("torch", "transformers", "tokenizers", "peft", "bitsandbytes", "openai"):
        monkeypatch.setattr(engine, "versions", lambda name=name: found | {name: "99"})
        scopes.add(scope_of(whole_model))
    assert len(scopes) == 6  # openai computes no score


@pytest.fixture
def on_hub(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the model into a local copy of the hub under a commit, as `org/model`."""
    from transformers.utils import hub

    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))

    def put(commit: str) -> None:
        repository = tmp_path / "models--org--model"
        shutil.copytree(llama, repository / "snapshots" / commit)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)

    return put


def test_a_hub_model_is_named_by_its_commit(on_hub: Callable[[str], None], whole_model: RewardModel) -> None:
    hub_model = replace(whole_model, spec=ModelSpec("org/model", "fp32", 64))
    ask_again()
    with pytest.raises(ModelError, match=r"org/model: its commit on the hub is unknown.*model\.revision"):
        scope_of(hub_model)
    on_hub("a" * 40)
    first = scope_of(hub_model)
    assert first == scope_of(replace(hub_model, spec=ModelSpec("org/model", "fp32", 64, revision="a" * 40)))
    on_hub("b" * 40)
    assert scope_of(hub_model) == first  # one run never mixes two commits
    ask_again()
    assert scope_of(hub_model) != first


def test_the_base_of_an_adapter_is_another_once_its_main_has_moved(on_hub: Callable[[str], None]) -> None:
    """It is an input of the training's stage, which is then made again."""
    section = load_recipe("jargon", ["model.name_or_path=org/model", "model.precision=fp32"]).recipe.model
    sources = []
    for commit in ("a" * 40, "b" * 40):
        on_hub(commit)
        ask_again()
        sources.append(model_source(section))
    assert sources == [f"org/model@{'a' * 40}", f"org/model@{'b' * 40}"]


def test_a_plan_says_how_a_hub_model_is_read_once_it_is_on_this_machine(on_hub: Callable[[str], None]) -> None:
    def lines() -> list[str]:
        loaded = load_recipe("jargon", ["model.name_or_path=org/model", "model.precision=fp32"])
        return open_scorer(Subject("model", loaded.recipe.model), scorer_settings(loaded)).read_lines()

    assert lines() == []
    on_hub("a" * 40)
    (line,) = lines()
    assert line.startswith("reads       LlamaForSequenceClassification (head score) in fp32, chat template, ")


def test_below_fp32_a_resumed_run_scores_in_the_batches_of_the_whole(
    llama: Path, given: list[Text], tmp_path: Path
) -> None:
    """8-bit scores move with batch-mates: what is left after a kill must be scored in the same company as without one."""
    scorer = ClassifierScorer(load(llama, precision="8bit"), 96)
    expected = score_texts(scorer, given).by_text
    with ScoreCache(tmp_path / "cache.sqlite") as cache:
        assert score_texts(scorer, given, cache=cache, scope="s").by_text == expected
        assert score_texts(scorer, given, cache=cache, scope="s").n_cached == len(expected)
        # Other texts beside them, and other company: none of these scores fits.
        assert score_texts(scorer, given[:5], cache=cache, scope="s").n_cached == 0
    with ScoreCache(tmp_path / "killed.sqlite") as cache:
        scope = fingerprint(["s", "batches of 96", list(expected)])
        cache.keep(scope, [(name, TextScore(reward)) for name, reward in list(expected.items())[::2]])
        resumed = score_texts(scorer, given, cache=cache, scope="s")
    assert resumed.n_cached == len(expected) / 2
    assert resumed.by_text == expected


def test_memory_does_not_grow_with_the_number_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside some numbers for each text, and not its token ids."""

    class Template:
        def encode(self, prompt: Prompt, response: str) -> Encoded:  # noqa: ARG002
            return Encoded([1000 + at for at in range(200)], False)

    monkeypatch.setattr(batching, "WINDOW_CHARACTERS", 20_000)
    prompt = user_prompt("p" * 200)

    def peak_bytes(n: int) -> int:
        tracemalloc.start()
        found = batching.windows(Template(), [(prompt, "r" * 200)] * n)  # type: ignore[arg-type]
        assert sum(map(len, batching.token_batches(found, 2000))) == n
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    small, large = peak_bytes(500), peak_bytes(5_000)
    assert small > 50 * 200 * 8  # a window was really held
    assert large - small < 4_500 * 150  # the ids of a text take 7,200


def test_windows_that_are_left_in_the_middle_wait_for_nothing() -> None:
    """The garbage collector may close them while a thread starts: to join another thread there would wait for ever."""
    entered, go_on = threading.Event(), threading.Event()

    class Slow:
        def encode(self, _: object, text: str) -> list[int]:
            if text.startswith("s"):
                entered.set()
                go_on.wait(30)
            return [1]

    found = batching.windows(Slow(), [(user_prompt("q"), "r" * 900), (user_prompt("q"), "s" * 300)], 500)  # type: ignore[arg-type]
    next(found)
    assert entered.wait(30)
    closing = threading.Thread(target=found.close)
    closing.start()
    closing.join(10)
    try:
        assert not closing.is_alive()
    finally:
        go_on.set()
