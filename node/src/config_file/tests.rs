//! What the file says is taken, the command line wins, and whatever is wrong is named.

use super::*;
use crate::args::{Cli, Command, DeviceChoice, PeerArgs, SharingArg};
use clap::Arg;

/// The command line with a configuration file of this text.
fn read(words: &str, text: &str) -> Result<Cli, CommandLineError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE_NAME);
    std::fs::write(&file, text).unwrap();
    let words: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
    command_line(&words, Some(&file))
}

fn peer(words: &str, text: &str) -> PeerArgs {
    match read(&format!("brickmesh peer {words}"), text)
        .unwrap()
        .command
    {
        Command::Peer(args) => args,
        other => panic!("{other:?}"),
    }
}

/// The error's text, which names the file first; and what follows the file's name.
fn refused(text: &str) -> String {
    let error = read("brickmesh peer", text).unwrap_err();
    assert!(matches!(error, CommandLineError::File(_)), "{error:?}");
    let text = error.to_string();
    let (file, rest) = text.split_once(", ").unwrap();
    assert!(file.ends_with(FILE_NAME), "{text}");
    rest.to_owned()
}

#[test]
fn every_option_of_peer_can_be_given() {
    let text = r#"
        name = "lab-1"
        device = "vulkan:1"
        memory = "3G"
        sharing = "page"
        cache = "512M"
        join = ["192.168.7.20:7070", "/ip4/192.168.7.21/tcp/7070"]
        listen = "0.0.0.0:7070"
        key = "/k"
        identity = "/i"
        data = "/d.brickmesh"
        disk = "2G"
        disk-dir = "shelf"
        metrics = "127.0.0.1:9464"
        verbose = 2
    "#;
    let args = peer("", text);
    assert_eq!(args.name.as_deref(), Some("lab-1"));
    assert_eq!(args.device, DeviceChoice::Vulkan(Some(1)));
    assert_eq!(args.memory, Some(3 << 30));
    assert_eq!(args.sharing, SharingArg::Page);
    assert_eq!(args.cache, Some(512 << 20));
    assert_eq!(
        args.network.join,
        ["192.168.7.20:7070", "/ip4/192.168.7.21/tcp/7070"]
    );
    assert_eq!(args.network.listen, ["0.0.0.0:7070"]);
    assert_eq!(args.network.key, Some("/k".into()));
    assert_eq!(args.network.identity, Some("/i".into()));
    assert_eq!(args.data, Some("/d.brickmesh".into()));
    assert_eq!(args.disk, Some(2 << 30));
    assert!(
        args.disk_dir
            .is_some_and(|d| d.is_absolute() && d.ends_with("shelf"))
    );
    assert_eq!(args.metrics, "127.0.0.1:9464".parse().ok());
    assert_eq!(read("brickmesh peer", text).unwrap().verbose, 2);
    // An option that the file lacks would be forgotten.
    let command = Cli::command();
    let options = command.find_subcommand("peer").unwrap().get_arguments();
    for option in options.filter_map(Arg::get_long).filter(|o| *o != "config") {
        assert!(text.contains(&format!("{option} =")), "{option}");
    }
}

#[test]
fn a_number_of_bytes_may_be_a_number() {
    assert_eq!(peer("", "memory = 67108864").memory, Some(64 << 20));
    assert_eq!(peer("", "memory = 0x400_0000").memory, Some(64 << 20));
}

#[test]
fn the_command_line_wins_and_lists_are_replaced_not_joined() {
    let text =
        "memory = \"1G\"\njoin = [\"10.0.0.1:1\", \"10.0.0.2:1\"]\nname = \"file\"\nverbose = 3";
    let args = peer("--memory 2G --join 10.0.0.3:1", text);
    assert_eq!(args.memory, Some(2 << 30));
    assert_eq!(args.network.join, ["10.0.0.3:1"]);
    assert_eq!(args.name.as_deref(), Some("file"));
    assert_eq!(read("brickmesh -v peer", text).unwrap().verbose, 1);
    assert_eq!(read("brickmesh peer -v", text).unwrap().verbose, 1);
}

#[test]
fn paths_are_relative_to_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mesh.toml");
    std::fs::write(&file, "key = \"keys/mesh.key\"").unwrap();
    let words = ["brickmesh", "peer", "--config"].map(OsString::from);
    let words = [&words[..], &[file.into_os_string()]].concat();
    let Command::Peer(args) = command_line(&words, None).unwrap().command else {
        panic!("another command");
    };
    assert_eq!(args.network.key, Some(folder.path().join("keys/mesh.key")));
}

#[test]
fn other_commands_take_how_to_find_the_mesh_and_no_more() {
    let text = "join = \"10.0.0.1:1\"\nkey = \"/k\"\nlisten = \"0.0.0.0:7070\"\nidentity = \"/i\"\nmemory = \"1G\"\nverbose = 3";
    for words in [
        "status",
        "render v.nrrd --out o.png --mesh",
        "view v --mesh",
    ] {
        let cli = read(&format!("brickmesh {words}"), text).unwrap();
        let network = cli.command.network().unwrap();
        assert_eq!(network.join, ["10.0.0.1:1"], "{words}");
        assert_eq!(network.key, Some("/k".into()), "{words}");
        assert_eq!((network.listen.len(), cli.verbose), (0, 0), "{words}");
        assert_eq!(network.identity, None, "{words}");
        if let Command::Render(args) = &cli.command {
            assert_eq!(args.mesh.memory, None);
        }
        assert!(read(&format!("brickmesh {words}"), "nonsense").is_err());
    }
    // What stays in this process does not look at the file.
    let alone = read("brickmesh render v.nrrd --out o.png", "nonsense");
    assert!(alone.unwrap().command.network().is_none());
}

