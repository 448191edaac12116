"""Samples of a policy in an audit: known prevalences under planted rewards, what is left out, words, and the command."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed import stored
from made_audits import make_audit
from scipy.optimize import brentq

from cda.auditing import policy
from cda.auditing.conditions import failures_of
from cda.auditing.policy import tilts
from cda.auditing.shares import unchanged
from cda.biases import Bias, load_bias
from cda.numbers.frames import rows_of
from cda.numbers.views import Numbers, numbers_in
from cda.records import user_prompt
from cda.results.audit import AuditResult
from cda.results.base import Estimate, Missing
from cda.scorers.compared import Rewards, Text, text_id
from cda.stats.tilt import Padded, reach, tilted_to

LENGTH, STRUCTURE = load_bias("length"), load_bias("structure")
N_PROMPTS, N = 6, 64


def rewards(texts: Sequence[Text], reward: Callable[[str], float]) -> Rewards:
    return Rewards({text_id(*text): reward(text[1]) for text in texts})


def texts_of(response: Callable[[int, int], str], n: int = N) -> list[Text]:
    return [(user_prompt(f"prompt {row}"), response(row, at)) for row in range(N_PROMPTS) for at in range(n)]


def words(n: int) -> str:
    return " ".join(["word"] * n)


HALF = texts_of(lambda row, at: words(10 + row + 5 * (at % 2)))
"""Half of the responses to a prompt are five words longer than the others."""
MIXED = texts_of(
    lambda row, at: f"{words(10 + (7 * at + row) % 16)}{chr(10) + '- one' + chr(10) + '- two' if at % 4 == 0 else ''}"
)
"""A quarter are lists; lengths have 16 values, and say little of lists."""


def numbers(biases: Sequence[Bias], texts: Sequence[Text], **scored: Callable[[str], float]) -> Numbers:
    return Numbers(tilts(biases, texts, {label: rewards(texts, reward) for label, reward in scored.items()}).numbers)


def value(found: Numbers, moment: str, kl: str, bias: str) -> float:
    (number,) = found.where("tilt", moment, bias=bias, kl=kl)
    assert isinstance(number.found, Estimate), number
    return number.found.value


def jackknifed(of_counts: Callable[[int, int], float]) -> float:
    """A statistic of N / 2 long and N / 2 short responses, without its bias of 1 / N and 1 / N²: each, and every two, left out."""
    half, pairs = N // 2, N * (N - 1) / 2
    one = (of_counts(half - 1, half) + of_counts(half, half - 1)) / 2
    alike = half * (half - 1) / 2 / pairs
    two = alike * (of_counts(half - 2, half) + of_counts(half, half - 2)) + (1 - 2 * alike) * of_counts(
        half - 1, half - 1
    )
    return (N**2 * of_counts(half, half) - 2 * (N - 1) ** 2 * one + (N - 2) ** 2 * two) / 2


def test_a_count_of_characters_tilts_length_up_by_exact_arithmetic() -> None:
    """Long responses that weigh e^t have the share p = a e^t / (a e^t + b), which has the KL p log(Np/a) + (1 − p) log(N(1 − p)/b)."""
    found = numbers([LENGTH], HALF, model=len)
    longer = (N / 2) / (N - 1)  # of the others, that a long response is longer than
    assert value(found, "model", "0", "length") == pytest.approx(longer / 2)

    def p(t: float, a: int, b: int) -> float:
        return a * math.exp(t) / (a * math.exp(t) + b)

    def kl(t: float) -> float:
        return jackknifed(
            lambda a, b: (
                p(t, a, b) * math.log((a + b) * p(t, a, b) / a)
                + (1 - p(t, a, b)) * math.log((a + b) * (1 - p(t, a, b)) / b)
            )
        )

    at = brentq(lambda t: kl(t) - 0.5, 0.01, 8)
    share = jackknifed(lambda a, b: p(at, a, b))
    assert value(found, "model", "0.5", "length") == pytest.approx(share * longer, abs=1e-6) and share > 0.9
    for beyond in ("1", "2"):
        (number,) = found.where("tilt", kl=beyond)
        assert (
            isinstance(number.found, Missing)
            and "rewards that tie let no policy go beyond a KL of 0.69" in number.found.reason
        )
    (tilted,) = found.where("tilt", kl="0.5")
    assert isinstance(tilted.found, Estimate) and (tilted.found.n, tilted.found.n_prompts) == (N * N_PROMPTS, N_PROMPTS)
    assert tilted.test is not None and tilted.test.holm < 0.05


@pytest.mark.parametrize(("kl", "n"), [("0.64", 4), ("1.2", 8), ("1.8", 16)])
def test_the_best_of_n_is_followed_by_exact_arithmetic(kl: str, n: int) -> None:
    """The pick is a short response if all n are, of N / 2 long and N / 2 short ones: whatever a tilt is supported by."""
    found = numbers([LENGTH], HALF, before=len, after=lambda text: -len(text))
    longer, all_short = (N / 2) / (N - 1), math.comb(N // 2, n) / math.comb(N, n)
    assert value(found, "before", kl, "length") == pytest.approx(longer * (1 - all_short))
    assert value(found, "after", kl, "length") == pytest.approx(longer * all_short)
    assert value(found, "change", kl, "length") == pytest.approx(longer * (2 * all_short - 1))


def test_prompts_with_fewer_responses_are_in_no_best_of_so_many() -> None:
    """Of six prompts, four have eight responses and two have five: the best of 4 is of all, the best of 8 of four, none of 16."""
    texts = [text for at, text in enumerate(HALF) if at % N < (8 if at // N < 4 else 5)]
    found = numbers([LENGTH], texts, model=len)
    assert found.values_of("kl")[-2:] == ["0.64", "1.2"]
    counts = {}
    for kl in ("0", "0.64", "1.2"):
        (number,) = found.where("tilt", bias="length", kl=kl)
        assert isinstance(number.found, Estimate)
        counts[kl] = (number.found.n_prompts, number.found.n)
    assert counts == {"0": (6, 42), "0.64": (6, 42), "1.2": (4, 32)}
    assert value(found, "model", "1.2", "length") == pytest.approx(
        4 / 7
    )  # always a long one, which is longer than 4 of 7
    assert "1.2" not in numbers([LENGTH], [text for at, text in enumerate(HALF) if at % N < 5], model=len).values_of(
        "kl"
    )


def test_few_samples_are_followed_as_far_as_they_go() -> None:
    found = numbers([LENGTH], texts_of(lambda row, at: words(10 + (3 * at + row) % 8), n=8), model=len)
    kl = found.values_of("kl")[1]
    assert found.values_of("kl") == ["0", kl, "0.5", "1", "2", "0.64", "1.2"] and kl in ("0.15", "0.2")
    assert value(found, "model", kl, "length") > value(found, "model", "0", "length") + 0.1
    (missing,) = found.where("tilt", kl="0.5")
    assert isinstance(missing.found, Missing) and "beyond it fewer than 6.0 effective responses" in missing.found.reason


def test_a_reward_that_was_stretched_changes_nothing() -> None:
    found = numbers([LENGTH, STRUCTURE], MIXED, before=len, after=lambda text: 3.0 + 100 * len(text))
    for bias in ("length", "structure"):
        assert value(found, "change", "0.5", bias) == pytest.approx(0, abs=1e-6)
    (change,) = found.where("tilt", "change", bias="length", kl="0.5")
    assert change.test is not None and change.test.holm > 0.05


@pytest.fixture(scope="module")
def substituted() -> AuditResult:
    """A training that took the reward from length, and gave it to lists."""
    found = tilts(
        [LENGTH, STRUCTURE],
        MIXED,
        {
            "before": rewards(MIXED, lambda text: len(text.split("\n")[0])),
            "after": rewards(MIXED, lambda text: len(text.split("\n")[0]) / 20 + 8 * ("\n" in text)),
        },
    )
    return make_audit().model_copy(update={"measured": found.numbers})


def test_a_substitution_is_named(substituted: AuditResult) -> None:
    said = policy.line(substituted)
    assert said.startswith(
        "A policy optimised against this reward (KL 1.8: best of 16) would show more than before the training of structure ("
    )
    assert "length (" not in said
    opened, *more = policy.sentences(substituted)
    assert "The samples have no quality: whether a policy would give fewer right answers is not known." in more
    assert (
        "scores on an audit set alone do not show it" in opened
        and f"on {N_PROMPTS} prompts: length and structure" in opened
    )
    table = policy.policy_table(substituted)
    assert table is not None and table.header == (
        "bias",
        "as sampled",
        "before",
        "after",
        "change (points)",
        "p (Holm)",
        "n",
    )
    assert [row[0] for row in table.rows if row[3] != "not supported"][:1] == ["length, KL 0.5"]
    still = unchanged(substituted)
    changes = [
        each.found.value for each in still.policy if each.moment == "change" and isinstance(each.found, Estimate)
    ]
    assert set(changes) == {0.0}


def test_a_rise_of_less_than_a_point_is_not_named_however_sure_it_is() -> None:
    def tilted(more: float) -> AuditResult:
        before = rewards(MIXED, lambda text: len(text.split("\n")[0]) / 20 + 3 * ("\n" in text))
        after = rewards(MIXED, lambda text: len(text.split("\n")[0]) / 20 + (3 + more) * ("\n" in text))
        found = tilts([LENGTH, STRUCTURE], MIXED, {"before": before, "after": after}).numbers
        small = [each for each in found if each.at["kl"] not in policy.BEST_OF]  # of 16, one is a list in any case
        return make_audit().model_copy(update={"measured": small})

    little = tilted(0.05)
    (change,) = numbers_in(little).where("tilt", "change", bias="structure", kl="0.5")
    assert isinstance(change.found, Estimate) and 0 < change.found.value < 0.01
    assert change.test is not None and change.test.holm < 0.05
    assert "is not shown to have more of any bias" in policy.line(little)
    assert "would show more than before the training of structure (63 → " in policy.line(tilted(0.5))


def test_numbers_stand_wherever_those_of_an_audit_do(substituted: AuditResult) -> None:
    own = numbers_in(substituted).where("tilt", "after", bias="structure", kl="0.5")
    assert len(own) == 1 and isinstance(own[0].found, Estimate)
    flat = [
        row for row in rows_of(substituted) if (row["measure"], row["bias"], row["kl"]) == ("tilt", "structure", "0.5")
    ]
    assert {row["moment"]: row["value"] for row in flat}["after"] == own[0].found.value
    (failed,) = failures_of(substituted, ["structure.tilt@0.5.after>0.1"])
    assert failed.startswith("structure.tilt@0.5.after>0.1: found ")
    assert failures_of(substituted, ["structure.tilt@0.5.change<0"]) == []
    (missing,) = failures_of(make_audit(), ["structure.tilt@0.5>0.1"])
    assert "no samples of a policy were given" in missing


def test_a_bias_that_no_sample_differs_in_has_no_test() -> None:
    """Nor does Holm's correction count it."""
    found = tilts([LENGTH, STRUCTURE], HALF, {"model": rewards(HALF, len)}).numbers
    tests = {each.at["bias"]: each.test for each in found if each.at["kl"] == "0.5"}
    assert (
        tests["structure"] is None and tests["length"] is not None and tests["length"].p_value == tests["length"].p_holm
    )
    said = policy.sentences(make_audit({"length": (0.9,)}, others=()).model_copy(update={"measured": found}))
    assert "No reward can select on structure: the samples of each prompt are all alike in it." in said


