"""What an audit measures on: contrasts with people's votes, RATE triples, held-out quality pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cda.biases import Bias, builtin_names
from cda.data.contrasts import CleanContrasts, clean_contrasts, with_votes
from cda.data.load import load_rows
from cda.data.pairs import PairLabels, load_labels
from cda.data.quality_sets import QualitySet
from cda.data.release import SOURCE, release_folder, released_contrasts, released_labels, released_triples
from cda.data.triples import CleanTriples, clean_triples
from cda.data.votes import Votes, load_votes
from cda.embedded.model import NAME as EMBEDDED
from cda.embedded.texts import audit_contrasts, authored_contrasts, authored_responses, authored_triples
from cda.errors import DataError
from cda.features import n_words
from cda.launch import say
from cda.llm.money import tokens_of
from cda.recipe.load import LoadedRecipe
from cda.records import Contrast, Exclusions, Pair, Prompt, RewriteRequest, Triple, count_reasons, text_key
from cda.resources.llm_access import llm_access
from cda.resources.sources import load_quality_source, rewriter
from cda.resources.spending import Planned
from cda.results.rate import Flips
from cda.rewriting.rewriter import Rewriter
from cda.rewriting.triples import Original, checked_triples, flips_of, make_triples
from cda.stats.streams import drawn

EMBEDDED_TEXTS = "embedded texts"
"""How a result names the authors of the embedded triples."""
_INSTRUCTION_TOKENS = 300
_RATE_BY_RULES = 40
_LABELLED_FOR_EACH = 4
"""Answers that an LLM labels for each original with the bias, and each without it, that is wanted."""


@dataclass(frozen=True, slots=True)
class AuditTexts:
    """Everything an audit scores, and what was left out before.

    Attributes:
        contrasts: Of every bias that is audited.
        triples: Of the biases that have them, as far as both rewrites flipped the bias.
        released_triples: All triples of the paper's release, of biases whose triples are of it; the paper leaves none out.
        pairs: Quality pairs.
        quality: The set that they are of, with the section of each; None where there are none.
        available_pairs: Quality pairs before a sample was drawn.
        available: Contrasts of each bias before a sample was drawn.
        excluded: Rows of the user's files that could not be used, by file.
        failed: For biases without contrasts of their own, rewrites that failed.
        flips: For biases with triples, how many originals could be flipped and back, and who says so.
        triples_failed: For the same biases, triples that were left out, by reason.
        votes_unmatched: Items of the files of votes and verdicts that are none of the contrasts.
    """

    contrasts: tuple[Contrast, ...]
    triples: tuple[Triple, ...]
    released_triples: tuple[Triple, ...]
    pairs: tuple[Pair, ...]
    quality: QualitySet | None
    available_pairs: int
    available: Mapping[str, int]
    excluded: Mapping[str, Exclusions]
    failed: Mapping[str, Exclusions]
    flips: Mapping[str, Flips]
    triples_failed: Mapping[str, Exclusions]
    votes_unmatched: int


@dataclass(frozen=True, slots=True)
class _Triples:
    triples: tuple[Triple, ...]
    released: tuple[Triple, ...]
    flips: Mapping[str, Flips]
    failed: Mapping[str, Exclusions]


def load_audit_texts(loaded: LoadedRecipe) -> AuditTexts:
    """Load, make and draw everything; asks the recipe's rewriter only for what no file and no embedded text offers.

    A file's contrasts stand for the biases they are of. The five biases with embedded texts fall back on those; any other
    bias on embedded answers rewritten by the rewriter. A recipe that trains is audited on every embedded bias, to see what
    else moves; an audit alone on the biases that were asked for.
    """
    audit, seed = loaded.recipe.audit, loaded.recipe.seed
    votes, verdicts = _opinions(loaded)
    own = own_contrasts(loaded)
    named = [bias.name for bias in loaded.biases]
    covered = {contrast.bias for contrast in own.contrasts}
    embedded = [
        one for one in audit_contrasts() if one.bias not in covered and (one.bias in named or not loaded.only_audit)
    ]
    embedded, unread = with_votes(embedded, votes, verdicts)
    covered |= {one.bias for one in embedded}
    rewritten: list[Contrast] = []
    failed: dict[str, Exclusions] = {}
    for bias in loaded.biases:
        if bias.name not in covered:
            contrasts, failed[bias.name] = _rewritten_contrasts(
                bias, rewriter(loaded.recipe.synthesize, loaded.biases, loaded.recipe.seed, llm_access(loaded))
            )
            rewritten += contrasts
    quality = load_quality(loaded)
    excluded = {"contrasts": own.exclusions, "votes": _sum(own.votes, unread)}
    if own.ids.exclusions.dropped:
        excluded["ids of contrasts"] = own.ids.exclusions
    available_pairs = len(quality.items) if quality else 0
    if quality is not None:
        excluded["quality pairs"] = quality.exclusions
        quality = replace(quality, items=tuple(drawn(quality.items, audit.max_quality, seed)))
    release = released(loaded)
    for name, texts in release.items():
        excluded[f"{SOURCE}: pairs of {name}"] = texts.contrasts.exclusions
        excluded[f"{SOURCE}: votes on {name}"] = texts.contrasts.votes
        excluded[f"{SOURCE}: triples of {name}"] = texts.triples.exclusions
    rated = _triples(loaded, release, excluded)
    groups: dict[str, list[Contrast]] = {}
    for contrast in (*own.contrasts, *embedded, *rewritten):
        groups.setdefault(contrast.bias, []).append(contrast)
    if audit.contrasts != EMBEDDED:
        say(f"  {audit.contrasts}: {own.exclusions}")
        if own.ids.notice:
            say(f"  {audit.contrasts}: {own.ids.notice}")
    everything = [one for group in groups.values() for one in group]
    unmatched = sum(
        _matched(items, str(name), everything) for name, items in ((audit.votes, votes), (audit.verdicts, verdicts))
    )
    _check_readable(loaded, everything, votes, verdicts)
    if excluded["votes"].dropped:
        say(f"  votes: {excluded['votes']}; the words are perturbed, base, response_1, response_2 and tie")
    if verdicts and not any(one.votes or one.preferred for one in everything):
        say(f"  {audit.verdicts}: not used, because nobody voted on any contrast; verdicts stretch votes")
    return AuditTexts(
        contrasts=tuple(one for group in groups.values() for one in drawn(group, audit.max_contrasts, seed)),
        triples=rated.triples,
        released_triples=rated.released,
        pairs=quality.pairs if quality else (),
        quality=quality,
        available_pairs=available_pairs,
        available={name: len(group) for name, group in groups.items()},
        excluded=excluded,
        failed=failed,
        flips=rated.flips,
        triples_failed=rated.failed,
        votes_unmatched=unmatched,
    )


def load_quality(loaded: LoadedRecipe) -> QualitySet | None:
    """Held-out quality pairs of a recipe, with their sections; None where it asks for none.

    Raises:
        DataError: Cannot be loaded, or has several responses on a side, which `cda quality` ranks and an audit does not.
    """
    audit = loaded.recipe.audit
    if audit.quality is None:
        return None
    reference, split, columns = audit.quality, audit.quality_split, audit.quality_columns
    known_by = ("quality", reference, split, *sorted(columns.items()))
    found = loaded.opened.once(known_by, lambda: load_quality_source(reference, split, columns))
    if any(len(one.chosen) != 1 or len(one.rejected) != 1 for one in found.items):
        raise DataError(
            f"{audit.quality}: read as {found.format}, whose items have several responses on a side; an audit takes one pair a "
            f"row. `cda quality MODEL {audit.quality}` ranks them"
        )
    return found


def own_contrasts(loaded: LoadedRecipe) -> CleanContrasts:
    """Contrasts of the user's file, and of the paper's release for biases that the file is not of. Reads, and spends nothing.

    None where the recipe names neither. What is counted is the file's; see `released`.
    """
    return loaded.opened.once(("contrasts", *_decides(loaded)), lambda: _own_contrasts(loaded))


def _own_contrasts(loaded: LoadedRecipe) -> CleanContrasts:
    audit = loaded.recipe.audit
    votes, verdicts = _opinions(loaded)
    names = [bias.name for bias in loaded.biases]
    own = CleanContrasts((), Exclusions(0, {}), Exclusions(0, {}))
    if audit.contrasts != EMBEDDED:
        own = clean_contrasts(load_rows(audit.contrasts), names, audit.columns, audit.contrasts, votes, verdicts)
        if audit.votes is None and own.votes.seen and own.votes.dropped == own.votes.seen:
            raise _unreadable(audit.contrasts, own.votes)
    covered = {contrast.bias for contrast in own.contrasts}
    more = [one for name, found in released(loaded).items() if name not in covered for one in found.contrasts.contrasts]
    return replace(own, contrasts=(*own.contrasts, *more)) if more else own


@dataclass(frozen=True, slots=True)
class ReleasedTexts:
    """What the paper's release holds of one bias to be scored."""

    contrasts: CleanContrasts
    triples: CleanTriples

    @property
    def n_triples_voted(self) -> int:
        """Triples whose two rewrites are the sides of a pair that people voted on."""
        pairs = [one for one in self.contrasts.contrasts if one.votes or one.preferred]
        voted = {text_key(one.prompt, one.perturbed, one.base) for one in pairs}
        sides = [text_key(one.prompt, one.rewrite, one.rewrite_of_rewrite) for one in self.triples.triples]
        return sum(one in voted for one in sides)


