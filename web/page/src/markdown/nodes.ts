// DOM nodes of Markdown. Everything is made by `createElement`: no text is ever read as HTML.

import type { Inline } from "./inline.js";

export function element(name: string, className?: string): HTMLElement {
  const node = document.createElement(name);
  if (className) node.className = className;
  return node;
}

/** Draws inline items into a node, and keeps what is already there and equal. */
export class InlineBox {
  #shown: Inline[] = [];
  #keys: string[] = [];

  constructor(readonly node: HTMLElement) {}

  draw(items: Inline[]): void {
    const keys = items.map((item) => JSON.stringify(item));
    let same = 0;
    while (same < keys.length && keys[same] === this.#keys[same]) same += 1;
    const was = this.#shown[same];
    const is = items[same];
    // The usual case: the last text has grown.
    if (was?.kind === "text" && is?.kind === "text" && is.text.startsWith(was.text) && same === this.#shown.length - 1) {
      (this.node.childNodes[same] as Text).appendData(is.text.slice(was.text.length));
      same += 1;
    }
    while (this.node.childNodes.length > same) this.node.lastChild?.remove();
    for (const item of items.slice(same)) this.node.append(nodeOf(item));
    this.#shown = items;
    this.#keys = keys;
  }
}

function nodeOf(item: Inline): Node {
  switch (item.kind) {
    case "text": return document.createTextNode(item.text);
    case "break": return element("br");
    case "code": return filled(element("code"), item.text);
    case "image": return link(item.href, [{ kind: "text", text: item.alt || "image" }], true);
    case "link": return link(item.href, item.inside, false);
    default: {
      const node = element(item.kind);
      for (const each of item.inside) node.append(nodeOf(each));
      return node;
    }
  }
}

export function filled(node: HTMLElement, text: string): HTMLElement {
  node.append(document.createTextNode(text));
  return node;
}

/** A link shows its host if its text is something else, so that a text cannot pretend to lead elsewhere. */
function link(href: string, inside: Inline[], isImage: boolean): Node {
  const node = element("a", isImage ? "image" : "");
  const host = hostOf(href);
  // An address that is still arriving leads nowhere yet.
  if (host !== "…") {
    node.setAttribute("href", href);
    node.setAttribute("rel", "noopener noreferrer");
    node.setAttribute("target", "_blank");
  }
  for (const item of inside) node.append(nodeOf(item));
  const text = node.textContent ?? "";
  if (host && host !== "…" && !text.includes(host)) node.append(filled(element("span", "host"), host));
  return node;
}

/** The host of an address, as the browser would ask it: punycode stays raw. */
function hostOf(href: string): string {
  if (href === "https://…") return "…";
  try {
    return new URL(href).host.replace(/^www\./, "");
  } catch {
    return "";
  }
}
