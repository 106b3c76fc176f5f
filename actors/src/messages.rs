//! Everything that peers say to each other: the messages on the wire, and how they are written.
//!
//! Encoding: MessagePack by name, so that fields can be added with `#[serde(default)]` and old
//! peers still read what new ones write. Pixels and voxels travel as byte strings,
//! little-endian. The protocol's version is in the names of the bus's lanes.
//!
//! Invariant: nothing here is trusted. [`decode`] makes texts fit for people to read; whoever uses a
//! field checks it against the data set first (`validate` of manifest, roster, view, render settings).

pub use brickmesh_topology::frame::{
    compositing::{FrameKey, Part, Partial},
    frame_requests::{AttemptRequest, Complaint, EarlierWork, FrameId, FrameMessage},
    worker::inputs::FrameRequest,
};

use crate::plain_text::plain_text;
use brickmesh_shaders::SubImage;
use brickmesh_topology::{
    BrickIndex, Digest, PeerId, PixelRect,
    balance::{cost_table::CostTable, roster::Roster, stealing::StealMessage},
    frame::{
        image::{PIXEL_BYTES, Packed},
        timeline::Span,
    },
    mesh::{followers::Viewpoint, keeper::KeeperMessage},
    picture::render_settings::Mode,
};
use bytes::Bytes;
use half::{f16, slice::HalfFloatSliceExt};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Pixels of a rectangle, row by row, eight bytes each; those that are wholly 0 are left out. Where a mode combines colours, premultiplied
/// linear RGBA in half precision; where it combines values, the value's place in the transfer table and
/// its weight in single precision. Little-endian.
///
/// Half the bytes of f32. Rounding is relative (2⁻¹¹ at most), and what a partial adds to a pixel
/// is at most what is not hidden yet; so all partials of a pixel and its tile together put it off
/// by 0.0015 at most: less than half a step of an 8-bit picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pixels {
    /// Where they lie in the picture.
    pub rect: PixelRect,
    /// Which of them are there: a bit each, the lowest of a byte first; empty: all.
    #[serde(default, skip_serializing_if = "Bytes::is_empty")]
    pub seen: Bytes,
    /// 8 bytes a pixel that is there.
    pub bytes: Bytes,
}

/// What thief and victim say to each other about a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StealNote {
    /// The frame.
    pub key: FrameKey,
    /// Digest of the plan whose jobs are meant.
    pub plan: Digest,
    /// What is said.
    pub message: StealMessage,
}

/// A message between peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// What keepers say to each other.
    Keeper(KeeperMessage),
    /// A brick, in answer.
    BrickData {
        /// The data set.
        data_set: Digest,
        /// The brick.
        brick: BrickIndex,
        /// Voxels of its stored box, to be checked against the manifest's digest.
        bytes: Bytes,
    },
    /// Asks a holder of a brick for the stored number of a voxel.
    AskVoxel {
        /// Which question of the sender.
        number: u64,
        /// The data set.
        data_set: Digest,
        /// The voxel.
        voxel: [u32; 3],
    },
    /// The answer: the number; or why there is none.
    Voxel {
        /// Of the question.
        number: u64,
        /// Found.
        found: Result<f64, String>,
    },
    /// A roster snapshot that later frames name.
    Roster(Roster),
    /// A cost table that later frames name.
    Costs(CostTable),
    /// Asks for a frame.
    Frame(Box<FrameRequest>),
    /// To the requester of a frame.
    Reply {
        /// The frame.
        frame: FrameId,
        /// What is said.
        reply: FrameMessage,
    },
    /// The requester needs this attempt at a frame no more.
    Cancel {
        /// The frame.
        frame: FrameId,
        /// It has the frame, or gave it up: there will be no further attempt.
        is_over: bool,
    },
    /// A piece of a frame, to a tile's compositor.
    Partial(Box<Partial<Pixels>>),
    /// Between peers that render a frame: work stealing.
    Steal(StealNote),
    /// A tile is whole, to the requester.
    Tile {
        /// The frame.
        frame: FrameId,
        /// Digest of the plan.
        plan: Digest,
        /// Tile of the plan.
        tile: u32,
        /// Its pixels.
        pixels: Pixels,
        /// Time spent blending it, microseconds.
        composite_micros: u64,
        /// Bytes that its compositor received for it from other peers.
        received_bytes: u64,
    },
    /// What the sender did for a frame, and when: to a requester that wants to know it.
    Spans {
        /// The frame.
        frame: FrameId,
        /// In the sender's time.
        spans: Vec<Span>,
    },
    /// Asks a viewer from where it looks, now and for some time whenever that changes.
    Follow,
    /// From there the sender, a viewer, looks.
    Viewpoint(Viewpoint),
    /// The requester awaits tiles though all jobs are done: what does the addressee, who
    /// composites some of them, lack?
    TilesDue {
        /// The frame.
        frame: FrameId,
    },
}

