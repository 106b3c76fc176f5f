//! `sim paper demarle-2005`: ray tracing out of shared memory on a virtual cluster, the paper's tables and figures beside ours.
//!
//! Source: DeMarle, Gribble, Boulos, Parker, "Memory sharing for interactive ray tracing on clusters", 2005. It prints tables 1 to 3,
//! the mean rates of figure 5 and the bound of section 4.4; figures 8, 10 and 12 are plots without numbers, of which it says how the
//! curves lie. Its volumes and meshes are stand-ins by formula here (`scene`); times are a model's (`cluster`). Accesses, misses and
//! who renders what are counted.
//!
//! The paper contradicts itself: 3,279,000 accesses of 10.2 µs (table 1) would take 33 s, and table 2 says 8.7 s a frame. An access
//! costs here what the first two rows of table 2 say together, and a pixel what is left.

mod access;
mod cluster;
mod memory;
mod scene;

use super::{
    PaperAnswer, PaperOptions,
    plots::{Line, Plot, plot},
    vary::{self, check},
};
use crate::SimError;
use cluster::{Cluster, Frames, Prices, Sharing, float};
use memory::Policy;
use scene::{Eye, Field, Mesh, Order, PICTURE, Shape, TILES, TileNeeds, Volume};
use serde::{Deserialize, Serialize};

pub(super) const NAME: &str = "demarle-2005";

/// What the evaluation depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Parameters {
    /// Pictures of a path (paper: silent; its sessions have some 700 frames).
    views: u32,
    /// Frames for which each is shown.
    repeats: u32,
    /// Rays on each axis that are followed, of 512.
    rays: u32,
    /// Cells on an axis of the smallest macrocells (paper: silent).
    macrocell: u32,
    /// Voxels on an axis of a block (paper: blocks of 32 KiB, of bytes).
    block: u32,
    /// Width of the picture in edges of the volume, as long as all of it is seen (paper: silent).
    width: f64,
    /// How high the waves of the surfaces are (paper: silent; what rays go through before they hit).
    roughness: f64,
    /// Nodes that render (paper: 31).
    nodes: u32,
    /// Memory of a node for its own blocks and its cache, MiB (paper: nodes of 1 GiB).
    node_mib: f64,
    /// An acquire and release of a block that is there, microseconds; see the module.
    acquire_micros: f64,
    /// The same with consolidated access, which lists the blocks first: what table 2 says is left.
    consolidated_micros: f64,
    /// A pixel where nothing is shared, microseconds; see the module.
    pixel_micros: f64,
    /// A pixel of a tile in which nothing is looked at, of one where something is.
    empty_share: f64,
    /// What a volume takes longer where pages are mapped than where it is replicated, of a pixel (figure 5's later frames: little).
    page_share: f64,
    /// A missed block, microseconds (table 1).
    miss_micros: f64,
    /// A message, microseconds (section 4.4: 34 frames a second at most).
    latency_micros: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            views: 48,
            repeats: 15,
            rays: 128,
            macrocell: 14,
            block: 32,
            width: 1.0,
            roughness: 8.0,
            nodes: 31,
            node_mib: 940.0,
            acquire_micros: 2.58,
            consolidated_micros: 6.63,
            pixel_micros: 28.4,
            empty_share: 0.25,
            page_share: 0.02,
            miss_micros: 630.0,
            latency_micros: 14.4,
        }
    }
}

impl Parameters {
    fn new(changes: &[String]) -> Result<Self, SimError> {
        let start = Self::default();
        let all = changes
            .iter()
            .try_fold(start, |p, change| vary::varied(&p, change))?;
        check("views", all.views.into(), 4.0, 1000.0)?;
        check("repeats", all.repeats.into(), 1.0, 100.0)?;
        let (tiles, picture) = (TILES.into(), PICTURE.into());
        check("rays", all.rays.into(), tiles, picture)?;
        if !PICTURE.is_multiple_of(all.rays) {
            let expected = format!("it must divide {PICTURE}");
            return Err(vary::field("rays", &all.rays.to_string(), &expected));
        }
        check("macrocell", all.macrocell.into(), 2.0, 64.0)?;
        check("block", all.block.into(), 4.0, 128.0)?;
        check("width", all.width, 0.01, 100.0)?;
        check("roughness", all.roughness, 0.0, 100.0)?;
        check("nodes", all.nodes.into(), 1.0, 256.0)?;
        check("node_mib", all.node_mib, 1.0, 1e6)?;
        check("acquire_micros", all.acquire_micros, 0.0, 1e6)?;
        check("consolidated_micros", all.consolidated_micros, 0.0, 1e6)?;
        check("pixel_micros", all.pixel_micros, 0.0, 1e6)?;
        check("empty_share", all.empty_share, 0.0, 1.0)?;
        check("page_share", all.page_share, 0.0, 100.0)?;
        check("miss_micros", all.miss_micros, 0.0, 1e9)?;
        check("latency_micros", all.latency_micros, 0.001, 1e6)?;
        Ok(all)
    }

