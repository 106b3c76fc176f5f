//! Secondary rays: how much light reaches the points at which rays meet surfaces, and what is reflected there.
//!
//! A shadow ray goes from a point to the light; rays of ambient occlusion go into the half space that the surface is seen from, as
//! far as they reach. What comes through to a point along a ray is the product of what the bricks on its way let through, in whichever
//! order: a job that needs further bricks says which, and goes on with each as it comes.
//! Light from behind a surface comes through the surface itself first, as far as it is not opaque.
//!
//! A reflected ray meets what rays from the eye do, in depth order: it goes on as far as bricks are there. The surfaces that it
//! meets are points in their turn. What it shows takes the place of a part of the surface's own light, as far as it is opaque:
//! where nothing is reflected, the surface is as without reflections.
//!
//! Space: grid; distances along rays in world units. Rays begin a little off their surface, so that they do not meet it.
//! Invariant: rays follow from the pixel, the point and the settings alone, and are alike whichever job and peer sends them; but for points that
//! add next to nothing to what a job shows, which send none.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005, section 3: any ray reads any block, and steps aside while that is fetched. Basis of
//! directions: Duff et al., "Building an orthonormal basis, revisited", JCGT 6(1), 2017.

use crate::{
    constants::DARK,
    jitter::jitter,
    scene::{Casters, Scene},
};
use brickmesh_topology::{BrickIndex, picture::surface_rays::Reflections};
use glam::{DMat3, DVec3, Vec3};
use std::{
    collections::{BTreeMap, BTreeSet},
    f64::consts::TAU,
};

/// How far off its surface a ray begins, in smallest spacings.
const OFF_SURFACE: f64 = 0.02;
/// What an entry of a set of bricks takes, about, bytes.
const SET_ENTRY_BYTES: usize = 24;
/// From one ray of ambient occlusion to the next, in turns: the golden ratio's fraction spreads any number of them.
const TURN: f64 = 0.618_033_988_749_895;

/// A point at which a ray of a pixel met a surface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LitPoint {
    /// Column and row of the pixel.
    pub(crate) pixel: [u32; 2],
    pub(crate) at: DVec3,
    /// Unit vector of the world, to the viewer's side.
    pub(crate) normal: DVec3,
    /// What it adds to the pixel where all light reaches it: of the light around, and of the light. Linear RGB.
    pub(crate) ambient: [f32; 3],
    pub(crate) direct: [f32; 3],
    /// What the surface lets through, 0 to 1.
    pub(crate) through: f32,
    /// Direction of the ray that met it, unit vector of the world.
    pub(crate) along: Vec3,
    /// What of its pixel, as far as the job shows it, the surface is, 0 to 1.
    pub(crate) weight: f32,
}

/// A secondary ray.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecondaryRay {
    /// Grid.
    pub(crate) start: DVec3,
    /// Voxels per world unit.
    pub(crate) direction: DVec3,
    /// The same in the world, a unit vector.
    pub(crate) toward: DVec3,
    /// World units.
    pub(crate) reach: f64,
}

/// The secondary rays of a scene.
#[derive(Clone, Debug)]
pub(crate) struct SecondaryRays {
    /// Unit vector of the world.
    to_light: Option<DVec3>,
    /// Rays of ambient occlusion, and how far they reach in world units.
    occlusion: (u16, f64),
    reflections: Option<Reflections>,
    /// How opaque a ray is behind which nothing is seen.
    opaque: f32,
    casters: Casters,
    caster_count: usize,
    grid_from_world: DMat3,
    /// World units.
    off_surface: f64,
    /// The view's first pixel in the whole picture.
    first: [u32; 2],
}

