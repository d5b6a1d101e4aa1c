//! Help lines that several places share, so that the same advice has the same words.
//!
//! The tests in `tests/help_lines` follow the advice of every error.

/// A sealed file has changed since, or is missing.
pub const COPY_AGAIN: &str = "copy it again from where this dataset came from";
/// The same, where it can be packed anew.
pub const COPY_OR_PACK: &str = "copy it again from where this dataset came from, or pack anew with --force";
/// There is no dataset at a URL.
pub const URL_OF_FOLDER: &str = "give the URL of the folder that was the DST of pack";
/// Files on a web server cannot be changed through it.
pub const COPY_TO_WEB: &str = "write to a folder, and copy it to where the web server has its files";
/// Packed files are missing or changed, and the source may be available.
pub const PACK_ANEW: &str = "--force packs it anew";
/// Another version wrote it.
pub const OTHER_VERSION: &str = "use the version of shardpack that wrote it, or a newer one";
/// A pack was not finished.
pub const FINISH_PACK: &str = "run the same pack command again: it resumes after the finished shards";
/// A file of the source is another one than before.
pub const STILL_WRITTEN: &str = "run the same command again once nobody writes to it any more";
/// Several fields may be the images, and none has the usual name.
pub const WHICH_IMAGES: &str = "choose the feature that holds the images with --image-feature NAME";
/// Samples of one source are images, those of another are not.
pub const ONE_KIND: &str = "each kind is a dataset of its own: pack them one by one";
/// An existing file is in the way or invalid, and nothing in it can be kept.
pub const REPLACE: &str = "--force replaces it";
/// A file of the first version of Feather, which is not read.
pub const FEATHER_1: &str = "pandas.read_feather(FILE).to_parquet(OTHER.parquet) writes it anew";
/// The chosen labels of samples are no labels.
pub const NO_LABELS: &str = "--no-labels packs samples without a class";
/// A pattern names a file above the source.
pub const OUT_OF_SOURCE: &str = "--splits '{split}' reaches files beside the folders of the splits; --extra-root NAME=FOLDER reaches others, as '{NAME}/FILE'";
/// Classes of one side have other names than those of the other.
pub const MAP_CLASSES: &str = "map the old names to the new ones with --class-map FILE";

/// shardpack itself is wrong.
pub const REPORT: &str = "please report it with the command and its output under RUST_BACKTRACE=1";
/// The system lets nobody start more threads.
pub const THREADS: &str = "raise `ulimit -u`, or use fewer threads: --jobs 1";

/// Several fields may be the images; one has the name `name`.
pub fn this_image(name: &str) -> String {
    format!("--image-feature {name} packs that one")
}
