//! Help lines of `slurm` that need no cluster.

use shardpack_testing::Bench;

use super::{Row, go, nothing};

fn planned(bench: &Bench) {
    go(bench, &["plan SRC DST --shards 6 -o @p"]);
}

pub const ROWS: &[Row] = &[
    (
        "no plan file",
        nothing,
        "slurm --plan @p DST --array 4",
        2,
        "shardpack slurm SRC DST --array N makes it; choose another one with --plan FILE",
        &["slurm SRC DST --array 4", "plan SRC DST -o @p", "slurm --plan @p DST --array 4"],
    ),
    (
        "a plan and its source",
        planned,
        "slurm --plan @p SRC DST --array 4",
        2,
        "shardpack slurm --plan FILE DST --array N, or shardpack slurm --missing DST",
        &[
            "slurm --plan @p DST --array 4",
            "$ mkdir DST.slurm && mv @p DST.slurm/plan",
            "pack --plan DST.slurm/plan DST --part 1/4",
            "slurm --missing DST",
        ],
    ),
    (
        "a plan before images are changed",
        nothing,
        "slurm SRC DST --array 4 --resize 16 --plan-job",
        2,
        "without it, the parts change the images first",
        &["slurm SRC DST --array 4 --resize 16"],
    ),
    (
        "what is missing of images that are changed",
        |bench| go(bench, &["pack SRC DST --resize 16 --part 1/4"]),
        "slurm --missing DST",
        2,
        "run the command that began it again: it submits all parts, and finished work is not repeated",
        &["slurm SRC DST --array 4 --resize 16"],
    ),
    (
        "a folder without a name",
        nothing,
        "slurm SRC / --array 4",
        2,
        "set it with --logs FOLDER",
        &["slurm SRC / --array 4 --logs @x"],
    ),
    (
        "nothing tells the number of parts",
        |bench| {
            planned(bench);
            go(bench, &["$ echo >> $(ls SRC/class-1/*.jpg | head -n 1)", "! pack --plan @p DST"]);
        },
        "slurm --plan @p --missing DST",
        2,
        "set the number of parts with --array N",
        &["slurm --plan @p --missing DST --array 4"],
    ),
    (
        "another number of parts",
        |bench| {
            planned(bench);
            go(bench, &["pack --plan @p DST --part 1/3"]);
        },
        "slurm --plan @p --missing DST --array 4",
        2,
        "leave --array out beside --missing",
        &["slurm --plan @p --missing DST"],
    ),
];
