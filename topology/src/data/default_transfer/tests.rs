use super::*;
use crate::data::{
    manifest::ManifestParts,
    value_gathering::ValueGathering,
    volume::{PatientAxes, VolumeDescription},
};
use proptest::prelude::*;

const EDGE: u32 = 24;

/// The manifest of a cube with these stored numbers, x fastest.
fn manifest(volume: VolumeDescription, stored: &[f64]) -> Manifest {
    let mut gathering = ValueGathering::new(&volume);
    let row = |row: u32| {
        let values = &stored[(row * EDGE) as usize..][..EDGE as usize];
        let mut bytes = Vec::new();
        values
            .iter()
            .for_each(|&v| volume.voxel.append(v, &mut bytes));
        bytes
    };
    let rows: Vec<Vec<u8>> = (0..EDGE * EDGE).map(row).collect();
    for (at, bytes) in (0..).zip(&rows) {
        gathering.row(at % EDGE, at / EDGE, bytes);
    }
    let all = rows.concat();
    let parts = ManifestParts::cut(volume, EDGE, "test", |_| all.clone()).unwrap();
    let found = gathering.finish();
    assert_eq!(parts.range, found.range);
    found.manifest(parts).unwrap()
}

/// A float as a voxel has it.
#[expect(clippy::cast_possible_truncation, reason = "as a voxel")]
fn as_float(value: f64) -> f64 {
    f64::from(value as f32)
}

/// A ball whose values fall from 1 in the middle to 0.2 at its surface, in `outside`.
fn ball(outside: f64) -> Vec<f64> {
    let n = f64::from(EDGE - 1);
    (0..EDGE * EDGE * EDGE)
        .map(|i| {
            let p =
                [i % EDGE, i / EDGE % EDGE, i / EDGE / EDGE].map(|v| f64::from(v) * 2.0 / n - 1.0);
            let r = (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]).sqrt();
            if r < 0.9 {
                1.0 - r * 0.8 / 0.9
            } else {
                outside
            }
        })
        .collect()
}

fn floats() -> VolumeDescription {
    VolumeDescription::new([EDGE; 3], VoxelType::F32)
}

fn of_floats(stored: &[f64]) -> (DefaultTransfer, Manifest) {
    let manifest = manifest(floats(), stored);
    (default_transfer(&manifest), manifest)
}

fn opacity(of: &DefaultTransfer, value: f64) -> f64 {
    of.function.classify(value).1
}

proptest! {
    #[test]
    fn the_default_is_mapped_as_the_values_are(
        log_scale in -60..60_i32, offset in -200..200_i32, outside in prop_oneof![Just(0.0), Just(-0.5), Just(1.5)]
    ) {
        let (scale, offset) = (2.0_f64.powi(log_scale), f64::from(offset));
        let map = |v: f64| scale * (v + offset);
        // Values that stay exact in f32 under the map.
        let plain: Vec<f64> = ball(outside).into_iter().map(|v| (v * 4096.0).round() / 4096.0).collect();
        let mapped: Vec<f64> = plain.iter().map(|&v| map(v)).collect();
        let ((a, _), (b, _)) = (of_floats(&plain), of_floats(&mapped));
        prop_assert_eq!(a.function.validate(), Ok(()));
        prop_assert_eq!(a.function.points.len(), b.function.points.len());
        for (p, q) in a.function.points.iter().zip(&b.function.points) {
            prop_assert!((map(p.value) - q.value).abs() <= 1e-6 * scale, "{} {}", map(p.value), q.value);
            prop_assert!((p.opacity - q.opacity).abs() < 1e-12);
        }
    }
}

#[test]
fn what_surrounds_the_object_is_transparent_whatever_it_is() {
    for outside in [0.0, -0.5, 1.5, -9999.0, 9999.0, -1e30, 1e30] {
        let (of, _) = of_floats(&ball(outside));
        assert!(opacity(&of, outside) <= 0.0, "{outside}: {of:?}");
        let most = of.function.max_opacity(0.2, 1.0);
        assert!(most > 0.4, "{outside}: {most}");
        assert_eq!(of.function.validate(), Ok(()));
    }
}

