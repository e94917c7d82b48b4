//! `${VAR}` in a server's entry.

/// A variable that cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadVariable {
    /// It is not set, and there is no default.
    #[error("the variable {0} is not set: set it, or write ${{{0}:-default}}")]
    Unset(String),
    /// Only an editor can ask for it.
    #[error("${{input:{0}}} asks a person in an editor: put the value into a variable and write ${{VARIABLE}}")]
    Input(String),
    /// Another client's notation.
    #[error("${{{0}}} is not understood: write ${{VARIABLE}}, ${{VARIABLE:-default}} or the value itself")]
    Strange(String),
    /// The closing brace is missing.
    #[error("${{ is not closed with }}")]
    Open,
}

/// The text with `${VAR}`, `${VAR:-default}` and `${env:VAR}` filled in. A bare `$VAR` stays as it is.
pub fn expand(text: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, BadVariable> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after.split_once('}').ok_or(BadVariable::Open)?;
        filled.push_str(before);
        filled.push_str(&value(inside, variable)?);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn value(inside: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, BadVariable> {
    if let Some(input) = inside.strip_prefix("input:") {
        return Err(BadVariable::Input(input.into()));
    }
    let plain = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match plain.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (plain, None),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_name {
        return Err(BadVariable::Strange(inside.into()));
    }
    // As in a shell: with `:-` an empty variable counts as unset.
    match (variable(name), default) {
        (Some(set), None) => Ok(set),
        (Some(set), Some(_)) if !set.is_empty() => Ok(set),
        (_, Some(default)) => Ok(default.into()),
        (None, None) => Err(BadVariable::Unset(name.into())),
    }
}
