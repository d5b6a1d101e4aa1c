//! Tests terminal output: closed pipes, colours, the width of a terminal, help and manual pages.

use std::{
    ffi::OsStr,
    fs, io,
    path::Path,
    process::{Command, Stdio},
};

use shardpack_testing::{Bench, Ran, binary, photos, run};

const COMMANDS: [&str; 6] = ["pack", "convert", "adopt", "plan", "verify", "inspect"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs the binary with a stdout whose reader is closed.
fn run_unread(args: &[&str]) -> i32 {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let status = Command::new(binary()).args(args).stdout(writer).stderr(Stdio::null()).status().unwrap();
    status.code().unwrap_or_else(|| panic!("{args:?}: {status}"))
}

/// Packs the photographs into three shards, twice: intact, and with one byte changed.
fn good_and_damaged(bench: &Bench) {
    for name in ["good", "damaged"] {
        shardpack_testing::pack(&photos(), &bench.at(name), &["--shards", "3", "--quiet"]).code(0);
    }
    let shard = bench.at("damaged/shard-000001.tar");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[2000] ^= 1;
    fs::write(shard, bytes).unwrap();
}

#[test]
fn a_closed_pipe_changes_no_verdict() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.file("a/empty.jpg", b"");
    good_and_damaged(&bench);
    let foreign = bench.at("foreign");
    fs::create_dir(&foreign).unwrap();
    let whole = fs::read(bench.at("good/shard-000000.tar")).unwrap();
    fs::write(foreign.join("a.tar"), &whole[..700]).unwrap();
    shardpack_testing::pack(&photos(), &bench.at("unread"), &["--shards", "3", "--quiet"]).code(0);
    fs::write(bench.at("unread/index/shard-000001.index"), b"no index").unwrap();
    let (good, damaged, unread) = (bench.at("good"), bench.at("damaged"), bench.at("unread"));
    let (good, damaged, unread, foreign) = (text(&good), text(&damaged), text(&unread), text(&foreign));
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    let rows: [(&[&str], i32); 22] = [
        (&["verify", good], 0),
        (&["verify", damaged], 1),
        (&["verify", damaged, "--json"], 1),
        (&["verify", damaged, "--decode"], 1),
        (&["verify", foreign], 1),
        (&["verify", "missing"], 2),
        (&["inspect", good], 0),
        (&["inspect", good, "--samples", "--limit", "0"], 0),
        (&["inspect", good, "--samples", "--json"], 0),
        (&["inspect", unread], 1),
        (&["inspect", unread, "--json"], 1),
        (&["inspect", unread, "--samples", "--limit", "0"], 1),
        (&["inspect", damaged, "--extract", "nobody", "-o", "-"], 2),
        (&["pack", src, dst], 1),
        (&["pack", src, dst, "--json"], 1),
        (&["plan", src, dst], 0),
        (&["adopt", foreign], 1),
        (&["adopt", foreign, "--json"], 1),
        (&["pack"], 2),
        (&["completions", "bash"], 0),
        (&["man"], 0),
        (&["--help"], 0),
    ];
    for (args, code) in rows {
        assert_eq!(run(args).code, code, "{args:?}, read to the end");
        assert_eq!(run_unread(args), code, "{args:?}, unread");
    }
    // In a shell script, the reader stops after the first line.
    for (script, codes) in [
        ("\"$0\" verify \"$1\" | head -n1 >/dev/null; echo ${PIPESTATUS[0]}", "1\n"),
        ("\"$0\" verify \"$1\" | grep -q hash; echo ${PIPESTATUS[0]}", "1\n"),
    ] {
        let out = Command::new("bash").args(["-c", script]).arg(binary()).arg(damaged).output().unwrap();
        assert_eq!(Ran::from(out).stdout, codes, "{script}");
    }
}

/// Runs the binary with these environment variables and no other variables that control colours.
fn run_with(settings: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = Command::new(binary());
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command.args(args).envs(settings.iter().copied()).output().unwrap().into()
}

