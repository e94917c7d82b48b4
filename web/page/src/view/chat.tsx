import { LOCAL } from "@everturn/client";
import type { Message, Part } from "@everturn/client";
import { useEffect, useMemo, useRef } from "preact/hooks";

import { type ChatState, chatOf, give, named, open } from "../state/chats.js";
import { go } from "../state/route.js";

export function ChatPage({ id }: { id: string | undefined }) {
  const chat = useMemo(() => (id ? open(id) : undefined), [id]);
  return (
    <main class="main">
      {chat && <Transcript chat={chat} />}
      <Composer id={id} />
    </main>
  );
}

function Transcript({ chat }: { chat: ChatState }) {
  return (
    <div class="transcript" role="log" aria-live="off">
      {chat.messages.value.map((message) => <MessageView key={message.id} message={message} />)}
      {chat.draftStep.value !== undefined && <Draft chat={chat} />}
    </div>
  );
}

function MessageView({ message }: { message: Message }) {
  if (message.kind !== "user" && message.kind !== "reply") return null;
  return <article class={message.kind}>{message.parts.map((part, at) => <PartView key={at} part={part} />)}</article>;
}

function Draft({ chat }: { chat: ChatState }) {
  void chat.revision.value;
  return <article class="reply">{chat.draft?.parts.map((part, at) => <PartView key={at} part={part} />)}</article>;
}

function PartView({ part }: { part: Part }) {
  return part.type === "text" ? <div class="plain">{part.text}</div> : null;
}

function Composer({ id }: { id: string | undefined }) {
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => box.current?.focus(), [id]);
  const submit = async (event: Event) => {
    event.preventDefault();
    const text = box.current?.value.trim();
    if (!text || !box.current) return;
    box.current.value = "";
    const chat = id ?? LOCAL + crypto.randomUUID();
    if (!id) await give(chat, { verb: "create", body: {} });
    await give(chat, { verb: "send", body: { text } });
    if (!id) go(`/c/${chat}`);
  };
  return (
    <form class="composer" onSubmit={submit}>
      <textarea id="box" ref={box} rows={2} aria-label="Message" onKeyDown={(event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) void submit(event);
      }} />
      <button class="primary">Send</button>
    </form>
  );
}

named.subscribe((value) => {
  if (!value) return;
  if (location.pathname === `/c/${value.local}`) {
    chatOf(value.id);
    go(`/c/${value.id}`, true);
  }
});
