"""`python -m local up | down | status | demo`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from local import plan, stack
from local.paths import ROOT
from release_tasks.errors import ReleaseError


def main(argv: list[str]) -> int:
    """Run a command and return the exit code."""
    if argv[:1] == ["demo"]:
        from local import demo

        return int(demo.main(argv[1:]))
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)  # so that `up` cleans up as after Ctrl-C
    try:
        if arguments.command == "up":
            stack.up(arguments.run_dir, frozenset(arguments.without))
        elif arguments.command == "down":
            stack.down(arguments.run_dir)
        else:
            return stack.status(arguments.run_dir)
    except ReleaseError as error:
        print(f"{type(error).__name__} (exit code {error.exit_code}): {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local", description="The embedded stack.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands.add_parser("demo", help="run the example's releases through the whole stack", add_help=False)
    for name, text in {
        "up": "start everything and wait until it is healthy",
        "down": "stop everything and leave nothing behind",
        "status": "show what runs",
    }.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "--run-dir", type=Path, default=ROOT / ".local" / "run", help="folder of the stack (default: %(default)s)"
        )
        if name == "up":
            command.add_argument(
                "--without", action="append", default=[], choices=plan.OPTIONAL, help="leave this part out"
            )
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
