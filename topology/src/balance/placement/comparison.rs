//! Placements compared: what a frame takes by each of them and by how many copies, on a mesh of these devices, for a volume that is
//! seen from all sides.
//!
//! Shapes: a data set, what is to be seen of it, D devices with room and speed, prices of the links; out, a row a
//! placement. Times are those of the plan that peers follow: rendering as it expects it, and what each peer sends and gets.
//!
//! Source: the question is that of Frank, Kaufman 2009, section 3.1 (slowest renderer plus images that are sent); theirs is
//! for equal nodes, one copy and eight directions, with one price a brick.

use super::{partitioned::place_partition, place_at_once, shares};
use crate::{
    balance::{
        cost_table::CostTable,
        frame_plan::{FramePlan, PlanInputs},
        partition::PartitionMethod,
        plan_rules::PlanRules,
        roster::{Roster, RosterEntry},
        schedule::SPEED_ONE,
    },
    base::peer::PeerId,
    data::{brick_set::BrickSet, manifest::Manifest},
    picture::{
        camera::View, depth_order::NotSeparable, render_settings::RenderSettings,
        visible_cells::VisibleCells,
    },
};

/// The partitions that a mesh can place a data set by, in the order that ties are broken in.
pub const PLACED_PARTITIONS: [PartitionMethod; 5] = [
    PartitionMethod::KdTree,
    PartitionMethod::SlabsMinMax,
    PartitionMethod::SlabsLeastSquares,
    PartitionMethod::SlabsEqual,
    PartitionMethod::Grid,
];

/// A device of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedDevice {
    /// Bricks that it has room for.
    pub room: u32,
    /// Its speed in millionths.
    pub speed_millionths: u64,
}

/// What it costs to send an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExchangePrices {
    /// A pixel on a device's link, microseconds.
    pub pixel_micros: f64,
    /// An image, however small, for who sends and for who gets it, microseconds.
    pub image_micros: f64,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonInputs<'a> {
    /// The data set.
    pub manifest: &'a Manifest,
    /// What is to be seen.
    pub settings: &'a RenderSettings,
    /// From where; what a placement is judged by is the mean over these.
    pub views: &'a [View],
    /// The devices.
    pub devices: &'a [ComparedDevice],
    /// The links.
    pub prices: ExchangePrices,
    /// Most copies of a brick that are looked at.
    pub copies_max: u32,
    /// What jobs cost, as far as it was measured; an empty one: by their samples.
    pub costs: &'a CostTable,
}

/// A placement, and what frames take by it.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedPlacement {
    /// `None`: scattered, as many copies.
    pub method: Option<PartitionMethod>,
    /// Copies of each brick.
    pub copies: u32,
    /// Time of the busiest device over the mean, rendering only, mean over the views.
    pub max_over_mean: f64,
    /// Most bytes of voxels on a device.
    pub bytes_max: u64,
    /// Images that go from one device to another, mean over the views.
    pub images: f64,
    /// Pixels of them.
    pub pixels: f64,
    /// Time of a frame, microseconds, mean over the views.
    pub frame_micros: f64,
    /// The longest frame.
    pub frame_micros_max: f64,
}

/// A row for each placement that fits, by copies, scattered ones first; each is worked out when it is asked for.
///
/// # Errors
/// As [`FramePlan::derive`].
pub fn compare<'a>(
    inputs: &'a ComparisonInputs<'_>,
) -> impl Iterator<Item = Result<ComparedPlacement, NotSeparable>> + 'a {
    let grid = inputs.manifest.grid();
    let rooms: Vec<u32> = inputs.devices.iter().map(|d| d.room).collect();
    let visible = VisibleCells::of(inputs.manifest, inputs.settings);
    let weights = inputs.manifest.occupied_voxels();
    let copies = 1..=copies_of(inputs.copies_max, inputs.devices);
    let room: u64 = rooms
        .iter()
        .map(|&r| u64::from(r.min(grid.brick_count())))
        .sum();
    let fits = move |copies: &u32| room >= u64::from(*copies) * u64::from(grid.brick_count());
    let methods = || [None].into_iter().chain(PLACED_PARTITIONS.map(Some));
    let all = copies.take_while(fits);
    let all = all.flat_map(move |copies| methods().map(move |method| (copies, method)));
    all.filter_map(move |(copies, method)| {
        let held = match method {
            Some(method) => place_partition(grid, &weights, &rooms, method, copies)?,
            None => place_at_once(grid, &shares(grid.brick_count(), &rooms, copies), SEED),
        };
        Some(row(inputs, &visible, method, copies, held))
    })
}

