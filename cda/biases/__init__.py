"""Bias files: a bias is one YAML file, built in or the user's own; its schema, and loading one by name or by path."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from cda.errors import DataError, RecipeError, did_you_mean
from cda.features import FEATURE_NAMES, PATTERN_FEATURES, measure
from cda.files.paths import is_reserved
from cda.files.shipped import names_in
from cda.files.yaml_file import find_yaml, read_yaml_mapping, validated
from cda.languages import same_language
from cda.patterns import SlowPatternError, compiled

Text = Annotated[str, Field(min_length=1)]
SHORT_NAME = 30  # characters that tables and figures have room for
_FOLDER = Path(__file__).parent
_NO_PATTERN = (re.error, OverflowError, RecursionError)
"""Errors of `re` for a pattern that is none, repeats too often, or is nested too deeply."""


def _known(feature: str) -> str:
    if feature not in FEATURE_NAMES:
        raise ValueError(f"unknown feature.{did_you_mean(feature, FEATURE_NAMES)} Known: {', '.join(FEATURE_NAMES)}")
    return feature


def _of_a_file(name: str) -> str:
    if is_reserved(name):
        raise ValueError("Windows keeps this name for a device, and files are named after biases; choose another")
    return name


def _compilable(pattern: str) -> str:
    try:
        compiled(pattern)
    except _NO_PATTERN as error:
        raise ValueError(f"not a regular expression ({error})") from None
    return pattern


Feature = Annotated[str, AfterValidator(_known)]
ShortName = Annotated[str, Field(max_length=SHORT_NAME, pattern=r"^\S(?:.*\S)?$")]


class _BiasPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BiasMeasure(_BiasPart):
    """The measurable feature of the bias, and the threshold from which a response exhibits it."""

    feature: Feature
    present_above: float | None = None
    present_below: float | None = None
    relative: bool = False
    """Compare the ratio to the other side of the pair instead of the value itself (length)."""

    @model_validator(mode="after")
    def _one_threshold(self) -> BiasMeasure:
        if (self.present_above is None) == (self.present_below is None):
            raise ValueError("give exactly one of present_above, present_below")
        return self

    def holds(self, value: float, reference: float = 1.0) -> bool | None:
        """True for a response whose feature has this value, next to one with the other value if the measure is relative; None if
        either is NaN."""
        value = value / reference if reference else float("inf")
        if math.isnan(value):
            return None
        return value > self.present_above if self.present_above is not None else value < (self.present_below or 0.0)


class Tolerance(_BiasPart):
    """Limit of the change of one feature by a rewrite: within `ratio` or within `difference`."""

    ratio: Annotated[float, Field(ge=1)] | None = None
    """Larger value over smaller one."""
    difference: Annotated[float, Field(ge=0)] | None = None
    """In the feature's own unit."""

    @model_validator(mode="after")
    def _says_something(self) -> Tolerance:
        if self.ratio is None and self.difference is None:
            raise ValueError("give ratio, difference, or both; null for the whole entry where nothing is to be limited")
        return self


class Instructions(_BiasPart):
    """A rewriter's instructions, in each direction."""

    add: Text
    remove: Text


class Swap(_BiasPart):
    """One replacement of the offline rewriter: a regular expression and its substitute."""

    find: Annotated[Text, AfterValidator(_compilable)]
    put: str | list[str]
    addresses: bool = False
    """True if it also acts within web addresses (links), which are left alone otherwise; code always is."""

    @model_validator(mode="after")
    def _groups_exist(self) -> Swap:
        for put in self.options():
            try:
                # The empty alternative makes the pattern match, so that the template is checked without a text.
                match = re.compile(f"{self.find}|").match("")
                if match is not None:
                    match.expand(put)
            except (*_NO_PATTERN, IndexError) as error:
                raise ValueError(f"put {put!r} does not fit find ({error})") from None
        return self

    def options(self) -> list[str]:
        """The wordings to choose from."""
        return [self.put] if isinstance(self.put, str) else self.put


