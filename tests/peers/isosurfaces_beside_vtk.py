#!/usr/bin/env python3
"""Isosurfaces of brickmesh beside VTK's: how fast, and how near the pictures are.

Needs VTK, numpy and pillow (`pip install vtk numpy pillow`), and EGL for VTK
(`apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri`). Build first: `cargo build --release`.

    tests/peers/isosurfaces_beside_vtk.py BONSAI NEGHIP

BONSAI and NEGHIP are Open SciVis' bonsai_256x256x256_uint8.raw and neghip_64x64x64_uint8.raw (or .raw.gz). bonsai at 40.5
in 512² pixels: in each round an orbit by brickmesh on both devices, by VTK's volume mapper that blends isosurfaces (step
0.5) and by VTK drawing the contour that it extracted before; medians over rounds of the orbit's median picture, and of
the ratios within a round. neghip at 90.5, with VTK's step 0.1: signal to noise of our picture to VTK's.
"""

import argparse
import gzip
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

PIXELS = 512
FOV = 30.0
COLOR = (0.87, 0.79, 0.65)
LIGHT = (0.15, 0.75, 0.2, 20)
WARM_FRAMES = 2


def load(path):
    dims = [int(n) for n in re.search(r"(\d+)x(\d+)x(\d+)_uint8", path.name).groups()]
    data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
    return dims, np.frombuffer(data, np.uint8)


def eye(dims, frame, frames):
    """Eye and centre of a frame of the orbit, in voxels; z is up."""
    centre = (np.array(dims) - 1) / 2
    azimuth, elevation = 0.6 + 2 * math.pi * frame / frames, math.radians(25)
    way = np.array([math.cos(elevation) * math.sin(azimuth), -math.cos(elevation) * math.cos(azimuth),
                    math.sin(elevation)])
    return centre + 1.3 * np.linalg.norm(dims) * way, centre


def by_brickmesh(program, path, value, device, frames, out):
    """Median milliseconds of a picture, without the first."""
    dims, _ = load(path)
    at, centre = eye(dims, 0, frames)
    numbers = lambda v: ",".join(f"{c:.9g}" for c in v)
    command = [program, "render", path, "--config", "/dev/null", "--mode", "iso", "--iso", numbers((value, *COLOR)),
               "--light", numbers(LIGHT), "--camera", f"eye={numbers(at)} at={numbers(centre)} up=0,0,1 fov={FOV}",
               "--frames", frames + 1, "--spin", 360 / frames, "--ahead", "1", "--size", f"{PIXELS}x{PIXELS}",
               "--device", device, "--stats", out / "stats.json", "--out", out / "ours.png"]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{program}: status {run.returncode}\n{run.stderr}")
    shown = json.loads((out / "stats.json").read_text())["frames"]
    return statistics.median(f["total_us"] / 1000 for f in shown[1:])


