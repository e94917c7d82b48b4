// The list of chats.

import type { Heading } from "@everturn/client";
import { useEffect, useRef, useState } from "preact/hooks";

import { dialog, isListShown } from "../state/actions.js";
import { hasList, linkState, list } from "../state/chats.js";
import { ago } from "../state/format.js";
import { go, route } from "../state/route.js";
import { api, can, hasNewPage, now, session } from "../state/session.js";
import { Icon } from "./icons.js";
import { useSeconds } from "./ticking.js";
import { Exact } from "./tool.js";

/** A cut that heals within this time is not mentioned. */
const QUIET_MS = 1500;
const SEARCH_MS = 200;

export function Sidebar() {
  const open = route.value.place === "chat" ? route.value.chat : undefined;
  const [found, setFound] = useState<readonly Heading[] | undefined>(undefined);
  const [older, setOlder] = useState<readonly Heading[]>([]);
  const known = new Set(list.value.map((heading) => heading.id));
  const shown = found ?? [...list.value, ...older.filter((heading) => !known.has(heading.id))];
  const more = async () => {
    const last = shown.at(-1);
    if (!last) return;
    const page = await api.chats({ after: `${last.touched}.${last.id}` }).catch(() => undefined);
    if (page) setOlder([...older, ...page.chats]);
  };
  return (
    <>
      {isListShown.value && <div class="shade" onClick={() => (isListShown.value = false)} />}
      <nav class={isListShown.value ? "sidebar shown" : "sidebar"} aria-label="Chats">
        <div class="brand">
          <a href="/" onClick={follow}>Everturn</a>
          <button class="action" aria-label="Settings" title="Settings" onClick={() => (dialog.value = "settings")}><Icon name="more" /></button>
          <button class="action list-button" aria-label="Hide the chats" onClick={() => (isListShown.value = false)}><Icon name="close" /></button>
        </div>
        {can("chat") && <a class="button new" href="/" onClick={follow}><Icon name="add" />New chat</a>}
        <Search onFound={setFound} />
        <ul class="chats">
          {shown.map((heading) => <Entry key={heading.id} heading={heading} isOpen={heading.id === open} />)}
          {!found && hasList.value && list.value.length + older.length >= 50 && older.length % 50 === 0 && (
            <li><button class="link" onClick={more}>Show older chats</button></li>
          )}
        </ul>
        {found?.length === 0 && <p class="quiet none">Nothing found.</p>}
        {!found && hasList.value && list.value.length === 0 && <p class="quiet none">Your chats will be listed here.</p>}
        <Foot />
      </nav>
    </>
  );
}

function Search({ onFound }: { onFound: (found: readonly Heading[] | undefined) => void }) {
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const wanted = useRef("");
  const search = (text: string) => {
    wanted.current = text;
    clearTimeout(timer.current);
    if (text === "") return onFound(undefined);
    timer.current = setTimeout(async () => {
      const page = await api.chats({ text, archived: true }).catch(() => undefined);
      if (page && wanted.current === text) onFound(page.chats);
    }, SEARCH_MS);
  };
  return (
    <label class="search">
      <Icon name="search" />
      <input type="search" placeholder="Search" aria-label="Search chats" onInput={(event) => search(event.currentTarget.value.trim())} />
    </label>
  );
}

const WORDS: Partial<Record<Heading["status"], string>> = {
  running: "Working", interrupting: "Stopping", awaiting: "Waiting for you", failed: "Failed",
};

function Entry({ heading, isOpen }: { heading: Heading; isOpen: boolean }) {
  const words = heading.archived ? "Archived" : WORDS[heading.status];
  return (
    <li>
      <a href={`/c/${heading.id}`} class={isOpen ? "entry open" : "entry"} aria-current={isOpen ? "page" : undefined} onClick={follow}>
        <span class="entry-title"><Exact text={heading.title || "New chat"} /></span>
        <span class={`entry-state ${heading.status}`}>{words ?? ago(heading.touched, now())}</span>
      </a>
    </li>
  );
}

function Foot() {
  const isLive = linkState.value === "live";
  const since = useRef(Date.now());
  const [, redraw] = useState(0);
  useEffect(() => {
    since.current = Date.now();
    if (isLive) return undefined;
    const timer = setTimeout(() => redraw((count) => count + 1), QUIET_MS + 50);
    return () => clearTimeout(timer);
  }, [isLive]);
  useSeconds(!isLive);
  const away = Date.now() - since.current;
  const isQuiet = isLive || away < QUIET_MS;
  const words = isQuiet ? "Connected" : linkState.value === "off" ? "Paused, other tabs are connected" : away < 30_000 && navigator.onLine ? "Reconnecting…" : "Offline. What you write is kept.";
  return (
    <div class="foot">
      {(can("metrics") || can("admin")) && <a href="/operations" onClick={follow}><Icon name="chart" />Operations</a>}
      {hasNewPage.value && <p role="status">A newer page is here. <button class="link" onClick={() => location.reload()}>Reload</button></p>}
      <p class="link-state" role="status"><span class={isQuiet ? "dot live" : "dot away"} />{words}<span class="quiet owner">{session.value?.owner}</span></p>
    </div>
  );
}

/** Goes to the address of a link without loading the page again. */
export function follow(event: MouseEvent): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  const link = event.currentTarget as HTMLAnchorElement;
  isListShown.value = false;
  go(link.pathname + link.search);
}
