//! Patterns with wildcards.
//!
//! One algorithm serves names, paths and commands: a pattern is a list of items of which some stand for any number of
//! items of the text. For a name the items are characters, for a path its directories, for a command its words.

/// A pattern for a name, a directory or a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextGlob(Vec<GlobPiece>);

/// One item of a [`TextGlob`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GlobPiece {
    /// This character.
    Char(char),
    /// Any one character: `?`.
    AnyChar,
    /// Any characters, also none: `*`.
    AnyText,
}

impl GlobPiece {
    fn fits(self, char: char) -> bool {
        match self {
            Self::Char(own) => own == char,
            Self::AnyChar | Self::AnyText => true,
        }
    }
}

impl TextGlob {
    /// The pattern of a text in which `*` and `?` are wildcards.
    pub(super) fn new(text: &str) -> Self {
        Self(text.chars().map(|char| wildcard(char).unwrap_or(GlobPiece::Char(char))).collect())
    }

    pub(super) const fn of(pieces: Vec<GlobPiece>) -> Self {
        Self(pieces)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        matches(&self.0, &chars, |piece| *piece == GlobPiece::AnyText, |piece, char| piece.fits(*char))
    }

    /// Whether it matches some text that begins with `prefix`.
    pub(super) fn matches_some_after(&self, prefix: &str) -> bool {
        let prefix: Vec<char> = prefix.chars().collect();
        // What is left of the pattern can always be completed, so it suffices that some head of it takes the prefix.
        let heads = (0..=self.0.len()).map(|len| &self.0[..len]);
        heads
            .into_iter()
            .any(|head| matches(head, &prefix, |piece| *piece == GlobPiece::AnyText, |p, char| p.fits(*char)))
    }

    pub(super) fn is_any_text(&self) -> bool {
        self.0 == [GlobPiece::AnyText]
    }

    pub(super) fn ends_open(&self) -> bool {
        self.0.last() == Some(&GlobPiece::AnyText)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(super) const fn wildcard(char: char) -> Option<GlobPiece> {
    match char {
        '*' => Some(GlobPiece::AnyText),
        '?' => Some(GlobPiece::AnyChar),
        _ => None,
    }
}

/// A pattern for a path relative to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathGlob(Vec<PathPiece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathPiece {
    /// One file or directory.
    Name(TextGlob),
    /// Any number of directories, also none: `**`.
    AnyDirectories,
}

impl PathGlob {
    /// Reads a pattern, or says what is wrong with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.starts_with(['/', '~']) {
            return Err("a path pattern is relative to the workspace".into());
        }
        if let Some(char) = text.chars().find(|char| "[]{}\\".contains(*char) || char.is_control()) {
            return Err(format!("{char:?} is not part of a path pattern; the wildcards are `*`, `**` and `?`"));
        }
        let piece = |name: &str| match name {
            "**" => Ok(PathPiece::AnyDirectories),
            "" | "." | ".." => Err(format!("a path pattern has no part {name:?}")),
            name if name.contains("**") => Err("`**` stands alone between slashes".to_owned()),
            name => Ok(PathPiece::Name(TextGlob::new(name))),
        };
        text.split('/').map(piece).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let fits = |piece: &PathPiece, name: &&str| match piece {
            PathPiece::Name(glob) => glob.matches(name),
            PathPiece::AnyDirectories => true,
        };
        matches(&self.0, &names, |piece| *piece == PathPiece::AnyDirectories, fits)
    }
}

/// Whether `items` match a pattern. `is_any` finds its items that stand for any number of items.
pub(super) fn matches<P, T>(
    pattern: &[P],
    items: &[T],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let mut at = 0; // In the pattern.
    let mut taken = 0; // Of the items.
    let mut retry: Option<(usize, usize)> = None; // Behind the last wildcard, and how many items were taken there.
    while taken < items.len() {
        match pattern.get(at) {
            Some(piece) if is_any(piece) => {
                at += 1;
                retry = Some((at, taken));
            }
            Some(piece) if fits(piece, &items[taken]) => {
                at += 1;
                taken += 1;
            }
            Some(_) | None => {
                let Some((behind, had)) = retry else { return false };
                at = behind;
                taken = had + 1;
                retry = Some((behind, taken));
            }
        }
    }
    pattern[at..].iter().all(is_any)
}
