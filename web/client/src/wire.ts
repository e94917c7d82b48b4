// The shapes of the HTTP API. Written by the test `typescript` of crates/server from the OpenAPI document: do not edit.

/** The receipt of an accepted and stored request. */
export type Accepted = {
  /** The chat. */
  chat: string;
  /** The request's number in the chat. A message has it as `id` in the queue, and as `receipt` once it is committed. The message is answered when a status with `received` of at least this number does not list it in `unanswered`. */
  id: number;
};

/** Budget and usage of an owner over all chats. Days and months are in UTC. */
export type Account = {
  /** The limit per chat, over its whole life. */
  chat_max: Bounds;
  /** The currency of all amounts here. */
  currency?: Currency;
  /** Since midnight. */
  day: Used;
  /** The limit per day. */
  day_max: Bounds;
  /** Since the first of the month. */
  month: Used;
  /** The limit per month. */
  month_max: Bounds;
};

/** An agent. */
export type AgentInfo = {
  /** Its model and those it falls back to. */
  models: Array<string>;
  /** Its name. */
  name: string;
  /** The tools that its model is offered, without those that a chat brings. */
  tools: Array<AgentTool>;
  /** Where its tools work, if it has a workspace. */
  workspace?: AgentWorkspace | null;
};

/** A tool of an agent. */
export type AgentTool = {
  /** The description for the model. */
  description: string;
  /** What running a call twice would do; absent for tools that clients or providers run. */
  effect?: ToolEffect | null;
  /** Its name. */
  name: string;
};

/** Where the tools of an agent work. */
export type AgentWorkspace = {
  /** How far commands are confined: `full`, `partial`, `files` or `off`. */
  confinement: string;
  /** Whether commands may use the network: `off` or `on`. */
  network: string;
  /** The directory, on the server's machine. */
  path: string;
};

/** The agents of a server. */
export type AgentsList = {
  /** The agents, by name. */
  agents: Array<AgentInfo>;
};

/** An answer to one call. */
export type Answer = ResultAnswer | ErrorAnswer | ApproveAnswer | GrantAnswer | DenyAnswer;

/** Answers to open calls. */
export type Answers = {
  /** Each call once. */
  answers: Array<Answer>;
};

/** The call may run. */
export type ApproveAnswer = {
  /** The call. */
  call: string;
  /** The hash from the open call: the approval is for this input only. */
  input_hash: string;
  kind: "approve";
};

/** A call that waits for a client or an approval. */
export type Ask = {
  /** The call. */
  call: string;
  /** How the tool is confined. */
  confinement?: string | null;
  /** What running it twice would do: `read` (nothing), `idempotent` (no more than once), `once` (harm). */
  effect?: ToolEffect | null;
  /** The rule that a grant would be; left out if the call can only be allowed once. */
  grant?: string | null;
  /** The input as the model wrote it: meant to be a JSON object, but not always one. Missing in chats of earlier releases. */
  input?: string | null;
  /** Hash of the tool and its input. An approval repeats it, so that nothing else is approved. */
  input_hash: string;
  /** The path that the call is about, with links followed. */
  path?: string | null;
  /** What made it ask: a permission rule, `else`, or the policy of the tool. */
  rule?: string | null;
  /** The tool. */
  tool: string;
  /** What it waits for. */
  wants: AskKind;
};

/** A call of a sub-agent that waits for a client or an approval. */
export type AskBelow = {
  /** The call. */
  call: string;
  /** The sub-agent's chat. `GET /v1/chats/{id}` shows what is asked, `POST /v1/chats/{id}/answers` answers. */
  chat: string;
};

/** What a call waits for. */
export type AskKind = "result" | "approval" | "answer";

/** One provider call. */
export type Attempt = {
  /** When it began. */
  began: number;
  /** The cost of the tokens. */
  cost: Money;
  /** Tokens as estimated. */
  estimated: Tokens;
  /** Tokens as reported. */
  known: Tokens;
  /** The model. */
  model: string;
  /** Its number in the step. */
  number: number;
  /** `answered`, `interrupted`, `lost`, `process_ended` (the server of the attempt ended; the answer continues from the shown part), or how it broke. */
  outcome: string;
  /** The purpose: an answer, by the rung (`first`, `reattach`, `continue`, `restart`, `fall_back`), or a `summary`. Absent where it was not stored. */
  rung?: string | null;
  /** The step it was made for. */
  step: number;
  /** How long it took, in milliseconds. */
  took_ms: number;
};

/** An increment of the draft, or a retraction. */
export type AttemptDelta = {
  /** When it was received. */
  at: number;
  kind: "attempt";
  /** The model. */
  model: string;
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Its number within the step. */
  number: number;
  /** The reason for the attempt. */
  rung: Rung;
  /** The draft's step. */
  step: number;
};

/** A provider call. */
export type Began = {
  /** The model. */
  model: string;
  /** Its number within the step. */
  number: number;
  /** The reason for the attempt. */
  rung: Rung;
};

/** Limits. A missing one is not limited. */
export type Bounds = {
  /** Money, in millionths of the currency. */
  cost_micros?: number | null;
  /** Replies. */
  steps?: number | null;
  /** How long provider calls and tools may take, in milliseconds. */
  time_ms?: number | null;
  /** Prompt and output, reported and estimated. */
  tokens?: number | null;
};

/** It broke and could not be recovered. */
export type BrokenStop = {
  why: "broken";
};

/** A tool use. */
export type Call = {
  /** When it began to arrive. */
  at: number;
  /** The call's id within the chat: the step, and its position there. */
  id: string;
  /** The input as the model wrote it: meant to be a JSON object, but not always one. */
  input: string;
  /** Where the tool runs. */
  run_by: RunBy;
  /** The tool, as the model wrote it. */
  tool: string;
  /** Whether the input is complete. */
  whole: boolean;
};

