// Choices of the person, kept in this browser.

import { effect, signal, type Signal } from "@preact/signals";

function kept<T>(name: string, value: T): Signal<T> {
  const key = `everturn:setting:${name}`;
  let first = value;
  try {
    first = JSON.parse(localStorage.getItem(key) ?? "null") as T ?? value;
  } catch {
    // Not readable: the default.
  }
  const made = signal(first);
  effect(() => {
    const now = JSON.stringify(made.value);
    try {
      localStorage.setItem(key, now);
    } catch {
      // Lasts as long as the page.
    }
  });
  return made;
}

export type Theme = "system" | "light" | "dark";
export const theme = kept<Theme>("theme", "system");
/** Whether the page scrolls with an answer that outgrows it. */
export const follows = kept("follow", true);
/** Whether letters alone are commands outside of text fields. */
export const hasLetterKeys = kept("letters", true);
/** Whether Enter sends; else it is a new line, and the button sends. */
export const enterSends = kept("enter", true);

effect(() => {
  const root = document.documentElement;
  if (theme.value === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme.value);
});
