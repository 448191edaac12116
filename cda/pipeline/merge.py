"""`cda merge`: finished runs or adapters, each at a dose, as one ordinary model or one adapter, with a model card."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from cda.auditing.audit import AUDIT_FILE
from cda.auditing.model_card import ExportedTraining, model_card, save_card
from cda.auditing.report_cells import EMBEDDED, applied
from cda.errors import DataError, ModelError, RunError
from cda.files.paths import user_path
from cda.finetuning.applied import NAME, adapter_at, applied_dose, chosen_dose
from cda.finetuning.train import ADAPTER, trainings
from cda.jobs.options import MergeOptions
from cda.jobs.perform import Job, Made, NewFolder, perform
from cda.launch import say
from cda.models.adapters import check_adapter, check_base
from cda.models.config import ModelSpec, head_index, load_config, quiet_files
from cda.models.load import load_reward_model
from cda.models.weights import head_names, keep_label
from cda.recipe.schema import ModelSection
from cda.report.next_step import after_merge
from cda.resources.sources import model_spec
from cda.results.audit import AuditResult
from cda.results.base import load
from cda.results.commands import Written
from cda.results.dose import DoseResult
from cda.run import RunFolder
from cda.training.dose import DosedModel, check_dose, compose_adapters, plain_config, read_head
from cda.training.hub import Repository, check_push, only_here, push

MergePrecision = Literal["fp32", "bf16"]
# Private settings of a training: tokens, local paths, account names.
_PRIVATE = re.compile(r"^hub_|^push_to_hub|token$|_dir$|^run_name$|^project$|^report_to$")
_PATHS = ("/", "~", "./")


@dataclass(frozen=True, slots=True)
class _Source:
    """One adapter of the result, its dose, the base that it names, and its part of the model card."""

    adapter: Path
    dose: float
    model: ModelSection | None
    part: ExportedTraining


def merge(sources: Sequence[str], options: MergeOptions) -> Written:
    """Check everything, merge or compose into a new folder, write the card, push if asked to. `doses`: one a source, or none
    for the chosen or trained ones; `base`: if sources name none, or another. ModelError: adapter, base, precision, dose or folder
    cannot be used, or the push failed. RunError: a source is neither a run with a finished training nor an adapter."""
    out, adapter_only, push_to = user_path(options.out), options.adapter_only, options.push
    saved_in = check_precision(options.precision)
    read = _read_sources(sources, options.doses)
    section = _base(read, options.base)
    spec = model_spec(section)
    config = load_config(spec)
    heads = head_names(config, spec)
    for source in read:
        check_adapter(source.adapter, heads)
        if note := check_base(source.adapter, spec, config):
            say(note)
    if push_to is not None:
        check_push(push_to)
        if adapter_only and Path(spec.name_or_path).is_dir():
            why = only_here(section.name_or_path, section.name_or_path == EMBEDDED)
            raise ModelError(
                f"--push: {why}. Push the merged model (without --adapter-only), or name the base's hub id with --base"
            )
    card = model_card(
        [source.part for source in read],
        _public_name(section),
        *((None, _label(section)) if adapter_only else (saved_in,)),
    )
    weighted = [(source.adapter, source.dose) for source in read]
    kind = "adapter" if adapter_only else f"merged model in {saved_in}"
    doses = [f"{adapter}: dose {dose:g}" for adapter, dose in weighted]

    def work(new: Path) -> Made[Written]:
        if adapter_only:
            compose_adapters(weighted, read_head(spec), new, spec.name_or_path)
        else:
            with ExitStack() as stack:
                adapter, dose = weighted[0]
                if len(weighted) > 1:
                    adapter, dose = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cda-merge-"))), 1.0
                    compose_adapters(weighted, read_head(spec), adapter)
                merge_adapter(spec, adapter, new, saved_in, dose)
        save_card(new, card, [source.part for source in read])
        size = sum(file.stat().st_size for file in new.rglob("*") if file.is_file()) / 2**20
        length, usual = section.max_length_tokens, ModelSection.model_fields["max_length_tokens"].default
        cut = () if length == usual else (f"model.max_length_tokens={length}",)
        step = after_merge(str(out), section.name_or_path if adapter_only else None, cut)
        lines = [
            f"{out}: {kind}, {size:.1f} MiB, with a model card (README.md)",
            *(f"  {line}" for line in doses),
            f"  base: {section.name_or_path}",
            *step.lines(),
        ]
        return Made(Written(folder=out), remark="\n".join(lines))

    plan = [*(f"adapter     {line}" for line in doses), f"base        {section.name_or_path}"]
    place = NewFolder(out, f"{kind}, pushed to {push_to}" if push_to else kind)
    written = perform(Job(lambda: plan, work, place), None)
    if push_to is not None:
        say(f"pushed to {push_to}: {push(out, Repository(push_to))}")
    return written


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
        base = plain_config(path).get("base_model_name_or_path")
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
                "`cda train` with its recipe again, which writes it again"
            )
    plain_config(adapter)
    _, factor = adapter_at(given, dose)
    chosen = chosen_dose(run)
    if chosen is not None and chosen.chosen != factor:
        chosen = None  # of another dose than the one exported
    part = _part(run, factor, _audit(run, chosen), chosen)
    return _Source(adapter, factor, _trained_model(run), part)


def _part(
    run: RunFolder, dose: float, audit: AuditResult | None, chosen: DoseResult | None, stage: str = "train", at: int = 0
) -> ExportedTraining:
    record = run.record(stage)
    name = run.path.resolve().name + stage.removeprefix("train")
    settings, form = _shown_settings(record.settings), record.counts.get("form")
    return ExportedTraining(name, dose, audit, settings=settings, chosen=chosen, form=form, at=at)


def _trained_model(run: RunFolder) -> ModelSection:
    try:
        return ModelSection.model_validate(run.record("train").settings.get("model"))
    except ValidationError:
        raise RunError(
            f"{run.path / 'train' / 'stage.json'}: does not say which model was trained; run `cda train` again"
        ) from None


def write_adapter_cards(run: RunFolder, audit: AuditResult) -> None:
    """Write the model card of each training's adapter next to it; the audit is of the first one at its dose, with the numbers of
    the others at theirs."""
    seeds, model = audit.seeds, _trained_model(run)
    base, label = _public_name(model), _label(model)
    doses = seeds.doses if seeds and seeds.several else (applied(audit),)
    for at, (training, dose) in enumerate(zip(trainings(seeds.seeds if seeds else (0,)), doses, strict=True)):
        if applied_dose(run, training) == dose:
            part = _part(run, dose, audit, None if at else audit.dose, training.stage("train"), at)
            save_card(run.stage(training.stage(NAME)), model_card([part], base, None, label), [part])


def _label(model: ModelSection) -> int | None:
    """The label of a base of several that is the reward; None of a base of one."""
    if model.head is None:
        return None
    spec = model_spec(model)
    config = load_config(spec)
    return head_index(spec, config) if config.num_labels > 1 else None


def _public_name(base: ModelSection) -> str:
    """A hub id, `embedded`, or a whole path, which a card shortens to its last part: `a/b` may be a folder here."""
    name = model_spec(base).name_or_path
    local = base.name_or_path != EMBEDDED and Path(name).is_dir()
    return str(Path(name).resolve()) if local else base.name_or_path


def _audit(run: RunFolder, chosen: DoseResult | None) -> AuditResult | None:
    """The run's audit, with how its dose was chosen; None if there is none, or one that another version of cda wrote."""
    file = run.stage("audit") / AUDIT_FILE
    if not file.is_file():
        return None
    if run.record("audit").inputs.get("train") != run.record("train").output:
        say(f"{file}: of an earlier training, so the model card goes without it; `cda audit` writes it again")
        return None
    try:
        audit = load(AuditResult, file, "cda audit")
    except DataError as error:
        say(f"{error}. The model card goes without it")
        return None
    return audit.model_copy(update={"dose": chosen}) if chosen and audit.dose_applied == chosen.chosen else audit