    fn block_bytes(&self) -> f64 {
        f64::from(self.block).powi(3)
    }

    /// Prices where an acquire costs so much, microseconds, and a pixel so many times.
    fn prices(&self, acquire_micros: f64, pixels: f64) -> Prices {
        Prices {
            pixel: nanos(self.pixel_micros * pixels),
            empty_pixel: nanos(self.pixel_micros * pixels * self.empty_share),
            acquire: nanos(acquire_micros),
            miss: nanos(self.miss_micros),
            latency: nanos(self.latency_micros),
        }
    }

    /// Rays that one stands for.
    fn scale(&self) -> u64 {
        u64::from(PICTURE / self.rays).pow(2)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded by their checks"
)]
fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}

pub(super) fn listed() -> String {
    vary::listed(&Parameters::default())
}

/// What the paper has, and what came out.
#[derive(Serialize)]
struct Beside {
    paper: f64,
    ours: f64,
    ratio: f64,
}

impl Beside {
    fn new(paper: f64, ours: f64) -> Self {
        let ratio = ours / paper;
        Self { paper, ours, ratio }
    }
}

#[derive(Serialize)]
struct Answer {
    table_2: Vec<AccessRow>,
    table_3: Vec<ScalingRow>,
    figure_5: Vec<SharingRow>,
    /// The frame rates of `figure_5` that are not printed, by frame.
    figure_5_frames: Vec<[f64; 3]>,
    figure_8: Vec<OrderRow>,
    figure_10: Vec<StrategyRow>,
    figure_12: Vec<RateRow>,
    /// Frames a second that messages allow, with a queue at the supervisor.
    bound: Beside,
    /// Misses of a node and frame by policy of eviction: 960 MB on 8 nodes with a tenth of the data cached.
    policies: Vec<PolicyRow>,
    parameters: Parameters,
}

#[derive(Serialize)]
struct AccessRow {
    access: access::Access,
    /// Of a node and frame.
    accesses: Beside,
    /// How many times as many as with `many`.
    times_many: Beside,
    frames_per_second: Beside,
}

#[derive(Serialize)]
struct ScalingRow {
    megabytes: u32,
    nodes: u32,
    /// Of a node and frame.
    accesses: Beside,
    misses: Beside,
}

#[derive(Serialize)]
struct SharingRow {
    memory: &'static str,
    frames_per_second: Beside,
    /// Of what replication gives.
    share: Beside,
}

#[derive(Serialize)]
struct OrderRow {
    memory_mib: f64,
    order: Order,
    misses: f64,
    frames_per_second: f64,
}

#[derive(Serialize)]
struct StrategyRow {
    memory_mib: f64,
    sharing: Sharing,
    misses: f64,
    frames_per_second: f64,
    /// Busiest node over the mean.
    imbalance: f64,
    /// Share of the tiles that another node had in the frame before (figure 9).
    moved: f64,
}

#[derive(Serialize)]
struct RateRow {
    megabytes: u32,
    nodes: u32,
    frames_per_second: f64,
}

#[derive(Serialize)]
struct PolicyRow {
    policy: Policy,
    misses: f64,
}

/// What each tile of each picture of a path needs.
type Path = Vec<Vec<TileNeeds>>;

/// A session: first all of it is seen, on the way around it, then a part.
fn path(parameters: &Parameters, needs: impl Fn(Eye) -> Vec<TileNeeds>) -> Path {
    let views = parameters.views;
    let eye = |view: u32| {
        let at = f64::from(view) / f64::from(views);
        Eye {
            // Along no axis of the volume.
            turns: 0.103_7 + 0.8 * at,
            width: parameters.width * (1.0 - 1.6 * (at - 0.5).clamp(0.0, 0.4)),
        }
    };
    (0..views).map(|view| needs(eye(view))).collect()
}

