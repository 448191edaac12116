"""Tiny reward models made in code, so that the tests drive the real libraries with no network, GPU or key."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before anything imports torch or transformers: the same run on every machine, with or without a GPU or a network.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Test processes share the cores: tiny matrices gain nothing from several threads, which would wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import parts
import pytest
from markupsafe import escape
from serving import Answer, serving

from cda.models.config import ModelSpec
from cda.models.load import RewardModel, load_reward_model
from cda.records import Pair, Prompt, TrainingExample, user_prompt
from cda.report import drawing, page
from cda.report.numbers import visible
from cda.report.plots import Plot
from cda.terminal import quiet_libraries
from cda.training import arguments
from cda.training.arguments import Lora
from cda.training.lora import TrainingResult, train_adapter
from cda.user_errors import speaking

# One token a word, so that every length is known beforehand.
WORDS = [f"w{number}" for number in range(60)] + ["good", "bad"]
ROLES = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
# Writes a BOS itself, as most chat templates do, while the tokenizer adds one of its own too.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|> {{ message.content }} <|end|>{% endfor %}"
)
ASKING_TEMPLATE = CHAT_TEMPLATE + "{% if add_generation_prompt %}<|assistant|>{% endif %}"
"""With a generation prompt, as language models have it."""
ROOT = Path(__file__).parent.parent
# Texts are cut at 64 tokens: the sides of a contrast differ from the 27th at the latest, and half of the tokens is half of the time.
SMALL = (
    "data.max_pairs=20", "audit.max_contrasts=4", "audit.max_quality=6", "audit.max_samples=2", "audit.rate=2", "model.max_length_tokens=64",
    "model.precision=8bit", "train.num_train_epochs=1", "train.per_device_train_batch_size=4", "train.eval_steps=2", "train.save_steps=2",
)  # fmt: skip
# A page's figures are laid out and written where its looks are tested; elsewhere their marks are drawn, in a fifth of the time.
WITH_FIGURES = ("browser", "report", "auditing/report", "properties", "results", "api", "pipeline")
ModelMaker = Callable[..., Path]


@dataclass(frozen=True)
class Texts:
    """Prompts and responses of known lengths in tokens."""

    prompts: list[Prompt]
    responses: list[str]


@dataclass(frozen=True)
class Trained:
    """A finished training: the model trained in place, and what was saved of it."""

    model: RewardModel
    result: TrainingResult


WATCH = parts.Watch()
LAID_OUT = pytest.StashKey[bool]()
FROZEN = pytest.StashKey[int]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: parts.place(item.path))
    for item in items:
        if parts.is_quick(item.path, getattr(item, "fixturenames", ())):
            item.add_marker("quick")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    WATCH.quick = item.get_closest_marker("quick") is not None
    item.session.stash[LAID_OUT] = (
        item.path.relative_to(parts.TESTS).as_posix().startswith(tuple(f"{each}/" for each in WITH_FIGURES))
    )
    if len(sys.modules) - item.session.stash.get(FROZEN, 0) > 200:
        # Models are let go by a collection of garbage, which otherwise looks through all of torch: 0.4 seconds, many times over.
        gc.collect()
        gc.freeze()
        item.session.stash[FROZEN] = len(sys.modules)
    return (yield)


@pytest.fixture(autouse=True)
def spoken() -> Iterator[None]:
    """What cda says is on standard output, also where a test calls a function and no command."""
    with speaking():
        yield


@pytest.fixture(scope="session", autouse=True)
def tried_once() -> Iterator[None]:
    """A trainer's settings that it took are not tried again in this process: many recipes have them in common."""
    taken, tried = set(), arguments._tried

    def once(*settings: Any) -> Sequence[str]:
        if (asked := repr(settings)) in taken:
            return []
        if not (problems := tried(*settings)):
            taken.add(asked)
        return problems

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "_tried", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Figures of a page without their layout, in tests that are of something else: every mark of a result is drawn all the same."""
    whole, stash = page.inline_svg, request.session.stash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "inline_svg", lambda plot: whole(plot) if stash[LAID_OUT] else _sketched(plot))
        yield


def _sketched(plot: Plot) -> str:
    from matplotlib.figure import Figure

    with drawing._style():
        figure = Figure(layout="constrained")
        axes = figure.subplots(len(plot.panels), squeeze=False)[:, 0]
        for panel, draw in zip(axes, plot.panels, strict=True):
            draw(panel)
    named = "".join(
        f'<{name} id="{plot.id}-{name}">{escape(visible(text))}</{name}>'
        for name, text in (("title", plot.title), ("desc", plot.description))
    )
    return f'<svg class="plot" role="img" aria-labelledby="{plot.id}-title {plot.id}-desc">{named}</svg>'


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Tiny matrices are faster on one thread, most of all where other work runs beside the tests."""
    quiet_libraries()
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def llama_maker(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> ModelMaker:  # noqa: ARG001
    """Makes a new folder of a tiny random Llama reward model; the weights are the same in all that keep its shape."""
    import transformers

    root = tmp_path_factory.mktemp("llama")

    def make(
        name: str,
        architecture: str = "LlamaForSequenceClassification",
        config: Mapping[str, Any] | None = None,
        **tokenizer_options: Any,
    ) -> Path:
        folder = root / name
        folder.mkdir()
        model = _seeded(getattr(transformers, architecture), _llama_config(**(config or {})))
        model.save_pretrained(str(folder))
        _llama_tokenizer(**tokenizer_options).save_pretrained(str(folder))
        return folder

    return make


@pytest.fixture(scope="session")
def llama(llama_maker: ModelMaker) -> Path:
    """Llama reward model with a chat template that writes a BOS, and a padding token of its own."""
    return llama_maker("plain")


@pytest.fixture(scope="session")
def causal_maker(llama_maker: ModelMaker) -> ModelMaker:
    """Makes a new folder of a tiny random Llama language model; `spread` gives other weights."""

    def make(name: str, chat_template: str | None = ASKING_TEMPLATE, spread: float = 0.2, **options: Any) -> Path:
        config = {"initializer_range": spread}
        return llama_maker(f"causal-{name}", "LlamaForCausalLM", config, chat_template=chat_template, **options)

    return make


@pytest.fixture(scope="session")
def encoder_maker(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> ModelMaker:  # noqa: ARG001
    """Makes a folder of a tiny random encoder reward model: no chat template, no eos, prompt and response as a text pair."""
    import transformers

    def make(kind: str, **options: Any) -> Path:
        folder, tokenizer = tmp_path_factory.mktemp(kind) / "model", _bert_tokenizer()
        sizes = {
            "vocab_size": len(tokenizer), "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
            "max_position_embeddings": 128, "initializer_range": 0.2, "num_labels": 1, "pad_token_id": tokenizer.pad_token_id,
        }  # fmt: skip
        config = getattr(transformers, f"{kind}Config")(**(sizes | options))
        _seeded(getattr(transformers, f"{kind}ForSequenceClassification"), config).save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))
        return folder

    return make