/** An increment of the draft, or a retraction. */
export type CallDelta = {
  /** When it was received. */
  at: number;
  kind: "call";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Where the tool runs. */
  run_by: RunBy;
  /** Its name within this attempt. */
  slot: number;
  /** The draft's step. */
  step: number;
  /** The tool. */
  tool: string;
};

/** An increment of the draft, or a retraction. */
export type CallEndedDelta = {
  /** When it was received. */
  at: number;
  kind: "call_ended";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Which call. */
  slot: number;
  /** The draft's step. */
  step: number;
};

/** A tool use. */
export type CallPart = {
  /** When it began to arrive. */
  at: number;
  /** The call's id within the chat: the step, and its position there. */
  id: string;
  /** The input as the model wrote it: meant to be a JSON object, but not always one. */
  input: string;
  /** Where the tool runs. */
  run_by: RunBy;
  /** The tool, as the model wrote it. */
  tool: string;
  type: "call";
  /** Whether the input is complete. */
  whole: boolean;
};

/** What happened to a file. */
export type ChangeKind = "created" | "changed" | "changed_for_good";

/** Whether a change of a file still holds. */
export type ChangeState = "not_made" | "made" | "undone";

/** What one call did to one file. */
export type ChangedFile = {
  /** The call. */
  call: string;
  /** The unified diff, at most 64 KiB. */
  diff: string;
  /** What happened to it. */
  kind: ChangeKind;
  /** The user's message before the call, by its number: changes with the same number are of one turn. Left out if the call is no longer in the transcript. */
  message?: number | null;
  /** The file, relative to the workspace. */
  path: string;
  /** Whether the change still holds. */
  state: ChangeState;
};

/** The files that calls of a chat changed, in the order of the calls. */
export type ChangedFiles = {
  /** One entry per call and file. */
  changes: Array<ChangedFile>;
};

/** A chat, without its messages. */
export type Chat = {
  /** The chat's agent. */
  agent: string;
  /** Whether the chat is archived. */
  archived: boolean;
  /** Calls that wait for a client or a person. */
  asks: Array<Ask>;
  /** Calls of sub-agents that wait for a client or a person. They are read and answered at their chats. */
  asks_below?: Array<AskBelow>;
  /** When these calls time out. */
  awaits_until?: number | null;
  /** The summary that is being written. */
  compacting?: Summarising | null;
  /** Whether the server records the requests and responses of the chat's provider calls. */
  debug?: boolean;
  /** How the last turn ended; left out while one is under way. */
  ended?: Ended | null;
  /** Its id. */
  id: string;
  /** The chat's own instructions, sent after the agent's. */
  instructions?: string;
  /** Metadata of clients. */
  metadata?: Record<string, string>;
  /** The first model to use from the next turn on, if it is not the agent's. */
  model?: string | null;
  /** The chat whose call created this one, if it is a sub-agent's. */
  parent?: string | null;
  /** Progress of running tools. */
  progress?: Array<Progress>;
  /** Queued messages, next first. */
  queue: Array<Queued>;
  /** The newest accepted request that this status includes, by the `id` of its receipt. */
  received?: number;
  /** Why the next attempt waits. */
  retry?: Retry | null;
  /** The chat's status. */
  status: Status;
  /** The open step: a draft of an earlier one is over. */
  step: number;
  /** The title. */
  title: string;
  /** The chat's own tools, which its clients run. */
  tools?: Array<ClientTool>;
  /** The `id`s of messages that were accepted and are not answered yet: those of the running turn, then the queued ones. A message that is `received` and not listed here is answered, or was deleted. */
  unanswered?: Array<number>;
  /** Usage and cost so far. */
  usage: Usage;
  /** As of this commit. */
  version: number;
};

/** The open calls of a chat. */
export type ChatAsks = {
  /** Its agent. */
  agent: string;
  /** The calls. */
  asks: Array<Ask>;
  /** When the calls time out. */
  awaits_until?: number | null;
  /** The chat. */
  chat: string;
  /** Its owner. */
  owner: string;
  /** The chat whose call created it, if it is a sub-agent's. */
  parent?: string | null;
  /** Its title. */
  title: string;
};

/** A page of chats, most recently active first. */
export type Chats = {
  /** The `after` parameter of the next page; none at the end. */
  after?: string | null;
  /** The chats. */
  chats: Array<Heading>;
};

/** A tool that clients run: a turn that calls it waits until a client sends the result. */
export type ClientTool = {
  /** The description for the model. */
  description?: string;
  /** The JSON schema of the input, which is an object; any object if left out. */
  input?: unknown;
  /** Its name: letters, digits, `_` and `-`. */
  name: string;
};

/** One committed entry of a chat. */
export type ContextMessage = {
  /** When it was committed. */
  at: number;
  /** Its number in the chat. Numbers only grow; an edit leaves a gap. */
  id: number;
  kind: "context";
  /** The text. */
  text: string;
};

/** The cost limit of a turn was reached. */
export type CostMaxEnded = {
  how: "cost_max";
};

/** Tokens that an attempt has reported so far. Numbers that the provider did not state are left out. */
export type Counts = {
  /** Prompt tokens read from the cache. */
  cache_read?: number | null;
  /** Prompt tokens written to the cache. */
  cache_write?: number | null;
  /** Prompt tokens outside the cache. */
  input?: number | null;
  /** Tokens produced. */
  output?: number | null;
  /** Of those, reasoning. */
  reasoning?: number | null;
};

