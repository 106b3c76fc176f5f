//! The swarm's loop: learns addresses, dials, starts and ends sessions, asks Kademlia.
//!
//! Invariants: the loop never waits for a session or for the program, only they for it. There is
//! at most one live session per peer. Of two connections to one peer the lower id closes the
//! newer, so that both sides keep the same one; the streams that the higher may have begun there
//! are opened again.
//!
//! Here: connections and addresses; `contents` asks who has what, `refusing` ends what must not
//! stay. Not here: when to dial (`roster`), bytes (`lane`).

mod contents;
mod refusing;

use self::contents::Query;
use super::{
    Multiaddr, NetworkConfig, NetworkError, PeerId as PeerName, address,
    behaviour::{self, Behaviour, BehaviourEvent},
    directory::Directory,
    lane::{LANES, Outboxes},
    peer_name, protocol,
    refusals::Refusals,
    roster::{Dial, Learned, Retry, Roster},
    session::{DOOR_MAX, Session, SessionId},
    start_error,
};
use brickmesh_actors::bus::{BusEvent, Lane};
use futures::StreamExt;
use libp2p::{
    PeerId, Stream, Swarm, identify,
    identity::Keypair,
    kad, mdns,
    multiaddr::Protocol,
    ping,
    swarm::{ConnectionId, SwarmEvent, dial_opts::DialOpts},
};
use std::{
    collections::{BTreeMap, VecDeque},
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

/// How often dials and queries that are due are looked for.
const TICK: Duration = Duration::from_millis(200);
/// Sessions that may wait to have their connection closed.
const ENDED_MAX: usize = 64;
/// Names that may wait to be dialled after they were looked up.
const RESOLVED_MAX: usize = 64;
/// After the first address, others of the same listener follow within this.
const ADDRESSES_GRACE: Duration = Duration::from_millis(50);
/// How long connections and sessions may take to end at shutdown.
const GOODBYE_MAX: Duration = Duration::from_millis(500);

/// What the program asks of the network.
#[derive(Debug)]
pub(super) enum Command {
    /// This peer can give this content.
    Provide([u8; 32]),
    /// Who can give this content?
    FindProviders {
        digest: [u8; 32],
        timeout: Duration,
        reply: oneshot::Sender<Vec<PeerName>>,
    },
}

/// What ties the loop to the rest of the program.
pub(super) struct Links {
    pub(super) outboxes: Arc<Outboxes>,
    pub(super) addresses: Arc<RwLock<Vec<Multiaddr>>>,
    pub(super) refusals: Arc<Mutex<Refusals>>,
    pub(super) events: mpsc::Sender<BusEvent>,
    pub(super) requests: mpsc::Receiver<Command>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// The dial of a joined address; a name has several numbers, which are tried one after the other.
#[derive(Debug)]
struct JoinDial {
    /// Number of the joined address.
    index: usize,
    /// What to dial next.
    rest: VecDeque<Multiaddr>,
}

/// Joined address number so much, and what the system says of its name.
type Resolved = (usize, std::io::Result<Vec<Multiaddr>>);

/// Where streams that peers open are handed to their sessions.
type Doors = Arc<Mutex<BTreeMap<PeerId, mpsc::Sender<(Lane, Stream)>>>>;

pub(super) struct Driver {
    swarm: Swarm<Behaviour>,
    links: Links,
    roster: Roster,
    doors: Doors,
    control: libp2p_stream::Control,
    sessions: BTreeMap<PeerId, (u64, JoinHandle<()>)>,
    session_count: u64,
    ended: (mpsc::Sender<SessionId>, mpsc::Receiver<SessionId>),
    /// Dials of joined addresses under way.
    joining: BTreeMap<ConnectionId, JoinDial>,
    /// Joined addresses whose names were looked up.
    resolved: (mpsc::Sender<Resolved>, mpsc::Receiver<Resolved>),
    /// Where each connected peer was seen.
    seen_at: BTreeMap<PeerId, Multiaddr>,
    /// Connected peers of another version, and until when they are.
    leaving: BTreeMap<PeerId, Instant>,
    queries: Vec<Query>,
    directory: Directory,
    /// Of near peers: often while the roster changes, for each asks several peers.
    lookups: Retry,
}

impl Driver {
    /// Listens, and accepts lanes. Needs a tokio context.
    pub(super) fn new(
        config: &NetworkConfig,
        key: Keypair,
        links: Links,
    ) -> Result<Self, NetworkError> {
        let mut swarm = behaviour::swarm(config, key)?;
        let default = address::parse(super::LISTEN_DEFAULT)?;
        let listen = match config.listen.as_slice() {
            [] => std::slice::from_ref(&default),
            asked => asked,
        };
        for address in listen {
            listen_on(&mut swarm, address::without_peer(address))?;
        }
        let mut control = swarm.behaviour().streams.new_control();
        let doors = Doors::default();
        for lane in LANES {
            let arriving = control
                .accept(protocol::of_lane(lane))
                .map_err(|error| start_error(&error))?;
            tokio::spawn(hand_over(lane, arriving, Arc::clone(&doors)));
        }
        let now = Instant::now();
        Ok(Self {
            roster: Roster::new(*swarm.local_peer_id(), &config.join, now),
            swarm,
            links,
            doors,
            control,
            sessions: BTreeMap::new(),
            session_count: 0,
            ended: mpsc::channel(ENDED_MAX),
            joining: BTreeMap::new(),
            resolved: mpsc::channel(RESOLVED_MAX),
            seen_at: BTreeMap::new(),
            leaving: BTreeMap::new(),
            queries: Vec::new(),
            directory: Directory::default(),
            lookups: Retry::new(now),
        })
    }

    /// Runs until this peer listens somewhere.
    pub(super) async fn first_address(&mut self, max: Duration) {
        let first = async {
            while self.addresses().is_empty() {
                let event = self.swarm.select_next_some().await;
                self.on_swarm(event);
            }
        };
        if timeout(max, first).await.is_err() {
            tracing::warn!(
                "this peer listens nowhere yet, so no other can dial it: is a network interface up?"
            );
        }
        let rest = async {
            loop {
                let event = self.swarm.select_next_some().await;
                self.on_swarm(event);
            }
        };
        timeout(ADDRESSES_GRACE, rest).await.unwrap_or(());
    }

    /// Runs until the program stops the network.
    pub(super) async fn run(mut self) {
        let mut stopped = self.links.stopped.clone();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_swarm(event),
                Some(id) = self.ended.1.recv() => self.on_session_ended(id),
                Some((index, found)) = self.resolved.1.recv() => {
                    self.on_resolved(index, found, Instant::now());
                }
                request = self.links.requests.recv() => match request {
                    Some(command) => self.on_command(command),
                    None => break,
                },
                _ = stopped.wait_for(|stopped| *stopped) => break,
                _ = tick.tick() => self.on_tick(Instant::now()),
            }
        }
        self.goodbye().await;
    }

    /// Closes connections, so that peers notice at once, and lets sessions end.
    async fn goodbye(mut self) {
        lock(&self.doors).clear();
        let peers: Vec<_> = self.swarm.connected_peers().copied().collect();
        for peer in peers {
            self.disconnect(peer);
        }
        let Self {
            mut swarm,
            sessions,
            mut ended,
            ..
        } = self;
        let closing = async move {
            while swarm.connected_peers().next().is_some() {
                swarm.select_next_some().await;
            }
        };
        let ending = async {
            for (_, session) in sessions.into_values() {
                if let Err(error) = session.await {
                    tracing::error!(%error, "the session with a peer panicked: this is a bug, please report it with the log (-vv)");
                }
            }
        };
        let draining = async { while ended.1.recv().await.is_some() {} };
        let both = async { tokio::join!(timeout(GOODBYE_MAX, closing), ending) };
        tokio::select! {
            done = timeout(GOODBYE_MAX * 2, both) => if done.is_err() {
                tracing::debug!("sessions did not end in time");
            },
            () = draining => {}
        }
    }

    fn on_swarm(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let now = Instant::now();
        match event {
            SwarmEvent::Behaviour(event) => self.on_behaviour(event, now),
            SwarmEvent::NewListenAddr { address, .. } => {
                let address = address.with(Protocol::P2p(*self.swarm.local_peer_id()));
                tracing::info!(%address, "listening");
                self.addresses_mut(|addresses| addresses.push(address));
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                let address = address.with(Protocol::P2p(*self.swarm.local_peer_id()));
                tracing::debug!(%address, "not listening any more");
                self.addresses_mut(|addresses| addresses.retain(|other| *other != address));
            }
            SwarmEvent::ListenerClosed {
                reason: Err(error),
                addresses,
                ..
            } => tracing::warn!(
                ?addresses,
                %error,
                "this peer stopped listening there, others cannot dial it any more: start it again"
            ),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                num_established,
                ..
            } => {
                let remote = endpoint.get_remote_address().clone();
                if let Some(dial) = self.joining.remove(&connection_id) {
                    self.roster.joined(dial.index, peer_id);
                    self.refusals(|refusals| refusals.answered(dial.index));
                }
                self.on_connected(peer_id, connection_id, num_established.get(), remote, now);
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                num_established: 0,
                cause,
                ..
            } => self.on_disconnected(peer_id, cause.map(|cause| cause.to_string()), now),
            SwarmEvent::OutgoingConnectionError {
                connection_id,
                peer_id,
                error,
                ..
            } => self.on_dial_error(connection_id, peer_id, &error, now),
            SwarmEvent::IncomingConnectionError {
                send_back_addr,
                error,
                ..
            } => self.on_listen_error(&send_back_addr, &error, now),
            _ => {}
        }
    }

    fn on_connected(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        connection_count: u32,
        remote: Multiaddr,
        now: Instant,
    ) {
        if connection_count > 1 {
            if *self.swarm.local_peer_id() < peer {
                tracing::debug!(%peer, "second connection closed");
                self.swarm.close_connection(connection);
            }
            return;
        }
        tracing::debug!(%peer, address = %remote, "connection established");
        self.roster.connected(peer, now);
        self.seen_at.insert(peer, remote);
        self.session_count += 1;
        let (door, arriving) = mpsc::channel(DOOR_MAX);
        lock(&self.doors).insert(peer, door);
        let session = Session {
            id: (peer, self.session_count),
            name: peer_name(&peer),
            control: self.control.clone(),
            door: arriving,
            outboxes: Arc::clone(&self.links.outboxes),
            events: self.links.events.clone(),
            ended: self.ended.0.clone(),
        };
        let previous = self.sessions.remove(&peer).map(|(_, task)| task);
        let task = tokio::spawn(session.run(previous));
        self.sessions.insert(peer, (self.session_count, task));
        self.on_roster_change(now);
    }

    fn on_disconnected(&mut self, peer: PeerId, cause: Option<String>, now: Instant) {
        tracing::debug!(%peer, cause, "connection closed");
        // The session sees its door end, and ends.
        lock(&self.doors).remove(&peer);
        self.seen_at.remove(&peer);
        self.leaving.remove(&peer);
        self.roster.disconnected(&peer, now);
    }

    fn on_session_ended(&mut self, (peer, number): SessionId) {
        let newest = self.sessions.get(&peer);
        if newest.is_some_and(|(newest, _)| *newest == number) {
            self.disconnect(peer);
        }
    }

    fn on_behaviour(&mut self, event: BehaviourEvent, now: Instant) {
        match event {
            BehaviourEvent::Mdns(mdns::Event::Discovered(found)) => {
                for (peer, address) in found {
                    self.learn(peer, &address, None, now);
                }
            }
            BehaviourEvent::Identify(identify::Event::Received { peer_id, info, .. }) => {
                self.on_identified(peer_id, &info, now);
            }
            BehaviourEvent::Kad(kad::Event::RoutingUpdated {
                peer,
                is_new_peer: true,
                ..
            }) => {
                tracing::debug!(%peer, "routing updated");
                self.on_roster_change(now);
            }
            BehaviourEvent::Kad(kad::Event::OutboundQueryProgressed {
                id, result, step, ..
            }) => self.on_query(id, result, step.last, now),
            BehaviourEvent::Kad(kad::Event::InboundRequest {
                request:
                    kad::InboundRequest::AddProvider {
                        record: Some(record),
                    },
            }) => self.on_announced(record, now),
            BehaviourEvent::Ping(ping::Event {
                peer,
                connection,
                result: Err(error),
            }) => {
                tracing::debug!(%peer, %error, "ping failed");
                self.swarm.close_connection(connection);
            }
            _ => {}
        }
    }

    /// Notes an address of a peer, if it makes sense from here.
    fn learn(
        &mut self,
        peer: PeerId,
        address: &Multiaddr,
        seen_at: Option<&Multiaddr>,
        now: Instant,
    ) {
        if !address::may_dial(address, seen_at) {
            return;
        }
        let Learned::News { instead_of } = self.roster.learn(peer, address, now) else {
            return;
        };
        tracing::debug!(%peer, %address, "address learned");
        let kad = &mut self.swarm.behaviour_mut().kad;
        kad.add_address(&peer, address::without_peer(address));
        // Kademlia itself keeps every address that it was ever given.
        if let Some(dropped) = instead_of {
            kad.remove_address(&peer, &dropped);
        }
        self.on_roster_change(now);
    }

    fn on_roster_change(&mut self, now: Instant) {
        self.lookups.begin_anew(now);
    }

    fn on_tick(&mut self, now: Instant) {
        for dial in self.roster.due(now) {
            self.dial(dial, now);
        }
        self.report_late(now);
        for peer in self.roster.forget(now) {
            tracing::debug!(%peer, "forgotten");
            self.swarm.behaviour_mut().kad.remove_peer(&peer);
        }
        self.sessions.retain(|_, (_, task)| !task.is_finished());
        self.end_queries(now);
        self.forget_announced(now);
        self.end_farewells(now);
        if self.lookups.take(now) && !self.seen_at.is_empty() {
            let local = *self.swarm.local_peer_id();
            self.swarm.behaviour_mut().kad.get_closest_peers(local);
        }
    }

    fn dial(&mut self, dial: Dial, now: Instant) {
        match dial {
            Dial::Peer(peer, addresses) => {
                let options = DialOpts::peer_id(peer).addresses(addresses);
                self.dial_with(options.allocate_new_port().build(), None, now);
            }
            // A look-up may take seconds, which the loop has not.
            Dial::Join(index, address) if address::name_of(&address).is_some() => {
                let resolved = self.resolved.0.clone();
                tokio::spawn(async move {
                    let found = address::resolve(&address).await;
                    if resolved.send((index, found)).await.is_err() {
                        tracing::debug!("the network has ended before a name was looked up");
                    }
                });
            }
            Dial::Join(index, address) => {
                let rest = VecDeque::from([address]);
                self.dial_join(JoinDial { index, rest }, now);
            }
        }
    }

    fn on_resolved(&mut self, index: usize, found: std::io::Result<Vec<Multiaddr>>, now: Instant) {
        match found {
            Ok(found) => {
                let rest = found.into();
                self.dial_join(JoinDial { index, rest }, now);
            }
            Err(error) => {
                self.roster.join_failed(index, false);
                self.no_answer(index, error.to_string(), now);
            }
        }
    }

    /// Dials the next number of a joined address.
    fn dial_join(&mut self, mut dial: JoinDial, now: Instant) {
        if let Some(address) = dial.rest.pop_front() {
            self.dial_with(join_options(address), Some(dial), now);
        }
    }

    fn dial_with(&mut self, options: DialOpts, join: Option<JoinDial>, now: Instant) {
        let connection = options.connection_id();
        if let Some(dial) = join {
            self.joining.insert(connection, dial);
        }
        if let Err(error) = self.swarm.dial(options) {
            self.on_dial_error(connection, None, &error, now);
        }
    }

    fn disconnect(&mut self, peer: PeerId) {
        if self.swarm.disconnect_peer_id(peer).is_err() {
            tracing::debug!(%peer, "was closed already");
        }
    }

    fn addresses(&self) -> Vec<Multiaddr> {
        let addresses = self.links.addresses.read();
        addresses.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn addresses_mut(&self, change: impl FnOnce(&mut Vec<Multiaddr>)) {
        let addresses = self.links.addresses.write();
        change(&mut addresses.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Listens, unless somebody else does: libp2p shares ports (SO_REUSEPORT), so that a second peer
/// on the same port would start, and get some of the first one's connections.
fn listen_on(swarm: &mut Swarm<Behaviour>, address: Multiaddr) -> Result<(), NetworkError> {
    let refused = |reason: String| NetworkError::Listen {
        address: address.clone(),
        reason,
    };
    if let Some(socket) = address::socket(&address) {
        TcpListener::bind(socket).map_err(|error| refused(error.to_string()))?;
    }
    swarm
        .listen_on(address.clone())
        .map_err(|error| refused(error.to_string()))?;
    Ok(())
}

/// A new port, because two ends that dial each other from their listening ports collide.
fn join_options(address: Multiaddr) -> DialOpts {
    match address::peer_of(&address) {
        Some(peer) => DialOpts::peer_id(peer)
            .addresses(vec![address::without_peer(&address)])
            .allocate_new_port()
            .build(),
        None => DialOpts::unknown_peer_id()
            .address(address)
            .allocate_new_port()
            .build(),
    }
}

/// Hands inbound streams of one lane to their peers' sessions, at once: libp2p-stream drops what
/// comes while this does not look. A stream without a session is dropped; its opener tries again.
async fn hand_over(lane: Lane, mut arriving: libp2p_stream::IncomingStreams, doors: Doors) {
    while let Some((peer, stream)) = arriving.next().await {
        let taken = match lock(&doors).get(&peer) {
            Some(door) => door.try_send((lane, stream)).is_ok(),
            None => false,
        };
        if !taken {
            tracing::trace!(%peer, ?lane, "stream without a session");
        }
    }
}

fn lock(
    doors: &Doors,
) -> std::sync::MutexGuard<'_, BTreeMap<PeerId, mpsc::Sender<(Lane, Stream)>>> {
    doors.lock().unwrap_or_else(PoisonError::into_inner)
}
