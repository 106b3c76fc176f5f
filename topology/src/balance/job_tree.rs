//! Job trees: how a brick's rendering is cut into jobs, carried from frame to frame.
//!
//! Shapes: one binary tree a brick; its leaves are jobs, half-open boxes that tile the brick's
//! owned box. Costs in whole microseconds on a device of speed 1.
//! Invariants: the leaves of a tree own every voxel of the brick exactly once, whatever was split
//! or merged; the sum of the leaves' costs changes neither by a split nor by a merge.
//! Not here: what a leaf will cost in the next frame (`prediction`), who renders it (`schedule`).
//!
//! Source: Frey, Ertl 2011, section 5.1, equation (2). Where the paper halves a brick in space and
//! gives each half half of the cost, [`SplitRule::by_work`] cuts where the expected work halves
//! and shares the cost by it.

use crate::data::voxel_box::VoxelBox;
use glam::DVec3;
use serde::{Deserialize, Serialize};

/// Deepest leaf: a brick is cut into at most 2^10 jobs.
pub const DEPTH_MAX: usize = 10;
/// Shortest edge of a job in voxels; shorter ones cost more rays than samples.
pub const JOB_EDGE_MIN: u32 = 4;
/// Lower bound r of equation (2) on a GPU, microseconds: the paper's 5 ms.
pub const MIN_JOB_MICROS: u64 = 5_000;
/// Largest cost of a leaf that is taken from a peer: an hour.
const LEAF_MICROS_MAX: u64 = 3_600_000_000;
/// Places along an edge that are tried for a cut by weight.
const CUT_PLACES: u32 = 8;

/// What is known of a job: its cost when it was last rendered, and what it was expected to do
/// then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// Cost, microseconds on a device of speed 1; 0: never measured.
    pub cost_micros: u64,
    /// Samples that were expected when it was measured.
    pub samples: u64,
}

/// A node of a tree in preorder; a split is followed by its lower and then its upper part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "[u64; 3]", into = "[u64; 3]")]
pub enum TreeNode {
    /// The box is cut by a plane.
    Split {
        /// Axis that the plane is orthogonal to.
        axis: u8,
        /// First voxel of the upper part on it.
        at: u32,
    },
    /// A job.
    Leaf(Leaf),
}

/// A node that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is no node of a job tree: [axis, cut, 0] or [3, cost, samples]")]
pub struct NodeError {
    /// What was found.
    pub found: [u64; 3],
}

/// The first number of a leaf, where a split has its axis.
const LEAF_TAG: u64 = 3;

impl From<TreeNode> for [u64; 3] {
    fn from(node: TreeNode) -> Self {
        match node {
            TreeNode::Split { axis, at } => [axis.into(), at.into(), 0],
            TreeNode::Leaf(l) => [LEAF_TAG, l.cost_micros, l.samples],
        }
    }
}

impl TryFrom<[u64; 3]> for TreeNode {
    type Error = NodeError;

    fn try_from(found: [u64; 3]) -> Result<Self, NodeError> {
        match (found, u32::try_from(found[1])) {
            ([LEAF_TAG, cost_micros, samples], _) => Ok(Self::Leaf(Leaf {
                cost_micros,
                samples,
            })),
            ([axis @ 0..=2, _, 0], Ok(at)) => {
                let axis = u8::try_from(axis).unwrap_or(0);
                Ok(Self::Split { axis, at })
            }
            _ => Err(NodeError { found }),
        }
    }
}

/// How a brick is cut into jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobTree {
    nodes: Vec<TreeNode>,
}

