//! What this peer keeps of the mesh's directory: who announced to have which data set.
//!
//! Kademlia stores it, and forgets a record when somebody asks for it after its time; what nobody
//! asks for would stay. So the data sets are counted here, and named when their time is over.
//!
//! Invariant: what others announce takes a bounded memory, and not the place of what this peer
//! announces itself. No clock is read here.

use super::address;
use libp2p::{
    Multiaddr,
    kad::{ProviderRecord, RecordKey},
};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Data sets of others; more are not noted.
pub(super) const OTHERS_MAX: usize = 1024;
/// Data sets that this peer announces itself.
pub(super) const OWN_MAX: usize = 64;
/// What was not announced again for so long is forgotten. Whoever has it says so four times.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(2 * 24 * 60 * 60);
/// Addresses that are kept of one who has a data set: of one without any, Kademlia tells nobody
/// once it has left.
const ADDRESSES_MAX: usize = 4;

/// Name of a data set.
type Key = [u8; 32];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Directory(BTreeMap<Key, Instant>);

impl Directory {
    /// What is to be stored of an announcement; `None`: nothing.
    pub(super) fn note(&mut self, record: ProviderRecord, now: Instant) -> Option<ProviderRecord> {
        let key = Key::try_from(record.key.as_ref()).ok()?;
        if !self.0.contains_key(&key) && self.0.len() >= OTHERS_MAX {
            return None;
        }
        self.0.insert(key, now);
        let usable = record
            .addresses
            .iter()
            .filter(|a| address::check(a).is_ok());
        let addresses: Vec<Multiaddr> = usable.take(ADDRESSES_MAX).cloned().collect();
        Some(ProviderRecord {
            // The bytes alone, not what they came in.
            key: RecordKey::new(&key),
            addresses,
            ..record
        })
    }

    /// Forgets what was announced long ago, and names it.
    pub(super) fn forget(&mut self, now: Instant) -> Vec<RecordKey> {
        let is_old = |_: &Key, noted: &mut Instant| now.duration_since(*noted) > FORGET_AFTER;
        let old = self.0.extract_if(.., is_old);
        old.map(|(key, _)| RecordKey::new(&key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libp2p::PeerId;

    fn record(key: &[u8], addresses: &[&str]) -> ProviderRecord {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        ProviderRecord::new(key.to_vec(), PeerId::random(), addresses.collect())
    }

    fn key(number: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    #[test]
    fn no_more_is_noted_than_there_is_room_for_and_it_is_forgotten_in_the_end() {
        let (now, mut directory) = (Instant::now(), Directory::default());
        let mut note = |number, now| directory.note(record(&key(number), &[]), now).is_some();
        assert!((0..OTHERS_MAX).all(|number| note(number, now)));
        assert!(!note(OTHERS_MAX, now));
        let later = now + FORGET_AFTER;
        assert!(note(7, later), "what is known is announced again");
        assert_eq!(directory.forget(later), []);
        let old = directory.forget(later + Duration::from_secs(1));
        assert_eq!(old.len(), OTHERS_MAX - 1);
        assert!(!old.contains(&RecordKey::new(&key(7))));
        assert!(
            directory
                .note(record(&key(OTHERS_MAX), &[]), later)
                .is_some()
        );
    }

    #[test]
    fn what_is_no_data_set_is_not_noted_and_of_addresses_only_some() {
        let (now, mut directory) = (Instant::now(), Directory::default());
        assert_eq!(directory.note(record(&[7; 31], &[]), now), None);
        assert_eq!(directory.note(record(&[7; 16 << 10], &[]), now), None);
        let good = ["/ip4/10.0.0.1/tcp/1"; 9];
        let all = [&["/dns4/a.example/tcp/1"][..], &good].concat();
        let noted = directory.note(record(&[7; 32], &all), now).unwrap();
        let good: Multiaddr = good[0].parse().unwrap();
        assert_eq!(noted.addresses, vec![good; ADDRESSES_MAX]);
    }
}
