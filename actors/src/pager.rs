//! The pager: bricks of this peer in page memory ([`PageMemory`]), and a thread of each data set that hears which of them are read and
//! not there.
//!
//! What is there is the keeper's decision, as where bricks are loaded into the device: the owner fills and frees. A thread that reads a
//! brick that is not there waits; where the brick cannot be had, it reads zeros, and the device is told that it did.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 3.2.
//! Invariants: filled bricks take no more than the memory that is given. No thread waits for a brick that nobody asks for: what is awaited
//! is asked for again twenty times a second.

use crate::{data_set::voxels, inputs::OwnerInput};
use actix::Recipient;
use brickmesh_shaders::{
    BrickKey, BrickVoxels, DeviceError,
    page_memory::{PageMemory, PageMemoryError, PagedBricks},
};
use brickmesh_topology::{BrickIndex, Digest, Manifest};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Until what is awaited is asked for again.
const PATIENCE: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug)]
pub struct Pager {
    memory_bytes: u64,
    owner: OnceLock<Recipient<OwnerInput>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sets: BTreeMap<Digest, PagedSet>,
    /// Memory that bricks take.
    bytes: u64,
    /// Bricks of zeros, as they could not be had.
    in_vain: BTreeSet<BrickKey>,
    /// Nobody brings bricks any more.
    has_ended: bool,
    /// Since when threads wait for bricks, without a break.
    waits_since: Option<Instant>,
    /// How long threads have waited since that was asked for.
    waited: Duration,
}

#[derive(Debug)]
struct PagedSet {
    manifest: Arc<Manifest>,
    memory: Arc<PageMemory>,
    /// What is there, and the memory that it takes.
    filled: BTreeMap<BrickIndex, u64>,
    /// What threads wait for, and when it was asked for last.
    awaited: BTreeMap<BrickIndex, Instant>,
}

impl Pager {
    /// A pager without data sets, whose bricks may take so many bytes.
    ///
    /// # Errors
    /// [`PageMemoryError`] where this machine does not let it.
    pub fn new(memory_bytes: u64) -> Result<Arc<Self>, PageMemoryError> {
        PageMemory::new(1, 1)?;
        Ok(Arc::new(Self {
            memory_bytes,
            owner: OnceLock::new(),
            state: Mutex::default(),
        }))
    }

    /// Who brings bricks that are read and not there.
    pub(crate) fn asks(&self, owner: Recipient<OwnerInput>) {
        if self.owner.set(owner).is_err() {
            tracing::error!("a pager has two owners");
        }
    }

    /// Nobody brings bricks from now on: threads that wait for some go on.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.give_up_all();
        state.sets.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for the addresses of a data set's bricks.
    pub(crate) fn open(self: &Arc<Self>, manifest: &Arc<Manifest>) {
        let data_set = manifest.digest();
        let bricks = manifest.grid().brick_count();
        let largest = (0..bricks).map(|b| manifest.brick_bytes(BrickIndex(b)));
        let largest = usize::try_from(largest.max().unwrap_or(1)).unwrap_or(usize::MAX);
        let memory = match PageMemory::new(bricks as usize, largest) {
            Ok(memory) => memory,
            Err(error) => {
                tracing::error!(%error, data_set = data_set.short(), "a data set cannot be shared by pages");
                return;
            }
        };
        let (pager, heard) = (Arc::clone(self), Arc::clone(&memory));
        let listen = move || pager.listen(data_set, &heard);
        let started = thread::Builder::new()
            .name("pager".to_owned())
            .spawn(listen);
        if let Err(error) = started {
            tracing::error!(%error, "a data set cannot be shared by pages");
            return;
        }
        let set = PagedSet {
            manifest: Arc::clone(manifest),
            memory,
            filled: BTreeMap::new(),
            awaited: BTreeMap::new(),
        };
        self.state().sets.insert(data_set, set);
    }

    /// Forgets a data set; who reads its bricks still reads zeros.
    pub(crate) fn close(&self, data_set: Digest) {
        let mut state = self.state();
        if let Some(set) = state.sets.get_mut(&data_set) {
            let freed: u64 = set.filled.values().sum();
            let awaited: Vec<BrickIndex> = set.awaited.keys().copied().collect();
            for brick in awaited {
                state.give_up(BrickKey { data_set, brick });
            }
            state.bytes -= freed;
            state.sets.remove(&data_set);
        }
    }