/// A message that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of {bytes} bytes cannot be read: {why}")]
pub struct DecodeError {
    /// Its size.
    pub bytes: usize,
    /// What the decoder said.
    pub why: String,
}

/// Encodes a message.
///
/// # Panics
/// Never for the types above: they have no maps with keys that MessagePack refuses.
#[must_use]
pub fn encode(message: &Message) -> Bytes {
    let bytes = rmp_serde::to_vec_named(message);
    bytes.expect("plain data types always encode").into()
}

/// Decodes a message.
///
/// # Errors
/// [`DecodeError`] where the bytes are no message of this version.
pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    let decoded = rmp_serde::from_slice(bytes).map_err(|e| DecodeError {
        bytes: bytes.len(),
        // The decoder repeats names that it does not know, whatever they are.
        why: plain_text(&e.to_string()),
    });
    decoded.map(with_plain_texts)
}

/// A message whose texts for people drive no terminal and forge no log.
fn with_plain_texts(mut message: Message) -> Message {
    match &mut message {
        Message::Keeper(KeeperMessage::Heartbeat { hello, .. }) => {
            let hello = Arc::make_mut(hello);
            for text in [&mut hello.name, &mut hello.device, &mut hello.version] {
                *text = plain_text(text);
            }
        }
        Message::Reply {
            reply:
                FrameMessage::Failed { why }
                | FrameMessage::Complaint {
                    what: Complaint::Refused(why),
                    ..
                },
            ..
        }
        | Message::Voxel {
            found: Err(why), ..
        }
        | Message::Keeper(KeeperMessage::BrickRefused { why, .. }) => *why = plain_text(why),
        Message::Reply {
            reply:
                FrameMessage::Given { by: peer, .. } | FrameMessage::Complaint { about: peer, .. },
            ..
        } => *peer = PeerId::new(&plain_text(peer.as_str())),
        _ => {}
    }
    message
}

/// How every encoded [`Message::Partial`] begins: a map of one entry, its name a text of 7 bytes.
const PARTIAL_HEAD: &[u8] = b"\x81\xa7Partial";

/// Whether a message is a [`Message::Partial`], from its first bytes: those are decoded by who
/// blends them.
#[must_use]
pub fn is_partial(bytes: &[u8]) -> bool {
    bytes.starts_with(PARTIAL_HEAD)
}

impl Message {
    /// Bytes of pixels in it, if it is a partial.
    #[must_use]
    pub fn partial_bytes(&self) -> usize {
        match self {
            Self::Partial(partial) => partial.parts.iter().map(|t| t.pixels.memory_bytes()).sum(),
            _ => 0,
        }
    }
}

impl Pixels {
    /// The bytes of a sub-image.
    #[must_use]
    pub fn of(image: &SubImage, mode: Mode) -> Self {
        // What is no number is not 0: whoever blends it must see it.
        let is_seen = |p: &[f32; 4]| p.iter().any(|c| c.abs() > 0.0 || c.is_nan());
        let pixels = image.pixels();
        let mut seen = vec![0_u8; pixels.len().div_ceil(8)];
        let mut there = Vec::with_capacity(pixels.len());
        for (bits, pixels) in seen.iter_mut().zip(pixels.chunks(8)) {
            for (bit, pixel) in pixels.iter().enumerate().filter(|(_, p)| is_seen(p)) {
                *bits |= 1 << bit;
                there.push(*pixel);
            }
        }
        if there.len() == pixels.len() {
            seen = Vec::new();
        }
        let bytes = if mode.combines_values() {
            let values = there.iter().flat_map(|p| [p[0], p[1]]);
            values.flat_map(f32::to_le_bytes).collect()
        } else {
            let mut halves = vec![f16::ZERO; 4 * there.len()];
            halves.convert_from_f32_slice(bytemuck::cast_slice(&there));
            if cfg!(target_endian = "big") {
                halves.iter_mut().for_each(swap_bytes);
            }
            Bytes::from_owner(Halves(halves))
        };
        Self {
            rect: image.rect(),
            seen: seen.into(),
            bytes,
        }
    }