def released(loaded: LoadedRecipe) -> dict[str, ReleasedTexts]:
    """Texts of the paper's release for each of the recipe's biases; empty where the recipe names no release.

    Raises:
        DataError: No such folder, nothing of these biases in it, or a file in another layout.
    """
    reference = loaded.recipe.audit.release
    if reference is None:
        return {}
    names = [bias.name for bias in loaded.biases]

    def read() -> dict[str, ReleasedTexts]:
        folder = release_folder(reference, names)
        return {name: ReleasedTexts(released_contrasts(folder, name), released_triples(folder, name)) for name in names}

    return loaded.opened.once(("release", reference, *names), read)


def given_labels(loaded: LoadedRecipe) -> dict[str, PairLabels]:
    """Labels of preference pairs that the recipe names, by bias: of `audit.labels`, and of the release for the others."""
    return loaded.opened.once(("labels", *_decides(loaded)), lambda: _given_labels(loaded))


def _given_labels(loaded: LoadedRecipe) -> dict[str, PairLabels]:
    audit, names = loaded.recipe.audit, [bias.name for bias in loaded.biases]
    found = load_labels(audit.labels, names) if audit.labels else {}
    if audit.release is not None:
        folder = release_folder(audit.release, names)
        more = {name: released_labels(folder, name) for name in names if name not in found}
        found |= {name: one for name, one in more.items() if one is not None}
    return found