def by_vtk(path, value, how, step, frames, out):
    """As by_brickmesh; in a process of its own, as VTK keeps threads and memory."""
    command = [sys.executable, __file__, path, path, "--as-vtk", how, value, step, frames, out]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                         env={"VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow", **os.environ})
    if run.returncode != 0:
        sys.exit(f"VTK: status {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def as_vtk(path, how, value, step, frames, out):
    from vtkmodules.util.numpy_support import numpy_to_vtk, vtk_to_numpy
    from vtkmodules.vtkCommonDataModel import vtkImageData, vtkPiecewiseFunction
    from vtkmodules.vtkFiltersCore import vtkFlyingEdges3D
    from vtkmodules.vtkRenderingCore import (vtkActor, vtkColorTransferFunction, vtkPolyDataMapper, vtkRenderer,
                                             vtkRenderWindow, vtkVolume, vtkVolumeProperty, vtkWindowToImageFilter)
    from vtkmodules.vtkRenderingVolumeOpenGL2 import vtkOpenGLGPUVolumeRayCastMapper

    dims, voxels = load(path)
    image = vtkImageData()
    image.SetDimensions(*dims)
    image.GetPointData().SetScalars(numpy_to_vtk(voxels))
    ambient, diffuse, specular, exponent = LIGHT
    renderer = vtkRenderer()
    if how == "blend":
        mapper = vtkOpenGLGPUVolumeRayCastMapper()
        mapper.SetInputData(image)
        mapper.SetBlendModeToIsoSurface()
        mapper.UseJitteringOff()
        mapper.AutoAdjustSampleDistancesOff()
        mapper.SetSampleDistance(step)
        colors, opacities = vtkColorTransferFunction(), vtkPiecewiseFunction()
        colors.AddRGBPoint(value, *COLOR)
        opacities.AddPoint(0, 1.0)
        opacities.AddPoint(255, 1.0)
        look = vtkVolumeProperty()
        look.SetColor(colors)
        look.SetScalarOpacity(opacities)
        look.GetIsoSurfaceValues().SetValue(0, value)
        look.SetInterpolationTypeToLinear()
        look.ShadeOn()
        actor = vtkVolume()
        renderer.AddVolume(actor)
    else:
        contour = vtkFlyingEdges3D()
        contour.SetInputData(image)
        contour.SetValue(0, value)
        mapper = vtkPolyDataMapper()
        mapper.SetInputConnection(contour.GetOutputPort())
        mapper.ScalarVisibilityOff()
        actor = vtkActor()
        look = actor.GetProperty()
        look.SetColor(*COLOR)
        renderer.AddActor(actor)
    look.SetAmbient(ambient)
    look.SetDiffuse(diffuse)
    look.SetSpecular(specular)
    look.SetSpecularPower(exponent)
    actor.SetMapper(mapper)
    actor.SetProperty(look)
    window = vtkRenderWindow()
    window.SetOffScreenRendering(1)
    window.SetMultiSamples(0)
    window.SetSize(PIXELS, PIXELS)
    window.AddRenderer(renderer)
    window.SetDesiredUpdateRate(0.0001)
    camera = renderer.GetActiveCamera()
    camera.SetViewAngle(FOV)
    times = []
    for frame in [0] * WARM_FRAMES + list(range(frames)):
        at, centre = eye(dims, frame, frames)
        camera.SetPosition(*at)
        camera.SetFocalPoint(*centre)
        camera.SetViewUp(0, 0, 1)
        renderer.ResetCameraClippingRange()
        start = time.perf_counter()
        window.Render()
        window.WaitForCompletion()
        times.append(time.perf_counter() - start)
        if len(times) == 1:
            shot = vtkWindowToImageFilter()
            shot.SetInput(window)
            shot.ReadFrontBufferOff()
            shot.Update()
            pixels = vtk_to_numpy(shot.GetOutput().GetPointData().GetScalars())
            Image.fromarray(pixels.reshape(PIXELS, PIXELS, -1)[::-1, :, :3].copy()).save(out / "vtk.png")
    print(json.dumps(1000 * statistics.median(times[WARM_FRAMES:])))


def decibels(a, b):
    return 10 * math.log10(255 ** 2 / np.mean((a - b) ** 2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bonsai", type=Path)
    parser.add_argument("neghip", type=Path)
    parser.add_argument("--brickmesh", default="target/release/brickmesh", help="program to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=8, help="pictures of an orbit")
    parser.add_argument("--as-vtk", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_vtk:
        how, value, step, frames, out = args.as_vtk
        return as_vtk(args.bonsai, how, float(value), float(step), int(frames), Path(out))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        rounds = []
        for _ in range(args.rounds):
            blend = by_vtk(args.bonsai, 40.5, "blend", 0.5, args.frames, out)
            contour = by_vtk(args.bonsai, 40.5, "contour", 0.5, args.frames, out)
            ours = [by_brickmesh(args.brickmesh, args.bonsai, 40.5, d, args.frames, out) for d in ("cpu", "vulkan")]
            rounds.append((blend, contour, *ours))
        columns = list(zip(*rounds))
        for name, column in zip(("VTK blend", "VTK contour", "cpu", "vulkan"), columns):
            print(f"{name:12}{statistics.median(column):9.1f} ms a picture")
        for at, name in ((0, "blend"), (1, "contour")):
            for device, own in (("cpu", 2), ("vulkan", 3)):
                ratios = [row[at] / row[own] for row in rounds]
                print(f"VTK {name} / {device}: {statistics.median(ratios):.2f} ({' '.join(f'{r:.2f}' for r in ratios)})")
        by_vtk(args.neghip, 90.5, "blend", 0.1, 1, out)
        theirs = np.asarray(Image.open(out / "vtk.png").convert("RGB")).astype(float)
        for device in ("cpu", "vulkan"):
            by_brickmesh(args.brickmesh, args.neghip, 90.5, device, 1, out)
            ours = np.asarray(Image.open(out / "ours-0000.png").convert("RGB")).astype(float)
            print(f"neghip, {device} to VTK's blend: {decibels(ours, theirs):.1f} dB")


if __name__ == "__main__":
    main()
