// How the server is doing: work, recoveries, latencies, budgets, and access tokens.

import type { Account, Bounds, ChatAsks, TokenInfo, Used } from "@everturn/client";
import { useEffect, useState } from "preact/hooks";

import { isListShown, say, tried } from "../state/actions.js";
import { badFolds } from "../state/chats.js";
import { count, dateAndTime, dollars, duration, some } from "../state/format.js";
import { failedProofs } from "../state/proof.js";
import { api, can } from "../state/session.js";
import { Icon } from "../view/icons.js";
import { follow } from "../view/sidebar.js";
import { Exact } from "../view/tool.js";
import { Metrics } from "./metrics.js";
import { Bars, Lines } from "./plots.js";

const EVERY_MS = 3000;
/** How many samples a plot has. */
const SAMPLES_MAX = 120;

interface Sampled {
  at: number;
  tokens: number;
  micros: number;
  streams: number;
  working: number;
}

const RUNGS: Record<string, string> = {
  first: "first attempt", reattach: "attached again", continue: "continued", restart: "begun again", fall_back: "other model", summary: "summary",
};

export function OperationsPage() {
  const [metrics, setMetrics] = useState<Metrics | undefined>(undefined);
  const [samples, setSamples] = useState<readonly Sampled[]>([]);
  const [account, setAccount] = useState<Account | undefined>(undefined);
  const [asks, setAsks] = useState<readonly ChatAsks[]>([]);
  const [isAway, setAway] = useState(false);
  useEffect(() => {
    document.title = "Operations – Everturn";
    let isWanted = true;
    const read = async () => {
      if (document.visibilityState === "hidden") return;
      const [response, owner, open] = await Promise.all([
        api.fetch("/metrics").catch(() => undefined), api.account().catch(() => undefined), api.asks().catch(() => undefined),
      ]);
      if (!isWanted) return;
      setAway(!response?.ok);
      if (owner) setAccount(owner);
      if (open) setAsks(open.chats);
      if (!response?.ok) return;
      const now = new Metrics(await response.text());
      setMetrics(now);
      setSamples((before) => [...before.slice(1 - SAMPLES_MAX), sampleOf(now)]);
    };
    void read();
    const timer = setInterval(() => void read(), EVERY_MS);
    return () => {
      isWanted = false;
      clearInterval(timer);
    };
  }, []);
  return (
    <main class="main" id="main" tabIndex={-1}>
      <header class="top">
        <button class="action list-button" aria-label="Show the chats" onClick={() => (isListShown.value = true)}><Icon name="menu" /></button>
        <h1 class="title">Operations</h1>
        {isAway && <span class="warn">The server cannot be reached. These are the last numbers.</span>}
      </header>
      <div class="operations" tabIndex={0} role="region" aria-label="Operations">
        {metrics ? <Numbers metrics={metrics} samples={samples} /> : <p class="quiet">Loading…</p>}
        {asks.length > 0 && <OpenAsks asks={asks} />}
        {account && <Budgets account={account} />}
        {can("admin") && <Tokens />}
      </div>
    </main>
  );
}

function sampleOf(metrics: Metrics): Sampled {
  return {
    at: Date.now(),
    tokens: metrics.sum("everturn_tokens_total"),
    micros: metrics.sum("everturn_cost_units_total") * 1e6,
    streams: metrics.sum("everturn_http_streams"),
    working: metrics.sum("everturn_chats_working"),
  };
}

/** The growth per second between neighbouring samples. A restart of the server begins at nothing. */
function rates(samples: readonly Sampled[], value: (sample: Sampled) => number): number[] {
  return samples.slice(1).map((sample, at) => {
    const before = samples[at] as Sampled;
    return Math.max(0, value(sample) - value(before)) / Math.max(0.001, (sample.at - before.at) / 1000);
  });
}

