"""`cda merge` on runs and adapters: what it writes scores as it should, its card says what it is, mistakes are messages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from changed import with_measured
from hub_server import fake_hub
from made_audits import make_audit
from made_dose import held_out, made_dose
from tiny import load, scores_of
from typer.testing import CliRunner, Result

from cda.arrays import FloatArray
from cda.auditing import shares
from cda.cli import app
from cda.files.reads import contents
from cda.models.config import ModelSpec
from cda.records import user_prompt
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Measure, Number, PerScoring, Test, save
from cda.results.facts import RewardModelFacts
from cda.results.skew import Plain
from cda.results.stages import TrainingStages
from cda.scorers.classifier import ClassifierScorer
from cda.training.dose import DosedModel, compose_adapters, read_head

if TYPE_CHECKING:
    from conftest import ModelMaker, Texts, Trained

LENGTH = 64


def dosed(base: Path, adapter: Path, dose: float, texts: Texts) -> FloatArray:
    model = DosedModel(load(base, adapter))
    model.set(dose)
    return scores_of(model.reward_model, texts)


def cda_merge(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["merge", *map(str, arguments)])


def made(*arguments: object) -> str:
    result = cda_merge(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: object) -> str:
    result = cda_merge(*arguments)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    assert "Traceback" not in result.output and result.output.startswith("error: ")
    return result.output


def share(value: float) -> Estimate:
    return Estimate(
        value=value, low=value - 0.1, high=value + 0.1, n=40, n_prompts=20, unit="share", method="Wilson 95%"
    )


def change(before: float, after: float) -> Measure:
    return Measure(
        before=share(before), after=share(after), change=share(after - before), unpaired=share(after - before),
        test=Test(p_value=0.01, method="exact McNemar", p_holm=0.02, p_bh=0.02), ties=PerScoring[int](before=0, after=0),
    )  # fmt: skip


def small_audit(model: Path) -> AuditResult:
    """A run's audit, as far as a card reads it."""
    whole: AuditResult = make_audit(others=())
    facts = RewardModelFacts(name=str(model), kind="reward model", precision="fp32", form="chat template",
                             max_length_tokens=LENGTH, texts=80, truncated=0)  # fmt: skip
    sources = {"pairs": "/home/me/pairs.jsonl", "contrasts": "contrasts.jsonl", "quality": "quality.jsonl"}
    skew = whole.skew["jargon"].model_copy(update=dict(change(0.8, 0.5)))
    return with_measured(whole, "accuracy", {"": change(0.75, 0.74)}).model_copy(update={
        "model": facts, "sources": whole.sources.model_copy(update=sources), "skew": {"jargon": skew}, "rate": {},
        "stages": TrainingStages(),
    })  # fmt: skip


