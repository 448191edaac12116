"""Published reward models scored as their authors score them: one text at a time, unpadded, with plain Transformers.

Written anew from the authors' descriptions, without cda, so that cda's numbers can be compared with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evals.reliability.reward_models_tokenizers import PAIR_CONTEXT

Reference = Callable[..., float]
"""A folder, a prompt, and one response (or two, of a model that compares) to the author's number."""


class Folder:
    """The files of a model folder: config.json, its weights by name, and its tokenizer."""

    def __init__(self, folder: Path):
        from safetensors.torch import load_file
        from transformers import PreTrainedTokenizerFast

        self.path = folder
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.weights: dict[str, Any] = load_file(folder / "model.safetensors")
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)

    def token(self, name: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(name))

    def chat(self, prompt: str, response: str, system: str | None = None) -> str:
        turns = [("user", prompt), ("assistant", response)]
        if system is not None:
            turns = [("system", system), *turns]
        return str(self.tokenizer.apply_chat_template([{"role": r, "content": c} for r, c in turns], tokenize=False))

    def ids(self, text: str, special: bool = False) -> list[int]:
        """Token ids of a text; `special`: with the tokens that the tokenizer adds to every text."""
        return list(self.tokenizer(text, add_special_tokens=special)["input_ids"])

    def backbone(self, prefix: str, auto: str = "AutoModel", kind: str | None = None, **changes: Any) -> Any:
        """The Transformers model of the config with the weights whose names start with `prefix`, which is cut off. Raises
        if a weight is missing.
        """
        import transformers

        own = {"model_type", "architectures", "auto_map", "id2label", "label2id"}
        options = {key: value for key, value in self.config.items() if key not in own} | changes
        config = transformers.AutoConfig.for_model(kind or self.config["model_type"], **options)
        model = getattr(transformers, auto).from_config(config).eval()
        weights = {name[len(prefix) :]: value for name, value in self.weights.items() if name.startswith(prefix)}
        model.load_state_dict(weights, strict=False)
        places = model.state_dict(keep_vars=True)
        loaded = {places[name].data_ptr() for name in weights if name in places}
        if missing := [name for name, place in places.items() if place.data_ptr() not in loaded]:
            raise ValueError(f"{self.path}: no weights for {missing}")
        return model

    def hidden(self, ids: Sequence[int], prefix: str = "model.", kind: str | None = None) -> Any:
        """The last hidden states, after the last norm, of one text. Shape (tokens, hidden size)."""
        import torch

        with torch.no_grad():
            return self.backbone(prefix, kind=kind)(torch.tensor([ids])).last_hidden_state[0]

    def linear(self, name: str, states: Any) -> Any:
        states = states @ self.weights[f"{name}.weight"].T
        return states + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else states


def _reads(ids: Callable[[Folder, str, str], list[int]], reward: Callable[[Folder, list[int], Any], Any]) -> Reference:
    """A reference from the ids of a text, and the reward of its ids and last hidden states."""

    def reference(folder: Path, prompt: str, response: str) -> float:
        files = Folder(folder)
        found = ids(files, prompt, response)
        return float(reward(files, found, files.hidden(found)))

    return reference


# Texts


def template(files: Folder, prompt: str, response: str) -> list[int]:
    """The chat template alone: `apply_chat_template(messages, tokenize=True)`."""
    return files.ids(files.chat(prompt, response))


def template_and_special(files: Folder, prompt: str, response: str) -> list[int]:
    """The template as text, tokenized with special tokens: twice BOS if both add it."""
    return files.ids(files.chat(prompt, response), special=True)


def template_without_bos(files: Folder, prompt: str, response: str) -> list[int]:
    """The template as text with every BOS taken out, then tokenized with special tokens: once BOS."""
    return files.ids(files.chat(prompt, response).replace(files.tokenizer.bos_token, ""), special=True)


def written(text: str) -> Callable[[Folder, str, str], list[int]]:
    """A text that the author writes by hand, tokenized with special tokens."""
    return lambda files, prompt, response: files.ids(text.format(prompt=prompt, response=response), special=True)


# Plain sequence classifiers


def classifier(ids: Callable[[Folder, str, str], list[int]]) -> Reference:
    """AutoModelForSequenceClassification on one text without padding: its own config says where the score is read."""

    def reference(folder: Path, prompt: str, response: str) -> float:
        import torch

        with torch.no_grad():
            return float(_own_class(folder)(torch.tensor([ids(Folder(folder), prompt, response)])).logits[0, 0])

    return reference