    /// The sub-image of these bytes; `None` where their length is not that of the pixels that are there, or a number
    /// is not finite.
    #[must_use]
    pub fn image(&self, mode: Mode) -> Option<SubImage> {
        let all = self.rect.pixel_count();
        let bits = self.seen.iter().map(|b| b.count_ones() as usize).sum();
        let count = if self.seen.is_empty() { all } else { bits };
        let is_all = self.seen.is_empty() || self.seen.len() == all.div_ceil(8) && count <= all;
        if !is_all
            || !self.bytes.len().is_multiple_of(PIXEL_BYTES)
            || self.bytes.len() / PIXEL_BYTES != count
        {
            return None;
        }
        let pixels = if mode.combines_values() {
            let number = |b: &[u8]| b.try_into().map_or(f32::NAN, f32::from_le_bytes);
            let pixel = |b: &[u8]| [number(&b[..4]), number(&b[4..]), 0.0, 0.0];
            self.bytes.chunks_exact(PIXEL_BYTES).map(pixel).collect()
        } else {
            self.colors(count)
        };
        // Without a way out in the middle it is done eight at a time.
        let numbers = pixels.as_flattened().iter();
        let finite = numbers.fold(true, |all, v| all & v.is_finite());
        let pixels = finite.then_some(pixels)?;
        if self.seen.is_empty() {
            return SubImage::new(self.rect, pixels);
        }
        let mut whole = vec![[0.0; 4]; all];
        let mut next = pixels.into_iter();
        for (bits, eight) in self.seen.iter().zip(whole.chunks_mut(8)) {
            for (bit, pixel) in eight.iter_mut().enumerate() {
                if bits >> bit & 1 == 1 {
                    *pixel = next.next()?;
                }
            }
        }
        // A bit beyond the last pixel would leave one over.
        next.next()
            .is_none()
            .then(|| SubImage::new(self.rect, whole))
            .flatten()
    }

    fn colors(&self, count: usize) -> Vec<[f32; 4]> {
        let mut pixels = vec![[0.0; 4]; count];
        let numbers = pixels.as_flattened_mut();
        match bytemuck::try_cast_slice::<_, f16>(&self.bytes) {
            Ok(halves) if cfg!(target_endian = "little") => halves.convert_to_f32_slice(numbers),
            // What came from the network need not lie at an even address.
            _ => {
                let halves = self.bytes.as_chunks().0.iter();
                let halves: Vec<_> = halves.map(|&b| f16::from_le_bytes(b)).collect();
                halves.convert_to_f32_slice(numbers);
            }
        }
        pixels
    }
}

impl Packed for Pixels {
    type Image = SubImage;

    fn rect(&self) -> PixelRect {
        self.rect
    }

    fn unpack(&self, mode: Mode) -> Option<SubImage> {
        self.image(mode)
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.seen.len()
    }
}

/// Numbers whose bytes are lent without a copy.
struct Halves(Vec<f16>);

