"""`cda quality` end to end on tiny real models: every format, an adapter at a dose, a second model, mistakes as messages."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from replies import Answer, reply
from typer.testing import CliRunner, Result

from cda.cli import app
from cda.files.jsonl import read_json, read_jsonl
from cda.models.load import ModelSpec, load_reward_model
from cda.records import user_prompt
from cda.run import file_fingerprint
from cda.scorers.classifier import ClassifierScorer
from cda.training.dose import DosedModel

if TYPE_CHECKING:
    from conftest import Trained

ROOT = Path(__file__).parent.parent.parent
DATA = Path(os.environ.get("CDA_DATA", ROOT.parent / "shared" / "data"))
SETTINGS = ("model.precision=fp32", "model.max_length_tokens=64")


def cda_quality(*words: object) -> Result:
    return CliRunner().invoke(app, ["quality", *map(str, words), *SETTINGS])


def done(*words: object) -> str:
    result = cda_quality(*words)
    assert result.exit_code == 0, result.output
    assert not [line for line in result.stdout.split("Written:")[0].splitlines() if len(line) > 100]
    return result.stdout


def refused(*words: object) -> str:
    result = cda_quality(*words)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    assert "Traceback" not in result.output and "error: " in result.output
    return result.output


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, words: Callable[..., str]) -> Path:
    """A small file in each format."""
    folder = tmp_path_factory.mktemp("quality")

    def text(number: int, word: str) -> str:
        return f"{words(2 + number % 5, start=3 * number)} {word}"

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (folder / name).write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    prompts = [words(3, start=number) for number in range(12)]
    subsets = ["alpacaeval-easy", "llmbar-natural", "donotanswer", "math-prm", "hep-go", "shp"]
    write("rb.jsonl", [
        {"prompt": prompt, "chosen": text(row, "good good"), "rejected": text(row, "bad bad"), "subset": subsets[row % 6],
         "id": row} for row, prompt in enumerate(prompts)])  # fmt: skip
    lists = [{"id": f"{row}", "prompt": prompt, "subset": ("Math", "Focus")[row % 2], "num_correct": 1,
              "chosen": [text(row, "good")], "rejected": [text(row + one, "bad") for one in range(1, 4)]}
             for row, prompt in enumerate(prompts[:6])]  # fmt: skip
    ties = [{"id": f"{kind}:{row}", "prompt": f"{kind} {prompt}", "subset": "Ties", "num_correct": n,
             "chosen": [text(row + one, "good") for one in range(n)], "rejected": [text(row, "bad")]}
            for row, prompt in enumerate(prompts[:3]) for kind, n in (("ref", 1), ("tied", 3))]  # fmt: skip
    write("rb2.jsonl", [*lists, *ties])
    write("chat_filtered.jsonl", [
        {"prompt": prompt, "chosen": [text(row + one, "good") for one in range(3)],
         "rejected": [text(row + one, "bad") for one in range(3)]} for row, prompt in enumerate(prompts[:5])])  # fmt: skip
    write("llmbar.jsonl", [
        {"input": prompt, "output_1": text(row, "bad"), "output_2": text(row, "good"), "label": 2}
        for row, prompt in enumerate(prompts[:5])])  # fmt: skip
    write("own.jsonl", [
        {"prompt": [{"role": "user", "content": prompt}], "chosen": [{"role": "assistant", "content": text(row, "good")}],
         "rejected": [{"role": "assistant", "content": text(row, "bad")}], "section": ("a", "b")[row % 2]}
        for row, prompt in enumerate(prompts)])  # fmt: skip
    return folder


def rewards(base: Path, adapter: Path, dose: float, prompt: str, texts: list[str]) -> list[float]:
    model = load_reward_model(ModelSpec(str(base), "fp32", 64), adapter)
    DosedModel(model).set(dose)
    return [float(one) for one in ClassifierScorer(model, 1).score([user_prompt(prompt)] * len(texts), texts)]


def test_an_adapter_on_every_format(llama: Path, trained_fp32: Trained, files: Path, tmp_path: Path) -> None:
    names = ["rb.jsonl", "rb2.jsonl", "chat_filtered.jsonl", "llmbar.jsonl", "own.jsonl"]
    out = tmp_path / "out"
    shown = done(llama, *[files / one for one in names], "--adapter", trained_fp32.result.adapter, "--out", out)
    for words in (
        "rb (RewardBench)",
        "rb2 (RewardBench 2)",
        "(RM-Bench)",
        "(LLMBar)",
        "Left out 2 of 12 rows: 2 prior set",
    ):
        assert words in shown
    result = read_json(out / "quality.json")
    assert [one["format"] for one in result["sets"]] == ["rewardbench", "rewardbench-2", "rm-bench", "llmbar", "pairs"]
    assert [one["n_items"] for one in result["sets"]] == [10, 12, 5, 5, 12]
    assert result["n_tests"] == 4 + 3 + 3 + 1 + 2
    assert [one["label"] for one in result["scorings"]] == ["before", "after"]
    assert all(
        one["facts"]["precision"] == "fp32" and one["facts"]["max_length_tokens"] == 64 for one in result["scorings"]
    )
    # The adapter was trained to prefer the side that says `good`.
    own = result["sets"][4]["overall"]
    assert own["scores"]["after"]["estimate"]["value"] == 1.0
    assert own["shift"]["p_holm"] is None and result["sets"][4]["sections"][0]["shift"]["p_holm"] is not None
    assert "# Quality" in (out / "quality.md").read_text()
    assert (out / "report.html").read_text(encoding="utf-8").count("<figure>") == 5 * 2 + 2 and "report.html" in shown


def test_numbers_are_those_of_the_scores(llama: Path, trained_fp32: Trained, files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done(llama, files / "own.jsonl", "--adapter", trained_fp32.result.adapter, "--dose", 0.5, "--out", out)
    rows = list(read_jsonl(out / "scores.jsonl"))
    row = rows[3]
    texts = [row["chosen"][0], row["rejected"][0]]
    for label, dose in (("before", 0.0), ("after", 0.5)):
        expected = rewards(llama, trained_fp32.result.adapter, dose, row["prompt"][0]["content"], texts)
        np.testing.assert_allclose([row[label]["chosen"][0], row[label]["rejected"][0]], expected, atol=1e-4)
    overall = read_json(out / "quality.json")["sets"][0]["overall"]["scores"]["before"]["estimate"]
    assert overall["value"] == np.mean([one["before"]["chosen"][0] > one["before"]["rejected"][0] for one in rows])


def test_rewardbench_reads_the_result_files(llama: Path, trained_fp32: Trained, files: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained_fp32.result.adapter, run / "train" / "adapter")
    done(llama, files / "rb.jsonl", files / "rb2.jsonl", "--adapter", run, "--dose", 1, "--out", tmp_path / "out")
    folder = tmp_path / "out" / "rewardbench"
    name = f"local/{llama.name}"
    metrics = read_json(folder / "rb" / "eval-set" / f"{name}.json")
    assert metrics["model"] == name and metrics["chat_template"] == "tokenizer"
    assert metrics["model_type"] == "Seq. Classifier" and 0 <= metrics["math-prm"] <= 1
    scores = read_json(folder / "rb" / "eval-set-scores" / f"{name}-after.json")
    columns = {"results", "subset", "id", "scores_chosen", "scores_rejected", "text_chosen", "text_rejected"}
    assert columns <= set(scores) and len(scores["results"]) == len(scores["scores_chosen"]) == 10
    after = read_json(folder / "rb" / "eval-set" / f"{name}-after.json")
    hits = [hit for hit, subset in zip(scores["results"], scores["subset"], strict=True) if subset == "hep-go"]
    assert after["hep-go"] == np.mean(hits)
    lines = list(read_jsonl(folder / "rb" / f"{name}_outputs.jsonl"))
    assert len(lines) == 10 and lines[0]["results"] == int(lines[0]["scores_chosen"] > lines[0]["scores_rejected"])
    second = read_json(folder / "rb2" / "eval-set-scores" / f"{name}.json")
    assert [len(one) for one in second["scores"][:6]] == [4] * 6
    assert second["results"][-1] is None and second["num_correct"][-1] == 3
    assert {"Math", "Focus", "Ties"} <= set(read_json(folder / "rb2" / "eval-set" / f"{name}.json"))


def test_one_model_and_then_two(llama: Path, bert: Path, files: Path, tmp_path: Path) -> None:
    done(llama, files / "own.jsonl", "--out", tmp_path / "one")
    alone = read_json(tmp_path / "one" / "quality.json")
    assert alone["n_tests"] == 0 and alone["sets"][0]["overall"]["shift"] is None
    shown = done(
        llama, files / "own.jsonl", "--against", bert, "--out", tmp_path / "one"
    )  # its own results are renewed
    both = read_json(tmp_path / "one" / "quality.json")
    assert "first" in shown and [one["facts"]["form"] for one in both["scorings"]] == ["chat template", "pair"]
    first = both["sets"][0]["overall"]["scores"]["first"]
    assert first == alone["sets"][0]["overall"]["scores"]["model"]


def test_sides_alike_after_the_cut_are_left_out(llama: Path, tmp_path: Path, words: Callable[..., str]) -> None:
    rows = [{"prompt": words(3), "chosen": words(n) + " good", "rejected": words(n) + " bad"} for n in (4, 90)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = done(llama, tmp_path / "own.jsonl", "--out", tmp_path / "out")
    found = read_json(tmp_path / "out" / "quality.json")["sets"][0]
    assert (found["n_items"], found["unread"]) == (1, 1)
    assert found["unread_reasons"] == {"both sides read the same after the cut": 1}
    assert "Not compared, 1 of 2 items: 1 both sides read the same after the cut." in shown
    assert "2 of 4 texts cut at 64 tokens" in shown
    assert [row["used"] for row in read_jsonl(tmp_path / "out" / "scores.jsonl")] == [True, False]


def strict(line: str) -> Any:
    """JSON as other readers take it: no NaN."""
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_texts_that_are_too_long_have_no_reward_and_are_named_so(
    llama: Path, tmp_path: Path, words: Callable[..., str]
) -> None:
    rows = [{"prompt": words(3), "chosen": words(n) + " good", "rejected": words(2) + " bad"} for n in (4, 5, 90)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "out"
    shown = done(llama, tmp_path / "own.jsonl", "--out", out, "score.over_length=drop")
    found = strict((out / "quality.json").read_text())
    assert found["scorings"][0]["facts"]["dropped"] == 1
    assert (found["sets"][0]["n_items"], found["sets"][0]["unread"]) == (2, 1)
    assert found["sets"][0]["unread_reasons"] == {"a text is too long for the model": 1}
    assert "1 a text is too long for the model." in shown and "1 too long and left out" in shown
    assert "same after the cut" not in shown + (out / "quality.md").read_text()
    last = [strict(line) for line in (out / "scores.jsonl").read_text().splitlines()][2]
    assert last["model"]["chosen"] == [None] and isinstance(last["model"]["rejected"][0], float)
    assert (last["used"], last["left_out"]) == (False, "a text is too long for the model")
    outputs = out / "rewardbench" / "own" / "local" / f"{llama.name}_outputs.jsonl"
    assert len([strict(line) for line in outputs.read_text().splitlines()]) == 2


def test_a_number_of_ties_with_an_unread_verdict_is_left_out(tmp_path: Path) -> None:
    """Without the comparisons among its right answers a number would have no spread, the best there is."""
    code = tmp_path / "mine.py"
    code.write_text(
        "def prefer(prompts, first, second):\n"
        "    among = ['good' in a and 'good' in b for a, b in zip(first, second)]\n"
        "    lost = [same and '7' in prompt[0]['content'] for same, prompt in zip(among, prompts)]\n"
        "    sizes = [float('nan') if none else 0.5 if same else 1.0 for none, same in zip(lost, among)]\n"
        "    return [size if (b == 'bad' or a < b and a != 'bad') else -size for size, a, b in zip(sizes, first, second)]\n"
    )
    rows = [
        {"id": f"{kind}:{number}", "prompt": f"{kind} {number}", "subset": "Ties", "num_correct": n,
         "chosen": [f"good {one}" for one in range(n)], "rejected": ["bad"]}
        for number in (6, 7) for kind, n in (("ref", 1), ("tied", 3))
    ]  # fmt: skip
    (tmp_path / "rb2.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = done(f"{code}:prefer", tmp_path / "rb2.jsonl", "--out", tmp_path / "out")
    found = read_json(tmp_path / "out" / "quality.json")["sets"][0]
    assert found["unread_reasons"] == {"its partner in Ties has no score": 1, "no readable verdict": 1}
    estimate = found["overall"]["scores"]["model"]["estimate"]
    # The one that is left: gaps of 1 over a spread of 0.5.
    assert (estimate["n"], estimate["value"]) == (1, pytest.approx(1 + 0.01 * np.tanh(1)))
    assert "Not compared, 2 of 4 items" in shown


def judge(choose: Callable[[str, str], str]) -> Answer:
    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        first, second = re.findall(r"<<<ANSWER \d>>>\n(.*?)\n<<<END>>>", body["messages"][1]["content"], re.S)
        return reply(choose(first, second))

    return answer


def test_a_judge_that_follows_the_place_is_shown_as_such(
    serve: Callable[[Answer], str], files: Path, tmp_path: Path
) -> None:
    def choose(first: str, second: str) -> str:
        return "I cannot say." if "w27" in first or "w27" in second else "Verdict: 1"

    url = serve(judge(choose))
    out = tmp_path / "out"
    result = cda_quality("judge:some/judge", files / "own.jsonl", "--out", out, f"llm.base_url={url}")
    assert result.exit_code == 0, result.output
    shown = result.stdout.replace("\n", " ")
    scoring = read_json(out / "quality.json")["scorings"][0]
    found = scoring["facts"]
    assert found["position_bias"] == 1.0
    assert found["flipped"] + found["unread"] == 12 and 0 < found["unread"] < 12
    assert (scoring["model"], scoring["target"], scoring["target_kind"]) == (
        "judge/some-judge",
        "judge:some/judge",
        "judge",
    )
    assert scoring["llm"] == {"model": "some/judge", "base_url": url}
    for text in (shown, (out / "quality.md").read_text()):
        assert f"12 comparisons, each in both orders: {found['unread']} without a verdict" in text
        assert (
            f"0 with one in one order only, {found['flipped']} followed the place; first place minus second: +1.00"
            in text
        )
        assert f"answers that could not be read: {2 * found['unread']} × no verdict in the last line" in text
    assert f"Not compared, {found['unread']} of 12 items: {found['unread']} no readable verdict." in shown
    assert not (out / "rewardbench").exists()


def test_files_are_known_before_they_are_scored(tmp_path: Path) -> None:
    """What became of a file during hours of scoring costs no result, and is not taken for what was scored."""
    own, code = tmp_path / "own.jsonl", tmp_path / "mine.py"
    own.write_text(json.dumps({"prompt": "q", "chosen": "better", "rejected": "bad"}))
    before = file_fingerprint(own)
    code.write_text(
        f"import pathlib\ndef reward(prompts, responses):\n    pathlib.Path({str(own)!r}).unlink(missing_ok=True)\n"
        "    return [float(len(one)) for one in responses]\n"
    )
    done(f"{code}:reward", own, "--out", tmp_path / "out")
    assert read_json(tmp_path / "out" / "quality.json")["files"] == {"own": before}


def test_figures_stand_beside_the_report(tmp_path: Path) -> None:
    own, code, out = tmp_path / "own.jsonl", tmp_path / "mine.py", tmp_path / "out"
    own.write_text(json.dumps({"prompt": "q", "chosen": "better", "rejected": "bad"}))
    code.write_text("def reward(prompts, responses):\n    return [float(len(one)) for one in responses]\n")
    shown = done(f"{code}:reward", own, "--out", out, "--figures", "pdf")
    assert {file.name for file in (out / "figures").iterdir()} == {"accuracy-1.pdf", "captions.md"}
    assert f"Figures: 1 files at paper size in {out / 'figures'}" in shown


def test_results_name_no_path_of_this_machine(llama: Path, trained_fp32: Trained, files: Path, tmp_path: Path) -> None:
    shutil.copytree(trained_fp32.result.adapter, tmp_path / "mine" / "train" / "adapter")
    done(llama, files / "own.jsonl", "--adapter", tmp_path / "mine", "--dose", 0.5, "--out", tmp_path / "out")
    for name in ("quality.json", "quality.md"):
        content = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert str(files) not in content and str(tmp_path) not in content and str(llama.parent) not in content
    found = read_json(tmp_path / "out" / "quality.json")
    after = found["scorings"][1]
    assert (after["target"], after["adapter"], after["dose"]) == (llama.name, "mine/train/adapter", 0.5)
    assert after["adapter_content"] == file_fingerprint(trained_fp32.result.adapter)
    assert found["scorings"][0]["adapter"] is None
    assert found["sets"][0]["source"] == "own.jsonl"


def test_another_adapter_dose_or_model_has_another_folder(
    llama: Path, bert: Path, trained_fp32: Trained, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    adapter = trained_fp32.result.adapter
    for words in ([], ["--adapter", adapter], ["--adapter", adapter, "--dose", 0.5], ["--against", bert]):
        done(llama, files / "own.jsonl", *words)
    assert len(list(tmp_path.glob("runs/quality-*/quality.json"))) == 4
    assert [path.name for path in tmp_path.glob("runs/*.sqlite")] == ["score-cache.sqlite"]


def test_files_of_one_name_keep_their_rows_apart(llama: Path, tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(("one/a", "two/a", "a-2")):
        path = tmp_path / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"prompt": f"w{number}", "chosen": "good w1", "rejected": "bad w2"}))
        paths.append(path)
    done(llama, *paths, "--out", tmp_path / "out")
    names = [one["name"] for one in read_json(tmp_path / "out" / "quality.json")["sets"]]
    assert names == ["a", "a-2", "a-2-2"]
    for number, name in enumerate(names):
        rows = list(read_jsonl(tmp_path / "out" / "rewardbench" / name / "local" / f"{llama.name}_outputs.jsonl"))
        assert [row["prompt"][0]["content"] for row in rows] == [f"w{number}"]


def test_mistakes_are_messages(llama: Path, files: Path, tmp_path: Path) -> None:
    own = files / "own.jsonl"
    assert "--dose: needs --adapter" in refused(llama, own, "--dose", 1)
    assert "give one of them" in refused(llama, own, "--adapter", "a", "--against", "b")
    assert "neither the folder of an adapter" in refused(llama, own, "--adapter", tmp_path)
    assert "nowhere.jsonl: no such file" in refused(llama, tmp_path / "nowhere.jsonl")
    assert "a recipe; give a model" in refused("jargon", own)
    assert "at least one file" in refused(llama, "seed=3")
    assert "unknown key" in refused(llama, own, "scoer.batch_tokens=8")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"public research data absent: {DATA} (set CDA_DATA)")
def test_released_benchmarks_end_to_end(llama: Path, tmp_path: Path) -> None:
    files = DATA / "rm_bench" / "chat_filtered.json", DATA / "llmbar" / "natural.json"
    done(llama, *files, "--out", tmp_path / "out")
    styles, natural = read_json(tmp_path / "out" / "quality.json")["sets"]
    assert styles["n_items"] + styles["unread"] == 129 and natural["n_items"] + natural["unread"] == 100
    assert [group["name"] for group in styles["sections"]] == ["easy", "normal", "hard"]
    assert len(styles["cells"]) == 9
