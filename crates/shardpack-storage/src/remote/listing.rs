//! Lists the objects of a store below a folder.
//!
//! Holds at all times: every listed object is handed out, even if its name cannot be requested; an endless list is an
//! error.

use std::{collections::HashSet, time::Duration};

use shardpack_format::{Error, Result};

use crate::{
    Object, Odd, Page,
    remote::{
        Store,
        objects::Objects,
        response::{Failed, Version},
        retry::{Asker, Refusal},
        runtime,
        service::{Notes, Use},
    },
};

/// Maximum number of pages: more objects than any bucket that is packed.
const MAX_PAGES: u64 = 1_000_000;
/// Maximum number of empty pages in a row. A bucket that keeps versions has empty pages after many deletions.
const MAX_EMPTY_PAGES: u32 = 2000;

impl Store {
    /// Lists all objects whose names begin with `below` (a folder name with a slash, for example), in pages of about
    /// 1,000.
    ///
    /// # Errors
    /// When `take` fails, the server does not answer, or it cannot list, like a web server.
    pub fn list(&self, below: &str, mut take: impl FnMut(Page) -> Result<()>) -> Result<()> {
        self.pages(below, false, &mut take)
    }

    /// The first page of all objects, and whether there are more.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn first_page(&self) -> Result<(Page, bool)> {
        let (page, next) = self.page("", false, None)?;
        Ok((page, next.is_some()))
    }

    /// The objects and folders directly in `below`, which is empty or a folder with a slash at its end.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub fn level(&self, below: &str) -> Result<Page> {
        let mut all = Page::default();
        self.pages(below, true, &mut |page| {
            all.objects.extend(page.objects);
            all.folders.extend(page.folders);
            all.odd.extend(page.odd);
            Ok(())
        })?;
        Ok(all)
    }

    fn pages(&self, below: &str, are_folders: bool, take: &mut dyn FnMut(Page) -> Result<()>) -> Result<()> {
        let (mut token, mut turns) = (None, Turns::up_to(MAX_PAGES));
        let wrong = |what: &str| {
            Error::new(shardpack_format::ErrorKind::System, what).in_file(format!("{}{below}", self.url()))
        };
        loop {
            let (page, next) = self.page(below, are_folders, token)?;
            let is_empty = page == Page::default();
            take(page)?;
            let Some(next) = next else { return Ok(()) };
            turns.one_more(&next, is_empty).map_err(|what| wrong(&what))?;
            token = Some(next);
        }
    }

    /// One page, and the token of the next page.
    fn page(&self, below: &str, are_folders: bool, token: Option<String>) -> Result<(Page, Option<String>)> {
        let place = format!("{}{below}", self.url());
        let shared = self.shared()?;
        if shared.objects().is_none() {
            let error = Error::usage("a web server has no listing").in_file(place);
            return Err(error.help("give a list of paths as the source, or use a bucket (s3://, gs://, az://)"));
        }
        let asker = self.asker(&shared);
        let prefix = format!("{}{below}", self.location().prefix);
        let work = asker.ask(Duration::ZERO, Refusal::Credentials, async || {
            let Some(objects) = shared.objects() else { return Err(Failed::NotThere) };
            asked(&objects, &prefix, are_folders, token.clone(), &asker).await
        });
        let (answer, _) = runtime::wait(work)?.map_err(|(error, _)| error.in_file(&place))?;
        let (found, odd) = answer.ok_or_else(|| Error::usage("there is no such bucket").in_file(&place))?;
        let own = &self.location().prefix;
        let name = |key: &str| key.strip_prefix(own).map(str::to_owned);
        let mut page = Page::default();
        for meta in found.result.objects {
            let version = Version {
                etag: meta.e_tag.map(String::into_bytes),
                modified_s: Some(meta.last_modified.timestamp()),
                ..Version::default()
            };
            match name(meta.location.as_ref()) {
                Some(name) => {
                    page.objects.push(Object { name, bytes: meta.size, stamp: version.stamp() });
                }
                None => return Err(outside(meta.location.as_ref(), &place)),
            }
        }
        for folder in found.result.common_prefixes {
            page.folders.push(name(folder.as_ref()).ok_or_else(|| outside(folder.as_ref(), &place))?);
        }
        for odd in odd {
            let name = odd.key.strip_prefix(own).unwrap_or(&odd.key).to_owned();
            page.odd.push(Odd { name, bytes: odd.bytes.unwrap_or(0) });
        }
        Ok((page, found.page_token.filter(|token| !token.is_empty())))
    }
}

/// The pages of a list that were read.
struct Turns {
    /// Hashes of the tokens, because a server may send long tokens.
    tokens: HashSet<u128>,
    most: u64,
    empty: u32,
}

impl Turns {
    fn up_to(most: u64) -> Self {
        Self { tokens: HashSet::new(), most, empty: 0 }
    }

    /// Counts a page that was read; `next` is the token of the next page.
    fn one_more(&mut self, next: &str, is_empty: bool) -> Result<(), String> {
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        if !self.tokens.insert(shardpack_format::hash::content(next.as_bytes())) {
            return Err("the server lists the same again and again".to_owned());
        }
        if self.empty == MAX_EMPTY_PAGES {
            return Err(format!("the server lists nothing, {MAX_EMPTY_PAGES} pages long"));
        }
        if self.tokens.len() as u64 >= self.most {
            return Err(format!("the server's list does not end, {} pages long", self.most));
        }
        Ok(())
    }
}

fn outside(key: &str, place: &str) -> Error {
    let what = format!("the server lists {key:?}, which does not begin as it should");
    Error::new(shardpack_format::ErrorKind::System, what).in_file(place)
}

type ListedPage = (object_store::list::PaginatedListResult, Vec<crate::remote::pages::Odd>);

async fn asked(
    objects: &Objects,
    prefix: &str,
    are_folders: bool,
    token: Option<String>,
    asker: &Asker<'_>,
) -> Result<ListedPage, Failed> {
    let notes = Notes::new(Use::Page);
    let found = objects.page(prefix, are_folders, token, &notes).await;
    asker.counted(&notes);
    Ok((found?, notes.odd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of pages that are read from a list with the tokens `next`.
    fn taken(most: u64, next: impl Fn(u64) -> (String, bool)) -> (u64, String) {
        let mut turns = Turns::up_to(most);
        let ends = |number: u64| {
            let (next, is_empty) = next(number);
            Some((number, turns.one_more(&next, is_empty).err()?))
        };
        (1..).find_map(ends).unwrap()
    }

    #[test]
    fn a_list_that_does_not_end_is_an_error() {
        let (pages, what) = taken(5000, |number| (number.to_string(), false));
        assert_eq!((pages, what.as_str()), (5000, "the server's list does not end, 5000 pages long"));
        let (pages, what) = taken(5000, |number| (number.to_string(), number > 10));
        assert_eq!((pages, what.as_str()), (2010, "the server lists nothing, 2000 pages long"));
        let (pages, what) = taken(5000, |number| ((number % 3).to_string(), false));
        assert_eq!((pages, what.as_str()), (4, "the server lists the same again and again"));
    }
}
