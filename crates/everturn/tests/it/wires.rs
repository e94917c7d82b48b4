//! Every fault on every wire, over real sockets: engine, adapter and the provider's stand-in, with real time.
//!
//! One row is one fault of the matrix (P1 to P30, as in `snapshots/`). A row has cases, and every case is played on all
//! wires; a wire on which a case cannot happen is excused with a reason. The last test checks that no cell is left out.

mod bytes;
mod calls;
mod case;
mod content;
mod front;
mod opening;
mod set;
mod stream;
mod trace;
mod transport;
mod way;

use std::fmt::Write as _;

use case::Case;
use expect_test::expect_file;
use futures_util::future::join_all;
use set::Sockets;
use way::Way;

/// A fault of the matrix.
pub struct Row {
    what: &'static str,
    cases: Vec<Case>,
}

impl Row {
    fn new(what: &'static str, cases: impl IntoIterator<Item = Case>) -> Self {
        Self { what, cases: cases.into_iter().collect() }
    }

    /// Plays every case every way. What comes to the same is told together.
    async fn play(&self, name: &str) -> String {
        let sockets = &Sockets::new();
        let played = join_all(self.cases.iter().map(|case| async move {
            let traces = join_all(case.ways().map(|way| case.play(way, sockets))).await;
            let played = grouped(case.ways().map(|way| way.to_string()).zip(traces));
            let excused = grouped(case.excused.iter().map(|(way, why)| (way.to_string(), *why)));
            (played, excused)
        }));
        let names = self.cases.iter().map(|case| case.name.to_owned());
        let mut told = format!("{}: {}\n", name.to_uppercase(), self.what);
        for ((played, excused), cases) in grouped(names.zip(played.await)) {
            writeln!(told, "\n{}", cases.join("\n")).unwrap();
            for (trace, ways) in played {
                writeln!(told, "  {}", ways.join(", ")).unwrap();
                trace.lines().for_each(|line| writeln!(told, "    {line}").unwrap());
            }
            for (why, ways) in excused {
                writeln!(told, "  not on {}: {why}", ways.join(", ")).unwrap();
            }
        }
        told
    }
}

/// The cases with equal traces, and the trace.
fn grouped<T: PartialEq>(all: impl Iterator<Item = (String, T)>) -> Vec<(T, Vec<String>)> {
    let mut groups: Vec<(T, Vec<String>)> = Vec::new();
    for (name, what) in all {
        match groups.iter_mut().find(|(own, _)| *own == what) {
            Some((_, names)) => names.push(name),
            None => groups.push((what, vec![name])),
        }
    }
    groups
}

macro_rules! rows {
    ($($name:ident $make:path;)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let told = $make().play(stringify!($name)).await;
                expect_file![concat!("./wires/snapshots/", stringify!($name), ".txt")].assert_eq(&told);
            }
        )*
        const ROWS: &[(&str, fn() -> Row)] = &[$((stringify!($name), $make)),*];
    };
}

rows! {
    p1 opening::unreachable;
    p2 opening::nameless;
    p3 opening::not_secure;
    p4 opening::refused_keys;
    p5 opening::refused_requests;
    p6 opening::told_to_wait;
    p7 opening::server_errors;
    p8 opening::something_else;
    p9 opening::redirects;
    p10 opening::vile_bodies;
    p11 opening::no_headers;
    p12 stream::stalls;
    p13 stream::drips;
    p14 stream::oddities;
    p15 stream::floods;
    p16 content::not_json;
    p17 content::unheard_of;
    p18 calls::odd_ids;
    p19 content::out_of_order;
    p20 stream::ends_without_an_end;
    p21 content::odd_counts;
    p22 calls::odd_inputs;
    p23 stream::resets;
    p24 transport::farewells;
    p25 transport::half_open;
    p26 transport::odd_http;
    p27 calls::cut_calls;
    p28 content::odd_endings;
    p29 stream::ignored_cancels;
    p30 calls::many_calls;
}

/// Every fault of the matrix is played on every wire in some form, and a form that cannot be there says why.
#[test]
fn no_cell_is_left_out() {
    let names: Vec<String> = ROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, (1..=30).map(|number| format!("p{number}")).collect::<Vec<_>>());
    for (name, row) in ROWS {
        let cases = row().cases;
        assert!(cases.iter().flat_map(|case| &case.excused).all(|(_, why)| !why.is_empty()), "{name} says why");
        for way in Way::ALL {
            assert!(cases.iter().any(|case| case.ways().any(|own| own == way)), "{name} on {way}");
        }
    }
}
