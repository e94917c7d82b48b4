// One line at the end of a chat: what it is doing, or how its last turn ended. What heals by itself is grey and quiet.

import type { Ended, Standing as Status } from "@everturn/client";

import { editWith } from "../state/actions.js";
import type { ChatState } from "../state/chats.js";
import { duration, modelName, some } from "../state/format.js";
import { proof } from "../state/proof.js";
import { can, now } from "../state/session.js";
import { Icon } from "./icons.js";
import { useSeconds } from "./ticking.js";

/** A model that has not answered for so long is mentioned. */
const PATIENCE_MS = 1500;

export function Standing({ chat }: { chat: ChatState }) {
  const status = chat.status.value;
  const shown = proof.value?.chat === chat.id ? proof.value : undefined;
  if (!status) return null;
  return (
    <>
      {shown && (
        <p class={shown.holds ? "standing proof" : "standing failed"}>
          <Icon name={shown.holds ? "check" : "cross"} />
          {shown.holds
            ? `All ${some(shown.words, "word")} shown before are here, unchanged. Away for ${duration(shown.awayMs)}.`
            : "The answer is not the one that was shown before the connection was cut. Please report this."}
        </p>
      )}
      {status.status === "running" || status.status === "interrupting" || status.compacting
        ? <Doing chat={chat} status={status} />
        : status.ended && <HowEnded chat={chat} ended={status.ended} />}
    </>
  );
}

function Doing({ chat, status }: { chat: ChatState; status: Status }) {
  useSeconds(true);
  void chat.revision.value;
  const { draft } = chat;
  const parts = draft?.step === status.step ? draft.parts.length : 0;
  if (status.status === "interrupting") return <Line>Stopping…</Line>;
  if (status.compacting) return <Line>Summarising earlier messages with {modelName(status.compacting.model)}…</Line>;
  if (status.retry) {
    const left = Math.max(0, Math.ceil((status.retry.until - now()) / 1000));
    return <Line>{status.retry.message} {left > 0 ? `Next attempt in ${left} s.` : "Trying again…"}</Line>;
  }
  const { attempt } = draft ?? {};
  if (attempt && attempt.rung !== "first" && draft?.grows !== true) {
    const isOther = attempt.rung === "fall_back";
    return <Line>{isOther ? `The model cannot be reached; ${modelName(attempt.model)} answers instead…` : "The answer broke off; continuing…"}</Line>;
  }
  if (parts === 0) return <Waiting chat={chat} model={attempt?.model ?? status.model ?? ""} />;
  return null;
}

function Waiting({ chat, model }: { chat: ChatState; model: string }) {
  const last = chat.messages.value.at(-1);
  const since = last ? now() - last.at : 0;
  return (
    <p class="standing">
      <span class="pulse" aria-hidden="true" />
      {since > PATIENCE_MS && `Waiting for ${modelName(model) || "the model"}, ${duration(since)}`}
    </p>
  );
}

function Line({ children }: { children: preact.ComponentChildren }) {
  return <p class="standing"><span class="pulse" aria-hidden="true" />{children}</p>;
}

const ENDS: Partial<Record<Ended["how"], string>> = {
  interrupted: "Stopped. The partial answer is saved.",
  length: "The answer reached the output limit of the model.",
  filtered: "The provider ended the answer by its policy.",
  empty: "The model's answer was empty, twice.",
  steps_max: "The turn reached its limit of steps.",
  time_max: "The turn reached its time limit.",
  tokens_max: "The turn reached its limit of tokens.",
  cost_max: "The turn reached its cost limit.",
  same_call_max: "The model repeated the same call too often.",
};

function HowEnded({ chat, ended }: { chat: ChatState; ended: Ended }) {
  const user = chat.messages.value.findLast((message) => message.kind === "user");
  const again = user?.kind === "user" && can("chat") && (
    <button class="button small" onClick={() => editWith(chat, user, undefined)}><Icon name="again" />Try again</button>
  );
  if (ended.how === "failed") {
    return (
      <div class="standing failed" role="alert">
        <p>{ended.message}</p>
        <details>
          <summary>Details</summary>
          <p>{ended.kind}, after {some(ended.attempts, "attempt")}</p>
          {ended.detail && <pre>{ended.detail}</pre>}
        </details>
        {again}
      </div>
    );
  }
  if (ended.how === "stop_after") return <p class="standing">The turn ended with {ended.tool}.</p>;
  const text = ENDS[ended.how];
  return text ? <p class="standing"><Icon name="stop" />{text}</p> : null;
}
