// What a person typed and did not send yet, per chat. It outlives a reload, and is removed when the server has the message.

import { session } from "./session.js";

const LEN_MAX = 200;
const WRITE_MS = 200;

const waiting = new Map<string, string>();
let timer: ReturnType<typeof setTimeout> | undefined;

const prefix = (): string => `everturn:draft:${session.value?.owner ?? ""}:`;

export function draftOf(chat: string): string {
  const now = waiting.get(chat);
  if (now !== undefined) return now;
  try {
    const stored = localStorage.getItem(prefix() + chat);
    return stored ? (JSON.parse(stored) as { text: string }).text : "";
  } catch {
    return "";
  }
}

export function keepDraft(chat: string, text: string): void {
  waiting.set(chat, text);
  timer ??= setTimeout(writeDrafts, WRITE_MS);
}

export function writeDrafts(): void {
  clearTimeout(timer);
  timer = undefined;
  for (const [chat, text] of waiting) {
    try {
      if (text === "") localStorage.removeItem(prefix() + chat);
      else localStorage.setItem(prefix() + chat, JSON.stringify({ text, at: Date.now() }));
    } catch {
      // Storage is full or refused: the draft lasts as long as the page.
      continue;
    }
    waiting.delete(chat);
  }
  forgetOldest();
}

function forgetOldest(): void {
  const names = Object.keys(localStorage).filter((name) => name.startsWith("everturn:draft:"));
  if (names.length <= LEN_MAX) return;
  const age = (name: string): number => {
    try {
      return (JSON.parse(localStorage.getItem(name) ?? "") as { at: number }).at;
    } catch {
      return 0;
    }
  };
  names.sort((a, b) => age(a) - age(b));
  for (const name of names.slice(0, names.length - LEN_MAX)) localStorage.removeItem(name);
}

addEventListener("pagehide", writeDrafts);
