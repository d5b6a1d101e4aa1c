"""The program `shardpack`, as `python -m shardpack`: the same command line as the Rust binary."""

import signal
import sys

from ._native import command_line


def main() -> int:
    """Run the command line in `sys.argv`.

    Returns:
        The exit code.
    """
    # Rust's own handler ends work cleanly; Python's would wait for Python code to run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_line(["shardpack", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
