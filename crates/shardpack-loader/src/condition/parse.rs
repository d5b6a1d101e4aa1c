//! Parses the text of a condition.
//!
//! Holds at all times: an error has the place of the first character that cannot be parsed. Nesting is limited.

use shardpack_format::{Error, Result, component::Number};

use super::{Comparison, Literal, Name, Node, Operand};

/// Limit for parentheses and `not` inside each other.
const MAX_DEPTH: usize = 64;
/// The function of lengths.
const LENGTH: &str = "len";

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// A name in backticks.
    Component(String),
    Number(Number),
    Text(String),
    Comparison(Comparison),
    Open,
    Close,
    Comma,
    End,
}

struct Parser<'t> {
    text: &'t str,
    /// Tokens with the number of the character at which each begins, from 1.
    tokens: Vec<(Token, usize)>,
    at: usize,
    names: Vec<Name>,
    depth: usize,
}

/// The condition in `text`, and the names of its columns.
///
/// # Errors
/// If it is no condition.
pub(super) fn parse(text: &str) -> Result<(Node, Vec<Name>)> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, names: Vec::new(), depth: 0 };
    let condition = parser.any()?;
    match parser.peek() {
        Token::End => Ok((condition, parser.names)),
        _ => parser.expected("and, or, or the end"),
    }
}

fn wrong(text: &str, character: usize, what: &str) -> Error {
    Error::usage(format!("where {text:?}, character {character}: {what}"))
}

/// Whether a name has this character after its first.
fn is_of_name(character: char) -> bool {
    character.is_alphanumeric() || "_.-".contains(character)
}

fn tokens(text: &str) -> Result<Vec<(Token, usize)>> {
    let characters: Vec<char> = text.chars().collect();
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(&first) = characters.get(at) {
        let begin = at;
        let next = characters.get(at + 1).copied().unwrap_or(' ');
        let is_number = |one: char, next: char| one.is_ascii_digit() || one == '.' && next.is_ascii_digit();
        let after = characters.get(at + 2).copied().unwrap_or(' ');
        at += 1;
        let token = match (first, next) {
            (space, _) if space.is_whitespace() => continue,
            ('(', _) => Token::Open,
            (')', _) => Token::Close,
            (',', _) => Token::Comma,
            ('=' | '!' | '<' | '>', '=') => {
                at += 1;
                Token::Comparison(match first {
                    '=' => Comparison::Equal,
                    '!' => Comparison::Unequal,
                    '<' => Comparison::AtMost,
                    _ => Comparison::AtLeast,
                })
            }
            ('=', _) => Token::Comparison(Comparison::Equal),
            ('<', _) => Token::Comparison(Comparison::Less),
            ('>', _) => Token::Comparison(Comparison::More),
            ('\'' | '"' | '`', _) => {
                let inside: String = characters[at..].iter().take_while(|one| **one != first).collect();
                at += inside.chars().count() + 1;
                if at > characters.len() {
                    return Err(wrong(text, begin + 1, &format!("no {first} ends this text")));
                }
                if first == '`' { Token::Component(inside) } else { Token::Text(inside) }
            }
            ('+' | '-', _) if is_number(next, after) => number(text, &characters, begin, &mut at)?,
            _ if is_number(first, next) => number(text, &characters, begin, &mut at)?,
            _ if first.is_alphabetic() || first == '_' => {
                at += characters[at..].iter().take_while(|one| is_of_name(**one)).count();
                Token::Word(characters[begin..at].iter().collect())
            }
            _ => return Err(wrong(text, begin + 1, &format!("{first:?} is no part of a condition"))),
        };
        all.push((token, begin + 1));
    }
    all.push((Token::End, characters.len() + 1));
    Ok(all)
}

/// The number that begins at `begin`; sets `at` to its end.
fn number(text: &str, characters: &[char], begin: usize, at: &mut usize) -> Result<Token> {
    let is_part = |place: usize| {
        let is_exponent = |one: char| "eE".contains(one);
        match characters[place] {
            '+' | '-' => place == begin || is_exponent(characters[place - 1]),
            one => is_of_name(one),
        }
    };
    *at = (begin..characters.len()).find(|place| !is_part(*place)).unwrap_or(characters.len());
    let digits: String = characters[begin..*at].iter().collect();
    let number = read_number(&digits).filter(|number| !matches!(number, Number::Double(double) if !double.is_finite()));
    let number = number.ok_or_else(|| wrong(text, begin + 1, &format!("{digits} is no number")))?;
    Ok(Token::Number(number))
}

