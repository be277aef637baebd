//! Strict JSON bodies: one object, no duplicate and no unknown member, every fault at once.

use crate::problem::{ApiError, Fault, Invalidity, Standing};
use lambda_http::{
    Request,
    http::{HeaderMap, header},
};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// The largest body, in bytes. The largest legal one, with every character escaped, has about 3,000.
pub const BODY_BYTES_MAX: usize = 16 * 1024;

/// A body's members, and the faults found so far.
#[derive(Debug)]
pub struct Members {
    members: Vec<(String, Value)>,
    faults: Vec<Fault>,
}

/// What is wrong with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFault {
    /// In which way.
    pub invalidity: Invalidity,
    /// Where, and what.
    pub faults: Vec<Fault>,
}

impl BodyFault {
    fn new(invalidity: Invalidity, fault: Fault) -> Self {
        Self { invalidity, faults: vec![fault] }
    }

    /// The error answer, for an instruction with this standing.
    #[must_use]
    pub fn on(self, standing: Standing) -> ApiError {
        ApiError::Invalid(self.invalidity, self.faults, standing)
    }
}

impl Members {
    /// Reads the body of `request`, which must be JSON by its media type, an object, and not too large.
    ///
    /// # Errors
    /// [`BodyFault`] for the body as a whole.
    pub fn of(request: &Request) -> Result<Self, BodyFault> {
        let body: &[u8] = request.body();
        check_size(body)?;
        check_media_type(request.headers())?;
        Self::parse(body)
    }

    /// As [`Members::of`], but an empty body counts as `{}` and needs no media type.
    ///
    /// # Errors
    /// [`BodyFault`] for the body as a whole.
    pub fn of_optional(request: &Request) -> Result<Self, BodyFault> {
        if request.body().is_empty() {
            return Ok(Self { members: Vec::new(), faults: Vec::new() });
        }
        Self::of(request)
    }

    /// Reads the bytes of a body.
    ///
    /// # Errors
    /// [`BodyFault`] if they are not one JSON object.
    pub fn parse(body: &[u8]) -> Result<Self, BodyFault> {
        let content = |detail: String| BodyFault::new(Invalidity::Content, Fault::body(detail));
        let Pairs(members) = serde_json::from_slice(body).map_err(|error| {
            content(match error.classify() {
                serde_json::error::Category::Data => "must be a JSON object".to_owned(),
                _ => format!("is not JSON at line {} column {}", error.line(), error.column()),
            })
        })?;
        let mut seen = std::collections::BTreeSet::new();
        let mut faults = Vec::new();
        for (name, _) in &members {
            if !seen.insert(name) {
                faults.push(Fault::member(name, "stands there more than once"));
            }
        }
        Ok(Self { members, faults })
    }

    /// Takes the member `name` through `parse`. A missing or refused one is noted as a fault and is `None`.
    pub fn required<T>(&mut self, name: &str, parse: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        match self.take(name) {
            Some(value) => self.parsed(name, &value, parse),
            None => {
                self.faults.push(Fault::member(name, "is missing"));
                None
            }
        }
    }

    /// Takes the member `name` through `parse`, if it is there. A refused one is noted as a fault and is `None`.
    pub fn optional<T>(&mut self, name: &str, parse: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        let value = self.take(name)?;
        self.parsed(name, &value, parse)
    }

    fn parsed<T>(&mut self, name: &str, value: &Value, parse: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        parse(value).map_err(|detail| self.faults.push(Fault::member(name, detail))).ok()
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let mut taken = None;
        self.members.retain_mut(|(member, value)| {
            let wanted = member == name;
            if wanted && taken.is_none() {
                taken = Some(value.take());
            }
            !wanted
        });
        taken
    }

