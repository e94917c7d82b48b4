// Keys that work everywhere on the page.

import { act, dialog, isListShown } from "../state/actions.js";
import { chats } from "../state/chats.js";
import { isComposing } from "../state/composing.js";
import { go, route } from "../state/route.js";
import { hasLetterKeys } from "../state/settings.js";
import { stop } from "./composer.js";
import { copyText } from "./copy.js";

function openChat() {
  const { value } = route;
  return value.place === "chat" && value.chat ? chats.get(value.chat) : undefined;
}

const box = () => document.getElementById("box") as HTMLTextAreaElement | null;

export function installKeys(): void {
  addEventListener("keydown", (event) => {
    if (isComposing(event) || event.defaultPrevented) return;
    const isControl = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (isControl && key === "k") dialog.value = "palette";
    else if (isControl && event.shiftKey && key === "o") go("/");
    else if (isControl && key === ".") {
      act.look(route.value.place === "chat" && route.value.look ? undefined : "turns");
    } else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) act.neighbour(event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Escape") {
      if (!escape()) return;
    } else if (event.key === "ArrowUp" && event.target === box() && box()?.value === "") {
      if (!press(".turn:last-of-type [aria-label^=Edit]") && !press(".user:last-of-type [aria-label^=Edit]")) return;
    } else if (!isControl && !event.altKey && !isTyping(event.target) && !dialog.value && hasLetterKeys.value) {
      if (!letter(event.key)) return;
    } else return;
    event.preventDefault();
  });
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input, textarea, select, [contenteditable]");
}

/** Closes what is open, else stops the turn. */
function escape(): boolean {
  if (dialog.value) return false; // The dialog closes itself.
  if (isListShown.value) {
    isListShown.value = false;
    return true;
  }
  const { value } = route;
  const status = openChat()?.status.value;
  if (status?.status === "running") {
    const hasTools = (openChat()?.draft?.parts ?? []).length === 0 && (openChat()?.messages.value.at(-1)?.kind !== "user");
    if (!hasTools || confirm("Tools are running. Stop them?")) {
      const chat = openChat();
      if (chat) void stop(chat);
    }
    return true;
  }
  if (value.place === "chat" && value.look) {
    act.look(undefined);
    return true;
  }
  return false;
}

function press(selector: string): boolean {
  const all = document.querySelectorAll<HTMLElement>(selector);
  const node = all[all.length - 1];
  node?.click();
  return !!node;
}

function letter(key: string): boolean {
  switch (key) {
    case "/": box()?.focus(); return true;
    case "?": dialog.value = "help"; return true;
    case "j": return step(1);
    case "k": return step(-1);
    case "G": case "End": document.querySelector<HTMLElement>(".to-end")?.click(); return true;
    case "a": return focusOn(".ask-buttons .button:last-child");
    case "d": return focusOn(".ask-buttons .button:first-child");
    case "c": return onMessage("[aria-label^=Copy]");
    case "e": return onMessage("[aria-label^=Edit]");
    case "f": return onMessage("[aria-label^=Continue]");
    case "y": {
      const id = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>("[data-message]")?.id;
      if (id) void copyText(`${location.origin}${location.pathname}#${id}`);
      return !!id;
    }
    default: return false;
  }
}

function focusOn(selector: string): boolean {
  const node = document.querySelector<HTMLElement>(selector);
  node?.focus();
  return !!node;
}

function onMessage(selector: string): boolean {
  const message = (document.activeElement as HTMLElement | null)?.closest("[data-message]");
  const node = message?.querySelector<HTMLElement>(selector);
  node?.click();
  return !!node;
}

/** Moves to the next or previous message. */
function step(by: number): boolean {
  const all = [...document.querySelectorAll<HTMLElement>("[data-message]")];
  const at = all.findIndex((each) => each === document.activeElement || each.contains(document.activeElement));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by];
  next?.focus();
  return !!next;
}
