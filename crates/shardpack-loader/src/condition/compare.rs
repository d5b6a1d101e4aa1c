//! The truth of a condition, given the values of its columns.
//!
//! Holds at all times: unknown is neither true nor false, as in SQL; columns that cannot change the result are not read.

use std::{borrow::Cow, cmp::Ordering};

use shardpack_format::component::Number;

use super::{Comparison, Literal, Node, Operand, parse::read_number};

/// The value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'v> {
    Number(Number),
    Text(Cow<'v, str>),
}

/// A value in a comparison, and whether it is a literal.
type Given<'v> = (Value<'v>, bool);

impl Value<'_> {
    /// `None` for NaN, which is a missing value.
    fn known(self) -> Option<Self> {
        let is_nan = match self {
            Self::Number(Number::Single(single)) => single.is_nan(),
            Self::Number(Number::Double(double)) => double.is_nan(),
            _ => false,
        };
        (!is_nan).then_some(self)
    }
}

impl Literal {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::Text(text.as_str().into()),
        }
    }
}

/// A failed comparison: the reason in words, or the error of reading a column.
pub(super) enum Failed<E> {
    Unlike(String),
    Column(E),
}

/// Whether `condition` holds; `None` if it is unknown. `column` returns the value of a column, by its number.
///
/// # Errors
/// If a text is compared with a number that the text is not, or `column` fails.
pub(super) fn holds<'v, E>(
    condition: &'v Node,
    column: &mut impl FnMut(usize) -> Result<Option<Value<'v>>, E>,
) -> Result<Option<bool>, Failed<E>> {
    match condition {
        Node::Not(one) => Ok(holds(one, column)?.map(|holds| !holds)),
        Node::All(all) => decided(all, false, column),
        Node::Any(all) => decided(all, true, column),
        Node::IsMissing(of) => Ok(Some(column(*of).map_err(Failed::Column)?.and_then(Value::known).is_none())),
        Node::Compare(left, comparison, right) => {
            let Some(left) = given(left, column)? else { return Ok(None) };
            let Some(right) = given(right, column)? else { return Ok(None) };
            Ok(order(&left, &right)?.map(|order| comparison.takes(order)))
        }
        Node::In(one, values) => {
            let Some(one) = given(one, column)? else { return Ok(None) };
            for value in values {
                if order(&one, &(value.value(), true))? == Some(Ordering::Equal) {
                    return Ok(Some(true));
                }
            }
            Ok(Some(false))
        }
    }
}

