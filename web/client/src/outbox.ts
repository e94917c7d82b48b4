// What a person sends, kept until the server has it.
//
// A message is stored here before the first request, and removed by an answer that is final. In between it is sent again
// under one idempotency key, also after a reload: the server does it once.

import { type Api, Refused } from "./api.js";
import { Backoff } from "./backoff.js";
import type { Accepted, Answer, Chat, Create, Edit, Send } from "./wire.js";

/** What a record asks the server to do. */
export type Order =
  | { verb: "create"; body: Create }
  | { verb: "send"; body: Send }
  | { verb: "edit"; message: number; body: Edit }
  | { verb: "unqueue"; queued: number }
  | { verb: "promote"; queued: number }
  | { verb: "answer"; answers: Answer[] };

/** One order of the outbox. */
export interface OutboxRecord {
  /** The idempotency key. */
  key: string;
  /** Its place: orders of one chat are sent in this order. */
  place: number;
  /** The chat; a local id that begins with `new-` until the chat is created. */
  chat: string;
  order: Order;
  at: number;
}

/** Where records are stored. */
export interface OutboxStore {
  all(): Promise<OutboxRecord[]>;
  put(record: OutboxRecord): Promise<void>;
  remove(key: string): Promise<void>;
}

export interface OutboxEvents {
  /** The records have changed. */
  onChange?: (records: readonly OutboxRecord[]) => void;
  /** The server has taken an order. A message has a receipt: a status with `received` of at least this includes it. */
  onDone?: (record: OutboxRecord, receipt: number | undefined) => void;
  /** The server refused an order for good; the record is gone, and what it said goes back to the person. */
  onRefused?: (record: OutboxRecord, error: Refused) => void;
  /** A chat was created: its local id is this one from now on. */
  onNamed?: (local: string, chat: Chat) => void;
}

/** The prefix of ids of chats that the server does not know yet. */
export const LOCAL = "new-";

interface Told {
  done?: [OutboxRecord, number | undefined];
  named?: [string, Chat];
}

export class Outbox {
  readonly #api: Api;
  readonly #store: OutboxStore;
  readonly #events: OutboxEvents;
  readonly #name: string;
  #channel: BroadcastChannel | undefined;
  readonly #busy = new Map<string, { wake: () => void }>();
  #records: OutboxRecord[] = [];