def audited_contrasts(loaded: LoadedRecipe) -> list[Contrast]:
    """Contrasts that the audit measures on, as far as they exist beforehand: the user's and the embedded ones."""
    embedded, _ = with_votes(audit_contrasts(), *_opinions(loaded))
    return [*own_contrasts(loaded).contrasts, *embedded]


def audited_prompts(loaded: LoadedRecipe) -> list[Prompt]:
    """Prompts of everything that the audit measures on, as far as it exists beforehand."""
    quality = load_quality(loaded)
    return [
        *(one.prompt for one in audited_contrasts(loaded)),
        *(one.prompt for one in own_triples(loaded).triples),
        *(one.prompt for texts in released(loaded).values() for one in texts.triples.triples),
        *(item.prompt for item in (quality.items if quality else ())),
    ]


def taught_contrasts(loaded: LoadedRecipe) -> CleanContrasts:
    """Contrasts of `data.contrasts`, of the recipe's biases and of any built-in one. Reads, and spends nothing."""
    settings = (loaded.recipe.data.model_dump_json(), *(bias.name for bias in loaded.biases))
    return loaded.opened.once(("taught contrasts", *settings), lambda: _taught_contrasts(loaded))


def _taught_contrasts(loaded: LoadedRecipe) -> CleanContrasts:
    data = loaded.recipe.data
    names = list(dict.fromkeys([*(bias.name for bias in loaded.biases), *builtin_names()]))
    path = str(data.contrasts)
    rows = load_rows(path)
    has_column = any(data.contrast_columns.get("bias", "bias") in row for row in rows)
    # Without a column of biases they are of the recipe's only one.
    known = names if has_column else [bias.name for bias in loaded.biases]
    return clean_contrasts(rows, known, data.contrast_columns, path, setting="data.contrast_columns")


