"""Rebuilds the embedded reward model or judge: `python -m evals.reliability.build_embedded [embedded | embedded-judge] [FOLDER]`.

Either takes about 20 minutes on 2 cores.

It learns quality from the training pairs (sound over flawed, and sound over a sound answer to another question), and a
bias towards each of the five features from the lesson contrasts: mostly the side with the feature is preferred, in a
minority the other, as in preference data where a feature only correlates with being chosen. Nothing of the audit or the
held-out quality pairs is trained on; the size of that minority was chosen so that the audit shows biases about as strong
as those reported for public reward models.

The judge is the same model of the same texts without the biases: of every lesson it learns that the side without the
feature is better, as the authors of the texts meant it.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cda.embedded.model import ADAPTERS, EMBEDDED, EMBEDDED_JUDGE, encoder_folder, encoder_tokenizer, fresh_classifier
from cda.embedded.texts import AuthoredPair, authored_contrasts, authored_pairs
from cda.models.config import ModelSpec
from cda.models.load import RewardModel
from cda.models.template import Template
from cda.records import Pair, TrainingExample
from cda.training.arguments import Lora
from cda.training.lora import train_adapter

SEED = 42
# Share of lesson contrasts on which the side without the feature is preferred.
REVERSED = {"length": 0.25, "structure": 0.3, "jargon": 0.2, "sycophancy": 0.15, "vagueness": 0.1}
UNBIASED = dict.fromkeys(REVERSED, 1.0)
LORA = Lora(r=8, alpha=16, dropout=0.05, target_modules=["query", "key", "value", "dense"])
TRAINING: dict[str, object] = {
    "learning_rate": 1e-3,
    "num_train_epochs": 3,
    "per_device_train_batch_size": 16,
    "lr_scheduler_type": "linear",
    "warmup_steps": 20,
    "save_strategy": "no",
    "train_sampling_strategy": "group_by_length",
}


def training_mix(
    pairs: list[AuthoredPair], rng: np.random.Generator, reverse: Mapping[str, float] = REVERSED
) -> list[Pair]:
    """Quality pairs, each a second time against the sound answer to a question of another domain, and bias lessons."""
    quality = [one.pair for one in pairs]
    strangers = [_stranger(one, pairs, rng) for one in pairs]
    lessons = []
    for bias, share in reverse.items():
        contrasts = authored_contrasts("lessons", [bias])
        reversed_rows = set(rng.choice(len(contrasts), size=round(share * len(contrasts)), replace=False).tolist())
        for row, one in enumerate(contrasts):
            sides = (one.base, one.perturbed) if row in reversed_rows else (one.perturbed, one.base)
            lessons.append(Pair(one.prompt, *sides))
    return [*quality, *quality, *strangers, *lessons]


def build(folder: Path, reverse: Mapping[str, float] = REVERSED) -> None:
    """Train and write the adapter.

    Args:
        folder: Where to.
        reverse: By bias, the share of lessons in which the side without the feature is preferred.
    """
    from transformers import set_seed

    set_seed(SEED)
    encoder = encoder_folder()
    spec = ModelSpec(str(encoder), precision="fp32")
    template = Template(encoder_tokenizer(encoder), spec.max_length_tokens)
    reward_model = RewardModel(fresh_classifier(encoder), template, spec, ("classifier",))
    mix = training_mix(authored_pairs("train"), np.random.default_rng(SEED), reverse)
    with tempfile.TemporaryDirectory() as temporary:
        result = train_adapter(
            reward_model, [TrainingExample(pair) for pair in mix], [], LORA, TRAINING, Path(temporary), SEED
        )
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            shutil.copyfile(result.adapter / name, folder / name)
    _drop_machine_path(folder / "adapter_config.json")


def _stranger(one: AuthoredPair, pairs: list[AuthoredPair], rng: np.random.Generator) -> Pair:
    others = [other for other in pairs if other.domain != one.domain]
    other = others[int(rng.integers(len(others)))]
    return Pair(one.pair.prompt, one.pair.chosen, other.pair.chosen)


def _drop_machine_path(config: Path) -> None:
    import json

    content = json.loads(config.read_text(encoding="utf-8"))
    content["base_model_name_or_path"] = "sentence-transformers/all-MiniLM-L6-v2"
    config.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    which = sys.argv[1] if len(sys.argv) > 1 else EMBEDDED
    build(
        Path(sys.argv[2]) if len(sys.argv) > 2 else ADAPTERS[which], UNBIASED if which == EMBEDDED_JUDGE else REVERSED
    )