impl SecondaryRays {
    /// Those of a scene, where it has some.
    pub(crate) fn of(scene: &Scene) -> Option<Self> {
        let settings = &scene.settings;
        let occlusion = settings.ambient_occlusion;
        let casters = scene.casters.clone()?;
        settings.has_secondary_rays().then(|| Self {
            to_light: (scene.light_direction()).filter(|_| settings.casts_shadows()),
            occlusion: occlusion.map_or((0, 0.0), |o| (o.rays, o.reach)),
            reflections: settings.reflections,
            opaque: settings.opaque().unwrap_or(1.0),
            caster_count: casters.bricks.len() as usize,
            casters,
            grid_from_world: scene.volume.grid_from_world().matrix3,
            off_surface: OFF_SURFACE * scene.volume.min_spacing(),
            first: scene.view.first,
        })
    }

    /// Rays of a point, at most.
    pub(crate) fn per_point_max(&self) -> usize {
        self.per_point() + usize::from(self.reflections.is_some())
    }

    /// Rays of a point that light comes along.
    fn per_point(&self) -> usize {
        usize::from(self.to_light.is_some()) + usize::from(self.occlusion.0)
    }

    /// What a surface itself lets through of each of a point's rays.
    fn begun(&self, point: &LitPoint) -> impl Iterator<Item = f32> + use<> {
        let to_light = self.to_light.map(|light| {
            if point.normal.dot(light) < 0.0 {
                point.through
            } else {
                1.0
            }
        });
        let around = std::iter::repeat_n(1.0, self.occlusion.0.into());
        to_light.into_iter().chain(around)
    }

    /// A ray of a point that light comes along: that to the light comes first.
    pub(crate) fn ray(&self, point: &LitPoint, n: usize) -> SecondaryRay {
        match self.to_light {
            Some(light) if n == 0 => self.ray_along(point, light, f64::INFINITY),
            light => {
                let n = n - usize::from(light.is_some());
                self.ray_along(point, self.around(point, n), self.occlusion.1)
            }
        }
    }

    /// The ray that a point reflects.
    fn reflected(&self, point: &LitPoint) -> SecondaryRay {
        let along = point.along.as_dvec3();
        let direction = along.reflect(point.normal).normalize();
        self.ray_along(point, direction, f64::INFINITY)
    }

    /// The part of a point's light that is reflected, 0 to 1.
    fn part(&self, point: &LitPoint) -> f32 {
        let cosine = -point.along.dot(point.normal.as_vec3());
        self.reflections.map_or(0.0, |r| r.part_at(cosine))
    }

    /// A ray of a point, which begins a little off the surface on the side that it goes to; `direction`: unit vector of the world.
    fn ray_along(&self, point: &LitPoint, direction: DVec3, reach: f64) -> SecondaryRay {
        let side = self.off_surface.copysign(point.normal.dot(direction));
        SecondaryRay {
            start: point.at + self.grid_from_world * (point.normal * side),
            direction: self.grid_from_world * direction,
            toward: direction,
            reach,
        }
    }

    /// Direction of a ray of ambient occlusion: cosine-weighted, in strata, turned from pixel to pixel.
    fn around(&self, point: &LitPoint, n: usize) -> DVec3 {
        let [x, y] = [0, 1].map(|a| self.first[a] + point.pixel[a]);
        let [part, turn] = [jitter(x, y), jitter(y.wrapping_add(1 << 15), x)].map(f64::from);
        let square = (n as f64 + part) / f64::from(self.occlusion.0);
        let (sin, cos) = (TAU * (n as f64 * TURN + turn)).sin_cos();
        let (radius, up) = (square.sqrt(), (1.0 - square).max(0.0).sqrt());
        let [right, ahead] = basis(point.normal);
        right * (radius * cos) + ahead * (radius * sin) + point.normal * up
    }

    /// Whether a brick is a caster.
    pub(crate) fn may_meet(&self, brick: BrickIndex) -> bool {
        self.casters.bricks.contains(brick)
    }

    /// The casters on a ray's way, near ones first, each with where the ray enters it.
    pub(crate) fn casters_on(
        &self,
        ray: &SecondaryRay,
    ) -> impl Iterator<Item = (BrickIndex, f64)> + '_ {
        let Casters { grid, bricks } = &self.casters;
        let all = grid.on_ray(ray.start, ray.direction, ray.reach);
        all.filter(|(brick, _)| bricks.contains(*brick))
    }
}

