// Calls that wait for a person or a client.

import type { Answer, Ask } from "@everturn/client";
import { useEffect, useRef, useState } from "preact/hooks";

import { type ChatState, give } from "../state/chats.js";
import { duration } from "../state/format.js";
import { can, now } from "../state/session.js";
import { useSeconds } from "./ticking.js";
import { Exact, Input } from "./tool.js";

/** A card that has just appeared or moved does not react: a press may have been meant for something else. */
export const DEAD_MS = 400;

export function AskCards({ chat }: { chat: ChatState }) {
  const status = chat.status.value;
  if (status?.status !== "awaiting" || status.asks.length === 0) return null;
  return (
    <div class="asks">
      {/* Another input is another card. */}
      {status.asks.map((ask) => <Card key={`${ask.call} ${ask.input_hash} ${ask.wants}`} chat={chat} ask={ask} until={status.awaits_until} />)}
    </div>
  );
}

function Card({ chat, ask, until }: { chat: ChatState; ask: Ask; until: number | null | undefined }) {
  const isApproval = ask.wants === "approval";
  const title = isApproval ? "Waiting for approval" : ask.wants === "answer" ? "A tool asks a question" : "Waiting for a client";
  return (
    <section class="ask" role="group" aria-label={`${title}: ${ask.tool}`} data-call={ask.call}>
      <header>
        <h2>{title}</h2>
        {until != null && <Left until={until} />}
      </header>
      <p class="tool-name"><Exact text={ask.tool} /></p>
      <Facts ask={ask} />
      {isApproval ? <Approval chat={chat} ask={ask} /> : <Result chat={chat} ask={ask} />}
    </section>
  );
}

function Left({ until }: { until: number }) {
  useSeconds(true);
  return <span class="quiet">{duration(Math.max(0, until - now()))} left</span>;
}

const EFFECTS = { read: "Only reads.", idempotent: "Changes something; running it twice does no harm.", once: "Changes something, and must not run twice." };

function Facts({ ask }: { ask: Ask }) {
  const facts = [
    ask.effect && (["Effect", EFFECTS[ask.effect]] as const),
    ask.path && (["Path", ask.path] as const),
    ask.confinement && (["Confinement", ask.confinement] as const),
    ask.rule && (["Asked because", ask.rule] as const),
  ].filter((fact) => !!fact);
  return <dl class="facts-list">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd><Exact text={value} /></dd></div>)}</dl>;
}

/** Presses count only when the card has stood still for a moment, and was read to its end. */
function useReady(input: { readonly current: HTMLElement | null }): { isRead: boolean; isAlive: (event: MouseEvent) => boolean } {
  const [isRead, setRead] = useState(false);
  const moved = useRef(performance.now());
  const place = useRef(0);
  useEffect(() => {
    const node = input.current;
    if (!node) return undefined;
    const read = () => node.scrollTop + node.clientHeight >= node.scrollHeight - 4 && setRead(true);
    read();
    node.addEventListener("scroll", read, { passive: true });
    let frame = requestAnimationFrame(function watch() {
      const top = node.getBoundingClientRect().top;
      if (Math.abs(top - place.current) > 1) {
        place.current = top;
        moved.current = performance.now();
      }
      frame = requestAnimationFrame(watch);
    });
    return () => {
      cancelAnimationFrame(frame);
      node.removeEventListener("scroll", read);
    };
  }, []);
  return { isRead, isAlive: (event) => event.isTrusted && event.detail < 2 && performance.now() - moved.current >= DEAD_MS };
}

function Approval({ chat, ask }: { chat: ChatState; ask: Ask }) {
  const input = useRef<HTMLDivElement>(null);
  const reason = useRef<HTMLInputElement>(null);
  const [isSent, setSent] = useState(false);
  const { isRead, isAlive } = useReady(input);
  const answer = (answers: Answer[]) => async (event: MouseEvent) => {
    if (isSent || !isAlive(event)) return;
    setSent(true);
    await give(chat.id, { verb: "answer", answers });
  };
  const { call, input_hash } = ask;
  const deny = (event: MouseEvent) => answer([{ kind: "deny", call, reason: reason.current?.value.trim() ?? "" }])(event);
  return (
    <>
      <div class="ask-input" tabIndex={0} ref={input} role="region" aria-label="Input"><Input text={ask.input ?? "(the input was not stored)"} /></div>
      <p class="quiet hash">Hash of this input: <code>{ask.input_hash}</code></p>
      {can("approve") ? (
        <>
          <input ref={reason} class="reason" placeholder="Reason, if you deny it (the model reads it)" aria-label="Reason for denying" />
          <div class="ask-buttons">
            <button class="button" disabled={isSent} onClick={deny}>Deny</button>
            <button class="button" disabled={isSent || !isRead} onClick={answer([{ kind: "approve", call, input_hash }])}>
              {isSent ? "Sent…" : isRead ? "Allow once" : "Read to the end first"}
            </button>
          </div>
          {ask.grant && !isSent && isRead && (
            <p class="quiet">
              Or <button class="link" onClick={answer([{ kind: "grant", call, input_hash }])}>allow in this chat for 30 days</button>{" "}
              every call that matches <code><Exact text={ask.grant} /></code>.
            </p>
          )}
        </>
      ) : <p class="quiet">This session may not approve calls. Another client with the scope `approve` can.</p>}
    </>
  );
}

function Result({ chat, ask }: { chat: ChatState; ask: Ask }) {
  const box = useRef<HTMLTextAreaElement>(null);
  const [isSent, setSent] = useState(false);
  const isQuestion = ask.wants === "answer";
  const send = (kind: "result" | "error") => async () => {
    if (isSent) return;
    setSent(true);
    await give(chat.id, { verb: "answer", answers: [{ kind, call: ask.call, output: box.current?.value ?? "" }] });
  };
  return (
    <>
      <div class="ask-input" tabIndex={0} role="region" aria-label="Input"><Input text={ask.input ?? ""} /></div>
      {can("chat") ? (
        <>
          <textarea ref={box} rows={3} aria-label={isQuestion ? "Answer" : "Result"} placeholder={isQuestion ? "Answer" : "The result of the tool, as text"} />
          <div class="ask-buttons">
            <button class="button" disabled={isSent} onClick={send("error")}>{isQuestion ? "Do not answer" : "Report an error"}</button>
            <button class="button" disabled={isSent} onClick={send("result")}>{isSent ? "Sent…" : isQuestion ? "Answer" : "Send result"}</button>
          </div>
        </>
      ) : <p class="quiet">A client with the scope `chat` answers this.</p>}
    </>
  );
}
