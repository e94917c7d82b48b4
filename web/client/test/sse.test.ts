import assert from "node:assert/strict";
import { test } from "node:test";

import { type RawEvent, SseCutter } from "../src/sse.js";

const STREAM = new TextEncoder().encode(
  ": hello\n\nevent: delta\nid: 4.5.0\ndata: {\"text\":\"grün 🙂\"}\n\nevent:list\r\ndata:{}\r\n\r\n: bye\n\ndata: a\ndata: b\n\nevent: half\ndata: 1\n",
);

function cut(pieces: Uint8Array[]): RawEvent[] {
  const cutter = new SseCutter();
  return pieces.flatMap((piece) => cutter.push(piece));
}

/** PG11: the bytes may be cut anywhere. */
test("events do not depend on where the network cut them", () => {
  const whole = cut([STREAM]);
  assert.deepEqual(whole, [
    { name: "delta", data: '{"text":"grün 🙂"}', id: "4.5.0" },
    { name: "list", data: "{}", id: undefined },
    { name: "message", data: "a\nb", id: undefined },
  ]);
  for (let at = 1; at < STREAM.length; at++) {
    assert.deepEqual(cut([STREAM.subarray(0, at), STREAM.subarray(at)]), whole, `cut at byte ${at}`);
  }
  assert.deepEqual(cut([...STREAM].map((byte) => Uint8Array.of(byte))), whole);
});

test("a line without end is refused", () => {
  const cutter = new SseCutter();
  const piece = new Uint8Array(1024 * 1024).fill(97);
  assert.throws(() => {
    for (let at = 0; at < 10; at++) cutter.push(piece);
  }, /has a line over/);
});