/** A new chat. */
export type Create = {
  /** The agent; the server's default if left out. */
  agent?: string | null;
  /** Whether the server records the requests and responses of the chat's provider calls. */
  debug?: boolean;
  /** The chat's own instructions, sent after the agent's: 16 KiB. */
  instructions?: string;
  /** Metadata of clients: 16 pairs, keys of 64 bytes, values of 512. The server only stores it. */
  metadata?: Record<string, string>;
  /** The first model to use, one of `GET /v1/models`; the agent's if left out. */
  model?: string | null;
  /** The title; made from the first message if left out. */
  title?: string | null;
  /** The chat's own tools, which its clients run: 32 tools, 32 KiB together. */
  tools?: Array<ClientTool>;
  /** Earlier messages: those of OpenAI Chat or Anthropic, or items of OpenAI Responses, without instructions. Every call must be followed by its result. */
  transcript?: Array<unknown> | null;
};

/** The currency of every amount of money. */
export type Currency = "USD";

/** An increment of the draft, or a retraction. */
export type Delta = AttemptDelta | TextDelta | ReasoningDelta | EndedDelta | CallDelta | InputDelta | CallEndedDelta | ProvidedDelta | SourceDelta | FileDelta | OtherDelta | UsageDelta | SeamDelta | RetractCallDelta | RetractAllDelta | NothingDelta;

/** The call may not run. */
export type DenyAnswer = {
  /** The call. */
  call: string;
  kind: "deny";
  /** The reason for the model. */
  reason?: string;
};

/** The model was done. */
export type DoneEnded = {
  how: "done";
};

/** The reply that is arriving. */
export type Draft = {
  /** The attempt under way, or the last one. */
  attempt?: Began | null;
  /** How many calls the step has begun, retracted ones included. */
  calls?: number;
  /** Whether the newest part still grows: the next text of its kind belongs to it. */
  grows?: boolean;
  /** The newest delta in it. */
  n: number;
  /** The parts so far. */
  parts: Array<Part>;
  /** The call of each slot of the running attempt. */
  slots?: Record<string, string>;
  /** The draft's step. */
  step: number;
  /** The usage that the attempt has reported. */
  usage?: Counts;
};

/** Something to break in front of a person. */
export type DrillKind = "cut" | "kill";

/** What to break. */
export type DrillOrder = {
  /** What. */
  what: DrillKind;
};

/** What was broken. */
export type Drilled = {
  /** Streams of the stand-in that were cut. */
  streams: number;
};

/** The new content of an edited message. */
export type Edit = {
  /** Words and files, in order, behind `text` if both are given. */
  parts?: Array<NewPart>;
  /** Words; a short form of one part. */
  text?: string | null;
};

/** The model's answer was empty, twice. */
export type EmptyEnded = {
  how: "empty";
};

/** The model was done. */
export type EndStop = {
  why: "end";
};

/** How a turn ended. */
export type Ended = DoneEnded | StopAfterEnded | InterruptedEnded | LengthEnded | FilteredEnded | EmptyEnded | StepsMaxEnded | TimeMaxEnded | TokensMaxEnded | CostMaxEnded | SameCallMaxEnded | FailedEnded;

/** An increment of the draft, or a retraction. */
export type EndedDelta = {
  /** When it was received. */
  at: number;
  kind: "ended";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
};

/** The error of a client's tool. */
export type ErrorAnswer = {
  /** The call. */
  call: string;
  kind: "error";
  /** The error for the model: text. JSON is given as text too. */
  output: string;
};

/** One event of a chat's stream. On the wire the name is in `event:` and the rest, as one line, in `data:`. */
export type Event = Message | Delta | Rewound | Standing | Snapshot;

/** A whole chat, without the bytes of its files. */
export type Export = {
  /** Every provider call, oldest first. */
  attempts: Array<Attempt>;
  /** The chat, with its status and usage. */
  chat: Chat;
  /** The version of this shape: 1. */
  format: number;
  /** All messages, oldest first. */
  messages: Array<Message>;
};

/** An error that could not be recovered. */
export type FailedEnded = {
  /** Attempts made in the step. */
  attempts: number;
  /** The provider's message, without keys. */
  detail: string;
  how: "failed";
  /** The kind of error. */
  kind: string;
  /** A message for users. */
  message: string;
};

/** Why a turn failed. */
export type Failure = {
  /** Attempts made in the step. */
  attempts: number;
  /** The provider's message, without keys. */
  detail: string;
  /** The kind of error. */
  kind: string;
  /** A message for users. */
  message: string;
};

/** A file or an image, without its bytes. */
export type File = {
  /** Its media type. */
  media_type: string;
  /** Its name, if it has one. */
  name: string;
  /** The size in bytes; none if the bytes are not stored any more. */
  size?: number | null;
};

/** An increment of the draft, or a retraction. */
export type FileDelta = {
  /** When it was received. */
  at: number;
  kind: "file";
  /** Its media type. */
  media_type: string;
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Its name, if it has one. */
  name: string;
  /** The size in bytes; none if the bytes are not stored any more. */
  size?: number | null;
  /** The draft's step. */
  step: number;
};

/** A file or an image. */
export type FileNewPart = {
  /** Its bytes in base64. */
  data: string;
  /** Its media type. */
  media_type: string;
  /** Its name. */
  name?: string;
  type: "file";
};

/** A file or an image. */
export type FilePart = {
  /** Its media type. */
  media_type: string;
  /** Its name, if it has one. */
  name: string;
  /** The size in bytes; none if the bytes are not stored any more. */
  size?: number | null;
  type: "file";
};

