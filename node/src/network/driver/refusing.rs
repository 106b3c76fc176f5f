//! Connections that do not come about or must not stay: by the mesh key, by the version.
//!
//! A peer of another version has the key, so its connection stands: it is kept until each side
//! has had the time to tell the other its version, and no longer. No lane of one version is a lane
//! of another, so nothing else can be said on it.

use super::{Driver, JoinDial, lock};
use crate::network::{
    address,
    admission::{innermost, is_another_key},
    protocol,
    refusals::{Refusal, Refusals},
};
use libp2p::{
    Multiaddr, PeerId, identify,
    swarm::{ConnectionId, DialError, ListenError},
};
use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

/// How long a peer of another version stays connected after it was recognised.
const FAREWELL: Duration = Duration::from_secs(1);

impl Driver {
    /// A dial failed.
    pub(super) fn on_dial_error(
        &mut self,
        connection: ConnectionId,
        peer: Option<PeerId>,
        error: &DialError,
        now: Instant,
    ) {
        tracing::debug!(%error, "dial failed");
        let dial = self.joining.remove(&connection);
        // While other numbers of a name are to be tried, nothing is said of it.
        let is_last = dial.as_ref().filter(|dial| dial.rest.is_empty());
        let join = is_last.map(|dial| dial.index);
        let nothing = Vec::new();
        let tried = match error {
            DialError::Transport(tried) => tried,
            _ => &nothing,
        };
        let another_key = tried.iter().any(|(_, error)| is_another_key(error));
        match dial {
            Some(dial) if !dial.rest.is_empty() => self.dial_join(dial, now),
            Some(dial) if another_key => self.roster.join_failed(dial.index, false),
            Some(dial) => self.on_no_answer(&dial, error, now),
            None => {}
        }
        for (address, error) in tried {
            if is_another_key(error) {
                self.refuse(&Refusal::of_dialled(address), join, now);
                if let Some(peer) = peer {
                    self.roster.refused(&peer, now);
                    // Or it would be dialled at every look-up.
                    self.swarm.behaviour_mut().kad.remove_peer(&peer);
                }
            }
        }
    }

    /// No address of a joined one answers as a peer.
    fn on_no_answer(&mut self, dial: &JoinDial, error: &DialError, now: Instant) {
        let is_self = matches!(error, DialError::LocalPeerId { .. });
        self.roster.join_failed(dial.index, is_self);
        if is_self {
            tracing::warn!("an address to join is this peer's own; it is not dialled again");
        } else {
            let cause = match error {
                DialError::WrongPeerId { obtained, .. } => format!("peer {obtained} is there"),
                DialError::Transport(tried) => tried
                    .first()
                    .map_or_else(|| error.to_string(), |(_, error)| innermost(error)),
                error => innermost(error),
            };
            self.no_answer(dial.index, cause, now);
        }
    }

    /// Notes why joined address number `index` could not be reached.
    pub(super) fn no_answer(&self, index: usize, cause: String, now: Instant) {
        if let Some(address) = self.roster.join_address(index) {
            let address = address.clone();
            self.refuse(&Refusal::NoAnswer { address, cause }, Some(index), now);
        }
    }

    /// Reports the joined addresses whose dials take long, each once.
    pub(super) fn report_late(&self, now: Instant) {
        for index in self.roster.late(now) {
            if !self.refusals(|refusals| refusals.is_known(index)) {
                let cause = "there is no answer so far".to_owned();
                self.no_answer(index, cause, now);
            }
        }
    }

    /// Somebody who came was not let in.
    pub(super) fn on_listen_error(&mut self, from: &Multiaddr, error: &ListenError, now: Instant) {
        tracing::debug!(address = %from, %error, "connection refused");
        if let ListenError::Transport(error) = error
            && is_another_key(error)
        {
            self.refuse(&Refusal::of_visitor(from), None, now);
        }
    }

    /// A peer said what it speaks, and where it listens.
    pub(super) fn on_identified(&mut self, peer: PeerId, info: &identify::Info, now: Instant) {
        let seen_at = self.seen_at.get(&peer).cloned();
        if info.protocol_version == protocol::IDENTIFY {
            for address in &info.listen_addrs {
                self.learn(peer, address, seen_at.as_ref(), now);
            }
            return;
        }
        // Others' word, which the operator is to read: numbers only.
        let mut claimed = info.listen_addrs.iter();
        let claimed = || claimed.find(|address| address::check(address).is_ok());
        let from = seen_at.as_ref().or_else(claimed);
        let from = from.cloned().unwrap_or_else(Multiaddr::empty);
        let theirs = &info.protocol_version;
        let refusal = Refusal::of_version(&from, protocol::IDENTIFY, theirs);
        self.refuse(&refusal, self.roster.join_of(&peer), now);
        self.swarm.behaviour_mut().kad.remove_peer(&peer);
        // Without its door the session gives up to open lanes.
        lock(&self.doors).remove(&peer);
        self.leaving.entry(peer).or_insert(now + FAREWELL);
    }

    /// Closes the connections that were kept for a farewell.
    pub(super) fn end_farewells(&mut self, now: Instant) {
        let over: Vec<PeerId> = self
            .leaving
            .extract_if(.., |_, until| *until <= now)
            .map(|(peer, _)| peer)
            .collect();
        for peer in over {
            self.disconnect(peer);
        }
    }

    fn refuse(&self, refusal: &Refusal, join: Option<usize>, now: Instant) {
        if self.refusals(|refusals| refusals.note(refusal, join, now)) {
            tracing::warn!("{refusal}");
        }
    }

    pub(super) fn refusals<T>(&self, with: impl FnOnce(&mut Refusals) -> T) -> T {
        let refusals = self.links.refusals.lock();
        with(&mut refusals.unwrap_or_else(PoisonError::into_inner))
    }
}
