//! Arrays of bytes in serde: hex digits where people read, bytes elsewhere.

use serde::{
    Deserializer, Serializer,
    de::{Error, SeqAccess, Visitor},
};
use std::fmt;

/// Writes bytes.
pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    if to.is_human_readable() {
        to.collect_str(&Hex(bytes))
    } else {
        to.serialize_bytes(bytes)
    }
}

/// Reads exactly so many bytes.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
    from: D,
) -> Result<[u8; N], D::Error> {
    if from.is_human_readable() {
        from.deserialize_str(Bytes::<N>)
    } else {
        from.deserialize_bytes(Bytes::<N>)
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

struct Bytes<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for Bytes<N> {
    type Value = [u8; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hex digits, or {N} bytes", 2 * N)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<[u8; N], E> {
        let wrong = || E::invalid_value(serde::de::Unexpected::Str(text), &self);
        if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut out = [0; N];
        for (byte, at) in out.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(out)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<[u8; N], E> {
        bytes
            .try_into()
            .map_err(|_| E::invalid_length(bytes.len(), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<[u8; N], A::Error> {
        let mut out = [0; N];
        for (at, byte) in out.iter_mut().enumerate() {
            let next = list.next_element()?;
            *byte = next.ok_or_else(|| A::Error::invalid_length(at, &self))?;
        }
        Ok(out)
    }
}
