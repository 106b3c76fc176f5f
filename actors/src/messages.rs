//! Everything that peers say to each other: the messages on the wire, and how they are written.
//!
//! Encoding: MessagePack by name, so that fields can be added with `#[serde(default)]` and old
//! peers still read what new ones write. Pixels and voxels travel as byte strings,
//! little-endian. The protocol's version is in the names of the bus's lanes.
//!
//! Invariant: nothing here is trusted. [`decode`] makes texts fit for people to read; whoever uses a
//! field checks it against the data set first (`validate` of manifest, roster, view, render settings).

pub use brickmesh_topology::frame::{
    compositing::{FrameKey, HiddenJobs, Part, Partial},
    frame_requests::{AttemptRequest, Complaint, EarlierWork, FrameId, FrameMessage},
    worker::inputs::FrameRequest,
};

use crate::{pixels::Pixels, plain_text::plain_text};
use brickmesh_topology::{
    BrickIndex, Digest, PeerId,
    balance::{cost_table::CostTable, roster::Roster, stealing::StealMessage},
    frame::{image::Packed as _, timeline::Span},
    mesh::{followers::Viewpoint, keeper::KeeperMessage},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// From a compositor of a frame, to who is to render what nobody would see.
    Hidden(HiddenJobs),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pixels::PackedPixels;
    use brickmesh_topology::{
        PixelRect,
        mesh::{
            keeper::{Hello, Sharing},
            membership::Heartbeat,
        },
    };

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
        let pixels = PackedPixels {
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
            shelf_bytes: 0,
            sharing: Sharing::Object,
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