@pytest.fixture(scope="session")
def bert(encoder_maker: ModelMaker) -> Path:
    """Without dropout, so that LoRA's is the only one."""
    return encoder_maker("Bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


@pytest.fixture(scope="session")
def roberta(encoder_maker: ModelMaker) -> Path:
    """Its head takes the first position itself, and has a hidden layer: four tensors."""
    return encoder_maker("Roberta")


@pytest.fixture(scope="session")
def texts() -> Texts:
    """Twelve prompts and responses of 1 to 45 words."""
    prompts = [user_prompt(_words(3 + row % 4, start=7 * row)) for row in range(12)]
    responses = [_words(1 + 4 * row, start=11 * row) for row in range(12)]
    return Texts(prompts, responses)


@pytest.fixture(scope="session")
def preference_pairs() -> list[Pair]:
    """Sixteen pairs of different lengths; the chosen side alone says `good`, the rejected one `bad`."""
    return [
        Pair(
            user_prompt(_words(3, start=row)),
            f"{_words(2 + row % 5, start=3 * row)} good good",
            f"{_words(2 + row % 3, start=3 * row)} bad bad",
        )
        for row in range(16)
    ]


@pytest.fixture(scope="session")
def words() -> Callable[..., str]:
    """So many words, each one token: `words(3)` is `w0 w1 w2`."""
    return _words


@pytest.fixture(scope="session")
def lora() -> Lora:
    """LoRA on two projections, with the paper's dropout."""
    return Lora(r=8, alpha=16, dropout=0.05, target_modules=["q_proj", "v_proj"])


@pytest.fixture(scope="session")
def train_arguments() -> Mapping[str, Any]:
    """Nine steps over twelve pairs, at a rate that moves the scores."""
    batches = {"learning_rate": 5e-3, "per_device_train_batch_size": 4, "num_train_epochs": 3}
    return batches | {"eval_steps": 3, "save_steps": 3, "save_total_limit": 3, "logging_steps": 1}


@pytest.fixture(scope="session")
def trained_fp32(
    tmp_path_factory: pytest.TempPathFactory,
    llama: Path,
    preference_pairs: list[Pair],
    lora: Lora,
    train_arguments: Mapping[str, Any],
) -> Trained:
    """The tiny Llama after nine steps in fp32, with validation pairs that choose the checkpoint."""
    model = load_reward_model(ModelSpec(str(llama), "fp32", 64))
    train, validation = (list(map(TrainingExample, pairs)) for pairs in (preference_pairs[:12], preference_pairs[12:]))
    result = train_adapter(model, train, validation, lora, train_arguments, tmp_path_factory.mktemp("trained-fp32"), 0)
    model.model.eval()
    return Trained(model, result)


def _words(count: int, start: int = 0) -> str:
    return " ".join(WORDS[(start + number) % 60] for number in range(count))


def _llama_config(**changes: Any) -> Any:
    """Configuration of the tiny Llama; large initial weights, so that scores spread."""
    from transformers import LlamaConfig

    options = {
        "vocab_size": len(_llama_tokenizer()), "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 256, "initializer_range": 0.2, "num_labels": 1,
    }  # fmt: skip
    return LlamaConfig(**(options | changes))


def _llama_tokenizer(
    *,
    chat_template: str | None = CHAT_TEMPLATE,
    eos: bool = True,
    pad: str | None = "<pad>",
    padding_side: str = "right",
) -> Any:
    """A word tokenizer that adds a BOS of its own. `pad="</s>"` pads with the end-of-sequence token."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = _word_level(["<unk>", "<s>", "</s>", "<pad>", *ROLES], "<unk>", single="<s> $A", pair="<s> $A $B")
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>" if eos else None, pad_token=pad,
        padding_side=padding_side, additional_special_tokens=ROLES,
    )  # fmt: skip
    made.chat_template = chat_template
    return made


def _bert_tokenizer() -> Any:
    """A word tokenizer with [CLS] and [SEP]."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = _word_level(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "[UNK]", single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]"
    )


