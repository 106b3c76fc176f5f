//! Connections that do not come about or must not stay: by the mesh key, by the version.
//!
//! A peer of another version has the key, so its connection stands: it is kept until each side
//! has had the time to tell the other its version, and no longer. No lane of one version is a lane
//! of another, so nothing else can be said on it.

use super::{Driver, lock};
use crate::network::{address, admission::is_another_key, protocol, refusals::Refusal};
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
        if let Some(index) = self.joining.remove(&connection) {
            let is_self = matches!(error, DialError::LocalPeerId { .. });
            self.roster.join_failed(index, is_self);
        }
        let DialError::Transport(tried) = error else {
            return;
        };
        for (address, error) in tried {
            if is_another_key(error) {
                self.refuse(&Refusal::of_dialled(address), now);
                if let Some(peer) = peer {
                    self.roster.refused(&peer, now);
                    // Or it would be dialled at every look-up.
                    self.swarm.behaviour_mut().kad.remove_peer(&peer);
                }
            }
        }
    }

    /// Somebody who came was not let in.
    pub(super) fn on_listen_error(&mut self, from: &Multiaddr, error: &ListenError, now: Instant) {
        tracing::debug!(address = %from, %error, "connection refused");
        if let ListenError::Transport(error) = error
            && is_another_key(error)
        {
            self.refuse(&Refusal::of_visitor(from), now);
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
        self.refuse(&Refusal::of_version(&from, protocol::IDENTIFY, theirs), now);
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

    fn refuse(&self, refusal: &Refusal, now: Instant) {
        let refusals = self.links.refusals.lock();
        let mut refusals = refusals.unwrap_or_else(PoisonError::into_inner);
        if refusals.note(refusal, now) {
            tracing::warn!("{refusal}");
        }
    }
}