/// What runs share: the parameters, and all nodes.
struct Bench<'a> {
    parameters: &'a Parameters,
}

/// Index of consolidated access in [`TileNeeds::acquires`].
const MANY: usize = 2;

impl Bench<'_> {
    fn path(&self, shape: Shape, edge: u32) -> Path {
        let volume = self.volume(shape, edge);
        path(self.parameters, |eye| {
            volume.needs(eye, self.parameters.rays)
        })
    }

    fn volume(&self, shape: Shape, edge: u32) -> Volume {
        Volume {
            field: Field {
                shape,
                roughness: self.parameters.roughness,
            },
            edge,
            macrocell: self.parameters.macrocell,
            block: self.parameters.block,
        }
    }

    fn run(&self, path: &Path, cluster: Cluster, access: usize) -> Frames {
        let scale = self.parameters.scale();
        cluster.run(path, self.parameters.repeats as usize, (access, scale))
    }

    /// Nodes with so much memory for others' blocks, MiB, each of so many bytes.
    fn cluster(&self, nodes: u32, (cache_mib, block_bytes): (f64, f64), prices: Prices) -> Cluster {
        Cluster {
            nodes,
            capacity: places(cache_mib * MIB / block_bytes),
            policy: Policy::Lru,
            sharing: Sharing::Demand,
            prices,
        }
    }

    /// What is left of so much memory of a node of so many for a cache, MiB, where there are so many blocks, and their bytes.
    fn cache(&self, memory_mib: f64, blocks: u32, nodes: u32) -> (f64, f64) {
        let bytes = self.parameters.block_bytes();
        (cache_mib(memory_mib, (blocks, bytes), nodes), bytes)
    }

    /// All nodes, with so much memory each, MiB, for a mesh whose pages are mapped.
    fn mesh_cluster(&self, mesh: &Mesh, memory_mib: f64) -> Cluster {
        let p = self.parameters;
        let bytes = float(mesh.block_bytes);
        let cache = cache_mib(memory_mib, (mesh.blocks(), bytes), p.nodes);
        self.cluster(p.nodes, (cache, bytes), p.prices(0.0, 1.0 + p.page_share))
    }

    /// Acquires of a node and frame.
    fn accesses(&self, path: &Path, access: usize, nodes: u32) -> f64 {
        let all: u64 = path.iter().flatten().map(|t| t.acquires[access]).sum();
        float(all * self.parameters.scale()) / float(path.len() as u64) / f64::from(nodes)
    }
}

const MIB: f64 = 1_048_576.0;

/// What a node has left of its memory where its own blocks of so many are in it, MiB.
fn cache_mib(memory_mib: f64, (blocks, bytes): (u32, f64), nodes: u32) -> f64 {
    let own = f64::from(blocks) / f64::from(nodes) * bytes / MIB;
    (memory_mib - own).max(0.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of blocks"
)]
fn places(blocks: f64) -> usize {
    blocks.max(0.0) as usize
}

/// Megabytes as the paper says them, and voxels on an axis.
const SIZES: [(u32, u32); 3] = [(120, 496), (960, 992), (8000, 1984)];
/// Nodes of tables and figures.
const NODES: [u32; 3] = [8, 16, 31];

/// Runs the evaluation.
///
/// # Errors
/// Where a parameter is out of bounds, or a volume is given.
pub(super) fn evaluate(options: &PaperOptions) -> Result<PaperAnswer, SimError> {
    if options.volume.is_some() {
        let expected = "this paper's volumes are given by formulas";
        return Err(vary::field("volume", "given", expected));
    }
    let parameters = Parameters::new(&options.vary)?;
    let bench = Bench {
        parameters: &parameters,
    };
    let paths = SIZES.map(|(_, edge)| bench.path(Shape::Layer, edge));
    let (table_3, figure_12) = scaling(&bench, &paths);
    let (figure_5, figure_5_frames) = sharing(&bench);
    let bound = 1e6 / (2.0 * parameters.latency_micros * f64::from(TILES * TILES));
    let answer = Answer {
        table_2: consolidation(&bench, &paths[2]),
        table_3,
        figure_5,
        figure_5_frames,
        figure_8: orders(&bench),
        figure_10: strategies(&bench),
        figure_12,
        bound: Beside::new(34.0, bound),
        policies: policies(&bench, &paths[1]),
        parameters: parameters.clone(),
    };
    let plots = if options.plots {
        plots(&answer)
    } else {
        Vec::new()
    };
    PaperAnswer::new(&answer, plots)
}

