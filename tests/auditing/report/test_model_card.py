"""The model card: what it claims, what it admits, and that text from outside stays text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from changed import changed
from huggingface_hub import ModelCard
from page_checks import read_markdown

from cda.auditing.first_screen import headline
from cda.auditing.model_card import ExportedTraining, model_card, save_card

Audit = dict[str, Any]
BASE = "my-org/reward-8b"


def front_matter(card: str) -> dict[str, Any]:
    _, head, _ = card.split("---\n", 2)
    content: dict[str, Any] = yaml.safe_load(head)
    return content


def test_front_matter_of_an_adapter_and_of_a_merged_model(audit: Audit) -> None:
    adapter = front_matter(model_card([ExportedTraining("jargon", 1.0, audit)], BASE, None))
    assert adapter["base_model"] == BASE and adapter["library_name"] == "peft"
    assert adapter["base_model_relation"] == "adapter"
    assert {"reward-model", "debiasing", "lora"} == set(adapter["tags"])
    merged = front_matter(model_card([ExportedTraining("jargon", 1.0, audit)], BASE, "bf16"))
    assert (merged["library_name"], merged["base_model_relation"]) == ("transformers", "finetune")
    assert "license" not in merged


@pytest.mark.parametrize("base", ["/home/somebody/models/my-base", "models/of/my-base/", "embedded"])
def test_a_base_that_is_not_on_the_hub_is_no_metadata_and_no_path(audit: Audit, base: str) -> None:
    for merged in (None, "fp32"):
        card = model_card([ExportedTraining("jargon", 1.0, audit)], base, merged)
        assert "base_model" not in front_matter(card)
        assert "somebody" not in card and "models/of" not in card
        assert ("my-base" if base != "embedded" else "the embedded model of the cda package") in card


def test_another_dose_or_precision_than_the_audited_one_is_admitted(audit: Audit) -> None:
    card = model_card([ExportedTraining("jargon", 1.5, audit)], BASE, "bf16")
    assert "`after` is dose 1. The export holds dose 1.5, which this audit did not measure." in card
    assert (
        "The audit scored a 8bit base with the adapter applied unmerged. The merged bf16 weights differ by rounding"
        in card
    )
    same = model_card([ExportedTraining("jargon", 1.5, audit.model_copy(update={"dose_applied": 1.5}))], BASE, None)
    assert "did not measure" not in same and "differ by rounding" not in same


def test_the_numbers_of_the_metadata_are_those_of_the_exported_dose(audit: Audit, voted: Audit) -> None:
    def measures(*parts: ExportedTraining) -> dict[str, float]:
        found = front_matter(model_card(list(parts), BASE, None)).get("model-index", [])
        results = found[0]["results"] if found else []
        return {metric["name"].split(" (")[0]: metric["value"] for row in results for metric in row["metrics"]}

    own = measures(ExportedTraining("a run", 1.0, voted))
    assert own["skew of jargon"] == round(voted.skew["jargon"].after.value, 4)
    assert own["miscalibration of jargon"] == round(voted.votes["jargon"].miscalibration.after.value, 4)
    assert own["quality accuracy"] == round(voted.quality.after.value, 4) and "human skew of jargon" not in own
    assert (
        front_matter(model_card([ExportedTraining("a run", 1.0, audit)], BASE, None))["model-index"][0]["name"]
        == "a-run"
    )
    part = ExportedTraining("x", 0.5, audit)
    assert (
        measures(part)
        == measures(part, ExportedTraining("y", 1.0, audit))
        == measures(ExportedTraining("z", 1.0))
        == {}
    )


def test_the_program_parses_for_every_form(make_audit: Callable[..., Audit]) -> None:
    audit = make_audit()
    for form, part in (
        ("chat template", "apply_chat_template"),
        ("pair", "tokenizer(prompt, response, truncation=True, max_length=512"),
        ("plain text", "tokenizer.eos_token"),
    ):
        audit = changed(audit, "model.form", form)
        for base in (BASE, "embedded"):
            for merged in (None, "fp32"):
                program = re.findall(
                    r"```python\n(.*?)```", model_card([ExportedTraining("x", 1.0, audit)], base, merged), re.S
                )
                compile(program[0], "card", "exec")
                assert len(program) == 1 and part in program[0]
                assert ("PeftModel" in program[0]) == (merged is None)


def test_text_from_outside_is_inert(hostile: Audit) -> None:
    text = hostile.model.name.removeprefix("embedded")
    part = ExportedTraining(text, 1.0, hostile, settings={text: text})
    for base in (text, f'a/b"\n---\nlicense: mit{text}'):
        for parts in ([part], [part, part]):
            card = model_card(parts, base, None)
            outside = re.sub(r"```python\n.*?```", "", card, flags=re.S)
            assert "<script" not in outside and "<img" not in outside and "\x1b" not in card and "\u202e" not in card
            assert "http://" not in outside and "license" not in front_matter(card)
            assert not re.search(r"(?<!\\)`", outside)
            program = re.findall(r"```python\n(.*?)```", card, re.S)
            assert len(program) == 1
            compile(program[0], "card", "exec")


def test_a_card_opens_with_the_audits_first_screen_as_a_figure_and_in_words(
    audit: Audit, voted: Audit, tmp_path: Path
) -> None:
    parts = [
        ExportedTraining("first", 1.0, audit),
        ExportedTraining("second", 1.0, voted),
        ExportedTraining("third", 1.0),
    ]
    for own, names in ((parts[:1], ["audit.png"]), (parts, ["audit-1.png", "audit-2.png"])):
        folder = tmp_path / str(len(own))
        folder.mkdir()
        save_card(folder, model_card(own, BASE, None), own)
        assert sorted(path.name for path in folder.iterdir()) == sorted(["README.md", *names])
        assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in names)
        card = read_markdown((folder / "README.md").read_text(encoding="utf-8"))
        for part, name in zip((part for part in own if part.audit), names, strict=True):
            said = headline(part.audit)
            (image,) = (line for line in card.splitlines() if line.endswith(f"({name})"))
            assert image.startswith(f"![{said} jargon: before 88% [") and "n = 100" in image
            at = card.index(image)
            assert at < card.index(f"\n{said}\n", at) < card.index("### Limits", at)
    assert "| jargon | improved | 88% [80, 93] | 40% [31, 50] | no votes | 100 |" in card
    assert (
        "- Base: my-org/reward-8b\n- Dose: 1, of the trained update\n- Measured on: contrasts: embedded; quality pairs: embedded"
        in card
    )
    assert (
        "- Votes: none: no people's votes say what is right" in card and "majorities: jargon 100 and length 100" in card
    )


def test_the_hub_reads_the_cards_metadata_as_it_was_meant(voted: Audit) -> None:
    card = ModelCard(model_card([ExportedTraining("a run", 1.0, voted)], BASE, None))
    results = {each.metric_name.split(" (")[0]: each for each in card.data.eval_results or []}
    assert results["skew of jargon"].metric_value == round(voted.skew["jargon"].after.value, 4)
    assert results["skew of jargon"].dataset_name == "cda-embedded" and card.data.model_name == "a-run"
