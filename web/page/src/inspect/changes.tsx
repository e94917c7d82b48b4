// Files that calls have changed, and commands that go on in the background.

import type { ChangedFile, JobInfo } from "@everturn/client";
import { useEffect, useState } from "preact/hooks";

import { say, tried } from "../state/actions.js";
import type { ChatState } from "../state/chats.js";
import { dateAndTime, some } from "../state/format.js";
import { api, can } from "../state/session.js";
import { Exact } from "../view/tool.js";

const KINDS: Record<ChangedFile["kind"], string> = { created: "created", changed: "changed", changed_for_good: "changed, cannot be undone" };
const JOBS: Record<JobInfo["state"], string> = {
  running: "running", exited: "ended", stopped: "stopped", time_up: "time was up", server_gone: "ended with the server", lost: "nothing is known of its end",
};

export function Changes({ chat }: { chat: ChatState }) {
  const [changes, setChanges] = useState<readonly ChangedFile[] | undefined>(undefined);
  const [jobs, setJobs] = useState<readonly JobInfo[]>([]);
  const version = chat.status.value?.version;
  const read = async () => {
    const [files, list] = await Promise.all([tried(api.changes(chat.id)), tried(api.jobs(chat.id))]);
    setChanges(files?.changes ?? []);
    setJobs(list?.jobs ?? []);
  };
  useEffect(() => void read(), [chat, version]);
  const undo = async (change: ChangedFile) => {
    const done = await tried(api.undo(chat.id, [change.call]));
    if (done) say(`${some(done.changes.length, "file")} restored. The model is not told.`);
    await read();
  };
  const stop = async (job: JobInfo) => {
    await tried(api.stopJob(chat.id, job.number));
    await read();
  };
  if (!changes) return <p class="quiet">Loading…</p>;
  return (
    <>
      {changes.length === 0 && jobs.length === 0 && <p class="quiet">No call has changed a file, and no command runs in the background.</p>}
      {jobs.map((job) => (
        <section class="job" key={job.number}>
          <pre><Exact text={job.command} /></pre>
          <p class="quiet">{JOBS[job.state]}, since {dateAndTime(job.started)}</p>
          {job.state === "running" && can("chat") && <button class="button small" onClick={() => stop(job)}>Stop</button>}
        </section>
      ))}
      {changes.map((change) => (
        <details class="change" key={change.call + change.path}>
          <summary><Exact text={change.path} /> <span class="quiet">{change.state === "undone" ? "undone" : change.state === "not_made" ? "not made" : KINDS[change.kind]}</span></summary>
          <Diff text={change.diff} />
          {change.state === "made" && change.kind !== "changed_for_good" && can("chat") && <button class="button small" onClick={() => undo(change)}>Undo</button>}
        </details>
      ))}
    </>
  );
}

function Diff({ text }: { text: string }) {
  return (
    <pre class="diff" tabIndex={0}>
      {text.split("\n").map((line, at) => (
        <span key={at} class={line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : ""}><Exact text={line} />{"\n"}</span>
      ))}
    </pre>
  );
}
