// The greatest value of a ray. Mirrors: `Mip` in `modes.rs`.

fn partial_of(profile: vec3<f32>, q: vec3<f32>, toward: vec3<f32>) -> vec4<f32> {
    return vec4<f32>(profile.x, 1.0, 0.0, 0.0);
}

fn combine(front: vec4<f32>, behind: vec4<f32>) -> vec4<f32> {
    return select(front, behind, front.y == 0.0 || behind.x > front.x);
}

fn is_done(acc: vec4<f32>) -> bool {
    return false;
}