/// Table 2: 7.5 GB on all nodes, by pattern of access.
fn consolidation(bench: &Bench<'_>, path: &Path) -> Vec<AccessRow> {
    let p = bench.parameters;
    let printed = [(3_279_000.0, 0.1149), (453_400.0, 0.709), (53_290.0, 1.686)];
    let micros = [p.acquire_micros, p.acquire_micros, p.consolidated_micros];
    let blocks = bench.volume(Shape::Layer, SIZES[2].1).blocks();
    let row = |k: usize| {
        let accesses = |k| bench.accesses(path, k, p.nodes);
        let cache = bench.cache(p.node_mib, blocks, p.nodes);
        let cluster = bench.cluster(p.nodes, cache, p.prices(micros[k], 1.0));
        let rate = bench.run(path, cluster, k).per_second();
        AccessRow {
            access: access::Access::ALL[k],
            accesses: Beside::new(printed[k].0, accesses(k)),
            times_many: Beside::new(printed[k].0 / printed[2].0, accesses(k) / accesses(MANY)),
            frames_per_second: Beside::new(printed[k].1, rate),
        }
    };
    (0..3).map(row).collect()
}

/// Table 3 and figure 12: three sizes on 8, 16 and 31 nodes.
fn scaling(bench: &Bench<'_>, paths: &[Path; 3]) -> (Vec<ScalingRow>, Vec<RateRow>) {
    let p = bench.parameters;
    let accesses = [
        [265_211.0, 245_444.0, 221_667.0],
        [132_605.0, 123_250.0, 110_903.0],
        [68_600.0, 63_611.0, 57_189.0],
    ];
    let misses = [
        [2.16, 14.7, 5933.0],
        [2.31, 15.7, 529.0],
        [2.38, 16.1, 251.0],
    ];
    let (mut table, mut rates) = (Vec::new(), Vec::new());
    for (n, nodes) in NODES.into_iter().enumerate() {
        for (s, (path, (megabytes, edge))) in paths.iter().zip(SIZES).enumerate() {
            let blocks = bench.volume(Shape::Layer, edge).blocks();
            let cache = bench.cache(p.node_mib, blocks, nodes);
            let cluster = bench.cluster(nodes, cache, p.prices(p.consolidated_micros, 1.0));
            let frames = bench.run(path, cluster, MANY);
            table.push(ScalingRow {
                megabytes,
                nodes,
                accesses: Beside::new(accesses[n][s], bench.accesses(path, MANY, nodes)),
                misses: Beside::new(misses[n][s], frames.misses_of(nodes)),
            });
            rates.push(RateRow {
                megabytes,
                nodes,
                frames_per_second: frames.per_second(),
            });
        }
    }
    (table, rates)
}

/// Figure 5: 512 MB, of which 81 MB are on each node, from a cold start.
fn sharing(bench: &Bench<'_>) -> (Vec<SharingRow>, Vec<[f64; 3]>) {
    let p = bench.parameters;
    let edge = 806;
    let path = bench.path(Shape::Ball, edge);
    let blocks = bench.volume(Shape::Ball, edge).blocks();
    let cache = bench.cache(81.0, blocks, p.nodes);
    let of = |prices: Prices, cache: (f64, f64)| {
        let cluster = bench.cluster(p.nodes, cache, prices);
        bench.run(&path, cluster, MANY)
    };
    let free = Prices {
        miss: 0,
        ..p.prices(0.0, 1.0)
    };
    let all = [
        of(free, (1e6, p.block_bytes())),
        of(p.prices(0.0, 1.0 + p.page_share), cache),
        of(p.prices(p.consolidated_micros, 1.0), cache),
    ];
    let printed = [3.74, 3.06, 1.22];
    let rates = all.each_ref().map(Frames::per_second);
    let row = |k: usize| SharingRow {
        memory: ["replicated", "page", "object"][k],
        frames_per_second: Beside::new(printed[k], rates[k]),
        share: Beside::new(printed[k] / printed[0], rates[k] / rates[0]),
    };
    let frame = |f: usize| {
        all.each_ref()
            .map(|frames| 1e9 / float(frames.nanos[f].max(1)))
    };
    let frames = (0..all[0].nanos.len()).map(frame).collect();
    ((0..3).map(row).collect(), frames)
}

