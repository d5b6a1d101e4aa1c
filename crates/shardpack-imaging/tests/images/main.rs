//! Images: decoding, crops, resizing and transforms, compared with other libraries.

#![allow(
    clippy::disallowed_methods,
    clippy::excessive_nesting,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr
)]

mod augmented;
mod crops;
mod golden;
mod kinds;
mod odd;
mod peers;
mod recipes;
mod samples;
mod torchvision;
mod training;
mod transforms;
