"""The program `shardpack`, the same that Rust builds."""

import signal
import sys

from ._native import command_line


def main() -> int:
    """Runs the command line, and gives its exit code."""
    # Rust's own handler ends work in good order; Python's would wait for Python code to run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_line(["shardpack", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
