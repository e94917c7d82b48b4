// One stream for everything a client shows: some chats in full, and the list of all.
//
// A connection may be cut at any byte, also without a sign of it. The link notices, connects again with the cursor of each
// chat, and folds what comes: the views go on as if nothing had happened.

import { type Api, refusal } from "./api.js";
import { Backoff, retryAfter } from "./backoff.js";
import { BadFold, chatEvent, Follower, type View } from "./fold.js";
import { type RawEvent, SseCutter } from "./sse.js";
import type { Chats, Heading, Listed } from "./wire.js";

/** `waiting`: the next try is under way or due; `ended`: the server refused the token. */
export type LinkState = "off" | "opening" | "live" | "waiting" | "ended";

export interface LinkEvents {
  /** The view of a chat has changed. */
  onView?: (chat: string, view: View) => void;
  /** The chat was deleted, or is not the owner's. */
  onGone?: (chat: string) => void;
  /** The list of chats has changed. */
  onList?: (list: ReadonlyMap<string, Heading>) => void;
  onState?: (state: LinkState) => void;
  /** Events did not fit together: the chat is read anew. */
  onBadFold?: (chat: string, error: BadFold) => void;
  /** The server's clock minus that of this machine, in milliseconds. */
  onClock?: (offset: number) => void;
}

export interface LinkTimes {
  /** No byte for so long is a cut; the server sends a comment every 15 seconds. */
  silenceMs: number;
  /** A connection that lived so long ends the doubling of waits. */
  healthyMs: number;
}

const TIMES: LinkTimes = { silenceMs: 40_000, healthyMs: 10_000 };
/** A stream that ended in good order is opened again at once, if it lived so long. */
const SHORT_MS = 250;
/** The most chats of one stream. */
export const FOLLOWED_LEN_MAX = 32;

export class Link {
  readonly #api: Api;
  readonly #events: LinkEvents;
  readonly #times: LinkTimes;
  readonly #backoff = new Backoff();
  readonly #followers = new Map<string, Follower>();
  #list = new Map<string, Heading>();
  #state: LinkState = "off";
  #abort: AbortController | undefined;
  #wake: (() => void) | undefined;
  #isWanted = false;
  #isReopening = false;
  #loop: Promise<void> | undefined;

  constructor(api: Api, events: LinkEvents = {}, times: Partial<LinkTimes> = {}) {
    this.#api = api;
    this.#events = events;
    this.#times = { ...TIMES, ...times };
  }

  get state(): LinkState {
    return this.#state;
  }

  get list(): ReadonlyMap<string, Heading> {
    return this.#list;
  }

  view(chat: string): View | undefined {
    return this.#followers.get(chat)?.view;
  }

  /** Connects, and stays connected until `stop`. */
  start(): void {
    this.#isWanted = true;
    this.#loop ??= this.#run().finally(() => (this.#loop = undefined));
  }

  stop(): void {
    this.#isWanted = false;
    this.#abort?.abort();
    this.#wake?.();
  }

  /** Follows exactly these chats in full. Those followed before keep their cursors. */
  follow(chats: Iterable<string>): void {
    const wanted = new Set([...chats].slice(0, FOLLOWED_LEN_MAX));
    let hasNew = false;
    for (const chat of wanted) {
      if (this.#followers.has(chat)) continue;
      this.#followers.set(chat, new Follower());
      hasNew = true;
    }
    for (const chat of this.#followers.keys()) {
      if (!wanted.has(chat)) this.#followers.delete(chat);
    }
    // What is not wanted any more is left aside when it comes; only a new chat needs a new stream.
    if (hasNew) this.#reopen();
  }

  /** Tries at once, if the link waits: something suggests that the server can be reached. */
  nudge(): void {
    if (this.#state === "waiting") this.#wake?.();
  }

  /** Opens the stream again, for example because the machine has slept and the connection may be dead. */
  refresh(): void {
    this.#reopen();
  }

  #reopen(): void {
    if (this.#state === "live" || this.#state === "opening") {
      this.#isReopening = true;
      this.#abort?.abort();
    } else {
      this.nudge();
    }
  }

  #set(state: LinkState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#events.onState?.(state);
  }

