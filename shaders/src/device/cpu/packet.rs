//! The AVX2 kernel: packets of eight rays, 4×2 pixels, two of them in step.
//!
//! All lanes stand at the same sample index k; a lane takes part while its own interval holds k
//! and it is not opaque. Where no lane that takes part stands in a visible macrocell, both packets
//! jump to the first sample at which one might. `doc/kernel.md`: what was measured.
//! Invariant: which lanes share a packet changes no pixel: only samples of opacity 0 are jumped.
#![expect(unsafe_code, reason = "loads take raw pointers")]

use super::{
    TILE_COLUMNS,
    field::{CELL_EDGE, CELL_SHIFT, Field},
    frame::{Frame, HALF_SQUARE_MIN, Shading},
    packet_hits::PacketHits,
    packet_modes::PacketMode,
    packet_rays::RowOfRays,
    packet_table::{self, PacketTable, classify},
    packet_voxel::{Columns, PacketVoxel, load_32},
    visible_tiles::TILE_PIXELS,
};
use crate::{
    macrocells::SkipGrid, modes::with_kernel_mode, secondary::LitPoint,
    transfer_table::TransferTable,
};
use brickmesh_topology::{
    PixelRect,
    data::voxel_numbers::{NO_DATA, NO_DATA_MIN, NUMBER_MAX},
};
use std::arch::x86_64::*;

/// Pixels of a packet on x and y.
const PACKET_PIXELS: [u32; 2] = [4, 2];
/// Packets that go in step, one below the other: while one waits for voxels, the other works.
const TOGETHER: usize = 2;
/// Rows of pixels of [`TOGETHER`] packets.
const ROWS_TOGETHER: u32 = 2 * PACKET_PIXELS[1];
const _: () = assert!(PACKET_PIXELS[0] == TILE_PIXELS && ROWS_TOGETHER == TILE_PIXELS);
/// Rays of a packet.
pub(super) const LANES: usize = (PACKET_PIXELS[0] * PACKET_PIXELS[1]) as usize;
/// A mask with a bit of each.
const ALL_LANES: i32 = (1 << LANES) - 1;
/// Voxels that a packet goes on without asking for the macrocell again.
const VISIBLE_RUN_VOXELS: f32 = 2.0;
/// Shortest advance of a sample on an axis that jumps reckon with, voxels.
const ADVANCE_MIN_VOXELS: f32 = 1e-6;

/// Whether the processor has what this kernel needs.
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Whether the brick can be addressed: rows long enough for a load, offsets within 31 bits,
/// counts of rows exact in f32.
pub(super) fn can_address<V: PacketVoxel>(field: &Field<'_>) -> bool {
    field.size[0] >= V::ROW_VOXELS_MIN
        && i32::try_from(field.bytes.len()).is_ok()
        && field.size[1] * field.size[2] < 1 << 24
}

/// As [`super::scalar::render_part`], in packets.
///
/// # Panics
/// Where [`is_supported`] or [`can_address`] is false.
pub(super) fn render_part<V: PacketVoxel>(
    frame: &Frame,
    field: &Field<'_>,
    part: &PixelRect,
    rows: (&mut [[f32; 4]], usize),
    points: &mut Vec<LitPoint>,
) {
    let is_shaded = frame.shading.is_some();
    with_kernel_mode!(frame.mode, is_shaded, frame.has_segments, M => {
        if field.numbers.is_checked() {
            render_in_mode::<V, M, true>(frame, field, part, rows, points);
        } else {
            render_in_mode::<V, M, false>(frame, field, part, rows, points);
        }
    });
}

fn render_in_mode<V: PacketVoxel, M: PacketMode, const CHECKED: bool>(
    frame: &Frame,
    field: &Field<'_>,
    part: &PixelRect,
    (rows, row_pixels): (&mut [[f32; 4]], usize),
    points: &mut Vec<LitPoint>,
) {
    assert!(is_supported() && can_address::<V>(field));
    let kernel = Kernel::new(frame, field);
    let [across, down] = [PACKET_PIXELS[0], ROWS_TOGETHER];
    for tile in (0..part.width).step_by(TILE_COLUMNS as usize) {
        let tile_end = part.width.min(tile + TILE_COLUMNS);
        for y in (0..part.height).step_by(down as usize) {
            for x in (tile..tile_end).step_by(across as usize) {
                let width = across.min(part.width - x);
                let height = down.min(part.height - y);
                let pixels = PixelRect {
                    x: part.x + x,
                    y: part.y + y,
                    width,
                    height,
                };
                // SAFETY: the assertion above holds: AVX2 and FMA are there, and the field can
                // be addressed.
                let partials = unsafe { kernel.render::<V, M, CHECKED>(&pixels, points) };
                for (j, row) in partials.iter().take(height as usize).enumerate() {
                    let start = (y as usize + j) * row_pixels + x as usize;
                    rows[start..start + width as usize].copy_from_slice(&row[..width as usize]);
                }
            }
        }
    }
}

/// What all packets of a part share.
struct Kernel<'a> {
    frame: &'a Frame,
    field: &'a Field<'a>,
    /// Samples that are taken after one that was seen before macrocells are asked again.
    visible_run: u32,
    /// Row strides in voxels: of a row, of a neighbour on y and on z (0 where there is none).
    strides: [i32; 3],
    /// Rows of a slice.
    slice_rows: f32,
}

