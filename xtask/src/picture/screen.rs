//! A terminal, as much of it as our own program uses.

/// What is on it.
#[derive(Debug, Default)]
pub(super) struct Screen {
    lines: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    ink: Ink,
}

/// One letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) letter: char,
    pub(super) ink: Ink,
}

/// How letters look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ink {
    /// As the terminal numbers them, from 31.
    pub(super) colour: Option<u8>,
    pub(super) weight: Weight,
}

/// How strong letters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Weight {
    Bold,
    #[default]
    Usual,
    Dim,
}

impl Screen {
    /// Takes in what a program writes. What it does not know it leaves aside.
    pub(super) fn write(&mut self, text: &str) {
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            match (letter, rest.strip_prefix('[')) {
                ('\x1b', Some(sequence)) => {
                    let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(sequence.len());
                    let command = sequence[end..].chars().next().unwrap_or(' ');
                    self.obey(command, &sequence[..end]);
                    rest = sequence.get(end + 1..).unwrap_or_default();
                }
                ('\n', _) => (self.row, self.column) = (self.row + 1, 0),
                ('\r', _) => self.column = 0,
                (letter, _) if letter.is_control() => {}
                (letter, _) => self.put(letter),
            }
        }
    }

    fn obey(&mut self, command: char, numbers: &str) {
        let mut numbers = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(0));
        match command {
            'A' => self.row = self.row.saturating_sub(numbers.next().unwrap_or(1).max(1)),
            'J' => {
                self.lines.truncate(self.row + 1);
                if let Some(line) = self.lines.get_mut(self.row) {
                    line.truncate(self.column);
                }
            }
            'm' => numbers.for_each(|number| match number {
                0 => self.ink = Ink::default(),
                1 => self.ink.weight = Weight::Bold,
                2 => self.ink.weight = Weight::Dim,
                31..=37 => self.ink.colour = u8::try_from(number).ok(),
                _ => {}
            }),
            _ => {}
        }
    }

    fn put(&mut self, letter: char) {
        if self.lines.len() <= self.row {
            self.lines.resize(self.row + 1, Vec::new());
        }
        let line = &mut self.lines[self.row];
        if line.len() <= self.column {
            line.resize(self.column + 1, Cell { letter: ' ', ink: Ink::default() });
        }
        line[self.column] = Cell { letter, ink: self.ink };
        self.column += 1;
    }

    /// Its lines, without empty ones at the end.
    pub(super) fn lines(&self) -> &[Vec<Cell>] {
        let last = self.lines.iter().rposition(|line| line.iter().any(|cell| cell.letter != ' '));
        &self.lines[..last.map_or(0, |last| last + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let mut screen = Screen::default();
        screen.write(text);
        screen.lines().iter().map(|line| line.iter().map(|cell| cell.letter).collect()).collect()
    }

    #[test]
    fn what_was_drawn_over_is_gone() {
        assert_eq!(shown("one\nbar 1\nbar 2\n\x1b[2A\x1b[Jtwo\nbar 3\n"), ["one", "two", "bar 3"]);
        assert_eq!(shown("abc\rx\n\n\n"), ["xbc"]);
        assert_eq!(shown("a\x1b[?25lb\x1b"), ["ab"]);
    }

    #[test]
    fn colours_are_kept_letter_by_letter() {
        let mut screen = Screen::default();
        screen.write("a\x1b[1;31mb\x1b[0mc\x1b[2md");
        let inks: Vec<Ink> = screen.lines()[0].iter().map(|cell| cell.ink).collect();
        let ink = |colour, weight| Ink { colour, weight };
        assert_eq!(inks, [Ink::default(), ink(Some(31), Weight::Bold), Ink::default(), ink(None, Weight::Dim)]);
    }
}