/// Two unit vectors at right angles to a third, and to each other.
fn basis(n: DVec3) -> [DVec3; 2] {
    let sign = 1.0_f64.copysign(n.z);
    let a = -1.0 / (sign + n.z);
    let b = n.x * n.y * a;
    [
        DVec3::new(1.0 + sign * n.x * n.x * a, sign * b, -sign * n.x),
        DVec3::new(b, sign + n.y * n.y * a, -n.y),
    ]
}

/// Bricks on the way of rays, and where the first of these enters each.
type OnTheWay = BTreeMap<BrickIndex, f64>;

fn enters(all: &mut OnTheWay, brick: BrickIndex, at: f64) {
    let nearest = all.entry(brick).or_insert(at);
    *nearest = nearest.min(at);
}

/// What is added to a pixel: where, and linear RGB.
pub(crate) type PixelLight = ([u32; 2], [f32; 3]);

/// Points of a job, and what is known of the light that reaches them.
#[derive(Clone, Debug)]
pub(crate) struct LitPoints {
    points: Vec<LitPoint>,
    /// What comes through along each ray of each point, 0 to 1.
    light: Vec<f32>,
    /// Bricks that light went through.
    done: BTreeSet<BrickIndex>,
    /// Bricks that light is to go through and did not yet.
    lacking: OnTheWay,
    /// Of those of its points that reflect something.
    reflected: Vec<ReflectedRay>,
    /// The bricks that reflected rays are to go through next and did not yet.
    reflected_lack: OnTheWay,
    /// How many reflections are left.
    depth: u8,
}

/// A ray that a point reflects.
#[derive(Clone, Debug)]
struct ReflectedRay {
    point: usize,
    /// The part of the point's light that it takes the place of, 0 to 1.
    part: f32,
    /// What of the pixel the ray is, 0 to 1.
    weight: f32,
    /// Premultiplied colour of what it has met.
    seen: [f32; 4],
    /// Casters that it went through; `None`: it has ended.
    passed: Option<usize>,
}

/// A reflected ray that is to go through a brick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueReflection {
    /// Its number.
    pub(crate) number: usize,
    pub(crate) pixel: [u32; 2],
    pub(crate) ray: SecondaryRay,
    /// What of the pixel the ray is, 0 to 1.
    pub(crate) weight: f32,
    /// Premultiplied colour of what it has met.
    pub(crate) seen: [f32; 4],
}

impl LitPoints {
    /// Points that rays from the eye met; none of theirs went through any brick yet.
    pub(crate) fn new(points: Vec<LitPoint>, rays: &SecondaryRays) -> Self {
        Self::at_depth(points, rays, rays.reflections.map_or(0, |r| r.depth))
    }

    /// The same of points after which so many reflections are left.
    fn at_depth(points: Vec<LitPoint>, rays: &SecondaryRays, depth: u8) -> Self {
        let of = |(point, p): (usize, &LitPoint)| {
            let part = rays.part(p);
            ReflectedRay {
                point,
                part,
                weight: part * p.weight,
                seen: [0.0; 4],
                passed: Some(0),
            }
        };
        let reflected = points.iter().enumerate().map(of);
        let reflected = reflected.filter(|ray| depth > 0 && ray.weight > DARK);
        Self {
            reflected: reflected.collect(),
            light: points.iter().flat_map(|p| rays.begun(p)).collect(),
            points,
            done: BTreeSet::new(),
            lacking: OnTheWay::new(),
            reflected_lack: OnTheWay::new(),
            depth,
        }
    }