/// Eight rays. Vectors hold a lane per pixel, row by row.
struct Packet<'a> {
    eye: [__m256; 3],
    step: f32,
    jitter: __m256,
    direction: [__m256; 3],
    /// First sample, and the one after the last.
    first: __m256,
    end: __m256,
    /// What the samples so far came to.
    partial: [__m256; 4],
    /// How opaque a ray is behind which nothing is seen.
    opaque: __m256,
    /// Samples per voxel on each axis.
    inverse_advance: [__m256; 3],
    /// What rounding moves a position by, at most, voxels.
    slack: f32,
    /// From the middle of a segment to its ends, samples.
    half: __m256,
    /// Where the last segment ended, and the number there: that of the next one's beginning.
    last: [__m256; 2],
    /// How far the next visible macrocell ahead is, for each.
    distances: &'a [u8],
}

/// Where the positions of a packet lie between voxels.
#[derive(Clone, Copy)]
struct Places {
    position: [__m256; 3],
    /// Lower neighbours, from the first stored voxel.
    cell: [__m256; 3],
    fraction: [__m256; 3],
}

impl<'a> Packet<'a> {
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    #[expect(clippy::cast_possible_truncation, reason = "kernels work in f32")]
    fn new(frame: &Frame, field: &Field<'a>, pixels: &PixelRect) -> Self {
        let row = |n: u32| {
            let count = if n < pixels.height { pixels.width } else { 0 };
            RowOfRays::new(frame, &field.bounds, [pixels.x, pixels.y + n], count)
        };
        let (above, below) = (row(0), row(1));
        let both = |a, b| _mm256_set_m128(b, a);
        let both_of = |[ax, ay, az]: [__m128; 3], [bx, by, bz]: [__m128; 3]| {
            [both(ax, bx), both(ay, by), both(az, bz)]
        };
        let eye = both_of(above.eye, below.eye);
        let direction = both_of(above.direction, below.direction);
        let (first, end) = (both(above.first, below.first), both(above.end, below.end));
        let has_samples = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(first, end));
        let step = frame.step as f32;
        let size = |v| _mm256_andnot_ps(_mm256_set1_ps(-0.0), v);
        let longest = _mm256_mul_ps(end, _mm256_set1_ps(step));
        let mut reach = _mm256_setzero_ps();
        for a in 0..3 {
            let way = _mm256_mul_ps(size(direction[a]), longest);
            reach = _mm256_max_ps(reach, _mm256_max_ps(way, size(eye[a])));
        }
        let farthest = field
            .last
            .iter()
            .fold(max_lane(reach), |m, v| m.max(v.abs()));
        Self {
            eye,
            step,
            jitter: both(above.jitter, below.jitter),
            direction,
            first,
            end,
            partial: [_mm256_setzero_ps(); 4],
            opaque: _mm256_set1_ps(frame.opaque),
            inverse_advance: direction.map(|d| inverse_advance(d, step)),
            slack: 1e-3 + farthest * 4e-7,
            half: half_segment(direction, step),
            last: [_mm256_set1_ps(-1.0); 2],
            distances: field
                .skip
                .map_or(&[], |skip| distances_ahead(skip, direction, has_samples)),
        }
    }

    /// Nothing is seen before `first`, nor from `end` on.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn clip(&mut self, [first, end]: [f32; 2]) {
        // In this order: no number clips nothing.
        self.first = _mm256_max_ps(_mm256_set1_ps(first), self.first);
        self.end = _mm256_min_ps(_mm256_set1_ps(end), self.end);
    }

    /// The first sample of a ray; infinite where there is none.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn first_sample(&self) -> f32 {
        let has_any = _mm256_cmp_ps::<_CMP_LT_OQ>(self.first, self.end);
        let never = _mm256_set1_ps(f32::INFINITY);
        min_lane(_mm256_blendv_ps(never, self.first, has_any))
    }

    /// Lanes whose rays have samples at or after `k` to take.
    ///
    /// # Safety
    /// AVX2 and FMA are there.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn live<M: PacketMode>(&self, k: __m256) -> __m256 {
        let before_end = _mm256_cmp_ps::<_CMP_LT_OQ>(k, self.end);
        // SAFETY: as this function's.
        _mm256_and_ps(before_end, unsafe {
            M::open_lanes(&self.partial, self.opaque)
        })
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(v: __m256) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    // SAFETY: eight numbers can be written.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), v) };
    lanes
}

/// `1 / (direction · step)`, finite: short advances count as longer ones of the same sign.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn inverse_advance(direction: __m256, step: f32) -> __m256 {
    let sign = _mm256_set1_ps(-0.0);
    let advance = _mm256_mul_ps(direction, _mm256_set1_ps(step));
    let length = _mm256_max_ps(
        _mm256_andnot_ps(sign, advance),
        _mm256_set1_ps(ADVANCE_MIN_VOXELS),
    );
    let advance = _mm256_or_ps(length, _mm256_and_ps(sign, advance));
    _mm256_div_ps(_mm256_set1_ps(1.0), advance)
}