class Offline(_BiasPart):
    """Rules that stand in for an LLM rewriter when there is none. Every part is optional."""

    words: dict[str, str] = {}
    """Plain word or phrase to biased one; read backwards when the bias is removed."""
    swaps_add: list[Swap] = []
    swaps_remove: list[Swap] = []
    open_with: list[str] = []
    weave: list[str] = []
    """Sentences put between the response's own; one for each `weave_every` sentences."""
    weave_every: Annotated[int, Field(ge=1)] = 3
    close_with: list[str] = []
    restate: list[str] = []
    """Lead-ins under which sentences already said are said again (length)."""
    lead_with: list[str] = []
    """Phrases put before sentences (`It is important to note that`), which go on with a small letter after a letter or comma."""
    lead_every: Annotated[int, Field(ge=1)] | None = None
    """One phrase for each so many sentences; none: before the first sentence alone."""
    frame: Literal["either", "both"] = "either"
    """`both`: an opening and a closing together, if there are both."""
    itemize: bool = False
    """Sentences become list lines, and list lines sentences."""
    item_mark: Literal["bullet", "number"] = "bullet"
    shorten_to: Annotated[float, Field(gt=0, lt=1)] | None = None
    """When the bias is removed: share of the words that may be left. Whole sentences are dropped, the one that says least
    first; a response of one long sentence cannot be cut, which is a failed rewrite (length)."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the possible places for words, swaps, woven sentences and phrases; one place at least."""
    reverse: Annotated[bool, Field(exclude_if=lambda value: not value)] = False
    """Read these rules backwards: they are those of the opposite, so that adding the bias takes out what they put in."""
    min_changes: Annotated[int, Field(ge=1)] = 1
    """Fewer edits than this is a failed rewrite."""

    def phrases(self) -> tuple[str, ...]:
        """Every biased wording these rules can put into a text."""
        swapped = [put for swap in self.swaps_add for put in swap.options() if "\\" not in put]
        return (*self.words.values(), *swapped, *self.sentences(), *self.restate, *self.lead_with)

    def sentences(self) -> tuple[str, ...]:
        """Every sentence these rules can put before, between or behind a response's own."""
        return (*self.open_with, *self.weave, *self.close_with)


