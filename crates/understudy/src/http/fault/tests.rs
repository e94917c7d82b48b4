use bytes::Bytes;
use everturn_core::delta::{CallBegan, Delta};

use super::*;
use crate::fault::Fault;

fn frames(lens: &[usize]) -> Vec<Act> {
    lens.iter().map(|len| Act::Frame(Bytes::from(vec![b'x'; *len]))).chain([Act::End]).collect()
}

fn befallen(fault: &str) -> String {
    let says = Says { ping: vec![Act::Frame("p".into())], error: vec![Act::Frame("e".into())] };
    let fault: Fault = fault.parse().unwrap();
    let mut told = String::new();
    tell(&fault.trouble.befall(frames(&[3, 2]), &says), &mut told);
    told
}

fn tell(acts: &[Act], told: &mut String) {
    for act in acts {
        match act {
            Act::Frame(bytes) => told.push_str(str::from_utf8(bytes).unwrap().get(..6).unwrap_or("x").trim()),
            Act::Said(_) => {}
            Act::Wait(time) => told.push_str(&format!("~{}", time.as_millis())),
            Act::End => told.push('.'),
            Act::Break(how) => told.push_str(&format!("{how:?}")),
            Act::Hang => told.push('∞'),
            Act::Once(acts) => {
                told.push('(');
                tell(acts, told);
                told.push(')');
            }
        }
        told.push(' ');
    }
}

#[test]
fn events_and_bytes_are_counted() {
    let x = "x"; // Every frame is told as one.
    assert_eq!(befallen("cut@1"), format!("{x} (. ) {x} . "));
    assert_eq!(befallen("reset@0"), format!("(Reset ) {x} {x} . "));
    assert_eq!(befallen("stall@9"), format!("{x} {x} . "));
    assert_eq!(befallen("error@1"), format!("{x} ({x} . ) {x} . "));
    assert_eq!(befallen("malformed@2"), format!("{x} {x} . "));
    assert_eq!(befallen("slow@7"), format!("~7 {x} ~7 {x} . "));
    assert_eq!(befallen("drip"), format!("{}. ", "x ".repeat(5)));
}

/// Words, thoughts and inputs are counted as they go out, so a fault can hit the middle of one, on every wire.
#[test]
fn words_thoughts_and_inputs_are_counted() {
    let said = |delta: Delta| [Act::Frame("x".into()), Act::Said(delta)];
    let input = |slot, json: &str| said(Delta::CallInput { slot, json: json.into() });
    let acts = || -> Vec<Act> {
        let text = |text: &str| said(Delta::Text(text.into()));
        let thought = said(Delta::Reasoning("r1 r2".into()));
        let began = |slot| {
            let (provider_id, tool, run_by) = (String::new(), "look".into(), everturn_core::message::RunBy::Us);
            let meta = everturn_core::message::Meta::new();
            Act::Said(Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by, meta })))
        };
        let calls = [vec![began(0)], input(0, "{}").into(), vec![began(1)], input(1, "{").into(), input(1, "}").into()];
        [thought, text("t1 t"), text("2 "), text("t3")].into_iter().flatten().chain(calls.concat()).collect()
    };
    let sent = |fault: &str| {
        let befallen = fault.parse::<Fault>().unwrap().trouble.befall(acts(), &Says::default());
        let before = befallen.iter().position(|act| matches!(act, Act::Once(_)));
        befallen[..before.unwrap_or(befallen.len())].iter().filter(|act| matches!(act, Act::Frame(_))).count()
    };
    assert_eq!(sent("cut-at-thought@2"), 1);
    assert_eq!(sent("cut-at-word@1"), 2);
    assert_eq!(sent("reset-at-word@2"), 2, "in the middle of the second word");
    assert_eq!(sent("stall-at-word@3"), 4);
    assert_eq!(sent("stall-at-input@1"), 5);
    assert_eq!(sent("truncate-at-input@2"), 6);
    assert_eq!(sent("cut-at-word@4"), 7, "there is no such word");
}

#[test]
fn bytes_are_exact() {
    for byte in 0..=5 {
        let fault: Fault = format!("truncate-at-byte@{byte}").parse().unwrap();
        let mut sent = 0;
        'out: for act in fault.trouble.befall(frames(&[3, 2]), &Says::default()) {
            let acts = match act {
                Act::Once(acts) => acts,
                act => vec![act],
            };
            for act in acts {
                match act {
                    Act::Frame(bytes) => sent += bytes.len(),
                    _ => break 'out,
                }
            }
        }
        assert_eq!(sent, byte);
    }
}
