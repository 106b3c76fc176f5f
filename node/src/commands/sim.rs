//! `brickmesh sim`: reads the input, runs the simulation, prints its answer.

use super::CommandResult;
use crate::{args::SimArgs, kept_voxels, output_file::OutputFile, terminal::say, volume_file};
use brickmesh_sim::{PAPER_VOXELS_MAX, PaperOptions, PaperVolume};
use std::{io::Read as _, path::Path};

/// Most bytes of a simulation's input.
const BYTES_MAX: u64 = 256 << 20;

/// Runs the command.
pub(super) fn run(args: &SimArgs) -> CommandResult {
    let example = brickmesh_sim::example(&args.what)?;
    if args.example {
        say(example.trim_end())?;
        return Ok(());
    }
    if args.what == "paper" && args.vary.iter().any(String::is_empty) {
        let name = args.file.as_ref().map(|f| f.to_string_lossy());
        let name = name.as_deref().unwrap_or(example);
        say(brickmesh_sim::paper_parameters(name)?.trim_end())?;
        return Ok(());
    }
    let Some(file) = &args.file else {
        return Err(format!(
            "sim {} needs an input: a file, or - for standard input; --example prints one",
            args.what
        )
        .into());
    };
    if args.what == "paper" {
        return paper(args, file);
    }
    let of_paper = args.frames.is_some() || args.seed.is_some() || args.plots.is_some();
    if of_paper || args.volume.is_some() || args.fit || !args.vary.is_empty() {
        return Err(
            "--frames, --seed, --volume, --plots, --fit and --vary belong to sim paper alone"
                .into(),
        );
    }
    say(format_args!(
        "{}",
        brickmesh_sim::run(&args.what, &read(file)?)?
    ))?;
    Ok(())
}

fn read(file: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let mut input = String::new();
    let error = |e: std::io::Error| format!("{}: {e}", file.display());
    if file.as_os_str() == "-" {
        std::io::stdin()
            .take(BYTES_MAX)
            .read_to_string(&mut input)
            .map_err(error)?;
    } else {
        let opened = std::fs::File::open(file).map_err(error)?;
        opened
            .take(BYTES_MAX)
            .read_to_string(&mut input)
            .map_err(error)?;
    }
    Ok(input)
}

fn volume(path: &Path) -> Result<PaperVolume, Box<dyn std::error::Error>> {
    let file = volume_file::open(path)?;
    let dims = file.description.dims;
    let voxels: u64 = dims.iter().map(|&n| u64::from(n)).product();
    if voxels > PAPER_VOXELS_MAX {
        return Err(format!(
            "--volume {}: it has {voxels} voxels; {PAPER_VOXELS_MAX} at most are evaluated",
            path.display()
        )
        .into());
    }
    Ok(PaperVolume {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        dims,
        values: kept_voxels::values(&file)?,
    })
}

fn paper(args: &SimArgs, name: &Path) -> CommandResult {
    if let Some(file) = args.plots.as_deref().filter(|f| f.exists() && !f.is_dir()) {
        return Err(format!("--plots {}: it is no folder", file.display()).into());
    }
    let answer = brickmesh_sim::paper(&PaperOptions {
        paper: name.to_string_lossy().into_owned(),
        frames: args.frames,
        seed: args.seed,
        vary: args.vary.clone(),
        plots: args.plots.is_some(),
        volume: args.volume.as_deref().map(volume).transpose()?,
        fit: args.fit,
    })?;
    if let Some(folder) = &args.plots {
        let error = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(folder).map_err(error)?;
        for plot in &answer.plots {
            let file = folder.join(&plot.name);
            let out = OutputFile::check("figure", &file)?;
            out.write(|to| to.write_all(plot.svg.as_bytes()))?;
        }
    }
    say(answer.json)?;
    Ok(())
}
