// The messages of a chat, and the scroller they are in.

import type { Message, OutboxRecord, ReplyMessage, UserMessage } from "@everturn/client";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

import type { ChatState } from "../state/chats.js";
import { follows } from "../state/settings.js";
import { AskCards } from "./ask.js";
import { Icon } from "./icons.js";
import { PendingMessage, ReplyView, SummaryView, UserView } from "./message.js";
import { Standing } from "./standing.js";

/** At the bottom means within so many pixels: screens round. */
const NEAR = 24;

/** A message of a person, and everything up to the next one. */
interface Turn {
  key: string;
  user: UserMessage | undefined;
  rest: Message[];
}

function turnsOf(messages: readonly Message[]): Turn[] {
  const turns: Turn[] = [];
  for (const message of messages) {
    const last = turns.at(-1);
    if (message.kind === "user") turns.push({ key: message.key ?? `m${message.id}`, user: message, rest: [] });
    else if (last) last.rest.push(message);
    else turns.push({ key: "first", user: undefined, rest: [message] });
  }
  return turns;
}

/** Where a chat was read, kept while the page is open. */
const places = new Map<string, { top: number; isFollowing: boolean }>();

export function Transcript({ chat, pending, onEdit }: {
  chat: ChatState;
  pending: OutboxRecord[];
  onEdit: (message: UserMessage) => void;
}) {
  const scroller = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(places.get(chat.id)?.isFollowing ?? true);
  const [isAway, setAway] = useState(false);
  const messages = chat.messages.value;
  const draft = chat.draftStep.value;
  const turns = useMemo(() => turnsOf(messages), [messages]);
  const first = messages[0]?.id;
  const sent = pending.at(-1)?.key;

  const toEnd = () => {
    const node = scroller.current;
    if (!node) return;
    isFollowing.current = true;
    node.scrollTop = node.scrollHeight;
    setAway(false);
  };

  useFollowing(scroller, isFollowing, setAway);
  useRestoredPlace(chat, scroller, isFollowing);
  useHeldPlace(scroller, first, isFollowing);

  // The person's own message goes to the top of the screen, with room for the answer below it.
  useLayoutEffect(() => {
    if (sent) toEnd();
  }, [sent]);

  const onScroll = () => {
    const node = scroller.current;
    if (!node) return;
    const isNear = node.scrollHeight - node.scrollTop - node.clientHeight <= NEAR;
    if (isNear) isFollowing.current = true;
    setAway(!isNear && !isFollowing.current);
    places.set(chat.id, { top: node.scrollTop, isFollowing: isFollowing.current });
  };

  const lastStep = draft === undefined ? lastReply(messages) : undefined;
  return (
    <div class="scroll-frame">
      <div class="transcript" role="log" aria-live="off" aria-label="Messages" tabIndex={0} ref={scroller} onScroll={onScroll}>
        <div class="column">
          <h2 class="off-screen">Messages</h2>
          {chat.hasOlder.value && messages.length > 0 && first !== 1 && <Older key={first} chat={chat} scroller={scroller} />}
          {turns.map((turn, at) => {
            const isLast = at === turns.length - 1 && pending.length === 0;
            return (
              <section class={isLast ? "turn last" : "turn"} key={turn.key}>
                {turn.user && <UserView chat={chat} message={turn.user} onEdit={onEdit} />}
                {/* The open answer and the committed one have one key in one list, so that the nodes stay. */}
                {[
                  ...turn.rest.map((message) => <Rest key={keyOf(message)} chat={chat} message={message} turn={turn} isLatest={message === lastStep} />),
                  isLast && draft !== undefined && <Rest key={`s${draft}`} chat={chat} message={undefined} step={draft} turn={turn} isLatest />,
                ]}
                {isLast && <Arriving chat={chat} />}
              </section>
            );
          })}
          {pending.length > 0 && (
            <section class="turn last" key={pending[0]?.key ?? "pending"}>
              {pending.map((record) => <PendingMessage key={record.key} record={record} />)}
            </section>
          )}
          {turns.length === 0 && pending.length === 0 && <Arriving chat={chat} />}
        </div>
      </div>
      {isAway && <button class="to-end" onClick={toEnd} aria-label="Go to the newest message"><Icon name="down" /></button>}
    </div>
  );
}

/** Reads the messages before, as soon as they are almost on screen. */
function Older({ chat, scroller }: { chat: ChatState; scroller: Box }) {
  const line = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const seen = new IntersectionObserver(([entry]) => entry?.isIntersecting && void chat.loadOlder(), { root: scroller.current, rootMargin: "150% 0px 0px" });
    if (line.current) seen.observe(line.current);
    return () => seen.disconnect();
  }, []);
  return <div class="older quiet" ref={line}>Loading earlier messages…</div>;
}