/** The provider cut the answer by its policy. */
export type FilteredEnded = {
  how: "filtered";
};

/** The provider or the model refused to go on. */
export type FilteredStop = {
  /** The provider's category, if it gave one. */
  category: string;
  /** Its explanation, if it gave one. */
  detail: string;
  why: "filtered";
};

/** A new chat that begins with the messages of another. */
export type Fork = {
  /** The last message to copy. */
  at: number;
  /** The first model to use; the source's if left out, the agent's if null. */
  model?: string | null;
  /** The title; the source's if left out. */
  title?: string | null;
};

/** The call may run, and so may the next ones that the `grant` of the open call covers. */
export type GrantAnswer = {
  /** The call. */
  call: string;
  /** The hash from the open call. */
  input_hash: string;
  kind: "grant";
  /** When the grant ends, in milliseconds since 1970: at most 30 days from now, which is what it is if left out. */
  until?: number | null;
};

/** A rule that a person agreed to when they approved a call. It answers later asks that it covers. */
export type GrantInfo = {
  /** When. */
  at: number;
  /** The name of the token that agreed. */
  by: string;
  /** The call that was asked about. It names the grant. */
  call: string;
  /** The rule. */
  rule: string;
  /** When it ends. It also ends when the tool's definition or the agent's rules change. */
  until: number;
};

/** The grants of a chat. */
export type GrantsList = {
  /** Those that have not ended, oldest first. */
  grants: Array<GrantInfo>;
};

/** A chat's entry in a list. */
export type Heading = {
  /** The chat's agent. */
  agent: string;
  /** Whether the chat is archived. */
  archived: boolean;
  /** Its id. */
  id: string;
  /** The chat whose call created this one, if it is a sub-agent's. */
  parent?: string | null;
  /** The chat's status. */
  status: Status;
  /** The title; empty before the first message. */
  title: string;
  /** When the last message was committed, or the chat was created. */
  touched: number;
  /** The number of commits. */
  version: number;
};

/** An increment of the draft, or a retraction. */
export type InputDelta = {
  /** When it was received. */
  at: number;
  /** The next piece of its JSON. */
  json: string;
  kind: "input";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Which call. */
  slot: number;
  /** The draft's step. */
  step: number;
};

/** A person stopped it. */
export type InterruptedEnded = {
  how: "interrupted";
};

/** A user stopped it. */
export type InterruptedStop = {
  why: "interrupted";
};

/** A command that goes on after the call that started it. */
export type JobInfo = {
  /** The call that started it. */
  call: string;
  /** Its exit code, if it exited. */
  code?: number | null;
  /** The command. */
  command: string;
  /** When it ended, if that is known. */
  ended?: number | null;
  /** Whether it outlives a restart of the server. */
  kept: boolean;
  /** Its number in the chat. */
  number: number;
  /** How many bytes it has printed. */
  output_bytes: number;
  /** How many seconds it may take. */
  seconds_max: number;
  /** The signal that ended it, if one did. */
  signal?: number | null;
  /** When it was started. */
  started: number;
  /** What became of it. */
  state: JobStatus;
};

/** What became of a background job. */
export type JobStatus = "running" | "exited" | "stopped" | "time_up" | "server_gone" | "lost";

/** The background jobs of a chat. */
export type JobsList = {
  /** The jobs, oldest first. Those that ended are kept for a while. */
  jobs: Array<JobInfo>;
};

/** The answer reached the output limit. */
export type LengthEnded = {
  how: "length";
};

/** The output limit was reached. */
export type LengthStop = {
  why: "length";
};

/** The lines of a server-sent event. */
export type Lines = {
  /** One line of JSON, of the event's shape. */
  data: string;
  /** The event's name. */
  event: string;
  /** The cursor to resume from, if a client can resume after this event. */
  id?: string | null;
};

/** A new or changed chat of the list. */
export type Listed = {
  /** The chat. */
  chat: string;
  /** Its entry in the list. */
  heading: Heading;
};

/** An open session, with its half that the page keeps. The other half is in the cookie of the response. */
export type LoggedIn = {
  /** The agent of chats that name none. */
  agent: string;
  /** The limits of requests. */
  bounds: RequestBounds;
  /** What `POST /v1/drill` breaks for show; nothing in a server that does real work. */
  drills?: Array<DrillKind>;
  /** When it ends; absent if never. */
  ends?: number | null;
  /** The id of the session or token, which gives no access. */
  id: string;
  /** The page key, for the header `x-everturn-key` of every request. */
  key: string;
  /** Its name. */
  name: string;
  /** The owner in whose name it acts. */
  owner: string;
  /** A hash of the page's document; absent if the server has no page. Another one means that a newer page is there. */
  page?: string | null;
  /** What it may do. */
  scopes: Array<ScopeName>;
  /** Whether the stand-in plays the model of that agent. */
  stand_in: boolean;
  /** The server's version. */
  version: string;
};

/** A login at the web page: a code, or a token that is not kept. */
export type Login = {
  /** A code of `POST /v1/codes`. */
  code?: string | null;
  /** A token, instead of a code. */
  token?: string | null;
};

/** A code that opens one session of the web page, once. */
export type LoginCode = {
  /** The code. */
  code: string;
  /** Until when it can be used. */
  ends: number;
  /** Where the page takes it, below the server's address. The code is in the fragment, which no request contains. */
  path: string;
};