#[test]
fn a_file_that_is_not_there_is_an_error_only_where_it_was_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.toml");
    let words = ["brickmesh", "peer"].map(OsString::from);
    assert!(command_line(&words, Some(&missing)).is_ok());
    assert!(command_line(&words, None).is_ok());
    let named = [&words[..], &["--config".into(), missing.into_os_string()]].concat();
    let error = command_line(&named, None).unwrap_err().to_string();
    assert!(error.contains("none.toml: No such file"), "{error}");
}

#[test]
fn an_empty_file_says_nothing() {
    assert_eq!(peer("", "").memory, None);
    assert_eq!(peer("", "# memory = 1\n").memory, None);
}

#[test]
fn an_unknown_option_is_named_with_those_that_there_are() {
    let text = refused("memory = \"1G\"\n\nmemroy = 7");
    assert!(
        text.starts_with("line 3: unknown field `memroy`, expected one of "),
        "{text}"
    );
    assert!(text.contains("memory") && text.contains("listen") && text.contains("verbose"));
    for no_option in [
        "config = \"/x\"",
        "help = true",
        "version = true",
        "[peer]\nmemory = 1",
    ] {
        let text = refused(no_option);
        assert!(text.starts_with("line 1: unknown field"), "{text}");
    }
    // A key that is too long or strange for a terminal is shown cut and escaped.
    let text = refused(&format!("\"\\u001b{}\" = 1", "x".repeat(10_000)));
    assert!(text.len() < 1000 && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_what_is_allowed() {
    let cases = [
        (
            "name = 7",
            "name: invalid type: integer `7`, expected a string",
        ),
        (
            "name = [\"a\"]",
            "name: invalid type: sequence, expected a string",
        ),
        (
            "device = true",
            "device: invalid type: boolean `true`, expected a string",
        ),
        (
            "memory = 1.5",
            "memory: invalid type: floating point `1.5`, expected a number or a string",
        ),
        (
            "memory = 1979-05-27",
            "memory: invalid type: map, expected a number or a string",
        ),
        (
            "join = 5",
            "join: invalid type: integer `5`, expected a string, or a list of strings",
        ),
        (
            "join = [\"10.0.0.1:1\", 5]",
            "join: invalid type: integer `5`, expected a string",
        ),
        (
            "join.x = \"y\"",
            "join.x: invalid type: map, expected a string, or a list of strings",
        ),
        (
            "verbose = true",
            "verbose: invalid type: boolean `true`, expected u8",
        ),
        (
            "verbose = 256",
            "verbose: invalid value: integer `256`, expected u8",
        ),
        (
            "verbose = \"-v\"",
            "verbose: invalid type: string \"-v\", expected u8",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), format!("line 1: {expected}"));
    }
}

#[test]
fn a_value_out_of_range_is_named_with_the_reason() {
    let cases = [
        (
            "memory = \"lots\"",
            "memory is \"lots\": it must be bytes, or a number with K, M, G or T",
        ),
        (
            "memory = -1",
            "memory is \"-1\": it must be bytes, or a number with K, M, G or T",
        ),
        (
            "memory = \"99999999999G\"",
            "memory is \"99999999999G\": it is too large",
        ),
        (
            "join = [\"10.0.0.1:1\", \"somewhere\"]",
            "join is \"somewhere\": \"somewhere\" is not an address like 192.168.1.5:4001, lab-1:4001 or /ip4/192.168.1.5/tcp/4001",
        ),
        (
            "metrics = \"9464\"",
            "metrics is \"9464\": it must be like 127.0.0.1:9464",
        ),
        (
            "metrics = \"127.0.0.1:65536\"",
            "metrics is \"127.0.0.1:65536\": it must be like 127.0.0.1:9464",
        ),
        (
            "key = \"~/mesh.key\"",
            "key is \"~/mesh.key\": only a shell knows ~: write the whole path",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), format!("line 1: {expected}"));
    }
    for empty in ["key = \"\"", "name = \"\""] {
        let text = refused(empty);
        assert!(text.contains("is \"\": "), "{text}");
    }
    assert!(refused("device = \"gpu\"").starts_with("line 1: device is \"gpu\": "));
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    for (text, line) in [
        ("memory", 1),
        ("memory = 1\nname = \"a\nkey = \"b\"", 2),
        ("memory = 1\nmemory = 2", 2),
        ("\n\nname = lab", 3),
        ("a = 1\u{0}", 1),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(&format!("line {line}: ")), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_text_or_without_an_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    std::fs::write(&file, [0xff, 0xfe]).unwrap();
    let words = ["brickmesh", "peer", "--config"].map(OsString::from);
    let with = |file: &Path| [&words[..], &[file.as_os_str().to_owned()]].concat();
    assert!(command_line(&with(&file), None).is_err());
    std::fs::write(&file, "#".repeat(1 << 20)).unwrap();
    let error = command_line(&with(&file), None).unwrap_err().to_string();
    assert!(error.contains("more than 65536 bytes"), "{error}");
    assert!(command_line(&with(folder.path()), None).is_err());
}

#[test]
fn a_wrong_command_line_is_still_clap_s_to_explain() {
    for words in [
        "brickmesh peer --memory lots",
        "brickmesh peer --nonsense",
        "brickmesh --help",
    ] {
        let error = read(words, "memory = 1").unwrap_err();
        assert!(matches!(error, CommandLineError::Words(_)), "{error:?}");
    }
}
