//! Good messages of every kind as bytes, to be turned bad: by their bytes, and by their values.

use super::mutation::{mutate, one_of, pick};
use brickmesh_actors::messages::{
    AttemptRequest, Complaint, EarlierWork, FrameId, FrameKey, FrameMessage, FrameRequest,
    HiddenJobs, Message, Part, Partial, StealNote, encode,
};
use brickmesh_actors::pixels::{PackedPixels, Pixels};
use brickmesh_shaders::SubImage;
use brickmesh_topology::frame::timeline::{Span, SpanKind};
use brickmesh_topology::{
    BrickIndex, Camera, Digest, Manifest, PeerId, PixelRect, RenderSettings, TransferFunction,
    View,
    balance::{
        cost_table::CostTable,
        image_division::{TileGrid, TileRenderers},
        job_tree::{JobTree, Leaf, SplitRule},
        plan_rules::{Division, PlanRules, TileSharing},
        roster::{Roster, RosterEntry},
        stealing::StealMessage,
    },
    base::seeded::Seeded,
    data::brick_set::BrickSet,
    frame::frame_requests::BrickAccesses,
    mesh::{
        announcement::{Announcement, Said, Saying},
        keeper::{FrameTimes, Hello, KeeperMessage, Sharing, Vitals},
        membership::Heartbeat,
    },
    picture::render_settings::Mode,
};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Values in MessagePack that nobody expects: numbers of every width, and lengths that lie.
const VALUES: [&[u8]; 18] = [
    &[0x00],
    &[0xff],
    &[0x7f],
    &[0xc0],
    &[0xc2],
    &[0xcc, 0xff],
    &[0xcd, 0xff, 0xff],
    &[0xce, 0x80, 0, 0, 0],
    &[0xce, 0xff, 0xff, 0xff, 0xff],
    &[0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0],
    &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
    &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
    &[0xcb, 0x7f, 0xe1, 0xcc, 0xf3, 0x85, 0xeb, 0xc8, 0xa0],
    &[0xcb, 0x00, 0x00, 0, 0, 0, 0, 0, 1],
    &[0xdd, 0xff, 0xff, 0xff, 0xff],
    &[0xdf, 0x7f, 0xff, 0xff, 0xff],
    &[0xc6, 0xff, 0xff, 0xff, 0xff],
];

/// A message of each kind about a data set, with everything in it that it can have.
///
/// # Panics
/// Never: what is in them fits.
#[must_use]
pub fn messages(manifest: &Manifest) -> Vec<Message> {
    let (data_set, brick) = (manifest.digest(), BrickIndex(3));
    let (frame, plan) = (frame(), Digest::of(b"plan"));
    let mut all = about_frames(manifest, frame, plan);
    all.extend(of_keepers(manifest).into_iter().map(Message::Keeper));
    all.extend([
        Message::BrickData {
            data_set,
            brick,
            bytes: vec![7; 100].into(),
        },
        Message::Roster(roster(manifest)),
        Message::Costs(costs(manifest)),
        Message::TilesDue { frame },
        Message::Spans {
            frame,
            spans: vec![Span {
                kind: SpanKind::Job,
                start: 1 << 50,
                micros: 7,
                job: Some(3),
            }],
        },
    ]);
    all
}

fn of_keepers(manifest: &Manifest) -> Vec<KeeperMessage> {
    let (data_set, brick) = (manifest.digest(), BrickIndex(3));
    vec![
        KeeperMessage::Heartbeat {
            heartbeat: Heartbeat {
                incarnation: 1 << 50,
                count: 7,
            },
            hello: Arc::new(Hello {
                name: "mallory".to_owned(),
                device: "cpu".to_owned(),
                is_device_lost: false,
                memory_bytes: 1 << 30,
                shelf_bytes: 1 << 40,
                sharing: Sharing::Object,
                version: "0.1.0".to_owned(),
                is_viewer: false,
            }),
            vitals: Arc::new(Vitals {
                rendering: true,
                suspects: Arc::new([PeerId::new("honest"), PeerId::new("mallory")].into()),
                downloading: 3,
                last_frame: Some(FrameTimes::default()),
                speed_millionths: Some(1_000_000),
            }),
        },
        KeeperMessage::Goodbye,
        KeeperMessage::NeedManifest { data_set },
        KeeperMessage::Open {
            manifest: Arc::new(manifest.clone()),
            redundancy: 2,
            is_new: true,
        },
        KeeperMessage::Residency {
            data_set,
            announcement: Arc::new(Announcement {
                held: BrickSet::all(manifest.grid().brick_count()),
                source: true,
                in_use: true,
                shelf: BrickSet::all(manifest.grid().brick_count()),
                shelf_room: u32::MAX,
                leavers: [PeerId::new("honest")].into(),
                ..Announcement::expected(manifest.grid().brick_count(), 9)
            }),
        },
        changed(manifest),
        KeeperMessage::ResidencyDigests {
            digests: Arc::new([(data_set, Digest::of(b"announcement"))].into()),
        },
        KeeperMessage::NeedResidency { data_set },
        KeeperMessage::BrickRequest {
            data_set,
            brick,
            for_frame: false,
        },
        KeeperMessage::BrickRefused {
            data_set,
            brick,
            why: "none here".to_owned(),
        },
    ]
}