def own_triples(loaded: LoadedRecipe) -> CleanTriples:
    """RATE triples of the user's file; none if the recipe names no file. Reads, and spends nothing."""
    audit = loaded.recipe.audit
    if audit.triples in (None, EMBEDDED):
        return CleanTriples((), Exclusions(0, {}))
    names, where = [bias.name for bias in loaded.biases], str(audit.triples)

    def read() -> CleanTriples:
        return clean_triples(load_rows(where), names, audit.triple_columns, where, audit.attribute)

    return loaded.opened.once(("triples", *_decides(loaded)), read)


def _decides(loaded: LoadedRecipe) -> tuple[str, ...]:
    """Everything that says which of the audit's files are read, and how."""
    return loaded.recipe.audit.model_dump_json(), *(bias.name for bias in loaded.biases)


def _opinions(loaded: LoadedRecipe) -> tuple[Votes, Votes]:
    """People's votes and judges' verdicts from files of their own."""

    def read(reference: str | None) -> Votes:
        return loaded.opened.once(("votes", reference), lambda: load_votes(reference)) if reference else {}

    return read(loaded.recipe.audit.votes), read(loaded.recipe.audit.verdicts)


def _triples(loaded: LoadedRecipe, release: Mapping[str, ReleasedTexts], excluded: dict[str, Exclusions]) -> _Triples:
    """Triples of each bias: the file's, else the paper's release's, else the embedded ones, else such as the rewriter makes from embedded answers."""
    audit = loaded.recipe.audit
    own = own_triples(loaded)
    if audit.triples not in (None, EMBEDDED):
        excluded["triples"] = own.exclusions
        say(f"  {audit.triples}: {own.exclusions}")
    found: list[Triple] = []
    of_release: list[Triple] = []
    too_long: list[Triple] = []
    flips: dict[str, Flips] = {}
    failed: dict[str, Exclusions] = {}
    for bias in loaded.biases:
        given, by, checked_by = _given_triples(bias, own, release, loaded)
        if by == SOURCE:
            of_release += given
        if given:
            kept, reasons = checked_triples(given, bias)
            flips[bias.name] = flips_of([one.has_attribute for one in given], kept, by, checked_by)
            failed[bias.name] = Exclusions(len(given), count_reasons(reasons))
        elif n_each := _rate(bias, loaded):
            kept, flips[bias.name], failed[bias.name] = _made_triples(bias, n_each, loaded)
        else:
            continue
        found += kept
        long = [one for one in kept if audit.max_triple_words and _longest(one) > audit.max_triple_words]
        flips[bias.name] = flips[bias.name].less(long)
        too_long += long
        if failed[bias.name].dropped:
            say(f"  triples of {bias.name}: {failed[bias.name]}")
    if too_long:
        reason = "a version is longer than audit.max_triple_words"
        excluded["triples by length"] = Exclusions(len(found), {reason: len(too_long)})
        say(f"  triples: {excluded['triples by length']}")
    short = tuple(one for one in found if one not in too_long)
    return _Triples(short, tuple(of_release), flips, failed)


def _given_triples(
    bias: Bias, own: CleanTriples, release: Mapping[str, ReleasedTexts], loaded: LoadedRecipe
) -> tuple[list[Triple], str, str | None]:
    """Triples that exist already, who made them, and who or what says that their rewrites flipped the bias."""
    audit = loaded.recipe.audit
    of_file = [triple for triple in own.triples if triple.bias == bias.name]
    if of_file:
        return of_file, str(audit.triples), _told_by(of_file, bias)
    if audit.triples is None:
        return [], "", None
    if bias.name in release and (of_paper := release[bias.name].triples.triples):
        return list(of_paper), SOURCE, _measure_name(bias)
    if audit.rate:
        return [], "", None
    return [one.triple for one in authored_triples([bias.name])], EMBEDDED_TEXTS, "blind readers"


def _rate(bias: Bias, loaded: LoadedRecipe) -> int:
    """How many answers with the bias, and as many without, are rewritten to make triples of it."""
    recipe = loaded.recipe
    if recipe.audit.rate is not None or recipe.audit.triples is None:
        return recipe.audit.rate or 0
    return 0 if recipe.rewrites_by_llm or bias.offline is None else _RATE_BY_RULES


