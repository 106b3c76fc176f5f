//! Pages of a made-up mesh.

use super::*;
use brickmesh_topology::{
    BrickIndex, Digest, Manifest, VolumeDescription, VoxelType,
    data::{brick_set::BrickSet, brick_table::BrickRecord, manifest::ManifestParts},
    mesh::{
        announcement::Announcement,
        assignment::Safety,
        keeper::{FrameTimes, Hello, Sharing, Vitals},
        staging::StagingCounts,
    },
};
use std::sync::Arc;

/// Two bricks of 8 × 8 × 8 and 8 × 8 × 2 voxels of one byte, ghosts included; data sets are told
/// apart by their `content`, not by where they came from.
fn manifest(source: &str, content: u8) -> Arc<Manifest> {
    let record = BrickRecord {
        digest: Digest::of(&[content]),
        range: Some([0.0, 9.0]),
        cells: None,
        triangles: None,
    };
    let volume = VolumeDescription::new([8, 8, 9], VoxelType::U8);
    let parts = ManifestParts::new(volume, 8, source, vec![record; 2]);
    Arc::new(Manifest::try_from(parts).unwrap())
}

/// A data set that came from `source`, of which nobody holds anything yet.
pub(crate) fn data_set(source: &str, content: u8) -> DataSetStatus {
    DataSetStatus {
        manifest: manifest(source, content),
        safety: Safety::of(2, [], 2),
        residency: [].into(),
        redundancy: 2,
        unreadable: [].into(),
        brick_bytes: 9 * 8 * 8,
        copy_bytes: 2 * 9 * 8 * 8,
    }
}

/// A mesh as the peer `a` sees it: `a` offers and holds both bricks, both are assigned to `b`, which holds the second and is
/// silent; somebody without memory looks on.
pub(crate) fn status() -> MeshStatus {
    let hello = |name: &str, memory_bytes| Hello {
        name: name.to_owned(),
        device: "CPU".to_owned(),
        is_device_lost: false,
        memory_bytes,
        shelf_bytes: 0,
        sharing: Sharing::Object,
        version: "0.1.0".to_owned(),
        is_viewer: false,
    };
    let announcement = |held: &[u32]| {
        let mut a = Announcement::expected(2, 2);
        a.assigned = BrickSet::all(2);
        held.iter().for_each(|&brick| {
            a.held.insert(BrickIndex(brick));
        });
        a
    };
    let residency = [("a", announcement(&[0, 1])), ("b", announcement(&[1]))];
    let mut residency = residency.map(|(p, a)| (PeerId::new(p), a));
    residency[0].1.in_use = true;
    residency[0].1.shelf = BrickSet::all(2);
    let vitals_a = Vitals {
        rendering: true,
        speed_millionths: Some(1_250_000),
        last_frame: Some(FrameTimes {
            total_micros: 43_210,
            schedule_micros: 500,
            composite_micros: 3_000,
        }),
        suspects: Arc::new([PeerId::new("b")].into()),
        ..Vitals::default()
    };
    let vitals_b = Vitals {
        downloading: 1,
        ..Vitals::default()
    };
    MeshStatus {
        vitals: [(PeerId::new("a"), vitals_a), (PeerId::new("b"), vitals_b)].into(),
        peers: [
            (PeerId::new("a"), hello("eva's \u{1b}[31m \"box\"", 1 << 20)),
            (PeerId::new("b"), hello("lab", 2 << 20)),
            (PeerId::new("c"), hello("status", 0)),
        ]
        .into(),
        suspects: vec![PeerId::new("b")],
        awaits_data_sets: false,
        staging: StagingCounts {
            found: 3,
            came: 5,
            came_bytes: 700,
            evicted: 2,
        },
        data_sets: vec![DataSetStatus {
            safety: Safety::of(2, residency.iter().map(|(_, a)| &a.held), 2),
            residency: residency.into(),
            ..data_set("a \"head\"\\\n# TYPE x gauge", 0)
        }],
    }
}

/// The value of a metric with these labels, as they are written.
fn value(page: &str, metric: &str) -> Option<f64> {
    let line = page.lines().find_map(|l| l.strip_prefix(metric));
    line?.trim().parse().ok()
}

