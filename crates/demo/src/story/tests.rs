use super::*;

fn wanted(seed: u64, faults: &[&str]) -> Wanted {
    let faults = faults.iter().map(|fault| fault.parse().unwrap()).collect();
    Wanted { seed, wires: vec![], faults, length: Length::Full }
}

#[test]
fn the_same_seed_tells_the_same_story() {
    assert_eq!(Story::new(&wanted(7, &[])), Story::new(&wanted(7, &[])));
    assert_ne!(Story::new(&wanted(7, &[])), Story::new(&wanted(8, &[])));
}

#[test]
fn everything_is_played_on_every_wire_that_can() {
    let story = Story::new(&wanted(1, &[]));
    assert_eq!(story.scenes.len(), Kind::ALL.len());
    for scene in &story.scenes {
        let expected = if scene.kind == Kind::Lose { 2 } else { 4 };
        assert_eq!(scene.lanes.len(), expected, "{:?}", scene.kind);
    }
    let agents: Vec<&str> =
        story.scenes.iter().flat_map(|scene| &scene.lanes).map(|lane| lane.agent.as_str()).collect();
    let distinct: std::collections::BTreeSet<&str> = agents.iter().copied().collect();
    assert_eq!(distinct.len(), agents.len(), "lanes are told apart by their agents");
    assert!(story.config().contains("model = \"google/drill-cut-1-gemini-faults:cut-at-word@"), "{}", story.config());
}

/// A scene is the same whether it is played alone or among others.
#[test]
fn a_fault_can_be_had_alone_and_where_one_wants_it() {
    let all = Story::new(&wanted(3, &[]));
    let alone = Story::new(&wanted(3, &["kill"]));
    let in_all = all.scenes.iter().find(|scene| scene.kind == Kind::Kill).unwrap();
    assert_eq!(
        (alone.scenes[0].at, &alone.scenes[0].lanes[0].orders[0].before),
        (in_all.at, &in_all.lanes[0].orders[0].before)
    );
    let told = Story::new(&Wanted { wires: vec![Wire::Chat], ..wanted(3, &["kill@137"]) });
    assert_eq!((told.scenes[0].at, told.scenes[0].lanes.len()), (137, 1));
    assert!(told.scenes[0].lanes[0].orders[0].before > 137, "the word is there to be killed at");
    let none = Story::new(&Wanted { wires: vec![Wire::Chat], ..wanted(3, &["lose"]) });
    assert_eq!(none.scenes, [], "that wire has no background generations");
}

#[test]
fn faults_strike_within_the_answer() {
    for seed in 0..200 {
        for scene in Story::new(&wanted(seed, &[])).scenes {
            let order = &scene.lanes[0].orders[0];
            let last = match scene.kind {
                Kind::Input => order.calls.len() as u64,
                Kind::Limit | Kind::Overload => 5,
                _ => order.before,
            };
            assert!(scene.at >= 1 && scene.at <= last, "{:?} of seed {seed} at {}", scene.kind, scene.at);
            assert!(scene.joins_at < order.before);
        }
    }
}

#[test]
fn faults_are_read() {
    assert_eq!("kill@137".parse::<Fault>().unwrap(), Fault { kind: Kind::Kill, at: Some(137) });
    for kind in Kind::ALL {
        assert_eq!(kind.name().parse::<Fault>().unwrap().to_string(), kind.name());
    }
    for wrong in ["", "kil", "kill@", "kill@0", "kill@x", "529@3", "input@4", "kill@2001"] {
        assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
    }
}

#[test]
fn an_order_is_a_prompt_and_a_list_of_tokens() {
    let calls = vec![("note", 1), ("look", 2)];
    let order = Order { thoughts: 2, first: 3, before: 2, calls, after: 1, is_stopped: false };
    assert_eq!(order.prompt(), "Think r1..r2. Say t3..t4. Call note:1, look:2. Then say t5..t5.");
    assert_eq!((order.words().join(" "), order.thought().join(" ")), ("t3 t4 t5".into(), "r1 r2".into()));
    assert_eq!(order.len(), 5);
}
