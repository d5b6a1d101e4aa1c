"""Images with captions: packs `1.jpg` with `1.txt`, and loads batches of crops and texts.

    python clip_pairs.py pairs packed

Lists work too: `shardpack.pack("captions.csv", dst, root="images")` packs the columns of a list as components.
"""

import sys

import shardpack
from shardpack.transforms import CenterCrop, Normalize, Pipeline, Resize

#: Mean and standard deviation of CLIP's images.
MEAN, STD = (0.4815, 0.4578, 0.4082), (0.2686, 0.2613, 0.2758)


def main(src: str, dst: str) -> None:
    shardpack.pack(src, dst, no_labels=True, with_=["txt"])
    pixels = Pipeline([Resize(224), CenterCrop(224), Normalize(MEAN, STD)], dtype="float32")
    loader = shardpack.Loader(dst, 32, transform=pixels, components=["txt"])
    words = 0
    for batch in loader:
        images, texts = batch["image"], batch["txt"]
        # Tokenize `texts`, a list of str, and train here.
        assert images.shape == (len(texts), 3, 224, 224)
        words += sum(len(text.split()) for text in texts)
    print(f"{loader.samples_of_epoch} pairs, {words} words")


if __name__ == "__main__":
    main(*sys.argv[1:])