/// Copies that can be held of a brick, of so many that are wanted.
fn copies_of(wanted: u32, devices: &[ComparedDevice]) -> u32 {
    let devices = devices.iter().filter(|d| d.room > 0).count();
    wanted.min(u32::try_from(devices).unwrap_or(u32::MAX))
}

/// The row whose frames take least, the first of equals; `None`: there is no row.
#[must_use]
pub fn best(rows: &[ComparedPlacement]) -> Option<&ComparedPlacement> {
    rows.iter()
        .min_by(|a, b| a.frame_micros.total_cmp(&b.frame_micros))
}

/// How a mesh should place a data set of which `wanted` copies are wanted: as the best row with so many, or with one on each device;
/// `None`: scattered, also where that many have no room.
#[must_use]
pub fn chosen(
    rows: &[ComparedPlacement],
    wanted: u32,
    devices: &[ComparedDevice],
) -> Option<PartitionMethod> {
    let copies = copies_of(wanted, devices);
    let of_copies: Vec<ComparedPlacement> = rows
        .iter()
        .filter(|r| r.copies == copies)
        .cloned()
        .collect();
    best(&of_copies)?.method
}

/// Any: where scattered bricks go is decided by the data set's digest, which changes nothing on average.
const SEED: u64 = 1;

fn row(
    inputs: &ComparisonInputs<'_>,
    visible: &VisibleCells,
    method: Option<PartitionMethod>,
    copies: u32,
    held: Vec<BrickSet>,
) -> Result<ComparedPlacement, NotSeparable> {
    let manifest = inputs.manifest;
    let bytes = |held: &BrickSet| held.iter().map(|b| manifest.brick_bytes(b)).sum::<u64>();
    let bytes_max = held.iter().map(bytes).max().unwrap_or(0);
    let entries = held.into_iter().zip(inputs.devices).enumerate();
    // Names that sort as the devices do.
    let roster = Roster::new(entries.map(|(n, (bricks, device))| RosterEntry {
        speed_millionths: device.speed_millionths,
        ..RosterEntry::new(PeerId::new(&format!("{n:06}")), bricks)
    }));
    let frames = inputs
        .views
        .iter()
        .map(|view| {
            let plan = FramePlan::derive(&PlanInputs {
                manifest,
                view,
                settings: inputs.settings,
                visible,
                roster: &roster,
                costs: inputs.costs,
                rules: &PlanRules::default(),
                earlier: None,
            })?;
            Ok(Frame::of(&plan, inputs.prices))
        })
        .collect::<Result<Vec<Frame>, NotSeparable>>()?;
    let mean = |of: fn(&Frame) -> f64| {
        frames.iter().map(of).sum::<f64>() / float(frames.len().max(1) as u64)
    };
    Ok(ComparedPlacement {
        method,
        copies,
        max_over_mean: mean(|f| f.max_over_mean),
        bytes_max,
        images: mean(|f| float(f.images)),
        pixels: mean(|f| float(f.pixels)),
        frame_micros: mean(|f| f.micros),
        frame_micros_max: frames.iter().map(|f| f.micros).fold(0.0, f64::max),
    })
}

struct Frame {
    max_over_mean: f64,
    images: u64,
    pixels: u64,
    micros: f64,
}

