use super::*;

fn claims(inside: &str, text: &str) -> Vec<String> {
    let tests = scan("everturn-core", inside, "f.rs", text).expect("this is Rust");
    tests.iter().map(|test| format!("{} → {}", test.title(), test.ids.join(" "))).collect()
}

#[test]
fn tests_claim_ids_in_their_doc_comments() {
    let text = r#"
        /// XX01: a helper claims nothing.
        fn helper() {}

        #[cfg(test)]
        mod tests {
            /// XX02, XX04-XX05: the first line.
            ///
            /// Prose may name XX07 as well.
            #[test]
            fn a_plain_one() { let inner = || {}; }

            #[tokio::test(start_paused = true)]
            /// XX08 below the attribute.
            async fn an_async_one() {}

            /// Says nothing.
            #[test]
            fn a_silent_one() {}

            proptest! {
                /// XX09: for any x.
                #[test]
                fn a_property(x in 0..9) {}
            }
        }

        /// XX10: past the module.
        #[test]
        fn outside() {}
    "#;
    assert_eq!(
        claims("src/draft.rs", text),
        [
            "everturn-core draft::tests::a_plain_one → XX02 XX04 XX05 XX07",
            "everturn-core draft::tests::an_async_one → XX08",
            "everturn-core draft::tests::a_property → XX09",
            "everturn-core draft::outside → XX10",
        ]
    );
}

#[test]
fn an_attribute_that_only_mentions_test_makes_none() {
    assert!(claims("src/a.rs", "/// XX01\n#[cfg(test)]\nfn a() {}").is_empty());
    assert!(claims("src/a.rs", "/// XX01\n#[test]\nconst A: u8 = 1;\nfn a() {}").is_empty());
}

#[test]
fn the_place_of_a_file_gives_binary_and_modules() {
    let text = "/// XX01\n#[test]\nfn a() {}";
    for (inside, title) in [
        ("src/lib.rs", "everturn-core a"),
        ("src/main.rs", "everturn-core a"),
        ("src/draft.rs", "everturn-core draft::a"),
        ("src/draft/tests.rs", "everturn-core draft::tests::a"),
        ("src/draft/mod.rs", "everturn-core draft::a"),
        ("src/bin/tool.rs", "everturn-core::bin/tool a"),
        ("tests/it/main.rs", "everturn-core::it a"),
        ("tests/it/seam/cjk.rs", "everturn-core::it seam::cjk::a"),
        ("tests/tidy.rs", "everturn-core::tidy a"),
        ("examples/embed.rs", "everturn-core::example/embed a"),
    ] {
        assert_eq!(claims(inside, text), [format!("{title} → XX01")]);
    }
}

#[test]
fn results_find_their_test() {
    let result = |binary: &str, name: &str| TestResult { binary: binary.into(), name: name.into(), passed: true };
    let [unit] =
        scan("everturn", "src/hub.rs", "f.rs", "/// XX01\n#[test]\nfn a() {}").expect("Rust").try_into().expect("one");
    let unit: Test = unit;
    assert!(unit.is(&result("everturn", "hub::a")));
    assert!(unit.is(&result("everturn::bin/everturn", "hub::a")));
    assert!(unit.is(&result("everturn", "hub::a::case_1")));
    assert!(!unit.is(&result("everturn", "hub::ab")));
    assert!(!unit.is(&result("everturn-core", "hub::a")));
    assert!(!unit.is(&result("everturn::it", "hub::a")));
}
