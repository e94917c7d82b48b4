// Buttons that break things, where the stand-in plays the model and nothing real can be broken.

import type { DrillKind, Drilled } from "@everturn/client";

import { say } from "../state/actions.js";
import type { ChatState } from "../state/chats.js";
import { api, can, session } from "../state/session.js";

const NAMES: Record<DrillKind, string> = { cut: "cut the model’s stream", kill: "kill the server" };

/** Offered while an answer arrives. */
export function Drill({ chat }: { chat: ChatState }) {
  const kinds = session.value?.drills ?? [];
  if (kinds.length === 0 || chat.status.value?.status !== "running" || !can("chat")) return null;
  return (
    <p class="drill quiet">
      Break it:{" "}
      {kinds.map((kind, at) => (
        <span key={kind}>{at > 0 && " · "}<button type="button" class="link" onClick={() => order(kind)}>{NAMES[kind]}</button></span>
      ))}
    </p>
  );
}

/** Sent once: the server that would answer may be gone by then. */
async function order(what: DrillKind): Promise<void> {
  try {
    await api.once<Drilled>("/v1/drill", { method: "POST", body: { what } });
  } catch (error) {
    if (what === "cut") say(error instanceof Error ? error.message : "The stream could not be cut.", true);
  }
}
