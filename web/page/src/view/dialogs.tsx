// What opens above the page: the palette, the keys, and the settings.

import type { Heading } from "@everturn/client";
import { useEffect, useRef, useState } from "preact/hooks";

import { act, dialog } from "../state/actions.js";
import { list } from "../state/chats.js";
import { go, route } from "../state/route.js";
import { api, can, logout } from "../state/session.js";
import { enterSends, follows, hasLetterKeys, theme, type Theme } from "../state/settings.js";
import { Exact } from "./tool.js";

export function Dialogs() {
  switch (dialog.value) {
    case "palette": return <Palette />;
    case "help": return <Help />;
    case "settings": return <Settings />;
    default: return null;
  }
}

function Box({ name, children }: { name: string; children: preact.ComponentChildren }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    box.current?.showModal();
    return () => before?.focus();
  }, []);
  return (
    <dialog ref={box} aria-label={name} onClose={() => (dialog.value = undefined)}
      onClick={(event) => event.target === box.current && box.current?.close()}>
      {children}
    </dialog>
  );
}

interface Choice {
  name: string;
  hint: string;
  run: () => unknown;
}

function commands(): Choice[] {
  const isInChat = route.value.place === "chat" && route.value.chat;
  return [
    ...(can("chat") ? [{ name: "New chat", hint: "Ctrl-Shift-O", run: () => go("/") }] : []),
    ...(isInChat ? [{ name: "Details of this chat", hint: "Ctrl-.", run: () => act.look("turns") }] : []),
    ...(can("admin") || can("metrics") ? [{ name: "Operations", hint: "", run: () => go("/operations") }] : []),
    { name: "Keys", hint: "?", run: () => (dialog.value = "help") },
    { name: "Settings", hint: "", run: () => (dialog.value = "settings") },
  ];
}

function Palette() {
  const [text, setText] = useState("");
  const [found, setFound] = useState<readonly Heading[]>([]);
  const [at, setAt] = useState(0);
  useEffect(() => {
    if (text === "") return setFound([]);
    const timer = setTimeout(async () => setFound((await api.chats({ text, archived: true }).catch(() => undefined))?.chats ?? []), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const fits = (name: string) => name.toLowerCase().includes(text.toLowerCase());
  const known = list.value.filter((heading) => fits(heading.title)).slice(0, 8);
  const more = found.filter((heading) => !known.some((each) => each.id === heading.id)).slice(0, 8);
  const choices: Choice[] = [
    ...[...known, ...more].map((heading) => ({ name: heading.title || "New chat", hint: "chat", run: () => go(`/c/${heading.id}`) })),
    ...commands().filter((command) => fits(command.name)),
  ];
  const chosen = Math.min(at, choices.length - 1);
  const choose = (choice: Choice | undefined) => {
    dialog.value = undefined;
    choice?.run();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, choices.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, chosen - 1));
    else if (event.key === "Enter" && !event.isComposing) choose(choices[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <Box name="Find a chat or a command">
      <div class="palette">
        <input autofocus placeholder="Find a chat or a command" aria-label="Find a chat or a command" role="combobox" aria-expanded="true" aria-controls="choices"
          aria-activedescendant={`choice-${chosen}`} onKeyDown={onKey} onInput={(event) => (setText(event.currentTarget.value.trim()), setAt(0))} />
        <ul id="choices" role="listbox" aria-label="Found">
          {choices.map((choice, place) => (
            <li key={place} id={`choice-${place}`} role="option" aria-selected={place === chosen} onClick={() => choose(choice)} onPointerMove={() => setAt(place)}>
              <span><Exact text={choice.name} /></span><span class="quiet">{choice.hint}</span>
            </li>
          ))}
        </ul>
      </div>
    </Box>
  );
}

const KEYS: Array<[string, string]> = [
  ["Enter", "Send; queue while the model works"],
  ["Shift Enter", "New line"],
  ["Ctrl Enter", "Steer: the model reads it at its next step"],
  ["Alt Enter", "Stop, and send now"],
  ["Esc", "Close what is open, else stop"],
  ["↑", "In an empty box: edit the last message"],
  ["Ctrl K", "Find a chat or a command"],
  ["Ctrl Shift O", "New chat"],
  ["Alt ↑  Alt ↓", "Previous, next chat"],
  ["Ctrl .", "Details of the chat"],
  ["/", "Go to the box"],
  ["j  k", "Next, previous message"],
  ["c  e  f  y", "Copy, edit, fork, copy the link of the message"],
  ["End  G", "To the newest message"],
  ["a  d", "Go to the buttons Allow, Deny of an approval"],
  ["?", "This list"],
];

function Help() {
  return (
    <Box name="Keys">
      <h2>Keys</h2>
      <table class="keys">
        <tbody>{KEYS.map(([keys, what]) => <tr key={keys}><td>{keys.split(/ +/).map((key) => <kbd key={key}>{key}</kbd>)}</td><td>{what}</td></tr>)}</tbody>
      </table>
      <p class="quiet">On a Mac, ⌘ does the same as Ctrl. Single letters work outside of text fields, and can be turned off in the settings.</p>
    </Box>
  );
}

function Settings() {
  return (
    <Box name="Settings">
      <h2>Settings</h2>
      <label class="setting">Appearance
        <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
          <option value="system">As the system</option><option value="light">Light</option><option value="dark">Dark</option>
        </select>
      </label>
      <Check setting={follows} name="Scroll along with a long answer" />
      <Check setting={enterSends} name="Enter sends (else Ctrl-Enter does)" />
      <Check setting={hasLetterKeys} name="Single letters are commands" />
      <div class="dialog-buttons">
        <button class="button" onClick={() => (dialog.value = "help")}>Keys</button>
        <button class="button" onClick={logout}>Log out</button>
      </div>
    </Box>
  );
}

function Check({ setting, name }: { setting: { value: boolean }; name: string }) {
  return (
    <label class="setting">{name}
      <input type="checkbox" checked={setting.value} onChange={(event) => (setting.value = event.currentTarget.checked)} />
    </label>
  );
}
