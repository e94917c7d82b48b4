// Tool calls and their results.

import type { Call, ProvidedPart, ResultMessage } from "@everturn/client";
import { useState } from "preact/hooks";

import type { ChatState } from "../state/chats.js";
import { bytes, duration } from "../state/format.js";
import { now } from "../state/session.js";
import { fieldsOf, laidOut, visible } from "../state/visible.js";
import { Icon, type IconName } from "./icons.js";
import { useSeconds } from "./ticking.js";

/** Text in which nothing is invisible. */
export function Exact({ text }: { text: string }) {
  return <>{visible(text).map((piece, at) => (piece.isHidden ? <span class="hidden-sign" key={at}>{piece.text}</span> : piece.text))}</>;
}

interface Shown {
  icon: IconName;
  kind: string;
  words: string;
}

function stateOf(chat: ChatState, call: Call, result: ResultMessage | undefined): Shown {
  if (result) {
    const took = result.began == null ? "" : duration(result.ended - result.began);
    switch (result.verdict) {
      case "done": return { icon: "check", kind: "done", words: took };
      case "error": return { icon: "cross", kind: "error", words: took ? `failed, ${took}` : "failed" };
      case "denied": return { icon: "cross", kind: "denied", words: "denied" };
      case "interrupted": return { icon: "stop", kind: "denied", words: "stopped" };
      case "unknown": return { icon: "look", kind: "unknown", words: "outcome unknown" };
    }
  }
  const ask = chat.status.value?.asks.find((each) => each.call === call.id);
  if (ask) return { icon: "wait", kind: "waits", words: ask.wants === "approval" ? "waiting for approval" : "waiting for a client" };
  if (!call.whole) return { icon: "wait", kind: "running", words: "being written" };
  return { icon: "wait", kind: "running", words: call.run_by === "provider" ? "runs at the provider" : "running" };
}

export function CallView({ chat, call }: { chat: ChatState; call: Call }) {
  const [isOpen, open] = useState(false);
  const result = chat.results.value.get(call.id);
  const isActive = chat.status.value?.status === "running" && !result;
  const shown = result || isActive || chat.status.value?.asks.some((each) => each.call === call.id)
    ? stateOf(chat, call, result)
    : { icon: "stop" as const, kind: "denied", words: "not run" };
  useSeconds(isActive);
  const progress = chat.status.value?.progress?.find((each) => each.call === call.id)?.text;
  const since = isActive && call.whole ? duration(Math.max(0, now() - call.at)) : "";
  return (
    <details class={`call ${shown.kind}`} open={isOpen} onToggle={(event) => open((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>
        <span class="state"><Icon name={shown.icon} /></span>
        <span class="tool-name"><Exact text={call.tool} /></span>
        <span class="gist">{isOpen ? "" : gist(call.input)}</span>
        <span class="quiet">{progress ?? [shown.words, since].filter(Boolean).join(" · ")}</span>
        <Icon name="chevron" />
      </summary>
      {isOpen && (
        <div class="call-body">
          {call.whole ? <><div class="field-name">Input</div><Input text={call.input} /></> : <Field name="Input so far" text={call.input} />}
          {result && <Output result={result} />}
        </div>
      )}
    </details>
  );
}

/** The whole input of a call: by its fields, with replacements as a diff; as JSON where that would not be exact. */
export function Input({ text }: { text: string }) {
  const fields = fieldsOf(text);
  if (!fields || fields.length === 0) return <pre tabIndex={0}><Exact text={laidOut(text)} /></pre>;
  return (
    <dl class="input-fields">
      {fields.map(({ name, text, replaces }) => (
        <div key={name}>
          <dt><Exact text={name} /></dt>
          <dd>
            {replaces
              ? replaces.map((each, at) => <Replaced key={at} old={each.old} by={each.new} />)
              : <pre tabIndex={0}><Exact text={text} /></pre>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Replaced({ old, by }: { old: string; by: string }) {
  return (
    <pre class="diff" tabIndex={0}>
      {old.split("\n").map((line, at) => <span key={`-${at}`} class="removed">- <Exact text={line} />{"\n"}</span>)}
      {by.split("\n").map((line, at) => <span key={`+${at}`} class="added">+ <Exact text={line} />{"\n"}</span>)}
    </pre>
  );
}

/** The input on one line. */
function gist(input: string): string {
  try {
    const value: unknown = JSON.parse(input);
    if (typeof value !== "object" || value === null) return input.slice(0, 120);
    return Object.values(value).filter((each) => typeof each !== "object").map(String).join(" · ").slice(0, 120);
  } catch {
    return input.slice(-120);
  }
}

function Field({ name, text }: { name: string; text: string }) {
  return (
    <>
      <div class="field-name">{name}</div>
      <pre tabIndex={0}><Exact text={text} /></pre>
    </>
  );
}

const SHOWN_MAX = 20_000;

function Output({ result }: { result: ResultMessage }) {
  const [isWhole, showWhole] = useState(false);
  const isLong = result.output.length > SHOWN_MAX && !isWhole;
  return (
    <>
      {result.verdict === "unknown" && (
        <p class="warn">This call was started, and it is not known how it ended. It is not run again. Check what it changed.</p>
      )}
      <Field name={result.verdict === "error" ? "Error" : "Result"} text={isLong ? result.output.slice(0, SHOWN_MAX) : result.output || "(empty)"} />
      {isLong && <button class="link" onClick={() => showWhole(true)}>Show all {bytes(result.output.length)}</button>}
      {result.cut && <p class="quiet">More is stored than is shown here.</p>}
      {result.media?.map((each, at) => <p class="quiet" key={at}>{each.media_type}, {bytes(each.size)}</p>)}
    </>
  );
}

/** The calls of a finished step, folded. */
export function ToolGroup({ chat, calls }: { chat: ChatState; calls: Call[] }) {
  const results = calls.map((call) => chat.results.value.get(call.id));
  const failed = results.filter((result) => result && result.verdict !== "done").length;
  const began = Math.min(...results.flatMap((result) => (result?.began == null ? [] : [result.began])));
  const ended = Math.max(...results.map((result) => result?.ended ?? 0));
  const took = Number.isFinite(began) && ended > began ? ` · ${duration(ended - began)}` : "";
  return (
    <details class="tool-group">
      <summary><Icon name="chevron" />{calls.length} calls{took}{failed > 0 ? ` · ${failed} not successful` : ""}</summary>
      <div class="tools">{calls.map((call) => <CallView key={call.id} chat={chat} call={call} />)}</div>
    </details>
  );
}

/** The result of a tool that ran at the provider. */
export function ProvidedView({ part }: { part: ProvidedPart }) {
  const [isOpen, open] = useState(false);
  return (
    <details class="call done" open={isOpen} onToggle={(event) => open((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>
        <span class="state"><Icon name="check" /></span>
        <span class="tool-name"><Exact text={part.tool} /></span>
        <span class="gist" />
        <span class="quiet">ran at the provider</span>
        <Icon name="chevron" />
      </summary>
      {isOpen && <div class="call-body"><Field name="Result" text={JSON.stringify(part.output, null, 2)} /></div>}
    </details>
  );
}
