"""Packs what is below a prefix of a bucket as one would without shardpack: boto3 in a pool of threads, and webdataset's writer.

    bucket.py THREADS BUCKET PREFIX OUT

Keys are listed, shuffled and asked for by THREADS threads at a time, and written in that order to tar files of 32 MiB in OUT; the
environment says where the bucket is.
"""

import os
import random
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import boto3
import webdataset
from botocore.config import Config


def main(threads: int, bucket: str, prefix: str, out: str) -> None:
    client = boto3.client("s3", config=Config(max_pool_connections=threads))
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
    keys = [entry["Key"] for page in pages for entry in page["Contents"]]
    labels = {name: number for number, name in enumerate(sorted({key.split("/")[-2] for key in keys}))}
    random.Random(0).shuffle(keys)

    def payload(key: str) -> bytes:
        return client.get_object(Bucket=bucket, Key=key)["Body"].read()

    os.makedirs(out)
    with ThreadPoolExecutor(threads) as pool:
        with webdataset.ShardWriter(f"{out}/shard-%06d.tar", maxsize=32 << 20, maxcount=1 << 30, verbose=0) as writer:
            asked: deque = deque(pool.submit(payload, key) for key in keys[: 4 * threads])
            for number, key in enumerate(keys):
                asked.extend(pool.submit(payload, later) for later in keys[number + 4 * threads : number + 4 * threads + 1])
                label = labels[key.split("/")[-2]]
                writer.write({"__key__": f"{number:09}", "jpg": asked.popleft().result(), "cls": label})
    os.sync()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
