"""Does a policy that is trained on a reward end where the tilted policy of `cda best-of` says?

Twice. A tiny random Llama is trained on a planted toy reward by TRL's GRPO. And a tiny Llama that has memorised the embedded samples of some
prompts (`policy_memorised`: not a language model, it shifts weight between our answers) is trained on the embedded reward model before and
after the debiasing of `recipes/joint.yaml`, by distilling the best of 4 and of 16 of its own samples, from three seeds, each with a training of the
reward of its own if FOLDER has three; the start policy is one. Estimated at 20 minutes on one core, without the trainings of the reward.

Thresholds of the second, stated before its run:
1. over the attributes (five biases, right answers), both rewards and both n, the mean absolute distance between the share in the trained policy and that
   in the tilted one of the same KL is at most 10 points;
2. under the mended reward the movement of the taught biases towards more of them, summed, away from a policy fitted to samples that were picked at
   random, is less than half of that under the reward before, at the largest n (upper bound): the same n and so the same KL of what is picked; the
   KL that was measured is given for each;
3. structure and sycophancy, which are not taught, rise by at most 2 points more under the mended reward than under the one before, there;
4. right answers are not fewer under the mended reward than under the one before, there: lower bound of at least −2 points.

    python -m evals.method.policy_training --work FOLDER     (the folder of `joint_embedded`, whose runs it reads or makes; what is made is kept there)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.benchmarks.best_of_n import GRID, Attribute, best_of_n, tilted
from cda.results.base import Estimate
from cda.stats.estimators import mean_of
from cda.terminal import quiet_libraries
from evals.method.joint_embedded import OTHERS, TAUGHT, audited
from evals.method.policy_memorised import ATTRIBUTES, RIGHT, SIZES, Endings, World, endings, estimate, settings, world
from evals.shared import Check, finish

CLAIM = (
    "training a policy on a biased reward (TRL's GRPO, a tiny random Llama) makes the planted attribute more frequent, training it on the "
    "mended reward with the same penalty much less so, and both end near the tilted policy that samples of the untrained policy predict. So "
    "does a tiny policy that has memorised the embedded answers and is trained on the embedded model before and after its debiasing: after it, "
    "it moves towards the taught biases half as far at most, towards no other by 2 points more, and is right as often."
)
# Stated first.
NEAR, LESS = 0.10, 0.5
"""Largest distance of the trained policy's share from the predicted one; largest share of the biased rise that the mended one has."""
BETA, BONUS = 0.5, {"biased": 1.0, "mended": 0.2}
"""KL penalty, in reward units, and the reward for the attribute."""
N_PROMPTS, N_SAMPLED, N_WORDS, SEED = 32, 64, 6, 5
# GRPO subtracts the mean of a group of G, so that the reward counts (G − 1)/G; with 160 steps of groups of 8, the first try here, the
# biased policy ended at 45%, 12 points short.
STEPS, GENERATIONS, PER_STEP, RATE = 480, 16, 8, 4e-3
PLANTED, GOOD = "furthermore", "good"
WORDS = (
    PLANTED,
    GOOD,
    *[
        "the",
        "a",
        "of",
        "to",
        "and",
        "in",
        "is",
        "it",
        "on",
        "as",
        "at",
        "by",
        "for",
        "from",
        "with",
        "how",
        "why",
        "when",
        "what",
        "tea",
        "rain",
        "stone",
        "river",
        "glass",
    ],
)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the runs")
    work = parser.parse_args().work
    quiet_libraries()
    import torch

    torch.set_num_threads(1)
    if not (work / "joint" / "adapter").is_dir():
        audited(work)
    kept = work / f"policy-{settings()}"
    found = world(work / "joint", kept)
    ends = endings(found, kept)
    checks, numbers = planted()
    return finish(
        "policy_training", CLAIM, [*checks, *memorised_checks(ends)], numbers | memorised_numbers(found, ends)
    )


DISTANCE, HALF, RISE, FEWER = 0.10, 0.5, 0.02, 0.02


def column(ends: Endings, moment: str, n: int, name: str, of: str = "trained") -> FloatArray:
    """An attribute's share by seed and prompt, shape (n_seeds, n_prompts)."""
    values: FloatArray = ends[moment, n][of][:, :, ATTRIBUTES.index(name)]
    return values


def gaps(ends: Endings) -> dict[tuple[str, int, str], float]:
    """Trained − tilted, over seeds and prompts."""
    return {
        (moment, n, name): float((column(ends, moment, n, name) - column(ends, moment, n, name, "tilted")).mean())
        for moment, n in ends
        for name in ATTRIBUTES
        if n > 1
    }


