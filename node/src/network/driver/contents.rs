//! Who has what: questions to Kademlia, and their answers; what others announce.
//!
//! Invariant: a question is answered by its deadline, with what was found until then; what
//! Kademlia tells of peers is others' word, and learned like any other.

use super::{Command, Driver};
use crate::network::{PeerId as PeerName, peer_name};
use libp2p::kad::{self, store::RecordStore as _};
use std::{collections::BTreeSet, time::Instant};
use tokio::sync::oneshot;

/// Queries for providers under way.
const QUERIES_MAX: usize = 64;

/// A query for providers under way.
pub(super) struct Query {
    id: kad::QueryId,
    deadline: Instant,
    found: BTreeSet<PeerName>,
    reply: oneshot::Sender<Vec<PeerName>>,
}

impl Driver {
    pub(super) fn on_query(
        &mut self,
        id: kad::QueryId,
        result: kad::QueryResult,
        last: bool,
        now: Instant,
    ) {
        match result {
            kad::QueryResult::GetClosestPeers(closest) => {
                let (Ok(kad::GetClosestPeersOk { peers, .. })
                | Err(kad::GetClosestPeersError::Timeout { peers, .. })) = closest;
                for kad::PeerInfo { peer_id, addrs } in peers {
                    // Others' word: loopback addresses count only of a peer seen on loopback.
                    let seen_at = self.seen_at.get(&peer_id).cloned();
                    for address in addrs {
                        self.learn(peer_id, &address, seen_at.as_ref(), now);
                    }
                }
            }
            kad::QueryResult::GetProviders(Ok(kad::GetProvidersOk::FoundProviders {
                providers,
                ..
            })) => {
                if let Some(query) = self.queries.iter_mut().find(|query| query.id == id) {
                    query.found.extend(providers.iter().map(peer_name));
                }
            }
            _ => {}
        }
        if last && let Some(at) = self.queries.iter().position(|query| query.id == id) {
            answer(self.queries.swap_remove(at));
        }
    }

    pub(super) fn on_command(&mut self, command: Command) {
        let kad = &mut self.swarm.behaviour_mut().kad;
        match command {
            Command::Provide(digest) => {
                if let Err(error) = kad.start_providing(kad::RecordKey::new(&digest)) {
                    tracing::warn!(%error, "a data set is not in the mesh's directory; peers that are connected know it all the same");
                }
            }
            Command::FindProviders {
                digest,
                timeout,
                reply,
            } => {
                if self.queries.len() >= QUERIES_MAX {
                    // Dropping the reply answers with nothing.
                    return;
                }
                self.queries.push(Query {
                    id: kad.get_providers(kad::RecordKey::new(&digest)),
                    deadline: Instant::now() + timeout,
                    found: BTreeSet::new(),
                    reply,
                });
            }
        }
    }

    /// A peer says that it has a data set.
    pub(super) fn on_announced(&mut self, record: kad::ProviderRecord, now: Instant) {
        let Some(record) = self.directory.note(record, now) else {
            tracing::debug!("the directory has no room for an announcement");
            return;
        };
        let store = self.swarm.behaviour_mut().kad.store_mut();
        if let Err(error) = store.add_provider(record) {
            tracing::debug!(%error, "an announcement was not stored");
        }
    }

    /// Takes what nobody announces any more out of Kademlia's store.
    pub(super) fn forget_announced(&mut self, now: Instant) {
        let local = *self.swarm.local_peer_id();
        let store = self.swarm.behaviour_mut().kad.store_mut();
        for key in self.directory.forget(now) {
            for record in store.providers(&key) {
                if record.provider != local {
                    store.remove_provider(&key, &record.provider);
                }
            }
        }
    }

    /// Answers the questions whose time is up.
    pub(super) fn end_queries(&mut self, now: Instant) {
        for query in self.queries.extract_if(.., |query| query.deadline <= now) {
            answer(query);
        }
    }
}

fn answer(query: Query) {
    if query.reply.send(query.found.into_iter().collect()).is_err() {
        tracing::debug!("nobody waited for the providers");
    }
}
