#!/usr/bin/env python3
"""How fast brickmesh renders beside VTK: the same volumes, transfer function, orbit and step, in turn.

Needs VTK and numpy (`pip install vtk numpy`); VTK's GPU mapper needs EGL or a display
(`apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri`). Build first: `cargo build --release`.

    tests/peers/beside_vtk.py                       # the CPU device beside VTK's fixed-point mapper
    tests/peers/beside_vtk.py --device vulkan       # Vulkan beside VTK's GPU mapper
    tests/peers/beside_vtk.py --with OLD/brickmesh  # and another build of brickmesh in each round

Volumes: nested noisy shells; W1 is 256³ voxels of 8 bit in 512² pixels, W2 512³ of 16 bit in 1024².
"sparse": only the innermost shell is seen. A round renders an orbit of `--frames` pictures with each program, one
program after the other; what is printed are medians over rounds of the orbit's median picture, and of the ratios
within a round. Transfers of finished pictures to the screen or to files are not counted on either side.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

# Edge in voxels, type, edge of the picture in pixels.
WORKLOADS = {"W1": (256, np.uint8, 512), "W2": (512, np.uint16, 1024)}
CASES = {
    "W1": ("W1", 1.0, False, False),
    "W1 step 0.5": ("W1", 0.5, False, False),
    "W1 shaded": ("W1", 1.0, True, False),
    "W1 sparse": ("W1", 1.0, False, True),
    "W2": ("W2", 1.0, False, False),
    "W2 shaded": ("W2", 1.0, True, False),
    "W2 sparse": ("W2", 1.0, False, True),
}
SHELLS = [(0.86, 0.28, 0.040), (0.58, 0.64, 0.045), (0.30, 1.00, 0.070)]
# Values of 0 to 1; opacity of a voxel's length.
COLOR = [(0.00, 0.05, 0.10, 0.30), (0.25, 0.10, 0.45, 0.90), (0.45, 0.20, 0.80, 0.50),
         (0.60, 0.95, 0.85, 0.20), (0.80, 0.95, 0.40, 0.10), (1.00, 1.00, 0.95, 0.90)]
OPACITY = [(0.00, 0.0), (0.12, 0.0), (0.22, 0.025), (0.30, 0.010), (0.40, 0.0), (0.50, 0.0),
           (0.58, 0.040), (0.66, 0.010), (0.75, 0.010), (0.90, 0.120), (1.00, 0.200)]
SPARSE_OPACITY = [(0.00, 0.0), (0.75, 0.0), (0.90, 0.120), (1.00, 0.200)]
ELEVATION = 20.0
FOV = 18.0
DIAGONALS = 2.0
VTK_WARM_FRAMES = 3


def volume(work, name):
    """The file of a workload's volume, made where it is not there."""
    n, dtype, _ = WORKLOADS[name]
    path = work / f"{name}_{n}x{n}x{n}_{np.dtype(dtype).name}.raw"
    if path.exists():
        return path
    rng = np.random.default_rng(7)
    waves = rng.normal(size=(14, 3))
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    waves *= rng.uniform(4.0, 14.0, size=(14, 1))
    phases, amplitudes = rng.uniform(0, 2 * np.pi, 14), rng.uniform(0.4, 1.0, 14)
    amplitudes /= amplitudes.sum()
    axis = np.linspace(-1, 1, n, dtype=np.float32)
    x, y = axis[None, :], axis[:, None]
    part = path.with_suffix(".part")
    with open(part, "wb") as out:
        for z in axis:
            noise = sum(np.float32(a) * np.sin(k[0] * x + k[1] * y + k[2] * z + np.float32(p))
                        for a, k, p in zip(amplitudes, waves, phases))
            radius = np.sqrt(x * x + y * y + z * z) + np.float32(0.16) * noise
            v = np.zeros((n, n), np.float32)
            for at, height, width in SHELLS:
                v = np.maximum(v, np.float32(height) * np.exp(-((radius - at) / width) ** 2))
            v *= 1 + np.float32(0.08) * np.sin(40 * noise + 9 * x)
            v[v < 0.02] = 0
            out.write((np.clip(v, 0, 1) * np.iinfo(dtype).max).astype(dtype).tobytes())
    part.rename(path)
    return path