/// Figure 8: the Lucy model's triangles in three orders, as memory shrinks.
fn orders(bench: &Bench<'_>) -> Vec<OrderRow> {
    let p = bench.parameters;
    let mut rows = Vec::new();
    for order in Order::ALL {
        let mesh = Mesh {
            triangles: 28_055_742,
            bytes: 481_600_000,
            grid: 125,
            grid_bytes: 1_149_100_000,
            block_bytes: 32 << 10,
            order,
        };
        let path = path(p, |eye| mesh.needs(eye, p.rays));
        for memory_mib in [833.92, 638.6, 443.29, 247.98, 150.32] {
            let cluster = bench.mesh_cluster(&mesh, memory_mib);
            let frames = bench.run(&path, cluster, MANY);
            rows.push(OrderRow {
                memory_mib,
                order,
                misses: frames.misses_of(p.nodes),
                frames_per_second: frames.per_second(),
            });
        }
    }
    rows
}

/// Figure 10: dragon and bunny, by who gets which tile, as memory shrinks; ours beside them.
fn strategies(bench: &Bench<'_>) -> Vec<StrategyRow> {
    let p = bench.parameters;
    let mesh = Mesh {
        triangles: 1_200_000,
        bytes: 28_760_000,
        grid: 125,
        grid_bytes: 187_700_000,
        block_bytes: 32 << 10,
        order: Order::Octree,
    };
    let path = path(p, |eye| mesh.needs(eye, p.rays));
    let mut rows = Vec::new();
    for memory_mib in [773.57, 498.05, 261.59, 133.60, 68.62, 37.60, 21.41] {
        for sharing in Sharing::ALL {
            let cluster = Cluster {
                sharing,
                ..bench.mesh_cluster(&mesh, memory_mib)
            };
            let frames = bench.run(&path, cluster, MANY);
            rows.push(StrategyRow {
                memory_mib,
                sharing,
                misses: frames.misses_of(p.nodes),
                frames_per_second: frames.per_second(),
                imbalance: frames.imbalance(),
                moved: frames.moved_share(),
            });
        }
    }
    rows
}

fn policies(bench: &Bench<'_>, path: &Path) -> Vec<PolicyRow> {
    let p = bench.parameters;
    let row = |policy| {
        let prices = p.prices(p.consolidated_micros, 1.0);
        let cluster = Cluster {
            policy,
            ..bench.cluster(8, (96.0, p.block_bytes()), prices)
        };
        PolicyRow {
            policy,
            misses: bench.run(path, cluster, MANY).misses_of(8),
        }
    };
    Policy::ALL.map(row).into()
}