#[test]
fn one_voxel_far_out_changes_nothing() {
    let plain = ball(0.0);
    let mut with = plain.clone();
    with[10_000] = 1e6;
    let (a, b) = (of_floats(&plain).0, of_floats(&with).0);
    for (p, q) in a.function.points.iter().zip(&b.function.points) {
        assert!((p.value - q.value).abs() < 0.01, "{p:?} {q:?}");
    }
}

#[test]
fn an_object_darker_than_what_surrounds_it_is_shown() {
    let dark: Vec<f64> = ball(0.0).into_iter().map(|v| 10.0 - v).collect();
    let (of, _) = of_floats(&dark);
    assert!(opacity(&of, 9.05) > 0.3 && opacity(&of, 10.0) <= 0.0);
}

#[test]
fn values_to_both_sides_of_the_background_are_shown_alike() {
    let signed: Vec<f64> = ball(0.0)
        .into_iter()
        .enumerate()
        .map(|(i, v)| if i % 24 < 12 { v } else { -v })
        .collect();
    let (of, _) = of_floats(&signed);
    assert_eq!(of.preset, COOL_WARM);
    assert!((opacity(&of, 0.9) - opacity(&of, -0.9)).abs() < 0.05);
    assert!(opacity(&of, 0.9) > 0.2 && opacity(&of, 0.0) < 1e-9);
}

#[test]
fn hounsfield_units_are_known_by_air_and_tissue_and_mean_themselves() {
    let body: Vec<f64> = ball(-1000.0)
        .into_iter()
        .map(|v| {
            if v < -1.0 {
                v
            } else {
                (v * 1000.0 - 300.0).round()
            }
        })
        .collect();
    let volume = VolumeDescription::new([EDGE; 3], VoxelType::I16);
    let of = default_transfer(&manifest(volume, &body));
    assert_eq!(of.preset, CT);
    assert!(opacity(&of, -1000.0) <= 0.0 && opacity(&of, 350.0) > 0.3);
    // As stored by a scanner: unsigned, with an intercept.
    let stored: Vec<f64> = body.iter().map(|v| v + 1024.0).collect();
    let volume = VolumeDescription {
        value_offset: -1024.0,
        patient: Some(PatientAxes::Lps),
        ..VolumeDescription::new([EDGE; 3], VoxelType::U16)
    };
    assert_eq!(default_transfer(&manifest(volume, &stored)), of);
    // The same numbers in another unit are not.
    let volume = VolumeDescription {
        value_scale: 0.1,
        ..VolumeDescription::new([EDGE; 3], VoxelType::I16)
    };
    assert_ne!(default_transfer(&manifest(volume, &body)).preset, CT);
}

#[test]
fn a_body_shows_its_surface_and_few_bright_voxels_in_it_show_through() {
    let volume = VolumeDescription {
        patient: Some(PatientAxes::Ras),
        ..VolumeDescription::new([EDGE; 3], VoxelType::U16)
    };
    let body: Vec<f64> = ball(0.0).into_iter().map(|v| (v * 100.0).round()).collect();
    assert_eq!(
        default_transfer(&manifest(volume.clone(), &body)).preset,
        MR
    );
    let vessel = |(i, v): (usize, &f64)| {
        if i % 24 == 12 && *v > 50.0 {
            2000.0
        } else {
            *v
        }
    };
    let vessels: Vec<f64> = body.iter().enumerate().map(vessel).collect();
    assert_eq!(
        default_transfer(&manifest(volume, &vessels)).preset,
        STRUCTURE
    );
}

#[test]
fn constant_volumes_are_seen_and_empty_ones_have_a_function() {
    for value in [0.0, 5.0, -1e-20, 1e30] {
        let (of, manifest) = of_floats(&vec![value; (EDGE * EDGE * EDGE) as usize]);
        assert_eq!(of.function.validate(), Ok(()));
        let found = as_float(value);
        assert!(opacity(&of, found) > 0.05, "{value}: {of:?}");
        assert_eq!(manifest.value_range(), Some([found; 2]));
    }
    let (of, manifest) = of_floats(&vec![f64::NAN; (EDGE * EDGE * EDGE) as usize]);
    assert_eq!(
        (of.function.validate(), manifest.value_range()),
        (Ok(()), None)
    );
}