#[test]
fn colours_are_where_they_are_asked_for() {
    let bench = Bench::with(&["a/1.jpg"]);
    good_and_damaged(&bench);
    let (src, good, dst) = (bench.src(), bench.at("good"), bench.dst());
    let (src, good, dst) = (text(&src), text(&good), text(&dst));
    let has_colours = |ran: &Ran| ran.stdout.contains('\u{1b}') || ran.stderr.contains('\u{1b}');
    let rows: [(&[&str], &[(&str, &str)], bool); 9] = [
        (&[], &[], false),
        (&["--color", "auto"], &[], false),
        (&["--color", "always"], &[], true),
        (&["--color=always"], &[("NO_COLOR", "1")], true),
        (&["--color", "never"], &[("CLICOLOR_FORCE", "1")], false),
        (&[], &[("CLICOLOR_FORCE", "1")], true),
        (&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[], &[("NO_COLOR", "1")], false),
        (&["--color", "never"], &[], false),
    ];
    let commands: [&[&str]; 9] = [
        &["verify", good],
        &["inspect", good],
        &["plan", src, dst],
        &["pack", src, dst, "--dry-run"],
        &["convert", good, dst, "--dry-run"],
        &["adopt", "missing"],
        &["verify", "missing"],
        &["verify", "--no-such-option"],
        &["pack", "--help"],
    ];
    for args in commands {
        for (options, settings, expected) in rows {
            let ran = run_with(settings, &[args, options].concat());
            assert_eq!(has_colours(&ran), expected, "{args:?} {options:?} {settings:?}: {}{}", ran.stdout, ran.stderr);
        }
    }
    // Output for programs is never coloured.
    for args in [&["verify", good, "--json"][..], &["completions", "bash"], &["man"], &["inspect", good, "--json"]] {
        assert!(!run_with(&[], &[args, &["--color", "always"]].concat()).code(0).stdout.contains('\u{1b}'), "{args:?}");
    }
    run(&["verify", good, "--color", "sometimes"]).code(2).says("invalid value 'sometimes'");
}

/// Runs the binary on a terminal with `columns` columns, through a Python script.
fn on_terminal(columns: usize, args: &[&str]) -> Ran {
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap_or_else(|| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/terminal.py");
    let mut command = Command::new(python);
    command.env("TERM", "xterm").env("NO_COLOR", "1").env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    command.args([OsStr::new(script), columns.to_string().as_ref(), binary().as_ref()]).args(args);
    command.output().unwrap().into()
}

/// The text of the terminal without cursor sequences; one line for each redraw.
fn lines(shown: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut chars = shown.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                let _ = chars.by_ref().skip_while(|c| *c == '[').find(|c| c.is_ascii_alphabetic());
            }
            '\r' => plain.push('\n'),
            c => plain.push(c),
        }
    }
    plain.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn progress_and_notes_fit_the_terminal() {
    let bench = Bench::with_source(1500, 4000);
    let (src, planned) = (bench.src(), bench.dst());
    let (src, planned) = (text(&src), text(&planned));
    for columns in [80, 50] {
        let dst = bench.at(&columns.to_string());
        // Slow enough that every machine shows progress.
        let args = ["pack", src, text(&dst), "--shards", "150", "--jobs", "1", "--compress", "zstd:19"];
        let ran = on_terminal(columns, &args).code(0);
        let lines = lines(&ran.stdout);
        let bars: Vec<_> = lines.iter().filter(|line| line.starts_with("packing ")).collect();
        assert!(!bars.is_empty(), "no progress was shown: {lines:#?}");
        for bar in &bars {
            // Behind the bar are only spaces, which erase the previous text.
            assert!(bar.chars().count() <= columns && bar.trim_end().chars().count() < columns, "{columns}: {bar}");
        }
        let last = bars.last().unwrap();
        assert!(last.contains("/s") && last.contains("iB") && last.contains('%'), "{last}");
        fs::remove_dir_all(dst).unwrap();

        let args = ["pack", src, planned, "--shards", "2", "--dry-run"];
        let lines = self::lines(&on_terminal(columns, &args).code(0).stdout);
        let at = lines.iter().position(|line| line.starts_with("note    2 shards for 32 readers")).unwrap();
        let note: Vec<_> =
            lines[at..].iter().enumerate().take_while(|(n, l)| *n == 0 || l.starts_with("        ")).collect();
        assert!(note.len() > 1, "{note:?}");
        for (_, line) in &note {
            assert!(line.chars().count() <= columns, "{line}");
        }
        let words: Vec<_> = note.iter().flat_map(|(_, line)| line.split_whitespace()).collect();
        assert!(words.join(" ").ends_with("gives each one"), "{words:?}");
    }
}

