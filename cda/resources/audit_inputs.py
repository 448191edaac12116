"""Files that an audit measures on: contrasts with votes, triples, labels, quality pairs, the paper's release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from cda.biases import Bias
from cda.data.contrasts import CleanContrasts, clean_contrasts, with_votes
from cda.data.load import load_rows
from cda.data.pairs import PairLabels, load_labels
from cda.data.quality_sets import QualitySet
from cda.data.release import release_folder, released_contrasts, released_labels, released_triples
from cda.data.triples import CleanTriples, clean_triples
from cda.data.votes import Votes, load_votes
from cda.embedded.model import EMBEDDED
from cda.embedded.texts import audit_contrasts
from cda.errors import DataError
from cda.recipe.audit import AuditSection
from cda.recipe.load import LoadedRecipe, Opened
from cda.records import Contrast, Exclusions, Prompt, count_reasons, text_key
from cda.resources.sources import load_quality_source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReleasedTexts:
    """Texts of one bias in the paper's release that can be scored."""

    contrasts: CleanContrasts
    triples: CleanTriples

    @property
    def n_triples_voted(self) -> int:
        """Triples whose two rewrites are the sides of a pair that people voted on."""
        pairs = [pair for pair in self.contrasts.contrasts if pair.votes or pair.preferred]
        voted = {text_key(pair.prompt, pair.perturbed, pair.base) for pair in pairs}
        triples = self.triples.triples
        return sum(text_key(triple.prompt, triple.rewrite, triple.rewrite_of_rewrite) in voted for triple in triples)


