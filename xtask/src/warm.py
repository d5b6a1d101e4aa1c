"""An interpreter that has imported a module, and runs each program in a copy of itself.

`warm.py serve MODULE [alone]` imports and listens at a socket in the folder of this file, one program at a time if `alone`;
`warm.py ask PYTHON ARGUMENTS…` runs what `PYTHON ARGUMENTS…` would: with its folder, environment, input and output, and its
exit status; one with other options than `-c` runs in an interpreter of its own. The server ends with its standard input.
"""

import array
import json
import os
import socket
import sys


def ask(command: list[str]) -> None:
    if command[1:] == [] or command[1].startswith("-") and command[1] != "-c":
        os.execv(command[0], command)
    folder, server = os.getcwd(), socket.socket(socket.AF_UNIX)
    # The path of a socket has to be short.
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    server.connect("socket")
    os.chdir(folder)
    files = array.array("i", [0, 1, 2])
    server.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    words = {"command": command, "folder": folder, "variables": dict(os.environ)}
    server.sendall(json.dumps(words).encode() + b"\n")
    status = server.makefile().readline()
    os._exit(int(status) if status else 255)


def run(command: list[str]) -> None:
    """As the interpreter does with a program: `-c TEXT` or a file."""
    words = command[1:]
    names = sys.modules["__main__"].__dict__
    for name in ["__doc__", "__file__", "__cached__", *run.own]:
        names.pop(name, None)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path[:1] = ["", *paths]
        exec(compile(words[1], "<string>", "exec"), names)
        return
    sys.argv = words
    sys.path[:1] = [os.path.dirname(os.path.abspath(words[0])), *paths]
    names["__file__"] = words[0]
    with open(words[0], "rb") as file:
        program = compile(file.read(), words[0], "exec")
    exec(program, names)


def take(client: socket.socket, lock: int | None) -> list[str]:
    """In a copy of the server: starts the program in another copy, where its command line is returned, and tells how it ended."""
    import fcntl
    import select

    _, extra, _, _ = client.recvmsg(1, socket.CMSG_SPACE(3 * 4))
    files = array.array("i", extra[0][2])
    words = json.loads(client.makefile().readline())
    if lock is not None:
        # The files of a copy are one with those of the others: the lock is of a file that is opened here.
        fcntl.flock(os.open(f"/proc/self/fd/{lock}", os.O_RDWR), fcntl.LOCK_EX)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        client.close()
        os.chdir(words["folder"])
        os.environ.clear()
        os.environ.update(words["variables"])
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return words["command"]
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        gone, _, _ = select.select([client], [], [], 0.02)
        if gone:
            # Whoever asked is no more.
            os.killpg(child, 9)
    code = os.waitstatus_to_exitcode(status)
    client.sendall(f"{code if code >= 0 else 128 - code}\n".encode())
    os._exit(0)


def serve(module: str, is_alone: bool) -> list[str]:
    import gc
    import importlib
    import select
    import signal

    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    lock = os.open("lock", os.O_RDWR | os.O_CREAT) if is_alone else None
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    listener.listen(64)
    print(flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    importlib.import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            os._exit(0)
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return take(client, lock)
        client.close()


run.own = ["ask", "run", "take", "serve", "array", "json", "socket"]

if __name__ == "__main__":
    if sys.argv[1] == "ask":
        ask(sys.argv[2:])
    run(serve(sys.argv[2], sys.argv[3:] == ["alone"]))
