// Markdown that grows: text is pushed as it arrives, and each push costs the same however long the text is.
//
// A finished line is read once. Of the unfinished line only what cannot change its kind is shown, so nothing flickers: a run
// of `#`, `-`, `|` or digits is held back until it is decided. A block that was closed is never touched again. Pushed in any
// pieces, the same text gives the same nodes.

import { Code, Heading, type Leaf, Paragraph, Table, tableHeader } from "./leaves.js";
import { element } from "./nodes.js";

/** How many blocks share a box that the browser need not lay out while it is off screen. */
const CHUNK_LEN = 12;
/** After so many items a list goes on in a new one, so that those before need not be laid out again. */
const ITEMS_MAX = 40;
/** Deeper containers are text. */
const DEPTH_MAX = 16;

type Container =
  | { kind: "root" | "quote"; node: HTMLElement }
  | { kind: "item"; node: HTMLElement; list: List; indent: number; isEmpty: boolean };

interface List {
  node: HTMLElement;
  mark: string;
  isOrdered: boolean;
  /** The number of the next item. */
  next: number;
  /** Items of this node. */
  len: number;
  /** Whether the last line of the list was blank. */
  hasBlank: boolean;
}

interface Marker {
  mark: string;
  isOrdered: boolean;
  start: number;
  /** Columns up to the content. */
  width: number;
  rest: string;
}

export class MarkdownStream {
  readonly #root: HTMLElement;
  #chunk: HTMLElement;
  #chunkLen = 0;
  #containers: Container[];
  /** The list that an item of the same kind would continue, for each depth. */
  #lists: Array<List | undefined> = [];
  #leaf: Leaf | undefined;
  #isOpenInLeaf = false;
  #partial = "";
  #isBegun = false;
  #carriage = "";

  constructor(root: HTMLElement) {
    this.#root = root;
    this.#chunk = element("div", "chunk");
    this.#root.append(this.#chunk);
    this.#containers = [{ kind: "root", node: this.#root }];
  }

  /** Adds text, and draws it. */
  push(text: string): void {
    let more = this.#carriage + text;
    this.#carriage = "";
    if (more.endsWith("\r")) {
      this.#carriage = "\r";
      more = more.slice(0, -1);
    }
    const lines = more.replaceAll("\r\n", "\n").split("\n");
    for (let at = 0; at < lines.length; at++) {
      this.#grow(lines[at] as string);
      if (at < lines.length - 1) this.#endLine();
    }
    this.#leaf?.draw("open");
  }