/// How a value is written.
fn name(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn line(name: String, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
    Line {
        name,
        points: points.into_iter().collect(),
    }
}

/// A line of figure 8 for each order.
fn by_order(rows: &[OrderRow], of: fn(&OrderRow) -> f64) -> Vec<Line> {
    let of_order = |order: Order| {
        let rows = rows.iter().filter(|r| r.order == order);
        line(name(&order), rows.map(|r| (r.memory_mib, of(r))))
    };
    Order::ALL.map(of_order).into()
}

/// A line of figure 10 for each strategy.
fn by_sharing(rows: &[StrategyRow], of: fn(&StrategyRow) -> f64) -> Vec<Line> {
    let of_sharing = |sharing: Sharing| {
        let rows = rows.iter().filter(|r| r.sharing == sharing);
        line(name(&sharing), rows.map(|r| (r.memory_mib, of(r))))
    };
    Sharing::ALL.map(of_sharing).into()
}

fn plots(answer: &Answer) -> Vec<Plot> {
    let of_memory = |k: usize| {
        let rates = answer.figure_5_frames.iter().map(|f| f[k]);
        let frames = (0_u32..).map(f64::from);
        line(answer.figure_5[k].memory.to_owned(), frames.zip(rates))
    };
    let of_size = |(megabytes, _): (u32, u32)| {
        let rows = answer.figure_12.iter().filter(|r| r.megabytes == megabytes);
        let points = rows.map(|r| (f64::from(r.nodes), r.frames_per_second));
        line(format!("{megabytes} MB"), points)
    };
    let (order, tiles) = ("8: order of a mesh", "10: who gets a tile");
    let by_memory = |file: &str, title: &str, y: &str, lines: Vec<Line>| {
        let axes = ["memory of a node in MB", y];
        plot(
            format!("figure-{file}.svg"),
            &format!("Figure {title}"),
            axes,
            &lines,
        )
    };
    let (misses, rate) = ("misses of a node and frame", "frames a second");
    let (sharings, orders) = (&answer.figure_10, &answer.figure_8);
    vec![
        plot(
            "figure-5.svg".to_owned(),
            "Figure 5: organization of memory",
            ["frame", rate],
            &[0, 1, 2].map(of_memory),
        ),
        by_memory("8-misses", order, misses, by_order(orders, |r| r.misses)),
        by_memory(
            "8-rates",
            order,
            rate,
            by_order(orders, |r| r.frames_per_second),
        ),
        by_memory(
            "10-misses",
            tiles,
            misses,
            by_sharing(sharings, |r| r.misses),
        ),
        by_memory(
            "10-rates",
            tiles,
            rate,
            by_sharing(sharings, |r| r.frames_per_second),
        ),
        by_memory(
            "10-imbalance",
            tiles,
            "busiest node / mean",
            by_sharing(sharings, |r| r.imbalance),
        ),
        plot(
            "figure-12.svg".to_owned(),
            "Figure 12: nodes and size of data",
            ["nodes", rate],
            &SIZES.map(of_size),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn run(vary: &[&str]) -> Result<(Value, usize), SimError> {
        let quick = ["views=4", "repeats=2", "rays=64"];
        let answer = evaluate(&PaperOptions {
            paper: NAME.to_owned(),
            vary: quick.iter().chain(vary).map(|v| (*v).to_owned()).collect(),
            plots: true,
            ..PaperOptions::default()
        })?;
        let json = serde_json::from_str(&answer.json).unwrap();
        Ok((json, answer.plots.len()))
    }

    fn column(rows: &Value, of: &[&str]) -> Vec<f64> {
        let value = |row: &Value| of.iter().fold(row.clone(), |v, key| v[key].clone());
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| value(row).as_f64().unwrap()).collect()
    }

    #[test]
    fn what_the_paper_says_holds() {
        let (out, plots) = run(&[]).unwrap();
        assert_eq!(plots, 7);
        // Table 2: fewer accesses, more frames.
        let rates = column(&out["table_2"], &["frames_per_second", "ours"]);
        assert!(rates[0] < rates[1] && rates[1] < rates[2], "{rates:?}");
        let times = column(&out["table_2"], &["times_many", "ratio"]);
        assert!(times.iter().all(|t| (0.85..1.15).contains(t)), "{times:?}");
        // Table 3: accesses hardly change with the data, misses do.
        let accesses = column(&out["table_3"], &["accesses", "ours"]);
        let misses = column(&out["table_3"], &["misses", "ours"]);
        for nodes in 0..3 {
            let [of, missed] = [&accesses, &misses].map(|all| &all[3 * nodes..3 * nodes + 3]);
            assert!(of[2] > of[0] / 2.0 && missed[1] > missed[0] && missed[2] > missed[0]);
        }
        // Figure 5: pages cost less than objects.
        let rates = column(&out["figure_5"], &["frames_per_second", "ours"]);
        assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
        // Figure 8: an order by octants misses least at each size of memory, chance most.
        let missed = column(&out["figure_8"], &["misses"]);
        let all = |memory: usize| [0, 1, 2].map(|order| missed[5 * order + memory]);
        assert!(
            (0..5)
                .map(all)
                .all(|[octree, file, random]| octree < file && file < random)
        );
        // Figure 10, at the smallest memory.
        let missed = column(&out["figure_10"], &["misses"]);
        let [demand, steal, planned] = [18, 19, 20].map(|at| missed[at]);
        assert!(
            steal * 2.0 <= demand && planned * 2.0 <= demand,
            "{demand} {steal} {planned}"
        );
    }

    #[test]
    fn bad_options_are_named() {
        let text = |vary: &str| run(&[vary]).unwrap_err().to_string();
        assert!(text("rays=16").contains("rays is 16; it must be 32 to 512"));
        assert!(text("rays=384").contains("it must divide 512"));
        assert!(text("speed=1").contains("no such parameter"));
    }
}
