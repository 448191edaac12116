"""Published models that are asked about two responses: which is better, or whether one is better than none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cda.errors import ModelError
from cda.inert import sendable
from cda.models.families import heads
from cda.models.families.causal import without_output
from cda.models.families.family import Family, Points, published
from cda.models.families.linear import is_class, width_of
from cda.models.own_files import ModelFiles
from cda.models.template import Encoded, Encoding, Template
from cda.records import Message, Prompt, prompt_text

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_FUNCTION = (
    "A function of yours with three parameters, (prompts, first, second), that returns for each comparison a preference from -1 (the second) "
    "to 1 (the first), is audited as a judge is (cda audit file.py:function)"
)


def _said(template: Template, prompt: Prompt, answer: str) -> list[tuple[str, str]]:
    """Role and text of each turn, without marks of turns in any; a system turn begins that of the user after it."""
    turns: list[tuple[str, str]] = []
    for message in template.messages(prompt, answer):
        role, text = message["role"], message["content"]
        if role == "user" and turns and turns[-1][0] == "system":
            text = f"{turns.pop()[1]}\n\n{text}"
        turns.append((role, text))
    return turns


def _ids(template: Template, text: str, special: bool = True) -> list[int]:
    return list(template.tokenizer(sendable(text), add_special_tokens=special, verbose=False)["input_ids"])


_SOURCE, _CANDIDATES = "<|source|>", ("<|candidate1|>", "<|candidate2|>")
_FINISH = "Finish the following coversation in each i-th turn by filling in <Response i> with your response."  # sic


def _pair_rm(template: Template, prompt: Prompt, second: str) -> Encoded:
    """Source and candidates, each with [CLS] and [SEP]; earlier answers of a conversation are repeated in both candidates. Of 2,048
    tokens the source has at most 1,224, and the candidates half of the rest each."""
    *asked, (_, first), (_, other) = _said(template, prompt, second)
    users = [text for role, text in asked if role != "assistant"]
    answers = [text for role, text in asked if role == "assistant"]
    source, candidates = users[0], [first, other]
    if len(asked) > 1:
        places = (f"USER: {text}\nAssistant: <Response {n}>" for n, text in enumerate(users, 1))
        source = _FINISH + "\n".join(places)
        candidates = [
            "\n".join(f"<Response {n}>: {text}" for n, text in enumerate([*answers, each], 1)) for each in candidates
        ]
    limit = template.max_length_tokens
    parts, cut = [_ids(template, _SOURCE + source)], False
    parts += [_ids(template, mark + text) for mark, text in zip(_CANDIDATES, candidates, strict=True)]
    most = limit * 1224 // 2048
    for n, ids in enumerate(parts):
        if len(ids) > most:
            parts[n], cut = [*ids[: most - 1], ids[-1]], True
        most = most if n else (limit - len(parts[0])) // 2
    return Encoded([token for ids in parts for token in ids], cut)


def _prefixes(_: PreTrainedTokenizerBase, files: ModelFiles) -> Points:
    wanted = [files.config.get(f"{name}_prefix_id") for name in ("source", "cand1", "cand2")]

    def points(ids: list[int]) -> list[int]:
        try:
            return [ids.index(token) for token in wanted]  # type: ignore[arg-type]
        except ValueError:
            raise ModelError(
                f"{files.name_or_path}: a text of {len(ids)} tokens lacks one of those that mark source and candidates ({wanted}, by "
                "config.json). Raise model.max_length_tokens, or see whether the tokenizer is the model's"
            ) from None

    return points


def _pair_preference(template: Template, prompt: Prompt, second: str) -> Encoded:
    """One user turn of the chat template with context and both responses, without any BOS."""
    *asked, (_, first), (_, other) = _said(template, prompt, second)
    context = "".join(f"\n<turn> {role}\n {text}" for role, text in asked)
    question = f"[CONTEXT] \n{context}\n [RESPONSE A] {first} [RESPONSE B] {other} \n"
    text = template.render([{"role": "user", "content": question}]).replace(template.tokenizer.bos_token or "", "")
    ids = _ids(template, text, special=False)
    excess = max(0, len(ids) - template.max_length_tokens)
    return Encoded(ids[excess:], excess > 0)


def _first_over_second(tensors: dict[str, Tensor], _: PretrainedConfig, files: ModelFiles) -> dict[str, Tensor]:
    """The output layer's rows of A and B as one: the difference of their logits is the log-odds of A."""
    found, output = without_output(tensors)
    if output is None:
        raise ModelError(f"{files.name_or_path}: its weights hold no output layer (lm_head) that could answer A or B")
    first, second = (output[files.token(letter)] for letter in "AB")
    return {**found, "score.weight": (first.float() - second.float())[None].to(output.dtype)}


