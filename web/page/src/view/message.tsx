// One message: of the person, of the model, or a summary.

import type { OutboxRecord, ReplyMessage, SummaryMessage, UserMessage } from "@everturn/client";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";

import { act, editWith, forkAt } from "../state/actions.js";
import { type ChatState, linkState } from "../state/chats.js";
import { clock, count, dateAndTime, duration, modelName, some } from "../state/format.js";
import { textOf } from "../state/proof.js";
import { can } from "../state/session.js";
import { copyText } from "./copy.js";
import { Icon, type IconName } from "./icons.js";
import { FileView, Parts } from "./parts.js";

export function Action({ icon, name, run }: { icon: IconName; name: string; run: () => unknown }) {
  const [isDone, setDone] = useState(false);
  const press = async () => {
    if ((await run()) === true) {
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    }
  };
  return (
    <button class="action" title={name} aria-label={name} onClick={press}>
      <Icon name={isDone ? "check" : icon} />
    </button>
  );
}

export const UserView = memo(({ chat, message, onEdit }: {
  chat: ChatState;
  message: UserMessage;
  onEdit: (message: UserMessage) => void;
}) => {
  const text = textOf(message.parts);
  return (
    <article class="user" id={`m${message.id}`} data-message={message.id} tabIndex={-1} aria-label={`You, ${clock(message.at)}`}>
      <div class="bubble">
        {message.parts.map((part, at) => (part.type === "file" ? <FileView key={at} chat={chat.id} message={message.id} place={at} file={part} /> : null))}
        {text && <div class="said" dir="auto">{text}</div>}
      </div>
      <div class="actions">
        <time title={dateAndTime(message.at)}>{clock(message.at)}</time>
        <Action icon="copy" name="Copy" run={() => copyText(text)} />
        {can("chat") && <Action icon="edit" name="Edit and ask again" run={() => onEdit(message)} />}
      </div>
    </article>
  );
});

/** A message that the server may not have yet. */
export function PendingMessage({ record }: { record: OutboxRecord }) {
  const text = record.order.verb === "send" ? (record.order.body.text ?? "") : "";
  const files = record.order.verb === "send" ? (record.order.body.parts ?? []).filter((part) => part.type === "file").length : 0;
  const isWaiting = linkState.value !== "live";
  return (
    <article class="user pending" aria-label="You, not sent yet">
      <div class="bubble">
        {files > 0 && <p class="quiet">{some(files, "file")}</p>}
        <div class="said" dir="auto">{text}</div>
      </div>
      <div class="actions always">{isWaiting ? "Kept. Will be sent when the server is back." : "Sending…"}</div>
    </article>
  );
}

/** A reply: the one of the draft while it arrives, then the committed one, in the same nodes. */
export const ReplyView = memo(({ chat, step, message, replies, user, isLatest }: {
  chat: ChatState;
  step: number;
  message: ReplyMessage | undefined;
  /** At the end of a turn: all its replies. */
  replies: ReplyMessage[];
  user: UserMessage | undefined;
  isLatest: boolean;
}) => {
  // Only an open answer is drawn again as it grows.
  if (!message) void chat.revision.value;
  const draft = chat.draft?.step === step ? chat.draft : undefined;
  const parts = message?.parts ?? draft?.parts ?? [];
  const isOpen = !message;
  const model = modelName(message?.model ?? draft?.attempt?.model ?? "");
  const isRunning = chat.status.value?.status === "running" || chat.status.value?.status === "interrupting";
  const isEnd = replies.length > 0 && !(isLatest && (isRunning || chat.status.value?.status === "awaiting"));
  return (
    <article class="reply" id={message ? `m${message.id}` : undefined} data-message={message?.id} tabIndex={-1} aria-label={`Answer by ${model || "the model"}`}>
      <Parts chat={chat} message={message?.id} parts={parts} isOpen={isOpen} />
      {message && message.stop.why === "broken" && <p class="note">This answer broke off and could not be recovered. What arrived is kept.</p>}
      {message && message.stop.why === "filtered" && (
        <p class="note">The provider ended this answer by its policy{message.stop.detail ? `: ${message.stop.detail}` : "."}</p>
      )}
      {message && message.stop.why === "length" && <p class="note">The answer reached the output limit of the model.</p>}
      {isEnd && message && <ReplyFoot chat={chat} message={message} replies={replies} user={user} />}
    </article>
  );
});

function ReplyFoot({ chat, message, replies, user }: { chat: ChatState; message: ReplyMessage; replies: ReplyMessage[]; user: UserMessage | undefined }) {
  const text = replies.map((reply) => textOf(reply.parts)).filter(Boolean).join("\n\n");
  const seams = replies.reduce((sum, reply) => sum + (reply.seams ?? 0), 0);
  const alive = replies.reduce((sum, reply) => sum + (reply.alive_ms || reply.runtime_ms), 0);
  const tokens = replies.reduce((sum, reply) => sum + (reply.usage?.output ?? 0), 0);
  return (
    <div class="actions">
      <Action icon="copy" name="Copy the answer as Markdown" run={() => copyText(text)} />
      {can("chat") && user && <Action icon="again" name="Answer again" run={() => editWith(chat, user, undefined)} />}
      {can("chat") && <Action icon="fork" name="Continue from here in a new chat" run={() => forkAt(chat, message.id)} />}
      <span class="facts">
        {seams > 0 && <span class="recovered" title="The connection to the model broke during this answer. It was continued without losing or repeating a word."><Icon name="check" />recovered</span>}
        <span>{modelName(message.model)}</span>
        <span>{duration(alive)}</span>
        {tokens > 0 && <span>{count(tokens)} tokens</span>}
        <button class="link" onClick={() => act.look("turns")}>Details</button>
      </span>
    </div>
  );
}

export const SummaryView = memo(({ message }: { message: SummaryMessage }) => (
  <details class="summary">
    <summary><Icon name="chevron" />Earlier messages were summarised for the model ({count(message.tokens_before)} tokens before)</summary>
    <div class="reasoning-text">{message.text}</div>
  </details>
));
