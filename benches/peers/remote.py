"""An epoch of payloads as they are stored, 64 a batch, in a loop of Python, from a web server. Prints the seconds and CPU seconds of the loop.

    remote.py epoch PEER WORKERS DATA...   all samples
    remote.py first PEER WORKERS DATA...   to the first batch alone, in place of the seconds

    shardpack   DATA is the URL of a packed folder; its threads are its own, and WORKERS is not used
    webdataset  DATA is the URL of each tar file
    streaming   DATA is s3://BUCKET/PREFIX of MDS files, and an empty folder for its copies; S3_ENDPOINT_URL says where that is

Imports are not counted; opening is. Each has to come to the same number of samples, which is printed to stderr.
"""

import json
import resource
import sys
import time

BATCH = 64


def cpu_seconds() -> float:
    """Of this process and those that it waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def by_shardpack(workers: int, url: str):
    from shardpack import Loader

    return lambda: (encoded for encoded, _ in Loader(url, BATCH, epochs=1))


def by_webdataset(workers: int, *urls: str):
    import webdataset

    def batches():
        dataset = (
            webdataset.WebDataset(list(urls), shardshuffle=len(urls))
            .shuffle(1000)
            .to_tuple("jpg;jpeg;JPEG", "cls")
            # In the worker, as webdataset recommends.
            .batched(BATCH, collation_fn=list)
        )
        for batch in webdataset.WebLoader(dataset, batch_size=None, num_workers=workers):
            yield [payload for payload, _ in batch]

    return batches


def by_streaming(workers: int, remote: str, local: str):
    from streaming import StreamingDataLoader, StreamingDataset

    def batches():
        dataset = StreamingDataset(remote=remote, local=local, shuffle=True, batch_size=BATCH)
        # Payloads of different lengths are no tensor.
        loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers, collate_fn=list)
        for batch in loader:
            yield [sample["image"] for sample in batch]

    return batches


PEERS = {"shardpack": by_shardpack, "webdataset": by_webdataset, "streaming": by_streaming}


def main(what: str, peer: str, workers: str, *data: str) -> None:
    batches = PEERS[peer](int(workers), *data)
    samples, first, cpu, began = 0, None, cpu_seconds(), time.perf_counter()
    for batch in batches():
        first = first or time.perf_counter() - began
        samples += len(batch)
        if what == "first":
            break
        for payload in batch:
            len(payload)
    # Workers end with the iterator, and count only then.
    seconds = time.perf_counter() - began
    print(samples, "samples", file=sys.stderr)
    if what == "first":
        print(json.dumps(first))
    else:
        print(json.dumps(seconds), json.dumps(cpu_seconds() - cpu))


if len(sys.argv) < 5 or sys.argv[2] not in PEERS:
    sys.exit(__doc__)
main(*sys.argv[1:])