    /// Puts a brick where it is read; one already there stays.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], [`DeviceError::Failed`].
    pub(crate) fn fill(&self, key: BrickKey, brick: &BrickVoxels) -> Result<(), DeviceError> {
        let mut state = self.state();
        let failed = |what: &str| DeviceError::Failed {
            what: what.to_owned(),
        };
        // Whoever reads zeros reads them to the end.
        if state.in_vain.contains(&key) {
            return Err(failed("the brick is being read in vain"));
        }
        if state.has_ended {
            return Err(DeviceError::Unavailable {
                what: "the peer is ending".to_owned(),
            });
        }
        let (taken, cost) = (state.bytes, cost(brick));
        let set = state.sets.get_mut(&key.data_set);
        let set = set.ok_or_else(|| DeviceError::OutOfMemory {
            what: format!("brick {}: its data set has no page memory", key.brick.0),
        })?;
        if set.filled.contains_key(&key.brick) {
            return Ok(());
        }
        if taken + cost > self.memory_bytes {
            return Err(DeviceError::OutOfMemory {
                what: format!(
                    "brick {} of {cost} bytes beside {taken} bytes of others; {} are allowed",
                    key.brick.0, self.memory_bytes
                ),
            });
        }
        let slot = key.brick.0 as usize;
        if let Err(error) = set.memory.fill(slot, brick.whole()) {
            // Some of it may be there.
            set.memory.empty(slot);
            return Err(DeviceError::OutOfMemory {
                what: format!("brick {} in page memory: {error}", key.brick.0),
            });
        }
        set.filled.insert(key.brick, cost);
        set.awaited.remove(&key.brick);
        state.bytes += cost;
        state.count_waiting();
        Ok(())
    }

    /// Frees the memory of a brick; who reads it waits until it is filled again.
    pub(crate) fn free(&self, key: BrickKey) {
        let mut state = self.state();
        if let Some(set) = state.sets.get_mut(&key.data_set)
            && let Some(cost) = set.filled.remove(&key.brick)
        {
            set.memory.empty(key.brick.0 as usize);
            state.bytes -= cost;
        }
    }

    /// The bytes of a brick that is there; takes as long as they are many.
    pub(crate) fn copy(&self, key: BrickKey) -> Option<Bytes> {
        // While this is held, nothing is freed.
        let state = self.state();
        let set = state.sets.get(&key.data_set)?;
        set.filled.get(&key.brick)?;
        Some(Bytes::copy_from_slice(&set.view(key.brick)))
    }

    /// A brick cannot be had: who waits for it reads zeros.
    pub(crate) fn cannot_be_had(&self, key: BrickKey) {
        let mut state = self.state();
        let set = state.sets.get(&key.data_set);
        if set.is_some_and(|set| set.awaited.contains_key(&key.brick)) {
            state.give_up(key);
        }
    }

    /// How long threads have waited for bricks since this was asked for the last time, and do not any more.
    pub(crate) fn take_waited(&self) -> Duration {
        std::mem::take(&mut self.state().waited)
    }

