"""Rule-based rewriting from a bias file's `offline` section, a recognisable stand-in for an LLM, and no more: its edits from
text to text, their order and words, and at how many of the possible places. Edits of prose work within a line, so that lists and
headers keep theirs."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cda.biases import Bias, Offline, Swap
from cda.errors import DataError, RecipeError
from cda.features import LIST_LINE, n_list_lines, n_words, phrase_pattern, sentences_of, words
from cda.inert import clipped, inert
from cda.languages import STOP_WORDS
from cda.patterns import Pattern, SlowPatternError, compiled
from cda.records import Rewrite, RewriteRequest, content_id, prompt_text
from cda.rewriting.fidelity import not_flipped
from cda.rewriting.labels import exhibits

_FEWER_PLACES = 0.7


@dataclass(frozen=True, slots=True)
class RuleRewriter:
    """A Rewriter that needs no LLM; the same request always gives the same text. The seed selects wordings, `share` the part of
    the places, drawn for each request, one at least; others differ, but share wording and blind spots."""

    seed: int = 42
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, found {self.share}")

    @property
    def name(self) -> str:
        return "rules" if self.share == 1 else f"rules, {100 * self.share:g}% of places"

    def rewrite(self, requests: Sequence[RewriteRequest], bias: Bias) -> list[Rewrite]:
        """Rewrite by the bias file's offline rules. RecipeError: it has none. DataError: a pattern takes too long over a
        text, or most texts are in another language than the rules; a few of them are failed rewrites."""
        rules = rules_of(bias)
        other = [number for number, request in enumerate(requests, 1) if not bias.speaks_as(request.response)]
        if 2 * len(other) > len(requests):
            raise DataError(
                f"bias '{bias.name}': its offline rules are in another language than {len(other)} of {len(requests)} texts; the "
                f"first is text {other[0]} ('{clipped(inert(requests[other[0] - 1].response), 30)}'). Have an LLM rewrite them: "
                "llm.model=NAME"
            )
        try:
            return [self._rewritten(request, bias, rules) for request in requests]
        except SlowPatternError as error:
            raise bias.too_slow("offline", error) from None

    def resampled(self, sample: int) -> RuleRewriter:
        """The same rules at fewer places, for a rewrite that changed too much."""
        return replace(self, seed=self.seed + sample, share=self.share * _FEWER_PLACES**sample)

    def _rewritten(self, request: RewriteRequest, bias: Bias, rules: Offline) -> Rewrite:
        if not bias.speaks_as(request.response):
            return Rewrite(None, "in another language than the rules")
        key = content_id(self.seed, bias.name, request.direction, prompt_text(request.prompt), request.response)
        rng = np.random.default_rng(int(key, 16))
        puts_in = (request.direction == "add") is not rules.reverse
        if puts_in:
            text = _add(request, rules, bias, rng, self.share * rules.share)
        else:
            text = _remove(request.response, rules)
        if text is None or not text.strip():
            too_few = "places to change" if puts_in else "sentences to cut"
            return Rewrite(None, f"too few {too_few}")
        # Tidied white space is not a rewrite, unless white space is the bias.
        same_words = text.split() == request.response.split() and "\n- " not in text
        if same_words and not bias.respaced(text, request.response):
            return Rewrite(None, "unchanged")
        reason = not_flipped(request, text, bias)
        return Rewrite(text) if reason is None else Rewrite(None, reason)


def rules_of(bias: Bias) -> Offline:
    """The offline rules of a bias; RecipeError if it has none."""
    if bias.offline is None:
        needed = "so it needs an LLM: set llm.model, or add `offline:` to its bias file"
        raise RecipeError([f"bias '{bias.name}' has no offline rules, {needed}"])
    return bias.offline


def telling_phrases(rules: Offline, bases: Sequence[str]) -> re.Pattern[str]:
    """Pattern of the wordings that these rules put into texts, without those that texts without the bias hold as well."""
    every = phrase_pattern(rules.phrases())
    seen = {plain_phrase(phrase) for base in bases for phrase in every.findall(base)}
    return phrase_pattern(tuple(phrase for phrase in rules.phrases() if plain_phrase(phrase) not in seen))


def _add(request: RewriteRequest, rules: Offline, bias: Bias, rng: np.random.Generator, share: float) -> str | None:
    """Add the bias with as few woven sentences as make it measurable; None if even the most do not."""
    text, changes = request.response, 0
    if rules.itemize:
        itemized = itemize(text, rules.item_mark, share)
        if itemized is None:
            return None
        text, changes = itemized, 1
    text, n_words_changed = put_words(text, rules.words, rng, share)
    text, n_swaps = swap(text, rules.swaps_add, rng, share)
    changes += n_words_changed + n_swaps
    # Some margin above the asked multiple of the chosen response, or of itself.
    ratio = bias.min_words_of_chosen or 1.5
    reference = request.reference if request.reference is not None else request.response
    wanted = int(ratio * max(n_words(reference), n_words(request.response))) + 1
    for every in range(rules.weave_every, 0, -1):
        finished, n_woven = weave(text, rules, every, rng, share)
        n_restated = 0
        if rules.restate:
            finished, n_restated = restate(finished, rules, wanted, rng)
            if n_words(finished) < wanted:
                continue
        finished, n_led = lead(finished, rules, rng, share)
        finished, n_framed = frame(finished, rules, rng)
        if changes + n_woven + n_restated + n_led + n_framed < rules.min_changes:
            continue
        if bias.measure is None or exhibits(finished, bias, request.reference or "") is not rules.reverse:
            return finished
    return None


def _remove(response: str, rules: Offline) -> str | None:
    """Apply the rules backwards, to prose alone: code keeps its spaces and lines. None if it cannot be cut short enough."""
    rng = np.random.default_rng(0)  # nothing is drawn of a single wording, and all places are changed
    text, _ = outside_code(response, lambda part: (drop_sentences(part, rules), 0))
    text = drop_leads(text, rules.lead_with)
    text, _ = put_words(text, {biased: plain for plain, biased in reversed(rules.words.items())}, rng)
    text, _ = swap(text, rules.swaps_remove, rng)
    if rules.itemize and "```" not in text:
        text = flatten(text)
    if rules.shorten_to is not None:
        shorter = shorten(text, int(rules.shorten_to * n_words(response)))
        if shorter is None:
            return None
        text = shorter
    text = text.strip()
    # A text that has lost its opening begins with a capital if the response did.
    lost_capital = response.lstrip()[:1].isupper() and text[:1].islower()
    return text[:1].upper() + text[1:] if lost_capital else text


_MAX_RESTATED_ROUNDS = 4
_ARTICLE_CLASH = re.compile(r"\b(?:a|an) ((?:a|an|the|some|several) )")
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_CODE_OR_ADDRESS = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`|https?://\S+)", re.DOTALL)
_START = (
    r"^[ \t]*(?:(?:[-*•+]|\d{1,3}[.)])[ \t]+)?"
    r"|(?<=[^\W_][.!?])(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<!\bvs\.)[ \t]+"
)
_SENTENCE_START = re.compile(rf"({_START})(?=[\"'“(]?[A-Z0-9])(\S+)", re.MULTILINE)


def drop_sentences(text: str, rules: Offline) -> str:
    for sentence in (*rules.open_with, *rules.weave, *rules.close_with):
        text = re.sub(
            r"(^|(?<![ \t])[ \t]+)" + re.escape(sentence) + r"(?:[ \t]+|(?=\n|$))", _gap, text, flags=re.MULTILINE
        )
    for lead in rules.restate:
        text = _drop_restatements(text, lead)
    return text


def _gap(match: re.Match[str]) -> str:
    """The rest of a deleted sentence: the space between its neighbours, nothing at a line's ends."""
    at_end = match.end() == len(match.string) or match.string[match.end()] == "\n"
    return "" if at_end or not match.group(1) else " "