/// `all` joined, where one that is `decisive` decides.
fn decided<'v, E>(
    all: &'v [Node],
    decisive: bool,
    column: &mut impl FnMut(usize) -> Result<Option<Value<'v>>, E>,
) -> Result<Option<bool>, Failed<E>> {
    let mut result = Some(!decisive);
    for one in all {
        match holds(one, column)? {
            Some(holds) if holds == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

/// The value of an operand, and whether it is a literal; `None` if it is missing.
fn given<'v, E>(
    operand: &'v Operand,
    column: &mut impl FnMut(usize) -> Result<Option<Value<'v>>, E>,
) -> Result<Option<Given<'v>>, Failed<E>> {
    Ok(match operand {
        Operand::Literal(literal) => Some((literal.value(), true)),
        Operand::Column(of) => column(*of).map_err(Failed::Column)?.and_then(Value::known).map(|value| (value, false)),
    })
}

/// The order of two values; `None` if a text is NaN as a number.
fn order<E>(left: &Given<'_>, right: &Given<'_>) -> Result<Option<Ordering>, Failed<E>> {
    let as_number = |text: &str| {
        let unlike = || Failed::Unlike(format!("{text:?} is no number"));
        read_number(text.trim()).ok_or_else(unlike)
    };
    let (a, b) = match (&left.0, &right.0) {
        (Value::Text(a), Value::Text(b)) => return Ok(Some(a.cmp(b))),
        (Value::Number(a), Value::Number(b)) => (*a, *b),
        (Value::Text(a), Value::Number(b)) => (as_number(a)?, *b),
        (Value::Number(a), Value::Text(b)) => (*a, as_number(b)?),
    };
    Ok(match (a, b) {
        (Number::Whole(a), Number::Whole(b)) => Some(a.cmp(&b)),
        // A literal has no dtype of its own.
        (Number::Single(a), b) if right.1 => a.partial_cmp(&(double(b) as f32)),
        (a, Number::Single(b)) if left.1 => (double(a) as f32).partial_cmp(&b),
        (a, b) => double(a).partial_cmp(&double(b)),
    })
}

fn double(number: Number) -> f64 {
    match number {
        Number::Whole(whole) => whole as f64,
        Number::Single(single) => single.into(),
        Number::Double(double) => double,
    }
}

impl Comparison {
    fn takes(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::AtMost => order.is_le(),
            Self::More => order.is_gt(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Condition;

    fn result(text: &str, value: Option<Value<'static>>) -> Result<Option<bool>, String> {
        let whole = Condition::parse(text).unwrap();
        holds(&whole.node, &mut |_| Ok::<_, ()>(value.clone())).map_err(|failed| match failed {
            Failed::Unlike(what) => what,
            Failed::Column(()) => "no column".to_owned(),
        })
    }

    #[test]
    fn comparisons_are_those_of_numpy_and_sql() {
        let whole = |whole| Some(Value::Number(Number::Whole(whole)));
        let single = |single| Some(Value::Number(Number::Single(single)));
        let double = |double| Some(Value::Number(Number::Double(double)));
        let text = |text: &'static str| Some(Value::Text(text.into()));
        for (condition, value, expected) in [
            ("x = 5", whole(5), Some(true)),
            ("x != 5", whole(5), Some(false)),
            ("x <= 5.5", whole(5), Some(true)),
            ("5 < x", whole(5), Some(false)),
            // Beyond 2^53, whole numbers stay exact.
            ("x = 9007199254740993", whole(9_007_199_254_740_992), Some(false)),
            // numpy: numpy.float32(5.1) >= 5.1, and 5.1 is not representable.
            ("x >= 5.1", single(5.1), Some(true)),
            ("5.1 = x", single(5.1), Some(true)),
            ("x = 5.1", double(5.1), Some(true)),
            ("x = 5.1", double(5.1_f32.into()), Some(false)),
            ("x > 'b'", text("c"), Some(true)),
            ("x in ('a', 'c')", text("c"), Some(true)),
            ("x not in ('a', 'c')", text("c"), Some(false)),
            ("x > 4", text(" 4.5\n"), Some(true)),
            ("x > 4", text("nan"), None),
            ("x = 1", double(f64::NAN), None),
            ("x is missing", double(f64::NAN), Some(true)),
            ("x = 1", None, None),
            ("not x = 1", None, None),
            ("x not in (1)", None, None),
            ("x is missing", None, Some(true)),
            ("x is not null", None, Some(false)),
            ("x = 1 or x is missing", None, Some(true)),
            ("x = 1 and x is missing", None, None),
            ("x = 1 and x is not missing", None, Some(false)),
            ("x = 1 or x is not missing", None, None),
        ] {
            assert_eq!(result(condition, value.clone()), Ok(expected), "{condition}, {value:?}");
        }
        assert_eq!(result("x > 4", text("four")), Err("\"four\" is no number".to_owned()));
    }

    #[test]
    fn columns_that_cannot_change_the_result_are_not_read() {
        let whole = Condition::parse("a = 1 and b = 2 or c = 3").unwrap();
        let mut read = Vec::new();
        let mut column = |number| {
            read.push(number);
            Ok::<_, ()>(Some(Value::Number(Number::Whole(3))))
        };
        assert!(matches!(holds(&whole.node, &mut column), Ok(Some(true))));
        assert_eq!(read, [0, 2]);
    }
}