_QUESTION = "\n\n RESPONSE B: .\n\n Which response is better? RESPONSE"


def _steam_shp(template: Template, prompt: Prompt, response: str) -> Encoded:
    """Post and response on a line each; what is too long is taken from the post's end, then from the response's."""
    *asked, answer = template.messages(prompt, response)
    post = f"POST: {prompt_text(tuple(Message(**turn) for turn in asked))}".replace("\n", " ")
    said = f"\n\n RESPONSE A: {answer['content'].replace(chr(10), ' ')}"
    ids = _ids(template, post + said + _QUESTION)
    excess = max(0, len(ids) - template.max_length_tokens)
    n_post, n_question = len(_ids(template, post, special=False)), len(_ids(template, _QUESTION))
    cut = min(excess, n_post)
    kept = max(n_post, len(ids) - n_question - (excess - cut))
    return Encoded([*ids[: n_post - cut], *ids[n_post:kept], *ids[len(ids) - n_question :]], excess > 0)


COMPARING: tuple[Family, ...] = (
    Family(
        "better-pairrm",
        "Better-PairRM",
        "Turns of USER and ASSISTANT, and two responses in one text; the difference of two scores, in both orders.",
        "github.com/allenai/reward-bench: rewardbench/models/betterpairrm.py",
        published("better-pairrm", of="DebertaV2…PairRM"),
        refusal="is Better-PairRM, whose texts are written and cut otherwise than those of PairRM, whose class it has",
        ways=_FUNCTION,
    ),
    Family(
        "pairrm",
        "PairRM-hf",
        "Prompt and two responses in one text; the difference of two scores, averaged over both orders.",
        "model card of llm-blender/PairRM-hf; github.com/allenai/reward-bench: rewardbench/models/pairrm.py",
        is_class("DebertaV2PairRM"),
        names={r"^pretrained_model\.": "deberta.", r"^head_layer\.": "score."},
        head=lambda config, files: heads.compared(width_of(config), int(files.config.get("n_tasks", 1))),
        points=_prefixes,
        encoding=Encoding(_pair_rm, 2048, "the end of the prompt and of both answers", "log-odds"),
    ),
    Family(
        "pair-preference-model",
        "pair-preference-model-LLaMA3-8B",
        "Asked for A or B, the probability of the first response, averaged over both orders.",
        "github.com/RLHFlow/RLHF-Reward-Modeling: pair-pm/README.md",
        published("pair-preference-model-LLaMA3-8B", of="Llama…CausalLM"),
        convert=_first_over_second,
        reads="last_token",
        encoding=Encoding(_pair_preference, 8192, "their beginning", "probabilities"),
    ),
    Family(
        "steamshp",
        "SteamSHP-flan-t5-large, SteamSHP-flan-t5-xl",
        "Asked which response is better, the other being a full stop, the probability of the answer A.",
        "model card of stanfordnlp/SteamSHP-flan-t5-xl; github.com/allenai/reward-bench: rewardbench/models/shp.py",
        published("SteamSHP-flan-t5-(large|xl)", of="T5…ConditionalGeneration"),
        names={r"^(shared|encoder|decoder)\.": r"transformer.\1.", r"^lm_head\.": "score."},
        head=lambda config, files: heads.probability(width_of(config), config.vocab_size, files.token("A")),
        reads="last_token",
        encoding=Encoding(_steam_shp, 512, "the end of the prompt"),
    ),
    Family(
        "writes",
        "any T5ForConditionalGeneration",
        "Writes an answer.",
        "github.com/huggingface/transformers: models/t5",
        is_class("T5ForConditionalGeneration"),
        refusal="is a T5ForConditionalGeneration, an encoder and decoder that writes an answer, without a reward head among its weights. If it "
        'is a SteamSHP in a folder of another name, write "reward_family": "steamshp" into its config.json',
    ),
)
