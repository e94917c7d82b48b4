// What a person can do beside sending.

import { signal } from "@preact/signals";
import type { NewPart, UserMessage } from "@everturn/client";

import { type ChatState, give, list } from "./chats.js";
import { go, route } from "./route.js";
import { api } from "./session.js";

/** A short line for the person, at the foot of the page. */
export const notice = signal<{ text: string; isError: boolean } | undefined>(undefined);
/** What is open above the page. */
export const dialog = signal<"palette" | "help" | "settings" | undefined>(undefined);
/** Whether the list of chats is shown on a small screen. */
export const isListShown = signal(false);

let timer: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, isError = false): void {
  notice.value = { text, isError };
  clearTimeout(timer);
  timer = setTimeout(() => (notice.value = undefined), isError ? 12_000 : 5_000);
}

/** Runs a request, and tells the person if it was refused. */
export async function tried<T>(request: Promise<T>): Promise<T | undefined> {
  try {
    return await request;
  } catch (error) {
    say(error instanceof Error ? sentence(error.message) : "That did not work.", true);
    return undefined;
  }
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** A new chat with everything up to this message. */
export async function forkAt(chat: ChatState, at: number): Promise<void> {
  const made = await tried(api.fork(chat.id, { at }));
  if (made) go(`/c/${made.id}`);
}

/** Sends a message of the person again, with another text if one is given; everything after it is removed. */
export async function editWith(chat: ChatState, message: UserMessage, text: string | undefined): Promise<void> {
  const parts: NewPart[] = [];
  for (const [at, part] of message.parts.entries()) {
    if (part.type === "text" && text === undefined) parts.push({ type: "text", text: part.text });
    if (part.type !== "file") continue;
    const response = await api.file(chat.id, message.id, at).catch(() => undefined);
    if (!response?.ok) return say(`The file ${part.name} of this message cannot be read, so it cannot be sent again.`, true);
    parts.push({ type: "file", name: part.name, media_type: part.media_type, data: await base64(await response.blob()) });
  }
  if (text !== undefined) parts.unshift({ type: "text", text });
  const status = chat.status.value?.status;
  if (status === "running" || status === "awaiting") await tried(api.interrupt(chat.id));
  await give(chat.id, { verb: "edit", message: message.id, body: { parts } });
}

export async function base64(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** Opens or closes the inspector of the open chat. */
function look(at: string | undefined): void {
  const { value } = route;
  if (value.place !== "chat" || !value.chat) return;
  go(`/c/${value.chat}${at ? `?look=${at}` : ""}`);
}

/** Goes to the chat this many places further in the list. */
function neighbour(by: number): void {
  const open = route.value.place === "chat" ? route.value.chat : undefined;
  const at = list.value.findIndex((heading) => heading.id === open);
  const next = list.value[at < 0 ? 0 : at + by];
  if (next) go(`/c/${next.id}`);
}

export const act = { look, neighbour };
