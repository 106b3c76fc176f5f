//! Whom to dial when, so that every peer is connected to every other.
//!
//! Two peers that dial each other at once get two connections, or with one port at both ends
//! none; so the lower id dials at once, the higher only if nothing came for a while. Every dial
//! doubles the wait until the next one; a session that held for a while resets it.
//!
//! Invariants: at most [`PEERS_MAX`] peers with [`ADDRESSES_MAX`] addresses each; joined
//! addresses are dialled for ever, learned peers until [`FORGET_AFTER`]. No clock is read here.
//! Not here: sockets.

use super::address;
use brickmesh_topology::base::backoff::Backoff;
use libp2p::{Multiaddr, PeerId};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Peers that are remembered; a full mesh of more would need too many connections.
pub(super) const PEERS_MAX: usize = 256;
/// Addresses of one peer: a few interfaces, two families.
const ADDRESSES_MAX: usize = 8;
/// A joined address that has not answered for so long is reported.
const LATE: Duration = Duration::from_millis(700);
/// How long the higher id waits for the lower one to dial.
const YIELD: Duration = Duration::from_secs(3);
/// Waits between two dials.
const DIALS: Backoff = Backoff::new(1_000_000, 30_000_000);
/// A connection that held this long was a good one: the next loss is dialled soon again.
const GOOD_AFTER: Duration = Duration::from_secs(10);
/// A learned peer with another mesh key is of another mesh in the room; it may get ours some day.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);
/// A learned peer that was not connected for so long has left.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// What to dial now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Dial {
    /// A peer whose identity is known.
    Peer(PeerId, Vec<Multiaddr>),
    /// Joined address number so much.
    Join(usize, Multiaddr),
}

/// Whether an address is news.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// It is known, or there is no room for the peer.
    NoNews,
    /// It is noted, where there was no room in place of another one.
    News {
        /// The address that was given up.
        instead_of: Option<Multiaddr>,
    },
}

/// When to try again: after a second, then less and less often.
#[derive(Debug)]
pub(super) struct Retry {
    due: Instant,
    /// Tries since something changed.
    earlier: u32,
}

impl Retry {
    pub(super) fn new(due: Instant) -> Self {
        Self { due, earlier: 0 }
    }

    /// How long the next wait is.
    fn wait(&self) -> Duration {
        Duration::from_micros(DIALS.micros(self.earlier))
    }

    /// Whether to try now; then the next time is later.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now + self.wait();
            self.earlier = self.earlier.saturating_add(1);
        }
        due
    }

    /// Begins anew: something has changed.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        self.earlier = 0;
        self.due = self.due.min(now + self.wait());
    }
}

#[derive(Debug)]
struct Candidate {
    addresses: Vec<Multiaddr>,
    retry: Retry,
    connected: Option<Instant>,
    seen: Instant,
    /// It has another mesh key.
    refused: bool,
}

#[derive(Debug)]
struct Join {
    address: Multiaddr,
    peer: Option<PeerId>,
    /// Since when it is being dialled.
    dialling: Option<Instant>,
    is_self: bool,
    retry: Retry,
}

/// Peers that are known, and addresses to join.
#[derive(Debug)]
pub(super) struct Roster {
    local: PeerId,
    peers: BTreeMap<PeerId, Candidate>,
    joins: Vec<Join>,
}

impl Roster {
    pub(super) fn new(local: PeerId, joins: &[Multiaddr], now: Instant) -> Self {
        let joins = joins.iter().map(|address| Join {
            address: address.clone(),
            peer: address::peer_of(address),
            dialling: None,
            is_self: address::peer_of(address) == Some(local),
            retry: Retry::new(now),
        });
        Self {
            local,
            peers: BTreeMap::new(),
            joins: joins.collect(),
        }
    }

    /// Notes that the peer may listen at `address`.
    pub(super) fn learn(&mut self, peer: PeerId, address: &Multiaddr, now: Instant) -> Learned {
        if !self.has_room_for(&peer) {
            return Learned::NoNews;
        }
        let address = address::without_peer(address);
        let candidate = self.candidate(peer, now);
        candidate.seen = now;
        if candidate.addresses.contains(&address) {
            return Learned::NoNews;
        }
        let is_full = candidate.addresses.len() >= ADDRESSES_MAX;
        let instead_of = candidate.addresses.pop_if(|_| is_full);
        // The newest first: a peer that moved answers there.
        candidate.addresses.insert(0, address);
        if candidate.refused {
            // It was started anew, perhaps with our key.
            candidate.refused = false;
            candidate.retry.due = candidate.retry.due.min(now + candidate.retry.wait());
        }
        Learned::News { instead_of }
    }

    fn has_room_for(&self, peer: &PeerId) -> bool {
        *peer != self.local && (self.peers.contains_key(peer) || self.peers.len() < PEERS_MAX)
    }

