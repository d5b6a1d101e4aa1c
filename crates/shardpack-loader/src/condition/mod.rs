//! Conditions on the index and on single values of samples, as `width >= 256 and aesthetic > 5`.
//!
//! Holds at all times: the selection is a function of the dataset and the text. A condition is true, false or unknown for a sample,
//! and only samples for which it is true are selected; a comparison with a missing value is unknown.

mod columns;
mod compare;
mod lengths;
mod parse;
mod scan;

pub use lengths::Lengths;
use shardpack_format::{Result, component::Number};

/// A condition on samples.
///
/// | part | form |
/// |---|---|
/// | columns | `width`, `height`, `bytes`, `label`; `class`, `key`, `path`, `kind` (`'jpeg'`) are text |
/// | components | by name, without extension if that is unambiguous: `aesthetic` for `aesthetic.npy`; members of JSON as `json.score`. In backticks if another column has the name |
/// | lengths | `len(boxes)`: rows of an array, items of a list in JSON |
/// | comparisons | `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, also as a chain `256 <= width < 512` |
/// | lists | `class in ('cat', 'dog')`, `label not in (0, 1)` |
/// | missing values | `label is missing`, `label is not missing`; `null` is the same word |
/// | logic | `not`, `and`, `or`, in this order of precedence; parentheses |
/// | values | `5`, `-1.5e3`, `true` (1), `false` (0), `'text'`, `"text"` |
///
/// Values are missing if a sample lacks them, if they are NaN or JSON's `null`, and if the headers of an image have no size.
/// A number is rounded to float32 if it is compared with a value of 32 bits or fewer, as numpy does. Text of a component that is compared with a
/// number is parsed as a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    /// The columns of the condition, each once.
    names: Vec<Name>,
    node: Node,
}

/// The name of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    text: String,
    /// Whether it stands in backticks, and so is a component.
    is_component: bool,
    /// Whether its length is meant, as in `len(boxes)`.
    is_length: bool,
}

/// A condition, or a part of one.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Compare(Operand, Comparison, Operand),
    In(Operand, Vec<Literal>),
    /// The number of a column.
    IsMissing(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    /// Its number among the names.
    Column(usize),
    Literal(Literal),
}

#[derive(Clone, Debug, PartialEq)]
enum Literal {
    Number(Number),
    Text(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// If the text is no condition; the message has the character and what is expected there.
    pub fn parse(text: &str) -> Result<Self> {
        let (node, names) = parse::parse(text)?;
        Ok(Self { text: text.to_owned(), names, node })
    }

    /// The condition as given.
    pub fn text(&self) -> &str {
        &self.text
    }
}
