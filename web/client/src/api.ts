// Typed calls of the HTTP API.

import { Backoff, retryAfter } from "./backoff.js";
import type {
  Accepted, Account, AgentsList, Answer, ChangedFiles, Chat, Chats, Create, Edit, Fork, GrantsList, JobsList, Messages,
  Models, OpenAsks, Patch, ProblemBody, Send, Secret, NewToken, TokenInfo, TokensList, Usage,
} from "./wire.js";

export interface ApiOptions {
  /** The server, such as `https://chat.example.com`; the page's own origin if left out. */
  url?: string;
  /** Further headers of each request: `authorization` of a token, or the key of a session. */
  headers?: () => Record<string, string>;
  /** Called when the server answers 401: the token or session has ended. */
  onUnauthorized?: () => void;
  fetch?: typeof fetch;
}

/** What to send. */
export interface Call {
  method?: string;
  body?: unknown;
  /** Makes a repetition harmless: the server does it once, and gives the first answer again. */
  key?: string;
  signal?: AbortSignal;
}

/** A request that the server refused. */
export class Refused extends Error {
  override name = "Refused";

  constructor(readonly status: number, readonly problem: ProblemBody | undefined, readonly retryAfterMs: number) {
    super(problem?.detail || `the server answered ${status}`);
  }

  /** The type of the problem without its prefix, such as `not-found`. */
  get kind(): string {
    return this.problem?.type.split(":").at(-1) ?? "";
  }

