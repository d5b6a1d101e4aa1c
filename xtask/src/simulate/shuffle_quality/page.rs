//! Replaces generated parts of pages. Each part stands between marks and belongs to one task; the rest is written by hand.

use crate::{
    Result,
    command::{read, root, write},
};

/// Replaces the part `name` of docs/explain/shuffle-quality.md with `text`.
pub fn set(name: &str, text: &str) -> Result<()> {
    set_in("docs/explain/shuffle-quality.md", name, text)
}

/// Replaces the part `name` of `file`, relative to the root, with `text`.
pub fn set_in(file: &str, name: &str, text: &str) -> Result<()> {
    let path = root().join(file);
    let page = put(&read(&path)?, name, text).ok_or_else(|| format!("{file} has no part {name}"))?;
    write(&path, page)?;
    println!("written to {file}");
    Ok(())
}

fn put(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}:begin -->\n"), format!("<!-- {name}:end -->"));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{}\n{end}{after}", text.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_replaced_and_the_others_stay() {
        let page = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb\n<!-- y:begin -->\n<!-- y:end -->\n";
        let page = put(page, "x", "new\n\n").unwrap();
        assert_eq!(page, "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb\n<!-- y:begin -->\n<!-- y:end -->\n");
        assert_eq!(put(&page, "z", "new"), None);
    }
}