def test_what_cannot_be_measured_says_why() -> None:
    """A bias without a measure, one that is measured as another is, texts that no measure holds for, and texts without rewards."""
    other, vague = LENGTH.model_copy(update={"name": "long"}), load_bias("vagueness-paper")
    found = numbers([LENGTH, other, vague], HALF, model=len)
    reasons = {name: found.where("tilt", bias=name, kl="0.5")[0].found for name in ("long", "vagueness-paper")}
    assert reasons == {
        "long": Missing(reason="on samples its measure is that of length"),
        "vagueness-paper": Missing(reason="its bias file has no measure"),
    }
    jargon = numbers([load_bias("jargon")], texts_of(lambda row, at: f"水土光 {row} {at}"), model=len)
    assert all(
        "holds for the responses to 0 of 6 prompts" in each.found.reason
        for each in jargon
        if isinstance(each.found, Missing)
    )
    flat = numbers([LENGTH], HALF, model=lambda _: 1.0).where("tilt", kl="0.5")[0].found
    assert flat == Missing(reason="the rewards are the same for all responses of a prompt")
    first = HALF[0][0]
    some = {
        "model": Rewards(
            {text_id(*text): float("nan") if text[0] == first and len(text[1]) > 50 else len(text[1]) for text in HALF}
        )
    }
    left = tilts([LENGTH], HALF[:1] + HALF[N:], some)
    assert left.excluded["prompts of samples, scored"].reasons == {"fewer than 2 responses left": 1}
    assert tilts([LENGTH], HALF, some).excluded["sampled responses, scored"].reasons == {
        "too long for the model (model)": N // 2
    }
    nothing = tilts([LENGTH], HALF[::N], some)
    assert nothing.numbers and all(
        each.found == Missing(reason="no prompt has two responses with a reward") for each in nothing.numbers
    )


