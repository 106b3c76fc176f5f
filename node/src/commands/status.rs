//! `status`: who is in the mesh, what each holds and does, and how safe the copies are.

use super::CommandResult;
use crate::{
    args::{NetworkArgs, StatusArgs},
    network::MeshKey,
    peer_names::name_with_id,
    session::{in_words, say_goodbye, start_network_peer},
    stop::Stop,
    terminal::say,
};
use brickmesh_actors::plain_text::{counted, plain_text};
use brickmesh_actors::{
    PeerConfig,
    brick_owner::{AskStatus, DataSetStatus, MeshStatus},
};
use brickmesh_shaders::{RenderDevice, device::cpu::CpuDevice};
use brickmesh_topology::{
    PeerId,
    mesh::{announcement::Announcement, keeper::FrameTimes},
};
use serde_json::{Value, json};
use std::{error::Error, fmt::Write as _, num::NonZeroUsize, time::Duration};

pub(super) fn run(args: &StatusArgs, mut stop: Stop) -> CommandResult {
    let seconds = Duration::from_secs_f64(args.seconds);
    let (status, refused) = look(&args.network, seconds, &mut stop)?;
    if args.json {
        say(serde_json::to_string_pretty(&to_json(&status))?)?;
    } else {
        say(to_text(&status)?.trim_end())?;
    }
    refused.map_or(Ok(()), |why| Err(why.into()))
}

/// Looks for a while who is in the mesh; and why nobody is, or those who were asked for are not.
pub(super) fn look(
    network: &NetworkArgs,
    time: Duration,
    stop: &mut Stop,
) -> Result<(MeshStatus, Option<String>), Box<dyn Error>> {
    let key = MeshKey::load(&network.key_file()?)?;
    actix::System::new().block_on(async {
        // One that looks on: no memory, so that nobody gives it bricks.
        let config = PeerConfig {
            name: "status".to_owned(),
            memory_bytes: 0,
            cache_bytes: None,
            keep_copies: false,
            is_viewer: false,
            shelf: None,
        };
        let device: Box<dyn RenderDevice> = Box::new(CpuDevice::new(Some(NonZeroUsize::MIN), 0)?);
        let (peer, network) = start_network_peer(config, device, key, network)?;
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = stop.said() => {}
        }
        let status = peer.owner.send(AskStatus).await?;
        let (refusals, of_joined) = (network.refusals(), network.refusals_of_joined());
        say_goodbye(&peer).await;
        network.shutdown();
        let nobody = status.peers.values().all(|h| h.memory_bytes == 0);
        let refused = match nobody {
            _ if !of_joined.is_empty() => Some(in_words(&of_joined)),
            true if !refusals.is_empty() => Some(in_words(&refusals)),
            _ => None,
        };
        Ok((status, refused))
    })
}

/// Bricks that are assigned to the peer, that it does not hold yet, and that somebody has.
fn on_their_way(data_set: &DataSetStatus, of_peer: &Announcement) -> usize {
    let is_there = |b| data_set.residency.values().any(|r| r.gives(b));
    let assigned = of_peer.assigned.iter();
    let missing = assigned.filter(|&b| !of_peer.held.contains(b));
    missing.filter(|&b| is_there(b)).count()
}

fn redundancy_mean(data_set: &DataSetStatus) -> f64 {
    let bricks = data_set.manifest.grid().brick_count().max(1);
    data_set.safety.copies as f64 / f64::from(bricks)
}

/// Bricks that a peer holds of all data sets.
fn bricks_held(status: &MeshStatus, peer: &PeerId) -> u32 {
    let of_peer = status
        .data_sets
        .iter()
        .filter_map(|d| d.residency.get(peer));
    of_peer.map(|r| r.held.len()).sum()
}

fn to_json(status: &MeshStatus) -> Value {
    let holding = status.peers.iter().filter(|(_, h)| h.memory_bytes > 0);
    let peers: Vec<Value> = holding
        .map(|(p, h)| {
            let vitals = status.vitals.get(p).cloned().unwrap_or_default();
            let unheard: Vec<&str> = vitals.suspects.iter().map(PeerId::as_str).collect();
            json!({ "peer": p.as_str(), "name": h.name, "device": h.device,
                "memory_bytes": h.memory_bytes, "disk_bytes": h.shelf_bytes, "version": h.version,
                "bricks": bricks_held(status, p), "suspect": status.suspects.contains(p),
                "rendering": vitals.rendering, "speed": vitals.speed_millionths.map(ratio),
                "downloading": vitals.downloading, "does_not_hear": unheard })
        })
        .collect();
    let data_sets: Vec<Value> = status.data_sets.iter().map(data_set_json).collect();
    let frames: Vec<Value> = last_frames(status)
        .map(|(p, f)| {
            json!({ "requester": p.as_str(), "total_us": f.total_micros,
                "schedule_us": f.schedule_micros, "composite_us": f.composite_micros })
        })
        .collect();
    json!({ "peers": peers, "data_sets": data_sets, "last_frames": frames })
}

/// The last frame of each peer that asked for any.
fn last_frames(status: &MeshStatus) -> impl Iterator<Item = (&PeerId, FrameTimes)> {
    let all = status.vitals.iter();
    all.filter_map(|(peer, vitals)| Some((peer, vitals.last_frame?)))
}

/// Millionths as a number.
fn ratio(millionths: u64) -> f64 {
    millionths as f64 / 1e6
}

