use super::*;

#[test]
fn base64_is_as_everybody_writes_it() {
    for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
        assert_eq!(base64(bytes.as_bytes()), text);
        assert!(is_base64(text), "{text}");
    }
    for text in ["a b", "Z", "Zg===", "Zm9v!"] {
        assert!(!is_base64(text), "{text}");
    }
}
