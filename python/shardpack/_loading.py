"""Arguments of a loader that are more than a checked value: parts of a mix, order, stores, and the pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Union

from . import distributed
from ._options import choice, flag, several, text, whole, whole_or_none
from ._sizes import shown
from ._stores import Settings, is_url
from .errors import UsageError
from .part import Part, by_epoch
from .transforms import Pipeline, Step, imagenet_eval, imagenet_train

#: Values of `transform`: `train`, `eval`, steps, a pipeline, or a list of these for several views.
Transform = Union[str, Sequence[Step], Pipeline, Sequence[Union[str, Sequence[Step], Pipeline]]]


def parts(path: Any, part_seed: int, chosen: Mapping[str, Any]) -> list[Part]:
    """The parts of a mix, or one part of all options that choose samples."""
    if isinstance(path, (str, os.PathLike)):
        return [Part(path, part_seed=part_seed, **chosen)]
    found = mix(path)
    if told := [name for name, value in chosen.items() if value is not None]:
        raise UsageError(f"{told[0]} of a mix: each Part has its own")
    return found


def mix(given: Any) -> list[Part]:
    """The parts of a mix, at least one."""
    if isinstance(given, Part):
        return [given]
    parts = several(given, "path", "Parts")
    for one in parts:
        if not isinstance(one, Part):
            raise UsageError(
                f"{shown(one)} in a list of datasets: a mix is a list of Parts",
                help='[shardpack.Part("one"), shardpack.Part("two")]',
            )
    if not parts:
        raise UsageError("a mix of no datasets")
    return parts


def shuffle(given: Any) -> str:
    """The name of the order."""
    if isinstance(given, str):
        return choice(given, "shuffle", ("lanes", "full", "none"))
    return "lanes" if flag(given, "shuffle") else "none"


def bucket(by: str | None, batches: int | None, tokens: int | None) -> list[Any] | None:
    """Batches by length: by what, batches of a window, and limit of tokens of a batch."""
    if by is None:
        for name, value in (("bucket_batches", batches), ("batch_tokens", tokens)):
            if value is not None:
                raise UsageError(f"{name} is for batches by length", help='bucket_by="tokens.npy" names the length')
        return None
    return [
        text(by, "bucket_by"),
        whole_or_none(batches, "bucket_batches", 2),
        whole_or_none(tokens, "batch_tokens", 1),
    ]


def weights(parts: Sequence[Part], epoch_samples: int | None) -> list[Any] | None:
    """Weights of the parts by epoch, and samples of an epoch; `None` if the parts have none."""
    given = [one.weight for one in parts if one.weight is not None]
    if (epoch_samples is None) != (not given) or len(given) not in (0, len(parts)):
        raise UsageError("weights: give all parts a weight, and set the length of an epoch with epoch_samples")
    if epoch_samples is None:
        return None
    return [[by_epoch(one) for one in given], whole(epoch_samples, "epoch_samples", 1)]


def check_functions(transform: Any, sample_transform: Any, after: Any) -> None:
    """Refuse functions that exclude each other."""
    if transform is not None and sample_transform is not None:
        raise UsageError(
            "transform and sample_transform: give only one",
            help="after=function is called after a native transform",
        )
    if after is not None and transform is None:
        raise UsageError("after is for the images of a transform", help="sample_transform=function takes the samples")


def check_ranks(rank: int | None, world_size: int | None, divides: bool) -> None:
    """Refuse ranks that are invalid, or that workers of a `DataLoader` might divide again; `divides` if they do."""
    if rank is not None or world_size is not None:
        # Invalid values fail now, not at the first batch.
        distributed.find(rank, world_size)
    if rank is not None and divides and distributed.worker() is not None:
        raise UsageError(
            "rank and world_size in a worker of a DataLoader: nobody can say whether they divide among its workers",
            help="leave them out, and the loader divides; or take shardpack.torch.IterableDataset",
        )


def mixed_classes(pipelines: Sequence[Pipeline], after: Any, collate_fn: Any) -> int | None:
    """The number of classes of mixed labels, 0 for those of the dataset; `None` if images are not mixed."""
    found = next((one._mixed_classes for one in pipelines if one._mixed_classes is not None), None)
    if found is not None and (after is not None or collate_fn is not None):
        raise UsageError(
            "MixUp and CutMix mix whole batches, and after and collate_fn take samples",
            help="batch_transform=function is called with the mixed batch",
        )
    return found


def stores_of(parts: Sequence[Part], shared: Settings, cached: Settings) -> list[Settings]:
    """Store settings of each part, with the cache, which applies to all URLs."""
    is_for_all = len(parts) == 1
    if not is_for_all and not any(is_url(one.path) for one in parts):
        for given, said in ((shared, "settings of a store are"), (cached, "a cache is")):
            if given:
                raise UsageError(f"{said} given, and these are folders", os.fspath(parts[0].path))
    none = Settings()
    stores = []
    for one in parts:
        is_meant = is_for_all or is_url(one.path)
        own = Settings.of(one.store) if one.store is not None else shared if is_meant else none
        stores.append(replace(own, cache=cached.cache) if is_meant else own)
    return stores


def views(transform: Transform | None) -> tuple[list[Pipeline], bool]:
    """The pipelines of `transform`, and whether they are several views of each image."""
    if transform is None:
        return [], False
    if isinstance(transform, (list, tuple)) and any(not isinstance(one, Step) for one in transform):
        return [pipeline(one) for one in transform], True
    return [pipeline(transform)], False


def pipeline(transform: Any) -> Pipeline:
    """The pipeline that `transform` names."""
    if isinstance(transform, Pipeline):
        return transform
    if transform == "train":
        return imagenet_train()
    if transform == "eval":
        return imagenet_eval()
    if isinstance(transform, Step):
        return Pipeline([transform])
    if isinstance(transform, str):
        raise UsageError(f"transform={transform!r}: train, eval, steps of shardpack.transforms, or a Pipeline")
    if callable(transform):
        raise UsageError(
            f"transform={shown(transform)}: a function, and no steps of shardpack.transforms",
            help="sample_transform=lambda item: function(item.pil()) calls it in threads, as transforms of torchvision are called",
        )
    return Pipeline(several(transform, "transform", "steps of shardpack.transforms"))


#: Roles that decode files.
DECODED = ("mask", "image")


def roles(
    given: Mapping[str, str | None] | None, decode: Mapping[str, str] | None, known: Sequence[str], raw: bool
) -> dict[str, str | None]:
    """The role of each component that has one, or that keeps none; `known` are the components of the dataset."""
    found: dict[str, str | None] = dict.fromkeys(known) if raw else {}
    for option, one in (("decode", decode), ("roles", given)):
        if one is None:
            continue
        if not isinstance(one, Mapping):
            raise UsageError(
                f"{option}={shown(one)}: a dict of components is wanted", help=f'{option}={{"mask.png": "mask"}}'
            )
        if raw and one:
            raise UsageError(f"raw=True returns bytes, and {option} changes them: give only one")
        for name, role in one.items():
            exact = _component(name, known, option)
            # The native part knows all roles.
            found[exact] = choice(role, f"decode: {exact}", DECODED) if option == "decode" else role
    return found


def _component(name: Any, known: Sequence[str], option: str) -> str:
    """The component with this name, or with this name before its extension."""
    matches = [one for one in known if one == name] or [one for one in known if one.rpartition(".")[0] == name]
    if len(matches) != 1:
        few = "several components" if matches else "no component"
        raise UsageError(f"{option}: {few} {shown(name)}; there are {', '.join(matches or known)}")
    return matches[0]