    /// Takes the rays that light comes along further, where they are not dark: `through` says what a brick lets through of one, or that it is not there.
    pub(crate) fn go_on(
        &mut self,
        rays: &SecondaryRays,
        through: impl Fn(BrickIndex, &SecondaryRay) -> Option<f32>,
    ) {
        let (mut went, mut of_ray) = (BTreeSet::new(), Vec::new());
        self.lacking.clear();
        for (number, light) in self.light.iter_mut().enumerate() {
            if *light <= DARK {
                continue;
            }
            let (point, n) = (number / rays.per_point(), number % rays.per_point());
            let ray = rays.ray(&self.points[point], n);
            of_ray.clear();
            for (brick, at) in rays.casters_on(&ray) {
                if self.done.contains(&brick) {
                    continue;
                }
                if let Some(part) = through(brick, &ray) {
                    went.insert(brick);
                    *light *= part;
                } else {
                    of_ray.push((brick, at));
                }
                if *light <= DARK {
                    of_ray.clear();
                    break;
                }
            }
            for &(brick, at) in &of_ray {
                enters(&mut self.lacking, brick, at);
            }
        }
        self.done.extend(went);
    }

    /// The reflected rays that have not ended, by the brick that each is to go through next, where that is there. What is not is noted as
    /// lacking.
    pub(crate) fn due_reflections(
        &mut self,
        rays: &SecondaryRays,
        is_there: impl Fn(BrickIndex) -> bool,
    ) -> BTreeMap<BrickIndex, Vec<DueReflection>> {
        let mut due: BTreeMap<_, Vec<_>> = BTreeMap::new();
        self.reflected_lack.clear();
        for (number, reflected) in self.reflected.iter_mut().enumerate() {
            let Some(passed) = reflected.passed else {
                continue;
            };
            let point = &self.points[reflected.point];
            let ray = rays.reflected(point);
            let next = rays.casters_on(&ray).nth(passed);
            match next {
                Some((brick, _)) if is_there(brick) => {
                    due.entry(brick).or_default().push(DueReflection {
                        number,
                        pixel: point.pixel,
                        ray,
                        weight: reflected.weight,
                        seen: reflected.seen,
                    });
                }
                Some((brick, at)) => enters(&mut self.reflected_lack, brick, at),
                None => reflected.passed = None,
            }
        }
        due
    }

    /// A reflected ray went through the brick that was next, and has seen this.
    pub(crate) fn was_reflected(&mut self, number: usize, seen: [f32; 4], rays: &SecondaryRays) {
        let reflected = &mut self.reflected[number];
        reflected.seen = seen;
        let goes_on = seen[3] < rays.opaque;
        reflected.passed = reflected.passed.filter(|_| goes_on).map(|n| n + 1);
    }

    /// Points that its reflected rays met, in parts of so many.
    pub(crate) fn following(
        &self,
        met: &[LitPoint],
        count: usize,
        rays: &SecondaryRays,
    ) -> impl Iterator<Item = Self> {
        let depth = self.depth.saturating_sub(1);
        let parts = met.chunks(count);
        parts.map(move |part| Self::at_depth(part.to_vec(), rays, depth))
    }

    /// Its rays, in number; at least its points.
    pub(crate) fn ray_count(&self) -> usize {
        self.points
            .len()
            .max(self.light.len() + self.reflected.len())
    }

    /// Bricks that the first rays of points begin in: most of what hides light is there.
    pub(crate) fn begin_in(&self, rays: &SecondaryRays) -> BTreeSet<BrickIndex> {
        let first = |p: &LitPoint| rays.casters_on(&rays.ray(p, 0)).next();
        let points = self.points.iter().filter(|_| rays.per_point() > 0);
        let begin = points.filter_map(first);
        let begin = begin.filter(|(_, enters)| *enters <= 0.0);
        begin.map(|(brick, _)| brick).collect()
    }

