"""Entry point: which command lives where, and what each error means to a shell."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import click

from tradewind.cli.outcome import USAGE, exit_code, sentences
from tradewind.cli.text import one_line

# Where each command is, by the name it is called by. Only the called one is imported.
_COMMANDS = {
    "up": "tradewind.cli.up:up",
    "router": "tradewind.cli.services:router",
    "worker": "tradewind.cli.services:worker",
    "submit": "tradewind.cli.submit:submit",
    "get": "tradewind.cli.tasks:get",
    "watch": "tradewind.cli.tasks:watch",
    "cancel": "tradewind.cli.tasks:cancel",
    "explain": "tradewind.cli.explain:explain",
    "regions": "tradewind.cli.overview:regions",
    "queues": "tradewind.cli.overview:queues",
    "workers": "tradewind.cli.overview:workers",
    "drain": "tradewind.cli.orders:drain",
    "cordon": "tradewind.cli.orders:cordon",
    "activate": "tradewind.cli.orders:activate",
    "evacuate": "tradewind.cli.evacuate:evacuate",
    "pause": "tradewind.cli.orders:pause",
    "resume": "tradewind.cli.orders:resume",
    "moves": "tradewind.cli.moves:moves",
    "dlq": "tradewind.cli.dlq:dlq",
    "audit": "tradewind.cli.audit:audit",
    "policy": "tradewind.cli.policy:policy",
    "doctor": "tradewind.cli.doctor:doctor",
}

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class LazyGroup(click.Group):
    """Imports a command when it is called or its help is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All of them, in the order of a first day with Tradewind."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give the command, or None."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Try it:
  tradewind up &
  tradewind submit echo '{"hello": "world"}' --wait
  tradewind regions

Exit codes: 0 done, 1 failed, 2 wrong usage or invalid file, 3 not reachable, 4 not found.""",
)
@click.version_option(package_name="tradewind", message="tradewind %(version)s")
def cli() -> None:
    """Hand in a task; the right region runs it, another finishes what that one cannot."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; every error is one sentence on stderr."""
    # grpc's core logs lost connections to stderr, where our one sentence belongs.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    sys.exit(run(lambda: cli.main(argv, prog_name="tradewind", standalone_mode=False)))


def run(command: Callable[[], object]) -> int:
    """Call a command and give its exit code, having said on stderr what went wrong."""
    try:
        result = command()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # `tradewind ... | head`: nobody reads on. Keep Python from complaining at exit, too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except click.ClickException as error:
        click.echo(_complaint(error), err=True)
        return 2 if isinstance(error, click.FileError) else error.exit_code
    except UnicodeEncodeError as error:
        # Bytes of the command line or the environment that are not UTF-8, in text that is sent.
        click.echo(f"Error: {one_line(str(error.object))} is not UTF-8; type it again.", err=True)
        return USAGE
    except Exception as error:
        code = exit_code(error)
        if code is None:
            raise
        for sentence in sentences(error):
            click.echo(f"Error: {sentence}", err=True)
        return code
    return result if isinstance(result, int) else 0


def _complaint(error: click.ClickException) -> str:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()  # the help itself
    message = one_line(error.format_message())
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "tradewind"
        return f"Error: {message.rstrip('.')}; see `{where} --help`."
    return f"Error: {message}"


if __name__ == "__main__":
    main()
