//! Which data set of the mesh a name means.
//!
//! Invariant: a name, or the first digits of a digest, is believed only once the mesh has been
//! quiet for a while: small manifests come first, and another data set of that name may be on its
//! way. A whole digest means one data set, and is believed at once.
//!
//! No clock is read here.

use super::DataSource;
use brickmesh_actors::brick_owner::MeshStatus;
use brickmesh_actors::plain_text::plain_text;
use brickmesh_topology::{Digest, Manifest, PeerId};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a data set is looked for in the mesh.
pub(super) const FIND_WAIT: Duration = Duration::from_secs(20);
/// No peer and no data set has come or gone for so long, and none is on its way: what a name means is
/// clear. Peers tell a new one of their data sets at once, the large ones take a while.
const QUIET: Duration = Duration::from_secs(1);
/// Whoever is in the mesh has been met by then: what none of them knows after being quiet for so long,
/// the mesh has not.
const QUIET_WITHOUT: Duration = Duration::from_secs(3);
/// Fewer digits of a digest than these name nothing.
const DIGITS_MIN: usize = 8;
/// Digits of a whole digest.
const DIGITS: usize = 64;

impl DataSource {
    /// Whether a text could be a data set's digest, or the beginning of one.
    #[must_use]
    pub fn is_digest(text: &str) -> bool {
        let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        (DIGITS_MIN..=DIGITS).contains(&text.len()) && text.bytes().all(hex)
    }
}

/// What was found.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// It is not clear yet.
    NotYet,
    /// This data set is meant.
    One(Arc<Manifest>),
    /// Any of these may be meant.
    Several(Vec<Arc<Manifest>>),
    /// None of these, which are all that there are, and it was waited long enough.
    Nothing(Vec<Arc<Manifest>>),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Search {
    name: String,
    start: Instant,
    /// Peers and data sets, as of late.
    known: (BTreeSet<PeerId>, BTreeSet<Digest>),
    quiet_since: Instant,
}

impl Search {
    pub(super) fn new(name: String, now: Instant) -> Self {
        Self {
            name,
            start: now,
            known: Default::default(),
            quiet_since: now,
        }
    }

    /// What the name means in the mesh as it is at `now`.
    pub(super) fn look(&mut self, status: &MeshStatus, now: Instant) -> Found {
        let sets = status.data_sets.iter().map(|d| &d.manifest);
        let peers = status.peers.keys().cloned().collect();
        let known = (peers, sets.clone().map(|m| m.digest()).collect());
        if known != self.known || status.awaits_data_sets {
            self.known = known;
            self.quiet_since = now;
        }
        if let Some(manifest) = sets.clone().find(|m| m.digest().to_string() == self.name) {
            return Found::One(Arc::clone(manifest));
        }
        let is_over = now.duration_since(self.start) > FIND_WAIT;
        let quiet = now.duration_since(self.quiet_since);
        let is_quiet = quiet >= QUIET;
        let is_listed = quiet >= QUIET_WITHOUT && status.peers.len() > 1;
        let named = sets.clone().filter(|m| self.may_mean(m)).cloned();
        let mut named: Vec<_> = named.collect();
        match named.len() {
            0 if is_over || is_listed => Found::Nothing(sets.cloned().collect()),
            0 => Found::NotYet,
            _ if !is_quiet && !is_over => Found::NotYet,
            1 => Found::One(named.remove(0)),
            _ => Found::Several(named),
        }
    }

    fn may_mean(&self, manifest: &Manifest) -> bool {
        let is_digest = DataSource::is_digest(&self.name);
        let by_digest = is_digest && manifest.digest().to_string().starts_with(&self.name);
        by_digest || manifest.source() == self.name
    }
}