def put_words(text: str, words: Mapping[str, str], rng: np.random.Generator, share: float = 1.0) -> tuple[str, int]:
    """Replace whole words and phrases, longest first, keeping a capital and fitting the article before."""
    if not words:
        return text, 0
    lookup = {plain_phrase(plain): biased for plain, biased in words.items()}
    pattern = re.compile(rf"(?:\b(a|an)(\s+))?({phrase_pattern(tuple(words)).pattern})", re.IGNORECASE)

    def put(match: re.Match[str]) -> str:
        article, gap, plain = match.group(1), match.group(2), match.group(3)
        biased = lookup[plain_phrase(plain)]
        if plain.isupper() and len(plain) > 1:
            biased = biased.upper()
        elif plain[:1].isupper():
            biased = biased[:1].upper() + biased[1:]
        return f"{_article(article, biased)}{gap}{biased}" if article else biased

    return _at_places(text, pattern, put, rng, share, _CODE_OR_ADDRESS)


def plain_phrase(phrase: str) -> str:
    return re.sub(r"\s+", " ", phrase.lower()).replace("’", "'")


def _article(article: str, word: str) -> str:
    """`a` or `an` before a new word, by its spelling; vowel letters that sound like consonants stay with `a`."""
    vowel = word[:1].lower() in "aeiou" and not re.match(r"(?i)eu|one\b|uni[^mn]|us[aeu]|ut[ei]", word)
    fitting = "an" if vowel else "a"
    return fitting.capitalize() if article[0].isupper() else fitting


