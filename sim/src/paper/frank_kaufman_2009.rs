//! `sim paper frank-kaufman-2009`: its tables, frame rates and figures beside ours.
//!
//! Source: Frank, Kaufman 2009, section 6. `topology`'s partitions run on regions by formula (`regions`), and what they look at and give to
//! nodes is counted; but table 1's kd-tree reads all slices for every cut, as the paper's times say. Times are those counts at prices: each table
//! has one price in seconds that is fitted to it, all others are parameters relative to it. Figures 8 and 9 are plots
//! without numbers.

mod regions;

use super::{
    PaperAnswer, PaperOptions,
    plots::{Line, plot},
    vary::{self, check, field},
};
use crate::SimError;
use brickmesh_topology::{
    VoxelBox,
    balance::partition::{
        bricking::enlarged,
        grouping::{GroupingLimits, Prices, Sending, group},
        nodes_of_cells,
        planes::{SliceCounts, grid, kd_tree},
        precedence::Precedence,
        volume_partition::STATES_MAX,
    },
    data::slab_projections::{SlabGathering, SlabProjections},
};
use regions::{SHAPES, SLICE_PIXELS, VOXEL_BYTES};
use serde::{Deserialize, Serialize};

pub(super) const NAME: &str = "frank-kaufman-2009";

/// Clusters of table 1 and figure 9.
const CLUSTERS: [usize; 4] = [8, 16, 32, 64];
/// Nodes of table 2, figure 8 and the frame rates.
const NODES: usize = 8;
/// Table 1, seconds: kd-tree, skd-tree, brick grouping.
const PARTITION_SECONDS: [[f64; 4]; 3] = [
    [792.0, 1697.0, 3508.0, 7129.0],
    [213.0, 215.0, 218.0, 221.0],
    [251.0, 252.0, 253.0, 255.0],
];
/// Table 2, seconds of each region: one node, and in parallel.
const SLICE_SECONDS: [[f64; 5]; 2] = [
    [4.7, 0.45, 109.2, 8.01, 21.03],
    [0.8, 0.34, 18.4, 1.36, 3.54],
];
/// Frames per second of the bones: skd-tree, brick grouping.
const FRAME_RATES: [f64; 2] = [1.35, 2.6];
/// Further off than that, a parameter is named.
const CLOSE: f64 = 0.15;
const BONES: usize = 2;
const GB: f64 = 1e9;

/// What the evaluation depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Parameters {
    /// Voxels of the paper along an edge of one of ours.
    coarseness: u32,
    /// Fewest and most slices of a slab, in ours (paper: silent).
    slab_min: u32,
    slab_max: u32,
    /// M (paper: silent).
    max_bricks: usize,
    /// Edges of bricks are multiples of this, in our voxels (paper: silent).
    brick_unit: u32,
    /// Taking a slice into a projection, relative to reading it (paper: silent).
    gathering: f64,
    /// Looking at a pixel of a projection, relative to reading a voxel (paper: silent).
    projected_pixel: f64,
    /// What of slice preprocessing the nodes do not share (paper: silent).
    master_share: f64,
    /// R, L and X relative to the bones' time of a frame with all voxels on one node (paper: silent).
    render: f64,
    local: f64,
    send: f64,
    cerebellum: Region,
    brain_stem: Region,
    bones: Region,
    cerebrum: Region,
    lungs: Region,
}

/// A column of table 2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Region {
    gigabytes: f64,
    empty_percent: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        let region = |gigabytes, empty_percent| Region {
            gigabytes,
            empty_percent,
        };
        Self {
            coarseness: 16,
            slab_min: 4,
            slab_max: 16,
            max_bricks: 8,
            brick_unit: 2,
            gathering: 0.8,
            projected_pixel: 1.0,
            master_share: 0.05,
            render: 1.0,
            local: 0.001,
            send: 0.05,
            cerebellum: region(3.61, 85.0),
            brain_stem: region(2.1, 90.0),
            bones: region(117.43, 81.0),
            cerebrum: region(8.7, 89.0),
            lungs: region(22.61, 82.0),
        }
    }
}

