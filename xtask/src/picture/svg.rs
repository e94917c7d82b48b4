//! A screen as a picture that can be looked at, searched and scaled.

use super::screen::{Cell, Ink, Screen, Weight};

/// The size of a letter and of a line, in pixels, for a font of 13.
const LETTER: f64 = 7.8;
const LINE: f64 = 18.0;
const MARGIN: f64 = 18.0;
/// The bar with three dots that says: this is a terminal.
const BAR: f64 = 34.0;

/// The screen under a prompt.
pub(super) fn draw(prompt: &str, screen: &Screen, columns: usize) -> String {
    let width = columns as f64 * LETTER + 2.0 * MARGIN;
    let height = (screen.lines().len() + 1) as f64 * LINE + BAR + 2.0 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>everturn demo</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"9\" fill=\"#11151c\"/>\n"
    );
    for (place, colour) in [(20, "#f7768e"), (40, "#e0af68"), (60, "#9ece6a")] {
        svg.push_str(&format!("<circle cx=\"{place}\" cy=\"20\" r=\"6\" fill=\"{colour}\"/>\n"));
    }
    svg.push_str(
        "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"13\" fill=\"#c8d0e0\" xml:space=\"preserve\">\n",
    );
    let typed: Vec<Cell> = prompt.chars().map(|letter| Cell { letter, ink: Ink::default() }).collect();
    for (row, line) in [&typed].into_iter().chain(screen.lines()).enumerate() {
        let y = BAR + MARGIN + row as f64 * LINE;
        for (column, run) in runs(line) {
            svg.push_str(&text(MARGIN + column as f64 * LETTER, y, run));
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Letters of one look, with where they begin. Those that show nothing are left out.
fn runs(line: &[Cell]) -> Vec<(usize, &[Cell])> {
    let mut at = 0;
    let placed = line.chunk_by(|one, next| one.ink == next.ink).map(|run| {
        at += run.len();
        (at - run.len(), run)
    });
    placed.filter(|(_, run)| run.iter().any(|cell| cell.letter != ' ')).collect()
}

fn text(x: f64, y: f64, run: &[Cell]) -> String {
    let Ink { colour, weight } = run[0].ink;
    let colour = match colour {
        Some(31) => " fill=\"#f7768e\"",
        Some(32) => " fill=\"#9ece6a\"",
        Some(33) => " fill=\"#e0af68\"",
        Some(36) => " fill=\"#7dcfff\"",
        _ => "",
    };
    let weight = match weight {
        Weight::Bold => " font-weight=\"bold\"",
        Weight::Usual => "",
        Weight::Dim => " opacity=\"0.6\"",
    };
    // The length is said too, so that a font of another width does not break the columns.
    let length = run.len() as f64 * LETTER;
    let words: String = run.iter().map(|cell| escaped(cell.letter)).collect();
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\"{colour}{weight}>{words}</text>\n")
}

fn escaped(letter: char) -> String {
    match letter {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        letter => letter.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_where_they_stood_and_are_only_words() {
        let mut screen = Screen::default();
        screen.write("ab   \x1b[32m<&>\x1b[0m\n   \n");
        let svg = draw("$ x", &screen, 10);
        assert!(svg.contains(">ab   </text>") && svg.contains(" fill=\"#9ece6a\">&lt;&amp;&gt;</text>"), "{svg}");
        assert!(svg.contains(&format!("x=\"{:.1}\"", MARGIN + 5.0 * LETTER)), "{svg}");
        assert_eq!(svg.matches("<text").count(), 3, "the prompt, and two runs");
    }
}
