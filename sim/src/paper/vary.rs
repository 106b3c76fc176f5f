//! Parameters of an evaluation that can be changed by name.

use crate::SimError;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Names and values of all parameters, a line each; those of an inner group with its name and a dot.
pub(super) fn listed(all: &impl Serialize) -> String {
    let all = serde_json::to_value(all).unwrap_or_default();
    let mut lines = String::new();
    for (name, value) in all.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(inner) => {
                for (of, value) in inner {
                    lines += &format!("{name}.{of} = {value}\n");
                }
            }
            None => lines += &format!("{name} = {value}\n"),
        }
    }
    lines
}

/// The parameters with the change `name=value`.
///
/// # Errors
/// [`SimError::Field`] where there is no such parameter, or the value does not fit.
pub(super) fn varied<P: Serialize + DeserializeOwned>(
    all: &P,
    change: &str,
) -> Result<P, SimError> {
    let wrong = |expected: String| field("vary", change, &expected);
    let (name, value) = change
        .split_once('=')
        .ok_or_else(|| wrong("it must be name=value".to_owned()))?;
    let number: Value =
        serde_json::from_str(value).map_err(|e| wrong(format!("the value is no number: {e}")))?;
    let mut json = serde_json::to_value(all).map_err(|e| wrong(e.to_string()))?;
    let slot = match name.split_once('.') {
        Some((outer, inner)) => json.get_mut(outer).and_then(|o| o.get_mut(inner)),
        None => json.get_mut(name),
    };
    *slot.ok_or_else(|| {
        wrong("there is no such parameter; --vary without a value lists them".to_owned())
    })? = number;
    serde_json::from_value(json).map_err(|e| wrong(e.to_string()))
}

/// A parameter's value by its name; `None`: there is none, or it is no number.
pub(super) fn value(all: &impl Serialize, name: &str) -> Option<f64> {
    let all = serde_json::to_value(all).ok()?;
    let value = match name.split_once('.') {
        Some((outer, inner)) => all.get(outer)?.get(inner),
        None => all.get(name),
    };
    value?.as_f64()
}

/// Whether a parameter is within its bounds.
///
/// # Errors
/// [`SimError::Field`].
pub(super) fn check(name: &str, value: f64, low: f64, high: f64) -> Result<(), SimError> {
    if value >= low && value <= high {
        Ok(())
    } else {
        let expected = format!("it must be {low} to {high}");
        Err(field(name, &value.to_string(), &expected))
    }
}

/// An error about a parameter or an option.
pub(super) fn field(name: &str, found: &str, expected: &str) -> SimError {
    SimError::Field {
        what: "paper",
        field: name.to_owned(),
        found: found.to_owned(),
        expected: expected.to_owned(),
    }
}