def opacity(is_sparse):
    return SPARSE_OPACITY if is_sparse else OPACITY


def transfer(work, name, is_sparse):
    """The file of a transfer function."""
    top = float(np.iinfo(WORKLOADS[name][1]).max)
    colors, opacities = np.array(COLOR), np.array(opacity(is_sparse))
    points = []
    for value in sorted(set(colors[:, 0]) | set(opacities[:, 0])):
        color = [float(np.interp(value, colors[:, 0], colors[:, c])) for c in (1, 2, 3)]
        alpha = float(np.interp(value, opacities[:, 0], opacities[:, 1]))
        points.append({"value": value * top, "color": color, "opacity": alpha})
    path = work / f"{name}{'-sparse' if is_sparse else ''}.json"
    path.write_text(json.dumps({"unit_distance": 1.0, "points": points}))
    return path


def eye(n, frame, frames):
    """Eye and centre of a frame of the orbit, in voxels; y is up."""
    centre = np.full(3, (n - 1) / 2.0)
    azimuth, elevation = 2 * math.pi * frame / frames, math.radians(ELEVATION)
    way = np.array([math.cos(elevation) * math.sin(azimuth), math.sin(elevation),
                    math.cos(elevation) * math.cos(azimuth)])
    return centre + DIAGONALS * math.sqrt(3) * (n - 1) * way, centre


def run_brickmesh(program, work, case, args):
    """Median milliseconds of a picture, without the first."""
    name, step, is_shaded, is_sparse = CASES[case]
    n, _, pixels = WORKLOADS[name]
    at, centre = eye(n, 0, args.frames)
    stats = work / "stats.json"
    numbers = lambda v: ",".join(f"{c:.9g}" for c in v)
    command = [program, "render", volume(work, name), "--transfer", transfer(work, name, is_sparse),
               "--size", f"{pixels}x{pixels}", "--step", str(step), "--shade", "on" if is_shaded else "off",
               "--camera", f"eye={numbers(at)} at={numbers(centre)} up=0,1,0 fov={FOV}",
               "--frames", str(args.frames + 1), "--spin", str(360 / args.frames), "--ahead", "1",
               "--jitter", "off", "--device", args.device, "--stats", stats, "--out", work / "picture.png"]
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{program}: status {run.returncode}\n{run.stderr}")
    frames = json.loads(stats.read_text())["frames"]
    return statistics.median(f["total_us"] / 1000 for f in frames[1:])