impl AsRef<[u8]> for Halves {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn swap_bytes(value: &mut f16) {
    *value = f16::from_bits(value.to_bits().swap_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::mesh::{keeper::Hello, membership::Heartbeat};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn the_bytes_on_the_wire_are_frozen() {
        let frame = FrameId {
            number: 7,
            attempt: 1,
        };
        let reply = FrameMessage::NeedInputs;
        assert_eq!(
            hex(&encode(&Message::Reply { frame, reply })),
            FROZEN_NEED_INPUTS
        );
        let pixels = Pixels {
            rect: PixelRect {
                x: 1,
                y: 2,
                width: 1,
                height: 1,
            },
            seen: Bytes::new(),
            bytes: vec![0; 8].into(),
        };
        assert_eq!(
            hex(&rmp_serde::to_vec_named(&pixels).unwrap()),
            FROZEN_PIXELS
        );
    }

    const FROZEN_NEED_INPUTS: &str = "81a55265706c7982a56672616d6582a66e756d62657207a7617474656d707401a57265706c79aa4e656564496e70757473";
    const FROZEN_PIXELS: &str =
        "82a47265637484a17801a17902a5776964746801a668656967687401a56279746573c4080000000000000000";

    #[test]
    fn pixels_of_a_wrong_length_or_not_finite_are_no_image() {
        let rect = PixelRect {
            x: 0,
            y: 0,
            width: 2,
            height: 1,
        };
        let image = SubImage::new(rect, vec![[0.25; 4], [0.5; 4]]).unwrap();
        let good = Pixels::of(&image, Mode::Dvr);
        assert_eq!(good.image(Mode::Dvr).unwrap(), image);
        let mut short = good.clone();
        short.bytes.truncate(15);
        assert!(short.image(Mode::Dvr).is_none());
        let mut nan = good.clone();
        nan.bytes = [&f16::NAN.to_le_bytes(), &nan.bytes[2..]].concat().into();
        assert!(nan.image(Mode::Dvr).is_none());
    }

    #[test]
    fn pixels_of_nothing_do_not_travel() {
        let rect = PixelRect {
            x: 3,
            y: 1,
            width: 5,
            height: 3,
        };
        let mut pixels = vec![[0.0; 4]; 15];
        (pixels[2], pixels[9], pixels[14]) = ([0.5; 4], [0.0, 0.0, 0.25, 0.0], [0.125; 4]);
        let image = SubImage::new(rect, pixels.clone()).unwrap();
        for mode in [Mode::Dvr, Mode::Additive] {
            let sent = Pixels::of(&image, mode);
            assert_eq!((sent.seen.len(), sent.bytes.len()), (2, 3 * PIXEL_BYTES));
            assert_eq!(sent.image(mode).unwrap(), image);
            let refused = |change: fn(&mut Pixels)| {
                let mut sent = sent.clone();
                change(&mut sent);
                sent.image(mode).is_none()
            };
            assert!(refused(|p| p.seen = vec![0xff].into()));
            assert!(refused(|p| p.seen = vec![0b100, 0b0100_0010, 0].into()));
            assert!(refused(|p| p.seen = vec![0b101, 0b0100_0010].into()));
            // As many bits, one of them beyond the last pixel.
            assert!(refused(|p| p.seen = vec![0b100, 0b1000_0010].into()));
            assert!(refused(|p| p.seen = Bytes::new()));
        }
        let values: Vec<[f32; 4]> = pixels.iter().map(|p| [p[0], p[1], 0.0, 0.0]).collect();
        let image = SubImage::new(rect, values).unwrap();
        assert_eq!(
            Pixels::of(&image, Mode::Mip).image(Mode::Mip).unwrap(),
            image
        );
        // What is no number is not left out.
        let nan = SubImage::new(rect, vec![[f32::NAN; 4]; 15]).unwrap();
        assert!(Pixels::of(&nan, Mode::Dvr).image(Mode::Dvr).is_none());
    }

    #[test]
    fn a_partial_is_known_by_its_first_bytes_and_nothing_else_is_taken_for_one() {
        let frame = FrameId {
            number: 7,
            attempt: 1,
        };
        let partial = Partial {
            key: (PeerId::new("r"), frame),
            plan: Digest::of(b"plan"),
            parts: Vec::new(),
        };
        assert!(is_partial(&encode(&Message::Partial(Box::new(partial)))));
        assert!(!is_partial(&encode(&Message::TilesDue { frame })));
        let goodbye = Message::Keeper(KeeperMessage::Goodbye);
        assert!(!is_partial(&encode(&goodbye)) && !is_partial(&[]));
    }

    #[test]
    fn what_others_say_drives_no_terminal_and_forges_no_log() {
        let text = "lab\n2026 ERROR \u{1b}[2J\0";
        let hello = Hello {
            name: text.to_owned(),
            device: text.repeat(1000),
            is_device_lost: false,
            memory_bytes: 1,
            version: text.to_owned(),
            is_viewer: true,
        };
        let frame = FrameId {
            number: 7,
            attempt: 1,
        };
        let (data_set, brick) = (Digest::of(b"data"), BrickIndex(1));
        let why = text.repeat(1000);
        for message in [
            Message::Keeper(KeeperMessage::Heartbeat {
                heartbeat: Heartbeat {
                    incarnation: 1,
                    count: 1,
                },
                hello: Arc::new(hello),
                vitals: Arc::default(),
            }),
            Message::Reply {
                frame,
                reply: FrameMessage::Failed { why: why.clone() },
            },
            Message::Keeper(KeeperMessage::BrickRefused {
                data_set,
                brick,
                why,
            }),
        ] {
            let shown = format!("{:#?}", decode(&encode(&message)).unwrap());
            assert!(!shown.contains("\\u") && !shown.contains("\\n"), "{shown}");
            assert!(shown.contains("lab?2026 ERROR ?[2J?") && shown.len() < 2000);
        }
    }

    #[test]
    fn garbage_is_an_error_not_a_panic() {
        for bytes in [
            &[][..],
            &[0xc1],
            &[0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0x81, 0xa4],
        ] {
            assert!(decode(bytes).is_err());
        }
        let unknown = [&[0xda, 0x40, 0x00][..], &[b'x'; 0x4000]].concat();
        assert!(decode(&unknown).unwrap_err().to_string().len() < 300);
    }
}