/// As `Ray::half_segment`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn half_segment([x, y, z]: [__m256; 3], step: f32) -> __m256 {
    let size = |d| _mm256_andnot_ps(_mm256_set1_ps(-0.0), d);
    let farthest = _mm256_max_ps(size(x), _mm256_max_ps(size(y), size(z)));
    let advance = _mm256_mul_ps(farthest, _mm256_set1_ps(step));
    let voxel = _mm256_div_ps(_mm256_set1_ps(1.0), advance);
    _mm256_min_ps(_mm256_set1_ps(0.5), voxel)
}

/// Smallest lane.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn min_lane(v: __m256) -> f32 {
    let four = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    let one = _mm_min_ss(two, _mm_shuffle_ps::<1>(two, two));
    _mm_cvtss_f32(one)
}

/// Largest lane.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn max_lane(v: __m256) -> f32 {
    -min_lane(_mm256_xor_ps(v, _mm256_set1_ps(-0.0)))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn mix(a: __m256, b: __m256, t: __m256) -> __m256 {
    _mm256_fmadd_ps(_mm256_sub_ps(b, a), t, a)
}

impl<'a> Kernel<'a> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "strides are below 2^31 in a field that can be addressed; the run is small"
    )]
    fn new(frame: &'a Frame, field: &'a Field<'a>) -> Self {
        let ray = frame.ray(frame.view.width / 2, frame.view.height / 2);
        let speed = ray.direction.iter().fold(0.0_f32, |m, d| m.max(d.abs()));
        let run = VISIBLE_RUN_VOXELS / (speed * ray.step);
        Self {
            frame,
            field,
            visible_run: if field.skip.is_some() {
                run.clamp(0.0, 64.0) as u32
            } else {
                u32::MAX
            },
            strides: [field.size[0], field.stride[1], field.stride[2]].map(|s| s as i32),
            slice_rows: field.size[1] as f32,
        }
    }

    /// The partials of the pixels of packets that go in step, row by row.
    ///
    /// # Safety
    /// AVX2 and FMA are there, and [`can_address`] holds.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn render<V: PacketVoxel, M: PacketMode, const CHECKED: bool>(
        &self,
        pixels: &PixelRect,
        points: &mut Vec<LitPoint>,
    ) -> [[[f32; 4]; PACKET_PIXELS[0] as usize]; ROWS_TOGETHER as usize] {
        let mut rows = [[[0.0; 4]; PACKET_PIXELS[0] as usize]; ROWS_TOGETHER as usize];
        let tiles = self.field.sample_tiles;
        let seen = tiles.map(|tiles| tiles.samples(self.frame, pixels));
        if seen == Some(None) && !self.field.may_have_surfaces(self.frame) {
            return rows;
        }
        let packet = |n: u32| {
            let above = (n * PACKET_PIXELS[1]).min(pixels.height);
            let part = PixelRect {
                y: pixels.y + above,
                height: (pixels.height - above).min(PACKET_PIXELS[1]),
                ..*pixels
            };
            Packet::new(self.frame, self.field, &part)
        };
        let mut packets = [packet(0), packet(1)];
        if let Some(seen) = seen {
            let seen = seen.unwrap_or_default();
            packets.iter_mut().for_each(|packet| packet.clip(seen));
        }
        let k = packets[0].first_sample().min(packets[1].first_sample());
        let row_pixels = PACKET_PIXELS[0] as usize;
        let mut hits = PacketHits::<V>::new(self.frame, self.field, pixels, row_pixels);
        if k == f32::INFINITY && !hits.is_due(f32::MAX) {
            return rows;
        }
        // SAFETY: as this function's.
        unsafe { self.march::<V, M, CHECKED>(&mut packets, &mut hits, k) };
        if hits.is_due(f32::MAX) {
            self.pass::<V, M>(&mut packets, &mut hits, f32::MAX);
        }
        points.append(&mut hits.points);
        for (rows, packet) in rows
            .chunks_exact_mut(PACKET_PIXELS[1] as usize)
            .zip(&packets)
        {
            let [r, g, b, a] = packet.partial.map(|p| store(p));
            for (i, pixel) in rows.iter_mut().flatten().enumerate() {
                *pixel = [r[i], g[i], b[i], a[i]];
            }
        }
        rows
    }

    /// # Safety
    /// As [`Self::render`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn march<V: PacketVoxel, M: PacketMode, const CHECKED: bool>(
        &self,
        packets: &mut [Packet<'_>; TOGETHER],
        hits: &mut PacketHits<'_, V>,
        mut k: f32,
    ) {
        // Samples that are taken without asking for their macrocells.
        let mut run = if self.field.skip.is_some() {
            0
        } else {
            u32::MAX
        };
        let table = PacketTable::new(&self.frame.table);
        loop {
            if hits.is_due(k) {
                self.pass::<V, M>(packets, hits, k);
            }
            let index = _mm256_set1_ps(k);
            // SAFETY: as this function's.
            let live = unsafe { [packets[0].live::<M>(index), packets[1].live::<M>(index)] };
            if _mm256_movemask_ps(_mm256_or_ps(live[0], live[1])) == 0 {
                return;
            }
            let begun = |n: usize| _mm256_cmp_ps::<_CMP_LE_OQ>(packets[n].first, index);
            let mut active = [
                _mm256_and_ps(live[0], begun(0)),
                _mm256_and_ps(live[1], begun(1)),
            ];
            let places = [
                self.locate(&packets[0], index),
                self.locate(&packets[1], index),
            ];
            if run == 0
                && let Some(skip) = self.field.skip
            {
                let next = self.next_visible(packets, skip, &places, (&live, &active), k);
                if next > k {
                    k = next;
                    continue;
                }
                run = self.visible_run;
            } else {
                run = run.saturating_sub(1);
            }
            // SAFETY: `locate` clamps to the stored box, and the field can be addressed.
            let profiles = unsafe {
                let [a, b] = packets;
                [
                    self.profile::<V, M, CHECKED>(a, &places[0], index, &mut active[0]),
                    self.profile::<V, M, CHECKED>(b, &places[1], index, &mut active[1]),
                ]
            };
            if !M::MODE.combines_values() && !M::SEGMENTS {
                let seen = &self.frame.seen;
                let is_seen = |n: usize| packet_table::may_be_seen(seen, profiles[n][0], active[n]);
                // What is not seen changes nothing.
                if !(is_seen(0) | is_seen(1)) {
                    k += 1.0;
                    continue;
                }
                run = run.max(self.visible_run);
            }
            for n in 0..TOGETHER {
                let packet = &mut packets[n];
                // SAFETY: as above.
                unsafe {
                    let behind = self.behind::<V, M, CHECKED>(
                        packet,
                        table,
                        &places[n],
                        profiles[n],
                        active[n],
                    );
                    M::combine_lanes(&mut packet.partial, behind, active[n]);
                }
            }
            k += 1.0;
        }
    }

    /// Puts the surfaces before sample `k` into the partials.
    #[cold]
    #[target_feature(enable = "avx2,fma")]
    fn pass<V: PacketVoxel, M: PacketMode>(
        &self,
        packets: &mut [Packet<'_>; TOGETHER],
        hits: &mut PacketHits<'_, V>,
        k: f32,
    ) {
        let mut partials = [[0.0; 4]; TOGETHER * LANES];
        for (partials, packet) in partials.chunks_exact_mut(LANES).zip(&*packets) {
            let channels = packet.partial.map(|channel| store(channel));
            for (lane, partial) in partials.iter_mut().enumerate() {
                *partial = channels.map(|channel| channel[lane]);
            }
        }
        hits.pass::<M>(self.frame, self.field, k, &mut partials);
        for (partials, packet) in partials.chunks_exact(LANES).zip(packets) {
            for (c, channel) in packet.partial.iter_mut().enumerate() {
                let lanes: [f32; LANES] = std::array::from_fn(|lane| partials[lane][c]);
                // SAFETY: eight numbers can be read.
                *channel = unsafe { _mm256_loadu_ps(lanes.as_ptr()) };
            }
        }
    }

    /// Where in the table the beginnings, middles and ends of the packet's segments are, or its samples
    /// three times; lanes without data are not `active` any more.
    ///
    /// # Safety
    /// As [`Self::sample`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn profile<V: PacketVoxel, M: PacketMode, const CHECKED: bool>(
        &self,
        packet: &mut Packet<'_>,
        places: &Places,
        index: __m256,
        active: &mut __m256,
    ) -> [__m256; 3] {
        // SAFETY: as this function's.
        let numbers = unsafe {
            if M::SEGMENTS {
                self.segment::<V, CHECKED>(packet, places, index)
            } else {
                [self.sample::<V, CHECKED>(places); 3]
            }
        };
        if CHECKED {
            *active = _mm256_and_ps(*active, is_data(numbers[0]));
            if M::SEGMENTS {
                *active = _mm256_and_ps(*active, is_data(numbers[1]));
                *active = _mm256_and_ps(*active, is_data(numbers[2]));
            }
        }
        let place = |number| place(&self.frame.table, number);
        [place(numbers[0]), place(numbers[1]), place(numbers[2])]
    }

    /// What samples add to what lies before them.
    ///
    /// # Safety
    /// As [`Self::sample`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn behind<V: PacketVoxel, M: PacketMode, const CHECKED: bool>(
        &self,
        packet: &Packet<'_>,
        table: PacketTable<'_>,
        places: &Places,
        profile: [__m256; 3],
        active: __m256,
    ) -> [__m256; 4] {
        if M::MODE.combines_values() {
            let zero = _mm256_setzero_ps();
            return [profile[0], _mm256_set1_ps(1.0), zero, zero];
        }
        let color = if M::SEGMENTS {
            packet_table::segment(table, profile)
        } else {
            classify(table, profile[0])
        };
        if M::SHADED
            && let Some(shading) = &self.frame.shading
        {
            let seen = _mm256_cmp_ps::<_CMP_GT_OQ>(color[3], _mm256_setzero_ps());
            if _mm256_movemask_ps(_mm256_and_ps(seen, active)) != 0 {
                // SAFETY: as this function's.
                let difference = unsafe { self.difference::<V, CHECKED>(places) };
                return lit(
                    shading,
                    table,
                    (color, profile),
                    difference,
                    packet.direction,
                );
            }
        }
        color
    }

    /// The numbers at the beginning, middle and end of a segment.
    ///
    /// # Safety
    /// As [`Self::sample`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn segment<V: PacketVoxel, const CHECKED: bool>(
        &self,
        packet: &mut Packet<'_>,
        places: &Places,
        index: __m256,
    ) -> [__m256; 3] {
        let from = _mm256_sub_ps(index, packet.half);
        let to = _mm256_add_ps(index, packet.half);
        // SAFETY: `locate` clamps to the stored box.
        let sample = |k| unsafe { self.sample::<V, CHECKED>(&self.locate(packet, k)) };
        let is_next = _mm256_cmp_ps::<_CMP_EQ_OQ>(from, packet.last[0]);
        let first = if _mm256_movemask_ps(is_next) == ALL_LANES {
            packet.last[1]
        } else {
            sample(from)
        };
        let end = sample(to);
        packet.last = [to, end];
        // SAFETY: as above.
        let middle = unsafe { self.sample::<V, CHECKED>(places) };
        [first, middle, end]
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn locate(&self, packet: &Packet<'_>, k: __m256) -> Places {
        let t = _mm256_add_ps(k, packet.jitter);
        let t = _mm256_mul_ps(t, _mm256_set1_ps(packet.step));
        let mut places = Places {
            position: [_mm256_setzero_ps(); 3],
            cell: [_mm256_setzero_ps(); 3],
            fraction: [_mm256_setzero_ps(); 3],
        };
        for a in 0..3 {
            let set = |v: [f32; 3]| _mm256_set1_ps(v[a]);
            let p = _mm256_fmadd_ps(t, packet.direction[a], packet.eye[a]);
            // The clamps, in this order of arguments, turn a NaN into the first voxel.
            let q = _mm256_max_ps(p, set(self.field.first));
            let q = _mm256_min_ps(q, set(self.field.last));
            let below = _mm256_floor_ps(_mm256_min_ps(q, set(self.field.last_cell)));
            places.position[a] = p;
            places.cell[a] = _mm256_sub_ps(below, set(self.field.first));
            places.fraction[a] = _mm256_sub_ps(q, below);
        }
        places
    }

    /// `k` where a lane of `active` stands in a visible macrocell; else the first sample after
    /// which one of `live` may, if no lane of `active` does now.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn next_visible(
        &self,
        packets: &[Packet<'_>; TOGETHER],
        skip: &SkipGrid,
        places: &[Places; TOGETHER],
        (live, active): (&[__m256; TOGETHER], &[__m256; TOGETHER]),
        k: f32,
    ) -> f32 {
        let cells = |n: usize| {
            let shifted = |c| _mm256_srli_epi32::<{ CELL_SHIFT as i32 }>(_mm256_cvtps_epi32(c));
            let [x, y, z] = places[n].cell;
            [shifted(x), shifted(y), shifted(z)]
        };
        let cells = [cells(0), cells(1)];
        let distance = |n: usize| distances(skip, packets[n].distances, cells[n]);
        let distances = [distance(0), distance(1)];
        let seen = |n: usize| {
            let hidden = _mm256_cmpgt_epi32(distances[n], _mm256_setzero_si256());
            _mm256_andnot_ps(_mm256_castsi256_ps(hidden), active[n])
        };
        if _mm256_movemask_ps(_mm256_or_ps(seen(0), seen(1))) != 0 {
            return k;
        }
        let next = |n: usize| {
            let samples = self.hidden_samples(&packets[n], &places[n], cells[n], distances[n]);
            let after = _mm256_add_ps(samples, _mm256_set1_ps(k + 1.0));
            // Lanes yet to begin: at their first sample.
            let next = _mm256_blendv_ps(packets[n].first, after, active[n]);
            _mm256_blendv_ps(_mm256_set1_ps(f32::INFINITY), next, live[n])
        };
        min_lane(_mm256_min_ps(next(0), next(1))).max(k + 1.0)
    }

    /// Samples after these that cannot be seen, from `places` in macrocells `cells` with their distances.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn hidden_samples(
        &self,
        packet: &Packet<'_>,
        places: &Places,
        cells: [__m256i; 3],
        distance: __m256i,
    ) -> __m256 {
        // From the middle of the macrocell, all ahead is hidden up to `distance − ½` macrocells.
        let edge = _mm256_set1_ps(CELL_EDGE as f32);
        let half = _mm256_set1_ps(0.5 * CELL_EDGE as f32);
        let room = _mm256_fmsub_ps(_mm256_cvtepi32_ps(distance), edge, half);
        let room = _mm256_sub_ps(room, _mm256_set1_ps(packet.slack));
        let mut samples = _mm256_set1_ps(f32::INFINITY);
        for (a, cell) in cells.into_iter().enumerate() {
            let first = _mm256_set1_ps(self.field.first[a]);
            let middle = _mm256_fmadd_ps(_mm256_cvtepi32_ps(cell), edge, half);
            let off = _mm256_sub_ps(_mm256_add_ps(middle, first), places.position[a]);
            let inverse = packet.inverse_advance[a];
            let length = _mm256_andnot_ps(_mm256_set1_ps(-0.0), inverse);
            let way = _mm256_fmadd_ps(off, inverse, _mm256_mul_ps(room, length));
            samples = _mm256_min_ps(samples, way);
        }
        _mm256_max_ps(_mm256_floor_ps(samples), _mm256_setzero_ps())
    }

    /// Offset of each place's row, in voxels.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn row(&self, y: __m256, z: __m256) -> __m256i {
        let rows = _mm256_fmadd_ps(z, _mm256_set1_ps(self.slice_rows), y);
        _mm256_mullo_epi32(_mm256_cvtps_epi32(rows), _mm256_set1_epi32(self.strides[0]))
    }

    /// Offsets, in voxels, of the neighbours −1, 0, 1 and 2 on an axis, clamped to the stored box.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn neighbours(&self, places: &Places, axis: usize) -> [__m256i; 4] {
        let cell = places.cell[axis];
        let next = _mm256_add_ps(cell, _mm256_set1_ps(1.0));
        let last = _mm256_set1_ps(self.field.last[axis] - self.field.first[axis]);
        let has_below = _mm256_cmp_ps::<_CMP_GT_OQ>(cell, _mm256_setzero_ps());
        let has_above = _mm256_cmp_ps::<_CMP_LT_OQ>(next, last);
        let stride = _mm256_set1_epi32(self.strides[axis]);
        let zero = _mm256_setzero_si256();
        let below = _mm256_and_si256(
            _mm256_castps_si256(has_below),
            _mm256_sub_epi32(zero, stride),
        );
        let above = _mm256_and_si256(_mm256_castps_si256(has_above), stride);
        [below, zero, stride, _mm256_add_epi32(stride, above)]
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn columns(&self, places: &Places) -> Columns {
        Columns {
            x: _mm256_cvtps_epi32(places.cell[0]),
            row_voxels: self.strides[0],
        }
    }

    /// What stored numbers stand for, as `VoxelNumbers::number`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn numbers<V: PacketVoxel, const CHECKED: bool>(&self, stored: __m256) -> __m256 {
        let set = |v| _mm256_set1_ps(v);
        let mut number = stored;
        if V::IS_FLOAT {
            let [unit, shift] = self.field.numbers.unit_and_shift();
            number = _mm256_fmsub_ps(stored, set(unit), set(shift));
        }
        if CHECKED {
            number = _mm256_max_ps(_mm256_min_ps(number, set(NUMBER_MAX)), set(-NUMBER_MAX));
            let size = _mm256_andnot_ps(set(-0.0), stored);
            let finite = _mm256_cmp_ps::<_CMP_LT_OQ>(size, set(f32::INFINITY));
            // No voxel is NaN and finite: without a fill value none is it.
            let fill = set(self.field.numbers.fill().unwrap_or(f32::NAN));
            let filled = _mm256_cmp_ps::<_CMP_EQ_OQ>(stored, fill);
            let data = _mm256_andnot_ps(filled, finite);
            number = _mm256_blendv_ps(set(NO_DATA), number, data);
        }
        number
    }

    /// The number at the places.
    ///
    /// # Safety
    /// The places are in the stored box, and [`can_address`] holds.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sample<V: PacketVoxel, const CHECKED: bool>(&self, places: &Places) -> __m256 {
        let columns = self.columns(places);
        let row = self.row(places.cell[1], places.cell[2]);
        let [fx, fy, fz] = places.fraction;
        let line = |by: usize| {
            // SAFETY: rows of the stored box begin there: cells have an upper neighbour, or a
            // stride of 0.
            let [a, b] = unsafe {
                let base = self.field.bytes.as_ptr().add(by * V::BYTES);
                V::pair(base, row, columns)
            };
            let (a, b) = (self.numbers::<V, CHECKED>(a), self.numbers::<V, CHECKED>(b));
            mix(a, b, fx)
        };
        let [_, dy, dz] = self.field.stride;
        let near = mix(line(0), line(dy), fy);
        let far = mix(line(dz), line(dz + dy), fy);
        mix(near, far, fz)
    }

    /// Difference of the field a voxel above and a voxel below on each axis; 0 beside what is no data.
    ///
    /// # Safety
    /// As [`Self::sample`].
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn difference<V: PacketVoxel, const CHECKED: bool>(
        &self,
        places: &Places,
    ) -> [__m256; 3] {
        let row = self.row(places.cell[1], places.cell[2]);
        if !self.is_inside(places) {
            // SAFETY: as this function's.
            return unsafe { self.difference_at_border::<V, CHECKED>(places, row) };
        }
        let [_, dy, dz] = self.field.stride.map(|s| (s * V::BYTES).cast_signed());
        let base = self.field.bytes.as_ptr();
        // From one load to the next only what all lanes share changes.
        let row_at = |y: isize, z: isize| (base.wrapping_offset((y - 1) * dy + (z - 1) * dz), row);
        // SAFETY: rows a voxel below and two above are in the stored box; the rest as this function's.
        unsafe { self.difference_of::<V, CHECKED>(places, row_at) }
    }

    /// [`Self::difference`] where a row may have no neighbour. Not inlined: few places are there.
    ///
    /// # Safety
    /// As [`Self::sample`].
    #[inline(never)]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn difference_at_border<V: PacketVoxel, const CHECKED: bool>(
        &self,
        places: &Places,
        row: __m256i,
    ) -> [__m256; 3] {
        let base = self.field.bytes.as_ptr();
        let (ys, zs) = (self.neighbours(places, 1), self.neighbours(places, 2));
        let row_at = |y: isize, z: isize| {
            let by = _mm256_add_epi32(ys[y.cast_unsigned()], zs[z.cast_unsigned()]);
            (base, _mm256_add_epi32(row, by))
        };
        // SAFETY: neighbours are clamped to the stored box; the rest as this function's.
        unsafe { self.difference_of::<V, CHECKED>(places, row_at) }
    }

    /// Whether all rows of neighbours −1 … 2 on y and z are in the stored box.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn is_inside(&self, places: &Places) -> bool {
        let inside = |axis: usize| {
            let cell = places.cell[axis];
            let last = _mm256_set1_ps(self.field.last[axis] - self.field.first[axis] - 1.0);
            let has_below = _mm256_cmp_ps::<_CMP_GT_OQ>(cell, _mm256_setzero_ps());
            _mm256_and_ps(has_below, _mm256_cmp_ps::<_CMP_LT_OQ>(cell, last))
        };
        _mm256_movemask_ps(_mm256_and_ps(inside(1), inside(2))) == ALL_LANES
    }

    /// [`Self::difference`]; `row_at`: from where and at which offset in voxels the rows of the neighbours
    /// −1, 0, 1 and 2 on y and z begin, counted from 0.
    ///
    /// Away from the border, `f(p + 1) − f(p − 1)` interpolates the differences of the voxels
    /// two apart. Repeating border voxels gives just what clamping positions gives.
    ///
    /// # Safety
    /// As [`Self::sample`], and the rows can be read.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn difference_of<V: PacketVoxel, const CHECKED: bool>(
        &self,
        places: &Places,
        row_at: impl Fn(isize, isize) -> (*const u8, __m256i),
    ) -> [__m256; 3] {
        let columns = self.columns(places);
        let [fx, fy, fz] = places.fraction;
        // A line of the field along x at the places' x: its value.
        let line = |y: isize, z: isize| {
            let (base, row) = row_at(y, z);
            // SAFETY: as this function's.
            let [a, b] = unsafe { V::pair(base, row, columns) };
            let (a, b) = (self.numbers::<V, CHECKED>(a), self.numbers::<V, CHECKED>(b));
            mix(a, b, fx)
        };
        // The same, with its difference along x.
        let line_and_difference = |y: isize, z: isize| {
            let (base, row) = row_at(y, z);
            // SAFETY: as this function's.
            let [a, b, c, d] = unsafe { V::quad(base, row, columns) };
            let (a, b) = (self.numbers::<V, CHECKED>(a), self.numbers::<V, CHECKED>(b));
            let (c, d) = (self.numbers::<V, CHECKED>(c), self.numbers::<V, CHECKED>(d));
            let slope = mix(_mm256_sub_ps(c, a), _mm256_sub_ps(d, b), fx);
            (mix(b, c, fx), slope)
        };
        let (v11, s11) = line_and_difference(1, 1);
        let (v21, s21) = line_and_difference(2, 1);
        let (v12, s12) = line_and_difference(1, 2);
        let (v22, s22) = line_and_difference(2, 2);
        let along_x = mix(mix(s11, s21, fy), mix(s12, s22, fy), fz);
        let slope_y = |v1, v2, z| {
            let (below, above) = (line(0, z), line(3, z));
            mix(_mm256_sub_ps(v2, below), _mm256_sub_ps(above, v1), fy)
        };
        let along_y = mix(slope_y(v11, v21, 1), slope_y(v12, v22, 2), fz);
        let slope_z = |v1, v2, y| {
            let (below, above) = (line(y, 0), line(y, 3));
            mix(_mm256_sub_ps(v2, below), _mm256_sub_ps(above, v1), fz)
        };
        let along_z = mix(slope_z(v11, v12, 1), slope_z(v21, v22, 2), fy);
        if !CHECKED {
            return [along_x, along_y, along_z];
        }
        let of_data = |d| _mm256_and_ps(d, is_data(_mm256_andnot_ps(_mm256_set1_ps(-0.0), d)));
        [of_data(along_x), of_data(along_y), of_data(along_z)]
    }
}

