"""Claim: a reward model behind any of the servers that cda speaks to gives the rewards that it gives in this process, by its chat
template applied once; and a server that is wrongly set up is found by its first eight texts, or the report says that it
cannot be.

One tiny Llama with a chat template that writes a BOS, beside a tokenizer that adds another, and one tiny BERT cross-encoder,
both with random weights, stand behind scripted servers after the documentation of vLLM, SGLang, text-embeddings-inference and
OpenRLHF (`tests/reward_servers.py`). 120 texts of 1 to 45 words, a third of them in conversations of several turns, are
scored over real HTTP and by cda's own classifier. Wrong set-ups apply the chat template twice or not at all, leave a
sigmoid on, or serve another tokenizer than the named one.

Thresholds: rewards within 1e-4 and equal ranks at every endpoint; the check of the template agrees wherever a server counts
tokens; every wrong set-up of those servers ends in an error or a note with its remedy; OpenRLHF's server counts none, and
the report says that its template cannot be checked.

    python -m evals.reliability.served_dialects      (half a minute)
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cda.arrays import FloatArray
from cda.errors import ModelError
from cda.models.config import ModelSpec
from cda.models.load import RewardModel, load_reward_model, load_template
from cda.records import Message, Prompt, user_prompt
from cda.scorers.classifier import ClassifierScorer
from cda.scorers.dialects import ServedOptions
from cda.scorers.rendering import Rendering
from cda.scorers.served_client import ServedClient, ServedScorer
from evals.shared import ROOT, Check, finish

sys.path.insert(0, str(ROOT / "tests"))
from reward_servers import OpenRLHF, Scripted, Sglang, Tei, Vllm
from serving import Served

# By its path: rooms of the tests have a conftest.py of their own.
_made = importlib.util.spec_from_file_location("tests_of_all_rooms", ROOT / "tests" / "conftest.py")
assert _made is not None and _made.loader is not None
suite: Any = importlib.util.module_from_spec(_made)
sys.modules[_made.name] = suite
_made.loader.exec_module(suite)

CLOSE = 1e-4
N_TEXTS = 120


@dataclass(frozen=True)
class Case:
    """One endpoint, or one wrong set-up of it, and what must be said of it."""

    name: str
    server: type[Scripted]
    path: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    setup: tuple[tuple[str, Any], ...] = ()
    tokenizer: str | None = "llama"
    said: str = ""


RIGHT = (
    Case("vLLM /classify, messages", Vllm, "/classify"),
    Case("vLLM /classify, token ids", Vllm, "/classify", (("form", "text"),)),
    Case("vLLM /pooling, messages", Vllm, "/pooling"),
    Case("vLLM /score, pairs", Vllm, "/score", tokenizer="bert"),
    Case("SGLang /classify", Sglang, "/classify"),
    Case("TEI /predict", Tei, "/predict"),
    Case("TEI /predict, pairs", Tei, "/predict", tokenizer="bert"),
    Case("TEI /rerank", Tei, "/rerank", tokenizer="bert"),
    Case("OpenRLHF /get_reward", OpenRLHF, "/get_reward"),
    Case("OpenRLHF /get_reward, nested rewards", OpenRLHF, "/get_reward", setup=(("nested", True),)),
    Case("OpenRLHF /get_reward, before extra_logs", OpenRLHF, "/get_reward", setup=(("older", True),)),
)
TWICE, NONE, SIGMOID = (("template", "twice"),), (("template", "none"),), (("sigmoid", True),)
WRONG = (
    Case("vLLM: template twice", Vllm, "", (), TWICE, said="more than once"),
    Case("vLLM /pooling: template twice", Vllm, "/pooling", (), TWICE, said="more than once"),
    Case("vLLM: no template", Vllm, "", (), NONE, said="no chat template is applied"),
    Case("vLLM: no template, no tokenizer named", Vllm, "", (), NONE, None, said="adds nothing to a conversation"),
    Case("vLLM: sigmoid on", Vllm, "", (), SIGMOID, said="--pooler-config"),
    Case("vLLM /score: sigmoid on", Vllm, "/score", (), SIGMOID, "bert", said="--pooler-config"),
    Case("vLLM: another tokenizer is named", Vllm, "", (("form", "messages"),), (), "other", said="and other makes"),
    Case("SGLang: template twice", Sglang, "", (), TWICE, said="applied there again"),
    Case(
        "SGLang: texts without the template's tokens", Sglang, "", (), NONE, said="another tokenizer or chat template"
    ),
    Case("SGLang: no template, no tokenizer named", Sglang, "", (), (), None, said="sent without a chat template"),
    Case("SGLang: sigmoid on", Sglang, "", (), SIGMOID, said="sigmoid=true"),
    Case("SGLang /v1/classify: softmax over one label", Sglang, "/v1/classify", said="ask its /classify"),
    Case("TEI: template twice", Tei, "", (), TWICE, said="applied there again"),
    Case("TEI: no template, no tokenizer named", Tei, "", (), (), None, said="sent without a chat template"),
    Case("TEI: sigmoid on", Tei, "", (), SIGMOID, said="sigmoid=true"),
    Case("TEI /rerank: sigmoid on", Tei, "/rerank", (), SIGMOID, "bert", said="sigmoid=true"),
    Case("OpenRLHF: no template, no tokenizer named", OpenRLHF, "", (), (), None, said="sent without a chat template"),
    Case("OpenRLHF: sigmoid on", OpenRLHF, "", (), SIGMOID, said="sigmoid=true"),
)
UNCHECKABLE = Case(
    "OpenRLHF: template twice", OpenRLHF, "", (), TWICE, said="cannot be checked, since it counts no tokens"
)


def main() -> int:
    """Every endpoint against the model itself, then every wrong set-up."""
    with tempfile.TemporaryDirectory() as folder:
        models = _models(Path(folder))
        prompts, responses = _texts(np.random.default_rng(0))
        local = {
            name: ClassifierScorer(models[name], batch_tokens=1).score(prompts, responses) for name in ("llama", "bert")
        }
        right = {case.name: _against(case, models, prompts, responses, local) for case in RIGHT}
        wrong = {case.name: _said(case, models, prompts, responses) for case in (*WRONG, UNCHECKABLE)}
    apart = {name: row["largest_difference"] for name, row in right.items()}
    unequal = [name for name, row in right.items() if not row["ranks_equal"]]
    unagreed = [name for name, row in right.items() if row["agreed"] is False]
    missed = [case.name for case in WRONG if case.said not in wrong[case.name]["said"]]
    late = [name for name, row in wrong.items() if row["stopped"] and row["requests"] > 18]
    checks = [
        Check(f"rewards within {CLOSE:g} at {len(RIGHT)} endpoints", f"largest {max(apart.values()):.1e}", max(apart.values()) <= CLOSE),
        Check("equal ranks at every endpoint", f"{len(RIGHT) - len(unequal)} of {len(RIGHT)}", not unequal),
        Check(
            "one template, once, on 8 of 8 texts wherever the server counts tokens",
            f"{sum(row['agreed'] is True for row in right.values())} agree, {len(unagreed)} do not",
            not unagreed and sum(row["agreed"] is True for row in right.values()) == 8,
        ),
        Check(f"{len(WRONG)} of {len(WRONG)} wrong set-ups are found", f"{len(WRONG) - len(missed)}; missed: {missed}", not missed),
        Check("an error comes before a ninth text is scored", f"{len(late)} come later", not late),
        Check("a template twice behind OpenRLHF's server: said not to be checkable", wrong[UNCHECKABLE.name]["said"], UNCHECKABLE.said in wrong[UNCHECKABLE.name]["said"]),
    ]  # fmt: skip
    claim = "served reward models give the rewards that they give in this process, in every dialect; wrongly set-up servers are found"
    return finish("served_dialects", claim, checks, {"n": N_TEXTS, "endpoints": right, "wrong": wrong})


def _models(folder: Path) -> dict[str, RewardModel]:
    """A Llama with a chat template, a BERT that reads pairs, and the same Llama under another template."""
    from transformers import BertConfig, BertForSequenceClassification, LlamaForSequenceClassification

    bert_words = suite._bert_tokenizer()
    bert = BertConfig(
        vocab_size=len(bert_words), hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=256, initializer_range=0.2, num_labels=1, pad_token_id=bert_words.pad_token_id,
    )  # fmt: skip
    other = suite._llama_tokenizer(
        chat_template="{% for message in messages %}{{ message.content }} <|end|>{% endfor %}"
    )
    made = {
        "llama": (suite._seeded(LlamaForSequenceClassification, suite._llama_config()), suite._llama_tokenizer()),
        "bert": (suite._seeded(BertForSequenceClassification, bert), bert_words),
        "other": (suite._seeded(LlamaForSequenceClassification, suite._llama_config()), other),
    }
    for name, (model, tokenizer) in made.items():
        model.save_pretrained(str(folder / name))
        tokenizer.save_pretrained(str(folder / name))
    return {name: load_reward_model(ModelSpec(str(folder / name), "fp32", 256)) for name in made}


def _texts(rng: np.random.Generator) -> tuple[list[Prompt], list[str]]:
    def words(most: int) -> str:
        return " ".join(rng.choice(suite.WORDS, size=rng.integers(1, most + 1)))

    prompts: list[Prompt] = []
    for row in range(N_TEXTS):
        before = (Message("user", words(8)), Message("assistant", words(8))) if row % 3 == 0 else ()
        prompts.append((*before, *user_prompt(words(10))))
    return prompts, [words(45) for _ in range(N_TEXTS)]


@contextmanager
def _asked(case: Case, models: dict[str, RewardModel]) -> Iterator[tuple[ServedScorer, Served]]:
    model = models["bert" if case.tokenizer == "bert" else "llama"]
    scripted = case.server(model, max_tokens=256)
    for name, value in case.setup:
        setattr(scripted, name, value)
    served = Served(routes=scripted.routes)
    try:
        rendering = None
        if case.tokenizer is not None:
            template = load_template(models[case.tokenizer].spec)
            template.max_length_tokens = sys.maxsize
            rendering = Rendering(template, case.tokenizer)
        client = ServedClient(f"{served.url}{case.path}", ServedOptions(**dict(case.options)), rendering=rendering)
        if problems := client.check():
            raise ModelError(problems[0])
        yield ServedScorer(client), served
    finally:
        served.stop()


def _against(
    case: Case,
    models: dict[str, RewardModel],
    prompts: Sequence[Prompt],
    responses: Sequence[str],
    local: dict[str, FloatArray],
) -> dict[str, Any]:
    """Rewards of an endpoint next to those of the model itself."""
    with _asked(case, models) as (scorer, _):
        found, expected = scorer.score(prompts, responses), local[str(case.tokenizer)]
        (verdict,) = scorer.notes
        agreed = None if "counts no tokens" in verdict else "on 8 of 8 texts" in verdict
        return {
            "largest_difference": float(np.abs(found - expected).max()),
            "ranks_equal": bool((np.argsort(found, kind="stable") == np.argsort(expected, kind="stable")).all()),
            "agreed": agreed,
            "notes": [*scorer.client.notes(), verdict],
        }


def _said(
    case: Case, models: dict[str, RewardModel], prompts: Sequence[Prompt], responses: Sequence[str]
) -> dict[str, Any]:
    """The error, or else the report's notes, of a server that is wrongly set up, and the requests until then."""
    with _asked(case, models) as (scorer, served):
        try:
            scorer.score(prompts, responses)
            said, stopped = " ".join([*scorer.client.notes(), *scorer.notes]), False
        except ModelError as error:
            said, stopped = str(error).replace(served.url, "http://server"), True
        return {"said": said, "stopped": stopped, "requests": len(served.bodies)}


if __name__ == "__main__":
    sys.exit(main())