#[test]
fn what_is_shown_is_what_is_being_done_with_compressed_shards() {
    let bench = Bench::with_source(1500, 4000);
    for split in ["train", "val"] {
        fs::create_dir(bench.at(split)).unwrap();
        let options = ["--shards", "1", "--compress", "zstd", "--quiet"];
        shardpack_testing::pack(&bench.src(), &bench.at("packed"), &options).code(0);
        fs::rename(bench.at("packed/shard-000000.tar.zst"), bench.at(split).join("x.tar.zst")).unwrap();
        fs::remove_dir_all(bench.at("packed")).unwrap();
    }
    let [train, val] = ["train", "val"].map(|split| format!("{split}={}", text(&bench.at(split))));
    // Each split is read and packed separately. Slow enough that every machine shows progress.
    let dst = bench.dst();
    let ran = on_terminal(
        80,
        &[
            "convert",
            text(&dst),
            "--split",
            &train,
            "--split",
            &val,
            "--read-order",
            "plan",
            "--shards",
            "150",
            "--jobs",
            "1",
            "--compress",
            "zstd:19",
        ],
    )
    .code(0);
    let lines = lines(&ran.stdout);
    let packing: Vec<_> = lines.iter().filter(|line| line.starts_with("packing ")).collect();
    let last = packing.last().unwrap_or_else(|| panic!("no packing was shown: {lines:#?}"));
    assert!(last.contains("/s") && last.contains('%'), "{last}");
    let percent = |line: &str| line[..line.find(" %").unwrap()].rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    // The percentage of the second split continues from the first split.
    assert!(packing.windows(2).all(|pair| percent(pair[0]) <= percent(pair[1])), "{packing:#?}");
    assert!(percent(last) > 50, "{packing:#?}");
    for line in lines.iter().filter(|line| line.starts_with("unpack ")) {
        assert!(!line.contains("images") && line.contains("iB"), "{line}");
    }
}

#[test]
fn a_long_list_of_bad_images_is_capped() {
    let bench = Bench::with(&["a/good.jpg"]);
    for number in 0..30 {
        bench.file(format!("a/bad-{number:02}.jpg"), b"");
    }
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    let named = |shown: &str| shown.matches(": empty file").count();
    let ran = on_terminal(200, &["pack", src, dst]).code(1);
    assert_eq!(named(&ran.stdout), 20, "{}", ran.stdout);
    assert!(ran.stdout.contains("… and 10 more; --json names all"), "{}", ran.stdout);
    assert_eq!(named(&run(&["pack", src, dst]).code(1).stdout), 20);
    assert_eq!(run(&["pack", src, dst, "--json"]).code(1).json()["bad"].as_array().unwrap().len(), 30);
    let skipped = run(&["pack", src, dst, "--on-bad", "skip"]).code(0);
    assert_eq!(named(&skipped.stdout), 20);
    let found = "found   31 images in 1 class, 4.88 KiB, 30 cannot be packed";
    skipped.says(found).says("packed  1 of 31 images").says("… and 10 more; ledger.jsonl names all");

    // Every sample of the only shard is damaged.
    let packed = bench.at("photos");
    shardpack_testing::pack(&photos(), &packed, &["--shards", "1", "--quiet"]).code(0);
    let shard = packed.join("shard-000000.tar");
    let zeros = vec![0; fs::metadata(&shard).unwrap().len() as usize];
    fs::write(shard, zeros).unwrap();
    let all = run(&["verify", text(&packed), "--json"]).code(1).json()["problems"].as_array().unwrap().len();
    assert!(all > 20, "{all}");
    let ran = on_terminal(200, &["verify", text(&packed)]).code(1);
    assert!(ran.stdout.contains(&format!("… and {} more; ", all - 20)), "{}", ran.stdout);
    run(&["verify", text(&packed)]).code(1).says(&format!("… and {} more; --json names all", all - 20));
}

