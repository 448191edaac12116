"""Language models whose reward is the logit of one token after the text, and those with a reward for every step."""

from __future__ import annotations

from typing import Any

from cda.errors import ModelError
from cda.models.families.family import Family, Points, published
from cda.models.families.linear import is_class, size
from cda.models.own_files import ModelFiles

_LOGIT = "logit:"


def is_causal(files: ModelFiles) -> bool:
    """True of a language model that config.json gives no other class."""
    names = files.architectures
    return bool(names) and all(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) and not files.auto_map


def logit_of(token: int) -> Family:
    """The family of a language model whose reward is the logit of a token with this id, after the last token of a text."""

    def only(tensors: dict[str, Any], _: Any, __: ModelFiles) -> dict[str, Any]:
        found, output = without_output(tensors)
        if "score.weight" in found and len(found) == len(tensors):  # of a merged model
            return found
        if output is None or token >= len(output):
            raise ModelError(f"model.head={token}: the model has no output token with this id")
        return {**found, "score.weight": output[token : token + 1].clone()}

    return Family(
        f"{_LOGIT}{token}",
        "language models with model.head",
        f"The logit of the output token {token} after the last token of the chat template.",
        "the setting model.head",
        lambda _: False,
        convert=only,
        reads="last_token",
    )


def without_output(tensors: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A language model's tensors without its output layer, and that layer, which may be the embedding table; None if it has none."""
    found = {name: tensor for name, tensor in tensors.items() if not name.startswith("lm_head.")}
    return found, tensors.get("lm_head.weight", tensors.get("model.embed_tokens.weight"))


def by_key(key: str) -> Family | None:
    """The family of such a key, as a merged model's config.json holds it; None of any other key."""
    token = key.removeprefix(_LOGIT)
    return logit_of(int(token)) if token != key and token.isdecimal() else None


def _steps_head(config: Any, _: ModelFiles) -> Any:
    from torch import nn

    from cda.models.families.gated_heads import Steps

    return Steps(nn.Linear(size(config), size(config)), nn.ReLU(), nn.Linear(size(config), 2))


STEP_END = "<extra_0>"


def _ends_of_steps(tokenizer: Any, files: ModelFiles) -> Points:
    end = tokenizer.convert_tokens_to_ids(STEP_END)

    def points(ids: list[int]) -> list[int]:
        if found := [at for at, token in enumerate(ids) if token == end]:
            return found
        raise ModelError(
            f"{files.name_or_path}: a text of {len(ids)} tokens holds no end of a step ({STEP_END}): its first step is cut. Raise "
            "model.max_length_tokens"
        )

    return points


_NEMOTRON = logit_of(0)
CAUSAL: tuple[Family, ...] = (
    Family(
        "nemotron",
        "Llama-3.1-Nemotron-70B-Reward-HF, Llama-3.3-Nemotron-70B-Reward and -Multilingual",
        "The logit of the token with id 0 after the chat template.",
        "model cards of nvidia/Llama-3.1-Nemotron-70B-Reward-HF and nvidia/Llama-3.3-Nemotron-70B-Reward",
        published(
            "Llama-3.1-Nemotron-70B-Reward-HF",
            "Llama-3.3-Nemotron-70B-Reward",
            "Llama-3.3-Nemotron-70B-Reward-Multilingual",
            of="Llama…CausalLM",
        ),
        convert=_NEMOTRON.convert,
        reads="last_token",
    ),
    Family(
        "qwen2.5-math-prm",
        "Qwen2.5-Math-PRM-7B, -72B, Qwen2.5-Math-7B-PRM800K",
        "The product over the paragraphs of the answer of the probability that each is right (with model.reads=last_token that of the last).",
        "model card of Qwen/Qwen2.5-Math-PRM-7B; arXiv:2501.07301",
        is_class("Qwen2ForProcessRewardModel"),
        head=_steps_head,
        points=_ends_of_steps,
        step_end=STEP_END,
    ),
    Family(
        "urm",
        "URM-LLaMa-3.1-8B, URM-LLaMa-3-8B",
        "The model's own code, on the chat template as text, tokenized with a second BOS.",
        "model cards of LxzGordon/URM-LLaMa-3.1-8B and -3-8B",
        published("URM-LLaMa-3.1-8B", "URM-LLaMa-3-8B"),
        runs_code=True,
        doubles_bos=True,
    ),
)