@dataclass(frozen=True, slots=True)
class AuditInputs:
    """The audit's files, each read once in a run. Nothing here spends money."""

    audit: AuditSection
    biases: tuple[Bias, ...]
    opened: Opened

    @property
    def names(self) -> list[str]:
        """Names of the recipe's biases."""
        return [bias.name for bias in self.biases]

    def contrasts(self) -> CleanContrasts:
        """Contrasts of the user's file, and of the release for biases that the file lacks; the counts are the file's."""
        return self._once("contrasts", self._read_contrasts)

    def opinions(self) -> tuple[Votes, Votes]:
        """People's votes and judges' verdicts from separate files."""
        references = self.audit.votes, self.audit.verdicts
        votes, verdicts = (
            self.opened.once(("votes", name), lambda name=name: load_votes(name)) if name else {}  # type: ignore[misc]
            for name in references
        )
        return votes, verdicts

    def released(self) -> dict[str, ReleasedTexts]:
        """Texts of the paper's release by bias; empty if the recipe names no release.

        Raises:
            DataError: No such folder, nothing of these biases in it, or a file in another layout.
        """

        def read(reference: str) -> dict[str, ReleasedTexts]:
            folder = release_folder(reference, self.names)
            return {
                name: ReleasedTexts(released_contrasts(folder, name), released_triples(folder, name))
                for name in self.names
            }

        reference = self.audit.release
        return {} if reference is None else self._once("release", lambda: read(reference))

    def triples(self) -> CleanTriples:
        """RATE triples of the user's file; none if the recipe names no file."""
        where = self.audit.triples
        if where is None or where == EMBEDDED:
            return CleanTriples((), Exclusions(0, {}))
        columns, rule = self.audit.triple_columns, self.audit.attribute
        return self._once("triples", lambda: clean_triples(load_rows(where), self.names, columns, where, rule))

    def labels(self) -> dict[str, PairLabels]:
        """Labels of preference pairs by bias: of `audit.labels`, and of the release for the other biases."""
        return self._once("labels", self._read_labels)

    def quality(self) -> QualitySet | None:
        """Held-out quality pairs with their sections; None if the recipe asks for none.

        Raises:
            DataError: Cannot be loaded, or has several responses on a side, which `cda quality` ranks and an audit does not.
        """
        reference, split, columns = self.audit.quality, self.audit.quality_split, self.audit.quality_columns
        if reference is None:
            return None
        quality = self._once("quality", lambda: load_quality_source(reference, split, columns))
        if any(len(item.chosen) != 1 or len(item.rejected) != 1 for item in quality.items):
            raise DataError(
                f"{reference}: read as {quality.format}, whose items have several responses on a side; an audit takes one pair "
                f"a row. `cda quality MODEL {reference}` ranks them"
            )
        return quality

    def existing_contrasts(self) -> list[Contrast]:
        """Contrasts that exist before the audit makes any: the user's, the release's and the embedded ones."""
        embedded, _ = with_votes(audit_contrasts(), *self.opinions())
        return [*self.contrasts().contrasts, *embedded]

    def existing_prompts(self) -> list[Prompt]:
        """Prompts of everything that the audit measures on, as far as it exists beforehand."""
        quality = self.quality()
        return [
            *(contrast.prompt for contrast in self.existing_contrasts()),
            *(triple.prompt for triple in self.triples().triples),
            *(triple.prompt for texts in self.released().values() for triple in texts.triples.triples),
            *(item.prompt for item in (quality.items if quality else ())),
        ]

    def check_opinions(self) -> None:
        """Compare the files of votes and verdicts with the contrasts that exist already.

        Raises:
            DataError: A file has none of the contrasts' ids, or no readable vote. If a bias gets its contrasts only later,
                ids are not compared.
        """
        contrasts = self.existing_contrasts() if any(self.opinions()) else []
        if contrasts and set(self.names) <= {contrast.bias for contrast in contrasts}:
            self.unmatched(contrasts)
        self.check_readable(contrasts)

    def unmatched(self, contrasts: Sequence[Contrast]) -> list[tuple[str, int, int]]:
        """For each file of votes or verdicts: its name, its items that are none of the contrasts, and all its items.

        Raises:
            DataError: None of a file's items is one of the contrasts.
        """
        known = {name for contrast in contrasts for name in contrast.ids}
        counts = []
        for _, file, items in self._opinion_files():
            missing = sum(item not in known for item in items)
            if items and missing == len(items):
                ids = [str(contrast.tags["item"]) for contrast in contrasts if "item" in contrast.tags]
                ours = ", ".join(ids[:3]) or "none: give the contrasts a column id (audit.columns.id=<your column>)"
                raise DataError(
                    f"{file}: none of its {len(items)} ids is an id of the contrasts. There: {', '.join(list(items)[:3])}, "
                    f"…; of the contrasts: {ours}"
                )
            counts.append((file, missing, len(items)))
        return counts

    def check_readable(self, contrasts: Sequence[Contrast]) -> None:
        """Raise DataError if a file of votes or verdicts has ids of the contrasts, but no readable vote on any."""
        for kind, file, items in self._opinion_files():
            of_file = [contrast for contrast in contrasts if any(item in items for item in contrast.ids)]
            if of_file and not any(getattr(contrast, kind) for contrast in of_file):
                words = [word for listed in items.values() for word in listed]
                reasons = count_reasons([f"unreadable vote '{word[:40]}'" for word in words])
                raise _unreadable(file, Exclusions(len(words), reasons))

    def _opinion_files(self) -> list[tuple[str, str, Votes]]:
        votes, verdicts = self.opinions()
        return [("votes", str(self.audit.votes), votes), ("verdicts", str(self.audit.verdicts), verdicts)]

    def _read_contrasts(self) -> CleanContrasts:
        audit = self.audit
        own = CleanContrasts((), Exclusions(0, {}), Exclusions(0, {}))
        if audit.contrasts != EMBEDDED:
            rows = load_rows(audit.contrasts)
            own = clean_contrasts(rows, self.names, audit.columns, audit.contrasts, *self.opinions())
            if audit.votes is None and own.votes.seen and own.votes.dropped == own.votes.seen:
                raise _unreadable(audit.contrasts, own.votes)
        covered = {contrast.bias for contrast in own.contrasts}
        released = [texts.contrasts.contrasts for name, texts in self.released().items() if name not in covered]
        return replace(own, contrasts=sum(released, own.contrasts)) if any(released) else own

    def _read_labels(self) -> dict[str, PairLabels]:
        labels = load_labels(self.audit.labels, self.names) if self.audit.labels else {}
        if self.audit.release is not None:
            folder = release_folder(self.audit.release, self.names)
            released = {name: released_labels(folder, name) for name in self.names if name not in labels}
            labels |= {name: of_bias for name, of_bias in released.items() if of_bias is not None}
        return labels

    def _once(self, kind: str, read: Callable[[], T]) -> T:
        return self.opened.once((kind, self.audit.model_dump_json(), *self.names), read)


def audit_inputs(loaded: LoadedRecipe) -> AuditInputs:
    """The files that the audit of a recipe measures on."""
    return AuditInputs(loaded.recipe.audit, loaded.biases, loaded.opened)


def _unreadable(name: str, votes: Exclusions) -> DataError:
    most = sorted(votes.reasons.items(), key=lambda item: -item[1])[:3]
    listed = ", ".join(f"{n} × {reason}" for reason, n in most)
    return DataError(
        f"{name}: none of its {votes.seen} votes can be read ({listed}{', …' * (len(votes.reasons) > 3)}); the words are perturbed, "
        "base, response_1, response_2 and tie"
    )