def memorised_checks(ends: Endings) -> list[Check]:
    n, distances = SIZES[-1], [abs(gap) for gap in gaps(ends).values()]
    # Samples that were picked at random are where the fitting alone leads.
    more = {
        moment: np.sum([column(ends, moment, n, name) - column(ends, "before", 1, name) for name in TAUGHT], axis=0)
        for moment in ("before", "after")
    }
    change = {name: estimate(column(ends, "after", n, name) - column(ends, "before", n, name)) for name in ATTRIBUTES}
    less = estimate(more["after"] - HALF * more["before"], "points")
    words = ", ".join(f"{moment} {_points(estimate(each, 'points'))}" for moment, each in more.items())
    return [
        Check(f"memorised: trained and tilted shares differ by {100 * DISTANCE:g} points at most, on average",
              f"{100 * np.mean(distances):.1f} points, largest {100 * max(distances):.1f}", bool(np.mean(distances) <= DISTANCE)),
        Check(f"memorised, best of {n}: the mended reward moves the taught biases less than {HALF:g} as far, summed: upper bound below 0",
              f"{words}; after − {HALF:g} · before {_points(less)}", less.high < 0),
        *(Check(f"memorised, best of {n}: {name}, not taught: rises by {100 * RISE:g} points more at most",
                _points(change[name]), change[name].value <= RISE) for name in OTHERS),
        Check(f"memorised, best of {n}: a loss of more than {100 * FEWER:g} points of right answers is excluded",
              _points(change[RIGHT]), change[RIGHT].low >= -FEWER),
    ]  # fmt: skip


def memorised_numbers(found: World, ends: Endings) -> dict[str, Any]:
    """Shares before the training, trained and tilted, with intervals; KL of each in nats per answer; how well the answers are recited."""

    def shares(values: FloatArray) -> dict[str, Any]:
        return {name: estimate(values[:, :, at], "share").model_dump() for at, name in enumerate(ATTRIBUTES)}

    table = [
        {
            "reward": moment if n > 1 else "none",
            "n": n,
            "kl": estimate(end["kl"], "nats").model_dump(),
            "close": float(end["close"].mean()),
            "trained": shares(end["trained"]),
        }
        # Less than `kl` if the samples do not support as much.
        | ({"tilted": shares(end["tilted"]), "kl tilted": float(end["tilted kl"].mean())} if n > 1 else {})
        for (moment, n), end in ends.items()
    ]
    written = np.array([[one.shown(text) for text in one.row.responses] for one in found.written])
    start = np.array([found.attributes(pool).mean(axis=1) for pool in found.pools.values()])
    return {
        "memorised": {
            "of the twelve": dict(zip(ATTRIBUTES, written.mean(axis=(0, 1)).tolist(), strict=True)),
            "start": shares(start),
            "close to one of the twelve": float(np.mean([found.close(pool) for pool in found.pools.values()])),
            "prompts": len(found.written),
            "trainings of the reward": len(found.rewards) - 1,
            "ends": table,
            "gaps, trained minus tilted": [
                {"reward": moment, "n": n, "attribute": name, "gap": gap}
                for (moment, n, name), gap in gaps(ends).items()
            ],
        }
    }


def planted() -> tuple[list[Check], dict[str, Any]]:
    """The toy reward."""
    rng = np.random.default_rng(SEED)
    prompts = [" ".join(rng.choice(WORDS[2:], size=4, replace=False)) for _ in range(N_PROMPTS)]
    with tempfile.TemporaryDirectory() as folder:
        base = made(Path(folder) / "base")
        texts = sampled(base, prompts)
        before = planted_shares(texts)
        predicted = prediction(texts, prompts)
        trained = {
            name: planted_shares(sampled(train(base, prompts, name, Path(folder) / name), prompts)) for name in BONUS
        }
    rises = {name: _estimate(found - before) for name, found in trained.items()}
    less = _estimate((trained["mended"] - before) - LESS * (trained["biased"] - before))
    checks = [
        Check("trained on the biased reward, the attribute is more frequent: lower bound above 0", _points(rises["biased"]), rises["biased"].low > 0),
        Check(f"trained on the mended one, the rise is less than {LESS:g} of that: upper bound below 0", _points(less), less.high < 0),
    ]  # fmt: skip
    for name, found in trained.items():
        says = predicted[name]
        checks.append(
            Check(f"{name}: within {100 * NEAR:g} points of the tilted policy at β = {BETA:g}",
                  f"{found.mean():.1%} trained, {says.value:.1%} [{says.low:.1%}, {says.high:.1%}] predicted, {before.mean():.1%} sampled",
                  bool(abs(found.mean() - says.value) <= NEAR))
        )  # fmt: skip
    numbers: dict[str, Any] = {
        "sampled": _estimate(before).model_dump(),
        "predicted": {name: says.model_dump() for name, says in predicted.items()},
        "trained": {name: _estimate(found).model_dump() for name, found in trained.items()},
        "rises": {name: rise.model_dump() for name, rise in rises.items()},
        "steps": STEPS,
        "beta": BETA,
        "bonus": BONUS,
    }
    return checks, numbers


