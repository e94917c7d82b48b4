//! What is in a binary, as CycloneDX writes it.
//!
//! Scanners read it to find the releases that a known vulnerability is in; it lists the licences too. Packages that run while
//! the binary is built are included: a procedural macro writes code that ends up in it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// What an SBOM is made from.
pub struct Sbom<'a> {
    /// What `cargo metadata` says.
    pub metadata: &'a Value,
    /// What `cargo tree` says is built: `name v1.2.3 …` in each line.
    pub built: &'a str,
    /// `Cargo.lock`, which has the sums of packages.
    pub lock: &'a str,
    /// The package of the binary.
    pub package: &'a str,
}

impl Sbom<'_> {
    /// The version of the binary.
    pub fn version(&self) -> Result<&str> {
        self.packages()
            .find(|package| package["name"] == self.package)
            .and_then(|package| package["version"].as_str())
            .with_context(|| format!("cargo metadata has no package {}", self.package))
    }

    /// The document. It has neither a time nor a random number: the same sources give the same bytes.
    pub fn document(&self) -> Result<Value> {
        let built: BTreeSet<(&str, &str)> = self.built.lines().filter_map(name_and_version).collect();
        let sums = self.sums()?;
        let mut components = BTreeMap::new();
        let mut refs = BTreeMap::new();
        for package in self.packages() {
            let (name, version) = (text(package, "name")?, text(package, "version")?);
            if !built.contains(&(name, version)) {
                continue;
            }
            let url = format!("pkg:cargo/{name}@{version}");
            refs.insert(text(package, "id")?, url.clone());
            components.insert(url.clone(), component(package, &url, sums.get(&(name, version)))?);
        }
        ensure!(components.len() == built.len(), "cargo tree and cargo metadata name different packages");
        let binary = format!("pkg:cargo/{}@{}", self.package, self.version()?);
        let mut binary = components.remove(&binary).context("the binary's own package is not built")?;
        binary["type"] = "application".into();
        Ok(json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "component": binary },
            "components": components.into_values().collect::<Vec<_>>(),
            "dependencies": self.dependencies(&refs)?,
        }))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.metadata["packages"].as_array().into_iter().flatten()
    }

    /// Which package asks for which, among those that are built. Tests ask for more, which is not in the binary.
    fn dependencies(&self, refs: &BTreeMap<&str, String>) -> Result<Vec<Value>> {
        let mut all = BTreeMap::new();
        for node in self.metadata["resolve"]["nodes"].as_array().context("cargo metadata resolves nothing")? {
            let Some(from) = refs.get(text(node, "id")?) else { continue };
            let is_built = |edge: &&Value| {
                edge["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
            };
            let edges = node["deps"].as_array().into_iter().flatten().filter(is_built);
            let to: BTreeSet<&String> = edges.filter_map(|edge| refs.get(edge["pkg"].as_str()?)).collect();
            all.insert(from, to);
        }
        Ok(all.into_iter().map(|(from, to)| json!({ "ref": from, "dependsOn": to })).collect())
    }

    /// The SHA-256 of each package from outside, by name and version.
    fn sums(&self) -> Result<BTreeMap<(&str, &str), &str>> {
        let mut sums = BTreeMap::new();
        for package in self.lock.split("[[package]]").skip(1) {
            let value = |key: &str| {
                package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
            };
            let name = value("name").context("Cargo.lock has a package without a name")?;
            let version = value("version").context("Cargo.lock has a package without a version")?;
            sums.extend(value("checksum").map(|sum| ((name, version), sum)));
        }
        Ok(sums)
    }
}

fn component(package: &Value, url: &str, sum: Option<&&str>) -> Result<Value> {
    let mut component = json!({
        "type": "library",
        "bom-ref": url,
        "name": text(package, "name")?,
        "version": text(package, "version")?,
        "purl": url,
    });
    if let Some(licence) = package["license"].as_str() {
        component["licenses"] = json!([{ "expression": spdx(licence) }]);
    }
    if let Some(sum) = sum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    if let Some(address) = package["repository"].as_str() {
        component["externalReferences"] = json!([{ "type": "vcs", "url": address }]);
    }
    Ok(component)
}

/// A licence as SPDX writes it. Old manifests have a slash instead of OR.
fn spdx(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// The beginning of a line of `cargo tree`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(" v")?;
    Some((name, rest.split(' ').next()?))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has something without {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"left\"\nversion = \"1.2.3\"\nsource = \"somewhere\"\n\
                        checksum = \"c0ffee\"\n\n[[package]]\nname = \"tool\"\nversion = \"0.1.0\"\n";

    fn metadata() -> Value {
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [
                { "id": "id of tool", "name": "tool", "version": "0.1.0", "license": "MIT OR Apache-2.0" },
                { "id": "id of left", "name": "left", "version": "1.2.3", "license": "MIT / Apache-2.0",
                  "repository": "https://left.example/git" },
                { "id": "id of tests", "name": "tests", "version": "9.0.0", "license": "MIT" },
            ],
            "resolve": { "nodes": [
                { "id": "id of tool", "deps": [edge("id of left", Value::Null), edge("id of tests", "dev".into())] },
                { "id": "id of left", "deps": [] },
                { "id": "id of tests", "deps": [edge("id of left", Value::Null)] },
            ] },
        })
    }

    fn of(built: &str) -> Result<Value> {
        Sbom { metadata: &metadata(), built, lock: LOCK, package: "tool" }.document()
    }

    #[test]
    fn the_document_lists_what_is_built_with_licences_and_sums() {
        let document = of("tool v0.1.0 (/a/path)\nleft v1.2.3\nleft v1.2.3 (*)\n\n").expect("a document");
        let expected = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "component": {
                "type": "application", "bom-ref": "pkg:cargo/tool@0.1.0", "name": "tool", "version": "0.1.0",
                "purl": "pkg:cargo/tool@0.1.0", "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            } },
            "components": [{
                "type": "library", "bom-ref": "pkg:cargo/left@1.2.3", "name": "left", "version": "1.2.3",
                "purl": "pkg:cargo/left@1.2.3", "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": "c0ffee" }],
                "externalReferences": [{ "type": "vcs", "url": "https://left.example/git" }],
            }],
            "dependencies": [
                { "ref": "pkg:cargo/left@1.2.3", "dependsOn": [] },
                { "ref": "pkg:cargo/tool@0.1.0", "dependsOn": ["pkg:cargo/left@1.2.3"] },
            ],
        });
        assert_eq!(document, expected);
    }

    #[test]
    fn a_package_that_the_metadata_does_not_have_is_an_error() {
        let error = of("tool v0.1.0\nright v1.0.0\n").expect_err("one is missing");
        assert_eq!(error.to_string(), "cargo tree and cargo metadata name different packages");
    }
}