    fn candidate(&mut self, peer: PeerId, now: Instant) -> &mut Candidate {
        let lower = self.local < peer;
        self.peers.entry(peer).or_insert_with(|| Candidate {
            addresses: Vec::new(),
            retry: Retry::new(if lower { now } else { now + YIELD }),
            connected: None,
            seen: now,
            refused: false,
        })
    }

    pub(super) fn connected(&mut self, peer: PeerId, now: Instant) {
        if self.has_room_for(&peer) {
            self.candidate(peer, now).connected.get_or_insert(now);
        }
    }

    /// The last connection to the peer is closed.
    pub(super) fn disconnected(&mut self, peer: &PeerId, now: Instant) {
        let lower = self.local < *peer;
        let Some(candidate) = self.peers.get_mut(peer) else {
            return;
        };
        let since = candidate.connected.take();
        if since.is_some_and(|since| now.duration_since(since) >= GOOD_AFTER) {
            candidate.retry.earlier = 0;
        }
        candidate.seen = now;
        let patience = if lower { Duration::ZERO } else { YIELD };
        candidate.retry.due = now + candidate.retry.wait() + patience;
        let earlier = candidate.retry.earlier;
        for join in self
            .joins
            .iter_mut()
            .filter(|join| join.peer == Some(*peer))
        {
            join.retry.earlier = earlier;
            join.retry.due = now + join.retry.wait();
        }
    }

    /// A learned peer cannot be connected to before it has another mesh key.
    pub(super) fn refused(&mut self, peer: &PeerId, now: Instant) {
        if let Some(candidate) = self.peers.get_mut(peer) {
            candidate.refused = true;
            candidate.retry.due = now + REFUSED_PAUSE;
        }
    }

    /// The dial of a joined address reached this peer.
    pub(super) fn joined(&mut self, index: usize, peer: PeerId) {
        if let Some(join) = self.joins.get_mut(index) {
            join.dialling = None;
            join.peer = Some(peer);
        }
    }

    /// The dial of a joined address failed; `is_self`: it is this peer's own address.
    pub(super) fn join_failed(&mut self, index: usize, is_self: bool) {
        if let Some(join) = self.joins.get_mut(index) {
            join.dialling = None;
            join.is_self |= is_self;
        }
    }

    /// The joined address that this peer was reached at.
    pub(super) fn join_of(&self, peer: &PeerId) -> Option<usize> {
        self.joins.iter().position(|join| join.peer == Some(*peer))
    }

    /// Joined address number `index`, as it was given.
    pub(super) fn join_address(&self, index: usize) -> Option<&Multiaddr> {
        self.joins.get(index).map(|join| &join.address)
    }

    /// The joined addresses that have been dialled for [`LATE`] and have not answered.
    pub(super) fn late(&self, now: Instant) -> Vec<usize> {
        let is_late = |join: &Join| {
            join.dialling
                .is_some_and(|at| now.duration_since(at) >= LATE)
        };
        let late = self
            .joins
            .iter()
            .enumerate()
            .filter(|(_, join)| is_late(join));
        late.map(|(index, _)| index).collect()
    }