def _own_class(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()


def pair_classifier(folder: Path, prompt: str, response: str) -> float:
    """An encoder that reads prompt and response as two segments (OpenAssistant's DeBERTa)."""
    import torch

    both = Folder(folder).tokenizer(prompt, response, return_tensors="pt")
    with torch.no_grad():
        return float(_own_class(folder)(**both).logits[0, 0])


def human_assistant_pair(folder: Path, prompt: str, response: str) -> float:
    """Ray2333's GPT-2 models: two strings of an HH transcript, given as a pair, which GPT-2's tokenizer joins."""
    import torch

    both = Folder(folder).tokenizer(f"\n\nHuman: {prompt}", f"\n\nAssistant: {response}", return_tensors="pt")
    with torch.no_grad():
        return float(_own_class(folder)(both["input_ids"]).logits[0, 0])


def reward_bench(folder: Path, prompt: str, response: str) -> float:
    """RewardBench's pipeline: template as text, special tokens, and the first of two BOS hidden by the attention mask."""
    import torch

    files = Folder(folder)
    ids = torch.tensor([template_and_special(files, prompt, response)])
    mask, bos = torch.ones_like(ids), files.tokenizer.bos_token_id
    if ids[0, 0] == bos == ids[0, 1]:
        mask[0, 0] = 0
    with torch.no_grad():
        return float(_own_class(folder)(ids, attention_mask=mask).logits[0, 0])


# Heads at the last token


def last(name: str) -> Callable[[Folder, list[int], Any], Any]:
    """A linear head on the last token."""
    return lambda files, _, hidden: files.linear(name, hidden[-1])[0]


def mlp(first: str, second: str) -> Callable[[Folder, list[int], Any], Any]:
    """Linear, ReLU, linear on the last token."""
    return lambda files, _, hidden: files.linear(second, files.linear(first, hidden[-1]).relu())[0]


def head(ids: Callable[[Folder, str, str], list[int]], reward: Callable[[Folder, list[int], Any], Any]) -> Reference:
    return _reads(ids, reward)


def open_rlhf(folder: Path, prompt: str, response: str) -> float:
    """OpenRLHF: the template alone, the head named by value_head_prefix at the last attended token, EOS kept; minus mean,
    over std if normalize_reward.
    """
    files = Folder(folder)
    ids = template(files, prompt, response)
    reward = files.linear(files.config.get("value_head_prefix", "score"), files.hidden(ids)[-1])[0]
    if files.config.get("normalize_reward"):
        reward = (reward - files.config["mean"]) / files.config["std"]
    return float(reward)


def athene(folder: Path, prompt: str, response: str) -> float:
    """Athene: the template as text plus the CLS token, tokenized with special tokens; read at the last CLS token."""
    files = Folder(folder)
    ids = files.ids(files.chat(prompt, response) + "<|reserved_special_token_1|>", special=True)
    place = max(n for n, token in enumerate(ids) if token == files.token("<|reserved_special_token_1|>"))
    return float(files.linear("v_head", files.hidden(ids)[place])[0])


def starling(text: str) -> Reference:
    def reference(folder: Path, prompt: str, response: str) -> float:
        files = Folder(folder)
        ids = written(text)(files, prompt, response)
        return float(files.linear("v_head", files.hidden(ids, "transformer.")[-1])[0])

    return reference


def beaver(folder: Path, prompt: str, response: str) -> float:
    """Beaver: score of the last token; normalised by mean and variance if do_normalize (cost: only scaled)."""
    files = Folder(folder)
    text = "BEGINNING OF CONVERSATION: USER: {prompt} ASSISTANT:{response}"
    score = files.linear("score_head", files.hidden(written(text)(files, prompt, response))[-1])[0]
    if files.config["do_normalize"]:
        if files.config["score_type"] == "reward":
            score = score - files.weights["normalizer.mean"][0]
        score = score / (files.weights["normalizer.var"][0].sqrt() + 1e-8)
    return float(score)


def pythia(folder: Path, prompt: str, response: str) -> float:
    """OpenAssistant's Pythia models: `out_proj` on the last token of prompter and assistant turns that end in EOS."""
    files = Folder(folder)
    ids = files.ids(f"<|prompter|>{prompt}<|endoftext|><|assistant|>{response}<|endoftext|>", special=True)
    return float(files.linear("out_proj", files.hidden(ids, "gpt_neox.", "gpt_neox")[-1])[0])


def logit_of_first_token(folder: Path, prompt: str, response: str) -> float:
    """Nemotron: the logit of the token with id 0 at the place of the next token."""
    import torch

    files = Folder(folder)
    with torch.no_grad():
        logits = files.backbone("", "AutoModelForCausalLM")(torch.tensor([template(files, prompt, response)])).logits
    return float(logits[0, -1, 0])


def steam_shp(folder: Path, prompt: str, response: str) -> float:
    """SteamSHP: probability that the first word of the answer is "A" if the other response is a full stop."""
    import torch

    files = Folder(folder)
    post, said = prompt.replace("\n", " "), response.replace("\n", " ")
    text = f"POST: {post}\n\n RESPONSE A: {said}\n\n RESPONSE B: .\n\n Which response is better? RESPONSE"
    start = torch.tensor([[files.config["decoder_start_token_id"]]])
    with torch.no_grad():
        hidden = files.backbone("")(
            torch.tensor([files.ids(text, special=True)]), decoder_input_ids=start
        ).last_hidden_state
    # By hand, as Flan-T5's output layer is not its embedding; T5's language model would tie them.
    return float(files.linear("lm_head", hidden[0, 0]).softmax(-1)[files.token("A")])


# Several heads


def _gate_place(files: Folder, ids: list[int], pattern: str) -> int:
    """Where the last `pattern` starts: the end of the user's turn."""
    wanted = files.ids(pattern)
    return max(n for n in range(len(ids) - len(wanted) + 1) if ids[n : n + len(wanted)] == wanted)


LLAMA3_TURN = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
GEMMA_TURN = "<end_of_turn>\n<start_of_turn>model\n"


def _gating(files: Folder, state: Any, norms: bool) -> Any:
    """Softmax of an MLP over a temperature, times a learned scale; `norms`: a batch norm after every ReLU."""
    linear = sorted(
        int(name.split(".")[2])
        for name, value in files.weights.items()
        if name.startswith("gating.layers.") and name.endswith(".weight") and value.ndim == 2
    )
    for place in linear:
        state = files.linear(f"gating.layers.{place}", state)
        if place == linear[-1]:
            break
        state = state.relu()
        if norms:
            norm = {
                key: files.weights[f"gating.layers.{place + 2}.{key}"]
                for key in ("running_mean", "running_var", "weight", "bias")
            }
            state = (state - norm["running_mean"]) / (norm["running_var"] + 1e-5).sqrt() * norm["weight"] + norm["bias"]
    return (state / files.config["gating_temperature"]).softmax(-1) * files.weights["gating.logit_scale"][0]


def armo(files: Folder, ids: list[int], hidden: Any) -> Any:
    """ArmoRM: objectives of the last token, decorrelated by a matrix, weighted by a gate of the prompt's end."""
    gate = _gating(files, hidden[_gate_place(files, ids, LLAMA3_TURN)], norms=False)
    return (gate * (files.linear("regression_layer", hidden[-1]) @ files.weights["reward_transform_matrix"])).sum()


def qrm(turn: str) -> Callable[[Folder, list[int], Any], Any]:
    """QRM: the mean over quantiles of each objective, weighted by a gate of the prompt's end."""

    def reward(files: Folder, ids: list[int], hidden: Any) -> Any:
        gate = _gating(files, hidden[_gate_place(files, ids, turn)], norms=True)
        quantiles = files.linear("regression_layer", hidden[-1])
        objectives = quantiles.reshape(files.config["num_objectives"], files.config["num_quantiles"]).mean(-1)
        if "reward_transform_matrix" in files.weights:
            objectives = objectives @ files.weights["reward_transform_matrix"]
        return (gate * objectives).sum()

    return reward


def ldl(files: Folder, _: list[int], hidden: Any) -> Any:
    """LDL: a distribution over ten levels for each attribute, mixed by a gate; the mean level of the mixture."""
    import torch
    from torch.nn.functional import leaky_relu

    def network(name: str, places: Sequence[int]) -> Any:
        state = hidden[-1]
        for place in places:
            state = files.linear(f"{name}.network.{place}", state)
            state = leaky_relu(state, 0.01) if place != places[-1] else state
        return state

    levels = network("regression_layer", (0, 2, 4)).reshape(-1, 10).softmax(-1)
    weights = network("gating_layer", (0, 3, 6))
    if files.config.get("softmax", False):
        weights = (weights / files.config.get("temperature", 1.0)).softmax(-1)
    return (weights @ levels * torch.linspace(0, 1, 10)).sum()


# InternLM2, whose tensors are fused and named otherwise


def _internlm2_hidden(files: Folder, ids: list[int]) -> Any:
    heads, pairs = files.config["num_attention_heads"], files.config["num_key_value_heads"]
    size = files.config["hidden_size"] // heads
    renamed = {"tok_embeddings": "embed_tokens", "attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj"}
    renamed |= {"feed_forward.w3": "mlp.up_proj", "feed_forward.w2": "mlp.down_proj"}
    renamed |= {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    weights = {}
    for name, value in files.weights.items():
        for old, new in renamed.items():
            name = name.replace(f"{old}.weight", f"{new}.weight")
        if "wqkv" not in name:
            weights[name] = value
            continue
        groups = value.reshape(pairs, heads // pairs + 2, size, -1)
        parts = {"q": groups[:, :-2], "k": groups[:, -2], "v": groups[:, -1]}
        for part, rows in parts.items():
            weights[name.replace("attention.wqkv", f"self_attn.{part}_proj")] = rows.reshape(-1, value.shape[1])
    files.weights = weights
    return files.hidden(ids, kind="llama")


def internlm2(folder: Path, prompt: str, response: str) -> float:
    """InternLM2-reward: the template plus the reward token; `v_head` there."""
    files = Folder(folder)
    ids = [*template(files, prompt, response), files.config["reward_token_id"]]
    return float(files.linear("v_head", _internlm2_hidden(files, ids)[-1])[0])


POLAR_REFERENCE = "A good answer that a person wrote."


def polar(folder: Path, prompt: str, response: str) -> float:
    """POLAR: prompt and a reference answer, then prompt and the response, then the reward token. The reference answer is
    `POLAR_REFERENCE` here.
    """
    files = Folder(folder)
    text = f"{prompt}\n{POLAR_REFERENCE}<|reward|>{prompt}\n{response}[UNUSED_TOKEN_130]"
    return float(files.linear("v_head", _internlm2_hidden(files, files.ids(text, special=True))[-1])[0])


# Process rewards


def process(folder: Path, prompt: str, response: str) -> float:
    """Qwen2.5-Math-PRM: <extra_0> after every paragraph; probability of the second label there; their product."""
    files = Folder(folder)
    steps = "".join(f"{step}<extra_0>" for step in response.split("\n\n"))
    ids = template(files, prompt, steps)
    states = files.hidden(ids)[[n for n, token in enumerate(ids) if token == files.token("<extra_0>")]]
    return float(files.linear("score.2", files.linear("score.0", states).relu()).softmax(-1)[:, 1].prod())


def world_pm(folder: Path, prompt: str, response: str) -> float:
    """WorldPM: an empty system turn; the score of the last token, which the template writes: <|endoftext|>."""
    files = Folder(folder)
    hidden = files.hidden(files.ids(files.chat(prompt, response, system="")))
    return float(files.linear("score.2", files.linear("score.0", hidden[-1]).relu())[0])


# Models that compare two responses


def pair_rm(folder: Path, prompt: str, first: str, second: str) -> float:
    """PairRM: source and two candidates in one text; score of the first minus the second, in both orders."""
    import torch

    files = Folder(folder)
    source = f"<|source|>{prompt}"
    model = files.backbone("pretrained_model.")

    def left_minus_right(left: str, right: str) -> Any:
        ids = []
        for part in (source, f"<|candidate1|>{left}", f"<|candidate2|>{right}"):
            ids += files.ids(part, special=True)
        with torch.no_grad():
            hidden = model(torch.tensor([ids])).last_hidden_state[0]
        states = {key: hidden[ids.index(files.config[f"{key}_prefix_id"])] for key in ("source", "cand1", "cand2")}
        scores = [
            files.linear(
                "head_layer.4", files.linear("head_layer.1", torch.cat([states["source"], states[key]])).tanh()
            )
            for key in ("cand1", "cand2")
        ]
        return (scores[0] - scores[1]).mean()

    return float(left_minus_right(first, second) - left_minus_right(second, first))


def pair_preference(folder: Path, prompt: str, first: str, second: str) -> float:
    """RLHFlow's pair model: probability that the next token is A rather than B, averaged over both orders."""
    import torch

    files = Folder(folder)
    plain = Folder(folder).tokenizer
    plain.chat_template = PAIR_CONTEXT
    context = plain.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False)
    model, letters = files.backbone("", "AutoModelForCausalLM"), [files.token("A"), files.token("B")]
    found = []
    for place in (0, 1):
        one, other = (first, second) if place == 0 else (second, first)
        asked = f"[CONTEXT] {context} [RESPONSE A] {one} [RESPONSE B] {other} \n"
        text = files.tokenizer.apply_chat_template([{"role": "user", "content": asked}], tokenize=False)
        ids = files.ids(text.replace(files.tokenizer.bos_token, ""))
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1, letters]
        found.append(float(logits.softmax(-1)[place]))
    return sum(found) / 2


# Custom code that has to be run


def own_score(folder: Path, prompt: str, response: str) -> float:
    """Three attributes and weights, by hand."""
    files = Folder(folder)
    hidden = files.hidden(template(files, prompt, response))
    return float((files.linear("attributes", hidden[-1]) * files.weights["weights"]).sum())


def own_logits(folder: Path, prompt: str, response: str) -> float:
    """Five means and a gate, by hand."""
    files = Folder(folder)
    hidden = files.hidden(template_and_special(files, prompt, response))
    return float((files.linear("gate", hidden[-1]).softmax(-1) * files.linear("value_head", hidden[-1])[:5]).sum())
