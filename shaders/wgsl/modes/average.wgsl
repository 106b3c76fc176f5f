// The sum of all values of a ray, and their number. Mirrors: `Average` in `modes.rs`.

fn partial_of(profile: vec3<f32>, q: vec3<f32>, toward: vec3<f32>) -> vec4<f32> {
    return vec4<f32>(profile.x, 1.0, 0.0, 0.0);
}

fn combine(front: vec4<f32>, behind: vec4<f32>) -> vec4<f32> {
    return front + behind;
}

fn is_done(acc: vec4<f32>) -> bool {
    return false;
}
