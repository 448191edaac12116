"""A policy that has memorised our answers, trained against the embedded reward model before and after its debiasing.

The policy is no language model: a Llama of about a million parameters over whole words, fitted to the twelve embedded answers of each of a few
prompts until it recites them. It can only shift weight between these answers (and garble them), which is what makes right answers countable: a
sample is right if the answer that it resembles most is. No claim about what a real policy would invent follows from it.

It is trained by distilling the best of n: of its samples, the one that a reward puts highest among n, chosen anew a number of times, is what it is
fitted to next; n = 1, any sample, shows what the fitting alone does. The prediction is the tilted policy at the KL that was measured, from
samples that the training did not see.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import cda
from cda.arrays import FloatArray
from cda.biases import load_bias
from cda.embedded.texts import AuthoredSamples, authored_samples
from cda.files.jsonl import write_json
from cda.records import prompt_text
from cda.results.base import Estimate
from cda.rewriting.labels import measure_of
from cda.run import fingerprint
from cda.stats.estimators import mean_of
from cda.stats.picks import pick_probabilities
from cda.stats.tilt import Padded, reach, tilted_to
from evals.method.joint_embedded import OTHERS, TAUGHT

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

RIGHT = "right answers"
ATTRIBUTES = (*TAUGHT, *OTHERS, RIGHT)
SEEDS, SIZES = (1, 2, 3), (1, 4, 16)
N_PROMPTS, POOL, PICKS, JUDGED = 24, 64, 16, 32
"""Prompts; samples of each before the training, of each seed; answers that are picked from them; samples after it."""
FIT_EPOCHS, EPOCHS, FIT_RATE, RATE, BATCH = 80, 8, 2e-3, 1e-3, 8
CLOSE = 0.8
"""Dice coefficient of word trigrams from which a sample counts as one of the twelve."""
MOST_WORDS, TOGETHER, SEED = 260, 384, 7
PAD, START, END = 0, 1, 2

Pool = list[list[str]]
"""Samples of each prompt."""


@dataclass(frozen=True, eq=False)
class Written:
    """The embedded samples of one prompt, and what a text has of each attribute."""

    row: AuthoredSamples

    @property
    def prompt(self) -> str:
        return prompt_text(self.row.prompt)

    @cached_property
    def trigrams(self) -> list[set[tuple[str, ...]]]:
        return [_trigrams(text) for text in self.row.responses]

    def nearest(self, text: str) -> tuple[int, float]:
        """Place of the answer that a text shares most word trigrams with, and their Dice coefficient."""
        own = _trigrams(text)
        alike = [2 * len(own & other) / max(len(own) + len(other), 1) for other in self.trigrams]
        return int(np.argmax(alike)), max(alike)

    @cached_property
    def known(self) -> dict[str, FloatArray]:
        """Attributes of texts that were looked at."""
        return {}

    def shown(self, text: str) -> FloatArray:
        """A text's attributes, shape (len(ATTRIBUTES),): 1 if it shows a bias; of length, the share of the twelve, itself aside, that it
        is longer than; 1 if it is right."""
        if text in self.known:
            return self.known[text]
        found = list[float]()
        for bias in map(load_bias, (*TAUGHT, *OTHERS)):
            rule, value = measure_of(bias), bias.measured(text, measure_of(bias).feature)
            others = [each for each in self.row.responses if each != text]
            if rule.relative:
                longer = [bool(rule.holds(value, bias.measured(each, rule.feature))) for each in others]
                found.append(float(np.mean(longer)))
            else:
                found.append(float(bool(rule.holds(value))))
        self.known[text] = np.array([*found, float(not self.row.flaws[self.nearest(text)[0]])])
        return self.known[text]


def _trigrams(text: str) -> set[tuple[str, ...]]:
    words = ["", *text.split(), ""]
    return set(zip(words, words[1:], words[2:], strict=False))


class Policy:
    """The tiny language model with its tokenizer, which loses nothing of the texts it was made from."""

    def __init__(self, tokenizer: Tokenizer, model: LlamaForCausalLM) -> None:
        self.tokenizer, self.model = tokenizer, model

    @classmethod
    def untrained(cls, texts: Sequence[str]) -> Policy:
        import torch
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
        from transformers import LlamaConfig, LlamaForCausalLM

        split = pre_tokenizers.Split(Regex(r" ?\w+| ?[^\w\s]|\s"), "isolated")
        words = Counter(word for text in texts for word, _ in split.pre_tokenize_str(text))
        vocabulary = {word: place for place, word in enumerate(("<pad>", "<s>", "</s>", *words))}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
        tokenizer.pre_tokenizer, tokenizer.decoder = split, decoders.Fuse()
        torch.manual_seed(SEED)
        config = LlamaConfig(
            vocab_size=len(vocabulary), hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=384,
            tie_word_embeddings=True, max_position_embeddings=512, pad_token_id=PAD, bos_token_id=START, eos_token_id=END,
        )  # fmt: skip
        return cls(tokenizer, LlamaForCausalLM(config))

    def fitted(
        self, texts: Sequence[tuple[str, str]], weights: FloatArray, epochs: int, rate: float, seed: int
    ) -> Policy:
        """A copy after supervised training on (prompt, answer); weights (n,) of the answers, their mean as one."""
        import torch
        from transformers import LlamaForCausalLM

        model = LlamaForCausalLM(self.model.config)
        model.load_state_dict(self.model.state_dict())
        rng, rows, scale = np.random.default_rng(seed), [self._ids(*text) for text in texts], weights / weights.mean()
        steps = epochs * -(-len(rows) // BATCH)
        lengths = np.array([len(prompt) + len(answer) for prompt, answer in rows])
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=0.0)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
        for _ in range(epochs):
            # Of similar length together, so that padding is short.
            order = np.argsort(lengths * rng.uniform(0.8, 1.2, size=len(rows)))
            batches = [order[start : start + BATCH] for start in range(0, len(rows), BATCH)]
            for at in rng.permutation(len(batches)):
                chosen = batches[at]
                logs = _log_probs(model, [rows[row] for row in chosen])
                loss = -(logs * torch.tensor(scale[chosen], dtype=torch.float32)).mean() / lengths.mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
        return Policy(self.tokenizer, model.eval())

    def log_probs(self, texts: Sequence[tuple[str, str]]) -> FloatArray:
        """Log-probability of each answer, in nats; distinct texts are computed once. Shape (n,)."""
        import torch

        distinct = sorted(set(texts), key=lambda text: len(text[1]))
        with torch.inference_mode():
            parts = [
                _log_probs(self.model, [self._ids(*text) for text in distinct[start : start + 32]]).numpy()
                for start in range(0, len(distinct), 32)
            ]
        by_text = dict(zip(distinct, np.concatenate(parts), strict=True))
        return np.array([by_text[text] for text in texts], dtype=np.float64)

    def samples(self, prompts: Sequence[str], n: int, seed: int) -> Pool:
        """`n` answers to each prompt at temperature 1."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        asked = [self._ids(prompt, "")[0] for prompt in prompts for _ in range(n)]
        texts = [
            text
            for start in range(0, len(asked), TOGETHER)
            for text in self.tokenizer.decode_batch(
                _drawn(self.model, asked[start : start + TOGETHER], generator), skip_special_tokens=True
            )
        ]
        return [texts[start : start + n] for start in range(0, len(texts), n)]

    def _ids(self, prompt: str, answer: str) -> tuple[list[int], list[int]]:
        return [*self.tokenizer.encode(prompt).ids, START], [*self.tokenizer.encode(answer).ids, END]