    /// What to dial at `now`, joined addresses first, then peers in order of id.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Dial> {
        let mut dials = Vec::new();
        for (index, join) in self.joins.iter_mut().enumerate() {
            let peer = join.peer.and_then(|peer| self.peers.get(&peer));
            let connected = peer.is_some_and(|peer| peer.connected.is_some());
            if !connected && join.dialling.is_none() && !join.is_self && join.retry.take(now) {
                join.dialling = Some(now);
                dials.push(Dial::Join(index, join.address.clone()));
            }
        }
        for (peer, candidate) in &mut self.peers {
            let idle = candidate.connected.is_none() && !candidate.addresses.is_empty();
            if idle && candidate.retry.take(now) {
                dials.push(Dial::Peer(*peer, candidate.addresses.clone()));
            }
        }
        dials
    }

    /// Forgets peers that left long ago, and names them.
    pub(super) fn forget(&mut self, now: Instant) -> Vec<PeerId> {
        let old = self.peers.extract_if(.., |_, candidate| {
            candidate.connected.is_none() && now.duration_since(candidate.seen) > FORGET_AFTER
        });
        old.map(|(peer, _)| peer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);
    const FIRST: Duration = Duration::from_secs(1);

    fn at(text: &str) -> Multiaddr {
        address::parse(text).unwrap()
    }

    fn ordered_pair() -> (PeerId, PeerId) {
        let (a, b) = (PeerId::random(), PeerId::random());
        (a.min(b), a.max(b))
    }

    #[test]
    fn the_lower_id_dials_at_once_and_the_higher_after_a_while() {
        let ((low, high), now) = (ordered_pair(), Instant::now());
        let mut of_low = Roster::new(low, &[], now);
        let mut of_high = Roster::new(high, &[], now);
        let news = Learned::News { instead_of: None };
        assert_eq!(of_low.learn(high, &at("10.0.0.2:2"), now), news);
        assert_eq!(of_high.learn(low, &at("10.0.0.1:1"), now), news);
        assert_eq!(of_low.due(now), [Dial::Peer(high, vec![at("10.0.0.2:2")])]);
        assert_eq!(of_high.due(now), []);
        assert_eq!(of_high.due(now + YIELD).len(), 1);
        of_low.connected(high, now);
        assert_eq!(of_low.due(now + LONGEST), []);
    }

    #[test]
    fn a_joined_address_is_dialled_for_ever_with_growing_waits() {
        let now = Instant::now();
        let mut roster = Roster::new(PeerId::random(), &[at("10.0.0.1:1")], now);
        let mut dials = 0;
        for second in 0..3600 {
            dials += roster.due(now + Duration::from_secs(second)).len();
            roster.join_failed(0, false);
        }
        assert!((120..130).contains(&dials), "{dials}");
        roster.join_failed(0, true);
        assert_eq!(roster.due(now + FORGET_AFTER * 99), []);
    }

    #[test]
    fn a_joined_address_that_does_not_answer_is_late_within_its_first_second() {
        let now = Instant::now();
        let mut roster = Roster::new(PeerId::random(), &[at("10.0.0.1:1")], now);
        assert!(roster.due(now).len() == 1 && roster.late(now).is_empty());
        assert_eq!(roster.late(now + LATE), [0]);
        let peer = PeerId::random();
        roster.joined(0, peer);
        assert!(roster.late(now + LATE).is_empty());
        assert_eq!(
            (roster.join_of(&peer), roster.join_of(&PeerId::random())),
            (Some(0), None)
        );
    }

    #[test]
    fn what_is_looked_up_often_while_things_change_is_looked_up_rarely_after() {
        let now = Instant::now();
        let mut lookups = Retry::new(now);
        let mut between = |from, to| {
            let at = |second| now + Duration::from_secs(second);
            (from..to).filter(|&s| lookups.take(at(s))).count()
        };
        assert_eq!(between(0, 30), 5);
        assert_eq!(between(30, 330), 10);
        lookups.begin_anew(now + Duration::from_secs(330));
        let taken: Vec<u64> = (330..350)
            .filter(|&s| lookups.take(now + Duration::from_secs(s)))
            .collect();
        assert_eq!(taken, [331, 332, 334, 338, 346]);
    }

    #[test]
    fn learned_peers_are_bounded_and_forgotten() {
        let now = Instant::now();
        let mut roster = Roster::new(PeerId::random(), &[], now);
        for port in 1..=PEERS_MAX + 9 {
            roster.learn(PeerId::random(), &at(&format!("10.0.0.1:{port}")), now);
        }
        assert_eq!(roster.peers.len(), PEERS_MAX);
        let later = now + FORGET_AFTER + FIRST;
        assert_eq!(roster.forget(later).len(), PEERS_MAX);
    }

    #[test]
    fn a_new_address_takes_the_place_of_the_oldest() {
        let ((low, high), now) = (ordered_pair(), Instant::now());
        let mut roster = Roster::new(low, &[], now);
        let address = |port: usize| at(&format!("10.0.0.1:{port}"));
        let mut learn = |port| roster.learn(high, &address(port), now);
        for port in 1..=ADDRESSES_MAX {
            assert_eq!(learn(port), Learned::News { instead_of: None });
        }
        assert_eq!(learn(ADDRESSES_MAX), Learned::NoNews);
        let instead_of = Some(address(1));
        assert_eq!(learn(100), Learned::News { instead_of });
        let expected = [100].into_iter().chain((2..=ADDRESSES_MAX).rev());
        let expected = expected.map(address).collect();
        assert_eq!(roster.due(now), [Dial::Peer(high, expected)]);
    }

    #[test]
    fn a_peer_of_another_mesh_is_let_be_until_it_is_started_anew() {
        let ((low, high), now) = (ordered_pair(), Instant::now());
        let mut roster = Roster::new(low, &[], now);
        roster.learn(high, &at("10.0.0.2:2"), now);
        assert_eq!(roster.due(now).len(), 1);
        roster.refused(&high, now);
        assert_eq!(roster.due(now + REFUSED_PAUSE / 2), []);
        assert_eq!(roster.due(now + REFUSED_PAUSE).len(), 1);
        roster.refused(&high, now);
        roster.learn(high, &at("10.0.0.2:3"), now);
        assert_eq!(roster.due(now + LONGEST).len(), 1);
    }

    #[test]
    fn sessions_that_break_at_once_do_not_dial_faster_and_faster() {
        let ((low, high), now) = (ordered_pair(), Instant::now());
        let mut roster = Roster::new(low, &[], now);
        roster.learn(high, &at("10.0.0.2:2"), now);
        let mut dials = 0;
        for second in 0..600 {
            let now = now + Duration::from_secs(second);
            if !roster.due(now).is_empty() {
                dials += 1;
                roster.connected(high, now);
                roster.disconnected(&high, now);
            }
        }
        assert!(dials < 30, "{dials}");
    }
}