    /// Hears what is read, until nobody can read it any more.
    fn listen(&self, data_set: Digest, memory: &Arc<PageMemory>) {
        loop {
            match memory.next_miss(PATIENCE) {
                Ok(Some(slot)) => self.missed(data_set, slot, memory),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "page memory does not tell what is missed");
                    thread::sleep(PATIENCE);
                }
            }
            if !self.ask_again(data_set, memory) && Arc::strong_count(memory) == 1 {
                return;
            }
        }
    }

    /// A thread began to wait for a slot, which may be filled since.
    fn missed(&self, data_set: Digest, slot: usize, memory: &Arc<PageMemory>) {
        let Ok(brick) = u32::try_from(slot).map(BrickIndex) else {
            return;
        };
        let key = BrickKey { data_set, brick };
        let mut state = self.state();
        if !state.is_open(data_set, memory) {
            // It is told of the next page again where there is no memory for all.
            if let Err(error) = memory.fill(slot, &vec![0; memory.slot_bytes()]) {
                tracing::error!(%error, "a thread waits for a brick of a data set that is closed");
            }
            state.in_vain.insert(key);
        } else if !state.in_vain.contains(&key)
            && let Some(set) = state.sets.get_mut(&data_set)
            && !set.filled.contains_key(&brick)
            && !set.awaited.contains_key(&brick)
        {
            set.awaited.insert(brick, Instant::now());
            state.count_waiting();
            drop(state);
            self.ask(key);
        }
    }

    fn ask(&self, key: BrickKey) {
        let missed = OwnerInput::Missed(key.data_set, key.brick);
        let is_asked = (self.owner.get()).is_some_and(|owner| owner.try_send(missed).is_ok());
        if !is_asked {
            tracing::debug!(
                brick = key.brick.0,
                "a brick that is read is asked for later"
            );
        }
    }

    /// Asks again for what is awaited; false: the data set is not open.
    fn ask_again(&self, data_set: Digest, memory: &Arc<PageMemory>) -> bool {
        let mut state = self.state();
        if !state.is_open(data_set, memory) {
            return false;
        }
        let Some(set) = state.sets.get_mut(&data_set) else {
            return false;
        };
        let now = Instant::now();
        let due = |since: &Instant| now.duration_since(*since) >= PATIENCE;
        let late = set.awaited.iter_mut().filter(|(_, since)| due(since));
        let late = late.map(|(&brick, since)| {
            *since = now;
            BrickKey { data_set, brick }
        });
        let late: Vec<BrickKey> = late.collect();
        drop(state);
        late.into_iter().for_each(|key| self.ask(key));
        true
    }
}

impl State {
    /// Whether a data set is open, and this is its memory: it may have been closed and opened again.
    fn is_open(&self, data_set: Digest, memory: &Arc<PageMemory>) -> bool {
        let set = self.sets.get(&data_set);
        set.is_some_and(|set| Arc::ptr_eq(&set.memory, memory))
    }

    /// Lets whoever waits for a brick read zeros.
    fn give_up(&mut self, key: BrickKey) {
        let Some(set) = self.sets.get_mut(&key.data_set) else {
            return;
        };
        let zeros = vec![0; set.memory.slot_bytes()];
        self.in_vain.insert(key);
        if let Err(error) = set.memory.fill(key.brick.0 as usize, &zeros) {
            // It is asked for again, and given up again.
            tracing::error!(%error, brick = key.brick.0, "a thread waits for a brick in vain");
            return;
        }
        set.awaited.remove(&key.brick);
        self.count_waiting();
    }

    /// What threads wait for has changed.
    fn count_waiting(&mut self) {
        let mut sets = self.sets.values();
        if sets.any(|set| !set.awaited.is_empty()) {
            self.waits_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = self.waits_since.take() {
            self.waited += since.elapsed();
        }
    }

    fn give_up_all(&mut self) {
        let all = self.sets.iter();
        let awaited = all.flat_map(|(&data_set, set)| {
            let bricks = set.awaited.keys();
            bricks.map(move |&brick| BrickKey { data_set, brick })
        });
        let awaited: Vec<BrickKey> = awaited.collect();
        awaited.into_iter().for_each(|key| self.give_up(key));
    }
}

/// Memory that a brick takes in pages.
fn cost(brick: &BrickVoxels) -> u64 {
    let voxels = brick.bytes().len();
    let pages = voxels.next_multiple_of(PageMemory::page_bytes());
    brick.memory_bytes() + (pages - voxels) as u64
}

impl PagedSet {
    fn view(&self, brick: BrickIndex) -> Bytes {
        let bytes = usize::try_from(self.manifest.brick_bytes(brick)).unwrap_or(usize::MAX);
        self.memory.view(brick.0 as usize, bytes)
    }
}

impl PagedBricks for Pager {
    fn brick(&self, key: BrickKey) -> Option<BrickVoxels> {
        let state = self.state();
        let set = state.sets.get(&key.data_set)?;
        let (manifest, view) = (Arc::clone(&set.manifest), set.view(key.brick));
        // Triangles are read now, and may have to come.
        drop(state);
        let found = voxels(&manifest, key.brick, view);
        found
            .inspect_err(|why| tracing::debug!("{why}, in page memory"))
            .ok()
    }

    fn take_in_vain(&self) -> Vec<BrickKey> {
        let mut state = self.state();
        let in_vain = std::mem::take(&mut state.in_vain);
        for key in &in_vain {
            if let Some(set) = state.sets.get(&key.data_set) {
                set.memory.empty(key.brick.0 as usize);
            }
        }
        in_vain.into_iter().collect()
    }
}