def _shown_settings(settings: Any) -> dict[str, Any]:
    model, train = settings.get("model", {}), settings.get("train", {})
    shown = {f"base {key}": model[key] for key in ("precision", "max_length_tokens") if key in model}
    shown |= {f"LoRA {key}": value for key, value in settings.get("lora", {}).items()}
    shown |= {key: value for key, value in train.items() if not (str(value).startswith(_PATHS) or _PRIVATE.search(key))}
    return shown | {key: settings[key] for key in ("seed", "processes") if key in settings}


def _base(sources: Sequence[_Source], given: str | None) -> ModelSection:
    """The one base of all sources; ModelError if they name several, or none."""
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


def merge_adapter(spec: ModelSpec, adapter: Path, folder: Path, precision: MergePrecision, dose: float = 1.0) -> None:
    """Merge into a fresh float32 base, and save model and tokenizer in a folder. Weights are rounded once, after merging.
    ModelError: precision or adapter unusable, or weights not finite."""
    import torch

    check_precision(precision)
    plain_config(adapter)
    model, tokenizer = _merged(replace(spec, precision="fp32"), adapter, dose)
    if model.config.num_labels != 1:
        keep_label(model, head_index(spec, model.config))
    model = model.to(torch.float32 if precision == "fp32" else torch.bfloat16)
    model.config.name_or_path = ""  # the base's path on this machine is private
    # A family's names of tensors, turned back, may stand for several: its merged model has those of the classifier.
    original = not hasattr(model, "reward_family")
    with quiet_files():
        model.save_pretrained(str(folder), save_original_format=original)
    tokenizer.save_pretrained(str(folder))


def check_precision(precision: str) -> MergePrecision:
    """A precision that a merged model can be saved in; ModelError for another."""
    if precision == "8bit":
        raise ModelError(
            "precision 8bit: merging into 8-bit weights rounds every one of them again, which moves scores by far more than "
            "8-bit scoring does. Merge into bf16 or fp32; the merged model can be loaded in 8-bit afterwards"
        )
    if precision not in get_args(MergePrecision):
        raise ModelError(f"precision {precision}: a merged model is saved in fp32 or bf16")
    return precision  # type: ignore[return-value]


def _merged(spec: ModelSpec, adapter: Path, dose: float) -> tuple[Any, Any]:
    import torch

    try:
        reward_model = load_reward_model(spec, adapter)
        DosedModel(reward_model).set(dose)
        return reward_model.model.merge_and_unload(safe_merge=True), reward_model.template.tokenizer
    except torch.cuda.OutOfMemoryError:
        raise ModelError(
            f"{spec.name_or_path}: merging needs the whole model in fp32, 4 bytes a parameter, and the GPU has not enough "
            "memory. Merge in main memory: CUDA_VISIBLE_DEVICES= cda merge ..."
        ) from None
    except ValueError as error:
        if "NaNs" not in str(error):
            raise
        raise ModelError(f"{adapter}: merged at dose {dose}, weights are NaN; the adapter is broken") from None