/// Whether what is no data has no part in a number.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn is_data(number: __m256) -> __m256 {
    _mm256_cmp_ps::<_CMP_LT_OQ>(number, _mm256_set1_ps(NO_DATA_MIN))
}

/// The distances that the rays of a packet need: of what lies ahead, where they go to one octant.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn distances_ahead(skip: &SkipGrid, direction: [__m256; 3], has_samples: i32) -> &[u8] {
    let mut octant = 0;
    for (a, d) in direction.into_iter().enumerate() {
        let negative = _mm256_movemask_ps(d) & has_samples;
        if negative != 0 && negative != has_samples {
            return skip.distances();
        }
        octant |= usize::from(negative != 0) << a;
    }
    skip.distances_ahead(octant)
}

/// The distances of macrocells.
#[inline]
#[target_feature(enable = "avx2,fma")]
#[expect(clippy::cast_possible_wrap, reason = "counts are below 2^16")]
fn distances(skip: &SkipGrid, of: &[u8], [x, y, z]: [__m256i; 3]) -> __m256i {
    let counts = skip.counts();
    let [nx, ny, nz] = counts.map(|n| n as i32);
    let (nx, ny, nz) = (
        _mm256_set1_epi32(nx),
        _mm256_set1_epi32(ny),
        _mm256_set1_epi32(nz),
    );
    // Macrocells are inside since places are; the comparison with the grid is cheap all the same.
    let inside = |v, n| _mm256_min_epi32(v, _mm256_sub_epi32(n, _mm256_set1_epi32(1)));
    let (x, y, z) = (inside(x, nx), inside(y, ny), inside(z, nz));
    let rows = _mm256_add_epi32(_mm256_mullo_epi32(z, ny), y);
    let at = _mm256_add_epi32(_mm256_mullo_epi32(rows, nx), x);
    // SAFETY: the macrocells are in the grid, of which `of` has a byte each, and three bytes follow the last one.
    let four = unsafe { load_32::<u8>(of.as_ptr(), at) };
    _mm256_and_si256(four, _mm256_set1_epi32(0xff))
}

