//! Device memory, taken in blocks.
//!
//! An allocator keeps the blocks that it has taken until it goes; so each data set's bricks have
//! one of their own (`resident`), and blocks are small beside what bricks take.

use std::sync::Arc;
use vulkano::{
    device::Device,
    memory::{
        MemoryPropertyFlags,
        allocator::{GenericMemoryAllocatorCreateInfo, StandardMemoryAllocator},
    },
};

/// Block of what is not bricks: staging and pictures are larger than half of it, and so have
/// allocations of their own, which are given back.
pub(super) const WORKING_BLOCK_BYTES: u64 = 16 << 20;
/// Smallest block of bricks.
const BLOCK_BYTES_MIN: u64 = 256 << 10;
/// Largest block of bricks.
const BLOCK_BYTES_MAX: u64 = 256 << 20;
/// A block is such a part of what bricks may take, or less: little is lost in blocks that are not
/// full, and the allocations stay far below the 4096 that every driver gives.
const BLOCKS: u64 = 64;

/// Bytes of a block, where bricks may take `memory_bytes`.
pub(super) fn brick_block_bytes(memory_bytes: u64) -> u64 {
    let part = (memory_bytes / BLOCKS).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
    1 << part.ilog2()
}

/// An allocator on all kinds of memory of a device that suit images and buffers.
pub(super) fn allocator(device: &Arc<Device>, block_bytes: u64) -> Arc<StandardMemoryAllocator> {
    let types = &device.physical_device().memory_properties().memory_types;
    // Memory that is there lazily, protected, or for debuggers is none to keep bricks in.
    let unsuited = MemoryPropertyFlags::LAZILY_ALLOCATED
        | MemoryPropertyFlags::PROTECTED
        | MemoryPropertyFlags::DEVICE_COHERENT
        | MemoryPropertyFlags::RDMA_CAPABLE;
    let suited = types
        .iter()
        .zip(0..)
        .filter(|(t, _)| !t.property_flags.intersects(unsuited));
    let create_info = GenericMemoryAllocatorCreateInfo {
        block_sizes: &vec![block_bytes; types.len()],
        memory_type_bits: suited.fold(0, |bits, (_, index)| bits | 1 << index),
        ..Default::default()
    };
    Arc::new(StandardMemoryAllocator::new(device.clone(), create_info))
}

/// Bytes of the blocks that an allocator has taken.
pub(super) fn block_bytes_taken(allocator: &StandardMemoryAllocator) -> u64 {
    let pools = allocator.pools().iter();
    pools
        .map(|pool| {
            let blocks = pool.blocks();
            blocks
                .map(|b| b.device_memory().allocation_size())
                .sum::<u64>()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_small_beside_what_bricks_may_take_and_few_enough() {
        for memory in [32 << 20, 1 << 30, 24 << 30, 141 << 30_u64] {
            let block = brick_block_bytes(memory);
            assert!(block <= memory / BLOCKS, "{memory}");
            // What is larger than half a block has an allocation of its own.
            assert!(memory / (block / 2) <= 4096, "{memory}");
        }
        assert_eq!(brick_block_bytes(0), BLOCK_BYTES_MIN);
        assert_eq!(brick_block_bytes(3 << 30), 32 << 20);
    }
}
