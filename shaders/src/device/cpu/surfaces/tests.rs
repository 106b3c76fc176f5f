//! Roots and hits against a dense search in f64.

use super::*;
use crate::brick::BrickVoxels;
use brickmesh_topology::{VolumeDescription, VoxelBox, VoxelType};
use glam::DVec3;
use proptest::prelude::*;

const EDGE: u32 = 17;
/// Points of a ray between faces at which the dense search looks.
const PARTS: u32 = 200;

type Value = fn(DVec3) -> f64;

/// A field of 17³ voxels, one unit apart.
struct Dense {
    volume: VolumeDescription,
    voxels: Vec<f32>,
}

impl Dense {
    #[expect(clippy::cast_possible_truncation, reason = "voxels are f32")]
    fn new(value: impl Fn(DVec3) -> f64) -> Self {
        let at = |i: u32| {
            DVec3::new(
                (i % EDGE).into(),
                (i / EDGE % EDGE).into(),
                (i / EDGE / EDGE).into(),
            )
        };
        Self {
            volume: VolumeDescription::new([EDGE; 3], VoxelType::F32),
            voxels: (0..EDGE.pow(3)).map(|i| value(at(i)) as f32).collect(),
        }
    }

    /// Trilinear between voxels; the point is inside.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "inside"
    )]
    fn value(&self, p: DVec3) -> f64 {
        let cell = p
            .floor()
            .clamp(DVec3::ZERO, DVec3::splat(f64::from(EDGE - 2)));
        let q = p - cell;
        let [x, y, z] = cell.to_array().map(|c| c as usize);
        let edge = EDGE as usize;
        let voxel = |dx, dy, dz| f64::from(self.voxels[((z + dz) * edge + y + dy) * edge + x + dx]);
        let line = |dy, dz| voxel(0, dy, dz) * (1.0 - q.x) + voxel(1, dy, dz) * q.x;
        let plane = |dz| line(0, dz) * (1.0 - q.y) + line(1, dz) * q.y;
        plane(0) * (1.0 - q.z) + plane(1) * q.z
    }

    /// Where a ray meets a value, found by looking at many points.
    #[expect(clippy::cast_possible_truncation, reason = "as kernels know surfaces")]
    fn dense_hits(&self, ray: &ExactRay, number: f64) -> Vec<f64> {
        let (eye, d) = (DVec3::from(ray.eye), DVec3::from(ray.direction));
        let mut faces = Vec::new();
        for a in 0..3 {
            if d[a] != 0.0 {
                faces.extend((0..EDGE).map(|plane| (f64::from(plane) - eye[a]) / d[a]));
            }
        }
        faces.retain(|t| *t >= 0.0);
        faces.sort_by(f64::total_cmp);
        let mut hits = Vec::new();
        let number = f64::from(number as f32);
        let above = |t: f64| self.value(eye + d * t) >= number;
        let is_inside = |p: DVec3| p.min_element() >= 0.0 && p.max_element() < f64::from(EDGE - 1);
        for pair in faces.windows(2) {
            if !is_inside(eye + d * (0.5 * (pair[0] + pair[1]))) {
                continue;
            }
            let at = |n: u32| pair[0] + (pair[1] - pair[0]) * f64::from(n) / f64::from(PARTS);
            for n in 0..PARTS {
                let (mut a, mut b) = (at(n), at(n + 1));
                let is_above = above(a);
                if is_above == above(b) {
                    continue;
                }
                for _ in 0..60 {
                    let middle = 0.5 * (a + b);
                    *(if above(middle) == is_above {
                        &mut a
                    } else {
                        &mut b
                    }) = middle;
                }
                hits.push(a);
            }
        }
        hits
    }

    /// Where it meets it in the cells of a box, by the walk.
    #[expect(clippy::cast_possible_truncation, reason = "as kernels know surfaces")]
    fn hits(&self, ray: &ExactRay, number: f64, owned: VoxelBox) -> Vec<f64> {
        let whole = VoxelBox::new([0; 3], [EDGE; 3]);
        let bytes: Vec<u8> = self.voxels.iter().flat_map(|v| v.to_le_bytes()).collect();
        let brick = BrickVoxels::new(owned, whole, VoxelType::F32, bytes.into()).unwrap();
        let field = Field::new(&brick, &self.volume, &owned, None, None);
        let surfaces = [Surface {
            number: number as f32,
            color: [1.0; 4],
        }];
        let way = [0.0, f64::INFINITY];
        let mut walk = Walk::<f32>::new(&field, &surfaces, ray, way);
        std::iter::from_fn(|| walk.next_before(f64::INFINITY))
            .map(|hit| hit.at)
            .collect()
    }

    /// The same of eight boxes, one after the other.
    fn hits_of_boxes(&self, ray: &ExactRay, number: f64) -> Vec<f64> {
        let part = |n: u32, a: u32| if n >> a & 1 == 0 { [0, 7] } else { [7, EDGE] };
        let boxes = (0..8).map(|n| {
            let ends = [0, 1, 2].map(|a| part(n, a));
            VoxelBox::new(ends.map(|e| e[0]), ends.map(|e| e[1]))
        });
        let mut hits: Vec<f64> = boxes
            .flat_map(|owned| self.hits(ray, number, owned))
            .collect();
        hits.sort_by(f64::total_cmp);
        hits
    }
}

