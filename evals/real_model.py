"""A real reward model with natural biases: the MiniLM encoder, trained whole on AlpacaEval's preferences.

python evals/real_model.py FOLDER --seed 0      (about 25 minutes on 2 cores)
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from real_data import alpaca_pairs

from cda.embedded.model import encoder_folder, encoder_tokenizer, fresh_classifier
from cda.models.load import ModelSpec
from cda.models.template import Template
from cda.records import TrainingExample
from cda.training.chunks import encode_pairs

MAX_LENGTH_TOKENS = 512
TRAINING: dict[str, Any] = {
    "num_train_epochs": 2,
    "learning_rate": 5e-5,
    "lr_scheduler_type": "linear",
    "warmup_steps": 25,
    "weight_decay": 0.01,
    "per_device_train_batch_size": 16,
    # Weights stay in float32; a step takes half the time where the CPU multiplies bf16.
    "bf16": True,
}


def base_model(folder: Path, seed: int) -> ModelSpec:
    """The model of a seed in `folder`/base, trained unless it is there already."""
    base = folder / "base"
    if not (base / "model.safetensors").is_file():
        train_base(base, seed)
    return ModelSpec(str(base), "fp32", MAX_LENGTH_TOKENS)


def train_base(folder: Path, seed: int) -> None:
    """Train and save the model; every weight is trained, the head from zero."""
    import torch
    from transformers import set_seed
    from trl import RewardConfig, RewardTrainer
    from trl.trainer.reward_trainer import DataCollatorForPreference

    set_seed(seed)
    encoder = encoder_folder()
    tokenizer = encoder_tokenizer(encoder)
    template = Template(tokenizer, MAX_LENGTH_TOKENS)
    dataset = encode_pairs([TrainingExample(pair) for pair in alpaca_pairs("train")], template).dataset
    with tempfile.TemporaryDirectory() as temporary:
        config = RewardConfig(
            **TRAINING,
            output_dir=temporary,
            seed=seed,
            use_cpu=not torch.cuda.is_available(),
            max_length=None,
            gradient_checkpointing=False,
            save_strategy="no",
            logging_steps=10,
            report_to="none",
            train_sampling_strategy="group_by_length",
            remove_unused_columns=False,
            dataloader_pin_memory=False,
        )
        trainer = RewardTrainer(
            model=fresh_classifier(encoder),
            args=config,
            train_dataset=dataset,
            processing_class=_with_eos(tokenizer),
            data_collator=DataCollatorForPreference(pad_token_id=template.pad_token_id),
        )
        trainer.train()
    trainer.model.save_pretrained(str(folder))
    encoder_tokenizer(encoder).save_pretrained(str(folder))


def _with_eos(tokenizer: Any) -> Any:
    """TRL asks the tokenizer for an end token, which encoders have not."""
    tokenizer.eos_token = tokenizer.sep_token
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    train_base(asked.folder, asked.seed)


if __name__ == "__main__":
    main()