def run_vtk(work, case, args):
    """As run_brickmesh; in a process of its own, as VTK keeps threads and memory."""
    command = [sys.executable, __file__, "--as-vtk", case, "--work", str(work), "--device", args.device,
               "--frames", str(args.frames)]
    run = subprocess.run(command, capture_output=True, text=True,
                         env={"VTK_DEFAULT_OPENGL_WINDOW": "vtkEGLRenderWindow", **os.environ})
    if run.returncode != 0:
        sys.exit(f"VTK: status {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def as_vtk(work, case, args):
    """Renders the case with VTK, and prints median milliseconds of a picture."""
    from vtkmodules.util.numpy_support import numpy_to_vtk
    from vtkmodules.vtkCommonDataModel import vtkImageData, vtkPiecewiseFunction
    from vtkmodules.vtkRenderingCore import (vtkColorTransferFunction, vtkRenderer, vtkRenderWindow, vtkVolume,
                                             vtkVolumeProperty)
    from vtkmodules.vtkRenderingVolume import vtkFixedPointVolumeRayCastMapper
    from vtkmodules.vtkRenderingVolumeOpenGL2 import vtkOpenGLGPUVolumeRayCastMapper

    name, step, is_shaded, is_sparse = CASES[case]
    n, dtype, pixels = WORKLOADS[name]
    top = float(np.iinfo(dtype).max)
    image = vtkImageData()
    image.SetDimensions(n, n, n)
    voxels = numpy_to_vtk(np.fromfile(volume(work, name), dtype))
    image.GetPointData().SetScalars(voxels)
    if args.device == "cpu":
        mapper = vtkFixedPointVolumeRayCastMapper()
    else:
        mapper = vtkOpenGLGPUVolumeRayCastMapper()
        mapper.UseJitteringOff()
        mapper.SetMaxMemoryInBytes(4 << 30)
    mapper.AutoAdjustSampleDistancesOff()
    mapper.SetImageSampleDistance(1.0)
    mapper.SetSampleDistance(step)
    if hasattr(mapper, "SetInteractiveSampleDistance"):
        mapper.SetInteractiveSampleDistance(step)
    mapper.SetInputData(image)
    colors, opacities = vtkColorTransferFunction(), vtkPiecewiseFunction()
    for value, r, g, b in COLOR:
        colors.AddRGBPoint(value * top, r, g, b)
    for value, alpha in opacity(is_sparse):
        opacities.AddPoint(value * top, alpha)
    look = vtkVolumeProperty()
    look.SetColor(colors)
    look.SetScalarOpacity(opacities)
    look.SetScalarOpacityUnitDistance(1.0)
    look.SetInterpolationTypeToLinear()
    look.SetShade(is_shaded)
    actor = vtkVolume()
    actor.SetMapper(mapper)
    actor.SetProperty(look)
    renderer = vtkRenderer()
    renderer.AddVolume(actor)
    window = vtkRenderWindow()
    window.SetOffScreenRendering(1)
    window.SetMultiSamples(0)
    window.SetSize(pixels, pixels)
    window.AddRenderer(renderer)
    window.SetDesiredUpdateRate(0.0001)
    camera = renderer.GetActiveCamera()
    camera.SetViewAngle(FOV)
    times = []
    for frame in range(-VTK_WARM_FRAMES, args.frames):
        at, centre = eye(n, frame, args.frames)
        camera.SetPosition(*at)
        camera.SetFocalPoint(*centre)
        camera.SetViewUp(0, 1, 0)
        renderer.ResetCameraClippingRange()
        start = time.perf_counter()
        window.Render()
        window.WaitForCompletion()
        if frame >= 0:
            times.append(time.perf_counter() - start)
    print(json.dumps(1000 * statistics.median(times)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brickmesh", default="target/release/brickmesh", help="program to measure")
    parser.add_argument("--with", dest="other", metavar="PROGRAM", help="another build, in each round, too")
    parser.add_argument("--device", default="cpu", choices=["cpu", "vulkan"])
    parser.add_argument("--cases", default=",".join(CASES), help=f"some of: {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=20, help="pictures of an orbit")
    parser.add_argument("--without-vtk", action="store_true", help="two builds of brickmesh alone")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "brickmesh-beside-vtk",
                        help="folder of the volumes; they stay")
    parser.add_argument("--as-vtk", metavar="CASE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = [case.strip() for case in args.cases.split(",")]
    unknown = [case for case in cases if case not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are: {', '.join(CASES)}")
    if args.rounds < 1 or args.frames < 1:
        parser.error("--rounds and --frames: at least 1")
    args.work.mkdir(parents=True, exist_ok=True)
    if args.as_vtk:
        return as_vtk(args.work, args.as_vtk, args)
    print(f"{'ms a picture':14}{'VTK':>9}{'brickmesh':>11}{'ratio':>7}   (rounds)" +
          (f"{'other':>9}{'ratio':>8}" if args.other else ""))
    for case in cases:
        vtk, own, other = [], [], []
        for _ in range(args.rounds):
            if not args.without_vtk:
                vtk.append(run_vtk(args.work, case, args))
            if args.other:
                other.append(run_brickmesh(args.other, args.work, case, args))
            own.append(run_brickmesh(args.brickmesh, args.work, case, args))
        line = f"{case:14}"
        if vtk:
            ratios = [v / o for v, o in zip(vtk, own)]
            line += (f"{statistics.median(vtk):9.1f}{statistics.median(own):11.1f}{statistics.median(ratios):7.2f}"
                     f"   ({' '.join(f'{r:.2f}' for r in ratios)})")
        else:
            line += f"{'':9}{statistics.median(own):11.1f}"
        if other:
            ratios = [w / o for w, o in zip(other, own)]
            line += (f"   other {statistics.median(other):9.1f}{statistics.median(ratios):7.2f}"
                     f"   ({' '.join(f'{r:.2f}' for r in ratios)})")
        print(line, flush=True)


if __name__ == "__main__":
    main()
