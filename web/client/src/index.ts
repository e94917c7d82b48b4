export { Api, Refused, type ApiOptions, type Call as ApiCall } from "./api.js";
export { Backoff } from "./backoff.js";
export { BadFold, chatEvent, Follower, View, type ChatEvent, type OpenDraft } from "./fold.js";
export { FOLLOWED_LEN_MAX, Link, type LinkEvents, type LinkState, type LinkTimes } from "./link.js";
export { LOCAL, Outbox, type Order, type OutboxEvents, type OutboxRecord, type OutboxStore } from "./outbox.js";
export { MemoryStore, outboxStore } from "./outbox_store.js";
export { SseCutter, type RawEvent } from "./sse.js";
export type * from "./wire.js";
