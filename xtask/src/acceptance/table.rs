//! `docs/acceptance.md` and its waivers, read back.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::ids::is_id;

/// The list of behaviours.
pub const BEHAVIOURS: &str = "docs/acceptance.md";
/// The list of those we do differently.
pub const WAIVERS: &str = "docs/acceptance-waivers.md";

/// Both files.
#[derive(Debug, Default)]
pub struct Table {
    /// In the order of the file.
    pub rows: Vec<Row>,
    /// In the order of the file.
    pub waivers: Vec<Waiver>,
}

/// One behaviour.
#[derive(Debug)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// What must hold.
    pub behaviour: String,
    /// Whether its area counts already.
    pub due: Due,
}

/// When an area counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// A missing test is a failure.
    Now,
    /// A missing test is expected; a failing one is still a failure.
    Later,
}

/// One behaviour we replace by another.
#[derive(Debug)]
pub struct Waiver {
    /// Its id.
    pub id: String,
    /// The line in the file.
    pub line: usize,
}

impl Table {
    /// Reads both files.
    pub fn load(root: &Path) -> Result<Self> {
        let read = |file| std::fs::read_to_string(root.join(file)).with_context(|| format!("{file} cannot be read"));
        let rows = rows(&read(BEHAVIOURS)?).context(BEHAVIOURS)?;
        let waivers = waivers(&read(WAIVERS)?).context(WAIVERS)?;
        Ok(Self { rows, waivers })
    }

    /// The row of an id.
    pub fn behaviour(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// Whether the id looks like one of ours; `GB18` in a test's prose is none of our business.
    pub fn shares_prefix(&self, id: &str) -> bool {
        self.rows.iter().any(|row| row.id[..2] == id[..2])
    }

    /// Whether the id is waived.
    pub fn waives(&self, id: &str) -> bool {
        self.waivers.iter().any(|waiver| waiver.id == id)
    }
}

/// Reads the areas (`| area | what | now or later |`) and the behaviours (`| id | behaviour | area |`).
fn rows(text: &str) -> Result<Vec<Row>> {
    let areas: Vec<(String, Due)> = cells(text)
        .filter_map(|(_, cells)| match (cells.first(), cells.last().map(String::as_str)) {
            (Some(area), Some("now")) => Some((area.clone(), Due::Now)),
            (Some(area), Some("later")) => Some((area.clone(), Due::Later)),
            _ => None,
        })
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    for (line, cells) in cells(text).filter(|(_, cells)| is_id(&cells[0])) {
        let [id, behaviour, area] = <[String; 3]>::try_from(cells)
            .map_err(|cells| anyhow::anyhow!("line {line}: {} cells instead of id, behaviour, area", cells.len()))?;
        let due = areas.iter().find(|(name, _)| *name == area).map(|(_, due)| *due);
        let due = due.with_context(|| format!("line {line}: the area {area:?} is not in the table of areas"))?;
        ensure!(!behaviour.is_empty(), "line {line}: {id} says nothing");
        if rows.iter().any(|row| row.id == id) {
            bail!("line {line}: {id} is there twice");
        }
        rows.push(Row { id, behaviour, due });
    }
    Ok(rows)
}

fn waivers(text: &str) -> Result<Vec<Waiver>> {
    let mut waivers: Vec<Waiver> = Vec::new();
    for (line, cells) in cells(text).filter(|(_, cells)| is_id(&cells[0])) {
        ensure!(cells.len() == 2 && !cells[1].is_empty(), "line {line}: {} is waived without a reason", cells[0]);
        ensure!(waivers.iter().all(|waiver| waiver.id != cells[0]), "line {line}: {} is waived twice", cells[0]);
        waivers.push(Waiver { id: cells[0].clone(), line });
    }
    Ok(waivers)
}

/// The cells of every table row, with its line number. A `\|` is a bar inside a cell.
fn cells(text: &str) -> impl Iterator<Item = (usize, Vec<String>)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?.replace("\\|", "\0");
        Some((index + 1, inside.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREAS: &str = "| area | what | counts |\n|---|---|---|\n| core | pure | now |\n| stores | disks | later |\n";

    #[test]
    fn rows_know_whether_they_are_due() {
        let rows = rows(&format!(
            "{AREAS}\n| id | behaviour | area |\n|---|---|---|\n| CL01 | a \\| b | core |\n| CS01 | c | stores |\n"
        ))
        .expect("a good table");
        let seen: Vec<_> = rows.iter().map(|row| (row.id.as_str(), row.behaviour.as_str(), row.due)).collect();
        assert_eq!(seen, [("CL01", "a | b", Due::Now), ("CS01", "c", Due::Later)]);
    }

    #[test]
    fn bad_rows_are_refused() {
        for (row, says) in [
            ("| CL01 | a | moon |", "line 5: the area \"moon\" is not in the table of areas"),
            ("| CL01 | a |", "line 5: 2 cells instead of id, behaviour, area"),
            ("| CL01 |  | core |", "line 5: CL01 says nothing"),
            ("| CL01 | a | core |\n| CL01 | b | core |", "line 6: CL01 is there twice"),
        ] {
            assert_eq!(rows(&format!("{AREAS}{row}\n")).expect_err(row).to_string(), says);
        }
    }

    #[test]
    fn waivers_need_a_reason() {
        let head = "| id | what we do instead, and why it is better |\n|---|---|\n";
        assert!(waivers(head).expect("an empty table is fine").is_empty());
        let one = waivers(&format!("{head}| CR35 | we keep the draft |\n")).expect("a good waiver");
        assert_eq!((one[0].id.as_str(), one[0].line), ("CR35", 3));
        assert!(waivers(&format!("{head}| CR35 |  |\n")).is_err());
        assert!(waivers(&format!("{head}| CR35 | a |\n| CR35 | b |\n")).is_err());
    }
}
