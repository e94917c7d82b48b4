// A chat: header, messages, queue, and the box to write in.

import { LOCAL } from "@everturn/client";
import type { OutboxRecord, UserMessage } from "@everturn/client";
import { useEffect, useMemo, useState } from "preact/hooks";

import { type ChatState, chatOf, named, open, outgoing, taken } from "../state/chats.js";
import { go, route } from "../state/route.js";
import { can } from "../state/session.js";
import { keepDraft } from "../state/drafts.js";
import { Composer } from "./composer.js";
import { Drill } from "./drill.js";
import { Header } from "./header.js";
import { Inspector } from "./inspector.js";
import { Queue } from "./queue.js";
import { Transcript } from "./transcript.js";
import { Welcome } from "./welcome.js";

export function ChatPage({ id }: { id: string | undefined }) {
  const chat = useMemo(() => (id ? open(id) : undefined), [id]);
  return chat ? <OpenChat chat={chat} /> : <NewChat />;
}

function NewChat() {
  useEffect(() => void (document.title = "Everturn"), []);
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Header chat={undefined} />
      <Welcome />
      {can("chat") && <Composer chat={undefined} editing={undefined} onEdited={() => {}} />}
    </main>
  );
}

/** What was sent from here and does not show yet among messages or in the queue. */
function pendingOf(chat: ChatState): OutboxRecord[] {
  const known = new Set<string>();
  for (const message of chat.messages.value) if (message.kind === "user" && message.key) known.add(message.key);
  for (const queued of chat.status.value?.queue ?? []) if (queued.key) known.add(queued.key);
  const received = chat.status.value?.received ?? 0;
  const unseen = taken.value.filter(({ receipt }) => receipt > received).map(({ record }) => record);
  const all = new Map([...unseen, ...outgoing.value].map((record) => [record.key, record]));
  return [...all.values()].filter(({ chat: id, key, order }) => id === chat.id && order.verb === "send" && !known.has(key));
}

function OpenChat({ chat }: { chat: ChatState }) {
  const [editing, edit] = useState<UserMessage | undefined>(undefined);
  const status = chat.status.value;
  const pending = pendingOf(chat);
  const isBusy = status?.status === "running" || status?.status === "interrupting" || status?.status === "awaiting";
  const look = route.value.place === "chat" ? route.value.look : undefined;
  const target = route.value.place === "chat" ? route.value.message : undefined;
  const isLoaded = chat.isLoaded.value;
  useEffect(() => void (document.title = titleOf(chat)), [status?.title, status?.status]);
  useEffect(() => {
    if (target !== undefined && isLoaded) document.getElementById(`m${target}`)?.scrollIntoView({ block: "start" });
  }, [target, isLoaded]);
  if (chat.isGone.value) {
    return (
      <main class="main" id="main" tabIndex={-1}>
        <Header chat={undefined} />
        <div class="middle"><p>There is no such chat any more.</p><button class="button" onClick={() => go("/")}>New chat</button></div>
      </main>
    );
  }
  return (
    <main class="main" id="main" tabIndex={-1}>
      <Header chat={chat} />
      <div class="beside">
        <div class="chat-column">
          {isLoaded || pending.length > 0
            ? <Transcript chat={chat} pending={isBusy ? [] : pending} onEdit={edit} />
            : <Loading />}
          {status?.archived && <p class="banner">This chat is archived. Take it back from the archive to go on.</p>}
          {can("chat") && !status?.archived && (
            <div class="foot-stack">
              <Queue chat={chat} pending={isBusy ? pending : []} onEdit={(text) => keepDraft(chat.id, text)} />
              <Drill chat={chat} />
              <Composer key={editing?.id ?? "new"} chat={chat} editing={editing} onEdited={() => edit(undefined)} />
            </div>
          )}
        </div>
        {look && <Inspector chat={chat} look={look} />}
      </div>
    </main>
  );
}

function titleOf(chat: ChatState): string {
  const status = chat.status.value;
  const mark = status?.status === "running" ? "… " : status?.status === "awaiting" ? "! " : "";
  return `${mark}${status?.title || "New chat"} – Everturn`;
}

function Loading() {
  return <div class="loading" aria-hidden="true"><span /><span /><span /></div>;
}

// A chat that was made here gets its name from the server.
named.subscribe((value) => {
  if (!value) return;
  taken.value = taken.value.map((each) => (each.record.chat === value.local ? { ...each, record: { ...each.record, chat: value.id } } : each));
  if (location.pathname === `/c/${value.local}`) {
    chatOf(value.id);
    go(`/c/${value.id}`, true);
  }
});

/** An id for a chat that the server does not know yet. */
export const newLocal = (): string => LOCAL + crypto.randomUUID();
