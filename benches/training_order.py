"""Trains a small network on scikit-learn's digits, in orders that are given, and prints what it gets right after each epoch.

    training_order.py DIGITS ORDERS STORED SEEDS EPOCHS BATCH
    training_order.py --digits DIGITS

DIGITS: .npz with x [1797, 8, 8] float32 of 0 to 1 and y [1797] int64; --digits makes it, which needs scikit-learn alone.
ORDERS: uint16, [orders, SEEDS, EPOCHS, samples]: the place in the stored order of each sample, as it comes.
STORED: uint16, [2, samples]: which sample, of those sorted by class, is stored at a place: shuffled, and sorted.

Prints lines `order stored seed` and the share of the test set after each epoch. A seed fixes the network's start and which
fifth of the samples is the test set, for all orders alike.
"""

import sys
from concurrent.futures import ProcessPoolExecutor

import numpy


def write_digits(path):
    from sklearn.datasets import load_digits

    digits = load_digits()
    numpy.savez(path, x=(digits.images / 16).astype(numpy.float32), y=digits.target.astype(numpy.int64))


def parts(y, samples, seed):
    """Numbers of the samples that are trained on, sorted by class, and of the others."""
    drawn = numpy.random.default_rng(seed).permutation(len(y))
    train, test = drawn[:samples], drawn[samples:]
    return train[numpy.argsort(y[train], kind="stable")], test


def networks(seeds):
    """A small network for each seed, side by side as groups of channels: [B, seeds, 8, 8] to [B, seeds, 10]."""
    import torch
    from torch import nn

    class Linear(nn.Module):
        def __init__(self, parts):
            super().__init__()
            self.weight = nn.Parameter(torch.stack([part.weight.detach().T for part in parts]))
            self.bias = nn.Parameter(torch.stack([part.bias.detach() for part in parts]))

        def forward(self, x):
            x = x.view(len(x), seeds, -1)
            return torch.einsum("bsi,sio->bso", x, self.weight) + self.bias

    def one(seed):
        torch.manual_seed(seed)
        return nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1), nn.Linear(512, 10)

    firsts, seconds, lasts = zip(*map(one, range(seeds)))

    def together(parts):
        whole = nn.Conv2d(parts[0].in_channels * seeds, parts[0].out_channels * seeds, 3, padding=1, groups=seeds)
        with torch.no_grad():
            whole.weight.copy_(torch.cat([part.weight for part in parts]))
            whole.bias.copy_(torch.cat([part.bias for part in parts]))
        return whole

    return nn.Sequential(
        together(firsts), nn.BatchNorm2d(16 * seeds), nn.ReLU(), nn.MaxPool2d(2),
        together(seconds), nn.BatchNorm2d(32 * seeds), nn.ReLU(), Linear(lasts),
    )


def trained(job):
    """The trainings of all seeds on one order: what of the test set each has right after each epoch."""
    import torch

    digits, orders, stored, shape, batch, (order, store) = job
    torch.set_num_threads(1)
    orders = numpy.memmap(orders, dtype=numpy.uint16, mode="r", shape=shape)[order]
    stored = numpy.fromfile(stored, dtype=numpy.uint16).reshape(2, shape[3])[store]
    with numpy.load(digits) as loaded:
        x, y = torch.from_numpy(loaded["x"]), torch.from_numpy(loaded["y"])
    seeds = shape[1]
    train, test = zip(*(parts(y.numpy(), shape[3], seed) for seed in range(seeds)))
    train, test = torch.from_numpy(numpy.stack(train, 1)), torch.from_numpy(numpy.stack(test, 1))
    network = networks(seeds)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    right = []
    for epoch in range(shape[2]):
        # [samples, seeds]: the image that each seed sees next.
        places = torch.from_numpy(stored[orders[:, epoch]].astype(numpy.int64)).T
        images = train.gather(0, places)
        network.train()
        for at in images.split(batch):
            optimizer.zero_grad()
            logits = network(x[at]).flatten(0, 1)
            # The mean over a batch for each seed, and their sum: none changes what another learns.
            loss = torch.nn.functional.cross_entropy(logits, y[at].flatten(), reduction="sum") / len(at)
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            right.append((network(x[test]).argmax(2) == y[test]).float().mean(0).tolist())
    return order, store, list(zip(*right))


def main():
    if sys.argv[1] == "--digits":
        return write_digits(sys.argv[2])
    digits, orders, stored = sys.argv[1:4]
    seeds, epochs, batch = map(int, sys.argv[4:])
    samples = len(numpy.fromfile(stored, dtype=numpy.uint16)) // 2
    count = len(numpy.memmap(orders, dtype=numpy.uint16, mode="r")) // (seeds * epochs * samples)
    shape = (count, seeds, epochs, samples)
    todo = [(order, store) for order in range(count) for store in range(2)]
    with ProcessPoolExecutor(2) as pool:
        for order, store, found in pool.map(trained, [(digits, orders, stored, shape, batch, job) for job in todo]):
            for seed, right in enumerate(found):
                print(order, store, seed, *(f"{share:.6f}" for share in right), flush=True)


if __name__ == "__main__":
    main()
