"""`cda quality` end to end on tiny real models: every format, an adapter at a dose, a second model, mistakes as messages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from page_checks import read_markdown

from cda.files.jsonl import read_json, read_jsonl
from cda.models.config import ModelSpec
from cda.models.load import load_reward_model
from cda.recipe.load import load_model_audit
from cda.records import user_prompt
from cda.resources.named_scorer import Subject, scorer_settings
from cda.resources.scorers import open_scorer
from cda.run import file_fingerprint
from cda.scorers.classifier import ClassifierScorer
from cda.training.dose import DosedModel

if TYPE_CHECKING:
    from conftest import Trained

SETTINGS = ("model.precision=fp32", "model.max_length_tokens=64")
Write = Callable[..., Path]


@pytest.fixture
def done(cda: Callable[..., str], tmp_path: Path) -> Callable[..., tuple[dict[str, Any], str]]:
    """Runs the command; gives its result, and what was printed and stands in its Markdown."""

    def run(*words: object) -> tuple[dict[str, Any], str]:
        printed = cda("quality", *words, "--out", tmp_path / "out", *SETTINGS)
        return strict((tmp_path / "out" / "quality.json").read_text()), printed + read_markdown(
            (tmp_path / "out" / "quality.md").read_text()
        )

    return run


def strict(line: str) -> Any:
    """JSON as other readers take it: no NaN."""
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, words: Callable[..., str]) -> Path:
    """A small file in each format."""
    folder = tmp_path_factory.mktemp("quality")

    def text(number: int, word: str) -> str:
        return f"{words(2 + number % 5, start=3 * number)} {word}"

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (folder / name).write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    prompts = list(enumerate(words(3, start=number) for number in range(12)))
    subsets = ["alpacaeval-easy", "llmbar-natural", "donotanswer", "math-prm", "hep-go", "shp"]
    write("rb.jsonl", [
        {"prompt": prompt, "chosen": text(row, "good good"), "rejected": text(row, "bad bad"), "subset": subsets[row % 6],
         "id": row} for row, prompt in prompts])  # fmt: skip
    lists = [{"id": f"{row}", "prompt": prompt, "subset": ("Math", "Focus")[row % 2], "num_correct": 1,
              "chosen": [text(row, "good")], "rejected": [text(row + n, "bad") for n in range(1, 4)]}
             for row, prompt in prompts[:6]]  # fmt: skip
    ties = [{"id": f"{kind}:{row}", "prompt": f"{kind} {prompt}", "subset": "Ties", "num_correct": n,
             "chosen": [text(row + right, "good") for right in range(n)], "rejected": [text(row, "bad")]}
            for row, prompt in prompts[:3] for kind, n in (("ref", 1), ("tied", 3))]  # fmt: skip
    write("rb2.jsonl", [*lists, *ties])
    write("chat_filtered.jsonl", [
        {"prompt": prompt} | {side: [text(row + style, word) for style in range(3)]
                              for side, word in (("chosen", "good"), ("rejected", "bad"))}
        for row, prompt in prompts[:5]])  # fmt: skip
    write("llmbar.jsonl", [
        {"input": prompt, "output_1": text(row, "bad"), "output_2": text(row, "good"), "label": 2}
        for row, prompt in prompts[:5]])  # fmt: skip
    write("own.jsonl", [
        {"prompt": [{"role": "user", "content": prompt}], "chosen": [{"role": "assistant", "content": text(row, "good")}],
         "rejected": [{"role": "assistant", "content": text(row, "bad")}], "section": ("a", "b")[row % 2]}
        for row, prompt in prompts])  # fmt: skip
    return folder


def test_an_adapter_on_every_format(
    llama: Path, trained_fp32: Trained, files: Path, done: Callable[..., Any], tmp_path: Path
) -> None:
    names = ["rb", "rb2", "chat_filtered", "llmbar", "own"]
    paths = [files / f"{name}.jsonl" for name in names]
    result, shown = done(llama, *paths, "--adapter", trained_fp32.result.adapter)
    assert "rb2 (RewardBench 2)" in shown and "Left out 2 of 12 rows: 2 prior set" in shown
    formats = ["rewardbench", "rewardbench-2", "rm-bench", "llmbar", "pairs"]
    assert [(each["format"], each["n_items"]) for each in result["sets"]] == list(
        zip(formats, (10, 12, 5, 5, 12), strict=True)
    )
    assert result["n_tests"] == 4 + 3 + 3 + 1 + 2
    assert [scoring["label"] for scoring in result["scorings"]] == ["before", "after"]
    # The adapter was trained to prefer the side that says `good`.
    own = result["sets"][4]["overall"]
    assert own["found"]["accuracy"]["after"]["value"] == 1.0
    assert own["test"]["p_holm"] is None and result["sets"][4]["sections"][0]["test"]["p_holm"] is not None
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8").count("<figure>") == 5


def test_numbers_are_those_of_the_scores_and_name_no_path(
    llama: Path, trained_fp32: Trained, files: Path, done: Callable[..., Any], tmp_path: Path
) -> None:
    adapter, out = trained_fp32.result.adapter, tmp_path / "out"
    shutil.copytree(adapter, tmp_path / "mine" / "train" / "adapter")
    found, _ = done(llama, files / "own.jsonl", "--adapter", tmp_path / "mine", "--dose", 0.5, "--figures", "pdf")
    rows = list(read_jsonl(out / "scores.jsonl"))
    row = rows[3]
    texts, prompt = [row["chosen"][0], row["rejected"][0]], user_prompt(row["prompt"][0]["content"])
    for label, dose in (("before", 0.0), ("after", 0.5)):
        model = load_reward_model(ModelSpec(str(llama), "fp32", 64), adapter)
        DosedModel(model).set(dose)
        expected = ClassifierScorer(model, 1).score([prompt] * 2, texts)
        np.testing.assert_allclose([row[label]["chosen"][0], row[label]["rejected"][0]], expected, atol=1e-4)
    estimate = found["sets"][0]["overall"]["found"]["accuracy"]["before"]
    assert estimate["value"] == np.mean([each["before"]["chosen"][0] > each["before"]["rejected"][0] for each in rows])
    content = (out / "quality.json").read_text(encoding="utf-8") + (out / "quality.md").read_text(encoding="utf-8")
    assert not [path for path in (files, tmp_path, llama.parent) if str(path) in content]
    before, after = found["scorings"]
    assert (after["target"], after["adapter"], after["dose"]) == (llama.name, "mine/train/adapter", 0.5)
    assert after["adapter_content"] == file_fingerprint(adapter) and before["adapter"] is None
    assert found["sets"][0]["source"] == "own.jsonl"
    assert {file.name for file in (out / "figures").iterdir()} == {"accuracy-1.pdf", "captions.md", "figures.tex"}


def test_rewardbench_reads_the_result_files(
    llama: Path, trained_fp32: Trained, files: Path, done: Callable[..., Any], tmp_path: Path
) -> None:
    done(llama, files / "rb.jsonl", files / "rb2.jsonl", "--adapter", trained_fp32.result.adapter, "--dose", 1)
    folder, name = tmp_path / "out" / "rewardbench", f"local/{llama.name}"
    metrics = read_json(folder / "rb" / "eval-set" / f"{name}.json")
    assert (metrics["model"], metrics["chat_template"], metrics["model_type"]) == (name, "tokenizer", "Seq. Classifier")
    scores = read_json(folder / "rb" / "eval-set-scores" / f"{name}-after.json")
    columns = {"results", "subset", "id", "scores_chosen", "scores_rejected", "text_chosen", "text_rejected"}
    assert columns <= set(scores) and len(scores["results"]) == len(scores["scores_chosen"]) == 10
    after = read_json(folder / "rb" / "eval-set" / f"{name}-after.json")
    assert after["hep-go"] == np.mean(np.array(scores["results"])[np.array(scores["subset"]) == "hep-go"])
    lines = list(read_jsonl(folder / "rb" / f"{name}_outputs.jsonl"))
    assert len(lines) == 10 and lines[0]["results"] == int(lines[0]["scores_chosen"] > lines[0]["scores_rejected"])
    second = read_json(folder / "rb2" / "eval-set-scores" / f"{name}.json")
    assert [len(row) for row in second["scores"][:6]] == [4] * 6
    assert second["results"][-1] is None and second["num_correct"][-1] == 3
    assert {"Math", "Focus", "Ties"} <= set(read_json(folder / "rb2" / "eval-set" / f"{name}.json"))


@pytest.mark.parametrize(
    ("setting", "reason", "said"),
    [
        ("score.over_length=cut", "both sides read the same after the cut", "2 of 6 texts cut at 64 tokens"),
        ("score.over_length=drop", "a text is too long for the model", "2 too long and left out"),
    ],
)
def test_texts_that_are_too_long_are_left_out_and_named_so(
    setting: str, reason: str, said: str, llama: Path, write: Write, done: Callable[..., Any], tmp_path: Path,
    words: Callable[..., str],
) -> None:  # fmt: skip
    rows = ({"prompt": words(3), "chosen": words(n) + " good", "rejected": words(n) + " bad"} for n in (4, 5, 90))
    found, shown = done(llama, write("own", rows), setting)
    (quality,) = found["sets"]
    assert (quality["n_items"], quality["unread"], quality["unread_reasons"]) == (2, 1, {reason: 1})
    assert f"Not compared, 1 of 3 items: 1 {reason}." in shown and said in shown
    lines = [strict(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    assert [(row["used"], row["left_out"]) for row in lines] == [(True, None), (True, None), (False, reason)]
    assert (lines[2]["model"]["chosen"] == [None]) == (setting == "score.over_length=drop")
    outputs = tmp_path / "out" / "rewardbench" / "own" / "local" / f"{llama.name}_outputs.jsonl"
    assert len([strict(line) for line in outputs.read_text().splitlines()]) == 2


def test_a_number_of_ties_with_an_unread_verdict_is_left_out(
    write: Write, done: Callable[..., Any], tmp_path: Path
) -> None:
    """Without the comparisons among its right answers a number would have no spread, the best there is."""
    code = tmp_path / "mine.py"
    code.write_text(
        "def prefer(prompts, first, second):\n"
        "    among = ['good' in a and 'good' in b for a, b in zip(first, second)]\n"
        "    lost = [same and '7' in prompt[0]['content'] for same, prompt in zip(among, prompts)]\n"
        "    sizes = [float('nan') if none else 0.5 if same else 1.0 for none, same in zip(lost, among)]\n"
        "    return [size if (b == 'bad' or a < b and a != 'bad') else -size for size, a, b in zip(sizes, first, second)]\n"
    )
    rows = (
        {"id": f"{kind}:{number}", "prompt": f"{kind} {number}", "subset": "Ties", "num_correct": n,
         "chosen": [f"good {right}" for right in range(n)], "rejected": ["bad"]}
        for number in (6, 7) for kind, n in (("ref", 1), ("tied", 3))
    )  # fmt: skip
    found, shown = done(f"{code}:prefer", write("rb2", rows))
    (ties,) = found["sets"]
    assert ties["unread_reasons"] == {"its partner in Ties has no score": 1, "no readable verdict": 1}
    estimate = ties["overall"]["found"]["accuracy"]["model"]
    # The one that is left: gaps of 1 over a spread of 0.5.
    assert (estimate["n"], estimate["value"]) == (1, pytest.approx(1 + 0.01 * np.tanh(1)))
    assert "Not compared, 2 of 4 items" in shown


def test_files_are_known_before_they_are_scored(write: Write, done: Callable[..., Any], tmp_path: Path) -> None:
    """What became of a file during hours of scoring costs no result, and is not taken for what was scored."""
    own, code = write("own", [{"prompt": "q", "chosen": "better", "rejected": "bad"}]), tmp_path / "mine.py"
    before = file_fingerprint(own)
    code.write_text(
        f"import pathlib\ndef reward(prompts, responses):\n    pathlib.Path({str(own)!r}).unlink(missing_ok=True)\n"
        "    return [float(len(response)) for response in responses]\n"
    )
    found, _ = done(f"{code}:reward", own)
    assert found["files"] == {"own": before}


def test_files_of_one_name_keep_their_rows_apart(
    longer: str, write: Write, done: Callable[..., Any], tmp_path: Path
) -> None:
    names = {"one/a": "a", "two/A": "A-2", "a-2": "a-2-2"}
    paths = [write(path, [{"prompt": path, "chosen": "good w1", "rejected": "bad"}]) for path in names]
    found, _ = done(longer, *paths)
    assert [each["name"] for each in found["sets"]] == list(names.values())
    for path, name in names.items():
        (outputs,) = (tmp_path / "out" / "rewardbench" / name).rglob("*_outputs.jsonl")
        assert [row["prompt"][0]["content"] for row in read_jsonl(outputs)] == [path]


def test_mistakes_are_messages(llama: Path, files: Path, cda: Callable[..., str], tmp_path: Path) -> None:
    own = files / "own.jsonl"
    for words, said in (
        ((llama, own, "--dose", 1), "--dose: needs --adapter"),
        ((llama, own, "--adapter", "a", "--against", "b"), "give one of them"),
        ((llama, own, "--adapter", tmp_path), "neither the folder of an adapter"),
        ((llama, tmp_path / "nowhere.jsonl"), "nowhere.jsonl: no such file"),
        (("jargon", own), "a recipe; give a model"),
        ((llama, "seed=3"), "at least one file"),
        ((llama, own, "scoer.batch_tokens=8"), "unknown key"),
    ):
        printed = cda("quality", *words, *SETTINGS, status=2)
        assert "error: " in printed and said in printed


@pytest.mark.parametrize(
    ("target", "model", "name"),
    [
        ("org/model", None, "org/model"),
        ("/some/folder/model-v1", None, "local/model-v1"),
        ("dpo:org/policy,org/reference", None, "log-ratio/org-policy"),
        ("dpo:local/model,x/y", None, "log-ratio/model"),
        ("judge:llama3:8b", None, "judge/llama3-8b"),
        ("served:http://me:secret@host:8000/classify", None, "served/host-8000-classify"),
        ("https://host/classify", "org/rm", "served/host-classify-org-rm"),
        ("/home/me/mine.py:reward", None, "function/mine.py-reward"),
    ],
)
def test_a_scorer_is_named_by_kind_and_policy_without_path_or_password(
    target: str, model: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "local" / "model").mkdir(parents=True)  # a folder, and no hub id
    monkeypatch.chdir(tmp_path)
    served = [] if model is None else [f"score.served.model={model}"]
    loaded = load_model_audit("embedded", {}, served)  # a password in an address is refused before
    section = loaded.recipe.model.model_copy(update={"name_or_path": target})
    assert open_scorer(Subject("model", section), scorer_settings(loaded)).public_name == name
