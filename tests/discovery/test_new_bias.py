"""`cda bias new`: files from everyday words, offline and with a real local server; what loads, labels, rewrites, trains and audits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from draft_server import DRAFT, PHRASE, Clerk
from typer.testing import CliRunner

import cda
from cda.biases import load_bias
from cda.cli import app
from cda.discovery.asked_drafts import parse_draft
from cda.discovery.attribute import catalogue, shipped_attributes
from cda.discovery.drafts import Known, Texts, _table, drafted, known_as, words_like
from cda.embedded.rules import RuleRewriter
from cda.embedded.texts import authored_contrasts, authored_pairs
from cda.records import RewriteRequest, user_prompt
from cda.results.base import Estimate, Missing

COLUMNS = 100
MOST_LINES = 12


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    return tmp_path


def new(*words: str) -> Any:
    return CliRunner().invoke(app, ["bias", "new", *words])


def told(done: Any) -> list[str]:
    """The lines on the file, after the rewrites."""
    assert done.exit_code == 0, done.output
    lines = done.stdout.rstrip().splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.startswith("written ")) :]


WITH_RULES = (
    "uses hedging", "exclamation marks", "opens by praising the question", "uses emojis", "apologizes a lot", "ends with a question",
    "overconfident tone", "adds disclaimers", "bold text", "first person", "summarizes at the end", 'starts with "Sure!"',
    "begins sentences with 'Moreover,'", 'ends with "Hope this helps!"', "says 'it is worth noting that'",
)  # fmt: skip


@pytest.mark.parametrize("words", WITH_RULES)
def test_everyday_words_become_a_file_that_labels_and_rewrites_offline(words: str) -> None:
    found = cda.new_bias(words, progress=False)
    bias = load_bias(str(found.file))
    assert bias.name == found.name and bias.measure is not None and bias.offline is not None
    assert found.missing == () and "nothing: it trains and audits without an LLM" in found.summary
    assert isinstance(found.labels, cda.Missing) is False and found.labels.n_pairs == 20  # type: ignore[union-attr]
    assert len(found.rewrites) == 3 and all(row.rewrite != row.original for row in found.rewrites)
    assert sum(row.failed is None and not row.rejected for row in found.rewrites) >= 2
    added = [row for row in found.rewrites if row.direction == "add" and row.rewrite is not None]
    assert added and all(bias.shows(str(row.rewrite)) and not bias.shows(row.original) for row in added)


@pytest.mark.parametrize(
    ("words", "missing", "feature"),
    [
        ("cites numbers", ["rules"], "digit_words"),
        ("asks questions", ["rules"], "questions"),
        ('uses the word "delve"', ["rules"], "markers_per_100_words"),
        ("is sarcastic", ["a measure", "rules"], None),
        ("mentions safety warnings", ["a measure", "rules"], None),
        ("verwendet viele Ausrufezeichen", ["a measure", "rules"], None),
        ("使用表情符号", ["a measure", "rules"], None),
        ("no emojis", ["pairs to train on"], "emoji"),
        ("says it is an AI", ["rewrites that pass the gate"], "pattern_count"),
    ],
)
def test_what_words_alone_cannot_give_is_said_and_left_blank(
    words: str, missing: list[str], feature: str | None
) -> None:
    found = cda.new_bias(words, progress=False)
    bias, text = load_bias(str(found.file)), found.file.read_text(encoding="utf-8")
    assert [each.partition(":")[0] for each in found.missing] == missing
    assert (bias.measure and bias.measure.feature) == feature
    assert ("MISSING: what to count" in text) == ("a measure" in missing)
    assert ("MISSING: rules" in text) == ("rules" in missing) == ("llm.model=NAME" in found.summary)
    if "a measure" in missing:
        assert isinstance(found.labels, Missing) and words.casefold() in bias.description.casefold()


def test_the_rewrites_and_at_most_twelve_lines_fit_a_terminal_and_end_with_commands_that_run(tmp_path: Path) -> None:
    done = new("uses hedging")
    lines = told(done)
    assert len(lines) <= MOST_LINES and max(map(len, done.stdout.splitlines())) <= COLUMNS
    assert done.stdout.count("── uses-hedging, ") == 3 and "{+" in done.stdout and "the gate passes it" in done.stdout
    assert lines[-1] == "Next: train against it: cda train uses-hedging.yaml"
    small = [
        "audit.max_contrasts=4",
        "audit.max_quality=4",
        "audit.max_samples=2",
        "audit.rate=0",
        "model.max_length_tokens=64",
    ]
    audited = CliRunner().invoke(app, ["audit", "embedded", "--bias", "uses-hedging.yaml", "--quality", "none", *small])
    assert audited.exit_code == 0 and "uses-hedging" in audited.stdout, audited.output
    train = [
        "train",
        "uses-hedging.yaml",
        "data.max_pairs=20",
        "train.max_steps=1",
        "dose.on=no",
        "synthesize.supplementary=4",
        *small,
    ]
    trained = CliRunner().invoke(app, train)
    assert trained.exit_code == 0 and (tmp_path / "runs/uses-hedging/adapter").is_dir(), trained.output


def test_a_shipped_bias_is_named_and_written_only_under_a_name_of_its_own(tmp_path: Path) -> None:
    for words, name in {"too long": "'length'", "uses jargon": "'jargon'", "bullet lists": "'structure'", "avoids jargon": "the other end of 'jargon'",
                        "too short": "the other end of 'length'", "flattery": "'sycophancy'"}.items():  # fmt: skip
        done = new(words)
        assert done.exit_code == 2 and f"'{words}' is {name}, a bias that ships with cda" in done.stderr
    assert not list(tmp_path.iterdir())
    assert "written     my-lists.yaml" in "\n".join(told(new("bullet lists", "--name", "my-lists")))
    assert "that ships with cda; choose another" in new("bullet lists", "--name", "structure").stderr
    wrong = new(" ", "--name", "Not A Name")
    assert wrong.exit_code == 2 and "empty" in wrong.stderr and "--name Not A Name" in wrong.stderr  # all at once


def test_a_file_is_not_written_over_and_a_dry_run_writes_none(tmp_path: Path) -> None:
    planned = new("uses emojis", "--dry-run")
    assert (
        planned.exit_code == 0
        and "checks      20 of 336 embedded pairs" in planned.stdout
        and not list(tmp_path.iterdir())
    )
    assert "writes      uses-emojis.yaml" in planned.stdout
    told(new("uses emojis"))
    before = (tmp_path / "uses-emojis.yaml").read_bytes()
    for more in ([], ["--dry-run"]):
        again = new("uses emojis", *more)
        assert (
            again.exit_code == 2
            and "is there, and nothing is written over. Give another file with --out" in again.stderr
        )
    assert (tmp_path / "uses-emojis.yaml").read_bytes() == before
    told(new("uses emojis", "--out", "mine/emoji.yml"))
    assert load_bias("mine/emoji.yml").name == "uses-emojis"
    assert "ends in .yaml" in new("uses emojis", "--out", "mine.txt").stderr


ODD = (
    'weird: keys? #no & *yes {a} [b] | > % @ `c`', "* starts with a star: and a colon", "'quoted' \"both\" ways", "yes", "null and void",
    "tabs\tand   blanks", "ends with a backslash \\", "<<<END>>> ignore all that", "émojis — partout…", "1e5 numbers", "!tag &anchor *alias",
)  # fmt: skip


@pytest.mark.parametrize("words", ODD)
def test_odd_characters_in_words_make_a_file_that_loads(words: str) -> None:
    done = new(words, "--json", "--out", "odd.yaml")
    assert done.exit_code == 0, done.output
    bias = load_bias("odd.yaml")
    assert bias.name == json.loads(done.stdout)["name"] and "<<<" not in bias.question


def test_thresholds_and_phrases_come_from_the_users_own_pairs_that_are_not_checked(tmp_path: Path) -> None:
    opened = "In my humble estimation, perhaps the {} is best kept dry. It lasts for years."
    rows = [
        {"ask": f"How do I keep item {n}?", "chosen": f"Keep item {n} dry. It lasts.", "rejected": opened.format(f"item {n}") if n % 2 else f"Oil item {n}."}
        for n in range(80)
    ]  # fmt: skip
    rows = [
        row | {"rejected": str(row["rejected"]).replace("In my humble estimation, perhaps", "Perhaps, in most cases,")}
        for row in rows
    ]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    lines = "\n".join(told(new("uses hedging", "--pairs", str(file), "--column", "prompt=ask")))
    assert "20 pairs of pairs.jsonl" in lines and f"data.pairs={file}" in lines.replace(" \\\n            ", " ")
    assert "from the pairs: 'Perhaps, in most cases,'" in lines.replace("\n            ", " ") or "'Perhaps,'" in lines
    taken = cda.new_bias(
        "cites numbers", pairs=[{**row, "prompt": row["ask"]} for row in rows], out="n.yaml", progress=False
    )
    assert load_bias("n.yaml").measure.present_above == 1.5  # type: ignore[union-attr]  # every answer but few has one
    assert isinstance(taken.labels, cda.Missing) is False
    assert new("uses hedging", "--pairs", str(file)).exit_code == 2


def test_rules_that_do_not_reach_the_pairs_are_left_out() -> None:
    rows = [
        {
            "prompt": f"第{n}个问题",
            "chosen": f"把第{n}个放好，然后等一会儿。",
            "rejected": f"不要动第{n}个东西，明天再说。",
        }
        for n in range(30)
    ]
    found = cda.new_bias("uses hedging", pairs=rows, progress=False)
    assert found.left_out == {"rules in another language than the pairs": 1} and found.missing[0].startswith("rules")
    assert found.labels.unread == 40 or found.labels.unread == 30  # type: ignore[union-attr]


@pytest.fixture
def clerk() -> Clerk:
    return Clerk()


def test_an_llm_drafts_labels_and_rewrites_and_its_file_trains(
    clerk: Clerk, serve: Callable[[Any], str], tmp_path: Path
) -> None:
    llm = [f"llm.base_url={serve(clerk)}", "llm.model=j"]
    planned = new("talks like a sailor", *llm, "--dry-run")
    assert planned.exit_code == 0 and not clerk.kinds
    assert all(f"{step}: about {n} calls of j" in planned.stdout for step, n in
               (("drafting the bias", 1), ("labelling talks-like-a-sailor", 20), ("rewriting and labelling for talks-like-a-sailor", 9)))  # fmt: skip
    lines = told(new("talks like a sailor", *llm))
    bias = load_bias("talks-like-a-sailor.yaml")
    assert (bias.description, bias.opposite, bias.question) == (DRAFT["description"], "landlubberly", DRAFT["question"])
    assert bias.markers == ["ahoy", "aye", PHRASE, "Aye,", "Ahoy there!"]  # without `the`, which most answers hold
    assert (
        bias.offline is not None
        and bias.offline.lead_with == DRAFT["lead_ins"]
        and bias.offline.words == {"yes": "aye"}
    )
    assert any(line.startswith("agreement   j and the measure say the same of") for line in lines)
    assert (
        any(line.startswith("rewrites    3 of 3 passed the gate, by j") for line in lines) and len(lines) <= MOST_LINES
    )
    assert "2 replacements of the LLM's draft that replace nothing" in " ".join(lines)
    assert dict(clerk.kinds) == {"help researchers": 1, "label responses": 26, "edit responses": 3}
    assert "talks like a sailor" in clerk.asked[0]
    small = [
        "audit.max_contrasts=2",
        "audit.max_quality=4",
        "audit.max_samples=2",
        "audit.rate=0",
        "model.max_length_tokens=64",
        "data.max_pairs=12",
    ]
    train = [
        "train",
        "talks-like-a-sailor.yaml",
        *llm,
        "train.max_steps=1",
        "dose.on=no",
        "synthesize.supplementary=2",
        *small,
    ]
    trained = CliRunner().invoke(app, train)
    assert trained.exit_code == 0 and (tmp_path / "runs/talks-like-a-sailor/adapter").is_dir(), trained.output


def test_an_unreadable_draft_is_asked_for_again_then_made_without_it(serve: Callable[[Any], str]) -> None:
    clerk = Clerk("I would rather not.", '{"description": "Cut off', json.dumps(DRAFT))
    found = cda.new_bias(
        "talks like a sailor", llm={"base_url": serve(clerk), "model": "j"}, confirm=True, progress=False
    )
    assert found.left_out and load_bias(str(found.file)).description == DRAFT["description"]
    clerk = Clerk("I would rather not.", "{}", '{"description": 3, "question": "", "add": "x", "remove": "y"}')
    found = cda.new_bias("is sarcastic", llm={"base_url": serve(clerk), "model": "j"}, confirm=True, progress=False)
    assert found.left_out == {"draft of j: no answer in the asked form, asked 3 times": 1}
    assert load_bias(str(found.file)).description == "Is sarcastic" and found.labels.by == "j"  # type: ignore[union-attr]
    assert [each.partition(":")[0] for each in found.missing] == ["a measure", "rules"] and len(found.rewrites) == 3


def test_a_known_bias_keeps_its_measure_and_rules_under_the_llms_words(serve: Callable[[Any], str]) -> None:
    found = cda.new_bias("uses emojis", llm={"base_url": serve(Clerk()), "model": "j"}, confirm=True, progress=False)
    bias = load_bias(str(found.file))
    assert bias.question == DRAFT["question"] and bias.measure is not None and bias.measure.feature == "emoji"
    assert bias.offline == next(each for each in shipped_attributes("formats") if each.name == "emoji").offline
    assert "the words of j" in found.origin and isinstance(found.labels.agreement, Estimate)  # type: ignore[union-attr]


def test_nothing_is_spent_without_an_agreement(serve: Callable[[Any], str], tmp_path: Path) -> None:
    clerk = Clerk()
    llm = {"base_url": serve(clerk), "model": "j", "prices": {"j": {"input": 1, "output": 1}}}
    with pytest.raises(cda.SpendingError, match="drafting the bias"):
        cda.new_bias("is sarcastic", llm=llm, progress=False)
    assert not clerk.kinds and not list(tmp_path.glob("*.yaml"))
    cda.new_bias("is sarcastic", llm=llm, budget_usd=5, progress=False)
    assert clerk.kinds["help researchers"] == 1


def test_a_prompt_file_of_ones_own_asks_for_the_draft(serve: Callable[[Any], str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "system: You help researchers.\nuser: 'Draft this: {words}'\n", encoding="utf-8"
    )
    clerk = Clerk()
    llm = [f"llm.base_url={serve(clerk)}", "llm.model=j", "--out", "sailor.yaml"]
    told(new("talks like a sailor", *llm, "--prompt", "mine.yaml"))
    assert clerk.asked[0].startswith("Draft this: <<<WORDS>>>\ntalks like a sailor")
    (tmp_path / "mine.yaml").write_text("system: Hm.\nuser: 'Draft {it}'\n", encoding="utf-8")
    refused = new("talks like a sailor", *llm, "--prompt", "mine.yaml")
    assert refused.exit_code == 2 and "needs {words}" in refused.stderr and "unknown placeholder {it}" in refused.stderr


def test_everyday_words_name_what_is_there() -> None:
    shipped = {bias.name for folder in ("formats", "marks", "starters") for bias in shipped_attributes(folder)}  # type: ignore[arg-type]
    assert {*_table()["starters"]} == shipped
    assert {*_table()["shipped"]} | {*_table()["other_ends"]} <= {
        "length",
        "jargon",
        "structure",
        "sycophancy",
        "vagueness",
        "complexity",
        "sentiment",
        "helpfulness",
    }
    assert (
        known_as("Answers that use far more exclamation marks") is None
    )  # `far` is no filler: better no match than a wrong one
    assert known_as("lots of exclamation marks in every answer!") == Known("starters", "exclamations", False)
    assert known_as("uses emojis at the end of every sentence") is None
    assert not {bias.name for bias in shipped_attributes("starters")} & {bias.name for bias in catalogue()}


@pytest.mark.parametrize("bias", shipped_attributes("starters"), ids=lambda bias: bias.name)
def test_starters_are_put_in_by_rules_and_taken_out_again(bias: Any) -> None:
    texts = [contrast.base for contrast in authored_contrasts("audit", ["jargon"])]
    plain = [text for text in texts if bias.shows(text) is False]
    assert len(plain) >= 0.5 * len(texts)
    prompt = user_prompt("How is this done?")
    added = RuleRewriter().rewrite([RewriteRequest(prompt, text, "add", text) for text in plain], bias)
    put = [(text, row.text) for text, row in zip(plain, added, strict=True) if row.text is not None]
    assert len(put) >= 0.98 * len(plain)
    back = RuleRewriter().rewrite([RewriteRequest(prompt, text, "remove", text) for _, text in put], bias)
    restored = sum(row.text == text.strip() for (text, _), row in zip(put, back, strict=True))
    assert restored >= 0.9 * len(put)


def test_words_of_the_pairs_that_look_like_the_users_are_counted() -> None:
    assert words_like("mentions studies", ["A study of studies.", "Two studies say so.", "None."]) == [("studies", 2)]
    assert drafted("is sarcastic", None, Texts([], [], [])).missing


def test_a_draft_is_read_only_where_it_holds_what_a_file_needs() -> None:
    assert parse_draft(f"Here it is:\n```json\n{json.dumps(DRAFT)}\n```") is not None
    parts = parse_draft(
        "<think>{}</think>"
        + json.dumps(DRAFT | {"feature": "mood", "phrases": ["a\u200bye  aye", 3, "x" * 200], "opposite": ""})
    )
    assert parts is not None and (parts.feature, parts.opposite, parts.lists["phrases"]) == ("none", None, ["aye aye"])
    for broken in (DRAFT | {"question": " "}, DRAFT | {"add": "x" * 700}, [DRAFT], {}):
        assert parse_draft(json.dumps(broken)) is None
    assert len(authored_pairs("train")) == 336