def _word_level(special: list[str], unknown: str, single: str, pair: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {token: number for number, token in enumerate([*special, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, vocabulary[token]) for token in special]
    )
    return tokenizer


def _seeded(architecture: Any, config: Any) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return architecture(config)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Starts a real HTTP server on this machine that answers each POST by a function; gives its base URL."""
    with serving() as start:
        yield start


@pytest.fixture(scope="module")
def serve_all() -> Iterator[Callable[[Answer], str]]:
    """The same for all tests of a file."""
    with serving() as start:
        yield start


@pytest.fixture(scope="session")
def small_job() -> Callable[..., list[str]]:
    """Words behind `train` for a small run in a folder, with further overrides."""
    return lambda folder, *overrides: ["jargon", *SMALL, f"run.folder={folder}", *overrides]


@pytest.fixture(scope="session")
def launch(small_job: Callable[..., list[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs scripts/train.py in a process of its own, under a launcher if one is named."""

    def start(
        folder: Path, *overrides: str, program: list[str] | None = None, timeout_s: float = 600
    ) -> subprocess.CompletedProcess[str]:
        command = [*(program or [sys.executable]), str(ROOT / "scripts" / "train.py"), *small_job(folder, *overrides)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=ROOT)

    return start


@pytest.fixture(scope="session")
def record() -> Callable[[Path, str], dict[str, Any]]:
    """What a finished stage of a run folder says of itself."""

    def read(folder: Path, stage: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((folder / stage / "stage.json").read_text(encoding="utf-8"))
        return content

    return read
