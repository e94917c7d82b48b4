// The address of what is shown.

import { signal } from "@preact/signals";

export type Route =
  | { place: "chat"; chat: string | undefined; look: string | undefined; message: number | undefined }
  | { place: "operations" };

export const route = signal<Route>(read());

function read(): Route {
  const { pathname, search, hash } = location;
  if (pathname === "/operations") return { place: "operations" };
  const chat = /^\/c\/([^/]+)$/.exec(pathname)?.[1];
  const message = /^#m(\d+)$/.exec(hash)?.[1];
  const look = new URLSearchParams(search).get("look") ?? undefined;
  return { place: "chat", chat, look, message: message === undefined ? undefined : Number(message) };
}

/** Goes to an address of this page. */
export function go(address: string, replace = false): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  route.value = read();
}

addEventListener("popstate", () => (route.value = read()));