/// The number that `text` is.
pub(super) fn read_number(text: &str) -> Option<Number> {
    text.parse().map(Number::Whole).or_else(|_| text.parse().map(Number::Double)).ok()
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        // The last token is the end, and nothing goes past it.
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let (found, character) = &self.tokens[self.at.min(self.tokens.len() - 1)];
        let found = if *found == Token::End { "the end, and " } else { "" };
        Err(wrong(self.text, *character, &format!("{found}expected {what}")))
    }

    /// Whether the next token is this word, which is taken then.
    fn takes(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Token::Word(found) if found.eq_ignore_ascii_case(word));
        self.at += usize::from(is_it);
        is_it
    }

    /// Whether the next tokens are `len(`, which are taken then.
    fn takes_length(&mut self) -> bool {
        let is_it = matches!(&self.tokens[self.at..], [(Token::Word(word), _), (Token::Open, _), ..] if word == LENGTH);
        self.at += if is_it { 2 } else { 0 };
        is_it
    }

    fn takes_token(&mut self, token: &Token) -> bool {
        let is_it = self.peek() == token;
        self.at += usize::from(is_it);
        is_it
    }

    fn any(&mut self) -> Result<Node> {
        let mut all = vec![self.all()?];
        while self.takes("or") {
            all.push(self.all()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::Any(all) })
    }

    fn all(&mut self) -> Result<Node> {
        let mut all = vec![self.one()?];
        while self.takes("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::All(all) })
    }

    fn one(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.expected(&format!("at most {MAX_DEPTH} conditions inside each other"));
        }
        let condition = if self.takes("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.takes_token(&Token::Open) {
            let inside = self.any()?;
            if !self.takes_token(&Token::Close) {
                return self.expected("and, or, or )");
            }
            inside
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn comparison(&mut self) -> Result<Node> {
        let mut left = self.operand()?;
        if self.takes("is") {
            let is_not = self.takes("not");
            if !(self.takes("missing") || self.takes("null")) {
                return self.expected("missing or null");
            }
            let Operand::Column(column) = left else { return self.expected("a column before `is`") };
            let missing = Node::IsMissing(column);
            return Ok(if is_not { Node::Not(Box::new(missing)) } else { missing });
        }
        let is_not = self.takes("not");
        if self.takes("in") {
            let condition = Node::In(left, self.list()?);
            return Ok(if is_not { Node::Not(Box::new(condition)) } else { condition });
        }
        if is_not {
            return self.expected("in");
        }
        let mut chain = Vec::new();
        while let &Token::Comparison(comparison) = self.peek() {
            self.at += 1;
            let right = self.operand()?;
            if matches!((&left, &right), (Operand::Literal(_), Operand::Literal(_))) {
                return self.expected("a column in each comparison");
            }
            chain.push(Node::Compare(left, comparison, right.clone()));
            left = right;
        }
        match chain.len() {
            0 => self.expected("a comparison, in, or is missing"),
            1 => Ok(chain.remove(0)),
            _ => Ok(Node::All(chain)),
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        let is_length = self.takes_length();
        let name = match self.peek() {
            Token::Word(word) if !is_reserved(word) => Name { text: word.clone(), is_component: false, is_length },
            Token::Component(name) => Name { text: name.clone(), is_component: true, is_length },
            _ if is_length => return self.expected("a component"),
            _ => return self.literal().map(Operand::Literal),
        };
        self.at += 1;
        if is_length && !self.takes_token(&Token::Close) {
            return self.expected(")");
        }
        let known = self.names.iter().position(|known| *known == name);
        Ok(Operand::Column(known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })))
    }

    fn literal(&mut self) -> Result<Literal> {
        let literal = match self.peek() {
            Token::Number(number) => Literal::Number(*number),
            Token::Text(text) => Literal::Text(text.clone()),
            Token::Word(word) if word.eq_ignore_ascii_case("true") => Literal::Number(Number::Whole(1)),
            Token::Word(word) if word.eq_ignore_ascii_case("false") => Literal::Number(Number::Whole(0)),
            _ => return self.expected("a column, a number, or text in quotes"),
        };
        self.at += 1;
        Ok(literal)
    }

    fn list(&mut self) -> Result<Vec<Literal>> {
        if !self.takes_token(&Token::Open) {
            return self.expected("( after in");
        }
        let mut values = Vec::new();
        loop {
            if matches!(self.peek(), Token::Word(word) if !is_boolean(word)) {
                return self.expected("a number, or text in quotes");
            }
            values.push(self.literal()?);
            if self.takes_token(&Token::Close) {
                return Ok(values);
            }
            if !self.takes_token(&Token::Comma) {
                return self.expected(", or )");
            }
        }
    }
}