fn sphere(p: DVec3) -> f64 {
    p.distance(DVec3::new(8.3, 7.7, 8.1))
}

fn gyroid(p: DVec3) -> f64 {
    let (s, c) = ((p * 0.9).map(f64::sin), (p * 0.9).map(f64::cos));
    s.x * c.y + s.y * c.z + s.z * c.x
}

/// Two sheets in every cell that has one: corners opposite each other are above.
fn sheets(p: DVec3) -> f64 {
    if p.element_sum() % 2.0 == 0.0 {
        1.0
    } else {
        -0.9
    }
}

fn noise(p: DVec3) -> f64 {
    let h = (p.dot(DVec3::new(12.9898, 78.233, 37.719))).sin() * 43758.5453;
    h - h.floor()
}

fn ray(eye: DVec3, at: DVec3) -> ExactRay {
    ExactRay {
        eye: eye.into(),
        direction: (at - eye).normalize().into(),
        step: 0.5,
        jitter: 0.0,
        end: u32::MAX,
        near: 0.0,
        reach: f64::INFINITY,
    }
}

fn rays(count: u32) -> Vec<ExactRay> {
    let place = |n: u32, salt: f64| {
        DVec3::from_array([1.0, 2.0, 3.0].map(|a| noise(DVec3::new(f64::from(n), a, salt))))
    };
    let from_outside = |n: u32| {
        let eye = DVec3::splat(8.0) + 40.0 * (place(n, 1.0) - 0.5).normalize();
        ray(eye, 1.0 + 14.0 * place(n, 2.0))
    };
    (0..count).map(from_outside).collect()
}

#[test]
fn hits_are_where_a_dense_search_finds_them() {
    let fields: [(&str, Value, f64); 4] = [
        ("sphere", sphere, 5.2),
        ("gyroid", gyroid, 0.13),
        ("sheets", sheets, 0.31),
        ("noise", noise, 0.62),
    ];
    for (name, value, number) in fields {
        let dense = Dense::new(value);
        let (mut found, mut good, rays) = (0, 0, rays(1500));
        for ray in &rays {
            let expected = dense.dense_hits(ray, number);
            let hits = dense.hits(ray, number, VoxelBox::new([0; 3], [EDGE; 3]));
            let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-5;
            good += usize::from(
                hits.len() == expected.len() && hits.iter().zip(&expected).all(is_near),
            );
            found += hits.len();
        }
        // Where a ray only touches a surface, the dense search may find nothing.
        assert!(
            good * 1000 >= 999 * rays.len(),
            "{name}: {good} of {}",
            rays.len()
        );
        assert!(found > rays.len(), "{name}: {found} hits");
    }
}

#[test]
fn boxes_find_together_what_one_finds() {
    let whole = VoxelBox::new([0; 3], [EDGE; 3]);
    for (value, number) in [(noise as Value, 0.62), (gyroid, 0.0), (sheets, 0.0)] {
        let dense = Dense::new(value);
        // Along axes, and through voxels and edges, too.
        let mut rays = rays(700);
        for (eye, at) in [
            ([-3.0, 7.0, 7.0], [9.0, 7.0, 7.0]),
            ([7.0, 30.0, 2.5], [7.0, 0.0, 2.5]),
            ([-2.0, -2.0, -2.0], [5.0, 5.0, 5.0]),
            ([20.0, 20.0, 3.0], [1.0, 1.0, 3.0]),
            ([7.0, 7.0, 40.0], [7.0, 7.0, 0.0]),
            ([7.0, 7.0, 7.0], [9.0, 8.0, 7.0]),
        ] {
            rays.push(ray(eye.into(), at.into()));
        }
        for ray in rays {
            let [one, eight] = [
                dense.hits(&ray, number, whole),
                dense.hits_of_boxes(&ray, number),
            ];
            assert_eq!(one.len(), eight.len(), "{ray:?}: {one:?} {eight:?}");
            let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
            assert!(
                one.iter().zip(&eight).all(is_near),
                "{ray:?}: {one:?} {eight:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn roots_are_all_found_and_none_twice(
        corners in prop::array::uniform8(-10.0f64..10.0), from in prop::array::uniform3(0.0f64..1.0),
        to in prop::array::uniform3(0.0f64..1.0), number in -3.0f64..3.0,
    ) {
        let way = Cubic::through(&corners, from, to);
        let roots = way.roots(number, [way.at(0.0) - number, way.at(1.0) - number]);
        let roots: Vec<f64> = roots.into_iter().flatten().collect();
        prop_assert!(roots.is_sorted());
        for root in &roots {
            prop_assert!((way.at(*root) - number).abs() < 1e-4, "{root}");
        }
        let at = |n: u32| way.at(f64::from(n) / 2000.0) >= number;
        let changes = (0..2000).filter(|&n| at(n) != at(n + 1)).count();
        // Two roots closer to each other than the points are not seen by them.
        let close = roots.windows(2).filter(|pair| pair[1] - pair[0] < 1.0 / 1000.0).count();
        prop_assert!(roots.len() >= changes && roots.len() <= changes + 2 * close, "{roots:?} {changes}");
    }
}
