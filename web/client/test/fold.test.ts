import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { BadFold, chatEvent, type ChatEvent, Follower, View } from "../src/fold.js";

type Digest = [number, number | null, number | null, number | null];

interface Fixture {
  received: Array<{ events: Array<[string, object]>; after: Digest }>;
  view: { messages: unknown[]; status: unknown; draft: unknown };
}

const fixtures = readFileSync(join(FIXTURES, "folds.jsonl"), "utf8").trimEnd().split("\n").map((line) => JSON.parse(line) as Fixture);

/** A new event each time: a fold changes what it was given. */
function event([name, data]: [string, object]): ChatEvent {
  return chatEvent(name, structuredClone(data)) as ChatEvent;
}

/** The view as the server writes it, which leaves out what is empty. */
function written(view: View): Fixture["view"] {
  const { messages, status, draft } = view;
  if (!draft) return { messages, status: status ?? null, draft: null };
  const { slots, attempt, ...rest } = draft;
  const shown = { ...rest, ...(Object.keys(slots).length > 0 ? { slots } : {}), ...(attempt ? { attempt } : {}) };
  return { messages, status: status ?? null, draft: shown };
}

function digest({ messages, status, draft }: View): Digest {
  return [messages.length, messages.at(-1)?.id ?? null, status?.version ?? null, draft?.n ?? null];
}

/** PG11: the fold of the server's events is the server's view. */
test("every life of a chat folds to the server's view", () => {
  assert.ok(fixtures.length >= 20);
  for (const { received, view } of fixtures) {
    const follower = new Follower();
    received.forEach(({ events, after }, at) => {
      events.forEach((each, place) => {
        const isLast = place === events.length - 1;
        assert.equal(follower.take(event(each), isLast ? `c${at}` : undefined), isLast);
      });
      assert.deepEqual(digest(follower.view), after);
    });
    assert.deepEqual(written(follower.view), view);
  }
});

/** PG11: so it does when the connection is cut behind any event, and the server begins again at the cursor. */
test("a cut behind any event changes nothing", () => {
  for (const { received, view } of fixtures) {
    const total = received.reduce((sum, { events }) => sum + events.length, 0);
    for (let cut = 0; cut < total; cut++) {
      const follower = new Follower();
      let seen = 0;
      for (let at = 0; at < received.length; at++) {
        const { events } = received[at] as Fixture["received"][number];
        let isCut = false;
        events.forEach((each, place) => {
          if (isCut) return;
          follower.take(event(each), place === events.length - 1 ? `c${at}` : undefined);
          isCut = seen++ === cut && place < events.length - 1;
        });
        if (isCut) {
          assert.equal(follower.cut(), at === 0 ? undefined : `c${at - 1}`);
          at -= 1;
        }
      }
      assert.deepEqual(written(follower.view), view, `cut behind event ${cut}`);
    }
  }
});

/** PG11: an event that is lost or doubled is refused. */
test("a gap and a repetition are refused", () => {
  let refused = 0;
  for (const { received } of fixtures) {
    const all = received.flatMap(({ events }) => events);
    for (let at = 0; at < all.length; at++) {
      const [name] = all[at] as [string, object];
      if (name !== "delta" && name !== "message") continue;
      const view = new View();
      const doubled = [...all.slice(0, at + 1), all[at] as [string, object]];
      assert.throws(() => doubled.forEach((each) => view.fold(event(each))), BadFold);
      refused += 1;
    }
  }
  assert.ok(refused > 100);
});

test("errors are those of the server", () => {
  const delta = (n: number, more: object) => chatEvent("delta", { step: 1, n, at: 1, ...more }) as ChatEvent;
  const view = new View();
  view.fold(delta(1, { kind: "text", text: "a" }));
  assert.throws(() => view.fold(delta(3, { kind: "text", text: "c" })), /delta 3 of step 1 came after 1/);
  assert.throws(() => view.fold(delta(2, { kind: "input", slot: 7, json: "{" })), /a delta for call slot 7, which is not open/);
  const message = chatEvent("message", { id: 4, at: 1, kind: "context", text: "" }) as ChatEvent;
  view.fold(message);
  assert.throws(() => view.fold(message), /message 4 came again, or too late/);
});

test("what is not known is left aside", () => {
  assert.equal(chatEvent("applause", {}), undefined);
  const view = new View();
  view.fold(chatEvent("delta", { step: 1, n: 1, at: 1, kind: "of_a_later_version" }) as ChatEvent);
  assert.equal(view.draft?.n, 1);
});

/** PG11: what opens and closes a part, as docs/http-api.md says. */
test("deltas fold into parts", () => {
  const view = new View();
  let n = 0;
  const take = (more: object) => view.fold(chatEvent("delta", { step: 3, n: ++n, at: n, ...more }) as ChatEvent);
  const shown = () => view.draft?.parts.map((part) => (part.type === "text" ? part.text : part.type === "call" ? `${part.id} ${part.input} ${part.whole}` : part.type));
  take({ kind: "attempt", number: 1, model: "m", rung: "first" });
  take({ kind: "text", text: "a" });
  take({ kind: "text", text: "b" });
  take({ kind: "ended" });
  take({ kind: "text", text: "c" });
  assert.deepEqual(shown(), ["ab", "c"]);
  take({ kind: "attempt", number: 2, model: "m", rung: "continue" });
  take({ kind: "text", text: "d" });
  assert.deepEqual(shown(), ["ab", "cd"]);
  take({ kind: "call", slot: 0, tool: "t", run_by: "application" });
  take({ kind: "input", slot: 0, json: "{}" });
  take({ kind: "call_ended", slot: 0 });
  assert.deepEqual(shown(), ["ab", "cd", "3.0 {} true"]);
  take({ kind: "retract_call", ordinal: 0 });
  take({ kind: "text", text: "e" });
  assert.deepEqual(shown(), ["ab", "cd", "e"]);
  take({ kind: "usage", input: 5 });
  take({ kind: "usage", output: 7 });
  assert.deepEqual(view.draft?.usage, { input: 5, output: 7 });
  take({ kind: "attempt", number: 3, model: "m", rung: "restart" });
  take({ kind: "retract_all" });
  take({ kind: "call", slot: 0, tool: "t", run_by: "application" });
  assert.deepEqual(shown(), ["3.1  false"]);
  assert.deepEqual(view.draft?.usage, {});
});
