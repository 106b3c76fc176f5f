//! A volume for a session, from what the command line says.

use crate::{
    args::{MeshArgs, PlacementArg, SurfaceArgs, VolumeArgs},
    brick_store::{self, Alone, BrickEdge, FileOptions, Placed},
    free_memory::free_memory_bytes,
    network::MeshKey,
    progress::Progress,
    session::DataSource,
    stop::GoesOn,
    surface_file::{MEMORY_MIN, Spill},
};
use std::{error::Error, sync::Arc};

/// Opens a volume for a session; loads it into memory where it is no `.brickmesh` folder, with the triangles that stand in it. What is
/// no file here is looked for in the mesh: by digest, or with `--mesh` by the name of its file. Reading ends with an error
/// where it no longer `goes_on`.
pub(crate) fn open_source(
    args: &VolumeArgs,
    surfaces: &SurfaceArgs,
    mesh: &mut MeshArgs,
    goes_on: &GoesOn,
) -> Result<DataSource, Box<dyn Error>> {
    let volume = args.volume.as_path();
    let is_here = volume.exists() || brick_store::surface_of(volume).is_some();
    if let Some(name) = volume.to_str().filter(|_| !is_here)
        && (mesh.mesh || DataSource::is_digest(name))
    {
        if mesh.placement.is_some() {
            return Err(
                "--placement belongs to a volume that is opened here: who opened the data set has placed it".into(),
            );
        }
        if mesh.in_place {
            return Err("--in-place belongs to a file: others have this data set".into());
        }
        if !surfaces.surface.is_empty() {
            return Err(
                "--surface belongs to a volume that is opened here: who opened the data set has said what stands in it".into(),
            );
        }
        if args.fill.is_some() {
            return Err(
                "--fill belongs to a file: who opened the data set has said what is no data".into(),
            );
        }
        mesh.mesh = true;
        return Ok(DataSource::Named(name.to_owned()));
    }
    // Before the volume is read, which may take a while: it is for nothing without the key.
    check_network(mesh)?;
    let edge = if mesh.peers == 1 && !mesh.mesh && !mesh.in_place {
        BrickEdge::alone(mesh.brick, Alone::new(mesh.memory, mesh.device))
    } else {
        BrickEdge::shared(mesh.brick)
    };
    let mut progress = Progress::new("reading the volume");
    // A device on the processor shares the bricks with the source; any other's copies go when it
    // has them, and the source's stay where others may ask for them.
    let memory = mesh.memory.unwrap_or(0).saturating_mul(mesh.peers.into());
    let bytes_max = memory.max(free_memory_bytes() / 2);
    let how = FileOptions {
        fill: args.fill,
        is_in_place: mesh.in_place,
    };
    let mut show = |done, total| {
        progress.show(done, total);
        goes_on()
    };
    let surfaces = &surfaces.surface;
    let spill = Spill::in_temp(bytes_max.max(MEMORY_MIN), Arc::clone(goes_on));
    let source = brick_store::open_with_surfaces(
        volume,
        how,
        edge,
        surfaces,
        (bytes_max, &spill),
        &mut show,
    )?;
    Ok(DataSource::Own(match mesh.placement {
        Some(PlacementArg::Method(placement)) => Arc::new(Placed::new(source, placement)),
        // It is chosen when the peers are known.
        Some(PlacementArg::Auto) | None => source,
    }))
}

/// Looks whether what is said of other peers fits together, and the mesh key is there where it is needed.
pub(crate) fn check_network(mesh: &MeshArgs) -> Result<(), Box<dyn Error>> {
    if !mesh.mesh && mesh.network.is_given() {
        return Err("--join, --listen, --key and --identity belong to --mesh: without it only peers of this process render".into());
    }
    if mesh.mesh {
        MeshKey::load(&mesh.network.key_file()?)?;
    }
    Ok(())
}