#[test]
fn the_page_says_who_is_there_what_is_held_and_how_safe_it_is() {
    let status = status();
    let page = page(&PeerId::new("a"), &status).unwrap();
    let set = format!("{{data_set=\"{}\"}}", status.data_sets[0].manifest.digest());
    let manifest = &status.data_sets[0].manifest;
    let bytes = manifest.brick_bytes(BrickIndex(0)) + manifest.brick_bytes(BrickIndex(1));
    for (metric, expected) in [
        ("brickmesh_peers{health=\"well\"}".to_owned(), 1.0),
        ("brickmesh_peers{health=\"suspect\"}".to_owned(), 1.0),
        ("brickmesh_peer_suspect{peer=\"a\"}".to_owned(), 0.0),
        ("brickmesh_peer_suspect{peer=\"b\"}".to_owned(), 1.0),
        ("brickmesh_rendering".to_owned(), 1.0),
        ("brickmesh_transfers".to_owned(), 0.0),
        (format!("brickmesh_bricks_on_disk{set}"), 2.0),
        ("brickmesh_speed_ratio".to_owned(), 1.25),
        (
            "brickmesh_last_frame_seconds{part=\"total\"}".to_owned(),
            0.04321,
        ),
        ("brickmesh_memory_promised_bytes".to_owned(), 1_048_576.0),
        ("brickmesh_memory_used_bytes".to_owned(), bytes as f64),
        ("brickmesh_cache_hits_total".to_owned(), 3.0),
        ("brickmesh_cache_misses_total".to_owned(), 5.0),
        ("brickmesh_cache_missed_bytes_total".to_owned(), 700.0),
        ("brickmesh_cache_evictions_total".to_owned(), 2.0),
        (format!("brickmesh_bricks_held{set}"), 2.0),
        (format!("brickmesh_bricks_pending{set}"), 0.0),
        (format!("brickmesh_redundancy_target{set}"), 2.0),
        (format!("brickmesh_redundancy_min{set}"), 1.0),
        (format!("brickmesh_redundancy_mean{set}"), 1.5),
        (format!("brickmesh_bricks_endangered{set}"), 1.0),
        (format!("brickmesh_bricks_missing{set}"), 0.0),
    ] {
        assert_eq!(value(&page, &metric), Some(expected), "{metric}\n{page}");
    }
    let other = super::page(&PeerId::new("b"), &status).unwrap();
    let coming = format!("brickmesh_bricks_pending{set}");
    assert_eq!(value(&other, &coming), Some(1.0));
    assert!(!page.contains("peer=\"c\""), "who looks on is no peer");
    #[cfg(target_os = "linux")]
    assert!(value(&page, "process_resident_memory_bytes").is_some_and(|b| b > 1e6));
}

#[test]
fn what_peers_say_cannot_forge_a_line() {
    let page = page(&PeerId::new("a"), &status()).unwrap();
    assert!(
        page.contains(r#"source="a \"head\"\\\n# TYPE x gauge""#),
        "{page}"
    );
    assert!(!page.contains("\n# TYPE x"), "{page}");
    assert!(page.contains(r#"\"box\""#), "{page}");
    for line in page.lines() {
        assert!(
            line.starts_with("# ") || line.contains("brickmesh_") || line.starts_with("process_"),
            "{line}"
        );
    }
    let mut long = status();
    if let Some(hello) = long.peers.get_mut(&PeerId::new("b")) {
        hello.name = "x".repeat(1 << 20);
    }
    assert!(super::page(&PeerId::new("a"), &long).unwrap().len() < 20_000);
}

#[test]
fn a_peer_that_knows_nothing_yet_has_a_page() {
    let empty = MeshStatus::default();
    let page = page(&PeerId::new("a"), &empty).unwrap();
    assert_eq!(value(&page, "brickmesh_peers{health=\"well\"}"), Some(0.0));
    assert!(health(&empty).contains("\"status\":\"ok\""));
}

#[test]
fn health_counts_what_an_operator_looks_at_first() {
    let health: serde_json::Value = serde_json::from_str(&health(&status())).unwrap();
    assert_eq!(health["status"], "ok");
    assert_eq!(
        (&health["peers"], &health["suspects"]),
        (&2.into(), &1.into())
    );
    assert_eq!(health["bricks_endangered"], 1);
    assert_eq!(health["bricks_missing"], 0);
}

#[test]
fn what_nobody_uses_any_more_is_no_alarm() {
    let mut status = status();
    let set = &mut status.data_sets[0];
    set.safety = Safety::of(2, [], 2);
    let label = format!("{{data_set=\"{}\"}}", set.manifest.digest());
    let alarms = |status: &MeshStatus| {
        let page = page(&PeerId::new("a"), status).unwrap();
        let health: serde_json::Value = serde_json::from_str(&health(status)).unwrap();
        ["missing", "endangered"].map(|what| {
            let metric = format!("brickmesh_bricks_{what}{label}");
            let counted = health[format!("bricks_{what}")].as_f64();
            assert_eq!(value(&page, &metric), counted, "{metric}");
            counted
        })
    };
    assert_eq!(alarms(&status), [Some(2.0), Some(2.0)]);
    for of_peer in status.data_sets[0].residency.values_mut() {
        of_peer.in_use = false;
    }
    assert_eq!(alarms(&status), [Some(0.0), Some(0.0)]);
    // Whoever wants to know finds it.
    let page = page(&PeerId::new("a"), &status).unwrap();
    let scarcest = format!("brickmesh_redundancy_min{label}");
    assert_eq!(value(&page, &scarcest), Some(0.0));
}
