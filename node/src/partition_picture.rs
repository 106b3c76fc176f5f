//! A picture of a partition, as SVG: the volume seen along each axis, where it is not empty, and the boxes of the parts, a
//! colour a node.

use brickmesh_topology::{
    VoxelBox, balance::partition::volume_partition::VolumePart,
    data::slab_projections::SlabProjections,
};

/// Longest side of a view, in pixels.
const SIDE: f64 = 320.0;
/// Between views, and around them.
const GAP: f64 = 24.0;
/// Squares of a view along its longest side in which is said how much is not empty.
const SQUARES: u32 = 64;

/// The picture: views along z, y and x.
#[must_use]
pub(crate) fn svg(parts: &[VolumePart], projections: &SlabProjections) -> String {
    let dims = projections.dims;
    let longest = f64::from(dims.into_iter().max().unwrap_or(1));
    let scale = SIDE / longest;
    let (mut body, mut left, mut height) = (String::new(), GAP, 0.0_f64);
    for (across, down, along) in [(0, 1, "z"), (0, 2, "y"), (1, 2, "x")] {
        let size = [across, down].map(|a| f64::from(dims[a]) * scale);
        let text = format!(
            r#"<text x="{left:.1}" y="{:.1}">along {along}: {} right, {} down</text>"#,
            GAP - 8.0,
            ["x", "y", "z"][across],
            ["x", "y", "z"][down]
        );
        body.push_str(&text);
        body.push_str(&format!(r#"<g transform="translate({left:.1} {GAP})">"#));
        body.push_str(&rect([0.0; 2], size, r#"fill="black""#));
        squares(&mut body, projections, [across, down], scale);
        for part in parts {
            let color = format!("hsl({},80%,60%)", part.node * 137 % 360);
            let style = format!(r#"fill="{color}" fill-opacity="0.12" stroke="{color}""#);
            for b in &part.boxes {
                body.push_str(&rect_of(b, [across, down], scale, &style));
            }
        }
        body.push_str("</g>\n");
        left += size[0] + GAP;
        height = height.max(size[1]);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{left:.0}\" height=\"{:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n{body}</svg>\n",
        height + 2.0 * GAP
    )
}

fn rect(at: [f64; 2], size: [f64; 2], style: &str) -> String {
    let ([x, y], [width, height]) = (at, size);
    format!(r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" {style}/>"#)
}

/// A box as it is seen in a view.
fn rect_of(b: &VoxelBox, [across, down]: [usize; 2], scale: f64, style: &str) -> String {
    let pair = |v: [u32; 3]| [v[across], v[down]].map(|n| f64::from(n) * scale);
    rect(pair(b.lo), pair(b.size()), style)
}

/// Grey squares: the more of the voxels behind one is not empty, the lighter.
fn squares(
    body: &mut String,
    projections: &SlabProjections,
    [across, down]: [usize; 2],
    scale: f64,
) {
    let dims = projections.dims;
    let edge = dims[across].max(dims[down]).div_ceil(SQUARES);
    for v in 0..dims[down].div_ceil(edge) {
        for u in 0..dims[across].div_ceil(edge) {
            let mut square = VoxelBox::new([0; 3], dims);
            for (axis, i) in [(across, u), (down, v)] {
                square.lo[axis] = i * edge;
                square.hi[axis] = ((i + 1) * edge).min(dims[axis]);
            }
            let part = projections.voxels_in(&square) as f64 / square.voxel_count().max(1) as f64;
            if part > 0.0 {
                let grey = 40.0 + 180.0 * part.sqrt();
                let style = format!(r#"fill="rgb({grey:.0},{grey:.0},{grey:.0})""#);
                body.push_str(&rect_of(&square, [across, down], scale, &style));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::data::slab_projections::SlabGathering;

    #[test]
    fn parts_are_outlined_in_three_views() {
        let mut gathering = SlabGathering::new([4, 4, 2], 1..=2);
        for _ in 0..2 {
            gathering.slice(&[true; 16]);
        }
        let part = |node, lo, hi| VolumePart {
            node,
            boxes: vec![VoxelBox::new(lo, hi)],
            slabs: None,
            load: 16,
        };
        let parts = [part(0, [0; 3], [2, 4, 2]), part(1, [2, 0, 0], [4, 4, 2])];
        let svg = svg(&parts, &gathering.finish());
        assert_eq!(svg.matches("fill-opacity").count(), 6);
        assert_eq!(svg.matches("along ").count(), 3);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
