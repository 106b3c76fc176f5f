//! What the paper concludes, as claims about the evaluation on a shorter path.

use super::{
    PaperOptions,
    evaluation::{PATHS, Series, VOLUMES, evaluate},
    paper,
    parameters::Parameters,
    tables::{TableRow, table_1},
    variants::{BRICK_EDGE, VARIANTS},
};

/// Fewer where nothing is optimised: the claims hold for these too.
const FRAMES: usize = if cfg!(debug_assertions) { 40 } else { 300 };

/// Rows of the table for one number of devices.
fn rows(devices: usize) -> Vec<TableRow> {
    let parameters = Parameters::new(FRAMES, 1, &[]).unwrap();
    let series: Vec<Series> = evaluate(&parameters, devices..=devices).unwrap();
    table_1(&series)
}

/// A variant's time over that of `standard` in a setting.
fn ratio(rows: &[TableRow], setting: (&str, &str), variant: &str) -> f64 {
    let row = rows
        .iter()
        .find(|r| (r.volume, r.path) == setting && r.variant == variant && r.brick == BRICK_EDGE);
    row.unwrap().ratio_to_standard
}

fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    let paths = |(volume, _)| PATHS.map(|path| (volume, path));
    VOLUMES.into_iter().flat_map(paths)
}

#[test]
fn the_papers_conclusions_hold_on_every_volume_and_path() {
    let (eight, four) = (rows(8), rows(4));
    for s in settings() {
        let (on_8, on_4) = (|v: &str| ratio(&eight, s, v), |v: &str| ratio(&four, s, v));
        let names = VARIANTS
            .iter()
            .filter(|v| v.name != "refined")
            .map(|v| v.name);
        for name in names.filter(|&n| n != "standard") {
            assert!(
                on_8(name) > 1.0,
                "{s:?}: {name} takes no longer than standard"
            );
            assert!(
                on_8(name) <= on_8("clustered-single"),
                "{s:?}: {name} is worst"
            );
        }
        assert!(on_8("single") >= 1.2, "{s:?}: redundancy is worth 20 %");
        assert!(on_4("single") < on_8("single"), "{s:?}: and less on four");
        assert!(
            on_8("no-split") > on_4("no-split"),
            "{s:?}: splits are worth more on eight"
        );
        let without = on_8("clustered-single") - on_8("single");
        assert!(
            without > on_8("clustered") - 1.0,
            "{s:?}: clusters cost more without redundancy"
        );
    }
}

#[test]
fn refined_saves_a_tenth_on_eight_devices_and_fills_them_evenly() {
    for row in rows(8).iter().filter(|r| r.variant == "refined") {
        let setting = (row.volume, row.path);
        assert!(
            row.ratio_to_standard <= 0.9,
            "{setting:?}: {}",
            row.ratio_to_standard
        );
        // What the placement does not allow, no schedule can reach; the rest is prediction.
        let above = row.max_over_mean / row.bound_over_mean;
        assert!(above <= 1.09, "{setting:?}: {above} above the bound");
    }
}

#[test]
fn an_answer_has_all_tables_and_is_always_the_same() {
    let options = PaperOptions {
        frames: Some(4),
        plots: true,
        ..PaperOptions::default()
    };
    let answer = paper(&options).unwrap();
    assert_eq!(answer, paper(&options).unwrap());
    let json: serde_json::Value = serde_json::from_str(&answer.json).unwrap();
    let length = |name: &str| json[name].as_array().unwrap().len();
    // Seven variants and three with small bricks, 3 to 8 devices, two volumes, two paths.
    assert_eq!(length("table1"), 10 * 6 * 4);
    assert_eq!((length("scaling"), length("prediction")), (6 * 4, 3));
    // Figures 7 to 10.
    assert_eq!(answer.plots.len(), 4 * 4);
    for plot in &answer.plots {
        assert!(plot.svg.contains("<polyline"), "{}", plot.name);
    }
    let unknown = PaperOptions {
        paper: "other".to_owned(),
        ..options
    };
    assert!(
        paper(&unknown)
            .unwrap_err()
            .to_string()
            .contains("frey-ertl-2011")
    );
}
