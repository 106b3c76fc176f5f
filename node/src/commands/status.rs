//! `status`: who is in the mesh and what each holds.

use super::CommandResult;
use crate::{
    args::StatusArgs,
    network::MeshKey,
    session::{in_words, start_network_peer},
    stop::Stop,
};
use brickmesh_actors::{
    PeerConfig,
    brick_owner::{AskStatus, MeshStatus},
};
use brickmesh_shaders::device::cpu::CpuDevice;
use serde_json::{Value, json};
use std::{num::NonZeroUsize, time::Duration};

pub(super) fn run(args: &StatusArgs, mut stop: Stop) -> CommandResult {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(format!(
            "--seconds is {}; it must be above 0, at most 3600",
            args.seconds
        )
        .into());
    }
    let key = MeshKey::load(&args.network.key_file()?)?;
    actix::System::new().block_on(async {
        // One that looks on: no memory, so that nobody gives it bricks.
        let config = PeerConfig {
            name: "status".to_owned(),
            memory_bytes: 0,
            keep_copies: false,
        };
        let device = Box::new(CpuDevice::new(Some(NonZeroUsize::MIN), 0)?);
        let (peer, network) = start_network_peer(config, device, key, &args.network)?;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(args.seconds)) => {}
            () = stop.said() => {}
        }
        let status = peer.owner.send(AskStatus).await?;
        let refusals = network.refusals();
        network.shutdown();
        let json = to_json(&status);
        if args.json {
            println!("{}", serde_json::to_string_pretty(&json)?);
        } else {
            print(&json);
        }
        let nobody = status.peers.values().all(|h| h.memory_bytes == 0);
        if nobody && !refusals.is_empty() {
            return Err(in_words(&refusals).into());
        }
        Ok(())
    })
}

fn to_json(status: &MeshStatus) -> Value {
    let peers: Vec<Value> = status
        .peers
        .iter()
        .filter(|(_, h)| h.memory_bytes > 0)
        .map(|(p, h)| {
            json!({ "peer": p.as_str(), "name": h.name, "device": h.device,
                "memory_bytes": h.memory_bytes, "version": h.version,
                "suspect": status.suspects.contains(p) })
        })
        .collect();
    let data_sets: Vec<Value> = status
        .data_sets
        .iter()
        .map(|d| {
            let holders = d.residency.iter().filter(|(_, r)| !r.held.is_empty());
            let held: Vec<Value> = holders
                .map(|(p, r)| {
                    json!({ "peer": p.as_str(), "bricks": r.held.len(), "settled": r.settled,
                        "on_their_way": r.pledged.iter().filter(|&b| !r.held.contains(b)).count(),
                        "leaving": r.leaving })
                })
                .collect();
            let bricks = d.manifest.grid().brick_count();
            let mean = d.safety.copies as f64 / f64::from(bricks.max(1));
            json!({ "data_set": d.manifest.digest().to_string(), "source": d.manifest.source(),
                "bricks": bricks, "redundancy": d.redundancy,
                "redundancy_min": d.safety.copies_min, "redundancy_mean": mean,
                "endangered": d.safety.endangered, "missing": d.safety.missing,
                "in_use": d.residency.values().any(|r| r.in_use), "holders": held })
        })
        .collect();
    json!({ "peers": peers, "data_sets": data_sets })
}

fn print(status: &Value) {
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let text = |v: &Value| v.as_str().unwrap_or("").to_owned();
    let peers = list(&status["peers"]);
    println!("{} peers", peers.len());
    for p in &peers {
        let mib = p["memory_bytes"].as_u64().unwrap_or(0) >> 20;
        println!(
            "  {:<16} {:>8} MiB  {}  {}{}",
            text(&p["name"]),
            mib,
            text(&p["device"]),
            text(&p["peer"]),
            if p["suspect"] == true {
                "  silent or late"
            } else {
                ""
            }
        );
    }
    for d in list(&status["data_sets"]) {
        println!(
            "data set {} ({}): {} bricks, {} copies wanted, at least {}, on average {:.2}; {} bricks endangered, {} missing",
            text(&d["data_set"]),
            text(&d["source"]),
            d["bricks"],
            d["redundancy"],
            d["redundancy_min"],
            d["redundancy_mean"].as_f64().unwrap_or(0.0),
            d["endangered"],
            d["missing"]
        );
        for h in list(&d["holders"]) {
            println!(
                "  {} holds {} bricks, {} on their way",
                text(&h["peer"]),
                h["bricks"],
                h["on_their_way"]
            );
        }
    }
}