impl Parameters {
    fn new(changes: &[String]) -> Result<Self, SimError> {
        let start = Self::default();
        let all = changes
            .iter()
            .try_fold(start, |p, change| vary::varied(&p, change))?;
        check("coarseness", all.coarseness.into(), 8.0, 64.0)?;
        check("slab_min", all.slab_min.into(), 1.0, 1024.0)?;
        check("slab_max", all.slab_max.into(), all.slab_min.into(), 1024.0)?;
        check("max_bricks", float(all.max_bricks), 2.0, 64.0)?;
        check("brick_unit", all.brick_unit.into(), 1.0, 64.0)?;
        check("master_share", all.master_share, 0.0, 1.0)?;
        let prices = [
            ("gathering", all.gathering),
            ("projected_pixel", all.projected_pixel),
            ("local", all.local),
            ("send", all.send),
        ];
        for (name, price) in prices {
            check(name, price, 0.0, 1e6)?;
        }
        check("render", all.render, 1e-6, 1e6)?;
        for ((name, _), region) in SHAPES.iter().zip(all.regions()) {
            let named = |of: &str| format!("{name}.{of}");
            check(&named("gigabytes"), region.gigabytes, 0.1, 120.0)?;
            check(&named("empty_percent"), region.empty_percent, 1.0, 99.9)?;
        }
        Ok(all)
    }

    fn regions(&self) -> [Region; 5] {
        [
            self.cerebellum,
            self.brain_stem,
            self.bones,
            self.cerebrum,
            self.lungs,
        ]
    }
}

pub(super) fn listed() -> String {
    vary::listed(&Parameters::default())
}

#[derive(Serialize)]
struct Answer {
    /// Partitioning the bones, seconds.
    table_1: Vec<PartitionRow>,
    /// Slice preprocessing, seconds.
    table_2: Vec<SliceRow>,
    /// Bytes that go to the nodes: whole slices, and what is not empty of them.
    figure_2: Vec<DistributionRow>,
    /// Most data of a node, of eight.
    figure_8: Vec<DataRow>,
    /// The same of the bones on more nodes.
    figure_9: Vec<DataRow>,
    /// Of the bones on eight nodes.
    frame_rates: FrameRates,
    /// What is further off than 15 %, and the parameter that moves it.
    off: Vec<Off>,
    parameters: Parameters,
}

/// What the paper has, and what came out.
#[derive(Clone, Copy, Serialize)]
struct Cell {
    paper: f64,
    ours: f64,
    /// Ours over the paper's.
    ratio: f64,
}

#[derive(Serialize)]
struct PartitionRow {
    nodes: usize,
    /// Each cut reads all slices, as the paper's times say.
    kd_tree: Cell,
    /// Each cut reads the slices of its part, as section 4.3 says: seconds at the same price.
    kd_tree_of_parts: f64,
    skd_tree: Cell,
    brick_grouping: Cell,
    /// States of the dynamic programming, and whether no partition costs less.
    states: usize,
    is_optimal: bool,
}

#[derive(Serialize)]
struct SliceRow {
    region: &'static str,
    one_node: Cell,
    parallel: Cell,
}

#[derive(Serialize)]
struct DistributionRow {
    region: &'static str,
    whole_gb: f64,
    cropped_gb: f64,
    times_less: f64,
}

/// Gigabytes of the node with the most.
#[derive(Serialize)]
struct DataRow {
    region: &'static str,
    nodes: usize,
    grid: f64,
    skd_tree: f64,
    brick_grouping: f64,
    /// Nodes of the grid without a voxel that is not empty.
    idle_of_grid: usize,
    /// Images of the brick grouping.
    images: usize,
}

#[derive(Serialize)]
struct FrameRates {
    skd_tree: Cell,
    brick_grouping: Cell,
    /// Brick grouping over skd-tree.
    faster: Cell,
}

#[derive(Serialize)]
struct Off {
    what: String,
    ratio: f64,
    vary: &'static str,
}

/// A region, as far as the partitions see it.
struct Volume {
    slices: SliceCounts,
    projections: SlabProjections,
    dims: [u32; 3],
    /// Bytes of the paper's voxels that one of ours stands for.
    bytes: f64,
}

