// After each cut the page checks the promise: what was shown is still stored, to the byte.
//
// On a cut, and when the page is left, it notes how much of the open answer was shown and a hash of it. When the chat is
// there again, the stored answer must begin with just that.

import { signal } from "@preact/signals";
import type { Message, OpenDraft, Part, View } from "@everturn/client";

import { countWords } from "./format.js";

const NAME = "everturn:shown";
/** How long the result is shown. */
const SHOWN_MS = 8000;

interface Shown {
  chat: string;
  step: number;
  length: number;
  words: number;
  hash: number;
  /** How often attempts had taken back something: then the text may rightly differ. */
  at: number;
}

export interface Proof {
  chat: string;
  /** Whether everything that was shown is there. */
  holds: boolean;
  words: number;
  awayMs: number;
}

export const proof = signal<Proof | undefined>(undefined);
/** How many checks failed since the page was loaded. */
export const failedProofs = signal(0);

let notes: Shown[] = [];

/** Notes what is shown of the open answers. */
export function note(views: Iterable<[string, View]>): void {
  const shown: Shown[] = [];
  for (const [chat, { draft }] of views) {
    const text = draft ? textOf(draft.parts) : "";
    if (!draft || text === "") continue;
    shown.push({ chat, step: draft.step, length: text.length, words: countWords(text), hash: hashOf(text), at: Date.now() });
  }
  if (shown.length === 0) return;
  notes = shown;
  try {
    sessionStorage.setItem(NAME, JSON.stringify(shown));
  } catch {
    // Without storage only cuts within this page are checked.
  }
}

/** Compares what was shown of a chat before the cut with what the server has now. */
export function check(chat: string, view: View): void {
  const shown = notes.find((each) => each.chat === chat);
  if (!shown) return;
  notes = notes.filter((each) => each !== shown);
  try {
    sessionStorage.removeItem(NAME);
  } catch {
    // As above.
  }
  const parts = partsOf(shown.step, view.draft, view.messages);
  if (!parts) return; // Edited or too far back: nothing to compare with.
  const text = textOf(parts).slice(0, shown.length);
  const holds = text.length === shown.length && hashOf(text) === shown.hash;
  if (!holds) {
    failedProofs.value += 1;
    console.error(`chat ${chat}, step ${shown.step}: the text shown before the cut is not what is stored`);
  }
  const result = { chat, holds, words: shown.words, awayMs: Date.now() - shown.at };
  proof.value = result;
  if (holds) setTimeout(() => proof.value === result && (proof.value = undefined), SHOWN_MS);
}

/** Reads what an earlier load of this page noted. */
export function recall(): void {
  try {
    notes = JSON.parse(sessionStorage.getItem(NAME) ?? "[]") as Shown[];
  } catch {
    notes = [];
  }
}

function partsOf(step: number, draft: OpenDraft | undefined, messages: readonly Message[]): readonly Part[] | undefined {
  if (draft?.step === step) return draft.parts;
  const reply = messages.find((each) => each.kind === "reply" && each.step === step);
  return reply?.kind === "reply" ? reply.parts : undefined;
}

/** The words of the text parts. */
export function textOf(parts: readonly Part[]): string {
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
}

/** FNV-1a over the characters: not against enemies, only against mistakes. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