/** An MCP server. */
export type McpServer = {
  /** Its name in the configuration. */
  name: string;
  /** The version of the protocol that it speaks. */
  protocol?: string | null;
  /** Why it failed, if it did the last time. */
  reason?: string | null;
  /** Tools of its list that cannot be used, with the reason. */
  refused?: Record<string, string>;
  /** For how many seconds it rests after failures. */
  rests_seconds?: number | null;
  /** Its own name and version. */
  server?: string | null;
  /** How it is. */
  state: McpState;
  /** Its tools, as it listed them last. */
  tools: Array<McpTool>;
  /** Its command or its address, without secrets. */
  what: string;
};

/** All MCP servers. */
export type McpServerList = {
  /** The servers, ordered by name. */
  servers: Array<McpServer>;
};

/** How an MCP server is. */
export type McpState = "configured" | "known" | "started" | "in_use" | "needs_login" | "resting" | "failed";

/** A tool of an MCP server. */
export type McpTool = {
  /** Whether a person decides on each call. */
  asks: boolean;
  /** What it does. */
  description: string;
  /** What running it twice does. */
  effect: ToolEffect;
  /** Why it is not offered, if it is not. */
  left_out?: string | null;
  /** The server's own name for it. */
  name: string;
  /** The name that models see. */
  offered: string;
};

/** The type and size of a medium, without its bytes. */
export type Media = {
  /** The media type. */
  media_type: string;
  /** The size in bytes. */
  size: number;
};

/** One committed entry of a chat. */
export type Message = UserMessage | ContextMessage | ReplyMessage | ResultMessage | SummaryMessage;

/** A page of messages, oldest first. */
export type Messages = {
  /** The `before` parameter of the previous page; none at the beginning. */
  before?: number | null;
  /** The messages. */
  messages: Array<Message>;
};

/** A model. */
export type Model = {
  /** The agents that use it, as first choice or as fallback. */
  agents: Array<string>;
  /** Its window in tokens, if known. */
  context_limit?: number | null;
  /** Its full name. */
  id: string;
  /** The output limit in tokens. */
  output_max?: number | null;
};

/** The agents' models, and those that a chat may choose beside them. */
export type Models = {
  /** The models. */
  models: Array<Model>;
};

/** Money in millionths of its currency. */
export type Money = {
  /** The currency. */
  currency?: Currency;
  /** For tokens that had to be estimated. */
  estimated_micros: number;
  /** For tokens that were reported. */
  known_micros: number;
};

/** A code to make, which opens one session of the web page. */
export type NewCode = {
  /** What the session may do: some of the token's scopes; all of them if left out. */
  scopes?: Array<ScopeName> | null;
};

/** A part of a message to send. */
export type NewPart = TextNewPart | FileNewPart;

/** A token to create. */
export type NewToken = {
  /** The token's name. */
  name: string;
  /** The owner in whose name it acts; the caller's owner if left out. */
  owner?: string | null;
  /** What it may do. */
  scopes: Array<ScopeName>;
  /** Lifetime in seconds; unlimited if left out. */
  seconds?: number | null;
};

/** An empty body, where one is sent at all. */
export type Nothing = Record<string, never>;

/** An increment of the draft, or a retraction. */
export type NothingDelta = {
  /** When it was received. */
  at: number;
  kind: "nothing";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
};

/** The calls that wait for a client or a person, by chat, most recently active chat first. */
export type OpenAsks = {
  /** The `after` of the next page; left out on the last one. */
  after?: string | null;
  /** The chats with open calls. */
  chats: Array<ChatAsks>;
};

/** An increment of the draft, or a retraction. */
export type OtherDelta = {
  /** When it was received. */
  at: number;
  kind: "other";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
};

/** A part of a kind that this version does not know. */
export type OtherPart = {
  type: "other";
};

/** A typed part of a message. */
export type Part = TextPart | ReasoningPart | CallPart | ProvidedPart | SourcePart | FilePart | OtherPart;

/** Changes of a chat. Fields that are left out stay as they are. */
export type Patch = {
  /** Whether the chat is archived. */
  archived?: boolean | null;
  /** Whether the server records the chat's provider calls from the next one on. */
  debug?: boolean | null;
  /** The first model to use from the next turn on, one of `GET /v1/models`; the agent's if null. */
  model?: string | null;
  /** The title. */
  title?: string | null;
};

/** Why a request failed. */
export type ProblemBody = {
  /** The chat as it is now, if its state is why the request failed. */
  chat?: Chat | null;
  /** What happened this time, and what to do. */
  detail: string;
  /** The HTTP status. */
  status: number;
  /** The type in words, for users. */
  title: string;
  /** The type of the problem. These names do not change. */
  type: string;
};

/** The progress of a running tool. It is not sent to the model. */
export type Progress = {
  /** The call. */
  call: string;
  /** The newest progress text; it replaces the one before. */
  text: string;
  /** The tool. */
  tool: string;
};

/** The result of a tool that ran at the provider. */
export type Provided = {
  /** When it was received. */
  at: number;
  /** The call of the result, if the provider named it. */
  call?: string | null;
  /** The output as the provider sent it. */
  output: unknown;
  /** The tool. */
  tool: string;
};

/** An increment of the draft, or a retraction. */
export type ProvidedDelta = {
  /** When it was received. */
  at: number;
  kind: "provided";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The outcome. */
  output: unknown;
  /** The call, if the provider said which. */
  slot?: number | null;
  /** The draft's step. */
  step: number;
  /** The tool. */
  tool: string;
};

/** The result of a tool that ran at the provider. */
export type ProvidedPart = {
  /** When it was received. */
  at: number;
  /** The call of the result, if the provider named it. */
  call?: string | null;
  /** The output as the provider sent it. */
  output: unknown;
  /** The tool. */
  tool: string;
  type: "provided";
};