fn is_boolean(word: &str) -> bool {
    ["true", "false"].iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

/// Whether a word is no name of a column, unless it stands in backticks.
fn is_reserved(word: &str) -> bool {
    let words = ["and", "or", "not", "in", "is", "missing", "null"];
    is_boolean(word) || words.iter().any(|reserved| word.eq_ignore_ascii_case(reserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A condition with all parentheses.
    fn shown(condition: &Node, names: &[Name]) -> String {
        let joined = |all: &[Node], word: &str| {
            let all: Vec<_> = all.iter().map(|one| shown(one, names)).collect();
            format!("({})", all.join(word))
        };
        let literal = |literal: &Literal| match literal {
            Literal::Number(Number::Whole(whole)) => whole.to_string(),
            Literal::Number(number) => format!("{number:?}"),
            Literal::Text(text) => format!("'{text}'"),
        };
        let operand = |operand: &Operand| match operand {
            Operand::Column(column) if names[*column].is_length => format!("len({})", names[*column].text),
            Operand::Column(column) if names[*column].is_component => format!("`{}`", names[*column].text),
            Operand::Column(column) => names[*column].text.clone(),
            Operand::Literal(one) => literal(one),
        };
        match condition {
            Node::All(all) => joined(all, " and "),
            Node::Any(all) => joined(all, " or "),
            Node::Not(one) => format!("not {}", shown(one, names)),
            Node::Compare(left, comparison, right) => {
                format!("{} {comparison:?} {}", operand(left), operand(right))
            }
            Node::In(one, values) => {
                format!("{} in {}", operand(one), values.iter().map(literal).collect::<Vec<_>>().join(","))
            }
            Node::IsMissing(column) => format!("{} is missing", names[*column].text),
        }
    }

    #[test]
    fn conditions_group_by_precedence() {
        for (text, expected) in [
            ("width >= 256", "width AtLeast 256"),
            ("a = 1 or b = 2 and not c = 3", "(a Equal 1 or (b Equal 2 and not c Equal 3))"),
            ("(a = 1 or b = 2) AND c != 'x'", "((a Equal 1 or b Equal 2) and c Unequal 'x')"),
            ("256 <= width < 512", "(256 AtMost width and width Less 512)"),
            ("class in ('a', \"it's\")", "class in 'a','it's'"),
            ("label not in (0, -1, true)", "not label in 0,-1,1"),
            ("x is missing or x is not null", "(x is missing or not x is missing)"),
            ("`a b` > -1.5e3 and json.s-c.o_re<.5", "(`a b` More Double(-1500.0) and json.s-c.o_re Less Double(0.5))"),
            ("width > height", "width More height"),
            ("`in` == 5", "`in` Equal 5"),
            ("0 < len(boxes) and len < 5", "(0 Less len(boxes) and len Less 5)"),
        ] {
            let (condition, names) = parse(text).unwrap();
            assert_eq!(shown(&condition, &names), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_text_is_a_condition_or_an_error(text in "[a-c=<>!()'`,. \\-0-9]*|(a|not|and|or|in|is|null|=|<|\\(|\\)|'x'|5| ){0,12}") {
            drop(parse(&text));
        }
    }

    #[test]
    fn an_error_names_its_place() {
        let deep = format!("{}a = 1{}", "(".repeat(100), ")".repeat(100));
        for (text, said) in [
            ("", "character 1: the end, and expected a column"),
            ("width", "character 6: the end, and expected a comparison"),
            ("width > ", "character 9: the end, and expected a column, a number"),
            ("width > 5px", "character 9: 5px is no number"),
            ("width > 1e999", "1e999 is no number"),
            ("width > 5 height", "character 11: expected and, or, or the end"),
            ("(width > 5", "expected and, or, or )"),
            ("a = 'x", "character 5: no ' ends this text"),
            ("a & b", "character 3: '&' is no part"),
            ("a in 5", "expected ( after in"),
            ("a in (b)", "character 7: expected a number, or text in quotes"),
            ("a in (1 2)", "expected , or )"),
            ("a not = 5", "character 7: expected in"),
            ("1 < 2", "expected a column in each comparison"),
            ("5 is missing", "expected a column before `is`"),
            ("a is 5", "expected missing or null"),
            ("and = 1", "character 1: expected a column"),
            (&deep, "at most 64"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
