//! `peer`: the headless daemon.

use super::{CommandResult, invitation::invitation};
use crate::{
    args::PeerArgs,
    brick_store::DirectoryStore,
    device_choice,
    network::MeshKey,
    session::{leave, machine_name, start_network_peer},
    stop::Stop,
};
use brickmesh_actors::{PeerConfig, brick_owner::OpenSource};
use std::sync::Arc;

/// Copies of each brick that a peer asks for when it offers a folder.
const REDUNDANCY: u32 = 2;

pub(super) fn run(args: &PeerArgs, mut stop: Stop) -> CommandResult {
    let data = args.data.as_deref().map(DirectoryStore::open).transpose()?;
    let key_file = args.network.key_file()?;
    let (key, made) = MeshKey::load_or_make(&key_file)?;
    let key_file = std::path::absolute(key_file)?;
    let new = if made { ", made now" } else { "" };
    println!("mesh key: {}{new}", key_file.display());
    if made && !args.network.join.is_empty() {
        println!("a mesh that is there has another key: copy it to this file, then start again");
    }
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
        let (peer, network) = start_network_peer(config, chosen.device, key, &args.network)?;
        let addresses = network.listen_addresses();
        for address in &addresses {
            println!("listening on {address}");
        }
        if let Some(line) = invitation(&key_file, &addresses, std::env::var("USER").ok()) {
            println!("{line}");
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
        println!("leaving the mesh; a second signal leaves at once");
        leave(&peer, true).await;
        network.shutdown();
        Ok(())
    })
}
