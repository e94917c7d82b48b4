// The session of the page. It has two halves: a cookie that scripts cannot read, and a key that other sites and ports
// cannot read. A request needs both.

import { signal } from "@preact/signals";
import { Api, Refused } from "@everturn/client";
import type { DrillKind, ScopeName } from "@everturn/client";

export interface Session {
  owner: string;
  scopes: ScopeName[];
  ends?: number | null;
  version?: string;
  /** Whether the stand-in plays the model, because no provider has a key. */
  stand_in?: boolean;
  /** A hash of the page that the server has. */
  page?: string | null;
  /** What can be broken for show; nothing where a real model answers. */
  drills?: DrillKind[];
}

/** `checking` before the first answer; `out` needs a login; `ended`: what is on screen stays readable. */
export type Phase = "checking" | "out" | "in" | "ended";

const KEY = "everturn:key";

export const phase = signal<Phase>("checking");
export const session = signal<Session | undefined>(undefined);
/** Why the last login failed, for the person. */
export const loginError = signal("");
/** Whether the server has another page than this one. */
export const hasNewPage = signal(false);
/** The server's clock minus that of this machine. */
export const clockOffset = signal(0);

let key = readKey();

export const api = new Api({
  headers: () => (key ? { "x-everturn-key": key } : {}) as Record<string, string>,
  onUnauthorized: () => {
    if (phase.value === "in") phase.value = "ended";
  },
});

/** The server's time now, in milliseconds. */
export const now = (): number => Date.now() + clockOffset.value;

export const can = (scope: ScopeName): boolean => session.value?.scopes.includes(scope) ?? false;

/** Takes a one-time code out of the address, if there is one, and reads the session. */
export async function enter(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", "/");
    if (await login({ code })) return;
  }
  try {
    accept(await api.once<Session>("/v1/session"));
  } catch (error) {
    // A server that is away is no reason to log in again: the link finds it when it is back.
    if (error instanceof Refused && !(error.status >= 500)) phase.value = "out";
    else setTimeout(() => void enter(), 1000);
  }
}

/** Exchanges a one-time code or a token for a session. Returns whether that worked. */
export async function login(proof: { code: string } | { token: string }): Promise<boolean> {
  loginError.value = "";
  try {
    const made = await api.once<Session & { key: string }>("/v1/session", { method: "POST", body: proof });
    key = made.key;
    try {
      localStorage.setItem(KEY, key);
    } catch {
      // Without storage the session lasts as long as the page.
    }
    accept(made);
    return true;
  } catch (error) {
    loginError.value = error instanceof Refused ? refusedWith(error, "code" in proof) : "The server cannot be reached.";
    if (phase.value === "checking") phase.value = "out";
    return false;
  }
}

/** Ends the session on the server, and forgets everything that this page stored. */
export async function logout(): Promise<void> {
  await api.once("/v1/session", { method: "DELETE" }).catch(() => undefined);
  key = "";
  localStorage.clear();
  sessionStorage.clear();
  indexedDB.deleteDatabase("everturn");
  location.assign("/");
}

/** Finds out whether a server that came back has a newer page. */
export async function lookForNewPage(): Promise<void> {
  const before = session.value?.page;
  if (!before || hasNewPage.value) return;
  const found = await api.once<Session>("/v1/session").catch(() => undefined);
  if (found?.page && found.page !== before) hasNewPage.value = true;
}

function accept(given: Session): void {
  session.value = given;
  phase.value = "in";
}

function refusedWith(error: Refused, isCode: boolean): string {
  if (error.status === 429) return "Too many attempts. Wait a minute, then try again.";
  if (error.status !== 401) return error.message;
  return isCode ? "This link was used before or is too old. Run `everturn open` again." : "The server does not know this token.";
}

function readKey(): string {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}
