//! The files of the web page, as the build script made them from `web/`.
//!
//! A crate of its own, so that a change of the page compiles this crate and the command again, and nothing else. The list is
//! empty if npm was not there when this was built; then the server says how to get the page.

use everturn_server::PageFile;

/// The files, by path.
pub static FILES: &[PageFile] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    /// PG48: files with a hash in their name are cached for ever, and the document names them. Without npm there are none.
    #[test]
    fn the_document_names_files_with_hashes() {
        let Some(document) = FILES.iter().find(|file| file.path == "/index.html") else {
            assert!(FILES.is_empty(), "a page has a document");
            return;
        };
        let text = str::from_utf8(document.plain).unwrap();
        let named = FILES.iter().filter(|file| file.is_hashed && text.contains(file.path));
        assert!(named.count() >= 2, "script and style: {text}");
        assert!(!document.is_hashed);
    }

    /// PG48: the whole page is at most 250 KiB in the binary, as compressed with Brotli.
    #[test]
    fn the_page_stays_small() {
        let bytes: usize = FILES.iter().map(|file| file.brotli.len()).sum();
        assert!(bytes <= 250 * 1024, "{bytes} bytes");
    }
}
