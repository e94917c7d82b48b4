//! The web page: its files, served without a token, because they contain no data.
//!
//! Everything that the page shows comes over the API, which needs a session (`auth::session`). The headers forbid the page
//! whatever it does not need: scripts and styles from elsewhere, text that becomes markup, frames, and other hosts.

use std::fmt::Write as _;

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::api::problem::Problem;

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub struct PageFile {
    /// Its path in the URL.
    pub path: &'static str,
    /// Whether the path contains a hash of the content, so that it may be cached for ever.
    pub is_hashed: bool,
    /// A hash of the content, for the ETag.
    pub hash: &'static str,
    /// The content.
    pub plain: &'static [u8],
    /// The content, compressed with gzip.
    pub gzip: &'static [u8],
    /// The content, compressed with Brotli.
    pub brotli: &'static [u8],
}

/// The document that the page's addresses answer with.
const DOCUMENT: &str = "/index.html";
/// The page's addresses, beside `/`: these, and what is below them.
const ADDRESSES: [&str; 5] = ["/c", "/login", "/operations", "/house", "/settings"];
/// The prefix of the API, which answers with problems only.
const API: &str = "/v1";
/// The document of a server that was built without the page.
const WITHOUT: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>Everturn</title>
<h1>Everturn is running, without its web page</h1>
<p>This program was built where npm was not available, so the page is not in it. The API works: see docs/http-api.md.</p>
<p>To get the page, install Node.js 20 or newer with npm, then run this in the source directory:</p>
<pre>BUILD_PAGE=require cargo build --release</pre>
<p>The terminal has a chat too: <code>everturn chat</code></p>
</html>
";

const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; \
         font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=(), display-capture=(), \
         clipboard-read=(), clipboard-write=(self)",
    ),
];
/// Only over TLS: a browser ignores it elsewhere.
const TRANSPORT: &str = "max-age=31536000";

/// How a request reached the server, as far as the page's headers depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageTransport {
    /// Encrypted, here or by the proxy.
    Tls,
    /// Not encrypted.
    Plain,
}

/// Whether a request without a route is for the page: it needs no token then.
pub fn is_for_page(method: &Method, path: &str) -> bool {
    let is_api = path.strip_prefix(API).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    matches!(*method, Method::GET | Method::HEAD) && !is_api
}

/// Whether a browser opens a document, which a link of another site may do: the document contains no data.
pub fn is_navigation(headers: &HeaderMap) -> bool {
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document")
}

/// Answers a request for a file or an address of the page; another path with a problem, or the document if a person
/// opened it.
pub fn answer(
    files: &[PageFile],
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    transport: PageTransport,
) -> Response {
    let file = |path: &str| files.iter().find(|file| file.path == path);
    let is_address = path == "/" || ADDRESSES.iter().any(|address| is_below(path, address));
    let accepts_html =
        headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().windows(9).any(|word| word == b"text/html"));
    let mut response = match (file(path), file(DOCUMENT)) {
        (Some(found), _) => content(found, method, headers),
        (None, Some(document)) if is_address => content(document, method, headers),
        (None, Some(document)) if accepts_html => {
            let mut response = content(document, method, &HeaderMap::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
        (None, None) if is_address => {
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")], WITHOUT)
                .into_response()
        }
        (None, _) => Problem::not_found().into_response(),
    };
    let told = response.headers_mut();
    for (name, value) in HEADERS {
        told.insert(name, HeaderValue::from_static(value));
    }
    if transport == PageTransport::Tls {
        told.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TRANSPORT));
    }
    response
}

fn is_below(path: &str, address: &str) -> bool {
    path.strip_prefix(address).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The content in the best encoding that the client takes; 304 if it has that already.
fn content(file: &PageFile, method: &Method, headers: &HeaderMap) -> Response {
    let (encoding, bytes) = encoded(file, headers);
    let mut tag = format!("\"{}", file.hash);
    if let Some(encoding) = encoding {
        let _ = write!(tag, "-{encoding}"); // Writing to a String cannot fail.
    }
    tag.push('"');
    let caching = if file.is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let told = [
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"page\""))),
    ];
    let is_known = headers.get_all(header::IF_NONE_MATCH).iter().any(|known| {
        known.to_str().is_ok_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag))
    });
    if is_known {
        return (StatusCode::NOT_MODIFIED, told).into_response();
    }
    let mut response = (told, [(header::CONTENT_TYPE, media_type(file.path))]).into_response();
    if let Some(encoding) = encoding {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    if *method != Method::HEAD {
        *response.body_mut() = bytes.into();
    }
    response
}

