//! Who attacks peers over loopback below the level of messages: what was overheard and is said
//! again, sockets that say nothing or nonsense, crowds that are let in and do nothing, and one that
//! is let in and breaks the rules of streams. Every wait has a deadline.
//!
//! Not here: members that lie (`network_mesh`).

use crate::network_peer::{SECOND, Stranger, key, stranger};
use brickmesh_node::network::{Multiaddr, Network, PROTOCOL_VERSION, address};
use brickmesh_topology::PeerId;
use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt};
use libp2p::{StreamProtocol, Swarm, multiaddr::Protocol, swarm::SwarmEvent};
use std::{
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// What the opener of a connection sends before it is answered: two names of protocols, one byte
/// of length and a line's end each, and the first message of noise, two bytes and 32.
pub const FIRST_FLIGHT_BYTES: usize = 2 + "/multistream/1.0.0".len() + 2 + "/noise".len() + 2 + 32;
/// The largest length that a lane's frame can announce.
pub const GIANT_LENGTH: [u8; 4] = u32::MAX.to_le_bytes();
/// The same where lengths have seven bits a byte, as in the protocols of libp2p.
pub const GIANT_VARINT: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];

/// Where a peer on loopback listens.
///
/// # Panics
/// Where it listens elsewhere.
#[must_use]
pub fn socket_of(network: &Network) -> SocketAddr {
    let address = network.listen_addresses()[0].clone();
    let mut parts = address.iter();
    match (parts.next(), parts.next()) {
        (Some(Protocol::Ip4(ip)), Some(Protocol::Tcp(port))) => (ip, port).into(),
        other => panic!("{other:?}"),
    }
}

/// The address of a socket.
///
/// # Panics
/// Never: a socket has one.
#[must_use]
pub fn at(socket: SocketAddr) -> Multiaddr {
    address::parse(&socket.to_string()).expect("an address")
}

/// What was overheard.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<Vec<u8>>>);

impl Record {
    fn hear(&self, bytes: &[u8]) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.extend(bytes);
    }

    /// All bytes so far.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Passes one connection on, both ways, and keeps what its opener sends. Returns where to connect.
///
/// # Panics
/// Where there is no socket.
pub async fn recording_proxy(to: SocketAddr) -> (SocketAddr, Record) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let here = listener.local_addr().expect("an address");
    let record = Record::default();
    let kept = record.clone();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await?;
        let server = TcpStream::connect(to).await?;
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        let mut buffer = vec![0; 64 << 10];
        while let bytes @ 1.. = from_client.read(&mut buffer).await? {
            kept.hear(&buffer[..bytes]);
            to_server.write_all(&buffer[..bytes]).await?;
        }
        io::Result::Ok(())
    });
    (here, record)
}

/// Says again what was overheard; the peer must hang up.
///
/// # Panics
/// Where it does not, or cannot be reached.
pub async fn replay(to: SocketAddr, overheard: &[u8]) {
    let mut again = TcpStream::connect(to).await.expect("a connection");
    // It may hang up before it has heard all.
    again.write_all(overheard).await.ok();
    let mut answer = Vec::new();
    let hung_up = timeout(5 * SECOND, again.read_to_end(&mut answer)).await;
    assert!(hung_up.is_ok(), "the connection stays open");
}

/// Opens so many sockets, of which some say nothing, some nonsense, and some announce more than
/// anybody could mean. They stay open until they are dropped.
///
/// # Panics
/// Where a peer cannot be reached.
pub async fn flood(to: SocketAddr, sockets: u32) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for number in 0..sockets {
        let mut socket = TcpStream::connect(to).await.expect("a connection");
        // It may have hung up already.
        socket.write_all(&nonsense(number)).await.ok();
        open.push(socket);
    }
    open
}

fn nonsense(number: u32) -> Vec<u8> {
    match number % 4 {
        // Garbage: no two alike, none of it a protocol.
        0 => (0..2000_u32)
            .map(|at| (number.wrapping_mul(2_654_435_761) ^ at.wrapping_mul(40_503)).to_le_bytes())
            .map(|bytes| bytes[1])
            .collect(),
        // The name of a protocol that never ends.
        1 => GIANT_VARINT.to_vec(),
        // The largest message of noise, of which next to nothing comes.
        2 => b"\x13/multistream/1.0.0\n\x07/noise\n\xff\xff\x00".to_vec(),
        _ => Vec::new(),
    }
}

