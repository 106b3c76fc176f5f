//! Names of peers.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// A peer's identity: base58 of its libp2p id in a network, any text in one process. Ordered, so
/// that every peer lists the same roster in the same order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PeerId(Arc<str>);

impl PeerId {
    /// The peer of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last eight characters, for people: base58 ids begin alike.
    #[must_use]
    pub fn short(&self) -> &str {
        let start = self.0.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
        &self.0[start..]
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
