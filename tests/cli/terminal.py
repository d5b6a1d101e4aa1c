"""Runs a command on its own terminal and copies the output: terminal.py COLUMNS PROGRAM ARGUMENT..."""

import fcntl
import os
import pty
import struct
import sys
import termios


def main(columns: int, command: list[str]) -> int:
    """Copies the output of the terminal to stdout.

    Args:
        columns: Width of the terminal.
        command: Program and arguments.

    Returns:
        The exit code of the command.
    """
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.execv(command[0], command)
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # EIO: the command has ended
            piece = b""
        if not piece:
            break
        sys.stdout.buffer.write(piece)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
