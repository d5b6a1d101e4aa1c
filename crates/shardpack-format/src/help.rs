//! Help lines that several places give: what is to be done is said in one way.
//!
//! All that errors advise is followed by the tests in `tests/help_lines`.

/// What was sealed has changed since, or is gone.
pub const COPY_AGAIN: &str = "copy it again from where this dataset came from";
/// The same, where it can be packed anew.
pub const COPY_OR_PACK: &str = "copy it again from where this dataset came from, or pack anew with --force";
/// There is no dataset at a URL.
pub const URL_OF_FOLDER: &str = "the URL is that of the folder that was packed into";
/// What a web server has cannot be changed through it.
pub const COPY_TO_WEB: &str = "write to a folder, and copy it to where the web server has its files";
/// What was packed is there no more as it was, and the source may be at hand.
pub const PACK_ANEW: &str = "--force packs it anew";
/// Another version wrote it.
pub const OTHER_VERSION: &str = "use the version of shardpack that wrote it, or a newer one";
/// A pack was not finished.
pub const FINISH_PACK: &str = "run the same pack command again: it goes on from the finished shards";
/// A file of the source is another one than before.
pub const STILL_WRITTEN: &str = "run the same command again once nobody writes to it any more";
/// Several fields may be the images, and none of them is called so.
pub const WHICH_IMAGES: &str = "--image-feature NAME says which holds the images";
/// Samples of one source are images, those of another are not.
pub const ONE_KIND: &str = "each kind is a dataset of its own: pack them one by one";
/// Something stands in the way, or is not what it should be, and there is no more of it that could be kept.
pub const REPLACE: &str = "--force replaces it";
/// A file of Arrow, which is not read.
pub const ARROW_TO_PARQUET: &str = "convert reads parquet: datasets.load_from_disk(FOLDER).to_parquet(FILE), or pyarrow.parquet.write_table(TABLE, FILE)";
/// What was to be the label of samples is none.
pub const NO_LABELS: &str = "--no-labels packs samples without a class";
/// Classes of one side have other names than those of the other.
pub const MAP_CLASSES: &str = "--class-map FILE says which old names are which new ones";

/// shardpack itself is wrong.
pub const REPORT: &str = "please report it with the command and what it says with RUST_BACKTRACE=1";
/// The system lets nobody start more threads.
pub const THREADS: &str = "raise `ulimit -u`, or use fewer threads: --jobs 1";

/// Several fields may be the images; one of them is called `name`.
pub fn this_image(name: &str) -> String {
    format!("--image-feature {name} packs that one")
}