/** A queued message. */
export type Queued = {
  /** When it was accepted. */
  at: number;
  /** Its id in the queue: the `id` that sending it returned. */
  id: number;
  /** The `Idempotency-Key` that it was sent with. */
  key?: string | null;
  /** The content. */
  parts: Array<Part>;
  /** Whether it goes in at the next step boundary rather than the next turn. */
  steers: boolean;
};

/** The model's thinking. */
export type Reasoning = {
  /** When it began. */
  began: number;
  /** When it ended, or last grew. */
  ended: number;
  /** The visible text; empty if the provider withholds it. */
  text: string;
};

/** An increment of the draft, or a retraction. */
export type ReasoningDelta = {
  /** When it was received. */
  at: number;
  kind: "reasoning";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
  /** The words. */
  text: string;
};

/** The model's thinking. */
export type ReasoningPart = {
  /** When it began. */
  began: number;
  /** When it ended, or last grew. */
  ended: number;
  /** The visible text; empty if the provider withholds it. */
  text: string;
  type: "reasoning";
};

/** An answer of the model. */
export type Reply = {
  /** How long the turn was at work since the reply before it, in milliseconds: provider calls, waits between their attempts, and tools; overlapping times count once. Waits for users are not included. */
  alive_ms?: number;
  /** The model's window in tokens, if known. */
  context_limit?: number | null;
  /** Where each of them is: the bytes (UTF-8) of the answer's text before it. */
  joined?: Array<number>;
  /** The model; the last one, if several contributed. */
  model: string;
  /** The parts, in order. */
  parts: Array<Part>;
  /** Tools whose calls were cut off and retracted. */
  retracted?: Array<string>;
  /** How long the model streamed, in milliseconds. */
  runtime_ms: number;
  /** How many times attempts were joined in it. */
  seams?: number;
  /** The step of the reply: the reply replaces that step's draft. */
  step: number;
  /** Why it ended. */
  stop: Stop;
  /** The usage that the last attempt reported. */
  usage?: Tokens | null;
};

/** One committed entry of a chat. */
export type ReplyMessage = {
  /** How long the turn was at work since the reply before it, in milliseconds: provider calls, waits between their attempts, and tools; overlapping times count once. Waits for users are not included. */
  alive_ms?: number;
  /** When it was committed. */
  at: number;
  /** The model's window in tokens, if known. */
  context_limit?: number | null;
  /** Its number in the chat. Numbers only grow; an edit leaves a gap. */
  id: number;
  /** Where each of them is: the bytes (UTF-8) of the answer's text before it. */
  joined?: Array<number>;
  kind: "reply";
  /** The model; the last one, if several contributed. */
  model: string;
  /** The parts, in order. */
  parts: Array<Part>;
  /** Tools whose calls were cut off and retracted. */
  retracted?: Array<string>;
  /** How long the model streamed, in milliseconds. */
  runtime_ms: number;
  /** How many times attempts were joined in it. */
  seams?: number;
  /** The step of the reply: the reply replaces that step's draft. */
  step: number;
  /** Why it ended. */
  stop: Stop;
  /** The usage that the last attempt reported. */
  usage?: Tokens | null;
};

/** The limits of requests, in bytes unless the name says otherwise. */
export type RequestBounds = {
  /** Any other body. */
  body_bytes_max: number;
  /** A body with messages or answers. */
  files_bytes_max: number;
  /** Chats in one stream. */
  followed_chats_max: number;
  /** Streams of a session at once. */
  streams_max: number;
};

/** The result of a client's tool. */
export type ResultAnswer = {
  /** The call. */
  call: string;
  kind: "result";
  /** The output for the model: text. JSON is given as text too. */
  output: string;
};

/** One committed entry of a chat. */
export type ResultMessage = {
  /** When it was committed. */
  at: number;
  /** When the tool was started, if it was. */
  began?: number | null;
  /** The call it answers. */
  call: string;
  /** Whether more is stored than `output` shows. */
  cut?: boolean;
  /** When the outcome was known. */
  ended: number;
  /** Its number in the chat. Numbers only grow; an edit leaves a gap. */
  id: number;
  kind: "result";
  /** Images and other media, without their bytes. */
  media?: Array<Media>;
  /** The output for the model. */
  output: string;
  /** The tool. */
  tool: string;
  /** How the call ended. */
  verdict: Verdict;
};

/** The result of a call. */
export type ResultOf = {
  /** When the tool was started, if it was. */
  began?: number | null;
  /** The call it answers. */
  call: string;
  /** Whether more is stored than `output` shows. */
  cut?: boolean;
  /** When the outcome was known. */
  ended: number;
  /** Images and other media, without their bytes. */
  media?: Array<Media>;
  /** The output for the model. */
  output: string;
  /** The tool. */
  tool: string;
  /** How the call ended. */
  verdict: Verdict;
};

/** An increment of the draft, or a retraction. */
export type RetractAllDelta = {
  /** When it was received. */
  at: number;
  kind: "retract_all";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
};

/** An increment of the draft, or a retraction. */
export type RetractCallDelta = {
  /** When it was received. */
  at: number;
  kind: "retract_call";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Its position among the step's calls. */
  ordinal: number;
  /** The draft's step. */
  step: number;
};

/** Why the next attempt waits. */
export type Retry = {
  /** The attempt that failed. */
  attempt: number;
  /** The kind of error. */
  kind: string;
  /** A message for users. */
  message: string;
  /** The earliest time of the next attempt. */
  until: number;
};

/** All messages from one on were removed. */
export type Rewound = {
  /** The first removed message. */
  from: number;
};

/** Where a tool runs. */
export type RunBy = "application" | "provider";

/** Why an attempt is made. */
export type Rung = "first" | "reattach" | "continue" | "restart" | "fall_back";

