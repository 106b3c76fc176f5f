"""Embree on what `cargo bench -p brickmesh-shaders --bench triangles` measures: one thread, one ray after the other.

    pip install numpy embreex
    python tests/peers/triangles_beside_embree.py

Prints, for each mesh, the time of its structure and that of 512 x 512 rays (median of nine), first hits.
"""

import itertools
import time

import numpy as np
from embreex import rtcore_scene
from embreex.mesh_construction import TriangleMesh

PIXELS = 512


def bumpy_sphere(divisions):
    """Corners of 20 * 4^divisions triangles, as the bench has them."""
    g = (1 + 5**0.5) / 2
    base = [np.array([a, b, 0.0]) for a, b in [(-1, g), (1, g), (-1, -g), (1, -g)]]
    places = [np.roll(p, n) for n in range(3) for p in base]
    near = lambda a, b: np.linalg.norm(a - b) < 2.1
    faces = [t for t in itertools.combinations(places, 3) if all(near(a, b) for a, b in itertools.combinations(t, 2))]
    all_faces = np.array(faces)
    for _ in range(divisions):
        a, b, c = all_faces[:, 0], all_faces[:, 1], all_faces[:, 2]
        ab, bc, ca = (a + b) / 2, (b + c) / 2, (c + a) / 2
        quarters = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        all_faces = np.concatenate([np.stack(q, axis=1) for q in quarters])
    n = all_faces / np.linalg.norm(all_faces, axis=2, keepdims=True)
    x, y, z = n[..., 0], n[..., 1], n[..., 2]
    radius = 100 + 4 * np.sin(9 * x) * np.cos(7 * y) + 2 * np.sin(31 * z)
    return (n * radius[..., None]).astype("f4")


def rays():
    eye = np.array([250.0, -290.0, 170.0])
    forward = -eye / np.linalg.norm(eye)
    right = np.cross(forward, [0, 0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    at = ((np.arange(PIXELS) + 0.5) * 2 / PIXELS - 1) * 0.3
    x, y = np.meshgrid(at, at)
    ways = (forward + x[..., None] * right - y[..., None] * up).reshape(-1, 3)
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    return np.repeat(eye[None], len(ways), 0).astype("f4"), ways.astype("f4")


for divisions in (6, 8):
    triangles = bumpy_sphere(divisions)
    eyes, ways = rays()
    begun = time.perf_counter()
    scene = rtcore_scene.EmbreeScene()
    TriangleMesh(scene, triangles)
    scene.run(eyes[:1], ways[:1])
    built = time.perf_counter() - begun
    took = []
    for _ in range(9):
        begun = time.perf_counter()
        hits = scene.run(eyes, ways)
        took.append(time.perf_counter() - begun)
    print(
        f"{len(triangles)} triangles: structure {built * 1e3:.0f} ms, {len(ways)} rays {sorted(took)[4] * 1e3:.1f} ms,"
        f" {sorted(took)[4] / len(ways) * 1e9:.0f} ns each, {np.mean(hits >= 0):.3f} of them hit"
    )