  /** Whether the same request may succeed later: the server did not decide about it. */
  get isTemporary(): boolean {
    return this.status === 401 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** How long one try may take. Commands are answered within 25 seconds. */
const TRY_MS_MAX = 40_000;
/** How many times a call with a key is tried. */
const TRIES_MAX = 6;

export class Api {
  readonly #options: ApiOptions;

  constructor(options: ApiOptions = {}) {
    this.#options = options;
  }

  /** Sends one request, and returns the raw response, also a refusal. */
  async fetch(path: string, call: Call = {}): Promise<Response> {
    const { url = "", headers = () => ({}), fetch: send = fetch } = this.#options;
    const given: Record<string, string> = { ...headers() };
    if (call.key !== undefined) given["idempotency-key"] = call.key;
    if (call.body !== undefined) given["content-type"] = "application/json";
    const response = await send(url + path, {
      method: call.method ?? "GET",
      headers: given,
      cache: "no-store",
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      ...(call.signal ? { signal: call.signal } : {}),
    });
    if (response.status === 401) this.#options.onUnauthorized?.();
    return response;
  }

  /** Sends one request, and returns the body of its answer. Throws `Refused`, or what `fetch` throws. */
  async once<T>(path: string, call: Call = {}): Promise<T> {
    const timeout = AbortSignal.timeout(TRY_MS_MAX);
    const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout;
    const response = await this.fetch(path, { ...call, signal });
    if (!response.ok) throw await refusal(response);
    return (response.status === 204 ? undefined : await response.json()) as T;
  }

  /** As `once`, repeated under one key while the server is away or busy. */
  async call<T>(path: string, call: Call): Promise<T> {
    const backoff = new Backoff();
    const keyed = { key: crypto.randomUUID(), ...call };
    for (;;) {
      try {
        return await this.once<T>(path, keyed);
      } catch (error) {
        const isFinal = error instanceof Refused && (!error.isTemporary || error.status === 401);
        if (isFinal || call.signal?.aborted || backoff.tries >= TRIES_MAX) throw error;
        const after = error instanceof Refused ? error.retryAfterMs : 0;
        await new Promise((resolve) => setTimeout(resolve, backoff.next(after)));
      }
    }
  }

  #post<T>(path: string, body: unknown, key?: string): Promise<T> {
    return this.call(path, { method: "POST", body, ...(key === undefined ? {} : { key }) });
  }

  chats = (query: { text?: string; archived?: boolean; limit?: number; after?: string } = {}): Promise<Chats> =>
    this.once(`/v1/chats${queryOf(query)}`);
  chat = (id: string): Promise<Chat> => this.once(`/v1/chats/${id}`);
  create = (body: Create = {}, key?: string): Promise<Chat> => this.#post("/v1/chats", body, key);
  patch = (id: string, body: Patch): Promise<Chat> => this.call(`/v1/chats/${id}`, { method: "PATCH", body });
  remove = (id: string): Promise<void> => this.call(`/v1/chats/${id}`, { method: "DELETE" });
  fork = (id: string, body: Fork): Promise<Chat> => this.#post(`/v1/chats/${id}/fork`, body);
  compact = (id: string): Promise<Accepted> => this.#post(`/v1/chats/${id}/compact`, {});

  messages = (id: string, query: { before?: number; limit?: number } = {}): Promise<Messages> =>
    this.once(`/v1/chats/${id}/messages${queryOf(query)}`);
  send = (id: string, body: Send, key?: string): Promise<Accepted> => this.#post(`/v1/chats/${id}/messages`, body, key);
  edit = (id: string, message: number, body: Edit, key?: string): Promise<Accepted> =>
    this.call(`/v1/chats/${id}/messages/${message}`, { method: "PUT", body, ...(key === undefined ? {} : { key }) });
  unqueue = (id: string, queued: number): Promise<Accepted> =>
    this.call(`/v1/chats/${id}/queue/${queued}`, { method: "DELETE" });
  promote = (id: string, queued: number): Promise<Accepted> => this.#post(`/v1/chats/${id}/queue/${queued}/promote`, {});
  interrupt = (id: string, signal?: AbortSignal): Promise<Chat> =>
    this.call(`/v1/chats/${id}/interrupt`, { method: "POST", body: {}, ...(signal ? { signal } : {}) });
  answer = (id: string, answers: Answer[]): Promise<Accepted> => this.#post(`/v1/chats/${id}/answers`, { answers });
  file = (id: string, message: number, place: number): Promise<Response> =>
    this.fetch(`/v1/chats/${id}/messages/${message}/files/${place}`);

  usage = (id: string): Promise<Usage> => this.once(`/v1/chats/${id}/usage?each=true`);
  account = (): Promise<Account> => this.once("/v1/usage");
  models = (): Promise<Models> => this.once("/v1/models");
  agents = (): Promise<AgentsList> => this.once("/v1/agents");
  asks = (): Promise<OpenAsks> => this.once("/v1/asks");
  grants = (id: string): Promise<GrantsList> => this.once(`/v1/chats/${id}/grants`);
  revokeGrant = (id: string, call: string): Promise<unknown> =>
    this.call(`/v1/chats/${id}/grants/${call}`, { method: "DELETE" });
  changes = (id: string): Promise<ChangedFiles> => this.once(`/v1/chats/${id}/changes`);
  undo = (id: string, calls: string[]): Promise<ChangedFiles> => this.#post(`/v1/chats/${id}/undo`, { calls });
  jobs = (id: string): Promise<JobsList> => this.once(`/v1/chats/${id}/jobs`);
  stopJob = (id: string, number: number): Promise<unknown> => this.#post(`/v1/chats/${id}/jobs/${number}/stop`, {});

  tokens = (): Promise<TokensList> => this.once("/v1/tokens");
  makeToken = (body: NewToken): Promise<Secret> => this.#post("/v1/tokens", body);
  revokeToken = (id: string): Promise<TokenInfo> => this.call(`/v1/tokens/${id}`, { method: "DELETE" });
}

/** The refusal in a response. */
export async function refusal(response: Response): Promise<Refused> {
  const problem = (await response.json().catch(() => undefined)) as ProblemBody | undefined;
  return new Refused(response.status, problem, retryAfter(response));
}

function queryOf(values: Record<string, string | number | boolean | undefined>): string {
  const given = Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}