#[test]
fn a_manifest_without_statistics_has_a_default_by_its_histogram() {
    let with = manifest(floats(), &ball(0.0));
    let mut parts = ManifestParts::from(with.clone());
    parts.statistics = None;
    let (a, b) = (
        default_transfer(&with),
        default_transfer(&Manifest::try_from(parts).unwrap()),
    );
    assert_eq!(a.preset, b.preset);
    let at = |of: &DefaultTransfer| of.function.points[2].value;
    assert!((at(&a) - at(&b)).abs() < 0.1, "{} {}", at(&a), at(&b));
}

#[test]
fn stretching_keeps_shares_and_may_turn_a_function_round() {
    let ramp = TransferFunction::ramp(0.0, 10.0);
    let up = stretched(&ramp, [100.0, 300.0]);
    assert!((up.classify(200.0).1 - ramp.classify(5.0).1).abs() < 1e-12);
    let down = stretched(&ramp, [300.0, 100.0]);
    assert_eq!(down.validate(), Ok(()));
    assert!((down.classify(150.0).1 - ramp.classify(7.5).1).abs() < 1e-12);
}

/// A ball of `object` in noise of a few values around 0, seen from the ball's side of it.
fn noisy(object: f64, noise: f64) -> Vec<f64> {
    let noise_at = |i: usize| noise * ((i * 7919 % 101) as f64 / 101.0);
    let ball = ball(0.0).into_iter().enumerate();
    ball.map(|(i, v)| noise_at(i) + if v > 0.0 { object * v.max(0.5) } else { 0.0 })
        .collect()
}

#[test]
fn noise_around_an_object_is_not_what_is_shown() {
    for object in [1.0, -1.0] {
        let stored: Vec<f64> = noisy(object, 0.05).into_iter().map(as_float).collect();
        let (_, manifest) = of_floats(&stored);
        let Interest { from, to } = interest(&manifest);
        assert!(to / object > 0.7, "{object}: {from} … {to}");
        assert!((to - from) / object > 0.4, "{object}: {from} … {to}");
    }
    // Whole numbers, of which one is the most frequent in the middle of the noise.
    let volume = VolumeDescription::new([EDGE; 3], VoxelType::U8);
    let stored: Vec<f64> = noisy(250.0, 5.0)
        .into_iter()
        .map(|v| v.min(255.0).round())
        .collect();
    let Interest { from, to } = interest(&manifest(volume, &stored));
    assert!(to > 200.0 && from < to, "{from} … {to}");
}

#[test]
fn masks_and_labels_are_shown_from_their_lowest_value_on() {
    let labels = |i: usize, v: f64| {
        if v <= 0.0 {
            0.0
        } else {
            f64::from(u8::from(i.is_multiple_of(3))) + 1.0
        }
    };
    let stored: Vec<f64> = ball(0.0)
        .into_iter()
        .enumerate()
        .map(|(i, v)| labels(i, v))
        .collect();
    let Interest { from, to } = interest(&of_floats(&stored).1);
    assert!(from > 0.0 && from < 0.9 && to > 1.5, "{from} … {to}");
    let mask: Vec<f64> = stored.iter().map(|v| v.min(1.0)).collect();
    for (scale, offset) in [(1.0, 0.0), (1000.0, 1e5), (-1e-9, 0.0)] {
        let mapped: Vec<f64> = mask.iter().map(|v| as_float(v * scale + offset)).collect();
        let Interest { from, to } = interest(&of_floats(&mapped).1);
        let [from, to] = [from, to].map(|v| (v - offset) / scale);
        assert!(
            (from - 0.3).abs() < 0.01 && (to - 1.0).abs() < 0.01,
            "{from} … {to}"
        );
    }
}
