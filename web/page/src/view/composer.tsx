// The box to write in. It shares no state with the messages, so that typing costs nothing in a long chat.

import type { NewPart, UserMessage, When } from "@everturn/client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { base64, editWith, say, tried } from "../state/actions.js";
import { type ChatState, give, nudge, refused } from "../state/chats.js";
import { isComposing } from "../state/composing.js";
import { draftOf, keepDraft } from "../state/drafts.js";
import { bytes } from "../state/format.js";
import { go } from "../state/route.js";
import { textOf } from "../state/proof.js";
import { api } from "../state/session.js";
import { enterSends } from "../state/settings.js";
import { newLocal } from "./chat.js";
import { Icon } from "./icons.js";

/** The most bytes of the files of one message. */
const FILES_BYTES_MAX = 20 * 1024 * 1024;
/** The draft of a chat that does not exist yet. */
const NEW = "new";

const isTouch = (): boolean => matchMedia("(pointer: coarse)").matches;

/** Puts a text into the box of the open chat, and the cursor behind it. */
export let fillBox: (text: string) => void = () => {};

export function Composer({ chat, editing, onEdited }: {
  chat: ChatState | undefined;
  editing: UserMessage | undefined;
  onEdited: () => void;
}) {
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [files, setFiles] = useState<File[]>([]);
  const [isEmpty, setEmpty] = useState(true);
  const name = chat?.id ?? NEW;
  const status = chat?.status.value?.status;
  const isBusy = status === "running" || status === "awaiting" || status === "interrupting";

  const put = (text: string) => {
    if (!box.current) return;
    box.current.value = text;
    box.current.setSelectionRange(text.length, text.length);
    changed();
    box.current.focus();
  };
  const changed = () => {
    const text = box.current?.value ?? "";
    setEmpty(text.trim() === "");
    if (!editing) keepDraft(name, text);
    fit(box.current);
  };
  useLayoutEffect(() => {
    if (!box.current) return;
    box.current.value = editing ? textOf(editing.parts) : draftOf(name);
    setEmpty(box.current.value.trim() === "");
    fit(box.current);
    if (editing || !isTouch()) box.current.focus({ preventScroll: true });
  }, [name, editing]);
  useEffect(() => {
    fillBox = put;
    return refused.subscribe((given) => {
      if (!given || given.record.chat !== name || !box.current) return;
      refused.value = undefined;
      say(`Not accepted: ${given.message}`, true);
      const { order } = given.record;
      const text = order.verb === "send" ? order.body.text ?? "" : "";
      if (text) put([text, box.current.value].filter(Boolean).join("\n"));
    });
  }, [name]);

  const send = async (when: When) => {
    const text = box.current?.value.trim() ?? "";
    if (text === "" && files.length === 0) return nudge();
    if (editing && chat) {
      onEdited();
      return editWith(chat, editing, text);
    }
    const parts: NewPart[] = [];
    for (const file of files) {
      parts.push({ type: "file", name: file.name, media_type: file.type || "application/octet-stream", data: await base64(file) });
    }
    put("");
    setFiles([]);
    const target = chat?.id ?? newLocal();
    if (!chat) await give(target, { verb: "create", body: {} });
    const body = { ...(text ? { text } : {}), ...(parts.length > 0 ? { parts } : {}), ...(when === "queue" ? {} : { when }) };
    await give(target, { verb: "send", body });
    keepDraft(name, "");
    if (!chat) go(`/c/${target}`);
  };
  const onKey = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      if (isTouch() || !enterSends.value && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      void send(!isBusy ? "queue" : event.altKey ? "now" : event.ctrlKey || event.metaKey ? "steer" : "queue");
    } else if (event.key === "Escape" && editing) {
      event.stopPropagation();
      onEdited();
    }
  };
  const add = (more: Iterable<File>) => {
    const all = [...files, ...more];
    if (all.reduce((sum, file) => sum + file.size, 0) > FILES_BYTES_MAX) {
      say(`The files of one message may have ${bytes(FILES_BYTES_MAX)} together.`, true);
    } else {
      setFiles(all);
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    const pasted = [...(event.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    event.preventDefault();
    add(pasted);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    add(event.dataTransfer?.files ?? []);
  };

  return (
    <form class="composer" onSubmit={(event) => (event.preventDefault(), void send("queue"))} onDrop={onDrop} onDragOver={(event) => event.preventDefault()}>
      {editing && (
        <p class="editing">Editing an earlier message. Everything after it is removed and answered anew.
          <button type="button" class="link" onClick={onEdited}>Cancel</button></p>
      )}
      {files.length > 0 && (
        <ul class="attached">
          {files.map((file, at) => (
            <li key={at}><Icon name="file" />{file.name} <span class="quiet">{bytes(file.size)}</span>
              <button type="button" class="action" aria-label={`Remove ${file.name}`} onClick={() => setFiles(files.filter((each) => each !== file))}><Icon name="close" /></button></li>
          ))}
        </ul>
      )}
      <div class="box-row">
        <input ref={picker} type="file" multiple hidden onChange={() => (add(picker.current?.files ?? []), picker.current && (picker.current.value = ""))} />
        {!editing && <button type="button" class="action attach" title="Attach files" aria-label="Attach files" onClick={() => picker.current?.click()}><Icon name="attach" /></button>}
        <textarea id="box" ref={box} rows={1} dir="auto" aria-label="Message" placeholder={isBusy ? "Add a follow-up…" : "Message"}
          enterkeyhint={isTouch() ? "enter" : "send"} onInput={changed} onKeyDown={onKey} onPaste={onPaste} />
        {isBusy && chat && <StopButton chat={chat} />}
        {(!isBusy || !isEmpty || files.length > 0) && (
          <button class="send" aria-label={isBusy ? "Add to the queue" : "Send"} title={isBusy ? "Add to the queue" : "Send"} disabled={isEmpty && files.length === 0}>
            <Icon name="send" />
          </button>
        )}
      </div>
      {isBusy && !isEmpty && !isTouch() && (
        <p class="hint"><kbd>Enter</kbd> queue <kbd>Ctrl</kbd>+<kbd>Enter</kbd> steer: read at the next step <kbd>Alt</kbd>+<kbd>Enter</kbd> stop and send</p>
      )}
    </form>
  );
}

/** The box is as high as its text, up to a bound of the style. */
function fit(box: HTMLTextAreaElement | null): void {
  if (!box || CSS.supports("field-sizing", "content")) return;
  box.style.setProperty("height", "auto");
  box.style.setProperty("height", `${box.scrollHeight}px`);
}

const stopping = new Set<string>();

/** Stops the running turn. Never sent late: a stop that could not be sent within half a minute is dropped. */
export async function stop(chat: ChatState): Promise<void> {
  if (stopping.has(chat.id)) return;
  stopping.add(chat.id);
  try {
    await tried(api.interrupt(chat.id, AbortSignal.timeout(30_000)));
  } finally {
    stopping.delete(chat.id);
  }
}

function StopButton({ chat }: { chat: ChatState }) {
  const [isStopping, set] = useState(false);
  const isDone = isStopping || chat.status.value?.status === "interrupting";
  const press = async () => {
    set(true);
    await stop(chat);
    set(false);
  };
  return (
    <button type="button" class="stop" onClick={press} disabled={isDone} title="Stop (Esc)">
      <Icon name="stop" />{isDone ? "Stopping…" : "Stop"}
    </button>
  );
}
