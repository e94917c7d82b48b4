import assert from "node:assert/strict";
import { test } from "node:test";

import { colourLine, languageOf, type Language, START } from "../src/markdown/colour.js";
import { Metrics } from "../src/inspect/metrics.js";
import { paidAgain, traces } from "../src/inspect/turns.js";
import { isComposing } from "../src/state/composing.js";
import { cost, dollars, duration } from "../src/state/format.js";
import { fieldsOf, laidOut, visible } from "../src/state/visible.js";

/** PG21: nothing in the input of a call is invisible. */
test("hidden characters are shown by their names", () => {
  const shown = (text: string) => visible(text).map((piece) => (piece.isHidden ? `[${piece.text}]` : piece.text)).join("");
  assert.equal(shown("a\u202eb\u200bc\u001b[0m"), "a[U+202E]b[U+200B]c[U+001B][0m");
  assert.equal(shown("tab\tline\nend\r"), "tab\tline\nend[U+000D]");
  assert.equal(shown("\u{e0041}\ufe0f\ufeff\u00ad"), "[U+E0041][U+FE0F][U+FEFF][U+00AD]");
  assert.equal(shown("plain ü 🙂 日本"), "plain ü 🙂 日本");
  assert.equal(visible("x".repeat(20_000)).length, 1);
});

test("input that is no JSON is shown as it is", () => {
  assert.equal(laidOut('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(laidOut('{"a":'), '{"a":');
  assert.equal(laidOut('{"a":1,"a":2}'), '{"a":1,"a":2}');
  assert.equal(fieldsOf('{"a":1,"a":2}'), undefined);
  assert.equal(fieldsOf("[1]"), undefined);
});

test("an input is shown by its fields, and a replacement as one only if it is nothing else", () => {
  assert.deepEqual(fieldsOf('{"path": "a\\nb", "edits": [{"old": "x", "new": "y"}], "n": [1]}'), [
    { name: "path", text: "a\nb", replaces: undefined },
    { name: "edits", text: '[\n  {\n    "old": "x",\n    "new": "y"\n  }\n]', replaces: [{ old: "x", new: "y" }] },
    { name: "n", text: "[\n  1\n]", replaces: undefined },
  ]);
  assert.equal(fieldsOf('{"edits":[{"old":"x","new":"y","all":true}]}')?.[0]?.replaces, undefined);
});

/** PG43: Enter that ends a composition is no Enter. */
test("a composition is known by its flag or its code", () => {
  assert.ok(isComposing({ isComposing: true, keyCode: 13 }));
  assert.ok(isComposing({ isComposing: false, keyCode: 229 }));
  assert.ok(!isComposing({ isComposing: false, keyCode: 13 }));
});

/** PG31: a comment over lines is coloured in each of them, and words keep their letters. */
test("colours carry over lines and change no letter", () => {
  const rust = languageOf("rs") as Language;
  const lines = ["let x: &'a str = \"a\\\"b\"; // why", "/* a", "  b", "*/ fn main() {}"];
  let state = START;
  const kinds: string[][] = [];
  for (const line of lines) {
    const coloured = colourLine(line, rust, state);
    state = coloured.state;
    assert.equal(coloured.pieces.map(({ text }) => text).join(""), line);
    kinds.push(coloured.pieces.filter(({ kind }) => kind).map(({ kind, text }) => `${kind}:${text}`));
  }
  assert.deepEqual(kinds, [
    ["keyword:let", 'string:"a\\"b"', "comment:// why"],
    ["comment:/* a"],
    ["comment:  b"],
    ["comment:*/", "keyword:fn", "function:main"],
  ]);
  assert.equal(languageOf("constructor"), undefined);
});

test("numbers are words", () => {
  assert.deepEqual([0, 400, 41_000, 2_500_000].map(dollars), ["$0", "<$0.001", "$0.041", "$2.50"]);
  assert.deepEqual([80, 3100, 41_000, 252_000].map(duration), ["80 ms", "3.1 s", "41 s", "4 min 12 s"]);
  assert.equal(cost({ known_micros: 35_000, estimated_micros: 6_000 }), "$0.041, of it ~$0.006 estimated");
});

const METRICS = `# HELP x
a_total{model="m\\"1",rung="first"} 3
a_total{model="m2",rung="first"} 4
t_seconds_bucket{le="0.1"} 5
t_seconds_bucket{le="1"} 9
t_seconds_bucket{le="+Inf"} 10
`;

test("metrics are read and summed", () => {
  const metrics = new Metrics(METRICS);
  assert.equal(metrics.sum("a_total", { rung: "first" }), 7);
  assert.deepEqual(metrics.by("a_total", "model"), [['m"1', 3], ["m2", 4]]);
  assert.equal(metrics.quantile("t_seconds", 0.5), 0.1);
  assert.equal(metrics.quantile("t_seconds", 0.99), 1);
  assert.equal(metrics.quantile("none", 0.5), undefined);
});

/** PG46: each attempt is a bar, also one that broke; waits are bars too. */
test("a turn shows its attempts, waits and tools", () => {
  const money = { known_micros: 5, estimated_micros: 1, currency: "USD" as const };
  const none = { input: 0, output: 0, reasoning: 0, cache_read: 0, cache_write: 0 };
  const attempt = (number: number, began: number, outcome: string) =>
    ({ step: 1, number, model: "p/m", rung: number === 1 ? "first" : "continue", began, took_ms: 1000, known: none, estimated: none, cost: money, outcome });
  const each = [attempt(1, 0, "process_ended"), attempt(2, 5000, "answered")];
  const [turn, ...more] = traces([
    { kind: "user", id: 1, at: 0, parts: [{ type: "text", text: "hi" }] },
    { kind: "reply", id: 2, at: 6000, step: 1, model: "p/m", runtime_ms: 1, stop: { why: "tool_use" },
      parts: [{ type: "call", id: "1.0", tool: "t", input: "{}", whole: true, run_by: "application", at: 1 }] },
    { kind: "result", id: 3, at: 9000, call: "1.0", tool: "t", verdict: "unknown", output: "", began: 8000, ended: 9000 },
  ], each);
  assert.equal(more.length, 0);
  assert.deepEqual(turn?.steps[0]?.bars.map(({ kind, state, began, ended }) => [kind, state, began, ended]), [
    ["attempt", "bad", 0, 1000],
    ["wait", "neutral", 1000, 5000],
    ["attempt", "good", 5000, 6000],
    ["wait", "neutral", 6000, 8000],
    ["tool", "warn", 8000, 9000],
  ]);
  assert.ok(turn?.hasTrouble);
  assert.equal(paidAgain(each), 6);
});