/// A tree that does not fit its brick.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobTreeError {
    /// Nodes missing, left over, or too deep.
    #[error(
        "a job tree of {nodes} nodes is not whole, or deeper than {DEPTH_MAX}, at node {index}"
    )]
    Shape {
        /// Nodes found.
        nodes: usize,
        /// Where it went wrong.
        index: usize,
    },
    /// A plane that does not cut its box.
    #[error("job tree node {index}: a cut at {at} on axis {axis} does not part the box {owned:?}")]
    Cut {
        /// Node.
        index: usize,
        /// Its axis.
        axis: u8,
        /// Where it cuts.
        at: u32,
        /// The box there.
        owned: VoxelBox,
    },
    /// A cost beyond reason.
    #[error(
        "job tree node {index}: a cost of {found} microseconds; it must be at most {LEAF_MICROS_MAX}"
    )]
    Cost {
        /// Node.
        index: usize,
        /// Cost found.
        found: u64,
    },
}

/// When and where to split.
#[derive(Clone, Copy)]
pub struct SplitRule<'a> {
    /// The value a of equation (2), microseconds: a job above it is split.
    threshold_micros: u64,
    /// Siblings whose sum is not above it are merged.
    merge_micros: u64,
    /// View direction in grid space; decides between axes that are equally good.
    view: DVec3,
    /// Expected work of a box in any unit, to cut where it halves; `None`: cut in the middle.
    weight: Option<&'a dyn Fn(&VoxelBox) -> u64>,
}

impl<'a> SplitRule<'a> {
    /// The paper's: cuts in the middle; merges what is not above the threshold. `view` is the view
    /// direction in grid space.
    #[must_use]
    pub const fn in_the_middle(threshold_micros: u64, view: DVec3) -> Self {
        Self {
            threshold_micros,
            merge_micros: threshold_micros,
            view,
            weight: None,
        }
    }

    /// Ours: cuts where the `weight` of the parts, their expected work in any unit, is most alike,
    /// and merges only what is well below the threshold: how a job's cost parts is a guess, so a
    /// cut that was measured is worth keeping.
    #[must_use]
    pub fn by_work(
        threshold_micros: u64,
        view: DVec3,
        weight: &'a dyn Fn(&VoxelBox) -> u64,
    ) -> Self {
        Self {
            threshold_micros,
            merge_micros: threshold_micros - threshold_micros / 4,
            view,
            weight: Some(weight),
        }
    }
}

impl std::fmt::Debug for SplitRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitRule")
            .field("threshold_micros", &self.threshold_micros)
            .field("view", &self.view)
            .field("weighted", &self.weight.is_some())
            .finish()
    }
}

/// The threshold a above which a job is split, microseconds.
///
/// `cost_sum_micros` is the sum over all jobs, `copies` the paper's b, copies of a brick,
/// `min_job_micros` the shortest job worth its overhead.
#[must_use]
pub fn threshold(cost_sum_micros: u64, devices: usize, copies: u32, min_job_micros: u64) -> u64 {
    // a = max(Σ c(j) / (|D| · b²), r)  (Frey, Ertl 2011, equation (2))
    let copies = u64::from(copies.max(1));
    let parts = (devices.max(1) as u64).saturating_mul(copies.saturating_mul(copies));
    (cost_sum_micros / parts).max(min_job_micros)
}

/// More copies of each brick than this do not make jobs any smaller.
const COPIES_COUNTED_MAX: usize = 3;

/// Our threshold in place of equation (2): b jobs for each device instead of b², and b the usual
/// number of copies instead of the most, at most 3. With that many a schedule is even but for what
/// was predicted wrong, and every job more costs its time and its pixels.
///
/// `copies` are those of each brick that is shown.
#[must_use]
pub fn lean_threshold(
    cost_sum_micros: u64,
    devices: usize,
    copies: impl IntoIterator<Item = usize>,
    min_job_micros: u64,
) -> u64 {
    let (sum, bricks) = copies
        .into_iter()
        .fold((0, 0), |(sum, n), copies| (sum + copies, n + 1));
    let usual = (2 * sum + bricks) / (2 * bricks).max(1);
    let parts = devices.max(1) * usual.clamp(1, COPIES_COUNTED_MAX);
    (cost_sum_micros / parts as u64).max(min_job_micros)
}

