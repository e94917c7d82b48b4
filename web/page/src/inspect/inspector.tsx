// The side panel of a chat: what happened, which tools ran, and what it cost.

import type { Usage } from "@everturn/client";
import { useEffect, useState } from "preact/hooks";

import { act, tried } from "../state/actions.js";
import type { ChatState } from "../state/chats.js";
import { cost, count, dollars, duration, some } from "../state/format.js";
import { api } from "../state/session.js";
import { copyText } from "../view/copy.js";
import { Icon } from "../view/icons.js";
import type { InspectorProps } from "../view/inspector.js";
import { Exact } from "../view/tool.js";
import { Changes } from "./changes.js";
import { Bars, Lines } from "./plots.js";
import { type Bar, isBroken, paidAgain, traces, type TurnTrace, VERDICTS } from "./turns.js";

const TABS = { turns: "Timeline", tools: "Tools", files: "Files", cost: "Cost", raw: "Raw" };
/** The most turns that are drawn at once. */
const TURNS_MAX = 40;

export function InspectorPanel({ chat, look }: InspectorProps) {
  const [usage, setUsage] = useState<Usage | undefined>(undefined);
  const version = chat.status.value?.version;
  useEffect(() => {
    let isWanted = true;
    const timer = setTimeout(async () => {
      const found = await tried(api.usage(chat.id));
      if (isWanted && found) setUsage(found);
    }, usage ? 300 : 0);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [chat, version]);
  const tab = look in TABS ? look : "turns";
  return (
    <aside class="inspector" aria-label="Details">
      <div class="tabs">
        <h2 class="off-screen">Details</h2>
        <div role="tablist" aria-label="Details">
        {Object.entries(TABS).map(([name, words]) => (
          <button key={name} role="tab" id={`tab-${name}`} aria-selected={tab === name} aria-controls="tab-panel" onClick={() => act.look(name)}>{words}</button>
        ))}
        </div>
        <button class="action" aria-label="Close the details" onClick={() => act.look(undefined)}><Icon name="close" /></button>
      </div>
      <div class="panel" role="tabpanel" id="tab-panel" aria-labelledby={`tab-${tab}`} tabIndex={0}>
        {!usage ? <p class="quiet">Loading…</p>
          : tab === "turns" ? <Timeline chat={chat} usage={usage} />
          : tab === "tools" ? <Tools chat={chat} />
          : tab === "files" ? <Changes chat={chat} />
          : tab === "cost" ? <Cost usage={usage} />
          : <Raw chat={chat} usage={usage} />}
      </div>
    </aside>
  );
}

function Timeline({ chat, usage }: { chat: ChatState; usage: Usage }) {
  const [isFailedOnly, setFailedOnly] = useState(false);
  const all = traces(chat.messages.value, usage.each ?? []).reverse();
  const shown = all.filter((turn) => !isFailedOnly || turn.hasTrouble);
  return (
    <>
      <label class="filter"><input type="checkbox" checked={isFailedOnly} onChange={(event) => setFailedOnly(event.currentTarget.checked)} />Only turns with trouble</label>
      {shown.length === 0 && <p class="quiet">{isFailedOnly ? "No turn had trouble." : "Nothing happened yet."}</p>}
      {shown.slice(0, TURNS_MAX).map((turn) => <Turn key={turn.message} turn={turn} />)}
      {shown.length > TURNS_MAX && <p class="quiet">{some(shown.length - TURNS_MAX, "older turn")} not shown.</p>}
    </>
  );
}

function Turn({ turn }: { turn: TurnTrace }) {
  const whole = Math.max(1, turn.ended - turn.began);
  return (
    <section class="trace">
      <h3><a href={`#m${turn.message}`}>{turn.title.slice(0, 80)}</a></h3>
      <p class="quiet">
        {duration(whole)} · {some(turn.steps.length, "step")} · {some(turn.attempts, "attempt")}{turn.micros > 0 && ` · ${dollars(turn.micros)}`}
      </p>
      {turn.steps.map((step) => (
        <div class="step" key={step.number}>
          <p class="step-name">Step {step.number}</p>
          {step.bars.map((bar, at) => <BarRow key={at} bar={bar} began={turn.began} whole={whole} />)}
        </div>
      ))}
    </section>
  );
}

function BarRow({ bar, began, whole }: { bar: Bar; began: number; whole: number }) {
  const left = Math.min(99, Math.max(0, ((bar.began - began) / whole) * 100));
  const width = Math.max(0.8, Math.min(100 - left, ((bar.ended - bar.began) / whole) * 100));
  return (
    <details class={`bar-row ${bar.kind} ${bar.state}`}>
      <summary>
        <span class="bar-name"><Exact text={bar.name} /></span>
        <span class="bar-words">{[bar.words, duration(bar.ended - bar.began)].filter(Boolean).join(" · ")}</span>
        <span class="track"><span class="bar" style={{ marginLeft: `${left}%`, width: `${width}%` }} /></span>
      </summary>
      <Json value={bar.detail} />
    </details>
  );
}

function Json({ value }: { value: unknown }) {
  const text = JSON.stringify(value ?? null, null, 2);
  return (
    <div class="json">
      <button class="link" onClick={() => copyText(text)}>Copy as JSON</button>
      <pre tabIndex={0}><Exact text={text} /></pre>
    </div>
  );
}

function Tools({ chat }: { chat: ChatState }) {
  const calls = chat.messages.value.flatMap((message) => (message.kind === "reply" ? message.parts.flatMap((part) => (part.type === "call" ? [part] : [])) : []));
  const results = chat.results.value;
  const times = new Map<string, number>();
  for (const result of results.values()) {
    if (result.began != null) times.set(result.tool, (times.get(result.tool) ?? 0) + result.ended - result.began);
  }
  if (calls.length === 0) return <p class="quiet">No tool was called yet.</p>;
  return (
    <>
      <Bars title="Time by tool" rows={[...times]} unit={duration} />
      <table class="ledger">
        <thead><tr><th>Call</th><th>Tool</th><th>Outcome</th><th class="right">Took</th></tr></thead>
        <tbody>
          {calls.map((call) => {
            const result = results.get(call.id);
            return (
              <tr key={call.id} class={result?.verdict ?? "open"}>
                <td>{call.id}</td>
                <td><Exact text={call.tool} /></td>
                <td>{result ? VERDICTS[result.verdict] : "open"}</td>
                <td class="right">{result?.began == null ? "–" : duration(result.ended - result.began)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

function Cost({ usage }: { usage: Usage }) {
  const each = usage.each ?? [];
  let money = 0;
  let tokens = 0;
  const spent = each.map(({ cost }) => (money += cost.known_micros + cost.estimated_micros));
  const used = each.map(({ known, estimated }) => (tokens += known.input + known.output + known.cache_read + known.cache_write + estimated.input + estimated.output));
  const byModel = new Map<string, number>();
  for (const { model, cost } of each) byModel.set(model, (byModel.get(model) ?? 0) + cost.known_micros + cost.estimated_micros);
  const broken = each.filter(isBroken);
  const again = paidAgain(each);
  const { known, estimated } = usage;
  return (
    <>
      <p class="sum">{cost(usage.cost)}</p>
      <p class="quiet">{some(usage.attempts, "attempt")} for {some(usage.steps ?? 0, "reply", "replies")}. {broken.length > 0 ? `${some(broken.length, "attempt")} broke; ${dollars(again)} was paid for what they had done.` : "No attempt broke."}</p>
      <Lines title="Cost" series={[{ name: "so far", kind: "a", values: [0, ...spent] }]} unit={dollars} />
      <Lines title="Tokens" series={[{ name: "so far", kind: "b", values: [0, ...used] }]} unit={(value) => count(Math.round(value))} />
      <Bars title="Cost by model" rows={[...byModel]} unit={dollars} />
      <table class="ledger">
        <thead><tr><th>Tokens</th><th class="right">Reported</th><th class="right">Estimated</th></tr></thead>
        <tbody>
          {([["Prompt", "input"], ["Prompt, read from cache", "cache_read"], ["Prompt, written to cache", "cache_write"], ["Output", "output"], ["of it reasoning", "reasoning"]] as const).map(([name, field]) => (
            <tr key={field}><td>{name}</td><td class="right">{count(known[field])}</td><td class="right">{count(estimated[field])}</td></tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Raw({ chat, usage }: { chat: ChatState; usage: Usage }) {
  void chat.revision.value;
  return (
    <>
      <h3>Status</h3>
      <Json value={chat.status.value} />
      {chat.draft && <><h3>Open answer</h3><Json value={{ ...chat.draft, parts: chat.draft.parts.length }} /></>}
      <h3>Usage</h3>
      <Json value={usage} />
      <h3>Newest messages</h3>
      <Json value={chat.messages.value.slice(-5)} />
    </>
  );
}
