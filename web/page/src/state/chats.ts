// What the page knows of its chats. Only the link changes a view; the page draws it once per frame.

import { batch, type Signal, signal } from "@preact/signals";
import { Link, type LinkState, LOCAL, Outbox, outboxStore } from "@everturn/client";
import type { Heading, Message, Messages, OpenDraft, Order, OutboxRecord, ResultMessage, Standing, View } from "@everturn/client";

import { check, note, recall } from "./proof.js";
import { api, clockOffset, lookForNewPage, phase } from "./session.js";
import { shareStreams } from "./slots.js";

/** The most messages that are kept in the page. */
const MESSAGES_MAX = 600;
/** How many chats that were opened before are still followed. */
const FOLLOWED_BEFORE = 8;

/** A chat that is or was open. */
export class ChatState {
  /** Whether anything was received. */
  readonly isLoaded = signal(false);
  readonly isGone = signal(false);
  readonly messages = signal<readonly Message[]>([]);
  readonly results = signal<ReadonlyMap<string, ResultMessage>>(new Map());
  readonly status = signal<Standing | undefined>(undefined);
  /** The step of the draft, if one is arriving. */
  readonly draftStep = signal<number | undefined>(undefined);
  /** Grows with each change of the draft. */
  readonly revision = signal(0);
  /** Whether there are messages before the first. */
  readonly hasOlder = signal(true);
  readonly isLoadingOlder = signal(false);
  draft: OpenDraft | undefined;
  #older: Message[] = [];
  #view: readonly Message[] = [];
  #viewLen = 0;

  constructor(readonly id: string) {}

  /** Draws the newest view. */
  update(view: View): void {
    batch(() => {
      this.isLoaded.value = true;
      this.status.value = view.status;
      this.draft = view.draft;
      if (view.messages !== this.#view || view.messages.length !== this.#viewLen) this.#took(view.messages);
      const isStored = view.draft && this.#view.some((each) => each.kind === "reply" && each.step === view.draft?.step);
      this.draftStep.value = view.draft && !isStored ? view.draft.step : undefined;
      this.revision.value += 1;
    });
  }

  #took(messages: Message[]): void {
    const first = messages[0];
    if (messages !== this.#view) {
      // A snapshot is the newest page. What was read before it stays, if nothing is missing in between.
      const known = [...this.#older, ...this.#view];
      const isJoined = first !== undefined && known.some((each) => each.id === first.id);
      this.#older = isJoined ? known.filter((each) => each.id < first.id) : [];
      if (!isJoined) this.hasOlder.value = first === undefined || first.id > 1;
    }
    this.#view = messages;
    this.#viewLen = messages.length;
    this.#show();
  }

  #show(): void {
    const all = [...this.#older, ...this.#view];
    this.messages.value = all;
    this.results.value = new Map(all.flatMap((each) => (each.kind === "result" ? [[each.call, each] as const] : [])));
  }

  /** Reads the page of messages before the first. */
  async loadOlder(): Promise<void> {
    const first = this.messages.value[0];
    if (!first || this.isLoadingOlder.value || !this.hasOlder.value) return;
    this.isLoadingOlder.value = true;
    try {
      const page: Messages = await api.messages(this.id, { before: first.id });
      if (this.messages.value[0]?.id !== first.id) return;
      this.#older = [...page.messages, ...this.#older];
      this.hasOlder.value = page.before != null && this.#older.length + this.#view.length < MESSAGES_MAX;
      this.#show();
    } finally {
      this.isLoadingOlder.value = false;
    }
  }
}

export const chats = new Map<string, ChatState>();
export const list = signal<readonly Heading[]>([]);
export const hasList = signal(false);
export const linkState = signal<LinkState>("off");
/** Orders that the server has not answered yet. */
export const outgoing = signal<readonly OutboxRecord[]>([]);
/** An order that the server took, with its receipt. */
export interface Taken {
  record: OutboxRecord;
  receipt: number;
}

/** Messages that the server took; they show until a status includes them. */
export const taken = signal<readonly Taken[]>([]);
/** Chats that were opened, newest first. */
let opened: string[] = [];
/** How many times events did not fit together since the page was loaded. */
export const badFolds = signal(0);

const dirty = new Set<string>();
let isDrawing = false;

export const link = new Link(api, {
  onView: (chat, view) => {
    check(chat, view);
    dirty.add(chat);
    schedule();
  },
  onGone: (chat) => {
    const state = chats.get(chat);
    if (state) state.isGone.value = true;
  },
  onList: (map) => {
    hasList.value = true;
    list.value = [...map.values()].filter((each) => !each.archived).sort((a, b) => b.touched - a.touched);
  },
  onState: (state) => {
    linkState.value = state;
    if (state === "waiting") noteShown();
    if (state === "live") {
      outbox?.nudge();
      void lookForNewPage();
    }
    if (state === "ended" && phase.value === "in") phase.value = "ended";
  },
  onBadFold: (chat, error) => {
    badFolds.value += 1;
    console.error(`chat ${chat} is read anew: ${error.message}`);
  },
  onClock: (offset) => (clockOffset.value = offset),
});

function schedule(): void {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(draw);
}

function draw(): void {
  isDrawing = false;
  for (const chat of dirty) {
    const view = link.view(chat);
    if (view) chatOf(chat).update(view);
  }
  dirty.clear();
}

export function chatOf(id: string): ChatState {
  let state = chats.get(id);
  if (!state) chats.set(id, (state = new ChatState(id)));
  return state;
}

/** Follows a chat, because the person opens it. */
export function open(id: string): ChatState {
  const state = chatOf(id);
  if (id.startsWith(LOCAL)) return state;
  opened = [id, ...opened.filter((each) => each !== id)].slice(0, FOLLOWED_BEFORE);
  link.follow(opened);
  for (const each of chats.keys()) {
    if (!opened.includes(each) && !each.startsWith(LOCAL)) chats.delete(each);
  }
  return state;
}

let outbox: Outbox | undefined;
/** Called when the server refused an order for good. */
export const refused: Signal<{ record: OutboxRecord; message: string; kind: string } | undefined> = signal(undefined);
/** Called when a chat that this page made has its name. */
export const named = signal<{ local: string; id: string } | undefined>(undefined);

/** Connects, and sends what an earlier page left behind. */
export async function connect(): Promise<void> {
  recall();
  shareStreams(link);
  outbox = new Outbox(api, await outboxStore(), {
    onChange: (records) => (outgoing.value = records),
    onDone: (record, receipt) => {
      if (record.order.verb === "send" && receipt !== undefined) taken.value = [...taken.value.slice(-50), { record, receipt }];
    },
    onRefused: (record, error) => (refused.value = { record, message: error.message, kind: error.kind }),
    onNamed: (local, chat) => (named.value = { local, id: chat.id }),
  });
  await outbox.start();
}

/** Sends an order, now or when the server is back. */
export async function give(chat: string, order: Order): Promise<void> {
  await outbox?.add(chat, order);
  link.nudge();
}

export function nudge(): void {
  link.nudge();
  outbox?.nudge();
}

function noteShown(): void {
  note(opened.flatMap((chat) => {
    const view = link.view(chat);
    return view ? [[chat, view] as [string, View]] : [];
  }));
}

addEventListener("pagehide", noteShown);
addEventListener("online", nudge);
addEventListener("pageshow", nudge);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") nudge();
});