fn encoded(file: &PageFile, headers: &HeaderMap) -> (Option<&'static str>, &'static [u8]) {
    let takes = |wanted: &str| {
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| {
            value.split(',').any(|coding| {
                let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
                let is_refused =
                    matches!(weight.trim().replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
                name.trim().eq_ignore_ascii_case(wanted) && !is_refused
            })
        })
    };
    if takes("br") {
        (Some("br"), file.brotli)
    } else if takes("gzip") {
        (Some("gzip"), file.gzip)
    } else {
        (None, file.plain)
    }
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [PageFile; 2] = [file("/index.html", false), file("/page-4XKQ2JZP.js", true)];

    const fn file(path: &'static str, is_hashed: bool) -> PageFile {
        PageFile { path, is_hashed, hash: "0123456789abcdef", plain: b"plain", gzip: b"gzip", brotli: b"br" }
    }

    fn get(path: &str, asked: &[(HeaderName, &'static str)]) -> Response {
        let headers = asked.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        answer(&FILES, &Method::GET, path, &headers, PageTransport::Plain)
    }

    fn told(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// PG48: names with a hash are cached for ever, the document is asked for again each time.
    #[test]
    fn only_names_with_a_hash_are_cached() {
        let document = get("/", &[]);
        assert_eq!(told(&document, header::CACHE_CONTROL), "no-cache");
        assert_eq!(told(&document, header::CONTENT_TYPE), "text/html; charset=utf-8");
        let script = get("/page-4XKQ2JZP.js", &[]);
        assert_eq!(told(&script, header::CACHE_CONTROL), "public, max-age=31536000, immutable");
        assert_eq!(told(&script, header::CONTENT_TYPE), "text/javascript; charset=utf-8");
    }

    /// PG35: a client gets the best encoding it names, and 304 for what it has in that encoding.
    #[test]
    fn content_is_sent_as_the_client_takes_it() {
        for (accepts, encoding, tag) in [
            ("gzip, deflate, br", "br", "\"0123456789abcdef-br\""),
            ("gzip;q=1.0, br;q=0", "gzip", "\"0123456789abcdef-gzip\""),
            ("identity", "", "\"0123456789abcdef\""),
        ] {
            let response = get("/", &[(header::ACCEPT_ENCODING, accepts)]);
            assert_eq!((told(&response, header::CONTENT_ENCODING), told(&response, header::ETAG)), (encoding, tag));
            assert_eq!(told(&response, header::VARY), "accept-encoding");
        }
        let known = [(header::ACCEPT_ENCODING, "br"), (header::IF_NONE_MATCH, "\"x\", W/\"0123456789abcdef-br\"")];
        assert_eq!(get("/", &known).status(), StatusCode::NOT_MODIFIED);
        let other = [(header::ACCEPT_ENCODING, "gzip"), (header::IF_NONE_MATCH, "\"0123456789abcdef-br\"")];
        assert_eq!(get("/", &other).status(), StatusCode::OK);
    }

    /// PG35: an address of the page is its document; an unknown path is 404 under the same headers; over TLS a browser is
    /// told to keep to it.
    #[test]
    fn every_path_of_the_page_has_the_headers() {
        for (path, status) in [
            ("/", 200),
            ("/c/01m7pcr7nnv4a5pvzryf680t1f", 200),
            ("/login", 200),
            ("/operations/keys", 200),
            ("/page-4XKQ2JZP.js", 200),
            ("/page-OTHERONE.js", 404),
            ("/cx", 404),
            ("/../etc/passwd", 404),
        ] {
            let response = get(path, &[]);
            assert_eq!(response.status(), status, "{path}");
            for (name, value) in HEADERS {
                assert_eq!(told(&response, name), value, "{path}");
            }
            assert_eq!(told(&response, header::STRICT_TRANSPORT_SECURITY), "", "{path}");
        }
        let opened = get("/nowhere", &[(header::ACCEPT, "text/html,*/*")]);
        assert_eq!(
            (opened.status(), told(&opened, header::CONTENT_TYPE)),
            (StatusCode::NOT_FOUND, "text/html; charset=utf-8")
        );
        let over_tls = answer(&FILES, &Method::HEAD, "/", &HeaderMap::new(), PageTransport::Tls);
        assert_eq!(told(&over_tls, header::STRICT_TRANSPORT_SECURITY), TRANSPORT);
        assert_eq!(told(&over_tls, header::CONTENT_LENGTH), "5");
    }

    /// PG48: a program without the page says how to get it.
    #[test]
    fn a_server_without_the_page_says_how_to_get_it() {
        let none = |path| answer(&[], &Method::GET, path, &HeaderMap::new(), PageTransport::Plain);
        assert_eq!(none("/").status(), StatusCode::OK);
        assert!(WITHOUT.contains("npm") && WITHOUT.contains("cargo build"));
        assert_eq!(none("/page-4XKQ2JZP.js").status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn the_api_is_not_the_page() {
        for (path, is_page) in [("/", true), ("/v1", false), ("/v1/chats", false), ("/v10", true), ("/c/1", true)] {
            assert_eq!(is_for_page(&Method::GET, path), is_page, "{path}");
            assert!(!is_for_page(&Method::POST, path), "{path}");
        }
    }
}
