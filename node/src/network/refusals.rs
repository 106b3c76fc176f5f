//! Peers that are not talked to, and why: for the operator, who can mend it.
//!
//! Invariants: one refusal is news once in [`AGAIN_AFTER`], however often it happens; what is
//! remembered is bounded, so somebody with many addresses cannot fill the log or the memory.
//! No clock is read here.

use super::address;
use libp2p::Multiaddr;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// The same refusal is news again after this.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Refusals that are remembered; more in one [`AGAIN_AFTER`] are no news.
const REFUSALS_MAX: usize = 64;
/// Characters of what a stranger says of itself that are repeated.
const QUOTE_CHARS_MAX: usize = 64;

/// Why a peer is not talked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The handshake failed because of the mesh key.
    #[error(
        "the peer at {address} has another mesh key, or none: copy the mesh's key file to the machine that has the wrong one (`brickmesh peer` prints how), and start it again there"
    )]
    AnotherKey {
        /// Where it was dialled, or where it came from, then without a port.
        address: Multiaddr,
    },
    /// It has the key, but speaks another version of the protocol.
    #[error(
        "the peer at {address} speaks {theirs:?}, this one {ours:?}: run the same version of brickmesh on both"
    )]
    AnotherVersion {
        /// Where it was seen.
        address: Multiaddr,
        /// This peer's version.
        ours: String,
        /// Its version.
        theirs: String,
    },
    /// Nothing answers where a peer was said to be.
    #[error(
        "{address} does not answer as a peer: {cause}; is `brickmesh peer` running there, and is this the address that it prints? It is tried again until it answers"
    )]
    NoAnswer {
        /// The address as it was given.
        address: Multiaddr,
        /// What the system said.
        cause: String,
    },
}

impl Refusal {
    /// Of a peer that was dialled.
    pub(super) fn of_dialled(remote: &Multiaddr) -> Self {
        Self::AnotherKey {
            address: address::without_peer(remote),
        }
    }

    /// Of one that came, from a port that means nothing.
    pub(super) fn of_visitor(remote: &Multiaddr) -> Self {
        Self::AnotherKey {
            address: address::host(remote),
        }
    }

    /// Of a peer that says it speaks `theirs`.
    pub(super) fn of_version(remote: &Multiaddr, ours: &str, theirs: &str) -> Self {
        Self::AnotherVersion {
            address: address::host(remote),
            ours: ours.to_owned(),
            theirs: theirs.chars().take(QUOTE_CHARS_MAX).collect(),
        }
    }
}

/// The refusals of late.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    noted: Vec<(Instant, Refusal)>,
    /// The last of each joined address that has not answered since, by its number.
    joined: BTreeMap<usize, Refusal>,
}

impl Refusals {
    /// Notes a refusal, about joined address number `join` if it is about one. Returns whether it is
    /// news.
    pub(super) fn note(&mut self, refusal: &Refusal, join: Option<usize>, now: Instant) -> bool {
        self.noted
            .retain(|(at, _)| now.duration_since(*at) < AGAIN_AFTER);
        if let Some(join) = join {
            self.joined.insert(join, refusal.clone());
        }
        let known = self.noted.iter().any(|(_, noted)| noted == refusal);
        let has_room = join.is_some() || self.noted.len() < REFUSALS_MAX;
        let is_news = !known && has_room;
        if is_news {
            self.noted.push((now, refusal.clone()));
        }
        is_news
    }

    /// Joined address number `join` answers.
    pub(super) fn answered(&mut self, join: usize) {
        if let Some(refusal) = self.joined.remove(&join) {
            self.noted.retain(|(_, noted)| *noted != refusal);
        }
    }

    /// Whether something is remembered about joined address number `join`.
    pub(super) fn is_known(&self, join: usize) -> bool {
        self.joined.contains_key(&join)
    }

    /// What is remembered, the oldest first.
    pub(super) fn list(&self) -> Vec<Refusal> {
        self.noted.iter().map(|(_, noted)| noted.clone()).collect()
    }

    /// The last of each joined address that has not answered since, in their order.
    pub(super) fn of_joined(&self) -> Vec<Refusal> {
        self.joined.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Multiaddr {
        address::parse(text).unwrap()
    }

    #[test]
    fn a_refusal_is_news_once_a_minute() {
        let (now, mut refusals) = (Instant::now(), Refusals::default());
        let mut news = 0;
        for second in 0..180 {
            let refusal = Refusal::of_visitor(&at(&format!("10.0.0.7:{}", 1000 + second)));
            news += usize::from(refusals.note(&refusal, None, now + Duration::from_secs(second)));
        }
        assert_eq!(news, 3);
        let other = Refusal::of_visitor(&at("10.0.0.8:1"));
        assert!(refusals.note(&other, None, now + Duration::from_secs(180)));
    }

    #[test]
    fn what_was_said_of_a_joined_address_is_forgotten_when_it_answers() {
        let (now, mut refusals) = (Instant::now(), Refusals::default());
        let dead = Refusal::NoAnswer {
            address: at("lab-1:7070"),
            cause: "connection refused".to_owned(),
        };
        assert!(refusals.note(&dead, Some(1), now) && !refusals.note(&dead, Some(1), now));
        assert!(refusals.note(&Refusal::of_visitor(&at("10.0.0.8:1")), None, now));
        assert!(refusals.is_known(1) && !refusals.is_known(0));
        // Where somebody else's refusal is the same, it is known all the same.
        let visitor = Refusal::of_visitor(&at("10.0.0.8:1"));
        assert!(!refusals.note(&visitor, Some(2), now) && refusals.is_known(2));
        refusals.answered(2);
        assert!(refusals.note(&visitor, None, now));
        assert_eq!(refusals.of_joined(), [dead]);
        refusals.answered(1);
        assert_eq!((refusals.of_joined().len(), refusals.list().len()), (0, 1));
    }

    #[test]
    fn many_addresses_are_bounded() {
        let (now, mut refusals) = (Instant::now(), Refusals::default());
        let news = (1..1000).filter(|port| {
            let refusal = Refusal::of_dialled(&at(&format!("10.0.0.7:{port}")));
            refusals.note(&refusal, None, now)
        });
        assert_eq!(news.count(), REFUSALS_MAX);
        assert_eq!(refusals.list().len(), REFUSALS_MAX);
    }

    #[test]
    fn the_words_name_both_versions_and_quote_no_more_than_is_sane() {
        let long = format!("/brickmesh/4\n{}", "x".repeat(10_000));
        let refusal = Refusal::of_version(&at("10.0.0.7:1"), "/brickmesh/3", &long);
        let text = refusal.to_string();
        assert!(text.contains("/brickmesh/3") && text.contains("/brickmesh/4"));
        assert!(!text.contains('\n') && text.len() < 300, "{text}");
    }
}
