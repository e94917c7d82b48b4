// Messages that wait for their turn.

import type { OutboxRecord, Queued } from "@everturn/client";

import { type ChatState, give, linkState } from "../state/chats.js";
import { textOf } from "../state/proof.js";
import { fillBox } from "./composer.js";
import { Icon } from "./icons.js";

export function Queue({ chat, pending, onEdit }: { chat: ChatState; pending: OutboxRecord[]; onEdit: (text: string) => void }) {
  const queue = chat.status.value?.queue ?? [];
  if (queue.length + pending.length === 0) return null;
  const remove = (queued: Queued) => give(chat.id, { verb: "unqueue", queued: queued.id });
  const edit = (queued: Queued) => {
    const text = textOf(queued.parts);
    onEdit(text);
    fillBox(text);
    return remove(queued);
  };
  return (
    <ol class="queue" aria-label="Queued messages">
      {queue.map((queued, at) => (
        <li key={queued.key ?? queued.id}>
          <span class="place">{queued.steers ? "Next step" : at === 0 ? "Next" : at + 1}</span>
          <span class="queued-text">{textOf(queued.parts) || "(files)"}</span>
          <button class="action" title="Take back into the box" aria-label="Edit" onClick={() => edit(queued)}><Icon name="edit" /></button>
          {!queued.steers && (
            <button class="action" title="Steer: the model reads it at its next step" aria-label="Steer" onClick={() => give(chat.id, { verb: "promote", queued: queued.id })}><Icon name="steer" /></button>
          )}
          <button class="action" title="Delete" aria-label="Delete" onClick={() => remove(queued)}><Icon name="close" /></button>
        </li>
      ))}
      {pending.map((record) => (
        <li key={record.key} class="pending">
          <span class="place">{linkState.value === "live" ? "Sending…" : "Kept"}</span>
          <span class="queued-text">{record.order.verb === "send" ? record.order.body.text : ""}</span>
        </li>
      ))}
    </ol>
  );
}
