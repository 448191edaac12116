"""Topics of prompts: which are searched, their split, their columns; decisions of the table over topics; opposite biases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cda.biases import load_bias
from cda.data.load import prompt_of
from cda.discovery.attribute import attribute_bias, bias_yaml, opposite_bias, shipped_attributes
from cda.discovery.by_topic import HeldOutTests, TopicTests, by_attribute, turned_around
from cda.discovery.held_out import confirm
from cda.discovery.material import choose_topics, named_topics, split_by_topic, topic_material
from cda.discovery.setup import topic_folder
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import BROAD, authored_pairs, authored_responses, broad_topic
from cda.errors import DataError
from cda.files.jsonl import write_jsonl
from cda.recipe.load import Opened
from cda.recipe.schema import DataSection
from cda.recipe.sections import DiscoverSection
from cda.records import RewriteRequest, prompt_id, user_prompt
from cda.resources.sources import training_pairs
from cda.results.base import Missing
from cda.results.discover import CandidateRecord, Measured
from cda.results.effects import Heterogeneity
from cda.results.evidence import ConfirmSettings

SECTION = DiscoverSection(by_topic=True, min_topic_prompts=8)


def test_topics_with_enough_prompts_are_searched_and_the_others_named() -> None:
    chosen = choose_topics({"tea": 9, "rain": 7, "law": 8}, SECTION, "rows")
    assert chosen.topics == ("tea", "law") and chosen.left_out == {"rain": "7 prompts, 8 are needed"}
    only = choose_topics({"tea": 9, "law": 8}, SECTION.model_copy(update={"only_topics": ["law"]}), "rows")
    assert only.topics == ("law",) and only.left_out == {"tea": "not among discover.only_topics"}


def test_each_topic_is_split_by_itself_and_everything_counted() -> None:
    prompts = [user_prompt(f"{topic} {at}") for topic, n in (("tea", 20), ("rain", 10), ("x", 3)) for at in range(n)]
    topic_of = {prompt_id(prompt): prompt[0].content.split()[0] for prompt in prompts if prompt[0].content != "x 2"}
    split = split_by_topic(prompts, topic_of, ["tea", "rain"], SECTION, 42)
    counts = topic_material(split, topic_of, ["tea", "rain"], {"x": "2 prompts"}, prompts)
    assert counts.prompts == {
        "tea": {"train": 8, "validation": 5, "test": 7}, "rain": {"train": 4, "validation": 3, "test": 3},
    }  # fmt: skip
    assert (counts.n_left_out, counts.n_without) == (2, 1)
    again = split_by_topic(prompts[::-1], topic_of, ["tea", "rain"], SECTION, 42)
    assert again == split


def test_topics_are_read_from_a_column(tmp_path: Path) -> None:
    rows = [
        {"q": "One?", "subject": " tea "}, {"q": "One?", "subject": "tea"}, {"q": "Two?", "subject": ""},
        {"q": "Three?", "subject": "tea"}, {"q": "Three?", "subject": "rain"}, {"q": None, "subject": "tea"}, {"q": "Four?", "subject": 7},
    ]  # fmt: skip
    write_jsonl(tmp_path / "rows.jsonl", rows)
    file = str(tmp_path / "rows.jsonl")
    found = named_topics(file, {"prompt": "q", "topic": "subject"}, "train", prompt_of)
    assert found == {prompt_id(user_prompt("One?")): "tea", prompt_id(user_prompt("Four?")): "7"}
    assert named_topics(file, {"prompt": "q"}, "train", prompt_of) == {}
    with pytest.raises(DataError, match=r"no column 'subjct'. Did you mean 'subject'\?.*discover.columns.topic"):
        named_topics(file, {"prompt": "q", "topic": "subjct"}, "train", prompt_of)


def test_folders_of_topics_are_plain_and_distinct() -> None:
    names = ["Tea", "tea", "te a", "../tea", "Ü", "x" * 90, "x" * 91]
    folders = [topic_folder(name) for name in names]
    assert folders[1] == "tea" and len({folder.lower() for folder in folders}) == len(names)
    assert all(len(folder) < 60 and "/" not in folder and not folder.startswith(".") for folder in folders)


def test_every_embedded_domain_has_a_broad_topic() -> None:
    domains = {row.domain for row in authored_responses()} | {row.domain for row in authored_pairs("train")}
    assert {broad_topic(domain) for domain in domains} == set(BROAD) and domains == {
        one for own in BROAD.values() for one in own
    }
    assert broad_topic("houseplants") == "houseplants"


CANDIDATES = {
    name: CandidateRecord.of(attribute_bias(text)) for name, text in (("a", "Uses lists"), ("b", "Ends with a joke"))
}


def measured(candidate: str, topic: str, effect: float, rng: np.random.Generator, n: int = 16) -> list[Measured]:
    """Rewrites by two rewriters with this effect on the reward and the opposite one on the judge."""
    return [
        Measured(candidate, rewriter, "add", user_prompt(f"{topic} {at}"), "o", f"r {rewriter}", effect + rng.normal(0, 0.5),
                 float(np.clip(0.5 - effect / 4 + rng.normal(0, 0.1), 0, 1)))
        for rewriter in ("ada", "bob") for at in range(n)
    ]  # fmt: skip


def made_tests(rows: dict[str, list[Measured]]) -> HeldOutTests:
    return HeldOutTests({one.candidate: one for one in confirm(rows)}, rows, {name: {} for name in rows})


def test_decisions_in_each_topic_over_all_of_them_and_their_corrections() -> None:
    rng = np.random.default_rng(1)
    a, b = (candidate.id for candidate in CANDIDATES.values())
    chosen = {candidate.id: candidate for candidate in CANDIDATES.values()}
    tests = {
        "tea": TopicTests(
            made_tests({a: measured(a, "tea", 1.5, rng), b: measured(b, "tea", 1.2, rng)}), HeldOutTests({}, {}, {})
        ),
        "rain": TopicTests(
            made_tests({}), made_tests({a: measured(a, "rain", -1.5, rng), b: measured(b, "rain", 1.2, rng)})
        ),
        "law": TopicTests(
            made_tests({}), made_tests({a: measured(a, "law", 0.0, rng), b: measured(b, "law", 1.2, rng, 1)})
        ),
    }
    settings = ConfirmSettings()
    by_id = {row.candidate: row for row in by_attribute(chosen, tests, settings)}
    first, second = by_id[a], by_id[b]
    assert [cell.decision for cell in first.levels] == ["confirmed", "opposite", "not shown"]
    assert [cell.decision for cell in second.levels] == ["confirmed", "shared", "not tested"]
    assert first.found_in == second.found_in == ("tea",) and first.turns and not second.turns
    assert (first.together.decision, second.together.decision) == ("not shown", "confirmed")
    apart, alike = first.differ["model"], second.differ["model"]
    assert isinstance(apart, Heterogeneity) and isinstance(alike, Heterogeneity)
    assert apart.i_squared > 0.9 and apart.p_holm == pytest.approx(min(1, 2 * apart.p_value))
    assert alike.p_holm == alike.p_value > 0.05
    # Carried over to rain: two attributes in two directions; found in tea: two tests, over all topics no more.
    assert first.levels[1].n_family == 4 and first.levels[0].n_family == 2
    turned = confirm(
        {a: [turned_around(row) for row in tests["rain"].carried.rows[a]]},
        settings.model_copy(update={"correct": "none"}),
    )
    assert first.levels[1].p_opposite == pytest.approx(4 * (turned[0].p_value or 1))
    assert second.levels[1].p_corrected == pytest.approx(min(1, 4 * second.levels[1].test.p_value))
    assert first.levels[0].p_over_all == first.levels[0].p_corrected and first.levels[1].p_over_all is None
    missing = second.levels[2]
    assert (
        isinstance(missing.found["reward"]["model"], Missing)
        and missing.p_corrected is None
        and missing.p_opposite is None
    )
    holm = {row.candidate: row for row in by_attribute(chosen, tests, ConfirmSettings(correct="holm"))}
    assert (holm[a].levels[1].p_opposite or 1) <= (first.levels[1].p_opposite or 0)
    assert by_attribute({}, tests, settings) == ()


def test_the_opposite_of_a_bias_is_a_bias() -> None:
    bias = next(bias for bias in shipped_attributes("formats") if bias.name == "affirmative")
    opposite = opposite_bias(bias)
    prompt, plain, opened = (
        user_prompt("How?"),
        "Boil the water first. Then wait.",
        "Certainly! Boil the water first. Then wait.",
    )
    assert (bias.shows(plain), opposite.shows(plain), bias.shows(opened), opposite.shows(opened)) == (
        False,
        True,
        True,
        False,
    )
    rules = RuleRewriter()
    (removed,) = rules.rewrite([RewriteRequest(prompt, opened, "add")], opposite)
    (added,) = rules.rewrite([RewriteRequest(prompt, plain, "remove")], opposite)
    assert removed.text == plain and added.text is not None and bias.shows(added.text)
    assert opposite.instructions.add == bias.instructions.remove and len(opposite.name) <= 64
    back = opposite_bias(opposite)
    assert all(back.shows(text) is bias.shows(text) for text in (plain, opened)) and back.offline == bias.offline


def test_a_bias_file_names_its_topic_and_others_stay_as_they_were(tmp_path: Path) -> None:
    bias = opposite_bias(load_bias("jargon")).model_copy(update={"topic": "tea: green"})
    file = tmp_path / "bias.yaml"
    file.write_text(bias_yaml(bias), encoding="utf-8")
    assert load_bias(str(file)) == bias
    file.write_text(bias_yaml(load_bias("jargon")), encoding="utf-8")
    assert load_bias(str(file)) == load_bias("jargon") and load_bias("jargon").opposite
    own = load_bias("jargon").model_dump(mode="json")
    assert "topic" not in own and "reverse" not in own["offline"]


def pairs(folder: Path, topics: list[str | None]) -> str:
    rows = [
        {"prompt": f"Question {at}?", "chosen": "Yes, it is.", "rejected": "No.", **({"topic": topic} if topic else {})}
        for at, topic in enumerate(topics)
    ]
    write_jsonl(folder / "pairs.jsonl", rows)
    return str(folder / "pairs.jsonl")


def test_training_pairs_are_those_of_the_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = pairs(tmp_path, ["tea", "rain", "tea", None])
    found = training_pairs(DataSection(pairs=file, topic="tea"), Opened())
    assert [pair.prompt[0].content for pair in found.pairs] == ["Question 0?", "Question 2?"]
    assert found.exclusions.seen == 4 and found.exclusions.reasons == {"of another topic": 2}
    assert len(training_pairs(DataSection(pairs=file), Opened()).pairs) == 4
    embedded = training_pairs(DataSection(pairs="embedded", topic="people and society"), Opened())
    assert 120 < len(embedded.pairs) < 220 and embedded.exclusions.seen == 336
    with pytest.raises(
        DataError, match=r"no pair of the topic 'tee' \(data.topic\). Did you mean 'tea'\?.*data.topic=null"
    ):
        training_pairs(DataSection(pairs=file, topic="tee"), Opened())
    assert len(training_pairs(DataSection(pairs=pairs(tmp_path, [None, None]), topic="tea"), Opened()).pairs) == 2
    assert "no row names a topic" in capsys.readouterr().out
