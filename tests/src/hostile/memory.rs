//! An allocator that counts, for the thread that reads a hostile input.
//!
//! Invariant: what a thread frees is taken from its own count, whoever allocated it; so the count
//! is right for work that stays on one thread.

#![expect(
    unsafe_code,
    reason = "an allocator is unsafe to write; every call is passed on to the system's as it is"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io::Write as _,
};

/// The system's allocator, counted.
#[derive(Debug)]
pub struct Counting;

/// The most that was asked for since [`begin`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Peak {
    /// Bytes at once.
    pub bytes: u64,
    /// Bytes in one request.
    pub largest_request: u64,
}

/// What a thread has asked for.
#[derive(Clone, Copy)]
struct Count {
    counts: bool,
    now: i64,
    peak: i64,
    largest: u64,
    name: &'static str,
    seed: u64,
    limit: u64,
}

const NOTHING: Count = Count {
    counts: false,
    now: 0,
    peak: 0,
    largest: 0,
    name: "",
    seed: 0,
    limit: 0,
};

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(NOTHING) };
}

/// Begins to count on this thread. A request beyond `limit` is told at once, with name and seed:
/// the system may end the program for it.
pub fn begin(name: &'static str, seed: u64, limit: u64) {
    COUNT.set(Count {
        counts: true,
        name,
        seed,
        limit,
        ..NOTHING
    });
}

/// Ends the count of this thread.
#[must_use]
pub fn end() -> Peak {
    let count = COUNT.replace(NOTHING);
    Peak {
        bytes: u64::try_from(count.peak).unwrap_or(0),
        largest_request: count.largest,
    }
}

/// Counts `new` bytes beside those that are there, then takes `old` away.
fn count(new: usize, old: usize) {
    // A thread that ends has no count any more.
    let known = COUNT.try_with(Cell::get);
    let Some(mut count) = known.ok().filter(|c| c.counts) else {
        return;
    };
    let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let together = count.now.saturating_add(signed(new));
    count.peak = count.peak.max(together);
    count.now = together.saturating_sub(signed(old));
    count.largest = count.largest.max(new as u64);
    if new as u64 > count.limit {
        // Told without an allocation; nobody is left to hear of an error.
        let told = std::io::stderr().write_fmt(format_args!(
            "{}, seed {}: {new} bytes in one request\n",
            count.name, count.seed
        ));
        drop(told);
    }
    COUNT.set(count);
}

// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