function lastReply(messages: readonly Message[]): Message | undefined {
  return messages.findLast((message) => message.kind === "reply");
}

/** The committed reply has the key of its draft, so that its nodes stay. */
function keyOf(message: Message): string {
  return message.kind === "reply" ? `s${message.step}` : `m${message.id}`;
}

function Rest({ chat, message, step, turn, isLatest }: {
  chat: ChatState;
  /** Nothing for the open answer of a step. */
  message: Message | undefined;
  step?: number;
  turn: Turn;
  isLatest: boolean;
}) {
  if (!message) return <ReplyView chat={chat} step={step ?? 0} message={undefined} replies={[]} user={undefined} isLatest={isLatest} />;
  switch (message.kind) {
    case "reply": {
      const isEnd = turn.rest.findLast((each) => each.kind === "reply") === message;
      const replies = isEnd ? turn.rest.filter((each): each is ReplyMessage => each.kind === "reply") : [];
      return <ReplyView chat={chat} step={message.step} message={message} replies={replies} user={turn.user} isLatest={isLatest} />;
    }
    case "summary": return <SummaryView message={message} />;
    case "context": return <p class="context quiet">{message.text}</p>;
    default: return null;
  }
}

/** What stands below the newest message: what the chat asks, and what it is doing. */
function Arriving({ chat }: { chat: ChatState }) {
  return (
    <>
      <AskCards chat={chat} />
      <Standing chat={chat} />
    </>
  );
}

type Box = { readonly current: HTMLDivElement | null };

/** Following is what the person wants, known from what the person does, and never guessed from a scroll event. */
function useFollowing(scroller: Box, isFollowing: { current: boolean }, setAway: (isAway: boolean) => void): void {
  useEffect(() => {
    const node = scroller.current;
    if (!node) return undefined;
    let touch = 0;
    const leave = () => {
      if (node.scrollHeight <= node.clientHeight) return;
      isFollowing.current = false;
    };
    const onWheel = (event: WheelEvent) => event.deltaY < 0 && leave();
    const onTouchStart = (event: TouchEvent) => (touch = event.touches[0]?.clientY ?? 0);
    const onTouchMove = (event: TouchEvent) => (event.touches[0]?.clientY ?? 0) > touch + 4 && leave();
    const onKey = (event: KeyboardEvent) => ["ArrowUp", "PageUp", "Home"].includes(event.key) && leave();
    // A press on the scrollbar is outside of the content.
    const onDown = (event: MouseEvent) => event.target === node && event.offsetX > node.clientWidth && leave();
    node.addEventListener("wheel", onWheel, { passive: true });
    node.addEventListener("touchstart", onTouchStart, { passive: true });
    node.addEventListener("touchmove", onTouchMove, { passive: true });
    node.addEventListener("keydown", onKey);
    node.addEventListener("mousedown", onDown);
    const content = node.firstElementChild as Element;
    const grown = new ResizeObserver(() => {
      if (isFollowing.current && follows.value) node.scrollTop = node.scrollHeight;
      else setAway(node.scrollHeight - node.scrollTop - node.clientHeight > NEAR);
    });
    grown.observe(content);
    grown.observe(node);
    return () => {
      grown.disconnect();
      node.removeEventListener("wheel", onWheel);
      node.removeEventListener("touchstart", onTouchStart);
      node.removeEventListener("touchmove", onTouchMove);
      node.removeEventListener("keydown", onKey);
      node.removeEventListener("mousedown", onDown);
    };
  }, []);
}

/** A chat that was left opens where it was read. */
function useRestoredPlace(chat: ChatState, scroller: Box, isFollowing: { current: boolean }): void {
  const isLoaded = chat.isLoaded.value;
  useLayoutEffect(() => {
    const node = scroller.current;
    if (!node || !isLoaded) return;
    const place = places.get(chat.id);
    node.scrollTop = place && !isFollowing.current ? place.top : node.scrollHeight;
  }, [isLoaded]);
}

/** When earlier messages come in above, what is on screen stays where it is. */
function useHeldPlace(scroller: Box, first: number | undefined, isFollowing: { current: boolean }): void {
  const anchor = useRef<{ node: Element; top: number } | undefined>(undefined);
  const before = useRef(first);
  if (before.current !== first && scroller.current && !isFollowing.current) {
    const top = scroller.current.getBoundingClientRect().top;
    const node = [...scroller.current.querySelectorAll(".turn")].find((each) => each.getBoundingClientRect().bottom > top);
    anchor.current = node ? { node, top: node.getBoundingClientRect().top } : undefined;
  }
  useLayoutEffect(() => {
    before.current = first;
    const held = anchor.current;
    anchor.current = undefined;
    if (!held?.node.isConnected || !scroller.current) return;
    scroller.current.scrollTop += held.node.getBoundingClientRect().top - held.top;
  }, [first]);
}