    /// The rays that are not dark, each with its number and as `kept` of it, by bricks on their way: those that `is_due` says of.
    /// What is not there is noted as lacking.
    pub(crate) fn due<R: Copy>(
        &mut self,
        rays: &SecondaryRays,
        is_there: impl Fn(BrickIndex) -> bool,
        is_due: impl Fn(BrickIndex) -> bool,
        kept: impl Fn(&SecondaryRay) -> R,
    ) -> BTreeMap<BrickIndex, Vec<(u32, R)>> {
        let mut due: BTreeMap<_, Vec<_>> = BTreeMap::new();
        self.lacking.clear();
        if self.done.len() == rays.caster_count {
            return due;
        }
        for (light, number) in self.light.iter().zip(0_u32..) {
            if *light <= DARK {
                continue;
            }
            let (point, n) = (
                number as usize / rays.per_point(),
                number as usize % rays.per_point(),
            );
            let ray = rays.ray(&self.points[point], n);
            for (brick, at) in rays.casters_on(&ray) {
                if self.done.contains(&brick) {
                    continue;
                }
                if !is_there(brick) {
                    enters(&mut self.lacking, brick, at);
                } else if is_due(brick) {
                    due.entry(brick).or_default().push((number, kept(&ray)));
                }
            }
        }
        due
    }

    /// Rays went through a brick, all that were due: `through` says, for the number of each, what it lets through.
    pub(crate) fn went(
        &mut self,
        brick: BrickIndex,
        through: impl IntoIterator<Item = (usize, f32)>,
    ) {
        for (number, part) in through {
            self.light[number] *= part;
        }
        self.done.insert(brick);
    }

    /// Whether its rays lack no brick.
    pub(crate) fn is_lit(&self) -> bool {
        self.lacking.is_empty() && self.reflected_lack.is_empty()
    }

    /// What each point adds to its pixel in the light that reaches it, and with what it reflects.
    pub(crate) fn light_up(&self, rays: &SecondaryRays) -> impl Iterator<Item = PixelLight> {
        let mut reflected = self.reflected.iter().peekable();
        let points = self.points.iter().enumerate();
        points.map(move |(n, point)| {
            let light = &self.light[n * rays.per_point()..(n + 1) * rays.per_point()];
            let (shadow, around) = light.split_at(usize::from(rays.to_light.is_some()));
            let direct = shadow.first().copied().unwrap_or(1.0);
            let ambient = match around.len() {
                0 => 1.0,
                n => around.iter().sum::<f32>() / n as f32,
            };
            let reflected = reflected.next_if(|ray| ray.point == n);
            let own = reflected.map_or(1.0, |ray| 1.0 - ray.part * ray.seen[3]);
            let of = |c: usize| {
                let own = own * (point.ambient[c] * ambient + point.direct[c] * direct);
                reflected.map_or(own, |ray| own + ray.weight * ray.seen[c])
            };
            (point.pixel, std::array::from_fn(of))
        })
    }
}

/// What a job lacks of the light on its surfaces.
#[derive(Clone, Debug)]
pub struct UnlitJob {
    pub(crate) parts: Vec<LitPoints>,
}

impl UnlitJob {
    /// It lacks nothing yet.
    pub(crate) fn none() -> Box<Self> {
        Box::new(Self { parts: Vec::new() })
    }

    /// Bricks that its rays are to go through, near ones first; it goes on with any of them.
    #[must_use]
    pub fn waits_for(&self) -> Vec<BrickIndex> {
        let mut all = OnTheWay::new();
        for part in &self.parts {
            let lacking = part.lacking.iter().chain(&part.reflected_lack);
            lacking.for_each(|(&brick, &at)| enters(&mut all, brick, at));
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.into_iter().map(|(brick, _)| brick).collect()
    }

    /// Memory that it takes, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let of = |part: &LitPoints| {
            let bricks = part.done.len() + part.lacking.len() + part.reflected_lack.len();
            size_of_val(part)
                + bricks * SET_ENTRY_BYTES
                + size_of_val(part.points.as_slice())
                + size_of_val(part.light.as_slice())
                + size_of_val(part.reflected.as_slice())
        };
        self.parts.iter().map(of).sum::<usize>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{
        Camera, RenderSettings, TransferFunction, VolumeDescription, VoxelType,
        data::{brick_grid::BrickGrid, brick_set::BrickSet},
        picture::surface_rays::AmbientOcclusion,
    };
    use std::sync::Arc;

