use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use everturn::core::cost::Micros;

use super::*;

/// The configuration of these flags, variables and this file.
pub(super) fn read(flags: Flags, variables: &[(&str, &str)], text: &str) -> anyhow::Result<Config> {
    static READ: AtomicU32 = AtomicU32::new(0);
    let name = format!("everturn-config-{}-{}.toml", std::process::id(), READ.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, text)?;
    let flags = Flags { config: Some(path.clone()), ..flags };
    let look = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let config = Config::read(&flags, |name| look(name).or_else(|| (name == "HOME").then(|| "/h".into())));
    std::fs::remove_file(path)?;
    config
}

#[test]
fn flags_beat_variables_beat_the_file_beats_defaults() {
    let text = "listen = \"127.0.0.1:1\"\nmodel = \"a/file\"\ndata = \"/file\"\n";
    let flags = || Flags { model: Some("a/flag".parse().unwrap()), ..Flags::default() };
    let config = read(flags(), &[("EVERTURN_MODEL", "a/variable"), ("EVERTURN_DATA", "/variable")], text).unwrap();
    assert_eq!(
        (config.model.value.unwrap().to_string(), config.model.origin),
        ("a/flag".into(), Origin::Flag("--model"))
    );
    assert_eq!((config.data.value, config.data.origin), ("/variable".into(), Origin::Variable("EVERTURN_DATA")));
    assert_eq!(config.listen.value.to_string(), "127.0.0.1:1");
    assert!(matches!(config.listen.origin, Origin::File(_)));
    let config = read(Flags::default(), &[], "").unwrap();
    assert_eq!((config.listen.value.to_string(), config.listen.origin), ("127.0.0.1:4140".into(), Origin::Default));
    assert_eq!(config.data.value, Path::new("/h/.local/share/everturn"));
}

#[test]
fn an_unknown_key_is_an_error_that_lists_the_known_ones() {
    for (text, said) in [
        ("modell = \"a/b\"", "unknown field `modell`"),
        ("[agents.x]\nmodel = \"a/b\"\nsteps = 3", "expected one of"),
        ("model = \"nothing\"", "provider/model"),
        ("[agents.default]\nmodel = \"a/b\"", "at the top"),
        ("chats_max = \"x\"", "expected a whole number"),
    ] {
        let error = format!("{:#}", read(Flags::default(), &[], text).unwrap_err());
        assert!(error.contains(said) && !error.contains("usize"), "{error}");
    }
    // The error stands first, the suggestion last.
    let error = format!("{:#}", read(Flags::default(), &[], "modle = \"a/b\"").unwrap_err());
    let [wrong, hint] = ["unknown field `modle`", "did you mean `model`?"].map(|said| error.find(said));
    assert!(wrong.is_some() && wrong < hint && error.ends_with("`model`?"), "{error}");
}

#[test]
fn a_profile_makes_an_agent() {
    let text = "[agents.careful]\nmodel = \"a/b\"\nfallbacks = [\"c/d\"]\nsystem = \"Be careful.\"\nsteps_max = 3\nturn_cost_max = 2\nturn_minutes_max = 5\nsame_call_max = 7\n[agents.careful.tools.poll]\ndescription = \"Tells how far a job is.\"\nsame_call_max = 99";
    let config = read(Flags::default(), &[], text).unwrap();
    let agent = config.agents["careful"].agent().unwrap();
    assert_eq!(agent.models.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a/b", "c/d"]);
    assert_eq!((agent.limits.steps_max, agent.limits.turn_cost_max), (3, Micros::units(2)));
    assert_eq!((agent.limits.same_call_max_of("look"), agent.limits.same_call_max_of("poll")), (7, 99));
    assert_eq!((agent.limits.turn_time_max, agent.system), (Duration::from_secs(300), vec!["Be careful.".to_owned()]));
}

/// The default agent has the same keys as others.
#[test]
fn the_default_agent_has_the_keys_of_others() {
    let text = "fallbacks = [\"c/d\", \"e/f\"]\nsystem = \"Be careful.\"\nsteps_max = 3\nturn_tokens_max = 7\nturn_cost_max = 2\nturn_minutes_max = 5";
    let config = read(Flags::default(), &[], text).unwrap();
    let agent = config.usual_agent("a/b".parse().unwrap()).unwrap();
    assert_eq!(agent.models.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a/b", "c/d", "e/f"]);
    let limits = &agent.limits;
    assert_eq!((limits.steps_max, limits.turn_tokens_max, limits.turn_cost_max), (3, 7, Micros::units(2)));
    assert_eq!((limits.turn_time_max, agent.system), (Duration::from_secs(300), vec!["Be careful.".to_owned()]));
    let agent = config.usual_agent("e/f".parse().unwrap()).unwrap();
    assert_eq!(agent.models.iter().map(ToString::to_string).collect::<Vec<_>>(), ["e/f", "c/d"], "each once");
    let named = format!("[agents.x]\nmodel = \"a/b\"\n{text}");
    assert_eq!(read(Flags::default(), &[], &named).unwrap().agents["x"].turns(), config.usual.turns());
    let error = format!("{:#}", read(Flags::default(), &[], "fallbacks = [\"nothing\"]").unwrap_err());
    assert!(error.contains("provider/model"), "{error}");
}

#[test]
fn models_to_choose_from_are_the_usual_ones_unless_they_are_listed() {
    let offered = |variables: &[(&str, &str)], text: &str| {
        read(Flags::default(), variables, text).unwrap().offered(vec![ModelOffer::All("usual".into())])
    };
    let model = |name: &str| ModelOffer::Model(name.parse().unwrap());
    assert_eq!(offered(&[], ""), [ModelOffer::All("usual".into())]);
    assert_eq!(offered(&[], "models = [\"a/one\", \"b/two\"]"), [model("a/one"), model("b/two")]);
    assert_eq!(offered(&[("EVERTURN_MODELS", "c/three")], "models = [\"a/one\"]"), [model("c/three")]);
    assert_eq!(offered(&[], "models = []"), [], "no model may be chosen");
}
