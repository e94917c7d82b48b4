// The parts of an answer.

import type { Call, File, Part, ProvidedPart, Reasoning, Source } from "@everturn/client";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { MarkdownStream } from "../markdown/lines.js";
import type { ChatState } from "../state/chats.js";
import { bytes, duration } from "../state/format.js";
import { api } from "../state/session.js";
import { CallView, ProvidedView, ToolGroup } from "./tool.js";
import { Icon } from "./icons.js";

interface Shown {
  text: string;
  stream: MarkdownStream;
  isFinished: boolean;
}

/** Markdown that may grow. What is drawn stays, as long as the text only grows. */
export function Markdown({ text, isOpen }: { text: string; isOpen: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef<Shown | undefined>(undefined);
  useLayoutEffect(() => {
    const root = box.current;
    if (!root) return;
    let now = shown.current;
    if (!now || !text.startsWith(now.text) || now.isFinished && text !== now.text) {
      root.replaceChildren();
      now = { text: "", stream: new MarkdownStream(root), isFinished: false };
      shown.current = now;
    }
    if (text.length > now.text.length) now.stream.push(text.slice(now.text.length));
    now.text = text;
    if (!isOpen && !now.isFinished) {
      now.isFinished = true;
      now.stream.finish();
    }
  }, [text, isOpen]);
  return <div class={isOpen ? "markdown writing" : "markdown"} dir="auto" ref={box} />;
}

/** The parts of a reply, or of one that is arriving. */
export function Parts({ chat, message, parts, isOpen }: {
  chat: ChatState;
  message: number | undefined;
  parts: readonly Part[];
  isOpen: boolean;
}) {
  const groups: Array<Array<{ part: Part; at: number }>> = [];
  parts.forEach((part, at) => {
    const last = groups.at(-1);
    const isTool = part.type === "call" || part.type === "source";
    if (isTool && last?.[0]?.part.type === part.type) last.push({ part, at });
    else groups.push([{ part, at }]);
  });
  return (
    <>
      {groups.map((group) => {
        const { part, at } = group[0] as { part: Part; at: number };
        const isLast = isOpen && at + group.length === parts.length;
        switch (part.type) {
          case "text": return <Markdown key={at} text={part.text} isOpen={isLast} />;
          case "reasoning": return <ReasoningView key={at} part={part} isOpen={isLast} />;
          case "call": {
            const calls = group.map((each) => each.part as Call);
            if (calls.length > 3 && !isOpen) return <ToolGroup key={at} chat={chat} calls={calls} />;
            return <div class="tools" key={at}>{calls.map((call) => <CallView key={call.id} chat={chat} call={call} />)}</div>;
          }
          case "provided": return <ProvidedView key={at} part={part as ProvidedPart} />;
          case "source": return <Sources key={at} sources={group.map((each) => each.part as Source)} />;
          case "file": return <FileView key={at} chat={chat.id} message={message} place={at} file={part} />;
          default: return null;
        }
      })}
    </>
  );
}

function ReasoningView({ part, isOpen }: { part: Reasoning; isOpen: boolean }) {
  const [isShown, show] = useState(false);
  const took = part.ended - part.began;
  const label = isOpen ? "Thinking…" : took >= 1000 ? `Thought for ${duration(took)}` : "Thought";
  if (part.text.trim() === "") return <p class="quiet reasoning-line">{label}</p>;
  return (
    <details class="reasoning" open={isShown} onToggle={(event) => show((event.currentTarget as HTMLDetailsElement).open)}>
      <summary><Icon name="chevron" />{label}</summary>
      {isShown && <div class="reasoning-text">{part.text}</div>}
    </details>
  );
}

function Sources({ sources }: { sources: Source[] }) {
  const safe = sources.filter(({ url }) => /^https?:\/\//i.test(url));
  return (
    <ul class="sources" aria-label="Sources">
      {safe.map(({ url, title }) => (
        <li key={url}><a href={url} rel="noopener noreferrer" target="_blank">{title || url}<span class="host">{hostOf(url)}</span></a></li>
      ))}
    </ul>
  );
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return "";
  }
}

/** Types that are shown; never SVG, which can contain more than a picture. */
const SHOWN_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);

/** A file of the chat: images are shown, the others are saved on request. */
export function FileView({ chat, message, place, file }: { chat: string; message: number | undefined; place: number; file: File }) {
  const [url, setUrl] = useState("");
  const [error, setError] = useState("");
  const isImage = SHOWN_TYPES.has(file.media_type);
  const name = file.name || (isImage ? "Image" : "File");
  const load = async (): Promise<Blob | undefined> => {
    if (message === undefined) return undefined;
    const response = await api.file(chat, message, place).catch(() => undefined);
    if (!response?.ok) {
      setError("The file cannot be read now.");
      return undefined;
    }
    return new Blob([await response.arrayBuffer()], { type: isImage ? file.media_type : "application/octet-stream" });
  };
  useEffect(() => {
    if (!isImage || message === undefined) return undefined;
    let made = "";
    void load().then((blob) => {
      if (blob) setUrl((made = URL.createObjectURL(blob)));
    });
    return () => URL.revokeObjectURL(made);
  }, [chat, message, place]);
  const save = async () => {
    const blob = await load();
    if (blob) saveAs(blob, name);
  };
  if (isImage && url) {
    return (
      <figure class="picture">
        <img src={url} alt={name} />
        <figcaption>{name}<button class="link" onClick={save}>Save</button></figcaption>
      </figure>
    );
  }
  return (
    <button class="file" onClick={save} disabled={message === undefined}>
      <Icon name="file" /><span>{name}</span><span class="quiet">{error || (file.size == null ? "not stored any more" : bytes(file.size))}</span>
    </button>
  );
}

/** Offers bytes as a download. */
export function saveAs(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