fn data_set_json(d: &DataSetStatus) -> Value {
    let has_any = |r: &Announcement| !r.held.is_empty() || !r.shelf.is_empty();
    let holders = d.residency.iter().filter(|(_, r)| has_any(r));
    let held: Vec<Value> = holders
        .map(|(p, r)| {
            json!({ "peer": p.as_str(), "bricks": r.held.len(), "on_disk": r.shelf.len(), "settled": r.settled,
                "on_their_way": on_their_way(d, r), "leaving": r.leaving })
        })
        .collect();
    json!({ "data_set": d.manifest.digest().to_string(), "source": d.manifest.source(),
        "bricks": d.manifest.grid().brick_count(), "redundancy": d.redundancy,
        "redundancy_min": d.safety.copies_min, "redundancy_mean": redundancy_mean(d),
        "endangered": d.safety.endangered, "missing": d.safety.missing, "read": d.safety.read,
        "in_use": d.residency.values().any(|r| r.in_use), "holders": held })
}

fn to_text(status: &MeshStatus) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let holding = status.peers.iter().filter(|(_, h)| h.memory_bytes > 0);
    writeln!(text, "{}", counted(holding.clone().count(), "peer"))?;
    for (peer, hello) in holding {
        writeln!(
            text,
            "  {:<16} {:>8} MiB  {}  {}, {}{}",
            plain_text(&hello.name),
            hello.memory_bytes >> 20,
            plain_text(&hello.device),
            peer.as_str(),
            counted(bricks_held(status, peer), "brick"),
            doing(status, peer),
        )?;
    }
    for d in &status.data_sets {
        data_set_text(status, d, &mut text)?;
    }
    for (peer, frame) in last_frames(status) {
        let ms = |micros: u64| micros as f64 / 1000.0;
        writeln!(
            text,
            "last frame of {}: {:.1} ms; schedule {:.1} ms, blending {:.1} ms in all",
            name_with_id(status, peer),
            ms(frame.total_micros),
            ms(frame.schedule_micros),
            ms(frame.composite_micros)
        )?;
    }
    Ok(text)
}

/// What a peer does, beside being there.
fn doing(status: &MeshStatus, peer: &PeerId) -> String {
    let mut words = Vec::new();
    let vitals = status.vitals.get(peer).cloned().unwrap_or_default();
    if let Some(speed) = vitals.speed_millionths {
        words.push(format!("speed {:.2}", ratio(speed)));
    }
    if vitals.rendering {
        words.push("rendering".to_owned());
    }
    if vitals.downloading > 0 {
        words.push(format!("downloading {}", vitals.downloading));
    }
    if status.suspects.contains(peer) {
        words.push("silent or late: frames do without it".to_owned());
    }
    let unheard = vitals.suspects.iter();
    words.extend(unheard.map(|other| format!("does not hear {}", name_with_id(status, other))));
    words.iter().map(|word| format!(", {word}")).collect()
}

fn data_set_text(status: &MeshStatus, d: &DataSetStatus, text: &mut String) -> std::fmt::Result {
    let is_in_use = d.residency.values().any(|r| r.in_use);
    writeln!(
        text,
        "data set {} ({}): {}, {} wanted, at least {}, on average {:.2}; {} endangered, {} missing{}{}",
        d.manifest.digest(),
        plain_text(d.manifest.source()),
        counted(d.manifest.grid().brick_count(), "brick"),
        if d.redundancy == 1 {
            "1 copy".to_owned()
        } else {
            format!("{} copies", d.redundancy)
        },
        d.safety.copies_min,
        redundancy_mean(d),
        counted(d.safety.endangered, "brick"),
        d.safety.missing,
        match d.safety.read {
            0 => String::new(),
            read => format!(", {read} read for each frame"),
        },
        if is_in_use { "" } else { "; nobody uses it" }
    )?;
    for (peer, r) in &d.residency {
        let coming = on_their_way(d, r);
        if r.held.is_empty() && r.shelf.is_empty() && coming == 0 {
            continue;
        }
        writeln!(
            text,
            "  {} holds {}, {coming} on their way{}{}",
            name_with_id(status, peer),
            counted(r.held.len(), "brick"),
            match r.shelf.len() {
                0 => String::new(),
                on_disk => format!(", {on_disk} on its disk"),
            },
            if r.leaving { ", about to leave" } else { "" }
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::status;

    #[test]
    fn the_table_says_who_does_what_and_how_safe_it_is() {
        let text = to_text(&status()).unwrap();
        for expected in [
            "2 peers\n",
            "eva's ?[31m \"box\"",
            "2 bricks, speed 1.25, rendering, does not hear lab (b)",
            "1 brick, downloading 1, silent or late",
            "2 copies wanted, at least 1, on average 1.50; 1 brick endangered, 0 missing",
            "(a) holds 2 bricks, 0 on their way, 2 on its disk",
            "lab (b) holds 1 brick, 1 on their way",
            "last frame of eva's ?[31m \"box\" (a): 43.2 ms; schedule 0.5 ms, blending 3.0 ms in all",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(
            !text.contains('\u{1b}'),
            "a name may not drive the terminal"
        );
    }

    #[test]
    fn programs_are_told_the_same() {
        let json = to_json(&status());
        let peer = &json["peers"][0];
        assert_eq!((&peer["bricks"], &peer["speed"]), (&2.into(), &1.25.into()));
        assert_eq!(
            (&peer["rendering"], &peer["does_not_hear"][0]),
            (&true.into(), &"b".into())
        );
        let silent = &json["peers"][1];
        assert_eq!(
            (&silent["suspect"], &silent["downloading"]),
            (&true.into(), &1.into())
        );
        assert_eq!(silent["speed"], Value::Null);
        let set = &json["data_sets"][0];
        assert_eq!(
            (&set["redundancy_min"], &set["endangered"]),
            (&1.into(), &1.into())
        );
        assert_eq!(set["holders"][1]["on_their_way"], 1);
        let frame = &json["last_frames"][0];
        assert_eq!(
            (&frame["requester"], &frame["total_us"]),
            (&"a".into(), &43_210.into())
        );
    }
}
