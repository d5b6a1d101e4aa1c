"""tf.data on the TFRecord shards that shardpack writes, with decode_and_crop_jpeg, as TensorFlow's own ImageNet pipelines have it: resized
without antialiasing. Batches are `[64, 224, 224, 3] uint8`. See meter.py."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from pathlib import Path  # noqa: E402

import tensorflow as tf  # noqa: E402
from meter import BATCH, SIDE, WORKERS, measure, run  # noqa: E402

FEATURES = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
}
WHOLE = tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4])


def crop(encoded):
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded), WHOLE, area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10
    )
    box = tf.stack([begin[0], begin[1], size[0], size[1]])
    image = tf.image.resize(tf.image.decode_and_crop_jpeg(encoded, box, channels=3), [SIDE, SIDE], method="bilinear")
    return tf.image.random_flip_left_right(tf.cast(tf.round(image), tf.uint8))


def sample(record):
    found = tf.io.parse_single_example(record, FEATURES)
    return crop(found["image/encoded"]), found["image/class/label"]


def read(folder: str) -> None:
    shards = sorted(map(str, Path(folder).glob("shard-?????-of-?????")))
    options = tf.data.Options()
    options.threading.private_threadpool_size = WORKERS
    options.deterministic = False
    dataset = tf.data.Dataset.from_tensor_slices(shards).shuffle(len(shards))
    dataset = dataset.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=WORKERS)
    dataset = dataset.shuffle(1000).map(sample, num_parallel_calls=WORKERS).batch(BATCH).prefetch(2)
    measure(dataset.with_options(options).as_numpy_iterator(), ["tensorflow-cpu"])


run(read)
