"""`cda merge`: finished runs or adapters, each at a dose, as one ordinary model or one adapter, with a model card."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cda.auditing.audit import AUDIT_FILE
from cda.auditing.model_card import EMBEDDED, ExportedTraining, model_card
from cda.errors import DataError, ModelError, RunError
from cda.files.paths import user_path
from cda.finetuning.applied import adapter_at, chosen_dose
from cda.finetuning.train import ADAPTER
from cda.launch import say
from cda.models.load import ModelSpec, check_adapter, head_names, load_config
from cda.recipe.schema import ModelSection
from cda.resources.sources import model_spec
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.dose import DoseResult
from cda.run import RunFolder
from cda.training.dose import adapter_config, check_dose, compose_adapters, read_head
from cda.training.export import check_new_folder, check_precision, check_push, merge_adapter, new_folder, push

# Private settings of a training: tokens, local paths, account names.
_PRIVATE = re.compile(r"^hub_|^push_to_hub|token$|_dir$|^run_name$|^project$|^report_to$")


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """Options of `cda merge`.

    Attributes:
        out: New folder for the result.
        doses: One for each source; none for the chosen or trained ones.
        base: Base model, if the sources name none or another; hub id, folder or `embedded`.
        precision: fp32 or bf16, of a merged model.
        adapter_only: Write the composed adapter and merge nothing.
        push: Repository of the hub that gets the result; a new one is private.
    """

    out: Path
    doses: tuple[float, ...] = ()
    base: str | None = None
    precision: str = "fp32"
    adapter_only: bool = False
    push: str | None = None


@dataclass(frozen=True, slots=True)
class _Source:
    """One adapter of the result, its dose, the base that it names, and its part of the model card."""

    adapter: Path
    dose: float
    model: ModelSection | None
    part: ExportedTraining


def merge(sources: Sequence[str], options: MergeOptions) -> None:
    """Check everything, then merge or compose, write the card, and push if asked to.

    Raises:
        ModelError: An adapter, the base, the precision, a dose or the folder cannot be used; or the push failed.
        RunError: A source is neither a run with a finished training nor an adapter.
    """
    precision = check_precision(options.precision)
    check_new_folder(options.out)
    read = _read_sources(sources, options.doses)
    base = _base(read, options.base)
    spec = model_spec(base)
    heads = head_names(load_config(spec), spec)
    for source in read:
        check_adapter(source.adapter, heads)
    if options.push is not None:
        check_push(options.push)
        _check_pushable(base.name_or_path, spec, options)
    local = base.name_or_path != EMBEDDED and Path(spec.name_or_path).is_dir()
    named = str(Path(spec.name_or_path).resolve()) if local else base.name_or_path  # `a/b` may be either
    card = model_card([source.part for source in read], named, None if options.adapter_only else precision)
    weighted = [(source.adapter, source.dose) for source in read]
    if options.adapter_only:
        with new_folder(options.out) as partial:
            compose_adapters(weighted, read_head(spec), partial, spec.name_or_path)
            (partial / "README.md").write_text(card, encoding="utf-8")
    else:
        with ExitStack() as stack:
            adapter, dose = weighted[0]
            if len(weighted) > 1:
                adapter, dose = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cda-merge-"))), 1.0
                compose_adapters(weighted, read_head(spec), adapter)
            merge_adapter(spec, adapter, options.out, precision, dose, card)
    size = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file()) / 2**20
    kind = "adapter" if options.adapter_only else f"merged model in {options.precision}"
    say(f"{options.out}: {kind}, {size:.1f} MiB, with a model card (README.md)")
    for adapter, dose in weighted:
        say(f"  {adapter}: dose {dose:g}")
    say(f"  base: {base.name_or_path}" if options.adapter_only else f"measure it with: cda audit {options.out}")
    if options.push is not None:
        say(f"pushed to {options.push}: {push(options.out, options.push)}")


def _read_sources(sources: Sequence[str], doses: Sequence[float]) -> list[_Source]:
    if not sources:
        raise RunError("nothing to merge: give the folder of a finished run, or of an adapter")
    if doses and len(doses) != len(sources):
        raise ModelError(f"--dose: {len(doses)} for {len(sources)} adapters; give one for each, in the same order")
    for dose in doses:
        check_dose(dose)
    wanted: Sequence[float | None] = doses or [None] * len(sources)
    return [_source(name, dose) for name, dose in zip(sources, wanted, strict=True)]


def _source(given: str, dose: float | None) -> _Source:
    path = user_path(given)
    name = path.resolve().name
    if (path / "adapter_config.json").is_file():
        base = adapter_config(path).get("base_model_name_or_path")
        if not isinstance(base, str | None):
            raise ModelError(f"{path / 'adapter_config.json'}: base_model_name_or_path is no name; give --base")
        factor = 1.0 if dose is None else dose
        return _Source(path, factor, ModelSection(name_or_path=base) if base else None, ExportedTraining(name, factor))
    run = RunFolder(path)
    record = run.record("train")
    adapter = run.stage("train") / ADAPTER
    if not record or not adapter.is_dir():
        raise RunError(
            f"{given}: neither the folder of a run with a finished training (train/{ADAPTER}) nor of an adapter "
            "(adapter_config.json)"
        )
    for stage in ("train", "dose"):
        if damaged := run.damaged(stage):
            raise RunError(
                f"{run.stage(stage)}: {', '.join(damaged[:6])}: cut, changed or gone since the stage was finished. Run "
                "`cda train` with its recipe again, which makes it anew"
            )
    adapter_config(adapter)
    _, factor = adapter_at(given, dose)
    chosen = chosen_dose(run)
    if chosen is not None and chosen.chosen != factor:
        chosen = None  # of another dose than the one exported
    settings, form = record.settings, record.counts.get("form")
    part = ExportedTraining(
        name, factor, _audit(run, chosen), settings=_shown_settings(settings), chosen=chosen, form=form
    )
    return _Source(adapter, factor, _trained_model(path, settings), part)


def _trained_model(run: Path, settings: Any) -> ModelSection:
    try:
        return ModelSection.model_validate(settings["model"])
    except (KeyError, TypeError, ValidationError):
        raise RunError(
            f"{run / 'train' / 'stage.json'}: does not say which model was trained; run `cda train` again"
        ) from None


def _audit(run: RunFolder, chosen: DoseResult | None) -> AuditResult | None:
    """The run's audit, with how its dose was chosen; None if there is none, or one that another version of cda wrote."""
    file = run.stage("audit") / AUDIT_FILE
    if not file.is_file():
        return None
    if run.record("audit").inputs.get("train") != run.record("train").output:
        say(f"{file}: of an earlier training, so the model card goes without it; `cda audit` makes it anew")
        return None
    try:
        audit = load(AuditResult, file, "cda audit")
    except DataError as error:
        say(f"{error}. The model card goes without it")
        return None
    return audit.model_copy(update={"dose": chosen}) if chosen and audit.dose_applied == chosen.chosen else audit


