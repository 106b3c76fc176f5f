//! `peer`: the headless daemon.

use super::{CommandResult, Misconfigured, invitation::invitation};
use crate::{
    args::{PeerArgs, SharingArg},
    brick_store::{BrickStoreError, DirectoryStore, DiskShelf, ShelfError, open_shared},
    device_choice,
    metrics::MetricsServer,
    network::{MeshKey, Network, NetworkError},
    session::{SessionError, bytes_in_words, leave, machine_name, start_network_peer},
    stop::Stop,
    terminal::say,
};
use actix::Addr;
use brickmesh_actors::{
    Peer, PeerConfig,
    brick_owner::{AskStatus, BrickOwner, OpenSource},
    data_set::{BrickShelf, BrickSource},
    plain_text::counted,
};
use std::{
    error::Error,
    fmt::Display,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Copies of each brick that a peer asks for when it offers a folder.
const REDUNDANCY: u32 = 2;

pub(super) fn run(args: &PeerArgs, mut stop: Stop) -> CommandResult {
    let data = args.data.as_deref().map(open_data).transpose()?;
    let shelf = open_shelf(args)?;
    let (key_file, key) = mesh_key(args)?;
    let metrics = args.metrics.map(listen_for_metrics).transpose()?;
    let memory_bytes = args
        .memory
        .unwrap_or_else(|| device_choice::default_memory_bytes(1));
    let chosen = device_choice::choose_shared(args.device, args.sharing, 1, memory_bytes)?;
    let device = &chosen.device.info().name;
    tell(format_args!("device: {device}, because {}", chosen.reason));
    let info = chosen.device.info();
    tell(format_args!(
        "memory for bricks: {}",
        bytes_in_words(info.memory_bytes)
    ));
    if let Some(less) = device_choice::less_than_asked(args.memory, info) {
        tell(less);
    }
    let name = args.name.clone().unwrap_or_else(machine_name);
    actix::System::new().block_on(async {
        let config = PeerConfig {
            name,
            memory_bytes,
            cache_bytes: args.cache,
            keep_copies: true,
            is_viewer: false,
            shelf,
        };
        let (peer, network) =
            start_network_peer(config, chosen, key, &args.network).map_err(sorted)?;
        let addresses = network.listen_addresses();
        for address in &addresses {
            tell(format_args!("listening on {address}"));
        }
        let serving = async {
            let metrics = metrics.map(|listener| serve_metrics(listener, &peer, &network));
            let metrics = metrics.transpose()?;
            if let Some(line) = invitation(&key_file, &addresses, std::env::var("USER").ok()) {
                tell(line);
            }
            if let Some(store) = data {
                offer(store, &peer, &network).await?;
            }
            stop.said().await;
            tell("leaving the mesh; a second signal leaves at once");
            Ok(metrics)
        };
        // However it ends: others know this peer by now.
        let served = serving.await;
        leave(&peer).await;
        network.shutdown();
        peer.end().await;
        served.map(drop)
    })
}

/// Says something to the operator. A peer goes on also where its standard output is full.
fn tell(line: impl Display) {
    if let Err(error) = say(line) {
        tracing::warn!(%error, "the operator is told nothing");
    }
}

/// The folder in which bricks are kept.
fn open_shelf(args: &PeerArgs) -> Result<Option<Arc<dyn BrickShelf>>, Box<dyn Error>> {
    let (bytes, folder) = match (args.disk, &args.disk_dir) {
        (Some(bytes), Some(folder)) => (bytes, folder),
        (None, None) => return Ok(None),
        _ => {
            let why = "--disk and --disk-dir belong together: how much, and where";
            return Err(Misconfigured::because(why));
        }
    };
    if bytes == 0 {
        return Err(Misconfigured::because(
            "--disk 0 keeps nothing; give some room, as 40G, or leave it out",
        ));
    }
    if args.sharing == SharingArg::Off {
        return Err(Misconfigured::because(
            "--sharing off gets nothing from other peers for a picture, and reads nothing from --disk: leave one of them out",
        ));
    }
    let shelf = DiskShelf::open(folder, bytes).map_err(|error| match error {
        // A disk may be mounted later, and another peer may end.
        ShelfError::Io { .. } | ShelfError::InUse { .. } => error.into(),
        _ => Misconfigured::because(error),
    })?;
    let (taken, data_sets) = shelf.contents();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    tell(format_args!(
        "disk for bricks: {:.1} MiB in {}, {:.1} MiB of {} there",
        mib(bytes),
        folder.display(),
        mib(taken),
        counted(data_sets, "data set"),
    ));
    Ok(Some(Arc::new(shelf)))
}

fn open_data(folder: &Path) -> Result<DirectoryStore, Box<dyn Error>> {
    open_shared(folder).map_err(|error| match error {
        // A disk may be mounted later.
        BrickStoreError::Io { .. } => error.into(),
        _ => Misconfigured::because(error),
    })
}

/// The mesh key, made if it is missing, and the whole path of its file.
fn mesh_key(args: &PeerArgs) -> Result<(PathBuf, MeshKey), Box<dyn Error>> {
    let file = args.network.key_file().map_err(Misconfigured::because)?;
    let (key, made) = MeshKey::load_or_make(&file).map_err(Misconfigured::because)?;
    let file = std::path::absolute(file)?;
    let new = if made { ", made now" } else { "" };
    tell(format_args!("mesh key: {}{new}", file.display()));
    if made && !args.network.join.is_empty() {
        tell("a mesh that is there has another key: copy it to this file, then start again");
    }
    Ok((file, key))
}

/// Tells what only a person can mend from what another start may.
fn sorted(error: SessionError) -> Box<dyn Error> {
    match error {
        SessionError::Network(NetworkError::Identity(_) | NetworkError::BadAddress { .. }) => {
            Misconfigured::because(error)
        }
        _ => error.into(),
    }
}

fn listen_for_metrics(address: SocketAddr) -> Result<TcpListener, String> {
    if !address.ip().is_loopback() {
        tracing::warn!(
            "--metrics {address}: whoever reaches this address can read the names of machines and data sets; 127.0.0.1 keeps them on this machine"
        );
    }
    TcpListener::bind(address).map_err(|error| {
        format!("cannot serve metrics on {address}: {error}; choose another --metrics IP:PORT")
    })
}

fn serve_metrics(
    listener: TcpListener,
    peer: &Peer,
    network: &Network,
) -> Result<MetricsServer, String> {
    let owner: Addr<BrickOwner> = peer.owner.clone();
    let ask = move || -> futures::future::BoxFuture<'static, _> {
        let asked = owner.send(AskStatus);
        Box::pin(async move { asked.await.ok() })
    };
    let local = network.bus().local().clone();
    let server = MetricsServer::start(listener, local, Arc::new(ask))
        .map_err(|error| format!("cannot serve metrics: {error}"))?;
    tell(format_args!(
        "metrics on http://{}/metrics",
        server.address()
    ));
    Ok(server)
}

/// Opens a folder's data set and its levels in the mesh, the coarsest first: it is the first that can be seen.
async fn offer(store: DirectoryStore, peer: &Peer, network: &Network) -> CommandResult {
    let exact: Arc<dyn BrickSource> = Arc::new(store);
    let coarsest = exact.manifest().levels().len();
    for level in (1..=coarsest).rev() {
        let source = Arc::clone(&exact);
        let opening = tokio::task::spawn_blocking(move || source.level(level));
        match opening.await? {
            Ok(source) => open(source, peer, network).await?,
            Err(error) => tracing::warn!("level {level} is not offered: {error}"),
        }
    }
    let name = exact.manifest().digest();
    open(exact, peer, network).await?;
    tell(format_args!("offering data set {name}"));
    Ok(())
}

async fn open(source: Arc<dyn BrickSource>, peer: &Peer, network: &Network) -> CommandResult {
    network.provide(*source.manifest().digest().as_bytes())?;
    let redundancy = REDUNDANCY;
    peer.owner.send(OpenSource { source, redundancy }).await?;
    Ok(())
}
