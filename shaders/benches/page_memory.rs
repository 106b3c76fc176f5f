//! Page memory: what a read costs where its page is there, beside plain memory; and where it is not, beside a bare request
//! for as many bytes over a connection of this machine with itself.
//!
//! `cargo bench -p brickmesh-shaders --bench page_memory`

use brickmesh_shaders::page_memory::PageMemory;
use criterion::{Criterion, criterion_group, criterion_main};
use std::{
    hint::black_box,
    io::{Read, Result, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering},
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

/// Who answers each byte that comes with a brick, until nobody is there to ask.
fn giver() -> Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let asker = TcpStream::connect(listener.local_addr()?)?;
    let (mut asked, _) = listener.accept()?;
    asker.set_nodelay(true)?;
    asked.set_nodelay(true)?;
    thread::spawn(move || {
        let brick = vec![7; BYTES];
        while asked.read_exact(&mut [0]).is_ok() && asked.write_all(&brick).is_ok() {}
    });
    Ok(asker)
}

fn request(giver: &mut TcpStream, brick: &mut [u8]) {
    let answered = giver.write_all(&[1]).and_then(|()| giver.read_exact(brick));
    answered.unwrap_or_else(|e| panic!("{e}"));
}

fn misses(criterion: &mut Criterion) {
    let Ok(memory) = PageMemory::new(SLOTS, BYTES) else {
        return;
    };
    let mut giver = giver().unwrap_or_else(|e| panic!("{e}"));
    let mut group = criterion.benchmark_group("39 KB that are not there");
    let mut brick = vec![0; BYTES];
    group.bench_function("request", |b| {
        b.iter(|| {
            request(&mut giver, &mut brick);
            brick[5]
        });
    });
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                if let Ok(Some(slot)) = memory.next_miss(Duration::from_millis(10)) {
                    request(&mut giver, &mut brick);
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
