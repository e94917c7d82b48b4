//! Renders tables to the width of the window.

use super::super::style::{Line, Look, Span};
use super::super::wrap::{At, wrap};
use super::inline;

/// Separator of columns.
const GAP: &str = " │ ";
/// Least width of a column.
const COLUMN_MIN: usize = 6;

/// The rows as lines. If the window is too narrow for columns, each cell has its own line.
pub fn table(rows: &[&str], width: usize) -> Vec<Line> {
    let is_second_rule = rows.get(1).is_some_and(|row| is_rule(row));
    let cells: Vec<Vec<Line>> = rows
        .iter()
        .filter(|row| !is_rule(row))
        .enumerate()
        .map(|(i, row)| {
            let look = if i == 0 && is_second_rule { Look::BOLD } else { Look::PLAIN };
            split(row).iter().map(|cell| Line(inline::spans(cell, look))).collect()
        })
        .collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let Some(widths) = widths(&cells, columns, width) else {
        return cells.iter().flatten().flat_map(|cell| wrap(cell, width, &Line::default(), At::Words)).collect();
    };
    let mut made = Vec::new();
    for (i, row) in cells.iter().enumerate() {
        made.extend(row_lines(row, &widths));
        if i == 0 && is_second_rule {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            made.push(Line::dim(&rules.join("─┼─")));
        }
    }
    made
}

fn is_rule(row: &str) -> bool {
    row.contains('-') && row.chars().all(|c| "|-: ".contains(c))
}

/// The cells of a row, split at unescaped bars.
fn split(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = if row.ends_with("\\|") { row } else { row.strip_suffix('|').unwrap_or(row) };
    let mut cells = vec![String::new()];
    let mut letters = row.chars().peekable();
    while let Some(c) = letters.next() {
        let last = cells.last_mut().expect("there is one at least");
        match c {
            '\\' if letters.peek() == Some(&'|') => last.extend(letters.next()),
            '|' => cells.push(String::new()),
            c => last.push(c),
        }
    }
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The width of each column; `None` if they do not fit beside each other.
fn widths(cells: &[Vec<Line>], columns: usize, width: usize) -> Option<Vec<usize>> {
    let room = width.checked_sub(GAP.chars().count() * columns.checked_sub(1)?)?;
    let widest = |column: usize| cells.iter().filter_map(|row| row.get(column)).map(Line::width).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns).map(|column| widest(column).max(1)).collect();
    while widths.iter().sum::<usize>() > room {
        let longest = widths.iter_mut().max()?;
        if *longest <= COLUMN_MIN {
            return None;
        }
        *longest -= 1;
    }
    Some(widths)
}

fn row_lines(row: &[Line], widths: &[usize]) -> Vec<Line> {
    let empty = Line::default();
    let pieces: Vec<Vec<Line>> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| wrap(row.get(column).unwrap_or(&empty), *width, &Line::default(), At::Words))
        .collect();
    let height = pieces.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|at| {
            let mut line = Line::default();
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    line.0.push(Span::new(GAP, Look::DIM));
                }
                let piece = pieces[column].get(at).unwrap_or(&empty);
                line.0.extend(piece.0.iter().cloned());
                if column + 1 < widths.len() {
                    line.0.push(Span::new(&" ".repeat(width.saturating_sub(piece.width())), Look::PLAIN));
                }
            }
            line
        })
        .collect()
}
