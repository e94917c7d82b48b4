// The title of a chat, its model and cost, and what can be done with it.

import type { Model } from "@everturn/client";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";

import { act, isListShown, say, tried } from "../state/actions.js";
import type { ChatState } from "../state/chats.js";
import { cost, dollars, modelName } from "../state/format.js";
import { go, route } from "../state/route.js";
import { api, can } from "../state/session.js";
import { Icon } from "./icons.js";
import { saveAs } from "./parts.js";
import { Exact } from "./tool.js";

export const models = signal<readonly Model[]>([]);

/** Reads the models once. */
export async function loadModels(): Promise<void> {
  if (models.value.length > 0) return;
  const found = await api.models().catch(() => undefined);
  if (found) models.value = found.models;
}

export function Header({ chat }: { chat: ChatState | undefined }) {
  const status = chat?.status.value;
  const look = route.value.place === "chat" ? route.value.look : undefined;
  const spent = status ? status.usage.cost.known_micros + status.usage.cost.estimated_micros : 0;
  return (
    <header class="top">
      <button class="action list-button" aria-label="Show the chats" onClick={() => (isListShown.value = true)}><Icon name="menu" /></button>
      {chat && status ? <Title key={chat.id} chat={chat} title={status.title} /> : <h1 class="title">{chat ? "" : "New chat"}</h1>}
      {chat && status && (
        <>
          <ModelChoice chat={chat} model={status.model ?? undefined} />
          {spent > 0 && <button class="link spent" title={cost(status.usage.cost)} onClick={() => act.look("cost")}>{dollars(spent)}</button>}
          <button class={look ? "action on" : "action"} aria-pressed={!!look} title="Details: what happened (Ctrl-.)" aria-label="Details" onClick={() => act.look(look ? undefined : "turns")}>
            <Icon name="look" />
          </button>
          <Menu chat={chat} />
        </>
      )}
    </header>
  );
}

function Title({ chat, title }: { chat: ChatState; title: string }) {
  const [isEditing, edit] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (isEditing) field.current?.select();
  }, [isEditing]);
  const save = () => {
    const text = field.current?.value.trim() ?? "";
    edit(false);
    if (text && text !== title) void tried(api.patch(chat.id, { title: text }));
  };
  if (isEditing) {
    return (
      <input class="title" ref={field} defaultValue={title} aria-label="Title" maxLength={200} onBlur={save}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.isComposing) save();
          if (event.key === "Escape") edit(false);
        }} />
    );
  }
  return (
    <h1 class="title" title={can("chat") ? "Double-click to rename" : undefined} onDblClick={() => can("chat") && edit(true)}>
      <Exact text={title || "New chat"} />
    </h1>
  );
}

function ModelChoice({ chat, model }: { chat: ChatState; model: string | undefined }) {
  useEffect(() => void loadModels(), []);
  const standard = models.value.find((each) => each.agents.length > 0)?.id;
  if (!can("chat") || models.value.length < 2) return <span class="quiet model-name">{modelName(model ?? standard ?? "")}</span>;
  return (
    <select class="model" aria-label="Model" value={model ?? ""} title="The model of the next turns"
      onChange={(event) => void tried(api.patch(chat.id, { model: event.currentTarget.value || null }))}>
      <option value="">{standard ? modelName(standard) : "Default model"}</option>
      {models.value.filter((each) => each.id !== standard || model === standard).map((each) => <option key={each.id} value={each.id}>{modelName(each.id)}</option>)}
    </select>
  );
}

function Menu({ chat }: { chat: ChatState }) {
  const [isOpen, open] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event: Event) => {
      if (event instanceof KeyboardEvent ? event.key === "Escape" : !box.current?.contains(event.target as Node)) {
        event.stopPropagation();
        open(false);
      }
    };
    addEventListener("pointerdown", close, true);
    addEventListener("keydown", close, true);
    box.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    return () => {
      removeEventListener("pointerdown", close, true);
      removeEventListener("keydown", close, true);
    };
  }, [isOpen]);
  const isArchived = chat.status.value?.archived ?? false;
  const item = (name: string, run: () => unknown, kind = "") => (
    <button role="menuitem" class={kind} onClick={() => (open(false), void run())}>{name}</button>
  );
  const onKey = (event: KeyboardEvent) => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    items[(at + by + items.length) % items.length]?.focus();
  };
  const last = chat.messages.value.at(-1);
  return (
    <div class="menu" ref={box} onKeyDown={onKey}>
      <button class="action" aria-haspopup="menu" aria-expanded={isOpen} aria-label="More" onClick={() => open(!isOpen)}><Icon name="more" /></button>
      {isOpen && (
        <div role="menu" class="menu-items">
          {can("chat") && last && item("Continue in a copy", async () => {
            const made = await tried(api.fork(chat.id, { at: last.id }));
            if (made) go(`/c/${made.id}`);
          })}
          {can("chat") && item("Summarise earlier messages", () => tried(api.compact(chat.id)))}
          {item("Save as Markdown", () => save(chat, "markdown"))}
          {item("Save as JSON", () => save(chat, "json"))}
          {can("chat") && item(isArchived ? "Take back from the archive" : "Archive", () => tried(api.patch(chat.id, { archived: !isArchived })))}
          {can("chat") && item("Delete…", () => remove(chat), "danger")}
        </div>
      )}
    </div>
  );
}

async function save(chat: ChatState, format: "markdown" | "json"): Promise<void> {
  const response = await api.fetch(`/v1/chats/${chat.id}/export?format=${format}`).catch(() => undefined);
  if (!response?.ok) return say("The chat cannot be exported now.", true);
  const title = (chat.status.value?.title || "chat").replace(/[^\p{L}\p{N} _-]/gu, "").slice(0, 60).trim() || "chat";
  saveAs(await response.blob(), `${title}.${format === "json" ? "json" : "md"}`);
}

async function remove(chat: ChatState): Promise<void> {
  if (!confirm("Delete this chat with all its messages and files? This cannot be undone.")) return;
  await tried(api.remove(chat.id));
  go("/");
}