/// Data sets, for people, without levels of others among them; what they came from is others' word.
pub(super) fn in_words(sets: &[Arc<Manifest>]) -> String {
    let levels: BTreeSet<Digest> = sets.iter().flat_map(|m| m.levels().to_vec()).collect();
    let each = sets
        .iter()
        .filter(|m| !levels.contains(&m.digest()))
        .map(|m| format!("{} ({})", m.digest(), plain_text(m.source())));
    let words = each.collect::<Vec<_>>().join(", ");
    if words.is_empty() {
        "none".to_owned()
    } else {
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::{data_set, status};

    /// A mesh with data sets of these sources, each of another content.
    fn with(sources: &[&str]) -> MeshStatus {
        let sets = (0..).zip(sources);
        MeshStatus {
            data_sets: sets.map(|(n, source)| data_set(source, n)).collect(),
            ..status()
        }
    }

    fn digest(status: &MeshStatus, at: usize) -> String {
        status.data_sets[at].manifest.digest().to_string()
    }

    #[test]
    fn a_name_is_believed_once_the_mesh_is_quiet() {
        let now = Instant::now();
        let mut search = Search::new("head".to_owned(), now);
        let one = with(&["other", "head"]);
        let manifest = Arc::clone(&one.data_sets[1].manifest);
        assert_eq!(search.look(&one, now), Found::NotYet);
        assert_eq!(search.look(&one, now + QUIET / 2), Found::NotYet);
        assert_eq!(search.look(&one, now + QUIET), Found::One(manifest));
    }

    #[test]
    fn two_of_one_name_are_ambiguous_though_one_comes_later() {
        let now = Instant::now();
        let mut search = Search::new("head".to_owned(), now);
        assert_eq!(search.look(&with(&["head"]), now), Found::NotYet);
        let both = with(&["head", "head"]);
        let later = now + QUIET * 9 / 10;
        assert_eq!(search.look(&both, later), Found::NotYet);
        assert_eq!(search.look(&both, now + QUIET), Found::NotYet);
        let found = search.look(&both, later + QUIET);
        assert!(matches!(found, Found::Several(sets) if sets.len() == 2));
    }

    #[test]
    fn a_peer_that_comes_may_bring_another() {
        let now = Instant::now();
        let mut search = Search::new("head".to_owned(), now);
        let mut mesh = with(&["head"]);
        assert_eq!(search.look(&mesh, now), Found::NotYet);
        let hello = mesh.peers[&PeerId::new("a")].clone();
        mesh.peers.insert(PeerId::new("d"), hello);
        assert_eq!(search.look(&mesh, now + QUIET), Found::NotYet);
        assert!(matches!(search.look(&mesh, now + QUIET * 2), Found::One(_)));
    }

    #[test]
    fn a_data_set_that_is_on_its_way_may_have_that_name() {
        let now = Instant::now();
        let mut search = Search::new("head".to_owned(), now);
        let mut mesh = with(&["head"]);
        mesh.awaits_data_sets = true;
        assert_eq!(search.look(&mesh, now), Found::NotYet);
        assert_eq!(search.look(&mesh, now + QUIET * 5), Found::NotYet);
        mesh = with(&["head", "head"]);
        assert_eq!(search.look(&mesh, now + QUIET * 6), Found::NotYet);
        let found = search.look(&mesh, now + QUIET * 7);
        assert!(matches!(found, Found::Several(sets) if sets.len() == 2));
    }

    #[test]
    fn a_whole_digest_is_believed_at_once_and_its_beginning_like_a_name() {
        let (now, mut mesh) = (Instant::now(), with(&["head", "other"]));
        let (whole, manifest) = (digest(&mesh, 0), Arc::clone(&mesh.data_sets[0].manifest));
        // Somebody calls his data set so.
        mesh.data_sets.push(data_set(&whole, 2));
        let mut search = Search::new(whole.clone(), now);
        assert_eq!(search.look(&mesh, now), Found::One(manifest.clone()));
        let mut search = Search::new(whole[..DIGITS_MIN].to_owned(), now);
        assert_eq!(search.look(&mesh, now), Found::NotYet);
        assert_eq!(search.look(&mesh, now + QUIET), Found::One(manifest));
    }

    #[test]
    fn what_nobody_knows_is_not_waited_for_once_the_list_is_known() {
        let (now, mesh) = (Instant::now(), with(&["other"]));
        let mut search = Search::new("head".to_owned(), now);
        assert_eq!(search.look(&mesh, now), Found::NotYet);
        assert_eq!(search.look(&mesh, now + QUIET * 2), Found::NotYet);
        let found = search.look(&mesh, now + QUIET_WITHOUT);
        assert!(matches!(found, Found::Nothing(sets) if sets.len() == 1));
        // Alone, others may come.
        let mut alone = with(&[]);
        alone.peers.retain(|p, _| p.as_str() == "a");
        let mut search = Search::new("head".to_owned(), now);
        assert_eq!(search.look(&alone, now), Found::NotYet);
        assert_eq!(search.look(&alone, now + FIND_WAIT), Found::NotYet);
    }

    #[test]
    fn the_search_has_an_end_even_where_the_mesh_is_never_quiet() {
        let now = Instant::now();
        let mut nobody = Search::new("nobody".to_owned(), now);
        let mut head = Search::new("head".to_owned(), now);
        for tenth in 0..=200_u8 {
            let mut mesh = with(&["head"]);
            mesh.data_sets.push(data_set("other", tenth + 1));
            let now = now + QUIET * tenth.into() / 10;
            assert_eq!(nobody.look(&mesh, now), Found::NotYet);
            assert_eq!(head.look(&mesh, now), Found::NotYet);
        }
        let (mesh, end) = (with(&["head"]), now + FIND_WAIT + QUIET / 10);
        assert!(matches!(head.look(&mesh, end), Found::One(_)));
        assert!(matches!(nobody.look(&mesh, end), Found::Nothing(sets) if sets.len() == 1));
    }

    #[test]
    fn what_others_call_their_data_sets_does_not_drive_the_terminal() {
        let mesh = with(&["a\u{1b}[31m\nb"]);
        let words = in_words(&[Arc::clone(&mesh.data_sets[0].manifest)]);
        assert_eq!(words, format!("{} (a?[31m?b)", digest(&mesh, 0)));
        assert_eq!(in_words(&[]), "none");
    }
}
