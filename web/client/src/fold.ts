// A chat as a client sees it: the fold of all events of its stream.
//
// A translation of `wire::{Draft, View, Follower}` of the server, with the same errors. Fixtures that the server's tests
// write are replayed here, so that both give the same view for every chat and every cut.

import type {
  Began, Call, Counts, Delta, Draft, Message, Part, Reasoning, Rewound, Snapshot, Standing,
} from "./wire.js";

/** One event of a chat's stream, by its name. */
export type ChatEvent =
  | { name: "message"; data: Message }
  | { name: "delta"; data: Delta }
  | { name: "rewound"; data: Rewound }
  | { name: "status"; data: Standing }
  | { name: "reset"; data: Snapshot };

const NAMES: ReadonlySet<string> = new Set(["message", "delta", "rewound", "status", "reset"]);

/** An event of this name with parsed data; nothing for an unknown one, of a later version, which a client ignores. */
export function chatEvent(name: string, data: unknown): ChatEvent | undefined {
  return NAMES.has(name) ? ({ name, data } as ChatEvent) : undefined;
}

/** Events that do not fit together: some were lost or doubled. */
export class BadFold extends Error {
  override name = "BadFold";
}

/** The reply that is arriving, with everything that folding needs. */
export type OpenDraft = Required<Omit<Draft, "attempt">> & { attempt?: Began | null };

/** The fold of all events a client has received. */
export class View {
  /** Committed messages, oldest first. */
  messages: Message[] = [];
  /** The chat's status, once received. */
  status: Standing | undefined;
  /** The reply that is arriving. */
  draft: OpenDraft | undefined;

  /** Folds an event. Throws a `BadFold` if it does not follow the one before. */
  fold(event: ChatEvent): void {
    switch (event.name) {
      case "message": {
        const last = this.messages.at(-1);
        if (last && last.id >= event.data.id) {
          throw new BadFold(`message ${event.data.id} came again, or too late`);
        }
        this.messages.push(event.data);
        break;
      }
      case "delta": {
        if (this.draft?.step !== event.data.step) this.draft = emptyDraft(event.data.step);
        push(this.draft as OpenDraft, event.data);
        break;
      }
      case "rewound": {
        const { from } = event.data;
        this.messages = this.messages.filter((message) => message.id < from);
        this.draft = undefined;
        break;
      }
      case "status": {
        if (this.draft && this.draft.step < event.data.step) this.draft = undefined;
        this.status = event.data;
        break;
      }
      case "reset": {
        const { messages, status, draft } = event.data;
        this.messages = messages.slice();
        this.status = status;
        this.draft = draft ? { ...emptyDraft(draft.step), ...draft } : undefined;
      }
    }
  }
}

/**
 * A client of one chat that may be cut at any byte.
 *
 * Only some events carry a cursor to resume from. The events before such an event belong to it: a client that was cut in
 * between gets them again. So they are folded together, when the event with the cursor is there.
 */
export class Follower {
  readonly view = new View();
  #cursor: string | undefined;
  #half: ChatEvent[] = [];

  /** Adds an event with its cursor, if it has one. Returns whether the view has changed. */
  take(event: ChatEvent, cursor: string | undefined): boolean {
    this.#half.push(event);
    if (cursor === undefined) return false;
    const events = this.#half;
    this.#half = [];
    for (const each of events) this.view.fold(each);
    this.#cursor = cursor;
    return true;
  }

  /** Handles a cut connection: drops events without a following cursor, and returns the cursor to resume from. */
  cut(): string | undefined {
    this.#half = [];
    return this.#cursor;
  }

  /** The cursor to resume from. */
  get cursor(): string | undefined {
    return this.#cursor;
  }
}

function emptyDraft(step: number): OpenDraft {
  return { step, n: 0, parts: [], grows: false, slots: {}, calls: 0, usage: {} };
}

function push(draft: OpenDraft, delta: Delta): void {
  if (delta.n !== draft.n + 1) {
    throw new BadFold(`delta ${delta.n} of step ${delta.step} came after ${draft.n}`);
  }
  switch (delta.kind) {
    case "text": text(draft, delta.text); break;
    case "reasoning": reasoning(draft, delta.text, delta.at); break;
    case "ended": draft.grows = false; break;
    case "attempt": attempt(draft, { number: delta.number, model: delta.model, rung: delta.rung }); break;
    case "call": {
      const id = `${draft.step}.${draft.calls}`;
      draft.calls += 1;
      draft.slots[String(delta.slot)] = id;
      const { tool, run_by, at } = delta;
      add(draft, { type: "call", id, tool, input: "", whole: false, run_by, at });
      break;
    }
    case "input": call(draft, delta.slot).input += delta.json; break;
    case "call_ended": call(draft, delta.slot).whole = true; break;
    case "provided": {
      const id = delta.slot == null ? undefined : draft.slots[String(delta.slot)];
      const { tool, output, at } = delta;
      add(draft, { type: "provided", ...(id === undefined ? {} : { call: id }), tool, output, at });
      break;
    }
    case "source": add(draft, { type: "source", url: delta.url, title: delta.title }); break;
    case "file": {
      const { name, media_type, size } = delta;
      add(draft, { type: "file", name, media_type, ...(size == null ? {} : { size }) });
      break;
    }
    case "other": add(draft, { type: "other" }); break;
    case "usage": update(draft.usage, delta); break;
    case "retract_call": {
      const id = `${draft.step}.${delta.ordinal}`;
      draft.parts = draft.parts.filter((part) => !(part.type === "call" && part.id === id));
      draft.slots = {};
      draft.grows = false;
      break;
    }
    case "retract_all": {
      draft.parts = [];
      draft.slots = {};
      draft.grows = false;
      break;
    }
    default: // `seam`, `nothing`, and kinds of a later version: only the number counts.
  }
  draft.n = delta.n;
}

function text(draft: OpenDraft, more: string): void {
  const tail = draft.parts.at(-1);
  if (tail?.type === "text" && draft.grows) {
    tail.text += more;
  } else {
    add(draft, { type: "text", text: more });
    draft.grows = true;
  }
}

function reasoning(draft: OpenDraft, more: string, at: number): void {
  const tail = draft.parts.at(-1);
  if (tail?.type === "reasoning" && draft.grows) {
    (tail as Reasoning).text += more;
    tail.ended = at;
  } else {
    add(draft, { type: "reasoning", text: more, began: at, ended: at });
    draft.grows = true;
  }
}

/** Adds a part, which ends the one before it. */
function add(draft: OpenDraft, part: Part): void {
  draft.parts.push(part);
  draft.grows = false;
}

function attempt(draft: OpenDraft, began: Began): void {
  if (draft.attempt && began.rung !== "reattach") {
    draft.slots = {};
    draft.usage = {};
  }
  if (began.rung === "continue" || began.rung === "fall_back") {
    draft.grows = draft.parts.at(-1)?.type === "text";
  }
  draft.attempt = began;
}

function call(draft: OpenDraft, slot: number): Call {
  const id = draft.slots[String(slot)];
  for (let at = draft.parts.length - 1; at >= 0; at--) {
    const part = draft.parts[at];
    if (part?.type === "call" && part.id === id) return part;
  }
  throw new BadFold(`a delta for call slot ${slot}, which is not open`);
}

const COUNTS = ["input", "output", "reasoning", "cache_read", "cache_write"] as const;

function update(usage: Counts, later: Counts): void {
  for (const name of COUNTS) {
    const value = later[name];
    if (value != null) usage[name] = value;
  }
}
