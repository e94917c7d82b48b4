use super::*;

const TABLE: &str = r#"
    [acme.all]
    wire = "openai_chat"
    context = 1000
    [acme.models.big]
    context = 5000
    price = { input = 2_000_000, output = 8_000_000, cache_read = 500_000 }
    [acme.models.big-2]
    output = 64
    thinks = true
    prefill = true
    reattach = true
    efforts = ["low", "high"]
"#;

fn acme() -> Catalogue {
    Catalogue::default().with(TABLE).unwrap()
}

/// The table that comes along can be read, names a wire for every provider, and its numbers make sense.
#[test]
fn the_embedded_table_is_right() {
    let catalogue = Catalogue::embedded();
    assert!(catalogue.families("anthropic").count() > 10);
    for (provider, shelf) in &catalogue.providers {
        assert!(shelf.all.wire.is_some(), "{provider}");
        for family in shelf.models.keys() {
            let card = catalogue.card(provider, family);
            let facts = card.facts(provider, WireFormat::OpenAiChat);
            let name = format!("{provider}/{family}");
            assert_eq!(facts.target.wire, WireFormat::from(card.wire.unwrap()), "{name}");
            assert!(facts.context_limit.is_none_or(|context| context > u64::from(facts.output_max)), "{name}");
            if let Some(price) = facts.price {
                assert!(price.cache_read <= price.input && price.input < price.output, "{name}");
                assert!(price.output < Micros::units(1_000), "{name}: per million, in millionths");
                if let Some(above) = price.above {
                    assert!(above.input > price.input && above.output > price.output, "{name}: longer is dearer");
                    assert!(above.cache_read <= above.input && above.prompt >= 100_000, "{name}");
                    assert!(facts.context_limit.is_some_and(|context| context > above.prompt), "{name}");
                }
            }
            let known = |level: &String| Effort::ALL.iter().any(|effort| label(*effort) == level);
            assert!(card.efforts.iter().flatten().all(known), "{name}");
        }
    }
}

/// The longest beginning wins, and what it leaves open its provider's general row fills in.
#[test]
fn the_longest_beginning_wins() {
    let context = |model| acme().card("acme", model).context;
    assert_eq!((context("big-1"), context("big-2-2026"), context("small")), (Some(5000), Some(1000), Some(1000)));
    assert_eq!(acme().card("acme", "big-2-2026").output, Some(64));
    assert_eq!(acme().card("nobody", "big"), Card::default());
    let real = Catalogue::embedded();
    assert_eq!(real.card("anthropic", "claude-opus-4-20250514").output, Some(32_000));
    assert_eq!(real.card("anthropic", "claude-opus-4-5-20251101").output, Some(64_000));
    assert_eq!(real.card("anthropic", "claude-opus-5-5").effort_off.as_deref(), Some("never"));
}

/// What is known reaches the engine; what is not known stays unknown.
#[test]
fn cards_become_facts() {
    let facts = acme().card("acme", "big-2").facts("acme", WireFormat::Gemini);
    assert_eq!((facts.target.wire, facts.target.provider.as_str()), (WireFormat::OpenAiChat, "acme"));
    assert_eq!((facts.can.prefill, facts.can.reattach), (Prefill::Yes, Reattach::Yes));
    assert_eq!((facts.thinks, facts.output_max, facts.price), (Thinking::Yes, 64, None));
    assert!(facts.target.prefill);

    let facts = acme().card("acme", "big").facts("acme", WireFormat::Gemini);
    let price = facts.price.unwrap();
    assert_eq!((price.cache_read, price.cache_write), (Micros(500_000), Micros(2_000_000)));
    assert_eq!((facts.thinks, facts.output_max), (Thinking::No, OUTPUT_MAX));

    let unknown = Card::default().facts("x", WireFormat::Gemini);
    assert_eq!(unknown.target, Target::new(WireFormat::Gemini, "x"));
    assert_eq!((unknown.context_limit, unknown.price), (None, None));
}

/// Names that begin alike are told apart where it costs money, and long prompts have their price.
#[test]
fn the_embedded_table_knows_its_families() {
    let real = Catalogue::embedded();
    let price = |provider, model| real.card(provider, model).price.map(|price| (price.input, price.output));
    assert_eq!(price("google", "gemini-3.5-flash"), Some((1_500_000, 9_000_000)));
    assert_eq!(price("google", "gemini-3.5-flash-lite"), Some((300_000, 2_500_000)));
    assert_eq!(price("google", "gemini-3-pro-image"), None, "pictures are paid otherwise");
    assert_eq!(price("openai", "gpt-6-luna"), Some((100_000, 500_000)));
    assert_eq!(price("openai", "gpt-6-terra"), None, "no price is guessed");
    assert_eq!(price("anthropic", "claude-mythos-5-2"), None);
    let above = |provider, model| {
        let price = real.card(provider, model).facts(provider, WireFormat::Gemini).price.unwrap();
        price.above.map(|above| (above.prompt, above.input, above.cache_read))
    };
    assert_eq!(above("google", "gemini-2.5-pro"), Some((200_000, Micros(2_500_000), Micros(250_000))));
    assert_eq!(above("anthropic", "claude-haiku-5-5"), Some((100_000, Micros(500_000), Micros(50_000))));
    assert_eq!(above("anthropic", "claude-opus-5-5"), None);
}

/// A user's table goes over the other, field by field, and may add what is new.
#[test]
fn tables_go_over_tables() {
    let over = "[acme.models.big]\noutput = 7\n[acme.models.new]\ncontext = 3\n[home.all]\nwire = \"anthropic\"";
    let catalogue = acme().with(over).unwrap();
    let big = catalogue.card("acme", "big");
    assert_eq!((big.output, big.context, big.price.is_some()), (Some(7), Some(5000), true));
    assert_eq!(catalogue.card("acme", "new").context, Some(3));
    assert_eq!(catalogue.card("home", "any").wire, Some(WireName::Anthropic));
}

/// An unknown key is an error and is not ignored.
#[test]
fn unknown_keys_are_errors() {
    for table in [
        "[acme.models.big]\ncontxt = 5",
        "[acme]\nwire = \"gemini\"",
        "[acme.all]\nwire = \"smoke_signals\"",
        "[acme.all]\nprice = { input = 1, output = 2, tax = 3 }",
        "[acme.all]\nprice = { input = 1 }",
        "[acme.all]\nprice = { input = 1, output = 2, above = { input = 1, output = 2 } }",
        "[acme.all]\ncontext = -1",
        "acme = 3",
        "[[",
    ] {
        assert!(Catalogue::default().with(table).is_err(), "{table}");
    }
    let told = acme().with("[acme.models.big]\ncontxt = 5").unwrap_err().to_string();
    assert!(told.contains("contxt"), "{told}");
}

/// An effort the model does not know becomes the next it knows, and the most if there is none above.
#[test]
fn efforts_are_rounded_up() {
    let card = acme().card("acme", "big-2");
    let levels = Effort::ALL.map(|effort| card.level(effort).unwrap_or("-"));
    assert_eq!(levels, ["-", "low", "low", "high", "high", "high", "high"]);
    assert_eq!(Card::default().level(Effort::High), None);
}
