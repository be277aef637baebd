//! SHA-256 over tagged, length-prefixed fields.
//!
//! A length in front of each field keeps `("ab", "c")` and `("a", "bc")` apart, and the tag keeps a fingerprint from
//! ever being taken for a content hash. The tag carries the version of the schema that it stands for.

use aws_lc_rs::digest::{Context, SHA256};

/// The hash of `tag` and `fields`: each as its length in bytes (eight bytes, big-endian) followed by the bytes.
#[must_use]
pub fn tagged(tag: &str, fields: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for field in std::iter::once(tag.as_bytes()).chain(fields.iter().copied()) {
        context.update(&(field.len() as u64).to_be_bytes());
        context.update(field);
    }
    let mut hash = [0_u8; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::tagged;

    #[test]
    fn fields_cannot_flow_into_each_other() {
        assert_ne!(tagged("t", &[b"ab", b"c"]), tagged("t", &[b"a", b"bc"]));
        assert_ne!(tagged("ta", &[b"b"]), tagged("t", &[b"ab"]));
        assert_ne!(tagged("t", &[b"", b"a"]), tagged("t", &[b"a"]));
    }
}
