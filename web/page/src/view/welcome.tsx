// What a new chat shows: what one can ask, and, without a key, what the stand-in can show.

import { useEffect } from "preact/hooks";

import { give } from "../state/chats.js";
import { modelName } from "../state/format.js";
import { go } from "../state/route.js";
import { can, session } from "../state/session.js";
import { newLocal } from "./chat.js";
import { loadModels, models } from "./header.js";
import { Icon, type IconName } from "./icons.js";

interface Card {
  icon: IconName;
  title: string;
  about: string;
  say: string;
}

const SCENES: Card[] = [
  { icon: "file", title: "A long answer", about: "Headings, a table and code, while they are written", say: "long" },
  { icon: "tool", title: "A tool call", about: "The result is stored before the model goes on", say: "dice" },
  { icon: "key", title: "An approval", about: "A call that waits for you, also over a restart", say: "note" },
  { icon: "again", title: "A broken connection", about: "The answer breaks off and goes on, without losing a word", say: "break" },
];

const EXAMPLES: Card[] = [
  { icon: "spark", title: "Explain something", about: "How does a write-ahead log survive a power cut?", say: "How does a write-ahead log survive a power cut?" },
  { icon: "file", title: "Write code", about: "A rate limiter in Rust, with tests", say: "Write a token-bucket rate limiter in Rust, with tests." },
  { icon: "chart", title: "Compare", about: "SQLite and Postgres for a small service, as a table", say: "Compare SQLite and Postgres for a small service, as a table." },
];

async function ask(text: string): Promise<void> {
  const chat = newLocal();
  await give(chat, { verb: "create", body: {} });
  await give(chat, { verb: "send", body: { text } });
  go(`/c/${chat}`);
}

export function Welcome() {
  useEffect(() => void loadModels(), []);
  const used = models.value.filter((model) => model.agents.length > 0);
  const isStandIn = session.value?.stand_in ?? (used.length > 0 && used.every((model) => model.id.startsWith("understudy/")));
  const cards = isStandIn ? SCENES : EXAMPLES;
  return (
    <div class="welcome">
      <div class="welcome-inner">
        <h2>{isStandIn ? "Welcome to Everturn" : "What can I do for you?"}</h2>
        {isStandIn && (
          <p class="lead">
            No provider has a key yet, so a stand-in plays the model. It knows a few scenes; everything around it is the real
            thing. With <code>ANTHROPIC_API_KEY</code>, <code>OPENAI_API_KEY</code> or <code>GEMINI_API_KEY</code> set, a real model answers.
          </p>
        )}
        {can("chat") && (
          <div class="cards">
            {cards.map((card) => (
              <button key={card.title} class="card-button" onClick={() => ask(card.say)}>
                <Icon name={card.icon} /><strong>{card.title}</strong><span>{card.about}</span>
              </button>
            ))}
          </div>
        )}
        {isStandIn && can("chat") && <BreakIt />}
        {!isStandIn && used[0] && <p class="quiet">{modelName(used[0].id)} answers.</p>}
      </div>
    </div>
  );
}

function BreakIt() {
  return (
    <section class="break-it">
      <h3>Break it yourself</h3>
      <ol>
        <li><button class="link" onClick={() => ask("slow")}>Start a slow answer.</button></li>
        <li>While it is written, {session.value?.drills?.includes("kill")
          ? "reload this page, switch off your network, or press “kill the server” below the answer: another one takes its place."
          : session.value?.drills?.length
            ? <>reload this page, press “cut the model’s stream” below the answer, or kill the server with <code>kill -9</code> and start it again.</>
            : <>reload this page, switch off your network, or kill the server with <code>kill -9</code> and start it again.</>}</li>
        <li>The answer goes on. The page then checks that every word it had shown is still stored, and says so.</li>
      </ol>
    </section>
  );
}