def outside_code(
    text: str, change: Callable[[str], tuple[str, int]], kept: re.Pattern[str] = _CODE_OR_ADDRESS
) -> tuple[str, int]:
    """Apply a change to prose only: fenced and inline code and web addresses stay as they are."""
    parts, total = [], 0
    for index, part in enumerate(kept.split(text)):
        if index % 2 == 0:
            part, n = change(part)
            total += n
        parts.append(part)
    return "".join(parts), total


def swap(text: str, swaps: Sequence[Swap], rng: np.random.Generator, share: float = 1.0) -> tuple[str, int]:
    """Replace regular expressions in order; of several wordings one is drawn for each place."""
    total = 0
    for rule in swaps:
        options = rule.options()

        def put(match: re.Match[str], options: list[str] = options) -> str:
            return match.expand(options[int(rng.integers(len(options)))])

        kept = _CODE if rule.addresses else _CODE_OR_ADDRESS
        text, n = _at_places(text, compiled(rule.find), put, rng, share, kept)
        total += n
    return _ARTICLE_CLASH.sub(r"\1", text) if total else text, total


def _at_places(
    text: str,
    pattern: re.Pattern[str] | Pattern,
    put: Callable[[re.Match[str]], str],
    rng: np.random.Generator,
    share: float,
    kept: re.Pattern[str],
) -> tuple[str, int]:
    """Replace a share of a pattern's matches outside code; returns their number too."""
    chosen = None
    if share < 1:
        _, n_places = outside_code(text, lambda part: (part, sum(1 for _ in pattern.finditer(part))), kept)
        chosen = _places(n_places, share, rng)
    place = itertools.count()

    def put_here(match: re.Match[str]) -> str:
        return put(match) if chosen is None or next(place) in chosen else match.group(0)

    text, n = outside_code(text, lambda part: pattern.subn(put_here, part), kept)
    return text, n if chosen is None else len(chosen)


def _places(n: int, share: float, rng: np.random.Generator) -> frozenset[int] | None:
    """The places used of n; None for all of them, so that nothing is drawn."""
    if share >= 1 or n == 0:
        return None
    return frozenset(int(place) for place in rng.choice(n, size=max(1, round(share * n)), replace=False))


