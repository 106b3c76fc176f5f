use super::*;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// Not whole pages.
const BYTES: usize = 39_304;

fn bytes_of(slot: usize) -> Vec<u8> {
    let byte = |at: usize| ((at * 31) ^ (slot * 97) ^ (at >> 8)).to_le_bytes()[0];
    (0..BYTES).map(byte).collect()
}

/// Runs `readers` while a thread fills what they miss, and keeps at most so many slots filled; returns how many slots it filled.
fn with_room_for(room: usize, memory: &Arc<PageMemory>, readers: impl FnOnce()) -> usize {
    let (has_ended, filled) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut there = VecDeque::new();
            while !has_ended.load(Ordering::Relaxed) {
                let missed = memory
                    .next_miss(Duration::from_millis(10))
                    .expect("it hears");
                // Of a slot that several threads wait for each is told.
                let Some(slot) = missed.filter(|slot| !there.contains(slot)) else {
                    continue;
                };
                if there.len() >= room {
                    there.pop_front().into_iter().for_each(|s| memory.empty(s));
                }
                memory.fill(slot, &bytes_of(slot)).expect("there is memory");
                there.push_back(slot);
                filled.fetch_add(1, Ordering::Relaxed);
            }
        });
        readers();
        has_ended.store(true, Ordering::Relaxed);
    });
    filled.into_inner()
}

#[test]
fn eight_threads_read_the_right_bytes_while_slots_are_emptied() {
    let memory = PageMemory::new(64, BYTES).unwrap();
    let expected: Vec<Vec<u8>> = (0..64).map(bytes_of).collect();
    let read = |thread: usize| {
        let mut at = thread as u64 * 7919 + 1;
        for _ in 0..100 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let slot = usize::try_from(at >> 33).unwrap() % 64;
            assert!(memory.view(slot, BYTES)[..] == expected[slot][..], "{slot}");
        }
    };
    let read = &read;
    let filled = with_room_for(24, &memory, || {
        thread::scope(|scope| {
            for n in 0..8 {
                scope.spawn(move || read(n));
            }
        });
    });
    assert!(
        filled > 64,
        "slots were emptied, and filled again: {filled}"
    );
}

#[test]
fn what_was_emptied_comes_again_and_views_outlive_their_owner() {
    let memory = PageMemory::new(3, BYTES).unwrap();
    assert!(memory.slot_bytes() >= BYTES);
    assert_eq!(memory.next_miss(Duration::ZERO).unwrap(), None);
    memory.fill(2, &bytes_of(2)).unwrap();
    // What is there stays.
    memory.fill(2, &bytes_of(1)).unwrap();
    let view = memory.view(2, BYTES);
    assert_eq!(view, bytes_of(2));
    memory.empty(2);
    memory.empty(2);
    let filled = with_room_for(1, &memory, || assert_eq!(view[7], bytes_of(2)[7]));
    assert_eq!(filled, 1);
    drop(memory);
    assert_eq!(view, bytes_of(2));
}

#[test]
fn more_addresses_than_there_are_is_an_error() {
    let error = PageMemory::new(usize::MAX / 2, 8192).unwrap_err();
    assert!(error.to_string().contains("no addresses for"), "{error}");
    let error = PageMemory::new(1 << 40, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("no addresses for"), "{error}");
}
