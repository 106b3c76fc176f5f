//! What a device that is lost, opened again or short of memory means for what the peer holds.

use super::{Keeper, KeeperOutput};
use crate::{
    base::digest::Digest,
    data::{brick_bytes::BrickBytes, brick_grid::BrickIndex},
    mesh::transfers::Downloads,
};
use std::{collections::BTreeSet, sync::Arc};

impl Keeper {
    /// Nothing is held any more: all hear it at once, as frames are planned with what is announced.
    pub(super) fn device_lost(
        &mut self,
        why: String,
        copies: &BTreeSet<(Digest, BrickIndex)>,
        out: &mut Vec<KeeperOutput>,
    ) {
        let hello = Arc::make_mut(&mut self.hello);
        (hello.device, hello.is_device_lost) = (why, true);
        // Nothing is left to free on the device; what waited for that is kept nowhere.
        let dropped = self.dropping.drain(..);
        out.extend(dropped.map(|(_, data_set, brick)| KeeperOutput::Dropped(data_set, brick)));
        let staged = self.staging.names().into_iter();
        out.extend(staged.map(|(data_set, brick)| KeeperOutput::Dropped(data_set, brick)));
        self.transfers.frames = Downloads::for_frames(&self.local);
        let in_vain = self.staging.device_lost();
        out.extend(in_vain.into_iter().map(super::stage::answer(false)));
        for (&data_set, set) in &mut self.sets {
            set.replicas
                .device_lost(|brick| copies.contains(&(data_set, brick)));
        }
        self.device_changed(out);
    }

    /// There is a device again, maybe another one.
    pub(super) fn device_opened(
        &mut self,
        device: String,
        memory_bytes: u64,
        brick_bytes: BrickBytes,
        out: &mut Vec<KeeperOutput>,
    ) {
        let hello = Arc::make_mut(&mut self.hello);
        (hello.device, hello.is_device_lost) = (device, false);
        hello.memory_bytes = memory_bytes;
        self.brick_bytes = brick_bytes;
        self.transfers.downloads.device_is_back();
        for set in self.sets.values_mut() {
            set.measure_by(&self.brick_bytes);
            set.replicas.memory_was_freed();
            set.replicas.can_read();
        }
        self.device_changed(out);
    }

    /// A brick is not there any more, nor room for it.
    pub(super) fn gave_up(
        &mut self,
        data_set: Digest,
        brick: BrickIndex,
        out: &mut Vec<KeeperOutput>,
    ) {
        if self.staging.forget((data_set, brick)) {
            self.staging.is_short();
            out.push(KeeperOutput::Unstage(data_set, brick));
            return;
        }
        let in_the_way = self.in_the_way(data_set);
        if let Some(set) = self.sets.get_mut(&data_set) {
            self.transfers.downloads.end((data_set, brick));
            set.replicas.given_up(brick, in_the_way);
            out.push(KeeperOutput::Dropped(data_set, brick));
            self.device_changed(out);
        }
    }

    fn device_changed(&mut self, out: &mut Vec<KeeperOutput>) {
        self.announce(out);
        let heartbeat = self.next_beat();
        self.send_all(&heartbeat, out);
        self.rosters_changed(out);
        self.keep_up(out);
    }
}