def _log_probs(model: LlamaForCausalLM, rows: Sequence[tuple[list[int], list[int]]]) -> Any:
    """Log-probability of each row's answer after its prompt: a tensor of shape (n,)."""
    import torch

    wholes = [torch.tensor([*prompt, *answer]) for prompt, answer in rows]
    ids = torch.nn.utils.rnn.pad_sequence(wholes, batch_first=True, padding_value=PAD)
    at = torch.arange(ids.shape[1])[None]
    begins, ends = (
        torch.tensor(each)[:, None] for each in ([len(p) for p, _ in rows], [len(p) + len(a) for p, a in rows])
    )
    of_answer = ((at >= begins) & (at < ends))[:, 1:]
    # Padding stands at the end, where the causal mask hides it from all that counts.
    states = model.model(ids).last_hidden_state[:, :-1][of_answer]
    nats = -torch.nn.functional.cross_entropy(model.lm_head(states), ids[:, 1:][of_answer], reduction="none")
    return torch.zeros(len(rows)).index_add(0, of_answer.nonzero()[:, 0], nats)


def _drawn(model: LlamaForCausalLM, asked: Sequence[list[int]], generator: Any) -> list[list[int]]:
    """One answer after each prompt. Rows that have ended are taken out of the batch now and then, which `generate` does not do."""
    import torch

    with torch.inference_mode():
        width, made = max(map(len, asked)), [list[int]() for _ in asked]
        ids = torch.tensor([[PAD] * (width - len(row)) + row for row in asked])
        mask = (ids != PAD).long()
        alive, cache, places = torch.arange(len(asked)), None, (mask.cumsum(1) - 1).clamp(min=0)
        going = torch.ones(len(asked), dtype=torch.bool)
        for _ in range(MOST_WORDS):
            out = model(
                ids, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            cache = out.past_key_values
            ids = torch.multinomial(out.logits[:, -1].softmax(-1), 1, generator=generator)
            going &= ids[:, 0] != END
            for row, token in zip(alive[going].tolist(), ids[going, 0].tolist(), strict=True):
                made[row].append(token)
            if not going.any():
                break
            if going.float().mean() < 0.75:
                kept = going.nonzero()[:, 0]
                cache.batch_select_indices(kept)
                ids, mask, places, alive, going = (each[kept] for each in (ids, mask, places, alive, going))
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], dim=1)
            places = places[:, -1:] + 1
        return made