impl JobTree {
    /// A brick that is one job.
    #[must_use]
    pub fn whole(leaf: Leaf) -> Self {
        Self {
            nodes: vec![TreeNode::Leaf(leaf)],
        }
    }

    /// The nodes in preorder.
    #[must_use]
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// The jobs of the brick that owns `owned`, in preorder.
    pub fn leaves(&self, owned: VoxelBox) -> impl Iterator<Item = (VoxelBox, Leaf)> + '_ {
        // Most trees have one leaf, for which nothing is allocated.
        let (mut next, mut others) = (Some(owned), Vec::new());
        self.nodes.iter().filter_map(move |node| {
            let here = next.take().or_else(|| others.pop())?;
            match *node {
                TreeNode::Split { axis, at } => {
                    let (low, high) = cut(here, axis.into(), at);
                    next = Some(low);
                    others.push(high);
                    None
                }
                TreeNode::Leaf(leaf) => Some((here, leaf)),
            }
        })
    }

    /// The leaves' values, in the order of [`Self::leaves`].
    pub fn leaf_values(&self) -> impl Iterator<Item = Leaf> + '_ {
        self.nodes.iter().filter_map(|n| match n {
            TreeNode::Leaf(leaf) => Some(*leaf),
            TreeNode::Split { .. } => None,
        })
    }

    /// Gives every leaf, in the order of [`Self::leaves`], another value; costs beyond an hour, which
    /// no peer would accept, become one.
    pub fn set_leaves(&mut self, values: impl IntoIterator<Item = Leaf>) {
        let leaves = self.nodes.iter_mut().filter_map(|n| match n {
            TreeNode::Leaf(leaf) => Some(leaf),
            TreeNode::Split { .. } => None,
        });
        leaves.zip(values).for_each(|(leaf, value)| {
            *leaf = Leaf {
                cost_micros: value.cost_micros.min(LEAF_MICROS_MAX),
                ..value
            };
        });
    }

    /// Whether it is one leaf that [`Self::split_and_merged`] leaves as it is because it is not above the threshold.
    #[must_use]
    pub fn stays_whole(&self, rule: &SplitRule<'_>) -> bool {
        matches!(self.nodes[..], [TreeNode::Leaf(leaf)] if leaf.cost_micros <= rule.threshold_micros)
    }

    /// The tree for the next frame: leaves above the threshold are split, recursively, and then
    /// sibling leaves whose sum is low enough are merged, recursively. O(nodes).
    #[must_use]
    pub fn split_and_merged(&self, owned: VoxelBox, rule: &SplitRule<'_>) -> Self {
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut rest = self.nodes.iter().copied();
        rebuild(&mut rest, owned, 0, rule, &mut nodes);
        Self { nodes }
    }

    /// Checks a tree that comes from a peer or a file.
    ///
    /// # Errors
    /// [`JobTreeError`] with the first node that does not fit the box.
    pub fn validate(&self, owned: VoxelBox) -> Result<(), JobTreeError> {
        let shape = |index| JobTreeError::Shape {
            nodes: self.nodes.len(),
            index,
        };
        let mut boxes = vec![(owned, 0)];
        for (index, node) in self.nodes.iter().enumerate() {
            let (here, depth) = boxes.pop().ok_or_else(|| shape(index))?;
            match *node {
                TreeNode::Split { axis, at } => {
                    let a = usize::from(axis);
                    if depth >= DEPTH_MAX {
                        return Err(shape(index));
                    }
                    if !(here.lo[a] < at && at < here.hi[a]) {
                        return Err(JobTreeError::Cut {
                            index,
                            axis,
                            at,
                            owned: here,
                        });
                    }
                    let (low, high) = cut(here, a, at);
                    boxes.extend([(high, depth + 1), (low, depth + 1)]);
                }
                TreeNode::Leaf(leaf) if leaf.cost_micros > LEAF_MICROS_MAX => {
                    let found = leaf.cost_micros;
                    return Err(JobTreeError::Cost { index, found });
                }
                TreeNode::Leaf(_) => {}
            }
        }
        if boxes.is_empty() {
            Ok(())
        } else {
            Err(shape(self.nodes.len()))
        }
    }
}

