//! A brick on its way: encoded, decoded, and checked against its digest; a partial likewise. And what a picture hides by partials of fog.

use brickmesh_actors::{
    messages::{Message, decode, encode},
    pixels::PackedPixels,
};
use brickmesh_shaders::SubImage;
use brickmesh_topology::{
    BrickIndex, Digest, PixelRect, frame::occlusion::OcclusionMap, picture::render_settings::Mode,
};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

/// Voxels of a brick of 64, u16, with its ghosts.
const BRICK_BYTES: usize = 67 * 67 * 67 * 2;

fn transfer(c: &mut Criterion) {
    let bytes: Bytes = (0..BRICK_BYTES)
        .map(|i| (i * 31 % 251).to_le_bytes()[0])
        .collect::<Vec<u8>>()
        .into();
    let digest = Digest::of(&bytes);
    let brick = Message::BrickData {
        data_set: digest,
        brick: BrickIndex(7),
        bytes,
    };
    let mut group = c.benchmark_group("transfer");
    group.throughput(Throughput::Bytes(BRICK_BYTES as u64));
    group.bench_function("brick_64_u16", |b| {
        b.iter(|| {
            let wire = encode(black_box(&brick));
            let Ok(Message::BrickData { bytes, .. }) = decode(&wire) else {
                panic!("a brick")
            };
            assert_eq!(Digest::of(&bytes), digest);
        });
    });
    let rect = PixelRect {
        x: 0,
        y: 0,
        width: 128,
        height: 128,
    };
    // A shaded ball before nothing, rough to some thousandths.
    let pixel = |i: usize| {
        let [x, y] = [i % 128, i / 128].map(|v| v as f32 / 64.0 - 1.0);
        let light = (1.0 - x * x - y * y).max(0.0).sqrt() + 0.004 * (i * 31 % 7) as f32;
        [0.9, 0.7, 0.5, 1.0].map(|c| {
            if x * x + y * y < 1.0 {
                c * light.min(1.0)
            } else {
                0.0
            }
        })
    };
    let pixels = (0..rect.pixel_count()).map(pixel).collect();
    let image = SubImage::new(rect, pixels).expect("an image");
    group.throughput(Throughput::Bytes(16 * rect.pixel_count() as u64));
    group.bench_function("pixels_128x128", |b| {
        b.iter(|| PackedPixels::of(black_box(&image), Mode::Dvr).image(Mode::Dvr))
    });
    group.finish();
}

/// Eight partials one behind the other, of 128 x 128 pixels each, in the middle of a picture.
fn occlusion(c: &mut Criterion) {
    let square = |at, edge| PixelRect {
        x: at,
        y: at,
        width: edge,
        height: edge,
    };
    let rect = square(192, 128);
    let fog = |i: usize| [0.0, 0.0, 0.0, 0.001 * (i % 97) as f32];
    let pixels = (0..rect.pixel_count()).map(fog).collect();
    let image = SubImage::new(rect, pixels).expect("an image");
    let mut group = c.benchmark_group("occlusion");
    group.throughput(Throughput::Elements(8 * rect.pixel_count() as u64));
    group.bench_function("fog_128x128", |b| {
        b.iter(|| {
            let mut map = OcclusionMap::new(square(0, 512), 0.998);
            (0..8).any(|job| map.add(job, black_box(&image)))
        });
    });
    group.finish();
}

criterion_group!(benches, transfer, occlusion);
criterion_main!(benches);