/// One brick more is held than nothing.
fn changed(manifest: &Manifest) -> KeeperMessage {
    let mut announcement = Announcement::expected(manifest.grid().brick_count(), 9);
    let mut said = Said::new(announcement.clone());
    announcement.held.insert(BrickIndex(3));
    let Some(Saying::Change(change)) = said.say(&announcement) else {
        panic!("one brick is a change")
    };
    KeeperMessage::ResidencyChanged {
        data_set: manifest.digest(),
        change,
    }
}

fn cancel(frame: FrameId) -> Message {
    let is_over = true;
    Message::Cancel { frame, is_over }
}

fn hidden(key: FrameKey, plan: Digest) -> Message {
    let jobs = vec![(0, 1), (1, 0)];
    Message::Hidden(HiddenJobs { key, plan, jobs })
}

/// More than a peer can have needed.
fn accesses() -> BrickAccesses {
    BrickAccesses {
        acquired: u32::MAX,
        waited_micros: u64::MAX,
        ..BrickAccesses::default()
    }
}

fn about_frames(manifest: &Manifest, frame: FrameId, plan: Digest) -> Vec<Message> {
    let key = || (PeerId::new("mallory"), frame);
    let steal = |message| {
        let key = key();
        Message::Steal(StealNote { key, plan, message })
    };
    let reply = |reply| Message::Reply { frame, reply };
    let bob = || PeerId::new("bob");
    let complaint = |what| {
        let about = bob();
        reply(FrameMessage::Complaint { about, what })
    };
    let part = Part {
        tile: 0,
        first: 1,
        count: 2,
        pixels: pixels(),
    };
    vec![
        Message::Frame(Box::new(request(manifest))),
        Message::Frame(Box::new(divided(manifest))),
        reply(FrameMessage::NeedInputs),
        cancel(frame),
        Message::Partial(Box::new(Partial {
            key: key(),
            plan,
            parts: vec![part; 2],
        })),
        reply(FrameMessage::JobsDone {
            plan,
            jobs: vec![(1, 700); 2],
            rendered_micros: 700,
            bricks: accesses(),
        }),
        reply(FrameMessage::Lacking {
            plan,
            jobs: vec![0, 1],
        }),
        steal(StealMessage::Ask {
            question: 1,
            pace: 1000,
        }),
        steal(StealMessage::Grant {
            question: 1,
            jobs: vec![0, 1],
        }),
        steal(StealMessage::Offer),
        hidden(key(), plan),
        reply(FrameMessage::Given {
            plan,
            jobs: vec![0, 1],
            by: bob(),
        }),
        Message::Tile {
            frame,
            plan,
            tile: 0,
            pixels: pixels(),
            composite_micros: 5,
            received_bytes: 9,
        },
        reply(FrameMessage::Failed {
            why: "no memory".to_owned(),
        }),
        reply(FrameMessage::Busy),
        complaint(Complaint::AnotherPlan),
        complaint(Complaint::Unreachable),
        complaint(Complaint::Refused("not finite".to_owned())),
    ]
}

fn frame() -> FrameId {
    FrameId {
        number: 7,
        attempt: 1,
    }
}

/// A request for a picture of the whole volume.
///
/// # Panics
/// Where the volume has no view.
#[must_use]
pub fn request(manifest: &Manifest) -> FrameRequest {
    FrameRequest {
        attempt: AttemptRequest {
            frame: frame(),
            roster: roster(manifest).digest(),
            costs: costs(manifest).digest(),
            rules: PlanRules::default(),
            earlier: Some(EarlierWork {
                roster: roster(manifest).digest(),
                rendered: BTreeMap::from([(0, PeerId::new("a")), (3, PeerId::new("nobody"))]),
            }),
        },
        data_set: manifest.digest(),
        view: request_view(manifest),
        settings: RenderSettings::new(TransferFunction::ramp(0.0, 255.0), 0.5),
        is_traced: true,
    }
}

fn request_view(manifest: &Manifest) -> View {
    let view = Camera::whole(manifest.volume()).view(48, 32);
    view.expect("a view of the volume")
}

/// The same, of which each peer renders tiles, as far as it had them before.
fn divided(manifest: &Manifest) -> FrameRequest {
    let mut request = request(manifest);
    let rules = &mut request.attempt.rules;
    rules.division = Division::Image { tile: Some(16) };
    rules.tile_sharing = TileSharing::Steal;
    request
}