/** The model repeated a call with equal input too often. */
export type SameCallMaxEnded = {
  how: "same_call_max";
};

/** A scope of a token. */
export type ScopeName = "read" | "chat" | "approve" | "admin" | "metrics";

/** An increment of the draft, or a retraction. */
export type SeamDelta = {
  /** When it was received. */
  at: number;
  kind: "seam";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The bytes of text shown before. */
  shown: number;
  /** The draft's step. */
  step: number;
};

/** A new token with its secret, which is shown only once. */
export type Secret = {
  /** The token without its secret. */
  info: TokenInfo;
  /** The secret. */
  token: string;
};

/** A message to send. */
export type Send = {
  /** Words and files, in order, behind `text` if both are given. */
  parts?: Array<NewPart>;
  /** Words; a short form of one part. */
  text?: string | null;
  /** When a busy chat delivers it to the model; after the turn if left out. */
  when?: When | null;
};

/** The caller, and what the server allows. */
export type Session = {
  /** The agent of chats that name none. */
  agent: string;
  /** The limits of requests. */
  bounds: RequestBounds;
  /** What `POST /v1/drill` breaks for show; nothing in a server that does real work. */
  drills?: Array<DrillKind>;
  /** When it ends; absent if never. */
  ends?: number | null;
  /** The id of the session or token, which gives no access. */
  id: string;
  /** Its name. */
  name: string;
  /** The owner in whose name it acts. */
  owner: string;
  /** A hash of the page's document; absent if the server has no page. Another one means that a newer page is there. */
  page?: string | null;
  /** What it may do. */
  scopes: Array<ScopeName>;
  /** Whether the stand-in plays the model of that agent. */
  stand_in: boolean;
  /** The server's version. */
  version: string;
};

/** A session of the web page. */
export type SessionInfo = {
  /** Whether it is the session of this request. */
  current: boolean;
  /** When it ends. */
  ends?: number | null;
  /** The id, which gives no access. */
  id: string;
  /** When it was opened. */
  made: number;
  /** Its name. */
  name: string;
  /** The owner in whose name it acts. */
  owner: string;
  /** What it may do. */
  scopes: Array<ScopeName>;
};

/** The open sessions of the web page. */
export type SessionsList = {
  /** Oldest first. */
  sessions: Array<SessionInfo>;
};

/** A whole chat, or its newest page. */
export type Snapshot = {
  /** The reply that is arriving. */
  draft?: Draft | null;
  /** The newest page of messages, oldest first. */
  messages: Array<Message>;
  /** The chat's status. */
  status: Standing;
};

/** A source that an answer cites. */
export type Source = {
  /** The title. */
  title: string;
  /** The URL. */
  url: string;
};

/** An increment of the draft, or a retraction. */
export type SourceDelta = {
  /** When it was received. */
  at: number;
  kind: "source";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
  /** The title. */
  title: string;
  /** The URL. */
  url: string;
};

/** Why a summary was made. */
export type SourceOfSummary = "automatic" | "asked" | "overflow";

/** A source that the answer cites. */
export type SourcePart = {
  /** The title. */
  title: string;
  type: "source";
  /** The URL. */
  url: string;
};

/** Everything about a chat that is neither message nor draft. It replaces the status sent before. */
export type Standing = {
  /** Whether the chat is archived. */
  archived: boolean;
  /** Calls that wait for a client or a person. */
  asks: Array<Ask>;
  /** Calls of sub-agents that wait for a client or a person. They are read and answered at their chats. */
  asks_below?: Array<AskBelow>;
  /** When these calls time out. */
  awaits_until?: number | null;
  /** The summary that is being written. */
  compacting?: Summarising | null;
  /** Whether the server records the requests and responses of the chat's provider calls. */
  debug?: boolean;
  /** How the last turn ended; left out while one is under way. */
  ended?: Ended | null;
  /** The first model to use from the next turn on, if it is not the agent's. */
  model?: string | null;
  /** Progress of running tools. */
  progress?: Array<Progress>;
  /** Queued messages, next first. */
  queue: Array<Queued>;
  /** The newest accepted request that this status includes, by the `id` of its receipt. */
  received?: number;
  /** Why the next attempt waits. */
  retry?: Retry | null;
  /** The chat's status. */
  status: Status;
  /** The open step: a draft of an earlier one is over. */
  step: number;
  /** The title. */
  title: string;
  /** The `id`s of messages that were accepted and are not answered yet: those of the running turn, then the queued ones. A message that is `received` and not listed here is answered, or was deleted. */
  unanswered?: Array<number>;
  /** Usage and cost so far. */
  usage: Usage;
  /** As of this commit. */
  version: number;
};

/** The status of a chat. */
export type Status = "idle" | "running" | "interrupting" | "awaiting" | "failed";

/** The limit of steps per turn was reached. */
export type StepsMaxEnded = {
  how: "steps_max";
};

/** Why a reply ended. */
export type Stop = EndStop | ToolUseStop | LengthStop | FilteredStop | InterruptedStop | BrokenStop;

/** A tool that ends turns succeeded. */
export type StopAfterEnded = {
  how: "stop_after";
  /** The tool. */
  tool: string;
};

/** What all chats of sub-agents below a chat used, deleted ones included. */
export type SubAgentUsage = {
  /** How long turns were at work, in milliseconds, each chat for itself. */
  alive_ms: number;
  /** Their cost in millionths of `currency`, known and estimated. */
  cost_micros: number;
  /** The currency. */
  currency?: Currency;
  /** How many replies they gave. */
  steps: number;
  /** Sum of the times of provider calls and finished tool calls, in milliseconds. */
  time_ms: number;
  /** Prompt and output tokens, reported and estimated. */
  tokens: number;
};

