import type { Heading } from "@everturn/client";

import { hasList, linkState, list } from "../state/chats.js";
import { go, route } from "../state/route.js";

export function Sidebar() {
  const open = route.value.place === "chat" ? route.value.chat : undefined;
  return (
    <nav class="sidebar" aria-label="Chats">
      <div class="brand">Everturn</div>
      <a class="button" href="/" onClick={follow}>New chat</a>
      <ul class="chats">
        {list.value.map((heading) => <Entry key={heading.id} heading={heading} isOpen={heading.id === open} />)}
      </ul>
      {hasList.value && list.value.length === 0 && <p class="quiet">No chats yet.</p>}
      <div class="foot" data-link={linkState.value}>{linkState.value === "live" ? "Connected" : "Connecting…"}</div>
    </nav>
  );
}

function Entry({ heading, isOpen }: { heading: Heading; isOpen: boolean }) {
  return (
    <li>
      <a href={`/c/${heading.id}`} class={isOpen ? "chat open" : "chat"} aria-current={isOpen ? "page" : undefined} onClick={follow}>
        <span class={`dot ${heading.status}`} />
        <span class="title">{heading.title || "New chat"}</span>
      </a>
    </li>
  );
}

/** Goes to the address of a link without loading the page again. */
export function follow(event: MouseEvent): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go((event.currentTarget as HTMLAnchorElement).pathname + (event.currentTarget as HTMLAnchorElement).search);
}
