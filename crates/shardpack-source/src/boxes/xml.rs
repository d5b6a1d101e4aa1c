//! Reads label files in XML: elements, attributes and texts.

use quick_xml::{
    Reader, XmlVersion,
    events::{BytesStart, Event},
};

use super::text_of;

/// Deepest element.
const MAX_DEPTH: usize = 64;
/// Encodings whose text is read as UTF-8.
const ENCODINGS: [&str; 4] = ["utf-8", "utf8", "us-ascii", "ascii"];

/// Takes the elements of a file as they begin and end.
pub(super) trait Visit {
    /// An element begins; `path` is the names of the elements around it, and its own.
    ///
    /// # Errors
    /// The reason, if the file is wrong.
    fn start(&mut self, path: &[&str], attributes: &Attributes<'_>) -> Result<(), String>;

    /// An element with this text ends.
    ///
    /// # Errors
    /// As [`Visit::start`].
    fn end(&mut self, path: &[&str], text: &str) -> Result<(), String>;
}

/// The attributes of an element.
pub(super) struct Attributes<'x>(&'x BytesStart<'x>);

impl Attributes<'_> {
    /// The value of the attribute `name`, without blanks around it.
    ///
    /// # Errors
    /// The reason, if the attributes are no XML.
    pub fn get(&self, name: &str) -> Result<Option<String>, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("is no XML: {error}");
        for attribute in self.0.attributes() {
            let attribute = attribute.map_err(|error| wrong(&error))?;
            if attribute.key.as_ref() == name.as_bytes() {
                let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| wrong(&error))?;
                return Ok(Some(value.trim().to_owned()));
            }
        }
        Ok(None)
    }
}

/// Reads a file whose only element at the top is `root`.
///
/// # Errors
/// The reason, if it is no such XML, or the first error of `visit`.
pub(super) fn read(bytes: &[u8], root: &str, visit: &mut dyn Visit) -> Result<(), String> {
    let content = text_of(bytes)?;
    let mut reader = Reader::from_str(content);
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut text, mut has_root) = (Vec::<String>::new(), String::new(), false);
    fn names(path: &[String]) -> Vec<&str> {
        path.iter().map(String::as_str).collect()
    }
    loop {
        match reader.read_event().map_err(|error| format!("is no XML: {error}"))? {
            Event::Start(start) => {
                if path.len() >= MAX_DEPTH {
                    return Err(format!("elements are more than {MAX_DEPTH} deep"));
                }
                path.push(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                text.clear();
                if let [top] = &path[..] {
                    check_root(top, root, has_root)?;
                    has_root = true;
                }
                visit.start(&names(&path), &Attributes(&start))?;
            }
            Event::End(_) => {
                visit.end(&names(&path), text.trim())?;
                path.pop();
                text.clear();
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|error| error.to_string())?),
            Event::CData(part) => text.push_str(&part.decode().map_err(|error| error.to_string())?),
            Event::GeneralRef(part) => {
                let name = part.decode().map_err(|error| error.to_string())?;
                let letter = part.resolve_char_ref().map_err(|error| error.to_string())?;
                match (letter, quick_xml::escape::resolve_predefined_entity(&name)) {
                    (Some(letter), _) => text.push(letter),
                    (None, Some(value)) => text.push_str(value),
                    (None, None) => return Err(format!("&{name}; is no entity of XML")),
                }
            }
            // The content is read as UTF-8, and a name in another encoding would be another name.
            Event::Decl(declaration) => {
                if let Some(Ok(encoding)) = declaration.encoding()
                    && !ENCODINGS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(&encoding))
                {
                    let shown = String::from_utf8_lossy(&encoding).into_owned();
                    return Err(format!("has the encoding {shown}, and UTF-8 is read"));
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    match (path.is_empty(), has_root) {
        (false, _) => Err(format!("ends inside of {}", path.join("/"))),
        (true, false) => Err(format!("has no {root}")),
        (true, true) => Ok(()),
    }
}

/// Fails if the element `top` at the top is not `root`, or there was one before it.
fn check_root(top: &str, root: &str, has_root: bool) -> Result<(), String> {
    match (top == root, has_root) {
        (true, false) => Ok(()),
        (true, true) => Err("has two annotations".to_owned()),
        (false, _) => Err(format!("has {top} at its top, and no {root}")),
    }
}