/// A partition, as far as the tables see it.
struct Parted {
    /// Voxels of the node with the most: of the boxes that it holds.
    largest: u64,
    images: usize,
    /// How often all projections were looked at.
    looks: usize,
    states: usize,
    is_optimal: bool,
}

/// Runs the evaluation.
pub(super) fn evaluate(options: &PaperOptions) -> Result<PaperAnswer, SimError> {
    if options.volume.is_some() {
        let expected = "this paper's volumes are given by formulas";
        return Err(field("volume", "given", expected));
    }
    let parameters = Parameters::new(&options.vary)?;
    let volumes: Vec<Volume> = SHAPES
        .iter()
        .zip(parameters.regions())
        .map(|((_, shape), region)| volume(*shape, region, &parameters))
        .collect();
    let mut of_regions = volumes
        .into_iter()
        .zip(SHAPES)
        .map(|(mut volume, (name, _))| {
            let row = data_row(name, &mut volume, NODES, &parameters)?;
            Ok((row, volume))
        })
        .collect::<Result<Vec<_>, SimError>>()?;
    let bones = &mut of_regions[BONES].1;
    let of_clusters = CLUSTERS
        .into_iter()
        .map(|nodes| data_row("bones", bones, nodes, &parameters))
        .collect::<Result<Vec<_>, SimError>>()?;
    let table_1 = table_1(bones, &of_clusters, &parameters);
    let (figure_9, parted): (Vec<DataRow>, Vec<[Parted; 2]>) = of_clusters.into_iter().unzip();
    let frame_rates = frame_rates(bones, &parted[0], &parameters);
    let mut answer = Answer {
        table_1,
        table_2: table_2(&parameters),
        figure_2: parameters
            .regions()
            .iter()
            .zip(SHAPES)
            .map(|(region, (name, _))| distribution(name, region))
            .collect(),
        figure_8: of_regions.into_iter().map(|((row, _), _)| row).collect(),
        figure_9,
        frame_rates,
        off: Vec::new(),
        parameters,
    };
    answer.off = off(&answer);
    let plots = if options.plots {
        plots(&answer)
    } else {
        Vec::new()
    };
    PaperAnswer::new(&answer, plots)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few hundred"
)]
fn volume(shape: regions::Shape, region: Region, parameters: &Parameters) -> Volume {
    let coarseness = f64::from(parameters.coarseness);
    let pixels = SLICE_PIXELS.map(|n| n.div_ceil(parameters.coarseness));
    let slices = region.gigabytes * GB / slice_bytes() / coarseness;
    let dims = [pixels[0], pixels[1], (slices.round() as u32).max(2)];
    let kept = regions::kept(shape, dims, coarseness, region.empty_percent / 100.0);
    let mut counts = SliceCounts::new(dims);
    let mut slabs = SlabGathering::new(dims, parameters.slab_min..=parameters.slab_max);
    for (z, kept) in (0..).zip(&kept) {
        counts.set_slice(z, kept);
        slabs.slice(kept);
    }
    Volume {
        slices: counts,
        projections: slabs.finish(),
        dims,
        bytes: coarseness.powi(3) * VOXEL_BYTES,
    }
}

fn slice_bytes() -> f64 {
    SLICE_PIXELS.map(f64::from).iter().product::<f64>() * VOXEL_BYTES
}

/// Most data of a node by grid, skd-tree and brick grouping, and the last two.
fn data_row(
    region: &'static str,
    volume: &mut Volume,
    nodes: usize,
    parameters: &Parameters,
) -> Result<(DataRow, [Parted; 2]), SimError> {
    let cells = grid(&mut volume.slices, nodes);
    let largest_cell = cells.iter().map(|c| c.part.voxel_count()).max();
    let trees = skd_tree(volume, nodes);
    let groups = brick_grouping(volume, nodes, parameters)?;
    let gb = |voxels: u64| voxels as f64 * volume.bytes / GB;
    let row = DataRow {
        region,
        nodes,
        grid: gb(largest_cell.unwrap_or(0)),
        skd_tree: gb(trees.largest),
        brick_grouping: gb(groups.largest),
        idle_of_grid: cells.iter().filter(|c| c.load == 0).count(),
        images: groups.images,
    };
    Ok((row, [trees, groups]))
}