fn cut(here: VoxelBox, axis: usize, at: u32) -> (VoxelBox, VoxelBox) {
    let (mut low, mut high) = (here, here);
    low.hi[axis] = at;
    high.lo[axis] = at;
    (low, high)
}

/// Appends the subtree that `rest` starts with, split and merged.
fn rebuild(
    rest: &mut impl Iterator<Item = TreeNode>,
    here: VoxelBox,
    depth: usize,
    rule: &SplitRule<'_>,
    out: &mut Vec<TreeNode>,
) {
    match rest.next() {
        Some(TreeNode::Split { axis, at }) => {
            let start = out.len();
            out.push(TreeNode::Split { axis, at });
            let (low, high) = cut(here, axis.into(), at);
            rebuild(rest, low, depth + 1, rule, out);
            rebuild(rest, high, depth + 1, rule, out);
            if let [TreeNode::Leaf(a), TreeNode::Leaf(b)] = out[start + 1..] {
                let merged = Leaf {
                    cost_micros: a
                        .cost_micros
                        .saturating_add(b.cost_micros)
                        .min(LEAF_MICROS_MAX),
                    samples: a.samples.saturating_add(b.samples),
                };
                if merged.cost_micros <= rule.merge_micros {
                    out.truncate(start);
                    out.push(TreeNode::Leaf(merged));
                }
            }
        }
        Some(TreeNode::Leaf(leaf)) => split(leaf, here, depth, rule, out),
        // Cannot happen in a valid tree; a leaf keeps the shape whole.
        None => out.push(TreeNode::Leaf(Leaf::default())),
    }
}

/// Appends a leaf, split recursively while it is above the threshold and can be cut.
fn split(leaf: Leaf, here: VoxelBox, depth: usize, rule: &SplitRule<'_>, out: &mut Vec<TreeNode>) {
    let place = if leaf.cost_micros > rule.threshold_micros && depth < DEPTH_MAX {
        place(here, rule)
    } else {
        None
    };
    let Some(Place { axis, at, shares }) = place else {
        out.push(TreeNode::Leaf(leaf));
        return;
    };
    out.push(TreeNode::Split {
        axis: u8::try_from(axis).unwrap_or(0),
        at,
    });
    let (low, high) = cut(here, axis, at);
    let (cost, samples) = (part(leaf.cost_micros, shares), part(leaf.samples, shares));
    let lower = Leaf {
        cost_micros: cost,
        samples,
    };
    let upper = Leaf {
        cost_micros: leaf.cost_micros - cost,
        samples: leaf.samples - samples,
    };
    split(lower, low, depth + 1, rule, out);
    split(upper, high, depth + 1, rule, out);
}

/// The lower part's share of `whole`, when the parts weigh as `shares` say.
fn part(whole: u64, [low, high]: [u64; 2]) -> u64 {
    let sum = u128::from(low) + u128::from(high);
    if sum == 0 {
        return whole / 2;
    }
    u64::try_from(u128::from(whole) * u128::from(low) / sum).unwrap_or(whole)
}

/// Where a box is cut, and how its parts weigh.
struct Place {
    axis: usize,
    at: u32,
    shares: [u64; 2],
}