/** A summary that is being written. */
export type Summarising = {
  /** When it began. */
  began: number;
  /** The model that writes it. */
  model: string;
  /** Why it is written. */
  source: SourceOfSummary;
};

/** A summary, which replaces everything before it in later prompts. */
export type Summary = {
  /** Why it was made. */
  source: SourceOfSummary;
  /** The summary. */
  text: string;
  /** Prompt tokens before. */
  tokens_before: number;
};

/** One committed entry of a chat. */
export type SummaryMessage = {
  /** When it was committed. */
  at: number;
  /** Its number in the chat. Numbers only grow; an edit leaves a gap. */
  id: number;
  kind: "summary";
  /** Why it was made. */
  source: SourceOfSummary;
  /** The summary. */
  text: string;
  /** Prompt tokens before. */
  tokens_before: number;
};

/** Words. */
export type Text = {
  /** The words. */
  text: string;
};

/** An increment of the draft, or a retraction. */
export type TextDelta = {
  /** When it was received. */
  at: number;
  kind: "text";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** The draft's step. */
  step: number;
  /** The words. */
  text: string;
};

/** Words. */
export type TextNewPart = {
  /** The words. */
  text: string;
  type: "text";
};

/** Words. */
export type TextPart = {
  /** The words. */
  text: string;
  type: "text";
};

/** The time limit of a turn was reached. */
export type TimeMaxEnded = {
  how: "time_max";
};

/** A token without its secret. */
export type TokenInfo = {
  /** When it expires. */
  expires?: number | null;
  /** The id, which gives no access. */
  id: string;
  /** When it was created. */
  made: number;
  /** The token's name. */
  name: string;
  /** The owner in whose name it acts. */
  owner: string;
  /** When it was revoked. */
  revoked?: number | null;
  /** What it may do. */
  scopes: Array<ScopeName>;
};

/** Tokens. */
export type Tokens = {
  /** Prompt tokens read from the cache. */
  cache_read: number;
  /** Prompt tokens written to the cache. */
  cache_write: number;
  /** Prompt tokens outside the provider's cache. */
  input: number;
  /** Tokens the model produced, reasoning included. */
  output: number;
  /** Of those, reasoning. */
  reasoning: number;
};

/** All tokens. */
export type TokensList = {
  /** Oldest first. */
  tokens: Array<TokenInfo>;
};

/** The limit of tokens per turn was reached. */
export type TokensMaxEnded = {
  how: "tokens_max";
};

/** What running a tool twice does. */
export type ToolEffect = "read" | "idempotent" | "once";

/** The model waits for tools. */
export type ToolUseStop = {
  why: "tool_use";
};

/** Calls whose changes of files are to be undone. */
export type UndoCalls = {
  /** The calls, 1 to 1000. Those that changed no file or were undone already are left out. */
  calls: Array<string>;
};

/** A chat's usage, including interrupted and failed attempts. */
export type Usage = {
  /** How long turns were at work, in milliseconds: provider calls, waits between their attempts, and tools; overlapping times count once. Waits for users are not included. */
  alive_ms?: number;
  /** How many provider calls were made. */
  attempts: number;
  /** The cost of the tokens, where the price is known. */
  cost: Money;
  /** Each provider call, oldest first. Only if requested. */
  each?: Array<Attempt>;
  /** Estimated tokens, where the provider reported none. */
  estimated: Tokens;
  /** Tokens as providers reported them. */
  known: Tokens;
  /** How many replies they gave. */
  steps?: number;
  /** What the chats of sub-agents used, which the other numbers do not include. On a stream it is up to date whenever a sub-agent has ended, and every 20 seconds in between. */
  sub_agents?: SubAgentUsage | null;
  /** Sum of the times of provider calls and finished tool calls, in milliseconds. */
  time_ms?: number;
};

/** An increment of the draft, or a retraction. */
export type UsageDelta = {
  /** When it was received. */
  at: number;
  /** Prompt tokens read from the cache. */
  cache_read?: number | null;
  /** Prompt tokens written to the cache. */
  cache_write?: number | null;
  /** Prompt tokens outside the cache. */
  input?: number | null;
  kind: "usage";
  /** Its number in the step: 1, 2, 3… without a gap. */
  n: number;
  /** Tokens produced. */
  output?: number | null;
  /** Of those, reasoning. */
  reasoning?: number | null;
  /** The draft's step. */
  step: number;
};

/** Usage. */
export type Used = {
  /** How long turns were at work, in milliseconds: provider calls, waits between their attempts, and tools; overlapping times count once. */
  alive_ms?: number;
  /** The cost of the tokens, in millionths of the currency, where the price is known. */
  cost_micros: number;
  /** Replies. */
  steps: number;
  /** Sum of the times of provider calls and finished tool calls, in milliseconds. */
  time_ms: number;
  /** Prompt and output, reported and estimated. */
  tokens: number;
};

/** One committed entry of a chat. */
export type UserMessage = {
  /** When it was committed. */
  at: number;
  /** Its number in the chat. Numbers only grow; an edit leaves a gap. */
  id: number;
  /** The `Idempotency-Key` that it was sent with. */
  key?: string | null;
  kind: "user";
  /** Text and files. */
  parts: Array<Part>;
  /** The `id` that sending it returned. Messages of earlier releases and imported ones have none. */
  receipt?: number | null;
};

/** How a call ended. */
export type Verdict = "done" | "error" | "denied" | "interrupted" | "unknown";

/** When a busy chat delivers a message to the model. */
export type When = "queue" | "steer" | "now";