@pytest.fixture(scope="module")
def run(llama: Path, trained_fp32: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, as far as merging reads it."""
    folder = tmp_path_factory.mktemp("runs") / "my-run"
    shutil.copytree(trained_fp32.result.adapter, folder / "train" / "adapter")
    model = {"name_or_path": str(llama), "precision": "8bit", "max_length_tokens": LENGTH}
    train = {"learning_rate": 0.005, "hub_token": "hf_secret"}
    settings = {"model": model, "lora": {"r": 8}, "train": train, "seed": 0, "processes": 1}
    (folder / "train" / "stage.json").write_text(json.dumps({"stage": "train", "settings": settings, "output": "t1"}))
    (folder / "adapter").mkdir()
    settled = {"stage": "adapter", "settings": {"dose": 1.0}, "inputs": {"train": "t1"}, "output": "x1"}
    (folder / "adapter" / "stage.json").write_text(json.dumps(settled))
    (folder / "audit").mkdir()
    save(small_audit(llama), folder / "audit" / "audit.json")
    audited = {"stage": "audit", "inputs": {"train": "t1"}, "output": "a1"}
    (folder / "audit" / "stage.json").write_text(json.dumps(audited))
    return folder


@pytest.fixture(scope="module")
def adapter(trained_fp32: Trained) -> Path:
    return trained_fp32.result.adapter


@pytest.fixture(scope="module")
def merged(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run, merged."""
    folder = tmp_path_factory.mktemp("out") / "merged"
    output = made(run, "--out", folder)
    assert f"{folder}: merged model in fp32" in output and "train/adapter: dose 1" in output
    return folder


def test_a_log_has_no_bar_of_a_library(run: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        words = [sys.executable, "-m", "cda", "merge", run, "--out", tmp_path / "merged"]
        assert subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, check=False).returncode == 0
    said = log.read_text(encoding="utf-8")
    assert (
        said.splitlines()[-1] == f"Next: measure the merged model: cda audit {tmp_path / 'merged'}"
        or "\n    cda audit" in said
    )
    assert not re.search(r"\r|shards|Loading weights|Map:|it/s|\d%\|", said), said


def test_a_run_is_merged_with_its_audit_in_the_card(
    merged: Path, run: Path, llama: Path, adapter: Path, texts: Texts
) -> None:
    np.testing.assert_allclose(scores_of(load(merged), texts), scores_of(load(llama, adapter), texts), atol=1e-5)
    card = (merged / "README.md").read_text()
    for part in ("| 40 (20 prompts) |", "learning\\_rate: 0.005", "Trained on: pairs.jsonl"):
        assert part in card, part
    for private in (llama.parent, run.parent, "/home/me", "hf_secret"):
        assert str(private) not in card


def test_the_program_of_the_card_scores_as_cda_does(
    merged: Path, run: Path, adapter: Path, llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(run, "--out", tmp_path / "adapter", "--adapter-only")
    question, answer = "How do I boil an egg?", "Eight minutes in boiling water."
    wanted = ClassifierScorer(load(llama, adapter), 1).score([user_prompt(question)], [answer])[0]
    for folder in (merged, tmp_path / "adapter"):
        program = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)[0]
        program = program.replace("FOLDER-OF-THE-BASE", str(llama)).replace('"FOLDER"', repr(str(folder)))
        capsys.readouterr()
        exec(compile(program, "card", "exec"), {})
        assert abs(float(capsys.readouterr().out) - wanted) < 1e-5, folder


def test_an_audit_of_another_version_is_left_out_aloud(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    (copy / "audit" / "audit.json").write_text("[]")
    output = made(copy, "--out", tmp_path / "out", "--adapter-only")
    assert f"{copy / 'audit' / 'audit.json'}: no Audit as this version of cda writes it" in output
    assert "It has not been audited" in (tmp_path / "out" / "README.md").read_text()


def test_runs_and_adapters_are_added(run: Path, llama: Path, adapter: Path, texts: Texts, tmp_path: Path) -> None:
    """An adapter at doses 0.5 and 1.2 is that adapter at dose 1.7."""
    output = made(run, adapter, "--dose", 0.5, "--dose", 1.2, "--out", tmp_path / "both", "--adapter-only")
    assert "dose 0.5" in output and "dose 1.2" in output
    made(run, adapter, "--dose", 0.5, "--dose", 1.2, "--out", tmp_path / "merged")
    wanted = dosed(llama, adapter, 1.7, texts)
    np.testing.assert_allclose(scores_of(load(llama, tmp_path / "both"), texts), wanted, atol=1e-4)
    np.testing.assert_allclose(scores_of(load(tmp_path / "merged"), texts), wanted, atol=1e-4)
    assert "Their sum has not been audited." in (tmp_path / "both" / "README.md").read_text()


def with_dose(run: Path, llama: Path, adapter: Path, copy: Path) -> Path:
    """A copy of the run in which a dose of 0.5 was chosen."""
    shutil.copytree(run, copy)
    compose_adapters([(adapter, 0.5)], read_head(ModelSpec(str(llama))), copy / "adapter")
    settled = {"stage": "adapter", "settings": {"dose": 0.5}, "inputs": {"train": "t1", "dose": "d1"}, "output": "x1"}
    (copy / "adapter" / "stage.json").write_text(json.dumps(settled))
    record = {"stage": "dose", "counts": {"chosen": 0.5}, "inputs": {"train": "t1"}, "output": "d1"}
    (copy / "dose").mkdir()
    (copy / "dose" / "stage.json").write_text(json.dumps(record))
    dose = made_dose({"jargon": held_out(0.8, 0.5, 0.1, None)}, 0.5)
    save(dose, copy / "dose" / "dose.json")
    audit = small_audit(llama)
    found = [Number.of("skew", "after", {"bias": name}, share(0.3)) for name in audit.skew]
    plain = Plain(numbers=(*found, Number.of("accuracy", "after", {}, share(0.7))))
    audit = shares.held_out(audit.model_copy(update={"dose_applied": 0.5, "plain": plain}), dose)
    save(audit, copy / "audit" / "audit.json")
    return copy


def test_a_chosen_dose_goes_before_the_trained_one_unless_another_is_asked_for(
    run: Path, llama: Path, adapter: Path, texts: Texts, tmp_path: Path
) -> None:
    copy = with_dose(run, llama, adapter, tmp_path / "run")
    output = made(copy, "--out", tmp_path / "chosen")
    assert f"{copy}: dose 0.5, as chosen in that run; --dose 1 for plain CDA" in output
    assert "train/adapter: dose 0.5" in output
    assert "as chosen" not in made(copy, "--out", tmp_path / "asked", "--dose", 1)
    for name, dose in (("chosen", 0.5), ("asked", 1.0)):
        np.testing.assert_allclose(
            scores_of(load(tmp_path / name), texts), dosed(llama, adapter, dose, texts), atol=1e-5
        )
    card = (tmp_path / "chosen" / "README.md").read_text()
    assert "Dose 0.5: the share of the trained update" in card and "The export holds" not in card
    row = next(line for line in card.splitlines() if line.startswith("| jargon skew"))
    assert row.endswith("| 100 | &lt; 0.001 | 30% \\[20, 40\\] |") and "### How the dose was chosen" in card
    asked = (tmp_path / "asked" / "README.md").read_text()
    assert "### How the dose was chosen" not in asked and "The export holds dose 1, the column of plain CDA." in asked


def test_an_audit_and_a_dose_of_an_earlier_training_are_left_out_and_that_is_said(
    run: Path, llama: Path, adapter: Path, tmp_path: Path
) -> None:
    copy = with_dose(run, llama, adapter, tmp_path / "run")
    train = json.loads((copy / "train" / "stage.json").read_text())
    (copy / "train" / "stage.json").write_text(json.dumps(train | {"output": "t2"}))
    output = made(copy, "--out", tmp_path / "merged")
    assert f"{copy / 'audit' / 'audit.json'}: of an earlier training" in output
    assert f"{copy}: its run settled no dose since the training, so dose 1 is taken" in output
    assert "It has not been audited" in (tmp_path / "merged" / "README.md").read_text()


def test_an_adapter_that_was_cut_since_its_training_is_refused(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    train = tmp_path / "run" / "train"
    record = json.loads((train / "stage.json").read_text())
    (train / "stage.json").write_text(json.dumps(record | {"contents": contents(train, leave_out=("stage.json",))}))
    weights = train / "adapter" / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    said = refused(tmp_path / "run", "--out", tmp_path / "out")
    assert "adapter/adapter_model.safetensors: cut, changed or gone" in said and "writes it again" in said


def test_mistakes_are_said_before_any_work(run: Path, bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "neither the folder of a run with a finished training" in refused(tmp_path / "nowhere", "--out", out)
    assert "--dose: 2 for 1 adapters" in refused(run, "--dose", 1, "--dose", 2, "--out", out)
    assert "dose -1.0: must be a number from 0" in refused(run, "--out", out, "--dose=-1")
    assert "merging into 8-bit weights" in refused(run, "--precision", "8bit", "--out", out)
    assert "precision fp8: a merged model is saved in fp32 or bf16" in refused(run, "--precision", "fp8", "--out", out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    assert "is not empty" in refused(run, "--out", tmp_path / "full")
    assert "is a file" in refused(run, "--out", tmp_path / "full" / "a")
    assert (tmp_path / "full" / "a").read_text() == "mine"
    assert "holds no weights for the score head 'classifier'" in refused(run, "--base", bert, "--out", out)
    assert "no such folder" in refused(run, "--base", tmp_path / "gone", "--out", out)
    assert not out.exists()


def with_config(adapter: Path, folder: Path, **changed: object) -> Path:
    shutil.copytree(adapter, folder)
    config = json.loads((folder / "adapter_config.json").read_text()) | changed
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def test_adapters_of_other_bases_or_kinds(adapter: Path, llama: Path, bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = with_config(adapter, tmp_path / "other", base_model_name_or_path=str(bert))
    assert "the adapters are of different base models" in refused(adapter, other, "--out", out)
    nameless = with_config(adapter, tmp_path / "nameless", base_model_name_or_path=None)
    assert "no base model is named there; give it with --base" in refused(nameless, "--out", out)
    causal = with_config(adapter, tmp_path / "causal", task_type="CAUSAL_LM")
    assert "was made for another kind of model (task_type CAUSAL_LM)" in refused(causal, "--out", out)
    made(adapter, nameless, "--base", llama, "--out", out, "--adapter-only")


def test_a_push_that_fails_leaves_the_result(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_test")  # and no network: the tests run offline
    text = refused(run, "--adapter-only", "--push", "my-org/name", "--out", tmp_path / "out")
    assert "which only this machine has. Push the merged model" in text and not (tmp_path / "out").exists()
    text = cda_merge(run, "--push", "my-org/name", "--out", tmp_path / "out")
    assert text.exit_code == 2 and "my-org/name: the hub cannot be reached" in text.output
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_merged_folder_holds_plain_weights_and_no_path_of_this_machine(merged: Path, llama: Path) -> None:
    from safetensors import safe_open

    with safe_open(merged / "model.safetensors", framework="pt") as opened:
        kinds = {opened.get_slice(name).get_dtype() for name in opened.keys()}  # noqa: SIM118
        names = list(opened.keys())
    assert kinds == {"F32"} and not [name for name in names if "lora" in name or "SCB" in name or "base_layer" in name]
    config = json.loads((merged / "config.json").read_text())
    assert "quantization_config" not in config and config["architectures"] == ["LlamaForSequenceClassification"]
    for file in [*merged.glob("*.json"), *merged.glob("*.jinja")]:
        text = file.read_text()
        assert str(llama.parent) not in text and str(merged.parent) not in text, file.name
    assert not list(merged.parent.glob(".*"))


def test_broken_adapters_are_refused(llama: Path, adapter: Path, llama_maker: ModelMaker, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    def edited(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
        folder = with_config(adapter, tmp_path / name)
        weights = change(load_file(adapter / "adapter_model.safetensors"))
        save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
        return folder

    no_head = edited("no-head", lambda every: {name: part for name, part in every.items() if "score" not in name})
    broken = edited("nan", lambda every: {name: part / 0 for name, part in every.items()})
    shallow = llama_maker("one-layer", config={"num_hidden_layers": 1})
    out = tmp_path / "out"
    assert "no-head: holds no weights for the score head 'score'" in refused(no_head, "--out", out)
    assert "4 of its tensors are without a counterpart" in refused(adapter, "--base", shallow, "--out", out)
    assert "weights are NaN; the adapter is broken" in refused(broken, "--base", llama, "--out", out)
    assert not out.exists()


def test_an_adapter_and_its_card_are_pushed(
    run: Path, llama: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The card, as the hub's own types read it: the base, and the audit's numbers after the training."""
    from huggingface_hub import ModelCard

    out = tmp_path / "adapter"
    with fake_hub(monkeypatch, tmp_path / "cache", {"my-org/base": llama}) as hub:
        printed = made(run, "--base", "my-org/base", "--adapter-only", "--out", out, "--push", "my-org/name")
    assert f"pushed to my-org/name: {hub.address}/my-org/name/commit/1a" in printed
    assert hub.visibility == {"my-org/name": "private"}
    ((name, branch, _, files),) = hub.commits
    assert (name, branch) == ("my-org/name", "main")
    assert files == {file.name: file.read_bytes() for file in out.iterdir()}
    card = ModelCard(files["README.md"].decode())
    assert (card.data.base_model, card.data.base_model_relation) == ("my-org/base", "adapter")
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == "my-org/base"
    found = {(own.metric_type, own.dataset_name): (own.metric_value, own.metric_name) for own in card.data.eval_results}
    assert found == {
        ("skew", "cda-embedded"): (0.5, "skew of jargon (95% interval 0.40 to 0.60, n = 40)"),
        ("probability", "cda-embedded"): (0.4424, "mean probability of jargon (95% interval 0.35 to 0.54, n = 100)"),
        ("quality_accuracy", "quality.jsonl"): (0.74, "quality accuracy (95% interval 0.64 to 0.84, n = 40)"),
    }
    for name, content in files.items():
        assert not any(str(place).encode() in content for place in (tmp_path, llama.parent, run.parent, "/home/me")), (
            name
        )
