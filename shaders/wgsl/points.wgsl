// Where points of surfaces go that are lit later.

// Points of a band, each of five vectors: place in the grid and pixel; normal to the viewer's side and what the surface lets
// through; what is added of the light around; of the light; the ray's direction in the world, and what of the pixel the surface is.
struct Points {
    // How many there are, also those that there is no room for.
    count: atomic<u32>,
    parts: array<vec4<f32>>,
}

@group(0) @binding(8) var<storage, read_write> points: Points;

fn keep_point(s: Surface, normal: vec3<f32>, ambient: vec3<f32>, direct: vec3<f32>, ray: vec4<f32>) {
    let n = atomicAdd(&points.count, 1u);
    if (n < job.points_max) {
        points.parts[5u * n] = vec4<f32>(s.at, bitcast<f32>(point_pixel));
        points.parts[5u * n + 1u] = vec4<f32>(normal, 1.0 - s.color.a);
        points.parts[5u * n + 2u] = vec4<f32>(ambient, 0.0);
        points.parts[5u * n + 3u] = vec4<f32>(direct, 0.0);
        points.parts[5u * n + 4u] = ray;
    }
}
