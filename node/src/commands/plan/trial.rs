//! What a picture needs of a data set, and how long it takes: a few are rendered.

use crate::session::Session;
use brickmesh_topology::{
    Manifest, PeerId, RenderSettings, View,
    balance::{
        cost_table::CostTable,
        frame_plan::{FramePlan, PlanInputs},
        plan_rules::PlanRules,
        roster::{Roster, RosterEntry},
    },
    data::brick_set::BrickSet,
    picture::{camera::Camera, visible_cells::VisibleCells},
};
use std::{
    collections::BTreeSet,
    error::Error,
    time::{Duration, Instant},
};

/// Pictures that are rendered, as far as there is time: the first ones find memory as loading has left it.
const PICTURES: u32 = 4;
/// Degrees between them.
const SPIN: f64 = 3.0;
/// No further picture is begun after that.
const TIME_MAX: Duration = Duration::from_secs(10);

/// How many bricks of a data set a picture needs.
pub(super) fn needed(
    manifest: &Manifest,
    view: &View,
    settings: &RenderSettings,
) -> Result<u32, Box<dyn Error>> {
    let all = BrickSet::all(manifest.grid().brick_count());
    let alone = RosterEntry::new(PeerId::new("alone"), all);
    let plan = FramePlan::derive(&PlanInputs {
        manifest,
        view,
        settings,
        visible: &VisibleCells::of(manifest, settings),
        roster: &Roster::new([alone]),
        costs: &CostTable::default(),
        rules: &PlanRules::default(),
        earlier: None,
    })?;
    let bricks: BTreeSet<_> = plan.jobs.iter().map(|j| j.brick).collect();
    Ok(u32::try_from(bricks.len())?)
}

/// Renders a few pictures of a level, that of the camera last; what the last one took.
pub(super) async fn pictures(
    session: &Session,
    level: usize,
    (camera, size): (&Camera, (u32, u32)),
    settings: &RenderSettings,
) -> Result<Duration, Box<dyn Error>> {
    let manifest = session.open_level(level).await?;
    let start = Instant::now();
    let mut n = 0;
    loop {
        let before = f64::from(PICTURES - 1 - n);
        let view = camera.spun(SPIN * before).view(size.0, size.1)?;
        let since = Instant::now();
        let ask = session.ask(&manifest, view, settings, PlanRules::default());
        session.frame(ask).await?;
        n += 1;
        if n == PICTURES || start.elapsed() > TIME_MAX {
            return Ok(since.elapsed());
        }
    }
}
