//! What a peer tells a monitoring system: who is in the mesh, what is held, how safe it is.
//!
//! `server` answers over HTTP; here is the answer's text, Prometheus text format 0.0.4, of the
//! state that the brick owner knows. Units are Prometheus's: bytes, seconds, ratios.
//!
//! Invariant: each answer is made anew of the state of that moment, so peers and data sets that
//! are gone leave no trace; texts that come from peers are cut to a length and escaped.

mod server;

pub use server::{Ask, MetricsServer};

use brickmesh_actors::brick_owner::{DataSetStatus, MeshStatus};
use brickmesh_actors::plain_text::shortened;
use brickmesh_topology::{
    PeerId,
    mesh::{announcement::Announcement, assignment::Safety, staging::StagingCounts},
};
use prometheus::{GaugeVec, IntCounter, Opts, Registry, TextEncoder};
use serde_json::json;

/// Metrics of one answer, registered as they are first set.
struct Page(Registry);

impl Page {
    /// A gauge with these labels; `samples` are its values, each with the labels' values.
    fn gauge<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
        samples: impl IntoIterator<Item = ([String; N], f64)>,
    ) -> prometheus::Result<()> {
        let gauge = GaugeVec::new(Opts::new(name, help), &labels)?;
        for (values, sample) in samples {
            gauge.with_label_values(&values).set(sample);
        }
        self.0.register(Box::new(gauge))
    }

    /// What was counted since the peer was started.
    fn counter(&self, name: &str, help: &str, count: u64) -> prometheus::Result<()> {
        let counter = IntCounter::new(name, help)?;
        counter.inc_by(count);
        self.0.register(Box::new(counter))
    }
}

/// The page `/metrics` of the peer `local`.
///
/// # Errors
/// A name or a label that the format does not allow: a mistake in this file.
pub fn page(local: &PeerId, status: &MeshStatus) -> prometheus::Result<String> {
    let page = Page(Registry::new());
    let version = env!("CARGO_PKG_VERSION").to_owned();
    page.gauge(
        "brickmesh_build_info",
        "1, labelled with the program's version.",
        ["version"],
        [([version], 1.0)],
    )?;
    peers(&page, status)?;
    work(&page, local, status)?;
    memory(&page, local, status)?;
    staging(&page, &status.staging)?;
    data_sets(&page, local, status)?;
    TextEncoder::new().encode_to_string(&page.0.gather())
}

/// The page `/health`: that this peer answers, and what an operator would look at first.
#[must_use]
pub fn health(status: &MeshStatus) -> String {
    let sum = |of: fn(&Safety) -> u32| {
        let all = status.data_sets.iter().map(|d| u64::from(at_risk(d, of)));
        all.sum::<u64>()
    };
    let json = json!({
        "status": "ok",
        "peers": status.peers.values().filter(|h| h.memory_bytes > 0).count(),
        "suspects": status.suspects.len(),
        "bricks_endangered": sum(|s| s.endangered),
        "bricks_missing": sum(|s| s.missing),
    });
    format!("{json}\n")
}

/// Whether somebody looks at the data set or offers it.
fn is_in_use(data_set: &DataSetStatus) -> bool {
    data_set.residency.values().any(|r| r.in_use)
}

/// Bricks of a data set that somebody has reason to worry about. What nobody uses any more lacks
/// copies and bricks sooner or later, for days, and nobody misses them.
fn at_risk(data_set: &DataSetStatus, of: fn(&Safety) -> u32) -> u32 {
    if is_in_use(data_set) {
        of(&data_set.safety)
    } else {
        0
    }
}

fn peers(page: &Page, status: &MeshStatus) -> prometheus::Result<()> {
    let holding = status.peers.iter().filter(|(_, h)| h.memory_bytes > 0);
    let suspects = holding.clone().filter(|(p, _)| status.suspects.contains(p));
    let (all, suspects) = (holding.clone().count(), suspects.count());
    let of = |health: &str, count: usize| ([health.to_owned()], count as f64);
    page.gauge(
        "brickmesh_peers",
        "Peers that offer memory, this one included, by how they are; suspect: silent or late, frames do without them.",
        ["health"],
        [of("well", all - suspects), of("suspect", suspects)],
    )?;
    let memory = holding.clone().map(|(peer, hello)| {
        let labels = [peer.as_str(), &hello.name, &hello.device, &hello.version];
        (labels.map(shortened), hello.memory_bytes as f64)
    });
    page.gauge(
        "brickmesh_peer_memory_bytes",
        "Memory that a peer promises to bricks.",
        ["peer", "name", "device", "version"],
        memory,
    )?;
    let suspect = holding.map(|(peer, _)| {
        let suspect = f64::from(u8::from(status.suspects.contains(peer)));
        ([shortened(peer.as_str())], suspect)
    });
    page.gauge(
        "brickmesh_peer_suspect",
        "1 where the peer is silent or late.",
        ["peer"],
        suspect,
    )
}

/// What this peer does.
fn work(page: &Page, local: &PeerId, status: &MeshStatus) -> prometheus::Result<()> {
    let Some(own) = status.vitals.get(local) else {
        return Ok(());
    };
    page.gauge(
        "brickmesh_rendering",
        "1 where this peer took part in a frame within about the last second.",
        [],
        [([], f64::from(u8::from(own.rendering)))],
    )?;
    page.gauge(
        "brickmesh_transfers",
        "Bricks that this peer has asked for and is loading.",
        [],
        [([], f64::from(own.downloading))],
    )?;
    let speed = own.speed_millionths.map(|s| ([], s as f64 / 1e6));
    page.gauge(
        "brickmesh_speed_ratio",
        "Speed of this peer in the last frame that it took part in, of the mean of all who did.",
        [],
        speed,
    )?;
    let times = own.last_frame.map(|frame| {
        let parts = [
            ("total", frame.total_micros),
            ("schedule", frame.schedule_micros),
            ("composite", frame.composite_micros),
        ];
        parts.map(|(part, micros)| ([part.to_owned()], micros as f64 / 1e6))
    });
    page.gauge(
        "brickmesh_last_frame_seconds",
        "Times of the last frame that this peer asked for: in all, deriving its schedule, blending it (summed over compositors).",
        ["part"],
        times.into_iter().flatten(),
    )
}