/// Strangers with the right key that connect to these addresses and then do nothing, until the
/// task is aborted. When this returns there are as many connections as strangers.
///
/// # Panics
/// Where they are not let in in time.
pub async fn crowd(strangers: u32, addresses: Vec<Multiaddr>) -> JoinHandle<()> {
    let (up, mut is_up) = mpsc::channel(strangers as usize);
    let crowd = tokio::spawn(async move {
        let version = format!("/brickmesh/{PROTOCOL_VERSION}");
        let mut swarms = futures::stream::SelectAll::new();
        for _ in 0..strangers {
            let mut swarm: Swarm<Stranger> = stranger(&version, key().noise_prologue());
            for address in &addresses {
                swarm.dial(address.clone()).expect("a dial");
            }
            swarms.push(swarm);
        }
        while let Some(event) = swarms.next().await {
            if let SwarmEvent::ConnectionEstablished { .. } = event {
                // Nobody counts any more once all are there.
                up.try_send(()).ok();
            }
        }
    });
    let arrived = async {
        for _ in 0..strangers {
            is_up.recv().await.expect("a crowd");
        }
    };
    timeout(20 * SECOND, arrived)
        .await
        .expect("a crowd in time");
    crowd
}

/// Somebody with the right key and version that opens streams as it likes.
pub struct Rogue {
    control: libp2p_stream::Control,
    id: libp2p::PeerId,
    victim: libp2p::PeerId,
    swarm: JoinHandle<()>,
}

impl Rogue {
    /// Connects to a peer, and takes every stream that it opens.
    ///
    /// # Panics
    /// Where it is not let in in time.
    pub async fn join(victim: &Network) -> Self {
        let version = format!("/brickmesh/{PROTOCOL_VERSION}");
        let mut swarm = stranger(&version, key().noise_prologue());
        let mut control = swarm.behaviour().streams.new_control();
        for lane in Self::lanes() {
            let mut arriving = control.accept(lane).expect("a lane");
            tokio::spawn(async move {
                while let Some((_, mut stream)) = arriving.next().await {
                    tokio::spawn(async move {
                        stream.write_all(&[1]).await?;
                        stream.flush().await?;
                        stream.read_to_end(&mut Vec::new()).await
                    });
                }
            });
        }
        let id = *swarm.local_peer_id();
        let name = victim.bus().local().as_str().parse();
        let address = victim.listen_addresses()[0].clone();
        swarm.dial(address).expect("a dial");
        let (up, mut is_up) = mpsc::channel(1);
        let driven = tokio::spawn(async move {
            loop {
                if let SwarmEvent::ConnectionEstablished { .. } = swarm.select_next_some().await {
                    up.try_send(()).ok();
                }
            }
        });
        let arrived = timeout(10 * SECOND, is_up.recv()).await;
        arrived.expect("a connection in time").expect("a swarm");
        Self {
            control,
            id,
            victim: name.expect("a libp2p id"),
            swarm: driven,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PeerId {
        PeerId::new(&self.id.to_base58())
    }

    /// The protocols of the lanes: control, pixels, bricks.
    #[must_use]
    pub fn lanes() -> [StreamProtocol; 3] {
        ["control", "pixels", "bricks"].map(|lane| protocol(&format!("/brickmesh/{lane}")))
    }

    /// Every other protocol that a peer takes streams of.
    #[must_use]
    pub fn other_protocols() -> [StreamProtocol; 4] {
        [
            protocol("/brickmesh/kad"),
            StreamProtocol::new("/ipfs/id/1.0.0"),
            StreamProtocol::new("/ipfs/id/push/1.0.0"),
            StreamProtocol::new("/ipfs/ping/1.0.0"),
        ]
    }

    /// Opens every lane, as a peer does: from then on it is connected.
    ///
    /// # Panics
    /// Where they are not taken in time.
    pub async fn open_lanes(&mut self) -> Vec<libp2p::Stream> {
        let mut streams = Vec::new();
        for lane in Self::lanes() {
            let open = timeout(10 * SECOND, self.open_lane(&lane));
            streams.push(open.await.expect("a lane in time"));
        }
        streams
    }

    async fn open_lane(&mut self, lane: &StreamProtocol) -> libp2p::Stream {
        loop {
            if let Ok(mut stream) = self.open(lane).await
                && stream.read_exact(&mut [0]).await.is_ok()
            {
                return stream;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// Where the peer does not take it.
    pub async fn open(&mut self, protocol: &StreamProtocol) -> Result<libp2p::Stream, String> {
        let opened = self.control.open_stream(self.victim, protocol.clone());
        opened.await.map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Rogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rogue").field(&self.id).finish()
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.swarm.abort();
    }
}

fn protocol(name: &str) -> StreamProtocol {
    let name = format!("{name}/{PROTOCOL_VERSION}");
    StreamProtocol::try_from_owned(name).expect("a name")
}

/// Writes all of it, at once.
///
/// # Errors
/// Where the other side has hung up.
pub async fn say(stream: &mut libp2p::Stream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Waits until the other side has hung up.
///
/// # Panics
/// Where it does not in time.
pub async fn hung_up(stream: &mut libp2p::Stream) {
    let mut rest = Vec::new();
    let ended = timeout(10 * SECOND, stream.read_to_end(&mut rest)).await;
    // An end and an error are both one.
    drop(ended.expect("an end in time"));
}
