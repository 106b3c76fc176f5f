//! How many bricks a data set may have: its manifest goes from peer to peer as one message.

use crate::bus::Lane;
use brickmesh_topology::data::brick_table::RECORD_BYTES_MAX;

/// Manifests up to this size go before what speaks of their bricks, larger ones beside it.
const SMALL_BYTES_MAX: usize = 4 << 20;
/// Bytes of the message besides the bricks' records: volume, histogram, the file's name.
const REST_BYTES_MAX: usize = 64 << 10;

/// The lane that the manifest of so many bricks takes.
#[must_use]
pub fn manifest_lane(brick_count: u32) -> Lane {
    if brick_count as usize * record_bytes() <= SMALL_BYTES_MAX {
        Lane::Control
    } else {
        Lane::Bricks
    }
}

/// Most bricks of a data set that peers can tell each other of.
#[must_use]
pub fn bricks_max() -> u32 {
    let records = Lane::Bricks.message_bytes_max() - REST_BYTES_MAX;
    u32::try_from(records / record_bytes()).unwrap_or(u32::MAX)
}

/// Bytes of a brick's number of kept voxels in the message, at most.
const KEPT_BYTES: usize = 5;

/// Bytes of a brick in the message, at most.
fn record_bytes() -> usize {
    RECORD_BYTES_MAX + KEPT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Message, encode};
    use brickmesh_topology::{
        Manifest, VolumeDescription, VoxelType,
        data::{
            manifest::ManifestParts,
            value_statistics::{NoDataCounts, ValueStatistics},
        },
        mesh::keeper::KeeperMessage,
    };
    use std::sync::Arc;

    #[test]
    fn a_manifest_is_as_large_a_message_as_was_reckoned_with() {
        let dims = [80, 64, 48];
        let volume = VolumeDescription::new(dims, VoxelType::F32);
        let mut parts = ManifestParts::cut(volume, 8, &"x".repeat(255), |stored| {
            let count = usize::try_from(4 * stored.voxel_count()).unwrap();
            (0..127).cycle().take(count).collect()
        })
        .unwrap();
        parts.histogram.fill(1000);
        let values: Vec<(f32, u64)> = (0..100).map(|i| (i as f32 / 7.0, 10)).collect();
        let statistics = ValueStatistics::of(NoDataCounts::default(), &values, &values[..1]);
        parts.statistics = Some(statistics);
        // All of them.
        parts.kept_voxels = Some(vec![512; parts.bricks.len()]);
        let count = parts.bricks.len();
        let manifest = Manifest::try_from(parts);
        let open = Message::Keeper(KeeperMessage::Open {
            manifest: Arc::new(manifest.unwrap()),
            redundancy: 3,
            is_new: true,
        });
        let (bytes, records) = (encode(&open).len(), count * record_bytes());
        assert!(
            bytes > records / 100 * 99 && bytes < records + REST_BYTES_MAX,
            "{bytes}"
        );
        let most = bricks_max() as usize * record_bytes() + REST_BYTES_MAX;
        let limit = manifest_lane(bricks_max()).message_bytes_max();
        assert!(most <= limit && most + record_bytes() > limit);
        assert_eq!(manifest_lane(512), Lane::Control);
    }
}