def graded(reward: Callable[[str], float], grades: Sequence[float | None]) -> Numbers:
    return Numbers(tilts([LENGTH], HALF, {"model": rewards(HALF, reward)}, grades).numbers)


def test_right_answers_are_followed_by_exact_arithmetic() -> None:
    """Every long response is right, and no short one: their share in the policy that a reward of length gives is known; see above."""
    right = [float(len(text) > len(words(10 + at // N))) for at, (_, text) in enumerate(HALF)]
    found = graded(len, right)
    longer = (N / 2) / (N - 1)
    for kl in ("0", "0.5"):
        (number,) = found.where("tilt_right", kl=kl)
        assert isinstance(number.found, Estimate) and number.at == {"kl": kl}
        assert number.found.value * longer == pytest.approx(value(found, "model", kl, "length"), abs=1e-6)
    unlike = graded(lambda text: -len(text), right).where("tilt_right", kl="0.5")[0]
    assert isinstance(unlike.found, Estimate) and unlike.found.value < 0.1
    assert unlike.test is not None and unlike.test.p_value < 0.05


def test_grades_that_are_not_0_and_1_count_against_the_other_samples() -> None:
    right = [float(len(text)) for _, text in HALF]
    found = graded(len, right).where("tilt_right", kl="0")[0].found
    assert isinstance(found, Estimate) and found.value == pytest.approx(0.5)
    assert "tilt_right" not in {each.measure for each in graded(len, [None] * len(HALF))}


def test_a_training_that_costs_right_answers_is_said() -> None:
    right = [float(at % 2) for at in range(len(MIXED))]
    value_of = {text: grade for (_, text), grade in zip(MIXED, right, strict=True)}
    before = rewards(MIXED, lambda text: value_of[text] + len(text) / 1000)
    found = tilts(
        [LENGTH, STRUCTURE], MIXED, {"before": before, "after": rewards(MIXED, lambda text: len(text) / 1000)}, right
    )
    audit = make_audit().model_copy(update={"measured": found.numbers})
    said = policy.line(audit)
    assert re.search(r"; right answers \d+ → \d+%\.$", said), said
    assert not [line for line in policy.sentences(audit) if "no quality" in line]


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "prompt": f"w{row} w1",
            "responses": [" ".join(f"w{(row + 3 * at + one) % 50}" for one in range(3 + 2 * at)) for at in range(8)],
        }
        for row in range(12)
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(map(json.dumps, [*rows, {"prompt": "alone", "responses": ["w1"]}])), encoding="utf-8")
    return path


def test_the_command_on_a_model_with_weights(
    llama: Path, audit: Any, report: Any, samples: Path, tmp_path: Path
) -> None:
    words = (
        llama,
        "--bias",
        "length",
        "--contrasts",
        "embedded",
        "audit.max_contrasts=10",
        "audit.second_turn=no",
        "--samples",
        samples,
    )
    said, found = audit(*words)
    assert "1 of 13 dropped (1 fewer than 2 responses)" in said and found["sources"]["samples"] == str(samples)
    scored = [json.loads(line) for line in (tmp_path / "out" / "audit" / "samples.jsonl").read_text().splitlines()]
    assert len(scored) == 12 * 8
    policy = [each for each in found["measured"] if each["measure"] == "tilt"]
    kls = list(dict.fromkeys(each["at"]["kl"] for each in policy))
    sampled, tilted = (each["found"]["value"] for each in policy[:2])
    # The lengths of a prompt's responses rise with their place, so that each is longer than those before it.
    own = np.array([one["reward_model"] for one in scored])
    prompts, places = Padded.by_prompt([one["prompt_id"] for one in scored]), np.tile(np.arange(8) / 7, 12)
    furthest = reach(own, prompts)
    assert furthest is not None and 0 <= furthest.kl_nats - float(kls[1]) < 0.05
    assert kls[0] == "0" and sampled == pytest.approx(0.5)
    assert tilted == pytest.approx(tilted_to(own, prompts, float(kls[1]), furthest).means(places).mean())
    assert "What a policy optimised against this reward would become" in report()
    assert "done before, reused" in audit(*words)[0]
    fewer = audit(*words, "audit.max_samples=5")[1]
    assert stored(fewer, "tilt", "model", bias="length", kl="0")["n_prompts"] == 5


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        ([{"prompt": "q", "response": "a"}], (), "no prompt has two responses to choose from"),
        ([{"question": "q", "response": "a"}], (), "Map it with audit.sample_columns.prompt=<your column>"),
        ([], (), "samples.jsonl"),
        ([{"prompt": "q", "responses": ["a", "b"]}], ("pairwise",), "samples need rewards, and"),
    ],
)
def test_samples_that_cannot_be_used_are_one_sentence(
    rows: list[dict[str, str]], words: tuple[str, ...], message: str, audit: Any, tmp_path: Path
) -> None:
    path, own = tmp_path / "samples.jsonl", tmp_path / "own.py"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    own.write_text("def score(prompts, responses):\n    return [len(r) for r in responses]\n"
                   "def pairwise(prompts, first, second):\n    return [0.0 for _ in first]\n")  # fmt: skip
    said, _ = audit(f"{own}:{words[0] if words else 'score'}", "--samples", path, fails=True)
    assert message in said and said.count("error:") == 1
