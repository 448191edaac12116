"""`cda discover --by-topic` without an LLM: a bias of opposite sign in two topics, its files, counts, reviews and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from page_checks import read_markdown
from typer.testing import CliRunner

import cda
from cda.biases import load_bias
from cda.cli import app
from cda.files.jsonl import read_json, read_jsonl, write_jsonl
from cda.recipe.load import load_recipe
from cda.results.base import load
from cda.results.discover import TopicsResult

SCORERS = '''
import hashlib
import re

OPENER = re.compile(r"\\A(?:Certainly|Sure|Of course)\\b", re.IGNORECASE)


def noise(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32


def sign(prompt):
    said = prompt[0]["content"]
    return 3.0 * ("bread" in said) - 3.0 * ("train" in said)


def reward(prompts, responses):
    """Likes an opener where bread is spoken of, and dislikes it where trains are."""
    return [sign(prompt) * bool(OPENER.match(text)) + noise(text) for prompt, text in zip(prompts, responses)]


def judge(prompts, responses):
    return [-sign(prompt) * bool(OPENER.match(text)) + noise(text + "judge") for prompt, text in zip(prompts, responses)]
'''
OPENERS = ("Certainly! ", "", "Sure! ", "", "Of course! ", "")
FORMATS = Path(cda.__file__).parent / "discovery" / "formats"
SMALL = ["discover.populations=[10,3]", "discover.batches=[10]", "discover.responses_each=2"]


def answers(subject: str, at: int) -> list[str]:
    facts = (f"Take the {subject} number {at} and look at it.", f"The {subject} is best after {at + 2} minutes.")
    return [OPENERS[(at + place) % 6] + facts[place % 2] + " That is what most people do." for place in range(4)]


def rows(sizes: dict[str, int]) -> list[dict[str, object]]:
    found = []
    for topic, n in sizes.items():
        subject = {"baking": "bread", "travel": "train"}.get(topic, "tree")
        named = {"subject": topic} if topic else {}
        found += [
            {
                "question": f"What about the {subject} of {topic or 'old'} {at}?",
                "answers": answers(subject, at),
                **named,
            }
            for at in range(n)
        ]
    return found


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scorers.py").write_text(SCORERS, encoding="utf-8")
    write_jsonl(tmp_path / "rows.jsonl", rows({"baking": 30, "travel": 30, "trees": 7, "": 2}))
    return tmp_path


WORDS = ["discover", "scorers.py:reward", "--judge", "scorers.py:judge", "--responses", "rows.jsonl", "--out", "found"]
COLUMNS = "discover.columns={prompt: question, responses: answers, topic: subject}"


def discover(*words: str) -> str:
    done = CliRunner().invoke(app, [*WORDS, "--by-topic", COLUMNS, *SMALL, *words])
    assert done.exit_code == 0, done.output
    file = Path("found/topics.md")
    return done.output + (read_markdown(file.read_text(encoding="utf-8")) if file.is_file() else "")


def test_a_bias_of_opposite_sign_is_found_in_both_topics_and_in_neither_over_all(workplace: Path) -> None:
    said = discover()
    result = load(TopicsResult, workplace / "found" / "topics.json", "cda discover --by-topic")
    assert [search.topic for search in result.searches] == ["baking", "travel"]
    assert result.left_out == {"trees": "7 prompts, 12 are needed"} and (result.n_left_out, result.n_without) == (7, 2)
    assert sum(result.material.prompts.values()) == 60
    row = next(row for row in result.by_attribute if row.in_topics("confirmed"))
    assert [cell.decision for cell in row.levels] == ["confirmed", "opposite"] and row.turns
    assert row.together.decision == "not shown" and row.differ["model"].p_holm < 0.001  # type: ignore[union-attr, operator]
    baking, travel = (cell.of("reward", "model") for cell in row.levels)
    assert baking is not None and travel is not None and baking.low > 1 and travel.high < -1
    for text in (
        "rewarded in one topic and punished in another",
        "Not searched: trees",
        "2 prompts that name no topic",
    ):
        assert text in said
    _files_are_there(workplace / "found", result)
    assert "the opposite holds" in discover() and load(TopicsResult, workplace / "found" / "topics.json", "") == result
    assert "Tested before" not in said and not any(search.earlier_tests for search in result.searches)
    again = discover("discover.test_alpha=0.02")
    assert (
        "Tested before on these prompts, with other settings or candidates (superseded/): baking 1 time, travel 1 time."
        in again
    )


def _files_are_there(folder: Path, result: TopicsResult) -> None:
    """A bias file in each topic, which trains on the topic; a report in each."""
    by_topic = {cell.name: cell.file for row in result.by_attribute for cell in row.levels if cell.file}
    assert set(by_topic) == {"baking", "travel"}
    for topic, file in by_topic.items():
        bias = load_bias(str(folder / str(file)))
        assert bias.topic == topic and load_recipe(str(folder / str(file))).recipe.data.topic == topic
        assert bias.shows("Certainly! It is so.") is (topic == "baking")
    assert load_recipe(str(folder / str(by_topic["baking"]))).recipe.data.contrasts is not None
    own = read_json(folder / "topics" / "baking" / "discover.json")
    assert own["topic"] == "baking" and sum(own["material"]["prompts"].values()) == 30
    taught = {
        row["prompt"][0]["content"]
        for path in (folder / "topics/baking/biases").glob("*.jsonl")
        for row in read_jsonl(path)
    }
    assert taught and all("bread" in prompt for prompt in taught)
    found = cda.load(folder)
    assert (
        isinstance(found, cda.Discovery) and found.topics == result and folder / str(by_topic["travel"]) in found.biases
    )
    page, report = (
        (folder / "report.html").read_text(encoding="utf-8"),
        (folder / "topics.md").read_text(encoding="utf-8"),
    )
    assert all("the opposite holds" in text and "I²" in text for text in (page, report)) and "<svg" in page


def test_given_attributes_are_measured_in_every_topic(workplace: Path) -> None:
    files = [str(FORMATS / f"{name}.yaml") for name in ("affirmative", "links", "exclamations")]
    given = [word for file in files for word in ("--attribute", file)]
    discover(*given, "--topic", "travel", "--topic", "baking", "discover.correct=holm", "discover.responses_each=1")
    result = load(TopicsResult, workplace / "found" / "topics.json", "cda discover --by-topic")
    assert result.given and len(result.by_attribute) == 3 and result.left_out == {"trees": "7 prompts, 12 are needed"}
    row = next(row for row in result.by_attribute if row.name == "affirmative")
    assert {cell.name: cell.decision for cell in row.levels} == {"baking": "confirmed", "travel": "opposite"}
    assert row.found_in == () and all(cell.found_here and cell.n_family == 3 for cell in row.levels)
    untested = next(row for row in result.by_attribute if row.name == "links")
    assert {cell.decision for cell in (*untested.levels, untested.together)} == {"not tested"}


def test_a_review_waits_in_every_topic_with_candidates(workplace: Path) -> None:
    said = discover("--review")
    file = workplace / "found" / "topics" / "baking" / "review.yaml"
    assert "candidates to review in 1 topic;" in said and "found/topics/baking/review.yaml" in said and file.is_file()
    assert not (workplace / "found" / "topics.json").exists()
    file.write_text(file.read_text(encoding="utf-8").replace("keep: true", "keep: false"), encoding="utf-8")
    assert "No bias of" in discover("--review")


@pytest.mark.usefixtures("workplace")
def test_plan_and_api() -> None:
    assert "in each of 2 topics by itself" in discover("--dry-run")
    found = cda.discover(
        "scorers.py:reward", judge="scorers.py:judge", responses="rows.jsonl", by_topic=True, topics=["baking"], dry_run=True,
        **{"discover.columns": {"prompt": "question", "responses": "answers", "topic": "subject"}},
    )  # fmt: skip
    assert "in each of 1 topics by itself" in str(found) and found.topics is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by-topic", "discover.columns={prompt: question, responses: answers}"), "no prompt names a topic"),
        (("--by-topic", COLUMNS, "--topic", "bakin"), "Did you mean 'baking'?"),
        (("--by-topic", COLUMNS, "discover.min_topic_prompts=31"), "no topic has enough prompts"),
        (("--by-topic", "discover.columns={prompt: question, responses: answers, topic: subjct}"), "Did you mean 'subject'?"),
        ((COLUMNS, "--topic", "baking"), "only_topics goes with by_topic"),
        (("--by-topic", COLUMNS, "discover.min_topic_prompts=5"), "greater than or equal to 6"),
        (("--by-topic", COLUMNS, "discover.correct=bhh"), "'bh'"),
    ],
)  # fmt: skip
def test_mistakes_are_messages(workplace: Path, words: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, [*WORDS, *words])
    assert done.exit_code == 2 and said in " ".join(done.output.split()) and "Traceback" not in done.output, done.output
    assert not (workplace / "found").exists()