def _shown_settings(settings: Any) -> dict[str, Any]:
    """The settings of the training that a reader of the card wants to know."""
    model, train = settings.get("model", {}), settings.get("train", {})
    shown = {f"base {key}": model[key] for key in ("precision", "max_length_tokens") if key in model}
    shown |= {f"LoRA {key}": value for key, value in settings.get("lora", {}).items()}
    for key, value in train.items():
        is_path = isinstance(value, str) and value.startswith(("/", "~", "./"))
        if not (is_path or _PRIVATE.search(key)):
            shown[key] = value
    return shown | {key: settings[key] for key in ("seed", "processes") if key in settings}


def _base(sources: Sequence[_Source], given: str | None) -> ModelSection:
    """The one base of all sources.

    Raises:
        ModelError: They name several, or none.
    """
    known = {_place(source.model): source.model for source in reversed(sources) if source.model is not None}
    if given is not None:
        same_name = (model for model in known.values() if model.name_or_path == given)  # with revision and trust
        return next(same_name, ModelSection(name_or_path=given))
    if len(known) > 1:
        named = ", ".join(f"{own.part.name}: {own.model.name_or_path}" for own in sources if own.model is not None)
        raise ModelError(f"the adapters are of different base models ({named}). Only adapters of one base can be added")
    if not known:
        names = ", ".join(source.part.name for source in sources)
        raise ModelError(f"{names}: no base model is named there; give it with --base")
    return next(iter(known.values()))


def _place(model: ModelSection) -> str:
    name = model_spec(model).name_or_path
    return str(Path(name).resolve()) if Path(name).is_dir() else f"{name}@{model.revision}"


def _check_pushable(base: str, spec: ModelSpec, options: MergeOptions) -> None:
    """An adapter is of use to those who can get its base."""
    if options.adapter_only and Path(spec.name_or_path).is_dir():
        raise ModelError(
            f"--push: the adapter's base is {'the embedded model' if base == EMBEDDED else f'a folder here ({base})'}, which "
            "nobody else has. Push the merged model (without --adapter-only), or name the base's hub id with --base"
        )
