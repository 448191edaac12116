"""`cda launch`: a command on several processes, by accelerate's launcher, which prints nothing of its own when the command ends."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from cda.cli.app import app
from cda.errors import RunError
from cda.terminal import put


def _arguments(words: list[str]) -> Any:
    """Accelerate's arguments, with its own defaults filled in that it would warn of; a usage error ends the process with status 2."""
    from accelerate.commands.launch import launch_command_parser

    arguments = launch_command_parser().parse_args(words)
    if arguments.training_script not in _commands():
        raise RunError(
            f"cda launch: '{arguments.training_script}' is no command of cda. First the options of `accelerate launch`, then the "
            f"command: cda launch --num_processes 2 train jargon. Commands: {', '.join(sorted(_commands()))}"
        )
    arguments.module, arguments.no_python = True, False
    arguments.quiet = False  # it would end with 1, whatever the command's status
    arguments.training_script_args = [arguments.training_script, *arguments.training_script_args]
    arguments.training_script = "cda"
    if arguments.config_file is None:
        _fill(arguments)
    return arguments


def _fill(arguments: Any) -> None:
    """Set what accelerate would take anyway, and warn of; several processes on CPUs are started as on GPUs."""
    import torch
    from accelerate.commands.config.config_args import default_config_file

    if Path(default_config_file).is_file() and not arguments.cpu:
        return  # the user's own file decides
    n = arguments.num_processes if arguments.num_processes is not None else max(1, torch.cuda.device_count())
    arguments.num_processes = n
    arguments.num_machines = arguments.num_machines or 1
    arguments.mixed_precision = arguments.mixed_precision or "no"
    arguments.dynamo_backend = arguments.dynamo_backend or "no"
    others = (arguments.use_deepspeed, arguments.use_fsdp, arguments.use_megatron_lm, arguments.tpu)
    if n > 1 and not any(others):
        arguments.multi_gpu, arguments.cpu = True, False
    if arguments.num_machines == 1 and arguments.main_process_port is None:
        arguments.main_process_port = 0  # any free one: a second launch on the machine would find the default one taken


def _commands() -> set[str]:
    group = typer.main.get_command(app)
    return {name for name in getattr(group, "commands", {}) if name != "launch"}


def start(words: list[str]) -> None:
    """Start a command by the launcher, and end as it does; RunError: it is none, or options do not go together."""
    arguments = _arguments(words)
    from accelerate.commands.launch import launch_command
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    # Ctrl-C reaches the command too, which says how to go on; the launcher waits for its end.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, _terminate)  # of several processes, torch's launcher sets its own
    # The launchers' own warnings and errors repeat in their words what the command has said.
    logging.disable(logging.ERROR)
    try:
        launch_command(arguments)
    except subprocess.CalledProcessError as error:
        ended_by(0, error.returncode)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        ended_by(rank, failure.exitcode)
    except SignalException as error:
        sys.exit(128 + error.sigval)
    except (ValueError, ConnectionError) as error:  # options that do not go together, or a port that is taken
        raise RunError(f"cda launch: {error}") from None


def _terminate(*_: object) -> None:
    """Pass SIGTERM on to the command, whose end the launcher waits for; left alone, it would go on without a launcher."""
    import psutil

    children = psutil.Process().children()
    for child in children:
        with suppress(psutil.Error):  # it has just ended
            child.terminate()
    if not children:
        sys.exit(128 + signal.SIGTERM)


def ended_by(rank: int, status: int) -> NoReturn:
    """End as the command did; a process that was ended by a signal could not say anything itself."""
    if status < 0:
        name = signal.Signals(-status).name
        why = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        put(f"error: process {rank} was ended by {name}{why}")
    sys.exit(status if status > 0 else 128 - status)
