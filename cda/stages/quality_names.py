"""Names in the results of `cda quality`: of each file's set, and of each scorer by its kind and its policy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from cda.config.load import LoadedRecipe
from cda.config.scoring import bare_name, kind_of, policy_and_reference
from cda.data.quality_sets import QualitySet
from cda.files.paths import user_path
from cda.results.benchmarks import AskedLLM, QualityScoring
from cda.results.facts import Scorer
from cda.run import file_fingerprint
from cda.stages.scorer_kinds import Subject
from cda.stages.shown import shown_path, shown_target

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def named_sets(sets: Sequence[QualitySet]) -> list[QualitySet]:
    """Sets under names of their own, also as folders: files of the same name are told apart by a number."""
    taken: set[str] = set()
    named = []
    for one in sets:
        name, number = one.name, 1
        while _as_folder(name) in taken:
            number += 1
            name = f"{one.name}-{number}"
        taken.add(_as_folder(name))
        named.append(replace(one, name=name))
    return named


def public_names(subjects: Sequence[Subject], loaded: LoadedRecipe) -> dict[str, str]:
    """Names for readers and for RewardBench's folders, by label, each another."""
    found: dict[str, str] = {}
    for one in subjects:
        name = public_name(one.name, loaded)
        if one.adapter is not None:
            name += "-after" if one.dose == 1 else f"-after-dose-{one.dose:g}"
        found[one.label] = f"{name}-2" if name in found.values() else name
    return found


def public_name(target: str, loaded: LoadedRecipe) -> str:
    """Two parts, as RewardBench's folders have them, without a path of this machine.

    A classifier has its organisation and name (`local` for a folder, which is named by its last part). Any other scorer has
    its kind and what it is made of: `judge/…` the model that is asked, `log-ratio/…` and `steered/…` the policy,
    `served/…` the address and the model there, `function/…` the module and function.
    """
    kind = kind_of(target)
    if kind == "classifier":
        return target if _is_hub_id(target) else f"local/{_last_part(target)}"
    if kind == "judge":
        return f"judge/{_word(bare_name(target))}"
    if kind == "served":
        return f"served/{_word(' '.join([_address(bare_name(target)), loaded.recipe.score.served.model or '']))}"
    if kind == "function":
        return f"function/{_word(target.rpartition('/')[2])}"
    policy = policy_and_reference(target)[0]
    return f"{kind}/{_word(policy) if _is_hub_id(policy) else _last_part(policy)}"


def quality_scoring(subject: Subject, model: str, unit: str, facts: Scorer, loaded: LoadedRecipe) -> QualityScoring:
    """What was asked and how: the target and its kind, and the settings that say which model it is.

    Files and folders go by name, and what they hold by a fingerprint: a result names no machine's path.
    """
    recipe, kind = loaded.recipe, kind_of(subject.name)
    given, adapter = recipe.score.log_ratio, subject.adapter
    files = {name: path and shown_path(path) for name, path in (("adapter", given.adapter), ("vector", given.vector))}
    return QualityScoring(
        label=subject.label,
        model=model,
        unit=unit,
        target=shown_target(subject.name),
        target_kind=kind,
        revision=subject.section.revision,
        adapter=None if adapter is None else shown_path(adapter),
        adapter_content=None if adapter is None else file_fingerprint(adapter),
        dose=None if adapter is None else subject.dose,
        facts=facts.model_copy(update={"name": model}),
        llm=AskedLLM(model=bare_name(subject.name), base_url=recipe.llm.base_url) if kind == "judge" else None,
        served_model=recipe.score.served.model if kind == "served" else None,
        log_ratio=given.model_dump(mode="json") | files if kind in ("log-ratio", "steered") else None,
    )


def _is_hub_id(name: str) -> bool:
    return _HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def _last_part(name: str) -> str:
    return _word(user_path(name).resolve().name)


def _address(url: str) -> str:
    """Host, port and path; never a user's name and password."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-") or "model"


def _as_folder(name: str) -> str:
    """As RewardBench's files are laid out; some disks take upper for lower case."""
    return name.replace("/", "-").casefold()
