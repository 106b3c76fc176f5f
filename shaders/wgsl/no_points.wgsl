// In the place of `points.wgsl` in kernels that keep no points: a kernel that names their buffer needs one.

fn keep_point(s: Surface, normal: vec3<f32>, ambient: vec3<f32>, direct: vec3<f32>, ray: vec4<f32>) {
}