/// The cut whose parts have the shortest diagonal: across the longest edge. Edges of equal length:
/// the axis most along the view, so that fewer pixels are covered twice.
fn place(here: VoxelBox, rule: &SplitRule<'_>) -> Option<Place> {
    let size = here.size();
    let along = |a: usize| rule.view[a].abs();
    let axis = (0..3).reduce(|best, a| {
        let longer = size[a] > size[best] || (size[a] == size[best] && along(a) > along(best));
        if longer { a } else { best }
    })?;
    if size[axis] < 2 * JOB_EDGE_MIN {
        return None;
    }
    let middle = here.lo[axis] + size[axis] / 2;
    let Some(weight) = rule.weight else {
        return Some(Place {
            axis,
            at: middle,
            shares: [1, 1],
        });
    };
    let places = (1..CUT_PLACES).map(|n| {
        let at = here.lo[axis] + size[axis] * n / CUT_PLACES;
        let (low, high) = cut(here, axis, at);
        (at, low, high)
    });
    let wide = |&(at, ..): &(u32, VoxelBox, VoxelBox)| {
        at - here.lo[axis] >= JOB_EDGE_MIN && here.hi[axis] - at >= JOB_EDGE_MIN
    };
    let weighed = places
        .filter(wide)
        .map(|(at, low, high)| (at, [weight(&low), weight(&high)]));
    let (at, shares) =
        weighed.min_by_key(|&(at, [low, high])| (low.abs_diff(high), at.abs_diff(middle), at))?;
    Some(Place { axis, at, shares })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CUBE: VoxelBox = VoxelBox::new([0; 3], [64; 3]);

    fn rule(threshold_micros: u64) -> SplitRule<'static> {
        SplitRule::in_the_middle(threshold_micros, DVec3::new(0.1, -0.9, 0.2))
    }

    fn leaf(cost_micros: u64) -> Leaf {
        Leaf {
            cost_micros,
            samples: cost_micros * 10,
        }
    }

    #[test]
    fn the_threshold_is_equation_2() {
        assert_eq!(threshold(720_000, 8, 3, 5_000), 10_000);
        assert_eq!(threshold(72_000, 8, 3, 5_000), 5_000);
        assert_eq!(threshold(72_000, 0, 0, 1), 72_000);
    }

    #[test]
    fn our_threshold_gives_each_device_as_many_jobs_as_bricks_have_copies() {
        assert_eq!(lean_threshold(720_000, 8, [3, 3, 3, 9], 5_000), 30_000);
        assert_eq!(lean_threshold(720_000, 8, [1, 2, 1], 5_000), 90_000);
        assert_eq!(lean_threshold(72_000, 8, [2, 2], 5_000), 5_000);
        assert_eq!(lean_threshold(72_000, 0, [], 1), 72_000);
    }

    #[test]
    fn a_measured_cut_is_kept_until_its_sum_is_well_below_the_threshold() {
        let half = |b: &VoxelBox| b.voxel_count();
        let cut = JobTree::whole(leaf(40)).split_and_merged(CUBE, &rule(20));
        let after = |threshold| {
            let by = SplitRule::by_work(threshold, DVec3::X, &half);
            cut.split_and_merged(CUBE, &by).leaf_values().count()
        };
        assert_eq!((after(40), after(52), after(53)), (2, 2, 1));
    }

    #[test]
    fn a_cube_is_cut_along_the_view_and_then_across_its_longest_edges() {
        let tree = JobTree::whole(leaf(40)).split_and_merged(CUBE, &rule(10));
        let boxes: Vec<VoxelBox> = tree.leaves(CUBE).map(|l| l.0).collect();
        let expected = |x: u32, y: u32, z: u32| VoxelBox::new([x, y, z], [x + 64, y + 32, z + 32]);
        assert_eq!(
            boxes,
            [
                expected(0, 0, 0),
                expected(0, 0, 32),
                expected(0, 32, 0),
                expected(0, 32, 32)
            ]
        );
        assert!(tree.leaves(CUBE).all(|l| l.1.cost_micros == 10));
    }

    #[test]
    fn siblings_that_got_cheap_are_merged_again() {
        let mut tree = JobTree::whole(leaf(40)).split_and_merged(CUBE, &rule(10));
        tree.set_leaves([leaf(3), leaf(4), leaf(9), leaf(9)]);
        let merged = tree.split_and_merged(CUBE, &rule(10));
        let costs: Vec<u64> = merged.leaves(CUBE).map(|l| l.1.cost_micros).collect();
        assert_eq!(costs, [7, 9, 9]);
        tree.set_leaves([leaf(1), leaf(2), leaf(3), leaf(4)]);
        assert_eq!(
            tree.split_and_merged(CUBE, &rule(10)),
            JobTree::whole(leaf(10))
        );
    }

    #[test]
    fn a_cut_by_weight_goes_where_the_work_is() {
        // All work lies in the lower quarter along x.
        let weight = |b: &VoxelBox| {
            b.intersection(&VoxelBox::new([0; 3], [16, 64, 64]))
                .voxel_count()
        };
        let by_weight = SplitRule::by_work(20, DVec3::X, &weight);
        let tree = JobTree::whole(leaf(40)).split_and_merged(CUBE, &by_weight);
        let leaves: Vec<_> = tree.leaves(CUBE).collect();
        assert_eq!(leaves[0].0, VoxelBox::new([0; 3], [8, 64, 64]));
        assert_eq!((leaves[0].1.cost_micros, leaves[1].1.cost_micros), (20, 20));
    }

    #[test]
    fn trees_from_peers_are_checked() {
        let good = JobTree::whole(leaf(40)).split_and_merged(CUBE, &rule(10));
        let json = serde_json::to_string(&good).unwrap();
        let back: JobTree = serde_json::from_str(&json).unwrap();
        assert_eq!(back, good);
        assert!(back.validate(CUBE).is_ok());
        let wrong = |json: &str| {
            let tree: JobTree = serde_json::from_str(json).unwrap();
            tree.validate(CUBE).unwrap_err().to_string()
        };
        assert!(wrong("[]").contains("not whole"));
        assert!(wrong("[[3,1,1],[3,1,1]]").contains("at node 1"));
        assert!(wrong("[[0,64,0],[3,1,1],[3,1,1]]").contains("does not part"));
        assert!(wrong("[[3,99999999999,1]]").contains("99999999999"));
        assert!(serde_json::from_str::<JobTree>("[[7,1,1]]").is_err());
    }

    proptest! {
        #[test]
        fn leaves_own_every_voxel_once_and_costs_are_kept(
            size in prop::array::uniform3(1u32..90),
            frames in prop::collection::vec((1u64..200, prop::collection::vec(0u64..500, 1..40), any::<bool>()), 1..6),
        ) {
            let owned = VoxelBox::new([7, 0, 3], [7 + size[0], size[1], 3 + size[2]]);
            let weight = |b: &VoxelBox| u64::from(b.lo[0] % 5) * b.voxel_count();
            let mut tree = JobTree::whole(leaf(300));
            for (threshold_micros, costs, weighted) in frames {
                let by = if weighted { SplitRule::by_work(threshold_micros, DVec3::X, &weight) } else { rule(threshold_micros) };
                tree.set_leaves(costs.into_iter().map(leaf).cycle().take(1 << DEPTH_MAX));
                let before: u64 = tree.leaves(owned).map(|l| l.1.cost_micros).sum();
                tree = tree.split_and_merged(owned, &by);
                prop_assert!(tree.validate(owned).is_ok());
                let leaves: Vec<_> = tree.leaves(owned).collect();
                prop_assert_eq!(leaves.iter().map(|l| l.1.cost_micros).sum::<u64>(), before);
                prop_assert_eq!(leaves.iter().map(|l| l.0.voxel_count()).sum::<u64>(), owned.voxel_count());
                for (i, a) in leaves.iter().enumerate() {
                    prop_assert!(owned.contains_box(&a.0) && !a.0.is_empty());
                    for b in &leaves[i + 1..] {
                        prop_assert!(a.0.intersection(&b.0).is_empty());
                    }
                }
                // Split until not above the threshold, unless nothing is left to cut.
                prop_assert!(!tree.stays_whole(&by) || tree.nodes().len() == 1);
                let again = tree.split_and_merged(owned, &by);
                prop_assert_eq!(&again, &tree);
            }
        }
    }
}