impl Frame {
    fn of(plan: &FramePlan, prices: ExchangePrices) -> Self {
        let speed = |d: usize| float(plan.speeds[d].max(1)) / float(SPEED_ONE);
        let mut micros: Vec<f64> = plan
            .schedule
            .loads_micros
            .iter()
            .map(|&l| float(l))
            .collect();
        // Work over all speeds: what every device would take if it were shared evenly.
        let work: f64 = micros.iter().enumerate().map(|(d, m)| m * speed(d)).sum();
        let even = work / (0..micros.len()).map(speed).sum::<f64>();
        let busiest = micros.iter().copied().fold(0.0, f64::max);
        let (mut images, mut pixels) = (0_u64, 0_u64);
        let by = |j: usize| plan.jobs[j].renderer.unwrap_or(usize::MAX);
        for (t, tile) in plan.tiles.iter().enumerate() {
            plan.tile_jobs.each_run(t, by, |from, around| {
                if from == tile.compositor {
                    return;
                }
                let count = around.pixel_count() as u64;
                images += 1;
                pixels += count;
                let price = float(count) * prices.pixel_micros + prices.image_micros;
                micros[from] += price;
                micros[tile.compositor] += price;
            });
        }
        Self {
            max_over_mean: if even > 0.0 { busiest / even } else { 1.0 },
            images,
            pixels,
            micros: micros.into_iter().fold(0.0, f64::max),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times and counts far below 2^53"
)]
fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Camera, TransferFunction, VolumeDescription, VoxelType, data::manifest::ManifestParts,
    };

    /// 8³ bricks; only those at low y have something in them.
    fn manifest() -> Manifest {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let parts = ManifestParts::cut(volume, 8, "test", |stored| {
            let [nx, ny, nz] = stored.size();
            let value = |i: u32| {
                if stored.lo[1] + i / nx % ny < 16 {
                    200
                } else {
                    0
                }
            };
            (0..nx * ny * nz).map(value).collect()
        });
        let mut parts = parts.unwrap();
        // Bricks are 8 on each axis, x fastest.
        let kept = |brick: u32| if brick / 8 % 8 < 2 { 512 } else { 0 };
        parts.kept_voxels = Some((0..512).map(kept).collect());
        Manifest::try_from(parts).unwrap()
    }

    fn compared(
        devices: &[ComparedDevice],
        pixel_micros: f64,
        copies_max: u32,
    ) -> Vec<ComparedPlacement> {
        let manifest = manifest();
        let settings = RenderSettings::new(TransferFunction::ramp(100.0, 255.0), 0.5);
        let camera = Camera::whole(manifest.volume());
        let views = [0.0, 90.0].map(|d| camera.spun(d).view(256, 256).unwrap());
        compare(&ComparisonInputs {
            manifest: &manifest,
            settings: &settings,
            views: &views,
            devices,
            prices: ExchangePrices {
                pixel_micros,
                image_micros: 0.0,
            },
            copies_max,
            costs: &CostTable::default(),
        })
        .map(Result::unwrap)
        .collect()
    }

    fn of(
        rows: &[ComparedPlacement],
        method: Option<PartitionMethod>,
        copies: u32,
    ) -> &ComparedPlacement {
        let is_it = |r: &&ComparedPlacement| r.method == method && r.copies == copies;
        rows.iter().find(is_it).unwrap()
    }

    const DEVICE: ComparedDevice = ComparedDevice {
        room: 512,
        speed_millionths: SPEED_ONE,
    };

    #[test]
    fn dear_links_favour_parts_and_copies_favour_scattering() {
        let rows = compared(&[DEVICE; 4], 0.0, 4);
        assert_eq!(rows.len(), 4 * 6);
        let (grid, tree) = (Some(PartitionMethod::Grid), Some(PartitionMethod::KdTree));
        // Half of the grid's cells are empty, whatever the links.
        assert!(of(&rows, grid, 1).max_over_mean > 1.9);
        let (of_tree, of_grid) = (of(&rows, tree, 1), of(&rows, grid, 1));
        assert!(
            of_tree.max_over_mean < 0.8 * of_grid.max_over_mean,
            "{of_tree:?} {of_grid:?}"
        );
        let images = |method, copies| of(&rows, method, copies).images;
        assert!(images(tree, 1) < 0.5 * images(None, 1));
        assert!(of(&rows, None, 4).max_over_mean <= of(&rows, None, 1).max_over_mean + 1e-9);
        assert!(of(&rows, None, 4).bytes_max > 3 * of(&rows, None, 1).bytes_max);
        let dear = compared(&[DEVICE; 4], 10.0, 1);
        assert!(of(&dear, tree, 1).frame_micros < of(&dear, None, 1).frame_micros);
    }

    #[test]
    fn fast_devices_get_more_where_there_are_copies() {
        let fast = ComparedDevice {
            speed_millionths: 3 * SPEED_ONE,
            ..DEVICE
        };
        let rows = compared(&[fast, DEVICE], 0.0, 2);
        assert!(of(&rows, None, 2).max_over_mean < 1.1);
        assert!(of(&rows, None, 1).max_over_mean > 1.5);
    }

    #[test]
    fn what_is_chosen_has_the_copies_that_are_wanted() {
        let devices = [DEVICE; 4];
        let rows = compared(&devices, 10.0, 2);
        let method = chosen(&rows, 2, &devices);
        let is_it = |r: &ComparedPlacement| r.method == method && r.copies == 2;
        assert!(method.is_some() && rows.iter().any(is_it));
        // Room for one copy and a half: two are scattered as far as they go.
        let small = [ComparedDevice {
            room: 192,
            ..DEVICE
        }; 4];
        let rows = compared(&small, 10.0, 2);
        assert!(best(&rows).unwrap().method.is_some());
        assert_eq!(chosen(&rows, 2, &small), None);
        assert_eq!(chosen(&rows, 1, &small), best(&rows).unwrap().method);
    }

    #[test]
    fn what_has_no_room_is_no_row() {
        let small = ComparedDevice {
            room: 200,
            ..DEVICE
        };
        assert!(compared(&[small; 2], 0.0, 2).is_empty());
        assert!(compared(&[small; 3], 0.0, 2).iter().all(|r| r.copies == 1));
    }
}