@dataclass(frozen=True, eq=False)
class World:
    """Prompts with the policy before any reward, its samples by seed, and the rewards of these by scoring."""

    written: list[Written]
    start: Policy
    pools: dict[int, Pool]
    rewards: dict[str, dict[tuple[int, str], float]]
    """By scoring: `before`, and `after 1` … of each training; of (prompt, text)."""

    def attributes(self, pool: Pool) -> FloatArray:
        """Shape (n_prompts, n_samples, len(ATTRIBUTES))."""
        return np.array([[one.shown(text) for text in own] for one, own in zip(self.written, pool, strict=True)])

    def scored(self, scoring: str, pool: Pool) -> FloatArray:
        """Rewards, shape (n_prompts, n_samples)."""
        return np.array([[self.rewards[scoring][at, text] for text in own] for at, own in enumerate(pool)])

    def close(self, pool: Pool) -> float:
        """Share of samples that are one of the twelve, or nearly."""
        return float(
            np.mean([self.written[at].nearest(text)[1] >= CLOSE for at, own in enumerate(pool) for text in own])
        )

    def picked(self, scoring: str, seed: int, n: int) -> Policy:
        """The policy after training on the best of n of its own samples."""
        rng, picks = np.random.default_rng([seed, n, len(scoring)]), Counter[tuple[str, str]]()
        for one, own, rewards in zip(
            self.written, self.pools[seed], self.scored(scoring, self.pools[seed]), strict=True
        ):
            for at in rng.choice(len(own), PICKS, p=pick_probabilities(rewards, [n])[0]):
                picks[one.prompt, own[at]] += 1
        texts = list(picks)
        return self.start.fitted(texts, np.array([picks[text] for text in texts], dtype=np.float64), EPOCHS, RATE, seed)

    def ended(self, policy: Policy, seed: int) -> tuple[FloatArray, FloatArray, float]:
        """By prompt, the attributes of a trained policy's samples and its KL from the start in nats; the share that is close."""
        prompts = [one.prompt for one in self.written]
        pool = policy.samples(prompts, JUDGED, 100 + seed)
        texts = [(prompt, text) for prompt, own in zip(prompts, pool, strict=True) for text in own]
        nats = policy.log_probs(texts) - self.start.log_probs(texts)
        return self.attributes(pool).mean(axis=1), nats.reshape(len(prompts), -1).mean(axis=1), self.close(pool)

    def predicted(self, scoring: str, seed: int, kl_nats: float) -> tuple[FloatArray, float]:
        """By prompt, the attributes of the policy tilted to a KL, from the other seeds' samples; the KL, which is less if they do not support it."""
        others = [self.pools[other] for other in SEEDS if other != seed]
        pool = [[text for own in each for text in own] for each in zip(*others, strict=True)]
        size = len(pool[0])
        samples = Padded.of([np.arange(size) + size * at for at in range(len(pool))])
        rewards, shown = self.scored(scoring, pool).ravel(), self.attributes(pool).reshape(-1, len(ATTRIBUTES))
        furthest = reach(rewards, samples)
        assert furthest is not None, f"{scoring}: the rewards are the same for all samples of a prompt"
        tilt = tilted_to(rewards, samples, min(kl_nats, furthest.kl_nats), furthest)
        return np.stack([tilt.means(shown[:, at]) for at in range(len(ATTRIBUTES))], axis=1), float(
            tilt.kl_nats().mean()
        )