/// A node holds the box of what is not empty in its region.
fn skd_tree(volume: &Volume, nodes: usize) -> Parted {
    let regions = kd_tree(&mut &volume.projections, nodes);
    let held = |part: &VoxelBox| -> u64 {
        let slabs = volume.projections.slabs.iter();
        let inside = slabs.filter(|s| part.lo[2] < s.end && s.first < part.hi[2]);
        let boxes = inside.filter_map(|slab| volume.projections.cropped(slab, part));
        let all = boxes.reduce(|a, b| VoxelBox {
            lo: std::array::from_fn(|i| a.lo[i].min(b.lo[i])),
            hi: std::array::from_fn(|i| a.hi[i].max(b.hi[i])),
        });
        all.map_or(0, |b| b.voxel_count())
    };
    Parted {
        largest: regions.iter().map(|r| held(&r.part)).max().unwrap_or(0),
        images: regions.len(),
        // Once for each level of the tree.
        looks: nodes.ilog2() as usize + 1,
        states: 0,
        is_optimal: false,
    }
}

/// A node holds the boxes of its bricks.
fn brick_grouping(
    volume: &Volume,
    nodes: usize,
    parameters: &Parameters,
) -> Result<Parted, SimError> {
    let (bricks, looks) = enlarged(
        &volume.projections,
        parameters.brick_unit,
        nodes,
        parameters.max_bricks,
    );
    let boxes: Vec<VoxelBox> = bricks.iter().map(|b| b.0).collect();
    let precedence = Precedence::of_boxes(&boxes, [1.0; 3])
        .map_err(|e| field("bricks", &e.to_string(), "an order"))?;
    // R is a brick's: of the mean one.
    let prices = Prices {
        render: parameters.render / float(bricks.len()),
        local: parameters.local,
        send: Sending::TwoTier {
            first: parameters.send,
            further: 10.0 * parameters.send,
            nodes,
        },
    };
    let limits = GroupingLimits {
        bricks_max: parameters.max_bricks,
        states_max: STATES_MAX,
        count: false,
    };
    let found = group(&precedence, &prices, &limits);
    let mut held = vec![0; nodes];
    for (cell, node) in found.cells.iter().zip(nodes_of_cells(&found.cells, nodes)) {
        held[node] += cell.iter().map(|&b| boxes[b].voxel_count()).sum::<u64>();
    }
    Ok(Parted {
        largest: held.into_iter().max().unwrap_or(0),
        images: found.cells.len(),
        looks,
        states: found.states,
        is_optimal: found.is_optimal,
    })
}

fn cell(paper: f64, ours: f64) -> Cell {
    Cell {
        paper,
        ours,
        ratio: ours / paper,
    }
}

/// The price that brings counts nearest to figures: the median of their ratios, as single figures are misprinted.
fn fitted(pairs: &[(f64, f64)]) -> f64 {
    let mut ratios: Vec<f64> = pairs.iter().map(|(paper, count)| paper / count).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let middle = ratios.len() / 2;
    if ratios.len().is_multiple_of(2) {
        f64::midpoint(ratios[middle - 1], ratios[middle])
    } else {
        ratios[middle]
    }
}

/// Table 1, in the paper's slices, at one price of reading one. A look at a projection is a look at as many pixels.
fn table_1(
    bones: &mut Volume,
    clusters: &[(DataRow, [Parted; 2])],
    parameters: &Parameters,
) -> Vec<PartitionRow> {
    let coarseness = f64::from(parameters.coarseness);
    let all = f64::from(bones.dims[2]) * coarseness;
    let pass = all * (1.0 + parameters.gathering);
    let slabs = float(bones.projections.slabs.len());
    let counts: Vec<[f64; 4]> = clusters
        .iter()
        .map(|(row, parted)| {
            bones.slices.slices_read = 0;
            drop(kd_tree(&mut bones.slices, row.nodes));
            let [trees, groups] =
                [0, 1].map(|i| pass + float(parted[i].looks) * slabs * parameters.projected_pixel);
            let of_parts = bones.slices.slices_read as f64 * coarseness;
            [float(row.nodes - 1) * all, trees, groups, of_parts]
        })
        .collect();
    let of_method = |method: usize| {
        let papers = PARTITION_SECONDS[method].into_iter();
        papers.zip(counts.iter().map(move |c| c[method]))
    };
    let pairs: Vec<(f64, f64)> = (0..3).flat_map(of_method).collect();
    let price = fitted(&pairs);
    let row = |(i, (row, parted)): (usize, &(DataRow, [Parted; 2]))| {
        let of = |method: usize| cell(PARTITION_SECONDS[method][i], counts[i][method] * price);
        PartitionRow {
            nodes: row.nodes,
            kd_tree: of(0),
            kd_tree_of_parts: counts[i][3] * price,
            skd_tree: of(1),
            brick_grouping: of(2),
            states: parted[1].states,
            is_optimal: parted[1].is_optimal,
        }
    };
    clusters.iter().enumerate().map(row).collect()
}

