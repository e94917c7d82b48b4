// What happened in a chat, turn by turn: attempts, waits and tools with their times. From the messages that are loaded, and
// the attempts that the server has kept.

import type { Attempt, Message, ReplyMessage, ResultMessage } from "@everturn/client";

import { textOf } from "../state/proof.js";

export interface Bar {
  kind: "attempt" | "tool" | "wait";
  name: string;
  began: number;
  ended: number;
  /** How it ended: decides the colour. */
  state: "good" | "bad" | "warn" | "neutral";
  words: string;
  detail: unknown;
}

export interface Step {
  number: number;
  bars: Bar[];
}

export interface TurnTrace {
  message: number;
  title: string;
  began: number;
  ended: number;
  steps: Step[];
  attempts: number;
  micros: number;
  hasTrouble: boolean;
}

/** Shorter pauses are not worth a row. */
const PAUSE_MS = 300;

export function traces(messages: readonly Message[], attempts: readonly Attempt[]): TurnTrace[] {
  const byStep = new Map<number, Attempt[]>();
  for (const attempt of attempts) byStep.set(attempt.step, [...(byStep.get(attempt.step) ?? []), attempt]);
  const results = new Map(messages.flatMap((each) => (each.kind === "result" ? [[each.call, each] as const] : [])));
  const turns: TurnTrace[] = [];
  let last = -1;
  for (const message of messages) {
    if (message.kind === "user" || turns.length === 0) {
      const title = message.kind === "user" ? textOf(message.parts) || "(files)" : "Before the first message that is loaded";
      turns.push({ message: message.id, title, began: message.at, ended: message.at, steps: [], attempts: 0, micros: 0, hasTrouble: false });
    }
    if (message.kind === "reply") {
      // Attempts of steps without a reply, which were stopped or failed, stand before it.
      for (const step of [...byStep.keys()].filter((step) => step > last && step < message.step).sort((a, b) => a - b)) {
        add(turns.at(-1) as TurnTrace, step, byStep.get(step) ?? [], undefined, results);
      }
      add(turns.at(-1) as TurnTrace, message.step, byStep.get(message.step) ?? [], message, results);
      last = message.step;
    }
  }
  const newest = turns.at(-1);
  if (newest) {
    for (const step of [...byStep.keys()].filter((step) => step > last).sort((a, b) => a - b)) add(newest, step, byStep.get(step) ?? [], undefined, results);
  }
  return turns;
}

function add(turn: TurnTrace, number: number, attempts: Attempt[], reply: ReplyMessage | undefined, results: Map<string, ResultMessage>): void {
  const bars: Bar[] = [];
  let before: Attempt | undefined;
  for (const attempt of attempts) {
    if (before) bars.push(...wait(before.began + before.took_ms, attempt.began, "wait before the next attempt"));
    bars.push({
      kind: "attempt",
      name: `${attempt.rung ?? "attempt"} · ${attempt.model.slice(attempt.model.indexOf("/") + 1)}`,
      began: attempt.began,
      ended: attempt.began + attempt.took_ms,
      state: attempt.outcome === "answered" ? "good" : attempt.outcome === "interrupted" ? "neutral" : "bad",
      words: OUTCOMES[attempt.outcome] ?? attempt.outcome,
      detail: attempt,
    });
    turn.micros += attempt.cost.known_micros + attempt.cost.estimated_micros;
    before = attempt;
  }
  for (const part of reply?.parts ?? []) {
    const result = part.type === "call" ? results.get(part.id) : undefined;
    if (part.type !== "call" || !result || !reply) continue;
    bars.push(...wait(reply.at, result.began ?? result.ended, `${part.tool} waited for a person or a slot`));
    if (result.began == null) continue;
    const state = result.verdict === "done" ? "good" : result.verdict === "unknown" ? "warn" : result.verdict === "error" ? "bad" : "neutral";
    bars.push({ kind: "tool", name: part.tool, began: result.began, ended: result.ended, state, words: VERDICTS[result.verdict], detail: { call: part, result } });
  }
  turn.steps.push({ number, bars });
  turn.attempts += attempts.length;
  turn.hasTrouble ||= bars.some((bar) => bar.state === "bad" || bar.state === "warn");
  turn.ended = Math.max(turn.ended, reply?.at ?? 0, ...bars.map((bar) => bar.ended));
}

function wait(began: number, ended: number, name: string): Bar[] {
  if (ended - began < PAUSE_MS) return [];
  return [{ kind: "wait", name, began, ended, state: "neutral", words: "", detail: { began, ended } }];
}

const OUTCOMES: Record<string, string> = {
  answered: "answered",
  interrupted: "stopped",
  lost: "lost",
  process_ended: "the server ended",
};

export const VERDICTS: Record<ResultMessage["verdict"], string> = {
  done: "done",
  error: "failed",
  denied: "denied",
  interrupted: "stopped",
  unknown: "outcome unknown",
};

/** Whether an attempt ended neither by itself nor by a person. */
export function isBroken({ outcome }: Attempt): boolean {
  return outcome !== "answered" && outcome !== "interrupted";
}

/** What was paid for attempts that did not answer. */
export function paidAgain(attempts: readonly Attempt[]): number {
  return attempts.filter(isBroken).reduce((sum, { cost }) => sum + cost.known_micros + cost.estimated_micros, 0);
}