    /// Rays in a volume of 2³ bricks of 16, of which all but one are casters.
    fn rays(occlusion: u16) -> (SecondaryRays, BrickIndex) {
        rays_with(occlusion, None)
    }

    fn rays_with(occlusion: u16, reflections: Option<Reflections>) -> (SecondaryRays, BrickIndex) {
        let volume = VolumeDescription {
            spacing: [1.0, 2.0, 0.5],
            ..VolumeDescription::new([32; 3], VoxelType::U8)
        };
        let grid = BrickGrid::new(volume.dims, 16).unwrap();
        let mut bricks = BrickSet::all(8);
        let other = BrickIndex(5);
        bricks.remove(other);
        let mut settings = RenderSettings::new(TransferFunction::ramp(0.0, 1.0), 0.5);
        settings.shadows = true;
        settings.light.direction = Some([1.0, 0.5, 0.25]);
        settings.reflections = reflections;
        let reach = 20.0;
        settings.ambient_occlusion = Some(AmbientOcclusion {
            rays: occlusion,
            reach,
        });
        let scene = Scene {
            data_set: brickmesh_topology::Digest::of(b"test"),
            numbers: volume.voxel.into(),
            view: Camera::orbit(&volume, 10.0, 20.0, 1.0)
                .view(64, 64)
                .unwrap(),
            volume,
            settings,
            materials: Vec::new(),
            casters: Some(Casters {
                grid,
                bricks: Arc::new(bricks),
            }),
        };
        (SecondaryRays::of(&scene).unwrap(), other)
    }

    fn point(n: u32, normal: DVec3) -> LitPoint {
        LitPoint {
            pixel: [n % 64, n / 64],
            at: DVec3::splat(15.7),
            normal,
            ambient: [0.5; 3],
            direct: [0.25, 0.5, 1.0],
            through: 0.0,
            along: -normal.as_vec3(),
            weight: 1.0,
        }
    }

    #[test]
    fn rays_of_ambient_occlusion_are_cosine_weighted_around_any_normal() {
        let (rays, _) = rays(8);
        let world = rays.grid_from_world.inverse();
        for normal in [DVec3::Z, -DVec3::Z, DVec3::X, DVec3::new(0.6, -0.48, -0.64)] {
            let (mut sum, mut count) = (DVec3::ZERO, 0.0);
            for pixel in 0..512 {
                let point = point(pixel, normal);
                for n in 1..rays.per_point() {
                    let ray = rays.ray(&point, n);
                    let direction = world * ray.direction;
                    assert!((direction.length() - 1.0).abs() < 1e-9);
                    assert!(direction.dot(normal) >= 0.0);
                    let off = world * (ray.start - point.at);
                    assert!((off - normal * rays.off_surface).length() < 1e-9);
                    (sum, count) = (sum + direction, count + 1.0);
                }
            }
            // The mean of a cosine-weighted direction is two thirds of the normal.
            let mean = sum / count;
            assert!((mean - normal * (2.0 / 3.0)).length() < 0.01, "{mean}");
        }
    }