/// Two peers that hold all, and one that holds nothing.
#[must_use]
pub fn roster(manifest: &Manifest) -> Roster {
    let count = manifest.grid().brick_count();
    let entry = |name, bricks| RosterEntry {
        fetches: true,
        ..RosterEntry::new(PeerId::new(name), bricks)
    };
    Roster::new([
        entry("mallory", BrickSet::all(count)),
        entry("bob", BrickSet::all(count)),
        entry("eve", BrickSet::new(count)),
    ])
}

/// Costs of some bricks, one of which is split.
#[must_use]
pub fn costs(manifest: &Manifest) -> CostTable {
    let leaf = Leaf {
        cost_micros: 900,
        samples: 500,
    };
    let mut table = CostTable::default();
    for (brick, threshold) in [(0, 1000), (1, 300), (2, 100)] {
        let owned = manifest.grid().owned_box(BrickIndex(brick));
        let rule = SplitRule::in_the_middle(threshold, glam::DVec3::X);
        let tree = JobTree::whole(leaf).split_and_merged(owned, &rule);
        table.trees.insert(BrickIndex(brick), tree);
    }
    let grid = TileGrid::new(request_view(manifest).rect(), 16);
    let peers = ["eve", "mallory"].map(PeerId::new);
    let by: Vec<usize> = (0..grid.len()).map(|tile| tile % 2).collect();
    table.tile_renderers = Some(TileRenderers::new(grid, peers.into(), &by));
    table
}

fn pixels() -> Pixels {
    let rect = PixelRect {
        x: 1,
        y: 2,
        width: 5,
        height: 3,
    };
    // Some of nothing, which do not travel.
    let mut pixels = vec![[0.25, 0.5, 0.75, 1.0]; 15];
    pixels[3..9].fill([0.0; 4]);
    let image = SubImage::new(rect, pixels);
    let image = image.expect("as many pixels as the rectangle has");
    Pixels::Packed(PackedPixels::of(&image, Mode::Dvr))
}

/// Every message of a data set, encoded.
#[must_use]
pub fn encoded(manifest: &Manifest) -> Vec<Vec<u8>> {
    let all = messages(manifest);
    all.iter().map(|m| encode(m).to_vec()).collect()
}

/// Turns one of the encoded messages bad.
///
/// # Panics
/// Where there are none.
#[must_use]
pub fn hostile(draws: &mut Seeded, encoded: &[Vec<u8>]) -> (Vec<u8>, usize) {
    let mut bytes = one_of(draws, encoded).clone();
    let other = one_of(draws, encoded);
    if draws.below(4) == 0 {
        let all = bytes.len();
        mutate(draws, &mut bytes, all, other);
    } else {
        for _ in 0..=draws.below(3) {
            change_value(draws, &mut bytes, other);
        }
    }
    let length = bytes.len();
    (bytes, length)
}

/// Replaces a value by one that nobody expects, or by one of another message, or takes it away,
/// or doubles it.
fn change_value(draws: &mut Seeded, bytes: &mut Vec<u8>, other: &[u8]) {
    let (all, of_other) = (values(bytes), values(other));
    let (Some(at), Some(theirs)) = (all.get(pick(draws, all.len())), of_other.first()) else {
        return;
    };
    let with = match draws.below(8) {
        0 => Vec::new(),
        1 => bytes[at.clone()].repeat(2),
        2 => bytes[one_of(draws, &all).clone()].to_vec(),
        3 if draws.below(2) == 0 => other[theirs.clone()].to_vec(),
        3 => other[one_of(draws, &of_other).clone()].to_vec(),
        _ => one_of(draws, &VALUES).to_vec(),
    };
    drop(bytes.splice(at.clone(), with));
}

/// Where each value of a MessagePack text stands: of lists and maps, what opens them alone.
fn values(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = |width: usize| -> usize {
            let digits = bytes.get(at + 1..at + 1 + width).unwrap_or(&[]);
            let value = digits.iter().fold(0, |n, &b| n << 8 | usize::from(b));
            1 + width + value
        };
        let size = match bytes[at] {
            b @ 0xa0..=0xbf => 1 + usize::from(b & 0x1f),
            0xc4 | 0xd9 => length(1),
            0xc5 | 0xda => length(2),
            0xc6 | 0xdb => length(4),
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 | 0xdc | 0xde => 3,
            0xca | 0xce | 0xd2 | 0xdd | 0xdf => 5,
            0xcb | 0xcf | 0xd3 => 9,
            _ => 1,
        };
        let end = at.saturating_add(size).min(bytes.len());
        out.push(at..end);
        at = end;
    }
    out
}