class Bias(_BiasPart):
    """A bias, as its file describes it."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$"), AfterValidator(_of_a_file)]
    description: Text
    opposite: Annotated[Text | None, Field(exclude=True)] = None
    """One or two words for the answer without the bias (`shorter`), for verdicts on a model that prefers it. It decides no result, so
    that stages do not depend on it."""
    short_name: Annotated[ShortName | None, Field(exclude=True)] = None
    """At most 30 characters that tables, figures and terminals have in place of its name, or of a discovery's words. It decides no result."""
    question: Text
    """Yes/no question about one response, asked when an LLM labels."""
    query_question: Text | None = None
    """Yes/no question about the user's message, asked with it: does the message itself call for the attribute?"""
    aspects: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")], Text] = {}
    """Further yes/no questions about each response, by name; their answers are stored with the label and do not change it."""
    instructions: Instructions
    keep: list[Text] = Field(min_length=1)
    """Things that must stay the same in a rewrite."""
    limits: dict[Feature, Tolerance | None] = {}
    """Replaces the fidelity gate's own limits for rewrites of this bias, by feature; null lifts one."""
    measure: BiasMeasure | None = None
    markers: list[str] = []
    """Phrases counted by the feature `markers_per_100_words`."""
    pattern: Annotated[Text, AfterValidator(_compilable)] | None = None
    """Regular expression whose matches are counted by `pattern_count` and `pattern_per_100_words`. `^` and `$` stand for the
    ends of a line, `\\A` and `\\Z` for those of the response; `(?i)` before it makes it take either case."""
    treatment: list[Feature] = []
    """The features that are the bias itself: a difference in them between two sides of a pair is not drift."""
    label_by: Literal["ask", "measure"] = "ask"
    """`measure`: labelled by its feature even if an LLM is available (length)."""
    eligible: Literal["neither", "chosen_longer"] = "neither"
    """Pairs that become counterfactuals: neither side exhibits the bias, or the chosen side is the longer one."""
    min_words_of_chosen: Annotated[float, Field(gt=0)] | None = None
    """A rewritten rejected response must have this many times the words of chosen."""
    offline: Offline | None = None
    topic: Annotated[Text | None, Field(exclude_if=lambda value: value is None)] = None
    """The topic of the prompts on which a discovery by topic confirmed it; `cda train` then takes pairs of this topic, if they
    name topics."""
    _file: str | None = PrivateAttr(None)
    """Path for error messages; not part of the bias's content."""
    _phrases: tuple[object, object, str] = PrivateAttr((None, None, ""))
    """Its markers and rules, and their phrases as one text."""

    @model_validator(mode="after")
    def _own_features_given(self) -> Bias:
        lacking = {} if self.markers else {"markers_per_100_words": "markers is empty"}
        lacking |= {} if self.pattern is not None else dict.fromkeys(PATTERN_FEATURES, "there is no pattern")
        named = {"measure.feature is": [self.measure.feature] if self.measure else []}
        named |= {"treatment names": self.treatment, "limits names": [*self.limits]}
        for where, features in named.items():
            for feature, why in lacking.items():
                if feature in features:
                    raise ValueError(f"{where} {feature}, but {why}")
        if self.label_by == "measure" and self.measure is None:
            raise ValueError("label_by is measure, but there is no measure")
        return self

    def measured(self, text: str, feature: str) -> float:
        """One feature of one response, by this bias's own markers and pattern if it is computed from them; NaN if it does not
        hold for this text, and for markers in another language. DataError: the pattern takes too long over this text;
        KeyError and ValueError as of `features.measure`."""
        if feature == "markers_per_100_words" and not self.speaks_as(text):
            return math.nan
        try:
            return measure(text, feature, self.markers, self.pattern)
        except SlowPatternError as error:
            raise self.too_slow("pattern", error) from None

    def speaks_as(self, text: str) -> bool:
        """False if a text is in another language than this bias's own phrases: its markers, and what its rules take and put."""
        markers, offline, phrases = self._phrases
        if markers is not self.markers or offline is not self.offline:  # another's, of which this is a copy
            rules = self.offline or Offline()
            phrases = " ".join([*self.markers, *rules.words, *rules.phrases()])
            self._phrases = self.markers, self.offline, phrases
        return same_language(phrases, text, min_letters=4)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bias) and self.__dict__ == other.__dict__  # wherever it was read from

    def too_slow(self, setting: str, error: SlowPatternError) -> DataError:
        """A stopped pattern as an error that names its file and setting."""
        return DataError(f"{self._file or f'bias {self.name}'}: {setting}: {error}")

    @property
    def treated(self) -> set[str]:
        """Features that are the bias itself: its treatment, and what its measure looks at."""
        return {*self.treatment, *([self.measure.feature] if self.measure else [])}

    def respaced(self, one: str, other: str) -> bool:
        """True if two responses that hold the same words differ in white space that is this bias itself."""
        return any(
            self.measured(one, name) != self.measured(other, name)
            for name in ("wide_spaces", *PATTERN_FEATURES)
            if name in self.treated
        )

    def shows(self, text: str, other: str | None = None) -> bool | None:
        """True if a response exhibits the bias as measured, next to `other` if the measure is relative; None without a measure, and
        for a text for which it does not hold."""
        rule = self.measure
        if rule is None:
            return None
        return rule.holds(
            self.measured(text, rule.feature), self.measured(other or "", rule.feature) if rule.relative else 1.0
        )


def builtin_names() -> list[str]:
    """Names of the bias files shipped with the package."""
    return names_in(_FOLDER)


def load_bias(reference: str, base_folder: Path | None = None) -> Bias:
    """A bias by built-in name, or by the path of a YAML file, relative to base_folder or the current folder. A file with
    `like: NAME` has the fields of that built-in bias where it does not state its own. RecipeError: unknown name, missing file,
    or every mistake in the file."""
    path = find_yaml(reference, _FOLDER, base_folder, "bias", "Known: {names}, or the path of a bias file")
    return _shipped(path) if path.parent == _FOLDER else _read(path)


@cache
def _shipped(path: Path) -> Bias:
    """A bias that ships with the package, read once: its file stays, and parsing all of them takes a quarter of a second."""
    return _read(path)


def _read(path: Path) -> Bias:
    bias = validated(_with_what_it_is_like(read_yaml_mapping(path), path), Bias, path)
    bias._file = str(path)
    return bias


def _with_what_it_is_like(content: dict[Any, Any], path: Path) -> dict[Any, Any]:
    """The content of a bias file, with the fields of the built-in bias that `like` names and the file does not state."""
    if "like" not in content:
        return content
    other, own = str(content["like"]), {key: value for key, value in content.items() if key != "like"}
    if other not in (names := builtin_names()):
        hint = did_you_mean(other, names)
        raise RecipeError([f"{path}: like: '{other}' is no built-in bias.{hint} Known: {', '.join(names)}"])
    return {**read_yaml_mapping(_FOLDER / f"{other}.yaml"), **own}
