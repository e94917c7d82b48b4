//! A source file as a flat list of tokens with line numbers.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or keyword.
    Word,
    /// One character of punctuation.
    Punct,
    /// A literal as written, quotes included.
    Literal,
    /// An opening bracket.
    Open,
    /// A closing bracket.
    Close,
}

/// One token.
#[derive(Debug, Clone)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// How it is written.
    pub text: String,
    /// The line it starts on, from 1.
    pub line: usize,
}

impl Token {
    /// Whether this is the given identifier or keyword.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    /// Whether this is the given punctuation or bracket.
    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(self.kind, Kind::Punct | Kind::Open | Kind::Close) && self.text == sign
    }
}

/// Cuts a source into tokens. Ordinary comments vanish; doc comments become `#[doc = "…"]`, as the compiler sees them.
pub fn lex(source: &str) -> Result<Vec<Token>> {
    let stream: TokenStream = source.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(ident) => tokens.push(Token { kind: Kind::Word, text: ident.to_string(), line }),
            TokenTree::Punct(punct) => {
                tokens.push(Token { kind: Kind::Punct, text: punct.as_char().to_string(), line })
            }
            TokenTree::Literal(literal) => {
                tokens.push(Token { kind: Kind::Literal, text: literal.to_string(), line });
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                tokens.push(Token { kind: Kind::Open, text: open.into(), line: group.span_open().start().line });
                flatten(group.stream(), tokens);
                tokens.push(Token { kind: Kind::Close, text: close.into(), line: group.span_close().end().line });
            }
        }
    }
}

/// Where the bracket at `open` closes.
pub fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            Kind::Word | Kind::Punct | Kind::Literal => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len().saturating_sub(1)
}

/// The text of a doc attribute whose `#` stands at `at`, if there is one.
pub fn doc_text(tokens: &[Token], at: usize) -> Option<String> {
    let open = attribute(tokens, at)?;
    match tokens.get(open + 1..open + 4)? {
        [doc, equals, text] if doc.is_word("doc") && equals.is_sign("=") && text.kind == Kind::Literal => {
            let (first, last) = (text.text.find('"')?, text.text.rfind('"')?);
            Some(text.text.get(first + 1..last)?.replace("\\n", "\n").replace("\\\"", "\""))
        }
        _ => None,
    }
}

/// The opening bracket of the attribute whose `#` stands at `at`, if there is one.
pub fn attribute(tokens: &[Token], at: usize) -> Option<usize> {
    if !tokens.get(at)?.is_sign("#") {
        return None;
    }
    let open = if tokens.get(at + 1)?.is_sign("!") { at + 2 } else { at + 1 };
    tokens.get(open)?.is_sign("[").then_some(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_know_their_lines_and_comments_are_gone() {
        let tokens = lex("// aside\nfn a() {\n    b!(1);\n}\n").expect("this is Rust");
        let seen: Vec<_> = tokens.iter().map(|token| format!("{}:{}", token.line, token.text)).collect();
        assert_eq!(seen.join(" "), "2:fn 2:a 2:( 2:) 2:{ 3:b 3:! 3:( 3:1 3:) 3:; 4:}");
        assert_eq!(closing(&tokens, 4), tokens.len() - 1);
    }

    #[test]
    fn doc_comments_are_read_back() {
        let tokens = lex("/// CL38–CL45: keys \"so\" for\nfn a() {}\n").expect("this is Rust");
        assert_eq!(doc_text(&tokens, 0).as_deref(), Some(" CL38–CL45: keys \"so\" for"));
        assert_eq!(doc_text(&lex("#[test] fn a() {}").expect("this is Rust"), 0), None);
    }

    #[test]
    fn what_is_not_rust_is_an_error() {
        assert!(lex("fn a( {").is_err());
    }
}