  constructor(api: Api, store: OutboxStore, events: OutboxEvents = {}, name = "everturn-outbox") {
    this.#api = api;
    this.#store = store;
    this.#events = events;
    this.#name = name;
    this.#channel = typeof BroadcastChannel === "undefined" ? undefined : new BroadcastChannel(name);
    if (this.#channel) this.#channel.onmessage = ({ data }: MessageEvent<Told>) => void this.#heard(data);
  }

  get records(): readonly OutboxRecord[] {
    return this.#records;
  }

  /** Reads what an earlier page left behind, and sends it. */
  async start(): Promise<void> {
    await this.#read();
    this.nudge();
  }

  /** Stores an order and begins to send it. Resolves when it is stored. */
  async add(chat: string, order: Order): Promise<OutboxRecord> {
    const place = Math.max(Date.now(), (this.#records.at(-1)?.place ?? 0) + 1);
    const record: OutboxRecord = { key: crypto.randomUUID(), place, chat, order, at: Date.now() };
    this.#records = [...this.#records, record];
    this.#events.onChange?.(this.#records);
    await this.#store.put(record);
    this.#channel?.postMessage({});
    void this.#drain(chat);
    return record;
  }

  /** Removes an order that was not sent yet. */
  async drop(key: string): Promise<void> {
    await this.#remove(key);
    this.#channel?.postMessage({});
  }

  /** Tries all chats at once: something suggests that the server can be reached. */
  nudge(): void {
    for (const { wake } of this.#busy.values()) wake();
    for (const chat of new Set(this.#records.map((record) => record.chat))) void this.#drain(chat);
  }

  /** Leaves the other tabs; what is on its way is not held up. */
  close(): void {
    this.#channel?.close();
    this.#channel = undefined;
  }

  async #read(): Promise<void> {
    this.#records = (await this.#store.all()).sort((a, b) => a.place - b.place);
    this.#events.onChange?.(this.#records);
  }

  async #heard({ done, named }: Told): Promise<void> {
    if (done) this.#events.onDone?.(...done);
    if (named) this.#events.onNamed?.(...named);
    await this.#read();
  }

  async #remove(key: string): Promise<void> {
    await this.#store.remove(key);
    this.#records = this.#records.filter((record) => record.key !== key);
    this.#events.onChange?.(this.#records);
  }

  /** Sends the orders of a chat, one after the other. */
  async #drain(chat: string): Promise<void> {
    if (this.#busy.has(chat)) return;
    const waiter = { wake: () => {} };
    this.#busy.set(chat, waiter);
    const backoff = new Backoff();
    try {
      while (this.#records.some((record) => record.chat === chat)) {
        const wait = await this.#locked(chat, () => this.#next(chat, backoff));
        if (wait === undefined) return;
        if (wait > 0) await pause(wait, waiter);
      }
    } finally {
      this.#busy.delete(chat);
    }
    // An order that was added while the last one was on its way.
    if (this.#records.some((record) => record.chat === chat)) void this.#drain(chat);
  }

  /** One tab at a time sends for a chat. */
  #locked<T>(chat: string, run: () => Promise<T>): Promise<T> {
    const locks = typeof navigator === "undefined" ? undefined : navigator.locks;
    return locks ? locks.request(`${this.#name}-${chat}`, run) as Promise<T> : run();
  }

  /** Sends the oldest order of a chat. Returns how long to wait before the next; nothing if the session has ended. */
  async #next(chat: string, backoff: Backoff): Promise<number | undefined> {
    await this.#read(); // Another tab may have sent it.
    const record = this.#records.find((each) => each.chat === chat);
    if (!record) return 0;
    let receipt: number | undefined;
    try {
      receipt = await this.#send(record);
    } catch (error) {
      if (!(error instanceof Refused)) return backoff.next();
      if (error.status === 401) return undefined;
      // A full queue is the person's to know; everything else that is temporary is tried again.
      if (error.isTemporary && error.kind !== "queue-full") return backoff.next(error.retryAfterMs);
      await this.#remove(record.key);
      this.#channel?.postMessage({});
      this.#events.onRefused?.(record, error);
      return 0;
    }
    backoff.reset();
    this.#events.onDone?.(record, receipt);
    await this.#remove(record.key);
    this.#channel?.postMessage({ done: [record, receipt] } satisfies Told);
    return 0;
  }

  async #send({ key, chat, order }: OutboxRecord): Promise<number | undefined> {
    const ask = async (path: string, body: unknown, method = "POST") =>
      (await this.#api.once<Accepted>(path, { method, key, ...(body === undefined ? {} : { body }) })).id;
    const at = `/v1/chats/${chat}`;
    switch (order.verb) {
      case "create":
        await this.#named(chat, await this.#api.once<Chat>("/v1/chats", { method: "POST", body: order.body, key }));
        return undefined;
      case "send": return ask(`${at}/messages`, order.body);
      case "edit": return ask(`${at}/messages/${order.message}`, order.body, "PUT");
      case "unqueue": return ask(`${at}/queue/${order.queued}`, undefined, "DELETE");
      case "promote": return ask(`${at}/queue/${order.queued}/promote`, {});
      case "answer": return ask(`${at}/answers`, { answers: order.answers });
    }
  }

  /** Orders for a chat that was local go to the created one. */
  async #named(local: string, chat: Chat): Promise<void> {
    for (const record of this.#records) {
      if (record.chat === local && record.order.verb !== "create") await this.#store.put({ ...record, chat: chat.id });
    }
    await this.#read();
    this.#events.onNamed?.(local, chat);
    this.#channel?.postMessage({ named: [local, chat] } satisfies Told);
    void this.#drain(chat.id);
  }
}

function pause(ms: number, waiter: { wake: () => void }): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    waiter.wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}