fn memory(page: &Page, local: &PeerId, status: &MeshStatus) -> prometheus::Result<()> {
    let promised = status.peers.get(local).map_or(0, |h| h.memory_bytes);
    let one = |bytes: u64| [([], bytes as f64)];
    page.gauge(
        "brickmesh_memory_promised_bytes",
        "Memory that this peer promises to bricks.",
        [],
        one(promised),
    )?;
    page.gauge(
        "brickmesh_memory_used_bytes",
        "Bytes of voxels that this peer holds in device memory.",
        [],
        one(status.data_sets.iter().map(|d| bytes_held(d, local)).sum()),
    )?;
    match resident_bytes() {
        None => Ok(()),
        Some(resident) => page.gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            [],
            one(resident),
        ),
    }
}

fn staging(page: &Page, counts: &StagingCounts) -> prometheus::Result<()> {
    let all = [
        (
            "brickmesh_cache_hits_total",
            "Bricks that frames needed, that this peer does not hold, and that were in its memory still.",
            counts.found,
        ),
        (
            "brickmesh_cache_misses_total",
            "Bricks that frames needed and that were read, or fetched from others.",
            counts.came,
        ),
        (
            "brickmesh_cache_missed_bytes_total",
            "Memory that is reckoned for those, in bytes.",
            counts.came_bytes,
        ),
        (
            "brickmesh_cache_evictions_total",
            "Bricks that were in memory still and made room for others.",
            counts.evicted,
        ),
    ];
    all.into_iter()
        .try_for_each(|(name, help, count)| page.counter(name, help, count))
}

fn bytes_held(data_set: &DataSetStatus, peer: &PeerId) -> u64 {
    let held = data_set.residency.get(peer).map(|r| r.held.iter());
    let bytes = |brick| data_set.manifest.brick_bytes(brick);
    held.into_iter().flatten().map(bytes).sum()
}

/// Resident memory of this process, where the system says it as Linux does.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// A number of a data set, from it and from what this peer says of it.
type Of = fn(&DataSetStatus, &Announcement) -> f64;

/// The gauges of each data set: name, help, and value.
const OF_DATA_SETS: [(&str, &str, Of); 11] = [
    (
        "brickmesh_data_set_in_use",
        "1 where somebody looks at the data set or offers it.",
        |d, _| f64::from(u8::from(is_in_use(d))),
    ),
    (
        "brickmesh_bricks_held",
        "Bricks that this peer holds in device memory.",
        |_, own| f64::from(own.held.len()),
    ),
    (
        "brickmesh_bricks_on_disk",
        "Bricks that this peer keeps on its disk (--disk), each checked.",
        |_, own| f64::from(own.shelf.len()),
    ),
    (
        "brickmesh_bricks_assigned",
        "Bricks that this peer holds or is about to.",
        |_, own| f64::from(own.assigned.len()),
    ),
    (
        "brickmesh_bricks_pending",
        "Bricks that are assigned to this peer and that it does not hold yet.",
        |_, own| {
            let missing = own.assigned.iter().filter(|&b| !own.held.contains(b));
            missing.count() as f64
        },
    ),
    (
        "brickmesh_redundancy_target",
        "Copies of each brick that are wanted.",
        |d, _| f64::from(d.redundancy),
    ),
    (
        "brickmesh_redundancy_min",
        "Copies of the scarcest brick in the mesh.",
        |d, _| f64::from(d.safety.copies_min),
    ),
    (
        "brickmesh_redundancy_mean",
        "Copies of a brick in the mesh, on average.",
        |d, _| {
            let bricks = d.manifest.grid().brick_count().max(1);
            d.safety.copies as f64 / f64::from(bricks)
        },
    ),
    (
        "brickmesh_bricks_endangered",
        "Bricks with fewer copies in the mesh than are wanted; 0 where nobody uses the data set.",
        |d, _| f64::from(at_risk(d, |s| s.endangered)),
    ),
    (
        "brickmesh_bricks_missing",
        "Bricks that no peer holds or can read: frames have holes there; 0 where nobody uses the data set.",
        |d, _| f64::from(at_risk(d, |s| s.missing)),
    ),
    (
        "brickmesh_bricks_read",
        "Bricks that no peer has memory for, and that are read for each frame; 0 where nobody uses the data set.",
        |d, _| f64::from(at_risk(d, |s| s.read)),
    ),
];

fn data_sets(page: &Page, local: &PeerId, status: &MeshStatus) -> prometheus::Result<()> {
    let name = |d: &DataSetStatus| d.manifest.digest().to_string();
    let all = status.data_sets.iter();
    let bricks = all.clone().map(|d| {
        let labels = [name(d), shortened(d.manifest.source())];
        (labels, f64::from(d.manifest.grid().brick_count()))
    });
    page.gauge(
        "brickmesh_data_set_bricks",
        "Bricks of an open data set.",
        ["data_set", "source"],
        bricks,
    )?;
    for (metric, help, of) in OF_DATA_SETS {
        let samples = all.clone().filter_map(|d| {
            let own = d.residency.get(local)?;
            Some(([name(d)], of(d, own)))
        });
        page.gauge(metric, help, ["data_set"], samples)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