#[test]
fn a_record_is_called_by_its_file_once() {
    let bench = Bench::new();
    shardpack_testing::pack(&photos(), &bench.at("tfrecord"), &["--format", "tfrecord", "--shards", "1", "--quiet"])
        .code(0);
    let mut bytes = fs::read(bench.at("tfrecord/shard-00000-of-00001")).unwrap();
    bytes[20_000] ^= 1;
    let file = bench.at("x.tfrecord");
    fs::write(&file, bytes).unwrap();
    let ran = run(&["convert", text(&file), text(&bench.dst())]).code(1);
    ran.says("        x.tfrecord/1: data CRC differs").says_not("x.tfrecord/x.tfrecord");
}

#[test]
fn a_printed_path_has_no_slash_twice() {
    let bench = Bench::with(&["a/1.jpg"]);
    for format in ["webdataset", "tfrecord", "recordio", "mds"] {
        let dst = format!("{}//{format}/", text(&bench.at("")));
        let ran = run(&["pack", text(&bench.src()), &dst, "--format", format]).code(0);
        let lines = ran.stdout.split_once("next    ").unwrap().1.lines().skip(1).map(str::to_owned);
        for line in lines {
            assert!(!line.contains("//"), "{line}");
        }
    }
}

#[test]
fn the_short_help_fits_a_screen_and_the_long_one_has_all() {
    for command in COMMANDS {
        let help = |how| {
            let out = Command::new(binary()).args([command, how]).env("COLUMNS", "80").env("NO_COLOR", "1").output();
            Ran::from(out.unwrap()).code(0).stdout
        };
        let (short, long) = (help("-h"), help("--help"));
        assert!(short.lines().count() <= 41, "{command}: {} lines\n{short}", short.lines().count());
        assert!(short.contains("--help"), "{command}: says that there is more\n{short}");
        let options = |help: &str| -> Vec<String> {
            let words = help.split([' ', ',', '\n']).filter(|word| word.starts_with("--"));
            words.map(|word| word.trim_end_matches(|c: char| !c.is_ascii_lowercase()).to_owned()).collect()
        };
        for option in options(&short) {
            assert!(long.contains(&option), "{command}: {option} is not in --help");
        }
        for option in ["--json", "--quiet"] {
            assert!(short.contains(option), "{command}: {option}\n{short}");
        }
        assert!(long.contains("--color"), "{command}");
    }
}

#[test]
fn each_command_has_a_manual_page() {
    let all = run(&["man"]).code(0).stdout;
    assert!(all.contains(".TH shardpack 1") && all.contains("shardpack\\-pack(1)"), "{all}");
    let bench = Bench::new();
    run(&["man", "--out", text(&bench.at("man1"))]).code(0);
    for command in COMMANDS {
        let page = run(&["man", command]).code(0).stdout;
        assert!(page.starts_with(".ie") && page.contains(&format!(".TH shardpack-{command} 1")), "{command}: {page}");
        assert!(page.contains("\\-\\-json") && page.contains(".SH EXAMPLES\n"), "{command}");
        let synopsis = format!(".SH SYNOPSIS\n\\fBshardpack {command}\\fR [OPTIONS]");
        assert!(page.contains(&synopsis), "{command}: {page}");
        // An option without a text would be followed directly by the next option.
        assert!(!page.contains(".TP\n\n") && !page.split(".TP\n").any(|item| item.lines().count() < 2), "{command}");
        let file = bench.at(&format!("man1/shardpack-{command}.1"));
        assert_eq!(fs::read_to_string(file).unwrap(), page, "{command}");
    }
    assert_eq!(fs::read_to_string(bench.at("man1/shardpack.1")).unwrap(), all);
    run(&["man", "fly"]).code(2).says("fly");
}
