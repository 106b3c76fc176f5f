//! The loops of the evaluation: for every volume and path, all variants on all numbers of devices
//! see the same frames.

use super::{
    EDGE,
    camera_path::{Pose, WalkBounds, walk},
    cell_volume::{CellVolume, VolumeKind},
    parameters::Parameters,
    ray_counts::{RayCounter, SIZES},
    variants::{BRICK_EDGE, SMALL_EDGE, VARIANTS, Variant},
    virtual_cluster::{FrameTimes, Scene, VirtualCluster},
};
use crate::SimError;
use brickmesh_topology::{
    BrickGrid, VolumeDescription, VoxelType, picture::visible_cells::VisibleCells,
};
use std::ops::RangeInclusive;

/// Numbers of devices (the paper's figures 9 and 10).
pub(super) const DEVICES: RangeInclusive<usize> = 3..=8;
/// The volumes.
pub(super) const VOLUMES: [(&str, VolumeKind); 2] =
    [("filled", VolumeKind::Filled), ("jet", VolumeKind::Jet)];
/// The paths.
pub(super) const PATHS: [&str; 2] = ["near", "far"];

/// All frames of one variant in one setting.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) volume: &'static str,
    pub(super) path: &'static str,
    /// Edge of the bricks, voxels.
    pub(super) brick_edge: u32,
    pub(super) cluster: VirtualCluster,
    pub(super) frames: Vec<FrameTimes>,
}

/// Runs everything on the numbers of devices given.
pub(super) fn evaluate(
    parameters: &Parameters,
    devices: RangeInclusive<usize>,
) -> Result<Vec<Series>, SimError> {
    let wanted = |variant: &Variant, brick_edge, d| variant.has(brick_edge) && devices.contains(&d);
    let mut all = Vec::new();
    for path in PATHS {
        let poses = poses(parameters, path);
        for volume in VOLUMES {
            all.extend(evaluate_one(parameters, volume, path, &poses, wanted)?);
        }
    }
    Ok(all)
}

/// The frames of a path.
pub(super) fn poses(parameters: &Parameters, path: &str) -> Vec<Pose> {
    let distance_max = match path {
        "near" => parameters.near_distance,
        _ => parameters.far_distance,
    };
    let bounds = WalkBounds {
        edge: f64::from(EDGE),
        distance_max,
        step_max: parameters.step_max,
    };
    walk(&bounds, parameters.frames, parameters.seed)
}

/// Runs what is wanted, by variant, edge of the bricks and devices, of one volume on one path.
pub(super) fn evaluate_one(
    parameters: &Parameters,
    (volume, kind): (&'static str, VolumeKind),
    path: &'static str,
    poses: &[Pose],
    wanted: impl Fn(&Variant, u32, usize) -> bool,
) -> Result<Vec<Series>, SimError> {
    let mut settings = [
        Setting::new(parameters, volume, path, BRICK_EDGE, &wanted)?,
        Setting::new(parameters, volume, path, SMALL_EDGE, &wanted)?,
    ];
    follow(poses, kind, parameters, &mut settings);
    Ok(settings.into_iter().flat_map(|s| s.series).collect())
}

/// All series with one brick size in one volume on one path.
struct Setting {
    grid: BrickGrid,
    series: Vec<Series>,
}

fn brick_grid(brick_edge: u32) -> Result<BrickGrid, SimError> {
    BrickGrid::new([EDGE; 3], brick_edge).map_err(|e| SimError::Field {
        what: "paper",
        field: "brick".to_owned(),
        found: brick_edge.to_string(),
        expected: e.to_string(),
    })
}

impl Setting {
    /// The variants that are wanted, nothing rendered yet.
    fn new(
        parameters: &Parameters,
        volume: &'static str,
        path: &'static str,
        brick_edge: u32,
        wanted: &impl Fn(&Variant, u32, usize) -> bool,
    ) -> Result<Self, SimError> {
        let grid = brick_grid(brick_edge)?;
        // The same memory: 10 · 352³ / 256³ = 25 small bricks.
        let cube = |edge: u32| u64::from(edge).pow(3);
        let room = u64::from(parameters.room) * cube(BRICK_EDGE) / cube(brick_edge);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let both = VARIANTS.iter().flat_map(|&v| DEVICES.map(move |d| (v, d)));
        let both = both.filter(|(variant, devices)| wanted(variant, brick_edge, *devices));
        let series = both.map(|(variant, devices)| Series {
            volume,
            path,
            brick_edge,
            cluster: VirtualCluster::new(variant, &grid, devices, room, parameters.seed),
            frames: Vec::with_capacity(parameters.frames),
        });
        Ok(Self {
            series: series.collect(),
            grid,
        })
    }
}

impl Setting {
    /// Places the bricks of all series anew.
    fn place(&mut self, seed: u64) {
        for s in &mut self.series {
            s.cluster.place(&self.grid, seed);
        }
    }
}

/// Renders all poses with all series.
fn follow(
    poses: &[Pose],
    kind: VolumeKind,
    parameters: &Parameters,
    settings: &mut [Setting; SIZES],
) {
    let cells = CellVolume::new(kind);
    let volume = VolumeDescription::new([EDGE; 3], VoxelType::U16);
    let visible = [0, 1].map(|s: usize| {
        let masks = cells.visible_masks(&settings[s].grid);
        VisibleCells::from_masks(masks)
    });
    let mut counter = RayCounter::new([0, 1].map(|s: usize| settings[s].grid.edge()));
    let stretch = poses.len().div_ceil(parameters.placements).max(1) as u64;
    for (pose, frame) in poses.iter().zip(0_u64..) {
        if frame > 0 && frame.is_multiple_of(stretch) {
            let seed = parameters.seed.wrapping_add(frame / stretch);
            settings.iter_mut().for_each(|s| s.place(seed));
        }
        let view = pose.view(parameters.tangent, parameters.pixels);
        let counts = counter.count(&cells, &view, parameters.step_voxels);
        for ((setting, counts), visible) in settings.iter_mut().zip(counts).zip(&visible) {
            let scene = Scene {
                frame,
                volume: &volume,
                grid: &setting.grid,
                visible,
                view: &view,
                counts,
                model: &parameters.cost,
                fetches: kind.fetches(parameters),
                parameters,
            };
            for s in &mut setting.series {
                s.frames.push(s.cluster.render(&scene));
            }
        }
    }
}
