//! Page memory: what a read costs where its page is there, beside plain memory; and where it is not, beside a request between two
//! threads for as many bytes.
//!
//! `cargo bench -p brickmesh-shaders --bench page_memory`

use brickmesh_shaders::page_memory::PageMemory;
use criterion::{Criterion, criterion_group, criterion_main};
use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};

/// A brick of 32³ 8-bit voxels with its ghost voxels.
const BYTES: usize = 34 * 34 * 34;
const SLOTS: usize = 64;
/// Reads that are timed together.
const READS: usize = 1 << 16;

/// Reads at places that follow from each other, as rays do.
fn read(bytes: &[u8]) -> u64 {
    let (mut at, mut sum) = (1_usize, 0);
    for _ in 0..READS {
        at = (at * 5 + 1) & 32_767;
        sum += u64::from(black_box(bytes)[at]);
    }
    sum
}

fn hits(criterion: &mut Criterion) {
    let Ok(memory) = PageMemory::new(1, BYTES) else {
        return println!("skipped: this machine has no page memory");
    };
    let plain = vec![7; BYTES];
    memory.fill(0, &plain).unwrap_or_else(|e| panic!("{e}"));
    let paged = memory.view(0, BYTES);
    let mut group = criterion.benchmark_group("65536 reads");
    group.bench_function("plain memory", |b| b.iter(|| read(&plain)));
    group.bench_function("page memory", |b| b.iter(|| read(&paged)));
    group.finish();
}

fn misses(criterion: &mut Criterion) {
    let Ok(memory) = PageMemory::new(SLOTS, BYTES) else {
        return;
    };
    let brick: Arc<[u8]> = vec![7; BYTES].into();
    let mut group = criterion.benchmark_group("39 KB that are not there");
    let (ask, asked) = sync_channel::<usize>(1);
    let (give, given) = sync_channel::<Vec<u8>>(1);
    let bytes = Arc::clone(&brick);
    let giver = thread::spawn(
        move || {
            while asked.recv().is_ok() && give.send(bytes.to_vec()).is_ok() {}
        },
    );
    group.bench_function("request", |b| {
        b.iter(|| {
            ask.send(0).unwrap_or_else(|e| panic!("{e}"));
            given.recv().map(|bytes| bytes[5])
        });
    });
    drop(ask);
    giver.join().unwrap_or_else(|_| panic!("it ends"));
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                if let Ok(Some(slot)) = memory.next_miss(Duration::from_millis(10)) {
                    memory.fill(slot, &brick).unwrap_or_else(|e| panic!("{e}"));
                }
            }
        });
        let mut slot = 0;
        group.bench_function("page", |b| {
            b.iter(|| {
                slot = (slot + 1) % SLOTS;
                memory.empty(slot);
                memory.view(slot, BYTES)[5]
            });
        });
        has_ended.store(true, Ordering::Relaxed);
    });
    group.finish();
}

criterion_group!(benches, hits, misses);
criterion_main!(benches);
