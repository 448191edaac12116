"""A log-ratio is the sum over the response's tokens, computed by hand from logits, whatever the batch and the padding."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tiny import load_causal, message_of

from cda.models.causal import CausalModel
from cda.records import Prompt, user_prompt
from cda.scorers import log_ratio
from cda.scorers.compared import text_id
from cda.scorers.engine import ScoreCache, score_texts
from cda.scorers.log_ratio import LogRatioScorer, Policy, adapter_off

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts

TOLERANCE = 1e-4  # fp32; measured 6e-6 on sums between -270 and -18


@pytest.fixture(scope="module")
def policy(causal_maker: ModelMaker) -> CausalModel:
    return load_causal(causal_maker("policy"))


@pytest.fixture(scope="module")
def reference(causal_maker: ModelMaker) -> CausalModel:
    return load_causal(causal_maker("reference", spread=0.15))


@pytest.fixture(scope="module")
def with_adapter(causal_maker: ModelMaker, tmp_path_factory: pytest.TempPathFactory) -> CausalModel:
    """The policy's base with a LoRA adapter that was not left at its neutral start."""
    folder, target = causal_maker("adapted"), tmp_path_factory.mktemp("adapter")
    save_adapter(load_causal(folder), target)
    return load_causal(folder, adapter=target)


def save_adapter(causal: CausalModel, target: Path, **options: Any) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], **options)
        model = get_peft_model(causal.model, config)
        for name, weights in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weights, std=0.2)
    model.save_pretrained(str(target))


