//! `peer`: the headless daemon.

use super::CommandResult;
use crate::{
    args::PeerArgs,
    brick_store::DirectoryStore,
    device_choice,
    session::{machine_name, start_network_peer},
    stop::Stop,
};
use brickmesh_actors::{PeerConfig, brick_owner::OpenSource};
use std::sync::Arc;

/// Copies of each brick that a peer asks for when it offers a folder.
const REDUNDANCY: u32 = 2;

pub(super) fn run(args: &PeerArgs, mut stop: Stop) -> CommandResult {
    let data = args.data.as_deref().map(DirectoryStore::open).transpose()?;
    let memory_bytes = args
        .memory
        .unwrap_or_else(|| device_choice::default_memory_bytes(1));
    let chosen = device_choice::choose(args.device, 1, memory_bytes)?;
    println!(
        "device: {}, because {}",
        chosen.device.info().name,
        chosen.reason
    );
    println!("memory for bricks: {} MiB", memory_bytes >> 20);
    let name = args.name.clone().unwrap_or_else(machine_name);
    actix::System::new().block_on(async {
        let config = PeerConfig {
            name,
            memory_bytes,
            keep_copies: true,
        };
        let (peer, network) = start_network_peer(config, chosen.device, &args.network)?;
        for address in network.listen_addresses() {
            println!("listening on {address}");
        }
        if let Some(store) = data {
            let name = brickmesh_actors::data_set::BrickSource::manifest(&store).digest();
            network.provide(*name.as_bytes())?;
            println!("offering data set {name}");
            let open = OpenSource {
                source: Arc::new(store),
                redundancy: REDUNDANCY,
            };
            peer.owner.send(open).await?;
        }
        stop.said().await;
        println!("leaving the mesh");
        network.shutdown();
        Ok(())
    })
}
