//! The keys of the window: one table, for who presses them and for who asks what there is.

use super::hands::SAVED;
use winit::keyboard::{Key, ModifiersState, NamedKey};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Close,
    /// The list of keys.
    Keys,
    /// The panels, shown or not.
    Panels,
    /// The clip box with its handles, shown or not.
    ClipBox,
    /// What each peer did when, shown or not.
    Timeline,
    /// Drags measure, or do not any more.
    Ruler,
    /// A note where the pointer is.
    Note,
    /// Three slices beside the picture, shown or not.
    Slices,
    Reset,
    /// Along an axis, 0 to 5.
    Axis(usize),
    Style,
    Centre,
    Save(usize),
    Recall(usize),
    Undo,
    Redo,
    RollLeft,
    RollRight,
    ZoomIn,
    ZoomOut,
    TurnLeft,
    TurnRight,
    TurnUp,
    TurnDown,
}

/// Keys and what they do, for people.
pub(super) const KEYS: [(&str, &str); 24] = [
    ("left drag", "turns"),
    ("right or middle drag, shift + left drag", "pans"),
    ("ctrl + left drag, Q and E", "roll"),
    (
        "ctrl + right drag",
        "window (right: wider) and level (up: higher) of the transfer function",
    ),
    ("wheel", "zooms to what is under the pointer"),
    ("ctrl + wheel", "moves the slice, a voxel a notch"),
    ("+ and -", "zoom to the middle"),
    ("arrows", "turn"),
    (
        "double click, C",
        "makes what is under the pointer the centre of turning",
    ),
    ("T", "trackball or turntable"),
    ("R", "the first view"),
    (
        "1 to 6",
        "along an axis: front, back, left, right, above, below",
    ),
    ("shift + F1 to F4", "save a view"),
    ("F1 to F4", "show a saved view"),
    ("ctrl + Z, ctrl + Y or ctrl + shift + Z", "undo, redo"),
    ("B", "shows and hides the clip box and its handles"),
    (
        "M",
        "left drags measure a length; once more: they turn again",
    ),
    (
        "N",
        "puts a note where the pointer is; its text stands in the panel",
    ),
    ("X", "shows and hides three slices beside the picture"),
    (
        "on one of these",
        "left drag: the others cross there; wheel: moves it; ctrl + wheel: zooms; right drag: pans; ctrl + right drag: window and level",
    ),
    ("P", "shows and hides the panels"),
    ("L", "shows and hides the timeline of the peers"),
    ("?", "this list"),
    ("Esc", "closes the window"),
];

const FUNCTION_KEYS: [NamedKey; SAVED] = [NamedKey::F1, NamedKey::F2, NamedKey::F3, NamedKey::F4];

/// What a key asks for.
pub(super) fn command(key: &Key, modifiers: ModifiersState) -> Option<Command> {
    let (ctrl, shift) = (modifiers.control_key(), modifiers.shift_key());
    let text = match key {
        Key::Named(named) => {
            let saved = FUNCTION_KEYS.iter().position(|k| k == named);
            return match named {
                NamedKey::Escape => Some(Command::Close),
                NamedKey::ArrowLeft => Some(Command::TurnLeft),
                NamedKey::ArrowRight => Some(Command::TurnRight),
                NamedKey::ArrowUp => Some(Command::TurnUp),
                NamedKey::ArrowDown => Some(Command::TurnDown),
                _ if shift => saved.map(Command::Save),
                _ => saved.map(Command::Recall),
            };
        }
        Key::Character(text) => text.to_lowercase(),
        _ => return None,
    };
    match (text.as_str(), ctrl) {
        ("z", true) if shift => Some(Command::Redo),
        ("z", true) => Some(Command::Undo),
        ("y", true) => Some(Command::Redo),
        (_, true) => None,
        ("r", _) => Some(Command::Reset),
        ("t", _) => Some(Command::Style),
        ("c", _) => Some(Command::Centre),
        ("q", _) => Some(Command::RollLeft),
        ("e", _) => Some(Command::RollRight),
        ("+" | "=", _) => Some(Command::ZoomIn),
        ("-", _) => Some(Command::ZoomOut),
        ("b", _) => Some(Command::ClipBox),
        ("l", _) => Some(Command::Timeline),
        ("m", _) => Some(Command::Ruler),
        ("n", _) => Some(Command::Note),
        ("x", _) => Some(Command::Slices),
        ("p", _) => Some(Command::Panels),
        ("?", _) => Some(Command::Keys),
        (digit, _) => {
            let number: usize = digit.parse().ok()?;
            (1..=6).contains(&number).then(|| Command::Axis(number - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_and_without_modifiers() {
        let (none, ctrl, shift) = (
            ModifiersState::empty(),
            ModifiersState::CONTROL,
            ModifiersState::SHIFT,
        );
        let typed = |text: &str, modifiers| command(&Key::Character(text.into()), modifiers);
        assert_eq!(typed("6", none), Some(Command::Axis(5)));
        assert_eq!(typed("7", none), None);
        assert_eq!(typed("z", ctrl), Some(Command::Undo));
        assert_eq!(typed("Z", ctrl | shift), Some(Command::Redo));
        assert_eq!(typed("r", ctrl), None);
        assert_eq!(typed("?", shift), Some(Command::Keys));
        let f2 = Key::Named(NamedKey::F2);
        assert_eq!(command(&f2, shift), Some(Command::Save(1)));
        assert_eq!(command(&f2, none), Some(Command::Recall(1)));
    }
}