def by_hand(folder: Path | str, causal: CausalModel, texts: Texts) -> list[float]:
    """log π(response | prompt) without the scorer: the stock model, one text at a time, no padding, no mask.

    The chat template ends a response with one mark, so its tokens are its words and that mark.
    """
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(str(folder)).eval()
    sums = []
    for prompt, response in zip(texts.prompts, texts.responses, strict=True):
        ids = causal.template.encode(prompt, response).ids
        with torch.no_grad():
            log_softmax = model(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        first = len(prompt[0].content.split()) + 4  # BOS, the user's two marks, the assistant's
        sums.append(sum(log_softmax[at - 1, ids[at]].item() for at in range(first, len(ids))))
    return sums


@pytest.fixture(scope="module")
def expected(policy: CausalModel, texts: Texts) -> list[float]:
    sums = by_hand(policy.spec.name_or_path, policy, texts)
    assert np.ptp(sums) > 100  # else every comparison below would be empty
    return sums


@pytest.mark.parametrize(
    "tokenizer",
    [{}, {"pad": "</s>", "padding_side": "left"}, {"pad": None}],
    ids=["right", "pad-is-eos-left", "no-pad"],
)
def test_log_probabilities_are_the_unpadded_ones_whatever_the_tokenizer_pads_with_and_where(
    causal_maker: ModelMaker,
    texts: Texts,
    expected: list[float],
    tokenizer: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    causal = load_causal(causal_maker(request.node.callspec.id, **tokenizer))
    for batch_tokens in (1, 100, 8192):
        scorer = LogRatioScorer(Policy(causal), None, beta=1.0, batch_tokens=batch_tokens)
        np.testing.assert_allclose(scorer.score(texts.prompts, texts.responses), expected, atol=TOLERANCE, rtol=0)


def test_the_reward_is_beta_times_the_difference_of_the_sums(
    policy: CausalModel, reference: CausalModel, texts: Texts, expected: list[float]
) -> None:
    base = by_hand(reference.spec.name_or_path, reference, texts)
    difference = np.array(expected) - np.array(base)
    assert np.ptp(difference) > 10
    scores = LogRatioScorer(Policy(policy), Policy(reference), beta=0.3).score(texts.prompts, texts.responses)
    np.testing.assert_allclose(scores, 0.3 * difference, atol=TOLERANCE, rtol=0)
    mean = LogRatioScorer(Policy(policy), Policy(reference), beta=0.3, per_token=True)
    n_tokens = np.array([len(response.split()) + 1 for response in texts.responses])  # the words and the closing mark
    np.testing.assert_allclose(mean.score(texts.prompts, texts.responses), scores / n_tokens, rtol=1e-12)


def test_a_model_outside_the_library_gives_all_logits_and_the_same_scores(
    policy: CausalModel, texts: Texts, expected: list[float]
) -> None:
    from transformers import LlamaForCausalLM

    class HomeMade(LlamaForCausalLM):  # type: ignore[misc]
        def forward(self, input_ids: Any, attention_mask: Any) -> Any:  # knows no logits_to_keep
            return super().forward(input_ids=input_ids, attention_mask=attention_mask)

    model = HomeMade.from_pretrained(policy.spec.name_or_path).eval()
    causal = CausalModel(model, policy.template, policy.spec)
    scores = LogRatioScorer(Policy(causal), None, beta=1.0).score(texts.prompts, texts.responses)
    np.testing.assert_allclose(scores, expected, atol=TOLERANCE, rtol=0)


def test_switching_an_adapter_off_is_the_base_loaded_alone(with_adapter: CausalModel, texts: Texts) -> None:
    base = load_causal(Path(with_adapter.spec.name_or_path))
    own = LogRatioScorer(Policy(with_adapter), adapter_off(with_adapter))
    two = LogRatioScorer(Policy(with_adapter), Policy(base))
    rewards = own.score(texts.prompts, texts.responses)
    assert np.abs(rewards).max() > 0.1
    assert rewards.tolist() == two.score(texts.prompts, texts.responses).tolist()
    assert rewards.tolist() == own.score(texts.prompts, texts.responses).tolist()  # and it was switched on again
    off = LogRatioScorer(adapter_off(with_adapter), Policy(base)).score(texts.prompts, texts.responses)
    assert off.tolist() == [0.0] * len(off)


def test_nothing_to_switch_off_and_biases_that_stay_are_refused(
    policy: CausalModel, causal_maker: ModelMaker, tmp_path: Path
) -> None:
    assert "has no adapter to switch off" in message_of(lambda: adapter_off(policy))
    folder = causal_maker("biased")
    save_adapter(load_causal(folder), tmp_path, bias="all")
    message = message_of(lambda: adapter_off(load_causal(folder, adapter=tmp_path)))
    assert "trained the base's biases too (bias=all)" in message


def test_rewards_are_those_that_trl_logs_for_the_same_pairs(
    policy: CausalModel, reference: CausalModel, words: Callable[..., str], tmp_path: Path
) -> None:
    """TRL's own DPOTrainer: its template, its mask of the prompt, its sums, its β."""
    pytest.importorskip("trl")
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    prompts: list[Prompt] = [user_prompt(words(2 + row, start=row)) for row in range(4)]
    sides = {
        "chosen": [words(3 + 2 * row, start=5 * row) for row in range(4)],
        "rejected": [words(9 - 2 * row, start=7 * row) for row in range(4)],
    }
    columns: dict[str, list[Any]] = {"prompt": [[{"role": "user", "content": prompt[0].content}] for prompt in prompts]}
    columns |= {side: [[{"role": "assistant", "content": text}] for text in told] for side, told in sides.items()}
    data = Dataset.from_dict(columns)
    options: dict[str, Any] = {"per_device_eval_batch_size": 4, "use_cpu": True, "bf16": False, "report_to": []}
    config = DPOConfig(output_dir=str(tmp_path), beta=0.25, max_length=64, **options)
    trainer = DPOTrainer(
        model=policy.spec.name_or_path,
        ref_model=load_causal(Path(reference.spec.name_or_path)).model,
        args=config,
        train_dataset=data,
        eval_dataset=data,
        processing_class=policy.template.tokenizer,
    )
    logged = trainer.evaluate()
    scorer = LogRatioScorer(Policy(policy), Policy(reference), beta=0.25)
    rewards = {side: scorer.score(prompts, told) for side, told in sides.items()}
    assert logged["eval_rewards/chosen"] == pytest.approx(rewards["chosen"].mean(), abs=TOLERANCE)
    assert logged["eval_rewards/rejected"] == pytest.approx(rewards["rejected"].mean(), abs=TOLERANCE)
    margins = rewards["chosen"] - rewards["rejected"]
    assert logged["eval_rewards/accuracies"] == pytest.approx((margins > 0).mean())
    assert logged["eval_loss"] == pytest.approx(np.log1p(np.exp(-margins)).mean(), abs=TOLERANCE)


def test_cut_texts_are_named_by_what_was_read(causal_maker: ModelMaker, words: Callable[..., str]) -> None:
    causal = load_causal(causal_maker("cut"), limit=12)
    prompt = user_prompt(words(2))  # six tokens before the response; five words and the closing mark fit
    texts = [(prompt, text) for text in (words(8), words(9), words(8, start=20), words(5))]
    scores = score_texts(LogRatioScorer(Policy(causal), None), texts)
    first, second, other, _ = scores.by_text.values()
    assert first == second != other
    first_read, second_read, other_read = scores.read.values()
    assert first_read == second_read != other_read
    assert text_id(*texts[3]) not in scores.read


def test_a_prompt_that_fills_everything_costs_its_own_text_alone(
    causal_maker: ModelMaker, words: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such prompt among thousands must not stop the others, nor may it get a number that stands for none."""
    causal, asked = load_causal(causal_maker("filled"), limit=12), list[int]()
    monkeypatch.setattr(log_ratio, "_CHUNK", 2)
    count = log_ratio.log_probabilities
    monkeypatch.setattr(log_ratio, "log_probabilities", lambda *given: (asked.append(len(given[1])), count(*given))[1])
    scorer = LogRatioScorer(Policy(causal), None, beta=1.0)
    texts = [(user_prompt(words(n)), words(3)) for n in (2, 8, 3, 9, 1)]
    alone = scorer.score([texts[row][0] for row in (0, 2, 4)], [words(3)] * 3)
    with ScoreCache(tmp_path / "scores.sqlite") as cache:
        scores = score_texts(scorer, texts, cache=cache, scope="s")
        found = np.array([scores.of(*text) for text in texts])
        np.testing.assert_allclose(found[[0, 2, 4]], alone, atol=TOLERANCE)
        assert np.isnan(found[[1, 3]]).all()
        asked.clear()
        again = score_texts(scorer, texts, cache=cache, scope="s")
    assert (again.scored, again.n_cached) == (scores.scored, 3)
    assert sum(asked) == 0


def test_log_probabilities_that_are_no_numbers_are_one_clear_error(causal_maker: ModelMaker, texts: Texts) -> None:
    import torch

    causal = load_causal(causal_maker("broken"))
    broken = causal.template.encode(user_prompt("good"), "bad").ids[2]
    with torch.no_grad():
        causal.model.model.embed_tokens.weight[broken] = float("nan")
    scorer = LogRatioScorer(Policy(causal), None)
    assert np.isfinite(scorer.score(texts.prompts, texts.responses)).all()
    message = message_of(lambda: scorer.score([*texts.prompts, user_prompt("good")], [*texts.responses, "bad"]))
    assert "1 of 13 rewards are NaN or infinite (first: text 12)" in message


def test_a_reference_with_another_vocabulary_is_refused(policy: CausalModel, causal_maker: ModelMaker) -> None:
    from transformers import AutoTokenizer

    folder = causal_maker("other-vocabulary")
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    tokenizer.add_tokens(["x1", "x2"])
    tokenizer.save_pretrained(str(folder))
    other, highest = load_causal(folder), len(policy.template.tokenizer)
    message = message_of(lambda: LogRatioScorer(Policy(policy), Policy(other)))
    assert f"vocabularies differ in 2 tokens (first: 'x1', id None against {highest})" in message
    message = message_of(lambda: LogRatioScorer(Policy(other), None).score([user_prompt("w1")], ["x1"]))
    assert f"the texts hold token {highest} ('x1'), but the model knows {highest} tokens" in message


def test_a_reference_that_reads_fewer_tokens_and_a_beta_that_is_not_positive_are_refused(
    policy: CausalModel, causal_maker: ModelMaker
) -> None:
    shorter = Policy(load_causal(causal_maker("shorter"), limit=32))
    assert "reads 32 tokens at most" in message_of(lambda: LogRatioScorer(Policy(policy), shorter))
    for beta in (0.0, -0.1, math.nan, math.inf):
        message = message_of(lambda beta=beta: LogRatioScorer(Policy(policy), None, beta=beta))
        assert message.startswith(f"beta={beta}: ")


def test_names_units_and_notes_say_what_was_compared(
    policy: CausalModel, with_adapter: CausalModel, causal_maker: ModelMaker
) -> None:
    own = LogRatioScorer(Policy(with_adapter), adapter_off(with_adapter))
    assert own.name == f"{with_adapter.name} against {with_adapter.name} (adapter off)"
    assert (own.unit, own.notes()) == ("0.1 × log-ratio (sum over tokens, nats)", [])
    alone = LogRatioScorer(Policy(policy), None, beta=1.0, per_token=True)
    assert (alone.name, alone.unit) == (policy.name, "1 × log-probability (mean per token, nats)")
    assert "No reference model" in alone.notes()[0]
    plain = load_causal(causal_maker("other-template", chat_template=None), precision="bf16")
    template, precision = LogRatioScorer(Policy(policy), Policy(plain)).notes()
    assert "another chat template" in template and "(fp32, bf16)" in precision