function Numbers({ metrics, samples }: { metrics: Metrics; samples: readonly Sampled[] }) {
  const version = metrics.all("everturn_build_info")[0]?.labels["version"];
  const tokens = metrics.sum("everturn_tokens_total");
  const repaid = metrics.sum("everturn_tokens_repaid_total");
  const facts: Array<[string, string, boolean?]> = [
    ["Working now", count(metrics.sum("everturn_chats_working"))],
    ["Waiting for a slot", count(metrics.sum("everturn_chats_waiting"))],
    ["Waiting for a person", count(metrics.sum("everturn_chats", { status: "awaiting" }))],
    ["Open streams", count(metrics.sum("everturn_http_streams"))],
    ["Takeovers", count(metrics.sum("everturn_takeovers_total"))],
    ["Answers resumed after a crash", count(metrics.sum("everturn_drafts_resumed_total"))],
    ["Kept of broken answers", `${count(metrics.sum("everturn_recovered_bytes_total"))} B`],
    ["Tokens paid again", tokens === 0 ? "0" : `${count(repaid)} (${((repaid / tokens) * 100).toFixed(1)} %)`],
    ["Unknown outcomes", count(metrics.sum("everturn_tool_unknown_total")), metrics.sum("everturn_tool_unknown_total") > 0],
    ["Failed turns", count(metrics.sum("everturn_turn_failures_total")), metrics.sum("everturn_turn_failures_total") > 0],
    ["Memory", `${Math.round(metrics.sum("process_resident_memory_bytes") / 1024 / 1024)} MiB`],
    ["Checks of this page that failed", count(badFolds.value + failedProofs.value), badFolds.value + failedProofs.value > 0],
  ];
  const broke = metrics.all("everturn_attempts_total").filter(({ labels }) => labels["rung"] !== "first");
  const rungs = new Map<string, number>();
  for (const { labels, value } of broke) rungs.set(labels["rung"] ?? "", (rungs.get(labels["rung"] ?? "") ?? 0) + value);
  return (
    <>
      <p class="quiet">This server process, since it started{version && `, version ${version}`}.</p>
      <dl class="tiles">{facts.map(([name, value, isBad]) => <div key={name} class={isBad ? "tile bad" : "tile"}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      <div class="plots">
        <Lines title="Tokens per second" series={[{ name: "now", kind: "a", values: rates(samples, (sample) => sample.tokens) }]} unit={(value) => value.toFixed(value < 10 ? 1 : 0)} />
        <Lines title="Cost per minute" series={[{ name: "now", kind: "b", values: rates(samples, (sample) => sample.micros * 60) }]} unit={dollars} />
        <Lines title="Chats and streams" series={[
          { name: "working", kind: "a", values: samples.map((sample) => sample.working) },
          { name: "streams", kind: "b", values: samples.map((sample) => sample.streams) },
        ]} unit={(value) => count(value)} />
        <Bars title="Recoveries, by what helped" rows={[...rungs].map(([rung, value]) => [RUNGS[rung] ?? rung, value] as const)} unit={count} />
      </div>
      <Latencies metrics={metrics} />
    </>
  );
}

const HISTOGRAMS: Array<[string, string]> = [
  ["everturn_ttft_seconds", "Model: first content"],
  ["everturn_attempt_duration_seconds", "Model: whole answer"],
  ["everturn_tool_duration_seconds", "Tools"],
  ["everturn_journal_append_duration_seconds", "Store: journal a batch of words"],
  ["everturn_commit_duration_seconds", "Store: commit a change"],
  ["everturn_submit_duration_seconds", "Store: accept a message"],
  ["everturn_queue_wait_seconds", "Queue: wait of a message"],
  ["everturn_http_duration_seconds", "HTTP: answer begins"],
];

function Latencies({ metrics }: { metrics: Metrics }) {
  const shown = HISTOGRAMS.filter(([name]) => metrics.sum(`${name}_count`) > 0);
  const time = (name: string, part: number) => duration((metrics.quantile(name, part) ?? 0) * 1000);
  return (
    <section>
      <h2>Latencies</h2>
      <div class="wide">
        <table class="ledger">
          <thead><tr><th>What</th><th class="right">Number</th><th class="right">p50</th><th class="right">p95</th><th class="right">p99</th></tr></thead>
          <tbody>
            {shown.map(([name, words]) => (
              <tr key={name}><td>{words}</td><td class="right">{count(metrics.sum(`${name}_count`))}</td>
                {[0.5, 0.95, 0.99].map((part) => <td class="right" key={part}>{time(name, part)}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function OpenAsks({ asks }: { asks: readonly ChatAsks[] }) {
  return (
    <section>
      <h2>Waiting for a person or a client</h2>
      <ul class="open-asks">
        {asks.map((each) => (
          <li key={each.chat}><a href={`/c/${each.chat}`} onClick={follow}><Exact text={each.title || "New chat"} /></a> <span class="quiet">{each.asks.map((ask) => ask.tool).join(", ")}</span></li>
        ))}
      </ul>
    </section>
  );
}

function Budgets({ account }: { account: Account }) {
  return (
    <section>
      <h2>Use and budgets</h2>
      <div class="budgets">
        <Budget name="Today (UTC)" used={account.day} most={account.day_max} />
        <Budget name="This month" used={account.month} most={account.month_max} />
      </div>
    </section>
  );
}

function Budget({ name, used, most }: { name: string; used: Used; most: Bounds }) {
  const rows: Array<[string, number, number | null | undefined, (value: number) => string]> = [
    ["Cost", used.cost_micros, most.cost_micros, dollars],
    ["Tokens", used.tokens, most.tokens, count],
    ["Replies", used.steps, most.steps, count],
    ["Time", used.time_ms, most.time_ms, duration],
  ];
  return (
    <div class="tile">
      <h3>{name}</h3>
      {rows.map(([what, value, bound, unit]) => (
        <p key={what}>{what}: {unit(value)}{bound != null && <> of {unit(bound)} <meter min={0} max={bound} high={bound * 0.8} value={value} aria-label={`${what}, ${name}`} /></>}</p>
      ))}
    </div>
  );
}

function Tokens() {
  const [tokens, setTokens] = useState<readonly TokenInfo[]>([]);
  const read = async () => setTokens((await tried(api.tokens()))?.tokens ?? []);
  useEffect(() => void read(), []);
  const revoke = async (token: TokenInfo) => {
    if (!confirm(`Revoke the token “${token.name}”? Its clients are logged out within seconds.`)) return;
    if (await tried(api.revokeToken(token.id))) say("The token is revoked.");
    await read();
  };
  return (
    <section>
      <h2>Tokens</h2>
      <div class="wide">
        <table class="ledger">
          <thead><tr><th>Name</th><th>Owner</th><th>May</th><th>Made</th><th>Ends</th><th><span class="off-screen">Actions</span></th></tr></thead>
          <tbody>
            {tokens.map((token) => (
              <tr key={token.id} class={token.revoked == null ? "" : "quiet"}>
                <td><Exact text={token.name} /></td><td><Exact text={token.owner} /></td><td>{token.scopes.join(", ")}</td>
                <td>{dateAndTime(token.made)}</td>
                <td>{token.revoked != null ? "revoked" : token.expires == null ? "–" : dateAndTime(token.expires)}</td>
                <td>{token.revoked == null && <button class="link" onClick={() => revoke(token)}>Revoke</button>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet">{some(tokens.length, "token")}. Make one with <code>everturn tokens make NAME --scope read --scope chat</code>.</p>
    </section>
  );
}