    /// `whole`, if nothing was wrong: members that nobody took are unknown.
    ///
    /// # Errors
    /// [`BodyFault`] with every fault.
    pub fn finish<T>(mut self, whole: Option<T>) -> Result<T, BodyFault> {
        for (name, _) in &self.members {
            let fault = Fault::member(name, "is not a member that is known here");
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
        match whole {
            Some(whole) if self.faults.is_empty() => Ok(whole),
            _ => Err(BodyFault { invalidity: Invalidity::Content, faults: self.faults }),
        }
    }
}

/// The text of a JSON string.
///
/// # Errors
/// What is wrong, for people.
pub fn string(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "must be a string".to_owned())
}

fn check_size(body: &[u8]) -> Result<(), BodyFault> {
    if body.len() <= BODY_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("must not be larger than {BODY_BYTES_MAX} bytes");
    Err(BodyFault::new(Invalidity::TooLarge, Fault::body(detail)))
}

/// `application/json`, with no parameter but `charset=utf-8`, once.
fn check_media_type(headers: &HeaderMap) -> Result<(), BodyFault> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    if let (Some(value), None) = (values.next(), values.next())
        && value.to_str().is_ok_and(is_json)
    {
        return Ok(());
    }
    let fault = Fault::header("Content-Type", "must be application/json, in UTF-8");
    Err(BodyFault::new(Invalidity::MediaType, fault))
}

fn is_json(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.all(|parameter| {
            parameter.split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("charset")
                    && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
        })
}

/// An object's members in their order, duplicates included.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Place;

    fn faults(body: &str) -> Vec<String> {
        let read = |mut members: Members| {
            let a = members.required("a", |v| v.as_i64().ok_or_else(|| "must be an integer".to_owned()));
            let _ = members.optional("b", |v| string(v).map(str::to_owned));
            members.finish(a)
        };
        let result = Members::parse(body.as_bytes()).and_then(read);
        result.err().map_or_else(Vec::new, |fault| {
            let show = |fault: &Fault| match &fault.place {
                Place::Pointer(pointer) => format!("{pointer} {}", fault.detail),
                other => format!("{other:?}"),
            };
            fault.faults.iter().map(show).collect()
        })
    }

    #[test]
    fn every_fault_of_a_body_is_named_at_once() {
        assert!(faults(r#"{"a":1}"#).is_empty());
        assert!(faults(r#"{"b":"x","a":-1}"#).is_empty());
        assert_eq!(
            faults(r#"{"b":1,"c":2,"d/e":3}"#),
            [
                "/a is missing",
                "/b must be a string",
                "/c is not a member that is known here",
                "/d~1e is not a member that is known here"
            ]
        );
        assert_eq!(faults(r#"{"a":1,"a":1}"#), ["/a stands there more than once"]);
        for number in ["1e2", "1.0", "-0", "\"1\"", "null", "99999999999999999999", "[1]", "{\"a\":1}"] {
            assert_eq!(faults(&format!("{{\"a\":{number}}}")), ["/a must be an integer"], "{number}");
        }
    }

    #[test]
    fn what_is_no_json_object_is_refused_as_a_whole() {
        for body in ["[]", "1", "\"a\"", "null"] {
            assert_eq!(faults(body), [" must be a JSON object"], "{body}");
        }
        for body in ["", "{", "{\"a\":01}", "{\"a\":1}x", "{'a':1}", "{\"a\":1,}", "\u{FEFF}{\"a\":1}"] {
            assert!(faults(body)[0].starts_with(" is not JSON at"), "{body}: {:?}", faults(body));
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(4000), "]".repeat(4000));
        assert!(faults(&deep)[0].starts_with(" is not JSON at"));
    }

    #[test]
    fn only_json_in_utf8_is_read() {
        for (media_type, valid) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json; charset=\"utf-8\"", true),
            ("application/json; charset=shift_jis", false),
            ("application/json; profile=x", false),
            ("text/json", false),
            ("application/problem+json", false),
            ("", false),
        ] {
            assert_eq!(is_json(media_type), valid, "{media_type}");
        }
    }
}
