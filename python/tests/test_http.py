"""Datasets on a web server: nginx over HTTP and HTTPS returns the data that was packed."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import shardpack

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
if NGINX is None and os.environ.get("CI") != "true":
    pytest.skip("nginx is not installed", allow_module_level=True)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """HTTP URL, HTTPS URL, and CA certificate of a server; `packed` is below both URLs under its name."""
    assert NGINX is not None
    folder = tmp_path_factory.mktemp("nginx")
    port, secure = free_port(), free_port()
    (folder / "data").symlink_to(packed.parent)
    key, certificate, authority = folder / "key.pem", folder / "server.pem", folder / "ca.pem"
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    for line in (
        ["req", "-x509", *ec, "-days", "2", "-subj", "/CN=tests", "-keyout", folder / "ca.key", "-out", authority],
        ["req", *ec, "-subj", "/CN=localhost", "-keyout", key, "-out", folder / "request"],
        ["x509", "-req", "-in", folder / "request", "-CA", authority, "-CAkey", folder / "ca.key", "-CAcreateserial"]
        + ["-days", "2", "-extfile", names, "-out", certificate],
    ):
        subprocess.run(["openssl", *map(str, line)], check=True, capture_output=True)
    user = "user root;" if os.getuid() == 0 else ""
    temporary = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(f"""
pid {folder}/pid; error_log {folder}/error.log; daemon off; {user}
events {{}}
http {{
    access_log {folder}/access.log; client_body_temp_path {folder}/body; {temporary}
    server {{
        listen 127.0.0.1:{port}; listen 127.0.0.1:{secure} ssl http2;
        ssl_certificate {certificate}; ssl_certificate_key {key};
        root {folder}/data;
    }}
}}
""")
    command = [NGINX, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "start.log"]
    with subprocess.Popen(command) as nginx:
        try:
            for _ in range(500):
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield f"http://127.0.0.1:{port}", f"https://127.0.0.1:{secure}", authority
        finally:
            nginx.terminate()


def test_samples_and_batches_are_those_of_the_folder(server: tuple[str, str, Path], packed: Path) -> None:
    url = f"{server[0]}/{packed.name}"
    local, remote = shardpack.Dataset(packed), shardpack.Dataset(url)
    assert len(remote) == len(local) and remote.classes == local.classes
    for number in range(len(local)):
        one, other = local.sample(number), remote.sample(number)
        assert (one.key, one.label, one.bytes) == (other.key, other.label, other.bytes)
    again = pickle.loads(pickle.dumps(remote))
    assert again.sample(0).bytes == local.sample(0).bytes

    def batches(path: object) -> tuple[list[tuple[list[int], list[bytes]]], dict[str, object]]:
        loader = shardpack.Loader(path, 7, seed=3, output="numpy")  # type: ignore[arg-type]
        found = [(np.asarray(batch.samples).tolist(), [bytes(one) for one in batch[0]]) for batch in loader]
        return found, loader.stats()

    (expected, own), (found, stats) = batches(packed), batches(url)
    assert found == expected
    assert "requests" not in own and stats["requests"] and stats["requests_again"] == stats["throttled"] == 0
    # Requests are for the manifest, the index of each shard, and the runs; not for each sample.
    assert isinstance(stats["requests"], int) and stats["requests"] < len(local)


def test_a_server_is_trusted_by_its_certificate_alone(server: tuple[str, str, Path], packed: Path) -> None:
    code = f"""
import shardpack
try:
    print(len(shardpack.Dataset("{server[1]}/{packed.name}")))
except shardpack.MachineError as error:
    print("refused", error)
"""
    found = {}
    for name, settings in (("unknown", {}), ("known", {"SSL_CERT_FILE": str(server[2])})):
        environment = {key: value for key, value in os.environ.items() if key != "SSL_CERT_FILE"} | settings
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found[name] = ran.stdout
    assert found["known"] == f"{len(shardpack.Dataset(packed))}\n"
    assert "refused" in found["unknown"] and "not trusted" in found["unknown"], found


def test_a_proxy_of_the_environment_is_asked(server: tuple[str, str, Path], packed: Path) -> None:
    # nginx answers a request to a proxy with its own files; the host does not exist.
    code = f"import shardpack; print(len(shardpack.Dataset('http://nowhere.invalid/{packed.name}')))"
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment | {"http_proxy": server[0]}, capture_output=True, text=True
    )
    assert ran.stdout == "300\n", ran.stderr


def test_a_loader_ends_though_its_server_does_not_answer_any_more(packed: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.listen()
        port = silent.getsockname()[1]

        def serve() -> None:
            # Sends the manifest and the indexes, but no bytes of a shard.
            while True:
                try:
                    client, _ = silent.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(client,), daemon=True).start()

        def answer(client: socket.socket) -> None:
            kept.append(client)
            path = client.recv(65536).split(b" ")[1].decode()
            if not path.endswith(".tar"):
                body = (packed.parent / path.lstrip("/")).read_bytes()
                client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode())
                client.sendall(body)
                client.close()

        kept: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        loader = shardpack.Loader(f"http://127.0.0.1:{port}/{packed.name}", 8, output="numpy")
        threading.Timer(1.0, loader.close).start()
        began = time.monotonic()
        with pytest.raises(RuntimeError, match="the loader is closed"):
            list(loader)
        assert time.monotonic() - began < 10


def test_both_sides_of_a_fork_read(server: tuple[str, str, Path], packed: Path) -> None:
    local, remote = shardpack.Dataset(packed), shardpack.Dataset(f"{server[0]}/{packed.name}")
    assert remote.sample(0).bytes == local.sample(0).bytes
    child = os.fork()
    if child == 0:
        os._exit(
            0 if [remote.sample(at).bytes for at in (0, 299)] == [local.sample(at).bytes for at in (0, 299)] else 1
        )
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert remote.sample(150).bytes == local.sample(150).bytes


def test_what_is_not_there_is_said(server: tuple[str, str, Path]) -> None:
    with pytest.raises(shardpack.UsageError, match="no dataset"):
        shardpack.Dataset(f"{server[0]}/nothing")
    with pytest.raises(shardpack.UsageError, match="a URL with a password"):
        shardpack.Loader("http://user:secret@127.0.0.1/x")