def world(run: Path, kept: Path) -> World:
    """The start policy, fitted to all answers alike, with its samples and their rewards; `run` is the folder of the joint training, and what
    is in `kept` is not made again."""
    import torch

    rows = authored_samples()
    written = [Written(row) for row in rows[:: len(rows) // N_PROMPTS][:N_PROMPTS]]
    prompts = [one.prompt for one in written]
    answers = [(one.prompt, text) for one in written for text in one.row.responses]
    start = Policy.untrained([text for pair in answers for text in pair])
    kept.mkdir(parents=True, exist_ok=True)
    if (weights := kept / "start.pt").is_file():
        start.model.load_state_dict(torch.load(weights))
        start.model.eval()
    else:
        start = start.fitted(answers, np.ones(len(answers)), FIT_EPOCHS, FIT_RATE, SEED)
        torch.save(start.model.state_dict(), weights)
    pools = {
        seed: made_once(kept / f"samples-{seed}.json", partial(start.samples, prompts, POOL, seed)) for seed in SEEDS
    }
    distinct = list(dict.fromkeys((at, text) for pool in pools.values() for at, own in enumerate(pool) for text in own))

    def rewarded(**options: Any) -> list[Any]:
        with cda.reward_function("embedded", **options) as function:
            return function([prompts[at] for at, _ in distinct], [text for _, text in distinct])

    rewards = {"before": made_once(kept / "rewards-before.json", rewarded)}
    for seed, adapter in zip(SEEDS, (run / "adapter", *sorted(run.glob("adapter-*"))), strict=False):
        rewards[f"after {seed}"] = made_once(kept / f"rewards-after-{seed}.json", partial(rewarded, adapter=adapter))
    by_text = {name: dict(zip(distinct, map(float, found), strict=True)) for name, found in rewards.items()}
    return World(written, start, pools, by_text)


def made_once(path: Path, make: Callable[[], Any]) -> Any:
    """The content of a JSON file, made if it is not there."""
    if not path.is_file():
        write_json(path, make())
    return json.loads(path.read_text(encoding="utf-8"))


Endings = dict[tuple[str, int], dict[str, FloatArray]]
"""By scoring (`before`, `after`) and n: `trained` and `tilted`, shape (n_seeds, n_prompts, len(ATTRIBUTES)); `kl`, `tilted kl`, `close`."""


def endings(found: World, kept: Path) -> Endings:
    """Where training ends, and where the tilt says, of each reward and n, over the seeds."""
    n_after = len(found.rewards) - 1
    ends: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for seed, n, moment in product(SEEDS, SIZES, ("before", "after")):
        if n == 1 and moment == "after":
            continue  # any sample, whatever its reward
        scoring = moment if moment == "before" else f"after {(seed - 1) % n_after + 1}"

        def end(scoring: str = scoring, seed: int = seed, n: int = n) -> dict[str, Any]:
            trained, kl, close = found.ended(found.picked(scoring, seed, n), seed)
            tilted, reached = found.predicted(scoring, seed, float(kl.mean()))
            return {
                "trained": trained.tolist(),
                "tilted": tilted.tolist(),
                "kl": kl.tolist(),
                "tilted kl": reached,
                "close": close,
            }

        ends.setdefault((moment, n), []).append(made_once(kept / f"{moment}-{n}-{seed}.json", end))
        print(f"seed {seed}, {moment}, best of {n}: made", flush=True)
    return {at: {name: np.array([one[name] for one in own]) for name in own[0]} for at, own in ends.items()}


def settings() -> str:
    """A name of what decides the result besides the code."""
    return fingerprint([SEEDS, SIZES, N_PROMPTS, POOL, PICKS, JUDGED, FIT_EPOCHS, EPOCHS, FIT_RATE, RATE, BATCH, SEED])


def estimate(rows: FloatArray, unit: str = "share difference") -> Estimate:
    """Mean of values by seed and prompt, shape (n_seeds, n_prompts), clustered by prompt."""
    names = [str(prompt) for _ in rows for prompt in range(rows.shape[1])]
    return mean_of(rows.ravel(), names, unit).estimate