/// Table 2, in gigabytes, at one price a gigabyte.
fn table_2(parameters: &Parameters) -> Vec<SliceRow> {
    let shared = (1.0 - parameters.master_share) / float(NODES);
    let works = [1.0, parameters.master_share + shared];
    let bytes = parameters.regions().map(|r| r.gigabytes);
    let of_way = |way: usize| {
        let papers = SLICE_SECONDS[way].into_iter();
        papers.zip(bytes.map(|gb| gb * works[way]))
    };
    let price = fitted(&(0..2).flat_map(of_way).collect::<Vec<_>>());
    let row = |(i, (region, _)): (usize, (&'static str, _))| {
        let of = |way: usize| cell(SLICE_SECONDS[way][i], bytes[i] * works[way] * price);
        SliceRow {
            region,
            one_node: of(0),
            parallel: of(1),
        }
    };
    SHAPES.into_iter().enumerate().map(row).collect()
}

/// Figure 2: whole slices to the nodes, or what is not empty of them.
fn distribution(region: &'static str, of: &Region) -> DistributionRow {
    let kept = 1.0 - of.empty_percent / 100.0;
    DistributionRow {
        region,
        whole_gb: of.gigabytes,
        cropped_gb: of.gigabytes * kept,
        times_less: 1.0 / kept,
    }
}

/// A frame takes what the node with the most voxels takes, and sending all images but one; the price is fitted to the
/// skd-tree's rate.
fn frame_rates(bones: &Volume, parted: &[Parted; 2], parameters: &Parameters) -> FrameRates {
    let whole: f64 = bones.dims.map(f64::from).iter().product();
    let time = |p: &Parted| {
        p.largest as f64 / whole * parameters.render + float(p.images - 1) * parameters.send
    };
    let times = parted.each_ref().map(time);
    let second = 1.0 / (times[0] * FRAME_RATES[0]);
    let rate = |i: usize| 1.0 / (times[i] * second);
    FrameRates {
        skd_tree: cell(FRAME_RATES[0], rate(0)),
        brick_grouping: cell(FRAME_RATES[1], rate(1)),
        faster: cell(FRAME_RATES[1] / FRAME_RATES[0], rate(1) / rate(0)),
    }
}

/// What is further off than 15 %, with the parameter that moves it.
fn off(answer: &Answer) -> Vec<Off> {
    let mut found = Vec::new();
    let mut look = |what: String, cell: &Cell, vary| {
        if (cell.ratio - 1.0).abs() > CLOSE {
            let ratio = cell.ratio;
            found.push(Off { what, ratio, vary });
        }
    };
    for row in &answer.table_1 {
        let named = |method: &str| format!("table 1, {method}, {} nodes", row.nodes);
        look(named("kd-tree"), &row.kd_tree, "gathering");
        look(named("skd-tree"), &row.skd_tree, "gathering");
        look(
            named("brick grouping"),
            &row.brick_grouping,
            "projected_pixel",
        );
    }
    let sizes = [
        "cerebellum.gigabytes",
        "brain_stem.gigabytes",
        "bones.gigabytes",
        "cerebrum.gigabytes",
        "lungs.gigabytes",
    ];
    for (row, size) in answer.table_2.iter().zip(sizes) {
        look(
            format!("table 2, {}, one node", row.region),
            &row.one_node,
            size,
        );
        look(
            format!("table 2, {}, parallel", row.region),
            &row.parallel,
            size,
        );
    }
    let rates = &answer.frame_rates;
    look(
        "frame rate, brick grouping".to_owned(),
        &rates.brick_grouping,
        "bones.empty_percent",
    );
    found
}

fn plots(answer: &Answer) -> Vec<super::Plot> {
    type Pick<T> = (&'static str, fn(&T) -> f64);
    fn lines<T>(rows: &[T], at: impl Fn(usize, &T) -> f64, picks: &[Pick<T>]) -> Vec<Line> {
        let line = |(name, of): &Pick<T>| Line {
            name: (*name).to_owned(),
            points: rows
                .iter()
                .enumerate()
                .map(|(i, r)| (at(i, r), of(r)))
                .collect(),
        };
        picks.iter().map(line).collect()
    }
    let data: [Pick<DataRow>; 3] = [
        ("grid", |r| r.grid),
        ("skd-tree", |r| r.skd_tree),
        ("brick grouping", |r| r.brick_grouping),
    ];
    let figure_2 = lines(
        &answer.figure_2,
        |i, _| float(i + 1),
        &[
            ("whole slices", |r| r.whole_gb),
            ("cropped", |r| r.cropped_gb),
        ],
    );
    let regions = "region: cerebellum, brain stem, bones, cerebrum, lungs";
    vec![
        plot(
            "figure-2.svg".into(),
            "Figure 2: data that go to the nodes",
            [regions, "GB"],
            &figure_2,
        ),
        plot(
            "figure-8.svg".into(),
            "Figure 8: most data of a node, of eight",
            [regions, "GB"],
            &lines(&answer.figure_8, |i, _| float(i + 1), &data),
        ),
        plot(
            "figure-9.svg".into(),
            "Figure 9: most data of a node, bones",
            ["nodes", "GB"],
            &lines(&answer.figure_9, |_, r| float(r.nodes), &data),
        ),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn float(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn run(vary: &[&str]) -> Result<(Value, usize), SimError> {
        let answer = evaluate(&PaperOptions {
            paper: NAME.to_owned(),
            vary: vary.iter().map(|v| (*v).to_owned()).collect(),
            plots: true,
            ..PaperOptions::default()
        })?;
        let json = serde_json::from_str(&answer.json).unwrap();
        Ok((json, answer.plots.len()))
    }

    #[test]
    fn what_is_off_is_what_the_paper_contradicts_itself_in() {
        let (out, plots) = run(&["coarseness=32", "slab_min=2", "slab_max=8"]).unwrap();
        assert_eq!(plots, 3);
        let off = out["off"].as_array().unwrap().iter();
        let off: Vec<&str> = off.map(|o| o["what"].as_str().unwrap()).collect();
        let of_table_2: Vec<&str> = off
            .iter()
            .copied()
            .filter(|o| o.contains("table 2"))
            .collect();
        let expected = [
            "table 2, cerebellum, one node",
            "table 2, cerebellum, parallel",
            "table 2, brain_stem, one node",
        ];
        assert_eq!(of_table_2, expected);
        // Slices that were looked at: those of a part are fewer than all for each cut, more than one pass.
        for row in out["table_1"].as_array().unwrap() {
            let all = row["kd_tree"]["ours"].as_f64().unwrap();
            let of_parts = row["kd_tree_of_parts"].as_f64().unwrap();
            let pass = all / (row["nodes"].as_f64().unwrap() - 1.0);
            assert!(of_parts < 0.7 * all && of_parts > 3.0 * pass, "{row}");
        }
        for row in out["figure_8"].as_array().unwrap() {
            let of = |method: &str| row[method].as_f64().unwrap();
            assert!(
                of("brick_grouping") < of("grid") && of("skd_tree") < of("grid"),
                "{row}"
            );
        }
    }

    #[test]
    fn bad_options_are_named() {
        let text = |vary: &str| run(&[vary]).unwrap_err().to_string();
        assert!(text("coarseness=2").contains("coarseness is 2; it must be 8 to 64"));
        assert!(text("slab_max=2").contains("slab_max is 2; it must be 4 to"));
        assert!(text("bones.gigabytes=0").contains("bones.gigabytes is 0"));
        assert!(text("speed=1").contains("no such parameter"));
    }
}
