//! Following: this viewer's camera for those who follow it, and that of the viewer that it follows.

use super::{Told, Wanted, panes::Pane};
use crate::session::{Session, SessionError};
use brickmesh_actors::brick_owner::MeshStatus;
use brickmesh_topology::{Camera, PeerId, mesh::followers::Viewpoint};
use std::time::Duration;
use tokio::sync::watch;

/// Between two cameras that followers are told.
const EVERY: Duration = Duration::from_millis(16);
/// How often a viewer is asked; it tells of changes in between.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// So often a viewer may be asked before it is said that it does not answer.
const ASKED_MAX: u32 = 4;

/// Tells the camera of the picture to who follows this viewer, until the window is gone.
///
/// # Errors
/// The session has ended.
pub(super) async fn show(
    session: &Session,
    opened: u32,
    mut wanted: watch::Receiver<Wanted>,
) -> Result<(), SessionError> {
    let camera = |w: &Wanted| -> Option<Camera> {
        let is_it = |p: &&super::Wish| p.pane == Pane::Volume && p.opened == opened;
        Some(w.pictures.iter().find(is_it)?.seen.camera)
    };
    let mut shown = None;
    loop {
        let moved = wanted.wait_for(|w| camera(w).is_some_and(|c| shown != Some(c)));
        let Ok(now) = moved.await.map(|w| camera(&w)) else {
            return Ok(());
        };
        if let Some(camera) = now {
            session.show_camera(camera).await?;
        }
        shown = now;
        tokio::time::sleep(EVERY).await;
    }
}

/// Follows the viewers that are asked for, one after the other, until the window is gone; `tell`: the window.
///
/// # Errors
/// The session has ended.
pub(super) async fn follow(
    session: &Session,
    mut wanted: watch::Receiver<Wanted>,
    tell: impl Fn(Told),
) -> Result<(), SessionError> {
    loop {
        let asked = wanted.wait_for(|w| w.follow.is_some()).await;
        let Ok(Some(name)) = asked.map(|w| w.follow.clone()) else {
            return Ok(());
        };
        let ends = wanted.wait_for(|w| w.follow.as_ref() != Some(&name));
        tokio::select! {
            ended = ends => if ended.is_err() {
                return Ok(());
            },
            never = follow_one(session, &name, &tell) => return never,
        }
    }
}

/// Ends only where the session has.
async fn follow_one(
    session: &Session,
    name: &str,
    tell: &impl Fn(Told),
) -> Result<(), SessionError> {
    let (mut to, mut come) = watch::channel(None);
    let (mut followed, mut trouble, mut asked) = (None, None, 0);
    loop {
        let status = session.status().await?;
        let why = match viewer(&status, session.local(), name) {
            Ok(viewer) => {
                if followed.as_ref() != Some(&viewer) {
                    // What another one of this name has shown is forgotten.
                    (to, come) = watch::channel(None);
                    (followed, asked) = (Some(viewer.clone()), 0);
                }
                session.follow(viewer, to.clone()).await?;
                asked += 1;
                let is_silent = come.borrow().is_none() && asked > ASKED_MAX;
                is_silent.then(|| format!("{name} shows nothing that could be followed"))
            }
            Err(why) => Some(why),
        };
        let why = why.or_else(|| {
            let shown: &Option<Viewpoint> = &come.borrow();
            let is_other = shown.is_some_and(|v| v.data_set != session.data_set());
            is_other.then(|| format!("{name} shows another volume"))
        });
        if why != trouble {
            if let Some(why) = &why {
                tell(Told::NotFollowed(format!("{why}; it is waited for")));
            }
            trouble = why;
        }
        let until = tokio::time::Instant::now() + ASK_AGAIN;
        while let Ok(Ok(())) = tokio::time::timeout_at(until, come.changed()).await {
            let seen = *come.borrow_and_update();
            if let Some(seen) = seen.filter(|v| v.data_set == session.data_set()) {
                tell(Told::Viewpoint(seen.camera));
            }
        }
    }
}

/// The viewer of this name, beside this one; of several one that answers.
fn viewer(status: &MeshStatus, own: &PeerId, name: &str) -> Result<PeerId, String> {
    let viewers = status.peers.iter();
    let viewers = viewers.filter(|(id, hello)| hello.is_viewer && *id != own);
    let named = viewers.clone().filter(|(_, hello)| hello.name == name);
    let (silent, answering): (Vec<&PeerId>, Vec<&PeerId>) = named
        .map(|(id, _)| id)
        .partition(|id| status.suspects.contains(id));
    match answering[..] {
        [one] => Ok(one.clone()),
        [] if !silent.is_empty() => Err(format!("{name} does not answer")),
        [] => {
            let known: Vec<&str> = viewers.map(|(_, hello)| hello.name.as_str()).collect();
            let known = match known.len() {
                0 => "no other viewer".to_owned(),
                _ => known.join(", "),
            };
            Err(format!("no viewer is called {name}; there is {known}"))
        }
        _ => Err(format!(
            "{} viewers are called {name}; `view --name` gives each a name of its own",
            answering.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::status;

    #[test]
    fn a_viewer_is_found_by_its_name_among_viewers() {
        let mut status = status();
        let own = PeerId::new("a");
        let look = |status: &MeshStatus, name| viewer(status, &own, name);
        let name = status.peers[&PeerId::new("b")].name.clone();
        // It has no window.
        let why = look(&status, &name).unwrap_err();
        assert!(why.contains("there is no other viewer"), "{why}");
        for hello in status.peers.values_mut() {
            hello.is_viewer = true;
        }
        let why = look(&status, &name).unwrap_err();
        assert!(why.contains("does not answer"), "{why}");
        let silent = std::mem::take(&mut status.suspects);
        assert_eq!(look(&status, &name), Ok(PeerId::new("b")));
        let own_name = status.peers[&own].name.clone();
        assert!(look(&status, &own_name).is_err());
        for hello in status.peers.values_mut() {
            hello.name = name.clone();
        }
        let why = look(&status, &name).unwrap_err();
        assert!(why.contains("2 viewers are called"), "{why}");
        // The one that was started again, while the other is not forgotten yet.
        status.suspects = silent;
        assert_eq!(look(&status, &name), Ok(PeerId::new("c")));
    }
}