/// Places in the table of numbers.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn place(table: &TransferTable, number: __m256) -> __m256 {
    let scale = _mm256_set1_ps(table.scale);
    _mm256_fmadd_ps(number, scale, _mm256_set1_ps(table.offset))
}

/// A power by squares, eight at once; the exponent is above 0.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn power(base: __m256, exponent: u32) -> __m256 {
    let (mut square, mut rest, mut product) = (base, exponent, _mm256_set1_ps(1.0));
    loop {
        if rest & 1 == 1 {
            product = _mm256_mul_ps(product, square);
        }
        rest >>= 1;
        if rest == 0 {
            return product;
        }
        square = _mm256_mul_ps(square, square);
    }
}

/// A dot product with a vector that all lanes share.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn dot(x: __m256, y: __m256, z: __m256, with: [f32; 3]) -> __m256 {
    let [a, b, c] = with;
    let (a, b, c) = (_mm256_set1_ps(a), _mm256_set1_ps(b), _mm256_set1_ps(c));
    _mm256_fmadd_ps(x, a, _mm256_fmadd_ps(y, b, _mm256_mul_ps(z, c)))
}

/// As [`Shading::slope`] and [`Shading::lit`], eight at once; the colour of a 2D function is looked up
/// for the profile.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn lit(
    shading: &Shading,
    table: PacketTable<'_>,
    (color, profile): ([__m256; 4], [__m256; 3]),
    difference: [__m256; 3],
    direction: [__m256; 3],
) -> [__m256; 4] {
    let set = |v| _mm256_set1_ps(v);
    let floors = |d| _mm256_mul_ps(d, set(shading.scale));
    // Spelt out: `map` on arrays of vectors is called, not inlined.
    let [x, y, z] = difference;
    let (x, y, z) = (floors(x), floors(y), floors(z));
    let [xx, yy, zz, xy, xz, yz] = shading.metric;
    // gᵀ M g = x·(xx·x + 2xy·y + 2xz·z) + y·(yy·y + 2yz·z) + zz·z²
    let dot_x = _mm256_fmadd_ps(
        set(xx),
        x,
        _mm256_fmadd_ps(set(xy), y, _mm256_mul_ps(set(xz), z)),
    );
    let dot_y = _mm256_fmadd_ps(set(yy), y, _mm256_mul_ps(set(yz), z));
    let dot_z = _mm256_mul_ps(set(zz), z);
    let square = _mm256_fmadd_ps(x, dot_x, _mm256_fmadd_ps(y, dot_y, _mm256_mul_ps(z, dot_z)));
    let length = _mm256_sqrt_ps(_mm256_max_ps(square, set(1.0)));
    // As it is, where normals fade, too.
    let slope = || _mm256_sqrt_ps(_mm256_max_ps(square, set(0.0)));
    let along = _mm256_fmadd_ps(
        x,
        direction[0],
        _mm256_fmadd_ps(y, direction[1], _mm256_mul_ps(z, direction[2])),
    );
    let cosine = |along| _mm256_div_ps(_mm256_andnot_ps(set(-0.0), along), length);
    let (nl, nh) = match &shading.aside {
        None => (cosine(along), cosine(along)),
        Some(aside) => {
            let toward = dot(x, y, z, aside.of_gradient);
            let [dx, dy, dz] = direction;
            let between = dot(dx, dy, dz, aside.of_direction);
            let square = _mm256_fnmadd_ps(set(2.0), between, set(2.0));
            let half = _mm256_sqrt_ps(_mm256_max_ps(square, set(HALF_SQUARE_MIN)));
            let across = _mm256_div_ps(_mm256_sub_ps(toward, along), half);
            (cosine(toward), cosine(across))
        }
    };
    let light = &shading.light;
    let diffuse = _mm256_fmadd_ps(nl, set(light.diffuse), set(light.ambient));
    let color = match table.rows_per_floor() {
        Some(rows_per_floor) => packet_table::color_2d(table, profile, slope(), rows_per_floor),
        None => color,
    };
    let [r, g, b, a] = color;
    let highlight = power(nh, light.exponent);
    let shine = _mm256_mul_ps(_mm256_mul_ps(a, set(light.specular)), highlight);
    let shaded = |c| _mm256_fmadd_ps(c, diffuse, shine);
    let lit = [shaded(r), shaded(g), shaded(b), a];
    let Some([per_floor, at_none]) = shading.fade else {
        return lit;
    };
    let part = _mm256_fmadd_ps(slope(), set(per_floor), set(at_none));
    let part = _mm256_min_ps(_mm256_max_ps(part, set(0.0)), set(1.0));
    let [r, g, b, a] = lit;
    let faded = |c| _mm256_mul_ps(c, part);
    [faded(r), faded(g), faded(b), faded(a)]
}
