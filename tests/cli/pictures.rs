//! Checks the pictures of the pages in a browser. No label leaves the picture or covers another label, in a narrow and in a wide
//! font. All text stands out from the page in light and in dark.
//!
//! Debian's Chromium measures. Without Chromium the test prints a message; with `CI=true` it fails.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Finds labels that leave the picture and pairs of labels that overlap; prints them and the colour of text as JSON.
const SCRIPT: &str = r#"
const svg = document.querySelector("svg"), frame = svg.getBoundingClientRect(), wrong = [];
const boxes = [...svg.querySelectorAll("text")].map(text => ({ text: text.textContent, box: text.getBoundingClientRect() }));
const slack = 1;
for (const { text, box } of boxes)
    if (box.left < frame.left - slack || box.right > frame.right + slack || box.top < frame.top - slack || box.bottom > frame.bottom + slack)
        wrong.push(`${text}: outside`);
for (const [at, one] of boxes.entries())
    for (const other of boxes.slice(at + 1)) {
        const across = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
        const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
        // The boxes of lines include room above and below the letters.
        if (across > slack && down > 0.45 * Math.min(one.box.height, other.box.height)) wrong.push(`${one.text} over ${other.text}`);
    }
const colour = getComputedStyle(svg.querySelector("text")).fill;
document.querySelector("pre").textContent = JSON.stringify({ labels: boxes.length, colour, wrong });
"#;

/// The name of the program, if this machine has it.
fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()));
    if found.is_none() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "chromium is not installed: apt-get install chromium");
        eprintln!("chromium is not installed: the pictures were NOT looked at");
    }
    found
}

fn measured(chromium: &str, folder: &Path, picture: &str, style: &str, is_dark: bool) -> Value {
    let page = folder.join("page.html");
    let html = format!(
        "<!doctype html><meta charset=utf-8><body style='margin:0'>{picture}<style>{style}</style><pre></pre><script>{SCRIPT}</script>"
    );
    fs::write(&page, html).unwrap();
    let profile = folder.join("profile");
    let mut browser = Command::new(chromium);
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]);
    browser.args(["--disable-background-networking", "--disable-component-update", "--window-size=1200,1200"]);
    browser.arg(format!("--user-data-dir={}", profile.display()));
    browser.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
    let output = browser.arg("--dump-dom").arg(format!("file://{}", page.display())).output().unwrap();
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = dom
        .split_once("<pre>")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .map(|(text, _)| text.replace("&gt;", ">"));
    let text =
        text.unwrap_or_else(|| panic!("no answer of {chromium}: {dom}\n{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn pictures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/explain");
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all.filter(|path| path.extension().is_some_and(|extension| extension == "svg")).collect();
    all.sort();
    all
}

#[test]
fn labels_of_pictures_are_whole_apart_and_readable() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let pictures = pictures();
    assert!(pictures.len() >= 6, "{pictures:?}");
    // A browser may have any font for system-ui. A twentieth of an em per letter makes the text as wide as Verdana beside Arial.
    let styles = [("as it is", ""), ("in a wide font", "svg text{letter-spacing:.05em}")];
    for path in pictures {
        let picture = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().display();
        for (how, style) in styles {
            let found = measured(chromium, folder.path(), &picture, style, false);
            assert!(found["labels"].as_u64().unwrap() > 5, "{name}: {found}");
            assert_eq!(found["wrong"], serde_json::json!([]), "{name}, {how}");
            assert_eq!(found["colour"], "rgb(31, 35, 40)", "{name}: text in light");
        }
        let found = measured(chromium, folder.path(), &picture, "", true);
        assert_eq!(found["colour"], "rgb(230, 237, 243)", "{name}: text in dark");
    }
    // The check finds a bad picture.
    let cut = r#"<svg xmlns="http://www.w3.org/2000/svg" width="90" height="40"><text x="0" y="20">dpack from Python</text><text x="4" y="22">crops</text></svg>"#;
    let found = measured(chromium, folder.path(), cut, "", false);
    assert_eq!(found["wrong"].as_array().unwrap().len(), 2, "{found}");
}