    #[test]
    fn light_is_the_product_of_what_bricks_let_through_in_any_order() {
        let (rays, no_caster) = rays(4);
        let points: Vec<_> = (0..100)
            .map(|n| point(n, DVec3::new(0.6, 0.48, 0.64)))
            .collect();
        let through = |brick: BrickIndex| 0.9 - 0.05 * brick.0 as f32;
        let lit = |orders: &[&[u32]]| {
            let mut points = LitPoints::new(points.clone(), &rays);
            for there in orders {
                points.go_on(&rays, |brick, _| {
                    assert_ne!(brick, no_caster);
                    there.contains(&brick.0).then(|| through(brick))
                });
            }
            assert!(points.is_lit());
            let colors = points.light_up(&rays).map(|(_, color)| color);
            colors.collect::<Vec<_>>()
        };
        let all = lit(&[&[0, 1, 2, 3, 4, 6, 7]]);
        for orders in [
            &[&[7, 6][..], &[1, 2, 3], &[], &[0, 4]][..],
            &[&[0], &[0, 1], &[2, 0], &[3, 4, 1], &[6], &[7]],
        ] {
            for (a, b) in all.iter().zip(lit(orders)) {
                assert!(
                    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5),
                    "{a:?} {b:?}"
                );
            }
        }
        assert!(all.iter().all(|c| c[0] < 0.75 && c[2] > c[0]));
    }

    #[test]
    fn reflected_rays_go_through_bricks_in_depth_order_and_end_behind_what_is_opaque() {
        let reflections = Reflections {
            depth: 1,
            part: 0.25,
        };
        let (rays, _) = rays_with(1, Some(reflections));
        // From the first brick on, upwards in y and z.
        let normal = DVec3::new(0.0, 1.0, 1.0).normalize();
        let mut point = LitPoint {
            at: DVec3::new(2.0, 8.0, 8.0),
            along: -normal.as_vec3(),
            weight: 0.5,
            ..point(0, normal)
        };
        let mut points = LitPoints::new(vec![point], &rays);
        points.go_on(&rays, |_, _| Some(1.0));
        assert!(points.is_lit());
        let mut way = Vec::new();
        loop {
            let lacking = points.due_reflections(&rays, |_| false);
            assert!(lacking.is_empty());
            let unlit = UnlitJob {
                parts: vec![points.clone()],
            };
            let Some(&next) = unlit.waits_for().first() else {
                break;
            };
            assert!(!points.is_lit());
            let due = points.due_reflections(&rays, |brick| brick == next);
            let (brick, due) = due.first_key_value().unwrap();
            assert_eq!((*brick, due[0].weight), (next, 0.125));
            way.push(next.0);
            let seen = [0.5, 0.25, 0.125, if way.len() < 2 { 0.5 } else { 1.0 }];
            let number = due[0].number;
            points.was_reflected(number, seen, &rays);
        }
        // There are more on its way, which are hidden.
        assert_eq!(way, [0, 4], "of casters, in depth order");
        assert!(points.is_lit());
        points.light_up(&rays).for_each(|(_, color)| {
            let own = 0.75 * (0.5 + 0.25);
            assert!((color[0] - (own + 0.125 * 0.5)).abs() < 1e-5, "{color:?}");
        });
        // What they met is reflected no more, and neither is what is next to nothing.
        let met = [point; 3];
        let last = points.following(&met, 2, &rays);
        let counts: Vec<_> = last.map(|p| (p.points.len(), p.reflected.len())).collect();
        assert_eq!(counts, [(2, 0), (1, 0)]);
        point.weight = 1e-3;
        assert!(LitPoints::new(vec![point], &rays).reflected.is_empty());
    }

    #[test]
    fn no_brick_is_awaited_behind_one_that_lets_nothing_through() {
        let (rays, _) = rays(1);
        let mut points = LitPoints::new(vec![point(0, DVec3::new(0.6, 0.48, 0.64))], &rays);
        points.go_on(&rays, |_, _| None);
        assert!(!points.is_lit());
        let unlit = UnlitJob {
            parts: vec![points.clone()],
        };
        let order = unlit.waits_for();
        assert!(order.len() > 1 && unlit.bytes() > 0);
        assert_eq!(order[0], BrickIndex(0), "it begins there");
        points.go_on(&rays, |brick, _| (brick.0 == 0).then_some(0.0));
        assert!(points.is_lit());
        // Of a surface that light comes to from behind only what it lets through itself reaches the viewer.
        let behind = point(0, DVec3::new(-0.6, -0.48, -0.64));
        let mut points = LitPoints::new(vec![behind], &rays);
        points.go_on(&rays, |_, _| Some(1.0));
        points.light_up(&rays).for_each(|(_, color)| {
            assert!(color.iter().all(|c| (c - 0.5).abs() < 1e-6), "{color:?}");
        });
    }
}