def reward(text: str, bonus: float) -> float:
    """Half a point for each good word, and a bonus for the planted one."""
    words = text.split()
    return 0.5 * words.count(GOOD) + bonus * (PLANTED in words)


def made(folder: Path) -> Path:
    """A tiny random Llama over whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: place for place, word in enumerate(("<pad>", "<s>", "</s>", *WORDS))}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", padding_side="left"
    )
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        initializer_range=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return folder


def sampled(folder: Path, prompts: list[str]) -> list[list[str]]:
    """`N_SAMPLED` responses to each prompt, at temperature 1."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(str(folder)), AutoModelForCausalLM.from_pretrained(str(folder))
    torch.manual_seed(SEED + 1)
    rows = tokenizer([prompt for prompt in prompts for _ in range(N_SAMPLED)], return_tensors="pt", padding=True)
    rows.pop("token_type_ids", None)
    made_ids = model.generate(**rows, do_sample=True, top_k=0, max_new_tokens=N_WORDS)[:, rows["input_ids"].shape[1] :]
    texts = tokenizer.batch_decode(made_ids, skip_special_tokens=True)
    return [texts[start : start + N_SAMPLED] for start in range(0, len(texts), N_SAMPLED)]


def train(base: Path, prompts: list[str], name: str, out: Path) -> Path:
    """The policy after GRPO on one of the rewards, which is neither scaled nor clipped, with the KL penalty."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def rewarded(completions: list[str], **_: object) -> list[float]:
        return [reward(text, BONUS[name]) for text in completions]

    config = GRPOConfig(
        output_dir=str(out), use_cpu=True, bf16=False, report_to=[], logging_strategy="no", save_strategy="no", disable_tqdm=True,
        max_steps=STEPS, learning_rate=RATE, per_device_train_batch_size=GENERATIONS * PER_STEP, num_generations=GENERATIONS,
        max_completion_length=N_WORDS, beta=BETA, scale_rewards="none", loss_type="grpo", gradient_checkpointing=False, seed=SEED,
        max_grad_norm=1.0, lr_scheduler_type="linear", temperature=1.0, top_k=0,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=str(base), reward_funcs=rewarded, args=config, train_dataset=Dataset.from_dict({"prompt": prompts})
    )
    trainer.train()
    trainer.save_model(str(out))
    return out


def planted_shares(texts: list[list[str]]) -> FloatArray:
    """Share of each prompt's responses with the planted word, shape (n_prompts,)."""
    return np.array([np.mean([PLANTED in text.split() for text in own]) for own in texts])


def prediction(texts: list[list[str]], prompts: list[str]) -> dict[str, Estimate]:
    """Share in the tilted policy of each reward, from the samples of the untrained policy, as `cda best-of` estimates it."""
    flat = [text for own in texts for text in own]
    rewards = {name: [reward(text, bonus) for text in flat] for name, bonus in BONUS.items()}
    attribute = Attribute("planted", "share", np.array([float(PLANTED in text.split()) for text in flat]))
    ids = [str(at) for at in range(len(prompts)) for _ in range(N_SAMPLED)]
    tilt = tilted(rewards, [attribute], ids, best_of_n(rewards, [attribute], ids), [BETA])
    asked = tilt.attributes[0].at[len(GRID)]
    found = {name: level for name, level in asked.scorings.items() if isinstance(level, Estimate)}
    assert len(found) == len(BONUS), f"the samples do not support β = {BETA}: {asked}"
    return found


def _estimate(values: FloatArray) -> Estimate:
    found = mean_of(values, [str(prompt) for prompt in range(len(values))], "share difference").estimate
    return found.model_copy(update={"n": len(values) * N_SAMPLED})


def _points(estimate: Estimate) -> str:
    return f"{100 * estimate.value:+.1f} points [{100 * estimate.low:+.1f}, {100 * estimate.high:+.1f}], {estimate.n_prompts} prompts"


if __name__ == "__main__":
    sys.exit(main())