  async #run(): Promise<void> {
    while (this.#isWanted) {
      const wait = await this.#once();
      if (!this.#isWanted || this.#state === "ended") break;
      if (wait > 0) {
        this.#set("waiting");
        await this.#pause(wait);
      }
    }
    if (this.#state !== "ended") this.#set("off");
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** One connection. Returns how long to wait before the next. */
  async #once(): Promise<number> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#isReopening = false;
    if (this.#state !== "waiting") this.#set("opening");
    const began = performance.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isSilent = false;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        isSilent = true;
        abort.abort();
      }, this.#times.silenceMs);
    };
    let isCut = false;
    try {
      heard();
      const response = await this.#api.fetch(`/v1/stream?chats=${this.#resume()}`, { signal: abort.signal });
      if (!response.ok || !response.body) return await this.#refused(response);
      this.#clock(response);
      this.#set("live");
      await this.#read(response.body, heard, abort.signal);
    } catch {
      isCut = true; // Of the network, or an event that is no JSON: both are mended by reading again.
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
    const lived = performance.now() - began;
    if (this.#isReopening) return 0;
    if (lived >= this.#times.healthyMs) this.#backoff.reset();
    return isCut || isSilent || lived < SHORT_MS ? this.#backoff.next() : 0;
  }

  async #read(body: ReadableStream<Uint8Array>, heard: () => void, signal: AbortSignal): Promise<void> {
    const cutter = new SseCutter();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      for (const event of cutter.push(value)) {
        if (signal.aborted) return;
        this.#take(event);
      }
    }
  }

  async #refused(response: Response): Promise<number> {
    if (response.status === 401) {
      this.#set("ended");
      return 0;
    }
    const after = retryAfter(response);
    await refusal(response);
    return this.#backoff.next(after);
  }

  #clock(response: Response): void {
    const date = Date.parse(response.headers.get("date") ?? "");
    if (!Number.isNaN(date)) this.#events.onClock?.(date - Date.now());
  }

  /** The `chats` parameter: each chat with its cursor. What was half received comes again. */
  #resume(): string {
    const each = [...this.#followers].map(([chat, follower]) => {
      const cursor = follower.cut();
      return cursor === undefined ? chat : `${chat}@${cursor}`;
    });
    return encodeURIComponent(each.join(","));
  }

  #take({ name, data }: RawEvent): void {
    const json: unknown = JSON.parse(data);
    if (name === "list") {
      this.#list = new Map((json as Chats).chats.map((heading) => [heading.id, heading]));
      this.#events.onList?.(this.#list);
    } else if (name === "heading") {
      const { chat, heading } = json as Listed;
      this.#list.set(chat, heading);
      this.#events.onList?.(this.#list);
    } else if (name === "gone") {
      const { chat } = json as { chat: string };
      this.#followers.delete(chat);
      if (this.#list.delete(chat)) this.#events.onList?.(this.#list);
      this.#events.onGone?.(chat);
    } else {
      this.#fold(name, json as { chat: string; cursor?: string });
    }
  }

  #fold(name: string, { chat, cursor, ...data }: { chat: string; cursor?: string }): void {
    const follower = this.#followers.get(chat);
    const event = chatEvent(name, data);
    if (!follower || !event) return;
    try {
      if (follower.take(event, cursor)) this.#events.onView?.(chat, follower.view);
    } catch (error) {
      if (!(error instanceof BadFold)) throw error;
      // Without a cursor the chat begins with a snapshot.
      this.#followers.set(chat, new Follower());
      this.#events.onBadFold?.(chat, error);
      this.#reopen();
    }
  }
}