def weave(text: str, rules: Offline, every: int, rng: np.random.Generator, share: float = 1.0) -> tuple[str, int]:
    """Put one of the sentences behind every so many sentences of prose."""
    if not rules.weave:
        return text, 0
    pool = _drawn(rules.weave, rng)
    chosen = _places(sum(len(sentences_of(line)) for line, prose in _lines(text) if prose) // every, share, rng)
    lines, n_sentences, n = [], 0, 0
    for line, is_prose in _lines(text):
        parts: list[str] = []
        n_before = n
        for sentence in sentences_of(line) if is_prose else ():
            parts.append(sentence)
            n_sentences += 1
            place, since = divmod(n_sentences, every)
            if since == 0 and (chosen is None or place - 1 in chosen):
                parts.append(pool[n % len(pool)])
                n += 1
        lines.append(" ".join(parts) if n > n_before else line)
    if n == 0 and not (rules.open_with or rules.close_with):
        lines[-1] = f"{lines[-1].rstrip()} {pool[0]}" if not LIST_LINE.match(lines[-1]) else lines[-1]
        n = int(not LIST_LINE.match(lines[-1]))
    return "\n".join(lines), n


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Every line, with True if it is prose: not in a list and not in a code block."""
    in_code = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        yield line, not (fence or in_code or LIST_LINE.match(line))


def lead(text: str, rules: Offline, rng: np.random.Generator, share: float = 1.0) -> tuple[str, int]:
    """Put phrases before sentences: before the first alone, or before one in every so many."""
    kept = [span.span() for span in _CODE_OR_ADDRESS.finditer(text)]
    starts = [
        match for match in _SENTENCE_START.finditer(text) if not any(low <= match.start(2) < high for low, high in kept)
    ]
    if not rules.lead_with or not starts:
        return text, 0
    wanted = starts[:1]
    if rules.lead_every is not None:
        wanted = starts[rules.lead_every - 1 :: rules.lead_every] or starts[:1]
    elif text[: wanted[0].start(2)].strip() and not LIST_LINE.match(text):
        return text, 0  # a header or a code block comes first
    chosen = _places(len(wanted), share, rng)
    pool = _drawn(rules.lead_with, rng)
    used = [match for place, match in enumerate(wanted) if chosen is None or place in chosen]
    for number, match in reversed(list(enumerate(used))):
        phrase = pool[number % len(pool)]
        word = match.group(2) if phrase[-1] in ".!?:" else _small(match.group(2), text)
        text = f"{text[: match.start(2)]}{phrase} {word}{text[match.end(2) :]}"
    return text, len(used)


def _small(word: str, text: str) -> str:
    """A sentence's first word further back in a sentence; a name, found with its capital elsewhere, keeps it."""
    if word[:2].isupper() or re.match(r"I\b", word) or re.search(rf"(?<=[a-z,] ){re.escape(word)}(?!\w)", text):
        return word
    return word[:1].lower() + word[1:]


def drop_leads(text: str, phrases: Sequence[str]) -> str:
    """Delete phrases before sentences, which begin with a capital again."""
    if not phrases:
        return text
    pattern = re.compile(
        rf"({_START})(?:{phrase_pattern(tuple(phrases)).pattern})[ \t]+(\S)", re.IGNORECASE | re.MULTILINE
    )
    return outside_code(text, lambda part: pattern.subn(lambda match: match.group(1) + match.group(2).upper(), part))[0]


def frame(text: str, rules: Offline, rng: np.random.Generator) -> tuple[str, int]:
    """Put an opening before or a closing behind, not both unless the rules ask for it, so that little else changes."""
    openings, closings = rules.open_with, rules.close_with
    if rules.frame == "both" and openings and closings:
        text = _opened(text, openings[int(rng.integers(len(openings)))])
        return _closed(text, closings[int(rng.integers(len(closings)))]), 2
    if not openings and not closings:
        return text, 0
    drawn = int(rng.integers(len(openings) + len(closings)))
    if drawn < len(openings):
        return _opened(text, openings[drawn]), 1
    return _closed(text, closings[drawn - len(openings)]), 1


def _opened(text: str, sentence: str) -> str:
    """Put a sentence first: on its own line in a list, in its own paragraph before or after a header."""
    text = text.lstrip()
    apart = sentence.startswith("#") or text.startswith(("#", "```"))
    return f"{sentence}{_gap_to(text, apart)}{text}"


def _closed(text: str, sentence: str) -> str:
    text = text.rstrip()
    return f"{text}{_gap_to(text, text.endswith('```'))}{sentence}"


def _gap_to(text: str, apart: bool) -> str:
    if apart:
        return "\n\n"
    return "\n" if n_list_lines(text) else " "


def restate(text: str, rules: Offline, wanted: int, rng: np.random.Generator) -> tuple[str, int]:
    """Say sentences again under a lead-in, in their order, until the text has the wanted words."""
    prose = [sentence for sentence in sentences_of(text) if not LIST_LINE.match(sentence) and n_words(sentence) > 3]
    leads = _drawn(rules.restate, rng)
    n = 0
    for _ in range(_MAX_RESTATED_ROUNDS):
        for sentence in prose:
            if n_words(text) >= wanted:
                return text, n
            keeps_capital = sentence[:2].isupper() or sentence.startswith("I ")
            again = sentence if keeps_capital else sentence[0].lower() + sentence[1:]
            text = f"{text.rstrip()} {leads[n % len(leads)]} {again}"
            n += 1
    return text, n


def _drop_restatements(text: str, lead: str) -> str:
    """Delete sentences that a lead-in repeats; one that says something new stays."""

    def put(match: re.Match[str]) -> str:
        said_before = match.string[: match.start()].lower()
        return "" if match.group(1).strip().lower() in said_before else match.group(0)

    return re.sub(r"(?:(?<![ \t])[ \t]+)?" + re.escape(lead) + r"([^.!?\n]*[.!?])", put, text)


def shorten(text: str, most_words: int) -> str | None:
    """Drop whole sentences of prose, not list lines or code, to at most so many words; None if the last one is still too long.
    First goes that with the fewest content words, per word, that no other sentence left holds."""
    is_prose = [prose for _, prose in _lines(text)]
    lines = [sentences_of(line) if prose else [line] for line, prose in _lines(text)]

    def joined() -> str:
        return re.sub(r"\n{3,}", "\n\n", "\n".join(map(" ".join, lines)))

    while n_words(joined()) > most_words:
        places = [(row, place) for row, line in enumerate(lines) if is_prose[row] for place in range(len(line))]
        if len(places) < 2:
            return None
        content = [_content(lines[row][place]) for row, place in places]
        counts = Counter(word for words_of in content for word in words_of)
        news = [
            sum(counts[word] == 1 for word in words_of) / max(1, n_words(lines[row][place]))
            for words_of, (row, place) in zip(content, places, strict=True)
        ]
        row, place = places[int(np.argmin(news))]
        del lines[row][place]
    return joined()


def _content(sentence: str) -> set[str]:
    """Content words by their first letters, so that inflections of one word are one."""
    return {word[:5].lower() for word in words(sentence) if len(word) > 3 and word.lower() not in STOP_WORDS["en"]}


def itemize(text: str, mark: Literal["bullet", "number"] = "bullet", share: float = 1.0) -> str | None:
    """Prose to list lines, one a sentence; short sentences join the one before. None below two sentences, or with code. With a
    smaller share the last sentences, two at least, become a list."""
    if "```" in text:
        return None
    items: list[str] = []
    for sentence in sentences_of(text):
        if items and (n_words(sentence) < 4 or n_words(items[-1]) < 4):
            items[-1] = f"{items[-1]} {sentence}"
        else:
            items.append(LIST_LINE.sub("", sentence))
    if len(items) < 2:
        return None
    n_prose = len(items) - max(2, round(share * len(items)))
    marked = [f"{at}. {item}" if mark == "number" else f"- {item}" for at, item in enumerate(items[n_prose:], 1)]
    return "\n".join([" ".join(items[:n_prose])] * (n_prose > 0) + marked)


def flatten(text: str) -> str:
    """List lines to prose: marks, bold and headers off, each line closed as a sentence."""
    parts = []
    for line in text.split("\n"):
        plain = re.sub(r"\*\*([^*]+)\*\*|__([^_]+)__", lambda m: m.group(1) or m.group(2), LIST_LINE.sub("", line))
        plain = re.sub(r"^[ \t]*#{1,6}[ \t]+", "", plain).strip()
        if plain:
            parts.append(plain if plain[-1] in ".!?:;,\"'" else plain + ".")
    return " ".join(re.sub(r":$", ".", part) if index < len(parts) - 1 else part for index, part in enumerate(parts))


def _drawn(options: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [options[index] for index in rng.permutation(len(options))]
