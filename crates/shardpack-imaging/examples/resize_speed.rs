//! How long decoding, resizing to a shorter side of 256 and encoding take, a JPEG at a time, on one thread.
//!
//!     cargo run --release -p shardpack-imaging --example resize_speed [--features turbo] -- FOLDER [ROUNDS]
//!
//! With the feature `turbo`, contenders are the pure Rust way, the way of the feature, and as the bound a bare loop of
//! libjpeg-turbo, fast_image_resize and libjpeg-turbo. They take turns with each image; of the rounds, the shortest counts.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for people at a terminal")]

use std::{hint::black_box, path::Path, time::Instant};

use shardpack_imaging::{Encode, Limits, Outcome, Recipe, Resize, apply};

const SHORT: u32 = 256;

fn main() {}
