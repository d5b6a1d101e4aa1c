//! Finds circles of imports: files of one crate that depend on each other, directly or through others.
//!
//! A file depends on the file that defines a name it uses, whatever re-exports the name. A module may use the definitions of the modules
//! that contain it, so these do not count. Crates cannot form circles: cargo refuses them. Glob
//! re-exports are not followed; the product has none.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{
    Result,
    sources::{self, SourceFile},
};

/// Most files in one circle.
const MAX_FILES: usize = 3;
/// Most re-exports of re-exports.
const MAX_STEPS: usize = 8;

/// Path of a module or of an item in its crate; empty for the root.
type Path = Vec<String>;

/// Imports of one file.
#[derive(Default)]
struct Imports {
    /// Names that it re-exports, with their paths; `*` with the path of the module.
    exports: BTreeMap<String, Vec<Path>>,
    /// Names that it imports, with their paths.
    names: BTreeMap<String, Path>,
    /// Paths that it uses, as they are written.
    paths: Vec<Path>,
}

/// Step of `check`: no circle has more than three files.
pub fn check() -> Result<()> {
    let mut crates: BTreeMap<String, Vec<SourceFile>> = BTreeMap::new();
    for source in sources::all()? {
        let of = source.name.split_once("src/").map_or("", |(before, _)| before).to_owned();
        crates.entry(of).or_default().push(source);
    }
    let mut wrong = Vec::new();
    for (name, sources) in crates {
        let large = circles(&sources)?.into_iter().filter(|circle| circle.len() > MAX_FILES);
        wrong.extend(large.map(|circle| {
            let files: Vec<_> = circle.iter().map(|module| module.join("::")).collect();
            format!("{name}src: {} files import each other, at most {MAX_FILES}: {}", files.len(), files.join(", "))
        }));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The circles of two or more files of a crate.
fn circles(sources: &[SourceFile]) -> Result<Vec<Vec<Path>>> {
    let mut files = BTreeMap::new();
    for SourceFile { name, code } in sources {
        let tokens = code.parse().map_err(|error| format!("{name}: cannot read the code: {error}"))?;
        let mut imports = Imports::default();
        imports.read(tokens);
        files.insert(module(name), imports);
    }
    let edges: BTreeMap<&Path, BTreeSet<Path>> =
        files.iter().map(|(module, imports)| (module, dependencies(&files, module, imports))).collect();
    // Two files are in one circle if each can be reached from the other.
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = files.keys().map(|from| (from, reachable(&edges, from))).collect();
    let (mut circles, mut seen) = (Vec::new(), BTreeSet::new());
    for module in files.keys() {
        let circle: Vec<Path> =
            reached[module].iter().filter(|to| reached[*to].contains(module)).map(|to| (*to).clone()).collect();
        if circle.len() > 1 && seen.insert(circle.clone()) {
            circles.push(circle);
        }
    }
    Ok(circles)
}

/// Path of the module in the file `name`.
fn module(name: &str) -> Path {
    let inner = name.split_once("src/").map_or(name, |(_, inner)| inner).trim_end_matches(".rs");
    let parts = inner.split('/').map(str::to_owned);
    parts.filter(|part| !["lib", "main", "mod"].contains(&part.as_str())).collect()
}

/// Modules that `module` depends on, without those that contain it.
fn dependencies(files: &BTreeMap<Path, Imports>, module: &Path, imports: &Imports) -> BTreeSet<Path> {
    let absolute = imports.paths.iter().filter_map(|path| absolute(files, module, path, 0));
    absolute.filter_map(|path| definition(files, path, 0)).filter(|found| !module.starts_with(found)).collect()
}

/// The path from the root of the crate; `None` for a path into another crate.
fn absolute(files: &BTreeMap<Path, Imports>, module: &Path, path: &[String], steps: usize) -> Option<Path> {
    let (first, rest) = path.split_first()?;
    let mut start = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        name => {
            let child = [module.as_slice(), &[name.to_owned()]].concat();
            match files[module].names.get(name) {
                _ if files.contains_key(&child) => child,
                Some(imported) if steps < MAX_STEPS => absolute(files, module, imported, steps + 1)?,
                _ => return None,
            }
        }
    };
    for part in rest {
        if part == "super" {
            start.pop()?;
        } else {
            start.push(part.clone());
        }
    }
    Some(start)
}

/// The module that defines the item at `path`; `None` if `path` is a module.
fn definition(files: &BTreeMap<Path, Imports>, path: Path, steps: usize) -> Option<Path> {
    let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
    let (module, item) = (path[..length].to_vec(), path.get(length)?);
    let imports = &files[&module];
    let exported = imports.exports.get(item).into_iter().flatten().find_map(|exported| {
        let rest = &path[length + 1..];
        let path = [absolute(files, &module, exported, 0)?.as_slice(), rest].concat();
        if steps < MAX_STEPS { definition(files, path, steps + 1) } else { None }
    });
    Some(exported.unwrap_or(module))
}

fn reachable<'a>(edges: &'a BTreeMap<&Path, BTreeSet<Path>>, from: &'a Path) -> BTreeSet<&'a Path> {
    let (mut reached, mut todo) = (BTreeSet::from([from]), vec![from]);
    while let Some(next) = todo.pop().and_then(|module| edges.get(module)) {
        todo.extend(next.iter().filter(|module| reached.insert(module)));
    }
    reached
}

impl Imports {
    /// Adds the imports and paths in `tokens`, without attributes.
    fn read(&mut self, tokens: TokenStream) {
        let (mut tokens, mut path, mut is_public, mut colons) = (tokens.into_iter().peekable(), Path::new(), false, 0);
        while let Some(token) = tokens.next() {
            let name = match &token {
                TokenTree::Ident(name) => Some(name.to_string()),
                _ => None,
            };
            if name.as_deref() == Some("use") {
                let tree: TokenStream = std::iter::from_fn(|| tokens.next_if(|token| !is_mark(token, ';'))).collect();
                self.tree(tree, &mut Vec::new(), is_public);
            }
            if !is_mark(&token, ':') && (name.is_none() || colons != 2) {
                self.used(&mut path);
            }
            match &token {
                TokenTree::Ident(_) => path.extend(name.clone()),
                TokenTree::Group(group) => self.read(group.stream()),
                _ if is_mark(&token, '#') => drop(tokens.next_if(|next| matches!(next, TokenTree::Group(_)))),
                _ => {}
            }
            if is_mark(&token, ':') {
                colons += 1;
            } else {
                colons = 0;
            }
            let is_scope = matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis);
            is_public = name.as_deref() == Some("pub") || is_public && is_scope;
        }
        self.used(&mut path);
    }

    fn used(&mut self, path: &mut Path) {
        if path.len() > 1 {
            self.paths.push(path.clone());
        }
        path.clear();
    }

    /// Adds the names of a `use` tree below `prefix`.
    fn tree(&mut self, tokens: TokenStream, prefix: &mut Path, is_public: bool) {
        let depth = prefix.len();
        let mut tokens = tokens.into_iter().peekable();
        let mut alias = None;
        while let Some(token) = tokens.next() {
            match &token {
                TokenTree::Ident(name) if name == "as" => {
                    alias = tokens.next().map(|name| name.to_string());
                }
                TokenTree::Ident(name) => prefix.push(name.to_string()),
                TokenTree::Group(group) => {
                    self.tree(group.stream(), prefix, is_public);
                    prefix.truncate(depth);
                }
                _ if is_mark(&token, '*') => prefix.push("*".to_owned()),
                _ if is_mark(&token, ',') => self.leaf(prefix, depth, alias.take(), is_public),
                _ => {}
            }
        }
        self.leaf(prefix, depth, alias, is_public);
    }

    fn leaf(&mut self, prefix: &mut Path, depth: usize, alias: Option<String>, is_public: bool) {
        if prefix.len() > depth {
            let mut path = prefix.clone();
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
            match is_public {
                true => self.exports.entry(name.clone()).or_default().push(path.clone()),
                false => self.paths.push(path.clone()),
            }
            self.names.insert(name, path);
        }
        prefix.truncate(depth);
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source =
            |(name, code): &(&str, &str)| SourceFile { name: format!("src/{name}.rs"), code: (*code).to_owned() };
        let circles = circles(&files.iter().map(source).collect::<Vec<_>>()).unwrap();
        circles.iter().map(|circle| circle.iter().map(|path| path.join("::")).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let files =
            [("lib", "mod a; mod b; mod c;"), ("a", "use crate::b::B;"), ("b", "fn f() { crate::c::C::new(1) }")];
        assert!(found(&[files.as_slice(), &[("c", "")]].concat()).is_empty());
        assert_eq!(found(&[files.as_slice(), &[("c", "use super::a::{self, A};")]].concat()), ["a b c"]);
        // An attribute, a string and a comment are no imports.
        let text = r#"#[doc = crate::a::A] fn f() { g("crate::a::A") } // crate::a::A"#;
        assert!(found(&[files.as_slice(), &[("c", text)]].concat()).is_empty());
    }

    #[test]
    fn a_name_belongs_to_the_file_that_defines_it() {
        let root = ("lib", "mod a; mod b; pub use a::A; pub use b::B as C;");
        assert!(found(&[root, ("a", "struct A;"), ("b", "use crate::A;")]).is_empty());
        assert_eq!(found(&[root, ("a", "use crate::C;"), ("b", "use crate::A;")]), ["a b"]);
        assert_eq!(found(&[root, ("a", "use crate::b; fn f() { b::f() }"), ("b", "use super::{A};")]), ["a b"]);
    }

    #[test]
    fn a_module_may_use_the_modules_that_contain_it() {
        let files = [("lib", "mod a;"), ("a/mod", "mod b; fn f() { b::g() }"), ("a/b", "use super::A;"), ("c", "")];
        assert!(found(&files).is_empty());
        let files = [("a/mod", "use crate::c::C;"), ("a/b", "use crate::c::C;"), ("c", "fn f() { crate::a::b::g() }")];
        assert_eq!(found(&files), ["a::b c"]);
    }
}
