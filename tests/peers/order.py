"""Runs the Python blocks of docs/reference/order.md as a reader of the page would.

Checks the blocks against the test vectors of the page in both directions. Then packs a tree with several options and
compares the order in the shards with the result of the blocks. Needs only the standard library.

Args:
    order.md: the page.
    shardpack: the program.
    photos: an ImageFolder.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile


def block(text, language, count=1):
    """The text of all code blocks in `language`, which must be `count` blocks."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == count, f"{len(blocks)} blocks of {language}"
    return "".join(blocks)


def canonical(root):
    """Paths below `root` in canonical order: by class, folder, file name, each as bytes."""
    images = (b".jpg", b".jpeg", b".png")
    found = []
    for folder, _, names in os.walk(os.fsencode(root)):
        path = os.path.relpath(folder, os.fsencode(root))
        found += [(path.split(b"/")[0], path, name) for name in names if name.lower().endswith(images)]
    return [path + b"/" + name for _, path, name in sorted(found)]


def packed(dst):
    """Key, path and length in bytes of the record of each sample in stored order, as the shards have them; and the
    manifest."""
    with open(os.path.join(dst, "manifest.json")) as file:
        manifest = json.load(file)
    samples = []
    for shard in manifest["shards"]:
        before = len(samples)
        with tarfile.open(os.path.join(dst, shard["file"])) as tar:
            start = 0
            for member in tar:
                key, extension = member.name.split(".", 1)
                # The last member of a sample.
                if extension == "json":
                    end = member.offset_data + -(-member.size // 512) * 512
                    samples.append((key, json.load(tar.extractfile(member))["path"].encode(), end - start))
                    start = end
        assert len(samples) - before == shard["samples"], shard["file"]
    return samples, manifest


def even_ends(shards):
    """`--shards` and `--shard-samples`."""
    return lambda records: [(i + 1) * len(records) // shards for i in range(shards)]


def byte_ends(most):
    """`--shard-size`."""

    def cut(records):
        total, longest = sum(records), max(records)
        tail = -(-(most + 1024) // 10240) * 10240 - most
        shards = -(-total // (most if 4 * longest > most else most - tail - longest))
        shards = min(max(shards, 1), len(records))
        ends, before = [], 0
        for position, record in enumerate(records):
            if len(ends) < shards - 1 and before + record // 2 >= (len(ends) + 1) * total // shards:
                ends.append(position)
            before += record
        return ends + [len(records)]

    return cut


def mixed(names, line):
    """The mix that a line of the page describes, and the number of samples."""
    parts, options = line.split("; ")
    shuffle, *numbers = options.split()
    found = []
    for one in parts.split(" + "):
        shards, block, subset, times = one.split(", ")
        shards = [int(count) for count in shards.split()]
        which, *bounds = subset.split()
        chosen = {
            "all": lambda: range(sum(shards)),
            "range": lambda: range(*map(int, bounds)),
            "list": lambda: map(int, bounds),
            "part": lambda: names["part"](sum(shards), *map(float, bounds[:2]), int(bounds[2])),
        }[which]
        found.append((shards, int(block), times_of(names, list(chosen()), int(block), times)))
    mix = names["Mix"](found, shuffle, *map(int, numbers))
    return mix, len(mix.places)


def times_of(names, chosen, block, times):
    """How often the samples of a part come, as a function of its part key."""
    how, *number = times.split()
    if how == "classes":
        return lambda key: names["copies_by_class"](chosen, lambda sample: sample % 2, float(number[0]), key)
    return lambda key: names["copies"](chosen, int(number[0]) if number else len(chosen), block, key)


def subsets_and_mixes(names, text):
    """Checks the lines of the page and returns the number of lines."""
    lines = 0
    for line in block(text, "parts").splitlines():
        head, samples = line.split(": ")
        samples_of, start, end, seed = head.split()
        found = names["part"](int(samples_of), float(start), float(end), int(seed))
        assert found == [int(sample) for sample in samples.split()], line
        lines += 1
    for line in block(text, "totals").splitlines():
        head, parts = line.split(": ")
        total, *weights = head.split()
        assert names["divide"](int(total), list(map(float, weights))) == [int(one) for one in parts.split()], line
        lines += 1
    for line in block(text, "mixes").splitlines():
        head, samples = line.split(": ")
        mix, count = mixed(names, head)
        order = [mix.sample_at(position) for position in range(count)]
        assert sorted(order) == sorted(mix.places), line
        found = " ".join(f"{part}.{sample}" for part, sample in order[: min(8, count - 1)] + order[-1:])
        assert found == samples, line
        lines += 1
    for line in block(text, "keys").splitlines():
        dataset, rest = line.split("; ")
        numbers, known = rest.split(": ")
        sample, seed, epoch = map(int, numbers.split())
        identity = names["identity"](bytes.fromhex(dataset), sample)
        assert f"{identity:032x} {names['random_key'](identity, seed, epoch)}" == known, line
        lines += 1
    return lines


def buckets(names, text):
    """Checks the lines of the page on batches by length and returns the number of lines."""
    lines = [line for line in block(text, "buckets").splitlines() if not line.startswith("#")]
    for line in lines:
        head, samples = line.split(": ")
        shards, options, windows = head.split("; ")
        shards = [int(count) for count in shards.split()]
        block_samples, shuffle, *numbers = options.split()
        epoch = names["Epoch"](shards, int(block_samples), shuffle, *map(int, numbers))
        world, batch, batches, *tokens = map(int, windows.split())
        arguments = (epoch, sum(shards), lambda sample: sample % 7, world, batch, batches, shuffle != "none", *tokens)
        order = [epoch.sample_at(position) for position in names["Buckets"](*arguments).positions]
        assert sorted(order) == list(range(sum(shards))), line
        assert order[: min(8, len(order) - 1)] + order[-1:] == [int(sample) for sample in samples.split()], line
    return len(lines)


def main():
    page, shardpack, photos = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    names = {}
    exec(block(text, "python", 4), names)
    Order = names["Order"]

    vectors = block(text, "vectors").splitlines()
    for line in vectors:
        head, samples = line.split(":")
        count, seed = map(int, head.split())
        order = Order(count, seed)
        for position, sample in enumerate(map(int, samples.split())):
            assert order.sample_at(position) == sample, line
            assert order.position_of(sample) == position, line
    for count in list(range(0, 70)) + [255, 256, 257, 1000]:
        order = Order(count, 7)
        assert sorted(map(order.sample_at, range(count))) == list(range(count)), count

    epochs = block(text, "epochs").splitlines()
    for line in epochs:
        head, samples = line.split(": ")
        shards, options = head.split("; ")
        shards = [int(count) for count in shards.split()]
        block_samples, shuffle, *numbers = options.split()
        epoch = names["Epoch"](shards, int(block_samples), shuffle, *map(int, numbers))
        order = [epoch.sample_at(position) for position in range(sum(shards))]
        assert sorted(order) == list(range(sum(shards))), line
        assert order[: min(8, len(order) - 1)] + order[-1:] == [int(sample) for sample in samples.split()], line

    more = subsets_and_mixes(names, text) + buckets(names, text)

    paths = canonical(photos)
    # Options, and the function that returns the end positions of shards.
    runs = [
        ([], even_ends(1)),
        (["--seed", "1"], even_ends(1)),
        (["--seed", str(2**64 - 1), "--shards", "7"], even_ends(7)),
        (["--order", "source", "--shard-samples", "5"], even_ends(-(-len(paths) // 5))),
        (["--seed", "3", "--shard-size", "300KiB"], byte_ends(307200)),
        (["--seed", "4", "--shard-size", "200KiB"], byte_ends(204800)),
    ]
    for options, cut in runs:
        with tempfile.TemporaryDirectory() as folder:
            dst = os.path.join(folder, "packed")
            subprocess.run([shardpack, "pack", photos, dst, "--quiet", "--meta", "json", *options], check=True,
                           stdout=subprocess.DEVNULL)
            samples, manifest = packed(dst)
        assert manifest["samples"] == len(samples) == len(paths), options
        if manifest["order"]["algorithm"] == "source":
            expected = paths
        else:
            assert manifest["order"]["algorithm"] == "feistel-8"
            order = Order(len(paths), manifest["order"]["seed"])
            expected = [paths[order.sample_at(position)] for position in range(len(paths))]
        assert [path for _, path, _ in samples] == expected, options
        assert [key for key, _, _ in samples] == [f"{position:08}" for position in range(len(paths))], options
        ends = cut([record for _, _, record in samples])
        assert [shard["samples"] for shard in manifest["shards"]] == [b - a for a, b in zip([0] + ends, ends)], options
    print(f"{len(vectors)} vectors, {len(epochs)} epochs, {more} subsets, mixes, keys and windows, and {len(runs)} packs agree with the page")


main()