def _made_triples(bias: Bias, n_each: int, loaded: LoadedRecipe) -> tuple[list[Triple], Flips, Exclusions]:
    """Triples made now, by the recipe's rewriter behind its gate."""
    recipe = loaded.recipe
    by_llm = recipe.rewrites_by_llm
    labels_by_llm = by_llm and bias.label_by == "ask"
    originals, unlabelled = _originals(bias, n_each, loaded, labels_by_llm)
    if by_llm:
        llm_access(loaded).confirm(_planned(originals, bias, loaded))
    writes = rewriter(loaded.recipe.synthesize, loaded.biases, loaded.recipe.seed, llm_access(loaded))
    made, failed = make_triples(originals, bias, writes)
    kept, reasons = checked_triples(made, bias)  # without a gate nobody has looked at them yet
    left_out = Counter(failed.reasons) + Counter(reasons) + Counter(unlabelled)
    by_label = labels_by_llm and recipe.synthesize.gate.on
    checked_by = f"labels of {recipe.llm.model}" if by_label else _measure_name(bias)
    flips = flips_of([one.has_attribute for one in originals], kept, writes.name, checked_by, made=True)
    return kept, flips, Exclusions(len(originals) + sum(unlabelled.values()), dict(sorted(left_out.items())))


def _told_by(triples: Sequence[Triple], bias: Bias) -> str | None:
    """Who says that the rewrites of a file's triples flipped the bias: its column `flipped`, the measure, or both in part."""
    n_labelled = sum(triple.flipped is not None for triple in triples)
    if n_labelled == 0:
        return _measure_name(bias)
    others = _measure_name(bias) or "nothing"
    rest = f" in {n_labelled} of {len(triples)} rows, {others} in the others" if n_labelled < len(triples) else ""
    return f"the column flipped{rest}"


def _measure_name(bias: Bias) -> str | None:
    return f"measured {bias.measure.feature.replace('_', ' ')}" if bias.measure else None


def _planned(originals: Sequence[Original], bias: Bias, loaded: LoadedRecipe) -> Planned:
    """Two rewrites of each, and a label of each rewrite where the gate asks."""
    mean = sum(tokens_of(one.response) for one in originals) / max(1, len(originals))
    calls = 2 * len(originals) * (2 if loaded.recipe.synthesize.gate.on and bias.label_by == "ask" else 1)
    return Planned(f"rewriting for the RATE triples of {bias.name}", calls, mean + _INSTRUCTION_TOKENS, mean)


def _longest(triple: Triple) -> int:
    return max(map(n_words, (triple.original, triple.rewrite, triple.rewrite_of_rewrite)))


def _originals(
    bias: Bias, n_each: int, loaded: LoadedRecipe, labels_by_llm: bool
) -> tuple[list[Original], dict[str, int]]:
    """Embedded answers with the bias and without it, and how many more could not be labelled.

    Of the five embedded biases the authors say which answers have them. Of any other one the LLM or the measure says so;
    of a bias that one answer by itself cannot show, plain answers are the ones without it, and there are none with it.
    """
    seed = loaded.recipe.seed
    without = [Original(one.prompt, one.base, False) for one in authored_contrasts("audit", [bias.name])]
    having = [Original(one.prompt, one.perturbed, True) for one in authored_contrasts("shown", [bias.name])]
    unlabelled = 0
    if not without:
        plain = [(one.prompt, one.base) for one in authored_contrasts("audit", ["jargon"])]
        answers = [*plain, *((one.prompt, text) for one in authored_responses() for text in one.responses)]
        labels: Sequence[bool | None]
        if labels_by_llm:
            answers = drawn(answers, _LABELLED_FOR_EACH * n_each, seed)
            llm_access(loaded).confirm(
                Planned(f"labelling answers for {bias.name}", len(answers), _INSTRUCTION_TOKENS, 20)
            )
            labeller = llm_access(loaded).labeller()
            labels = labeller([prompt for prompt, _ in answers], [text for _, text in answers], bias)
        elif bias.measure is not None and not bias.measure.relative:
            labels = [bias.shows(text) for _, text in answers]
        else:
            answers, labels = plain, [False] * len(plain)
        pool = zip(answers, labels, strict=True)
        originals = [Original(prompt, text, label) for (prompt, text), label in pool if label is not None]
        unlabelled = len(answers) - len(originals)
        without = [one for one in originals if not one.has_attribute]
        having = [one for one in originals if one.has_attribute]
    found = [*drawn(without, n_each, seed), *drawn(having, n_each, seed)]
    return found, {"its label could not be read": unlabelled} if unlabelled else {}


