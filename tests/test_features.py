"""Features of a text that can be counted by hand; its script and language, and what holds in which."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replies import Answer, reply
from typer.testing import CliRunner

from cda.biases import builtin_names, load_bias
from cda.cli import app
from cda.embedded.rules import RuleRewriter
from cda.errors import DataError
from cda.features import (
    HEDGES,
    TEXT_FEATURES,
    long_word_share,
    measure,
    n_phrases,
    n_words,
    phrase_pattern,
    sentences_of,
    words,
)
from cda.languages import is_english, language_of, same_language, scopes_of, script_shares
from cda.records import Pair, RewriteRequest, user_prompt
from cda.results.base import Estimate, Missing
from cda.rewriting.labels import PairLabel, exhibits
from cda.stats.drift import feature_drift, identify, measured, overlap_of

LISTED = "# Plan\n\nDo **this** first!\n\n- one thing\n* two\n  1. three\n10) four\n-not a mark\n1.5 is a number"


def test_every_feature_of_one_text() -> None:
    expected = {
        "words": 18.0,  # "-not" counts once, "1." and "10)" are tokens with a digit
        "sentences": 8.0,
        "list_lines": 4.0,
        "headers": 1.0,
        "bold": 1.0,
        "exclamations": 1.0,
        "emoji": 0.0,
        "wide_spaces": 0.0,
        "questions": 0.0,
        "digit_words": 3.0,
        "long_word_share": 0.0,
        "characters": 93.0,
        "specifics": 1.0,  # 1.5; list marks are no specifics
        "hedges": 0.0,
        "flesch_reading_ease": 206.835 - 1.015 * 15 / 8 - 84.6 * 17 / 15,  # a num-ber, num-ber
        "type_token_ratio": 17 / 18,
    }
    assert {name: measure(LISTED, name) for name in TEXT_FEATURES} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("words", "", 0), ("words", "- one", 1), ("words", "— … !", 0), ("words", "a\n\nb\tc", 3), ("words", "Zürich 8001", 2),
        *[("list_lines", f"before\n{line}\nafter", 1) for line in ("- a", "• a", "3) a", "   * a")],
        *[("list_lines", f"before\n{line}\nafter", 0) for line in ("-a", "1.5 a", "- ", "2024. Then")],
        ("long_word_share", "abcdefgh abcdefghi", 0.5),
        ("long_word_share", "long-term self-made", 0),  # 8 letters each
        ("long_word_share", "123456789012", 0), ("long_word_share", "", 0),
        ("emoji", "Good 👍 and ✨✨, not © or →.", 3),
        ("emoji", "A family 👨‍👩‍👧, a flag 🇫🇷, a wave 👋🏽, a heart ❤️.", 4),
        ("wide_spaces", "One  two   three four\n\n  five. ", 2),
        ("wide_spaces", "One\u00a0 two\u00a0three", 1),
        ("wide_spaces", "Code:\n```\nx  =  1\n```\nand  so", 1),
        ("questions", "Is it? Really?! See https://a.b/c?d=1. “Why?” he asked??", 4), ("questions", "No.", 0),
        ("specifics", "In 1969 the crew of Apollo 11 flew to the Moon.", 4),  # 1969, Apollo, 11, Moon
        ("specifics", "We went to New York City. Then I slept, and I'm fine.", 1),
        ("specifics", "Paris is large. It has parks.", 0),  # a name that opens a sentence is not told from any other opening
        ("specifics", "The CO2 level and the GDP rose by 3.5 percent.", 3),
        ("specifics", "# The Great Plan\n1. **Check The Dashboard:** look at it\n2. Done", 0),
        ("specifics", 'Note: This is it. He said "Go".', 0),
        ("hedges", "Perhaps it might work, to some extent. Mighty maybes likely tend to.", 5),
        ("hedges", "It works. The kindly sorter.", 0),
    ],
)  # fmt: skip
def test_features_of_small_texts(name: str, text: str, value: float) -> None:
    assert measure(text, name) == value


def test_a_pattern_is_counted_by_line_and_by_text() -> None:
    text = "Sure, this.\nSure, that.\nMaybe sure."
    assert measure(text, "pattern_count", pattern="^Sure") == 2
    assert measure(text, "pattern_count", pattern=r"\ASure") == 1
    assert measure(text, "pattern_count", pattern="(?i)sure") == 3
    assert measure(text, "pattern_per_100_words", pattern="^Sure") == pytest.approx(100 * 2 / 6)
    assert measure("", "pattern_per_100_words", pattern="^") == 0.0
    with pytest.raises(ValueError, match="pattern_count needs a pattern"):
        measure(text, "pattern_count")
    with pytest.raises(KeyError):
        measure("a", "wrds")


def test_words_keep_apostrophes_and_numbers_together() -> None:
    assert words("It's a well-known 3.5% rise, isn’t it? — yes") == [
        "It's", "a", "well-known", "3.5", "rise", "isn’t", "it", "yes",
    ]  # fmt: skip


def test_sentences_split_at_marks_and_line_breaks_not_at_decimals() -> None:
    text = 'It costs 3.5 euros. "Really?" She paid!\n1. Take it. Then go\nno end'
    assert sentences_of(text) == [
        "It costs 3.5 euros.", '"Really?"', "She paid!", "1. Take it.", "Then go", "no end",
    ]  # fmt: skip


def test_markers_per_100_words() -> None:
    text = "You’re right, of  course. OF COURSE it matters; coursework does not."
    assert n_words(text) == 11
    assert measure(text, "markers_per_100_words", ["of course", "you're right"]) == pytest.approx(100 * 3 / 11)
    assert measure("", "markers_per_100_words", ["of course"]) == 0.0
    assert measure(text, "markers_per_100_words", []) == 0.0


def test_phrase_pattern_prefers_the_longest_phrase() -> None:
    assert phrase_pattern(("used", "used to be")).findall("It used to be used.") == ["used to be", "used"]


def test_phrases_are_counted_as_the_pattern_finds_them() -> None:
    sets = [HEDGES, ("used", "used to be", "it's", " so "), ("naïve", "it"), ()]
    texts = [
        "It used to\nbe used, perhaps. IT’S so so, so",
        "It ſeems  to be; ık İt it",
        "Kind of naïve: KIND OF it",
        "",
    ]
    for phrases in sets:
        for text in texts:
            assert n_phrases(text, phrases) == len(phrase_pattern(phrases).findall(text))


def test_flesch_by_hand_and_in_the_right_order() -> None:
    # 6 words, 1 sentence, 6 syllables: 206.835 − 1.015·6 − 84.6
    assert measure("The cat sat on the mat.", "flesch_reading_ease") == pytest.approx(116.145)
    # 4 words in 2 sentences, hy-phen-ation patterns: wa-ter 2, riv-er 2
    assert measure("Water runs. River 7 ends.", "flesch_reading_ease") == pytest.approx(206.835 - 2.03 - 84.6 * 6 / 4)
    plain = "We use the tool to find out why it broke. Then we fix it."
    stiff = "Utilization of instrumentation facilitates determination of organizational malfunction etiologies."
    assert measure(stiff, "flesch_reading_ease") < 0 < 80 < measure(plain, "flesch_reading_ease")
    assert measure("… 42!", "flesch_reading_ease") == measure("", "flesch_reading_ease") == 0.0


def test_type_token_ratio_does_not_fall_with_length() -> None:
    block = " ".join("abcdefghijklmnopqrstuvwxy"[at] * 3 for at in range(25))  # 25 distinct words
    assert measure(block, "type_token_ratio") == 1.0
    assert measure(f"{block} {block}", "type_token_ratio") == 0.5
    assert measure(" ".join([block] * 20), "type_token_ratio") == 0.5
    assert measure("Yes yes YES no", "type_token_ratio") == 0.5
    assert measure("", "type_token_ratio") == 0.0


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=120))
def test_type_token_ratio_is_the_mean_over_windows(tokens: list[str]) -> None:
    size = min(50, len(tokens))
    windows = [len(set(tokens[at : at + size])) / size for at in range(len(tokens) - size + 1)]
    assert measure(" ".join(tokens), "type_token_ratio") == pytest.approx(sum(windows) / len(windows))


@settings(deadline=None, derandomize=True)
@given(st.text(max_size=200), st.text(max_size=200))
def test_features_are_never_negative_and_words_add_up_over_lines(one: str, other: str) -> None:
    # NaN where a feature does not hold.
    assert not any(measure(one, name) < 0 for name in TEXT_FEATURES if name != "flesch_reading_ease")
    assert not measure(one, "type_token_ratio") > 1
    assert not math.isinf(measure(one, "flesch_reading_ease"))
    assert 0 <= long_word_share(one) <= 1
    assert n_words(f"{one}\n{other}") == n_words(one) + n_words(other)


ENGLISH = "The rope is wet and it will swell, so tie the knot tight and look at it again after the first pull."
GERMAN = (
    "Das Seil ist nass und es quillt, also zieh den Knoten fest und sieh ihn dir nach dem ersten Zug noch einmal an."
)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        (GERMAN, "de"),
        ("Le nœud est dans la corde et il ne glisse pas pour vous.", "fr"),
        ("El nudo es para la cuerda y no se suelta con el agua.", "es"),
        ("O nó não é uma boa ideia para você com as mãos molhadas.", "pt"),
        ("Il nodo è una buona idea per la corda e non si scioglie.", "it"),
        ("De knoop is niet los en het touw wordt nat van het water.", "nl"),
        ("Bowline, clove hitch, sheet bend", None),
        ("", None),
    ],
)
def test_language_by_stop_words(text: str, language: str | None) -> None:
    assert language_of(text) == language


def test_script_shares_leave_code_out() -> None:
    assert script_shares("abc где") == {"LATIN": 0.5, "CYRILLIC": 0.5}
    assert script_shares("где `abc` ```\nabc```") == {"CYRILLIC": 1.0}
    assert script_shares("123") == {}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (ENGLISH, "Tie it well: bowline, clove hitch, sheet bend, figure eight, reef knot.", True),
        (ENGLISH, GERMAN, False),
        (ENGLISH, "Верёвка мокрая, затяните узел крепче.", False),
        (
            "绳子湿了会膨胀，所以要把结打紧，拉一下之后再检查一次。",
            "ロープは濡れると膨らむので、結び目をしっかり締めてください。",
            False,
        ),
        (ENGLISH, "Да.", True),  # too little to tell
        (f"{ENGLISH} In Russian: верёвка.", ENGLISH, True),
        ("The command is:\n```\nls | grep верёвка\n```", "You may use the command below, if you like to.", True),
    ],
)
def test_same_language(first: str, second: str, same: bool) -> None:
    assert same_language(first, second) == same_language(second, first) == same


CHINESE = "烧水之前先把锅洗干净。然后放入鸡蛋，煮八分钟。最后用冷水冲一下！"
TEXTS = {
    "Chinese": (CHINESE, 28, 3),
    "Japanese": ("お湯を沸かします。卵を入れて八分待ちます。", 19, 2),
    "Thai": ("ต้มน้ำก่อนแล้วใส่ไข่ลงไป", 18, None),
    "Lao": ("ຕົ້ມນ້ຳກ່ອນ", None, None),
    "Khmer": ("ដាំទឹកសិន។ បន្ទាប់មកដាក់ស៊ុត។", None, 2),
    "Korean": ("먼저 물을 끓입니다. 그다음 달걀을 넣고 팔 분 동안 기다립니다.", 10, 2),
    "Hindi": ("पहले पानी उबालें और फिर अंडे डालें। आठ मिनट तक रुकें।", 11, 2),
    "Arabic": ("اغلِ الماء أولًا. ثم ضع البيض وانتظر ثماني دقائق. هل تحبه طريًا؟", 12, 3),
    "Hebrew": ("קודם מרתיחים מים. אחר כך שמים את הביצים ומחכים שמונה דקות.", 11, 2),
    "Russian": ("Сначала вскипятите воду. Потом положите яйца и подождите восемь минут.", 10, 2),
    "Greek": ("Πρώτα βράστε το νερό. Μετά βάλτε τα αυγά και περιμένετε οκτώ λεπτά.", 12, 2),
    "German": ("Zuerst wird das Wasser gekocht, und dann werden die Eier für acht Minuten in den Topf gelegt. "
               "Ölen ist nicht nötig, und das Salz kommt mit dem Ei.", 28, 2),
    "French": ("Faites d'abord bouillir de l'eau dans une casserole, et mettez les œufs pour huit minutes avec du sel. "
               "Élever le feu est inutile pour les œufs que vous aimez.", 29, 2),
    "Spanish": ("Primero se hierve el agua en una olla, y los huevos se ponen por ocho minutos con la sal. "
                "¿Son más duros para usted? Es lo que se come con pan.", 31, 3),
}  # fmt: skip
EGGS = (
    "Boil the water first, and then put the eggs into it for eight minutes. If you like them soft, take them out "
    "earlier, since they go on cooking in their shells."
)


@pytest.mark.parametrize("name", TEXTS)
def test_words_and_sentences_of_a_language(name: str) -> None:
    text, n, n_sentences = TEXTS[name]
    if n is not None:
        assert n_words(text) == n
    if n_sentences is None:
        assert math.isnan(measure(text, "sentences"))
    else:
        assert measure(text, "sentences") == n_sentences == len(sentences_of(text))


def test_a_long_text_without_spaces_has_many_words_and_a_mixed_one_both_kinds() -> None:
    assert n_words(CHINESE * 10) == 280
    assert n_words("我用Python 3写代码 ok👍") == 8  # 我 用 Python 3 写 代 码 ok
    assert words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]  # vowel signs do not part a word
    assert words("cafe\u0301 ol\u00e9") == ["cafe\u0301", "ol\u00e9"]
    assert n_words("👍🏽 🎉") == 0


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_made_for_english_does_not_hold_in_other_languages(name: str) -> None:
    text = TEXTS[name][0]
    assert not is_english(text)
    for feature in ("flesch_reading_ease", "long_word_share", "hedges"):
        assert math.isnan(measure(text, feature))
    for feature in ("words", "characters", "list_lines", "headers", "bold", "exclamations", "emoji", "questions"):
        assert measure(text, feature) >= 0


def test_all_holds_for_english_with_foreign_names_code_and_emoji() -> None:
    others = (
        "",
        " See `北京大学的数据库系统教程`.",
        " He lives in 東京.",
        " 👍👍👍",
        " São Tomé, Łódź.",
        "\n```\n代码代码代码\n```",
    )
    for text in (EGGS + other for other in others):
        assert is_english(text)
        assert not any(math.isnan(measure(text, feature)) for feature in TEXT_FEATURES)
    assert scopes_of("123 + 4") == scopes_of(EGGS)


def test_capitals_make_names_in_scripts_that_have_them_alone() -> None:
    assert measure("Потом в город Москву приехала Анна.", "specifics") == 2
    assert math.isnan(measure(TEXTS["Hindi"][0], "specifics"))


def test_marks_of_other_scripts_are_counted() -> None:
    assert measure("真的吗？好！太好了！", "questions") == 1
    assert measure("真的吗？好！太好了！", "exclamations") == 2
    assert measure(TEXTS["Arabic"][0], "questions") == 1


@pytest.mark.parametrize("bias", ["jargon", "complexity", "sentiment", "vagueness", "sycophancy"])
@pytest.mark.parametrize("name", ["Chinese", "German", "Russian", "Arabic"])
def test_a_measure_made_for_english_labels_no_other_text(bias: str, name: str) -> None:
    text = TEXTS[name][0]
    assert exhibits(text, load_bias(bias)) is None
    assert exhibits(EGGS, load_bias(bias)) is False
    label = PairLabel.measured_of(Pair(user_prompt("?"), text, EGGS), load_bias(bias))
    assert label.labels == {"chosen": None, "rejected": False}
    assert label.reason is not None and "holds in" in label.reason


@pytest.mark.parametrize("name", TEXTS)
def test_length_is_labelled_in_every_language(name: str) -> None:
    text = TEXTS[name][0]
    assert exhibits(text * 2, load_bias("length"), text) is True
    assert exhibits(text, load_bias("length"), text * 2) is False


@pytest.mark.parametrize("name", ["Chinese", "Thai", "Hindi", "Russian", "German", "French"])
@pytest.mark.parametrize("bias", [name for name in builtin_names() if load_bias(name).offline is not None])
def test_rules_refuse_another_language_in_one_sentence(name: str, bias: str) -> None:
    text, direction = TEXTS[name][0], "add"
    request = RewriteRequest(user_prompt("?"), text, direction, text)
    with pytest.raises(DataError) as error:
        RuleRewriter().rewrite(
            [request, request, RewriteRequest(user_prompt("?"), EGGS, direction, EGGS)],
            load_bias(bias),
        )
    said = str(error.value)
    assert "another language than 2 of 3 texts" in said and "the first is text 1" in said and "llm.model=" in said
    assert "\n" not in said


def test_a_few_foreign_texts_are_failed_rewrites() -> None:
    requests = [RewriteRequest(user_prompt("?"), text, "add", text) for text in (EGGS, CHINESE, EGGS)]
    first, foreign, last = RuleRewriter().rewrite(requests, load_bias("length"))
    assert first.text is not None and last.text is not None
    assert (foreign.text, foreign.reason) == (None, "in another language than the rules")


def test_rules_in_a_language_of_ones_own_hold_there() -> None:
    bias = load_bias("structure")
    own = bias.model_copy(
        update={
            "offline": bias.offline.model_copy(update={"open_with": ["Das sind die Punkte, die für Sie wichtig sind:"]})
        }
    )
    text = TEXTS["German"][0]
    assert own.speaks_as(text) and not own.speaks_as(EGGS)
    (rewrite,) = RuleRewriter().rewrite([RewriteRequest(user_prompt("?"), text, "add", text)], own)
    assert rewrite.text is not None and rewrite.text.count("\n- ") >= 1


def test_drift_of_what_does_not_hold_is_missing_and_the_rest_is_checked() -> None:
    n, rng = 40, np.random.default_rng(3)
    ids = [str(at) for at in range(n)]
    base = [CHINESE * (1 + at % 3) for at in range(n)]
    longer = [text + CHINESE for text in base]
    sides = measured(longer), measured(base)
    found = {drift.feature: drift for drift in feature_drift(*sides, ids)}
    reading = found["flesch_reading_ease"]
    assert isinstance(reading.difference, Missing) and reading.beyond is None and reading.n_unheld == n
    assert reading.difference.reason == "holds in English only: 40 of 40 pairs have a text that is not"
    assert isinstance(found["words"].difference, Estimate)
    assert found["words"].difference.value == 28
    assert "n_unheld" not in found["words"].model_dump()
    overlap, _ = overlap_of(*sides, ids)
    assert overlap.n == 0 and overlap.beyond["words"] == n and overlap.beyond["flesch_reading_ease"] == 0
    same, _ = overlap_of(sides[1], sides[1], ids)
    assert same.n == n
    assert identify(rng.normal(size=n), *sides, ids).overlap.n == 0


def test_a_set_of_several_languages_is_counted() -> None:
    base = [f"{EGGS} {'It is fine. ' * (at % 3)}" for at in range(30)] + [CHINESE] * 10
    longer = [text + " And that is all." for text in base[:30]] + [CHINESE * 2] * 10
    drifts = feature_drift(measured(longer), measured(base), [str(at) for at in range(40)])
    reading = next(drift for drift in drifts if drift.feature == "flesch_reading_ease")
    assert isinstance(reading.difference, Estimate) and reading.difference.n == 30
    assert reading.name == "flesch reading ease (10 pairs left out)"


def test_an_llm_labels_what_the_measure_refuses(tmp_path: Path, serve: Callable[[Answer], str]) -> None:
    """The command that is refused, and the same with the setting that its message names."""
    rows = [
        {"prompt": f"怎么煮鸡蛋？{n}", "chosen": CHINESE + str(n), "rejected": f"好{n}。" + CHINESE} for n in range(12)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["label", "jargon", f"data.pairs={tmp_path / 'pairs.jsonl'}"]
    refused = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "refused")])
    assert refused.exit_code == 2
    assert "long word share holds in English only, and 12 of 12 pairs" in refused.output
    assert "the first is pair 1 ('烧水" in refused.output and "llm.model=NAME" in refused.output
    url = serve(
        lambda body: reply(
            json.dumps(dict.fromkeys(body["response_format"]["json_schema"]["schema"]["properties"], "no"))
        )
    )
    done = CliRunner().invoke(
        app,
        [
            *words,
            "llm.model=j",
            f"llm.base_url={url}",
            "--yes",
            "--out",
            str(tmp_path / "run"),
        ],
    )
    assert done.exit_code == 0, done.output
    assert "unparsed" not in done.output