  /** Draws what was held back: nothing more comes. */
  finish(): void {
    if (this.#carriage) this.#grow(this.#carriage);
    this.#carriage = "";
    if (this.#partial !== "" || this.#isBegun) this.#endLine();
    this.#closeLeaf();
  }

  #grow(piece: string): void {
    if (piece === "") return;
    this.#partial += piece;
    if (this.#isBegun) {
      if (this.#isOpenInLeaf) this.#leaf?.grow(piece);
    } else if (this.#isDecided(this.#partial)) {
      this.#isBegun = true;
      this.#isOpenInLeaf = this.#line(this.#partial);
    }
  }

  #endLine(): void {
    if (!this.#isBegun) this.#line(this.#partial);
    this.#leaf?.endLine();
    if (this.#leaf?.isOneLine) this.#closeLeaf();
    this.#partial = "";
    this.#isBegun = false;
    this.#isOpenInLeaf = false;
  }

  /** Whether more characters on this line cannot change what begins with it. */
  #isDecided(text: string): boolean {
    const { depth, rest } = this.#matched(text);
    if (this.#leaf instanceof Code && this.#leaf.isFenced && depth === this.#containers.length) {
      const trimmed = rest.trimStart();
      return trimmed !== "" && !this.#leaf.couldClose(trimmed);
    }
    return isDecided(rest, this.#leaf instanceof Table);
  }

  /** How many containers the line continues, and what is left of it. */
  #matched(text: string): { depth: number; rest: string } {
    let rest = text;
    let depth = 1;
    for (; depth < this.#containers.length; depth++) {
      const container = this.#containers[depth] as Container;
      if (container.kind === "quote") {
        const found = /^ {0,3}> ?/.exec(rest);
        if (!found) break;
        rest = rest.slice(found[0].length);
      } else if (container.kind === "item") {
        const isBlank = rest.trim() === "";
        const indent = indentOf(rest);
        if (isBlank && container.isEmpty || !isBlank && indent < container.indent) break;
        rest = isBlank ? "" : dedented(rest, container.indent);
      }
    }
    return { depth, rest };
  }

  /** Reads the beginning of a line. Returns whether the rest of it belongs to the open leaf. */
  #line(text: string): boolean {
    const matched = this.#matched(text);
    let { depth, rest } = matched;
    const isLazy = depth < this.#containers.length;
    const open = this.#leaf;
    if (open instanceof Code && !isLazy && this.#inCode(open, rest)) return this.#leaf !== undefined;
    let hasBegun = false;
    for (;;) {
      if (rest.trim() === "") break;
      const isText = this.#leaf instanceof Paragraph && !hasBegun;
      if (indentOf(rest) >= 4) {
        if (isText) break;
        if (!(this.#leaf instanceof Paragraph)) {
          this.#closeTo(depth);
          return this.#begin(new Code("", 0), dedented(rest, 4));
        }
        break;
      }
      const quote = /^ {0,3}> ?/.exec(rest);
      if (quote && depth < DEPTH_MAX) {
        this.#closeTo(depth);
        this.#closeLeaf();
        const node = element("blockquote");
        this.#attach(node);
        this.#containers.push({ kind: "quote", node });
        rest = rest.slice(quote[0].length);
      } else {
        const marker = depth < DEPTH_MAX ? markerOf(rest, isText && !isLazy) : undefined;
        if (!marker || isRule(rest) || isText && this.#isSetext(rest, isLazy)) break;
        this.#closeTo(depth);
        this.#closeLeaf();
        this.#item(marker, depth);
        rest = marker.rest;
      }
      depth = this.#containers.length;
      hasBegun = true;
    }
    return this.#content(rest, depth, isLazy && !hasBegun, hasBegun);
  }

  /** What stands behind the markers of containers. */
  #content(rest: string, depth: number, isLazy: boolean, isFirst: boolean): boolean {
    const trimmed = rest.trim();
    if (trimmed === "") {
      this.#blank(depth);
      return false;
    }
    const leaf = this.#leaf;
    if (indentOf(rest) < 4) {
      const heading = /^(#{1,6})(?:[ \t]+|$)/.exec(rest.trimStart());
      const fence = /^(`{3,}|~{3,})(.*)$/.exec(rest.trimStart());
      if (leaf instanceof Paragraph && !isLazy && this.#becomes(leaf, trimmed)) return false;
      if (heading) {
        this.#closeTo(depth);
        return this.#begin(new Heading((heading[1] as string).length), rest.trimStart().slice(heading[0].length));
      }
      if (fence && !(fence[1]?.startsWith("`") && fence[2]?.includes("`"))) {
        this.#closeTo(depth);
        this.#begin(new Code((fence[2] as string).trim(), indentOf(rest), fence[1] as string));
        return false;
      }
      if (isRule(rest)) {
        this.#closeTo(depth);
        this.#closeLeaf();
        this.#attach(element("hr"));
        return false;
      }
    }
    if (leaf instanceof Table && !isLazy) {
      leaf.row(rest);
      return true;
    }
    if (leaf instanceof Paragraph) {
      leaf.next(rest.trimStart());
      return true;
    }
    this.#closeTo(depth);
    return this.#begin(new Paragraph(), isFirst ? this.#task(rest.trimStart()) : rest.trimStart());
  }

  /** A line of an open code block. Returns false if the line ends the block and is something else. */
  #inCode(code: Code, rest: string): boolean {
    if (code.isFenced) {
      if (indentOf(rest) < 4 && code.isClosedBy(rest.trim())) {
        this.#closeLeaf();
      } else {
        code.next(dedented(rest, Math.min(code.indent, indentOf(rest))));
      }
      return true;
    }
    if (rest.trim() !== "" && indentOf(rest) < 4) return false;
    code.next(dedented(rest, Math.min(4, indentOf(rest))));
    return true;
  }

  #isSetext(rest: string, isLazy: boolean): boolean {
    return !isLazy && /^ {0,3}(-+|=+)[ \t]*$/.test(rest);
  }

  /** Makes a heading or the head of a table of the paragraph before this line. */
  #becomes(leaf: Paragraph, line: string): boolean {
    if (leaf.isCut) return false;
    const columns = tableHeader(leaf.text, line);
    if (columns) {
      const table = new Table(leaf.text, columns);
      leaf.node.replaceWith(table.node);
      this.#leaf = table;
      return true;
    }
    if (/^(-+|=+)$/.test(line)) {
      const heading = new Heading(line.startsWith("=") ? 1 : 2);
      heading.grow(leaf.text.replaceAll("\n", " "));
      leaf.node.replaceWith(heading.node);
      this.#leaf = heading;
      this.#closeLeaf();
      return true;
    }
    return false;
  }

  #blank(depth: number): void {
    if (this.#leaf instanceof Code && this.#leaf.isFenced) return;
    this.#closeLeaf();
    // A blank line ends quotes that it does not continue, and an item that began with nothing.
    const at = this.#containers.findIndex((each, place) => place >= depth && each.kind === "quote");
    if (at > 0) this.#closeTo(at);
    for (const container of this.#containers) {
      if (container.kind === "item") container.list.hasBlank = true;
    }
  }

  /** Begins an item, in the list before it if that goes on. */
  #item(marker: Marker, depth: number): void {
    const before = this.#lists[depth];
    let list = before && before.mark === marker.mark && before.isOrdered === marker.isOrdered ? before : undefined;
    if (!list) {
      list = { node: this.#list(marker, marker.start, "tight"), mark: marker.mark, isOrdered: marker.isOrdered, next: marker.start, len: 0, hasBlank: false };
      this.#lists.length = depth;
      this.#lists[depth] = list;
    } else {
      if (list.hasBlank) list.node.className = "loose";
      if (list.len === ITEMS_MAX) {
        this.#chunkLen = CHUNK_LEN;
        list.node = this.#list(marker, list.next, list.node.className);
        list.len = 0;
        this.#lists.length = depth;
        this.#lists[depth] = list;
      }
    }
    list.hasBlank = false;
    list.next += 1;
    list.len += 1;
    const node = element("li");
    list.node.append(node);
    this.#containers.push({ kind: "item", node, list, indent: marker.width, isEmpty: marker.rest.trim() === "" });
  }

  #list({ isOrdered }: Marker, start: number, className: string): HTMLElement {
    const node = element(isOrdered ? "ol" : "ul", className);
    if (isOrdered && start !== 1) node.setAttribute("start", String(start));
    this.#attach(node);
    return node;
  }

  /** Takes the box of a task from the beginning of an item. */
  #task(rest: string): string {
    const item = this.#containers.at(-1);
    const found = item?.kind === "item" && item.node.childNodes.length === 0 ? /^\[([ xX])\](?=\s)/.exec(rest) : null;
    if (!found || item?.kind !== "item") return rest;
    const box = element("input") as HTMLInputElement;
    box.setAttribute("type", "checkbox");
    box.setAttribute("disabled", "");
    if (found[1] !== " ") box.setAttribute("checked", "");
    item.node.className = "task";
    item.node.append(box);
    return rest.slice(found[0].length).trimStart();
  }

  #begin(leaf: Leaf, text?: string): boolean {
    this.#closeLeaf();
    this.#attach(leaf.node);
    this.#leaf = leaf;
    if (text !== undefined) leaf.grow(text);
    return true;
  }

  #closeLeaf(): void {
    this.#leaf?.draw("closed");
    this.#leaf = undefined;
  }

  /** Closes all containers from this depth on. */
  #closeTo(depth: number): void {
    if (this.#containers.length > depth) {
      this.#closeLeaf();
      this.#containers.length = depth;
      this.#lists.length = Math.min(this.#lists.length, depth + 1);
    }
  }

  /** Adds a block to the innermost container. */
  #attach(node: HTMLElement): void {
    const inner = this.#containers.at(-1) as Container;
    this.#lists.length = Math.min(this.#lists.length, this.#containers.length);
    if (inner.kind === "item") {
      inner.isEmpty = false;
      // A second block behind a blank line makes the list a loose one.
      if (inner.list.hasBlank && inner.node.childNodes.length > 0) inner.list.node.className = "loose";
    }
    for (const each of this.#containers) {
      if (each.kind === "item") each.list.hasBlank = false;
    }
    if (inner.kind !== "root") {
      inner.node.append(node);
      return;
    }
    if (this.#chunkLen === CHUNK_LEN) {
      this.#chunk = element("div", "chunk");
      this.#root.append(this.#chunk);
      this.#chunkLen = 0;
    }
    this.#chunkLen += 1;
    this.#chunk.append(node);
  }
}

/** Whether the beginning of a line is decided, behind the markers of open containers. */
function isDecided(text: string, isInTable: boolean, isItem = false): boolean {
  const indent = indentOf(text);
  const rest = text.trimStart();
  if (rest === "") return false;
  if (indent >= 4) return true;
  if (isItem && /^\[([ xX]?\]?|[ xX]\]\s*)$/.test(rest)) return false;
  if (rest.startsWith(">")) {
    const inside = rest.slice(1);
    return inside !== "" && isDecided(inside.replace(/^ /, ""), isInTable);
  }
  if (/^[-=*_+:| \t]*$/.test(rest)) return false;
  const bullet = /^(?:[-+*]|\d{1,9}[.)])([ \t]+)(.*)$/.exec(rest);
  if (bullet) return bullet[2] !== "" && isDecided(bullet[2] as string, false, true);
  if (/^\d{1,9}[.)]?$/.test(rest)) return false;
  if (rest.startsWith("#")) return !/^#{1,6}[ \t]*$/.test(rest);
  if (rest.startsWith("`")) return /^`{1,2}[^`]/.test(rest);
  if (rest.startsWith("~")) return /^~{1,2}[^~]/.test(rest);
  // The head of a table is known by the line below it; but a row of a table shows at once.
  return isInTable || !rest.startsWith("|");
}

/** A list marker at the beginning of a line. */
function markerOf(text: string, interrupts: boolean): Marker | undefined {
  const found = /^( {0,3})([-+*]|(\d{1,9})([.)]))([ \t]+|$)/.exec(text);
  if (!found) return undefined;
  const [all, before, sign, digits, delimiter, space] = found as unknown as [string, string, string, string, string, string];
  const after = text.slice(all.length);
  // An empty item, or one that does not begin with 1, does not interrupt a paragraph.
  if (interrupts && (after.trim() === "" || digits && Number(digits) !== 1)) return undefined;
  const spaces = columns(space, before.length + sign.length);
  const isFar = spaces > 4 || after.trim() === "";
  const width = before.length + sign.length + (isFar ? 1 : spaces);
  const rest = isFar && after.trim() !== "" ? " ".repeat(spaces - 1) + after : after;
  return { mark: digits ? delimiter : sign, isOrdered: Boolean(digits), start: Number(digits ?? 0), width, rest };
}

function isRule(text: string): boolean {
  return /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/.test(text);
}

function columns(space: string, from: number): number {
  let at = from;
  for (const each of space) at += each === "\t" ? 4 - (at % 4) : 1;
  return at - from;
}

/** How many columns of space a line begins with. */
function indentOf(text: string): number {
  return columns(/^[ \t]*/.exec(text)?.[0] ?? "", 0);
}

/** The line without this many columns of space. */
function dedented(text: string, width: number): string {
  let at = 0;
  let column = 0;
  while (column < width && (text[at] === " " || text[at] === "\t")) {
    column += text[at] === "\t" ? 4 - (column % 4) : 1;
    at += 1;
  }
  return " ".repeat(Math.max(0, column - width)) + text.slice(at);
}