def _rewritten_contrasts(bias: Bias, by: Rewriter) -> tuple[list[Contrast], Exclusions]:
    """Direct contrasts: embedded base answers against the same with the bias added."""
    bases = {one.base: one for one in authored_contrasts("audit", ["jargon"])}.values()
    requests = [RewriteRequest(one.prompt, one.base, "add") for one in bases]
    contrasts, reasons = [], []
    for one, rewrite in zip(bases, by.rewrite(requests, bias), strict=True):
        if rewrite.text is None:
            reasons.append(rewrite.reason or "no text")
        else:
            source = f"embedded answers rewritten by {by.name}"
            contrasts.append(Contrast(bias.name, one.prompt, rewrite.text, one.base, tags={"source": source}))
    return contrasts, Exclusions(len(requests), count_reasons(reasons))


def _sum(one: Exclusions, other: Exclusions) -> Exclusions:
    reasons = {
        name: one.reasons.get(name, 0) + other.reasons.get(name, 0) for name in sorted({*one.reasons, *other.reasons})
    }
    return Exclusions(one.seen + other.seen, reasons)


def check_opinions(loaded: LoadedRecipe) -> None:
    """Read the files of votes and verdicts next to the contrasts that exist already. Spends nothing.

    Raises:
        DataError: A file has none of the contrasts' ids, or no word that is a vote. Of a bias whose contrasts are made later,
            only that a file cannot be read.
    """
    votes, verdicts = _opinions(loaded)
    if not votes and not verdicts:
        return
    contrasts = audited_contrasts(loaded)
    if {bias.name for bias in loaded.biases} <= {one.bias for one in contrasts}:
        for name, items in ((loaded.recipe.audit.votes, votes), (loaded.recipe.audit.verdicts, verdicts)):
            _check_matched(items, str(name), contrasts)
    _check_readable(loaded, contrasts, votes, verdicts)


def _check_readable(loaded: LoadedRecipe, contrasts: Sequence[Contrast], votes: Votes, verdicts: Votes) -> None:
    """Each file of votes holds one that was read, where it has any contrast's id.

    Raises:
        DataError: It has none.
    """
    audit = loaded.recipe.audit
    read = {"votes": lambda one: one.votes, "verdicts": lambda one: one.verdicts}
    for kind, name, items in (("votes", audit.votes, votes), ("verdicts", audit.verdicts, verdicts)):
        of_file = [one for one in contrasts if any(item in items for item in one.ids)]
        if of_file and not any(map(read[kind], of_file)):
            words = [word for listed in items.values() for word in listed]
            reasons = count_reasons([f"unreadable vote '{word[:40]}'" for word in words])
            raise _unreadable(str(name), Exclusions(len(words), reasons))


def _unreadable(name: str, votes: Exclusions) -> DataError:
    most = sorted(votes.reasons.items(), key=lambda one: -one[1])[:3]
    found = ", ".join(f"{n} × {reason}" for reason, n in most)
    return DataError(
        f"{name}: none of its {votes.seen} votes can be read ({found}{', …' * (len(votes.reasons) > 3)}); the words are perturbed, "
        "base, response_1, response_2 and tie"
    )


def _matched(votes: Votes, name: str, contrasts: Sequence[Contrast]) -> int:
    """How many items of a file are none of the contrasts; said, where there are any.

    Raises:
        DataError: All of them: then the ids are of something else.
    """
    missing = _check_matched(votes, name, contrasts)
    if missing:
        say(f"  {name}: {missing} of {len(votes)} items are none of the contrasts")
    return missing


def _check_matched(votes: Votes, name: str, contrasts: Sequence[Contrast]) -> int:
    items = [str(one.tags["item"]) for one in contrasts if "item" in one.tags]
    known = {name for one in contrasts for name in one.ids}
    missing = sum(item not in known for item in votes)
    if votes and missing == len(votes):
        ours = (
            ", ".join(items[:3]) if items else "none: give the contrasts a column id (audit.columns.id=<your column>)"
        )
        raise DataError(
            f"{name}: none of its {len(votes)} ids is an id of the contrasts. There: {', '.join(list(votes)[:3])}, …; "
            f"of the contrasts: {ours}"
        )
    return missing
