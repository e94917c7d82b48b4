// What a screen reader is told: beginnings and ends, and never the words as they come.

import { useEffect, useRef, useState } from "preact/hooks";

import { chats } from "../state/chats.js";
import { route } from "../state/route.js";

const TOLD: Record<string, string> = {
  interrupted: "Stopped. The partial answer is saved.",
  done: "Answer ready.",
  stop_after: "Answer ready.",
};

export function Announcer() {
  const { value } = route;
  const chat = value.place === "chat" && value.chat ? chats.get(value.chat) : undefined;
  const status = chat?.status.value;
  const before = useRef<{ chat: string; status: string } | undefined>(undefined);
  const [polite, setPolite] = useState("");
  const [urgent, setUrgent] = useState("");
  useEffect(() => {
    if (!chat || !status) return;
    const was = before.current?.chat === chat.id ? before.current.status : undefined;
    before.current = { chat: chat.id, status: status.status };
    if (was === undefined || was === status.status) return;
    setUrgent("");
    if (status.status === "running") setPolite(was === "awaiting" ? "Continuing." : "Answering.");
    else if (status.status === "awaiting") setUrgent(`Waiting for approval: ${status.asks.map((ask) => ask.tool).join(", ")}`);
    else if (status.status === "failed") setUrgent(status.ended?.how === "failed" ? status.ended.message : "The turn failed.");
    else if (status.status === "idle") setPolite(TOLD[status.ended?.how ?? "done"] ?? "The turn ended early.");
  }, [chat?.id, status?.status]);
  return (
    <div class="off-screen">
      <div role="status">{polite}</div>
      <div role="alert">{urgent}</div>
    </div>
  );
}
