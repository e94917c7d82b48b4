// Blocks that contain text: paragraphs, headings, code and tables. Each is open at the end of the document alone.

import { colourLine, type Language, languageOf, type LineState, START } from "./colour.js";
import { type Ending, hasOpenMark, type Inline, inlines } from "./inline.js";
import { element, filled, InlineBox } from "./nodes.js";

/** A text over this length is closed at a sentence, so that the open rest stays short. */
const LEAF_LEN_MAX = 2048;
/** How many lines of code share a box. */
const BOX_LEN = 32;
/** A longer line of code is cut into several nodes. */
const LINE_LEN_MAX = 2048;
/** After so many rows a table goes on in a new one of the same widths. */
const ROWS_MAX = 50;

export interface Leaf {
  /** The node that is open now. */
  readonly node: HTMLElement;
  /** Whether the end of the line ends the block. */
  readonly isOneLine: boolean;
  /** More of the unfinished line. */
  grow(text: string): void;
  endLine(): void;
  draw(ending: Ending): void;
}

export class Paragraph implements Leaf {
  node = element("p");
  readonly isOneLine: boolean = false;
  text = "";
  /** Whether a part of it is closed already. */
  isCut = false;
  #box = new InlineBox(this.node);
  #lookedAt = LEAF_LEN_MAX;

  grow(text: string): void {
    this.text += text;
    while (this.text.length >= this.#lookedAt) this.#cut();
  }

  /** The next line of it. */
  next(line: string): void {
    this.grow(`\n${line}`);
  }

  endLine(): void {}

  draw(ending: Ending): void {
    // The head of a table is known by the next line.
    const isHeld = ending === "open" && !this.isCut && this.text.startsWith("|") && !this.text.includes("\n");
    this.#box.draw(isHeld ? [] : inlines(ending === "open" ? this.text : this.text.trimEnd(), ending));
  }

  /** Closes what stands before the last end of a sentence. Depends on the text alone, not on how it arrived. */
  #cut(): void {
    const window = this.text.slice(0, this.#lookedAt);
    const ends = [...window.matchAll(/[.!?。！？…](?=[\s])|[ \n]/g)].map((found) => found.index + 1);
    const sentences = ends.filter((end) => window[end - 1] !== " " && window[end - 1] !== "\n").slice(-8).reverse();
    const end = sentences.find((end) => !hasOpenMark(window.slice(0, end)))
      ?? (this.#lookedAt >= 4 * LEAF_LEN_MAX ? ends.at(-1) ?? this.#lookedAt : undefined);
    if (end === undefined || end < 64) {
      this.#lookedAt += LEAF_LEN_MAX;
      return;
    }
    this.#box.draw(inlines(this.text.slice(0, end)));
    // A block of its own, so that the browser need not lay out the words before again.
    const next = element("p");
    this.node.className = "cut";
    this.node.after(next);
    this.node = next;
    this.#box = new InlineBox(next);
    this.text = this.text.slice(end).trimStart();
    this.isCut = true;
    this.#lookedAt = LEAF_LEN_MAX;
  }
}

export class Heading implements Leaf {
  readonly node: HTMLElement;
  readonly isOneLine = true;
  #text = "";
  readonly #box: InlineBox;

  /** The page has a heading of its own, so those of answers begin two levels below it. */
  constructor(level: number) {
    this.node = element(`h${Math.min(6, level + 2)}`, `level-${level}`);
    this.#box = new InlineBox(this.node);
  }

  grow(text: string): void {
    this.#text += text;
  }

  endLine(): void {}

  draw(ending: Ending): void {
    const text = this.#text.trimEnd().replace(/(^|[ \t])#+$/, "").trimEnd();
    this.#box.draw(inlines(text, ending));
  }
}

export class Code implements Leaf {
  readonly node = element("div", "code");
  readonly isOneLine = false;
  readonly isFenced: boolean;
  readonly #code = element("code");
  readonly #language: Language | undefined;
  #box: HTMLElement | undefined;
  #boxLen = 0;
  #state: LineState = START;
  #line = "";
  #shown = 0;
  #lineNode: HTMLElement | undefined;
  #lineLen = 0;
  #hasLine = false;
  /** Blank lines at the end of indented code do not belong to it. */
  #blanks = "";

  constructor(info: string, readonly indent: number, readonly fence = "") {
    this.isFenced = fence !== "";
    const name = /^[^\s{]*/.exec(info)?.[0] ?? "";
    this.#language = languageOf(name);
    const head = element("div", "code-head");
    const copy = filled(element("button", "copy"), "Copy");
    copy.setAttribute("type", "button");
    head.append(filled(element("span"), name || "text"), copy);
    const pre = element("pre");
    pre.setAttribute("tabindex", "0");
    pre.append(this.#code);
    this.node.append(head, pre);
  }

  /** Whether this line ends the block. */
  isClosedBy(line: string): boolean {
    const sign = this.fence[0] as string;
    return line.length >= this.fence.length && [...line].every((each) => each === sign);
  }

  /** Whether a line that begins so could end the block. */
  couldClose(beginning: string): boolean {
    const sign = this.fence[0] as string;
    const rest = beginning.trimEnd();
    return this.isFenced && [...rest].every((each) => each === sign);
  }

  grow(text: string): void {
    this.#hasLine = true;
    this.#line += text;
  }

  next(line: string): void {
    this.grow(line);
  }

  endLine(): void {
    if (!this.#hasLine) return; // The line of the fence.
    this.#hasLine = false;
    if (!this.isFenced && this.#line.trim() === "") {
      this.#blanks += `${this.#line}\n`;
      this.#line = "";
      return;
    }
    this.#flushBlanks();
    this.#openLine();
    const node = this.#lineNode as HTMLElement;
    if (this.#language && this.#line.length <= LINE_LEN_MAX) {
      const { pieces, state } = colourLine(this.#line, this.#language, this.#state);
      this.#state = state;
      while (node.firstChild) node.firstChild.remove();
      for (const { text, kind } of pieces) {
        node.append(kind ? filled(element("span", kind), text) : document.createTextNode(text));
      }
    } else {
      this.#drawLine();
    }
    node.append(document.createTextNode("\n"));
    this.#line = "";
    this.#shown = 0;
    this.#lineNode = undefined;
  }

  draw(ending: Ending): void {
    if (!this.#hasLine || !this.isFenced && this.#line.trim() === "") return;
    this.#flushBlanks();
    this.#openLine();
    this.#drawLine();
    if (ending === "closed") this.endLine();
  }

  #flushBlanks(): void {
    for (const blank of this.#blanks.split("\n").slice(0, -1)) {
      this.#openLine();
      (this.#lineNode as HTMLElement).append(document.createTextNode(`${blank}\n`));
      this.#lineNode = undefined;
    }
    this.#blanks = "";
  }

  #openLine(): void {
    if (this.#lineNode) return;
    if (!this.#box || this.#boxLen === BOX_LEN) {
      this.#box = element("span", "box");
      this.#code.append(this.#box);
      this.#boxLen = 0;
    }
    this.#boxLen += 1;
    this.#lineNode = element("span");
    this.#lineLen = 0;
    this.#box.append(this.#lineNode);
  }

  #drawLine(): void {
    let more = this.#line.slice(this.#shown);
    this.#shown = this.#line.length;
    while (more !== "") {
      const node = this.#lineNode as HTMLElement;
      const room = LINE_LEN_MAX - this.#lineLen;
      const piece = more.slice(0, room);
      more = more.slice(piece.length);
      const last = node.lastChild?.lastChild;
      if (last && this.#lineLen > 0) (last as Text).appendData(piece);
      else node.append(filled(element("span", "piece"), piece));
      this.#lineLen += piece.length;
      if (this.#lineLen === LINE_LEN_MAX) this.#lineLen = 0;
    }
  }
}

type Align = "" | "left" | "center" | "right";

/** The columns of a table, if these two lines begin one. */
export function tableHeader(head: string, line: string): Align[] | undefined {
  if (head.includes("\n") || !head.includes("|") && !line.includes("|") || !/^[-:| \t]+$/.test(line)) return undefined;
  const cells = cellsOf(line);
  if (!cells.every((cell) => /^:?-+:?$/.test(cell)) || cells.length !== cellsOf(head).length) return undefined;
  return cells.map((cell) => {
    const isRight = cell.endsWith(":");
    return cell.startsWith(":") ? (isRight ? "center" : "left") : isRight ? "right" : "";
  });
}

export class Table implements Leaf {
  readonly node = element("div", "table");
  readonly isOneLine = false;
  #body: HTMLElement | undefined;
  #rows = 0;
  #row: HTMLElement | undefined;
  #cells: InlineBox[] = [];
  #line = "";

  constructor(head: string, readonly columns: Align[]) {
    const table = element("table");
    const top = element("thead");
    const row = element("tr");
    cellsOf(head).forEach((cell, at) => {
      const node = this.#cell("th", at);
      new InlineBox(node).draw(inlines(cell));
      row.append(node);
    });
    top.append(row);
    table.append(top);
    this.node.append(table);
  }

  row(line: string): void {
    this.#line = line;
    this.#row = element("tr");
    this.#cells = this.columns.map((_, at) => {
      const node = this.#cell("td", at);
      this.#row?.append(node);
      return new InlineBox(node);
    });
    this.#bodyFor().append(this.#row);
  }

  grow(text: string): void {
    this.#line += text;
  }

  endLine(): void {
    this.draw("closed");
    this.#row = undefined;
  }

  draw(ending: Ending): void {
    if (!this.#row) return;
    const cells = cellsOf(this.#line);
    this.#cells.forEach((box, at) => box.draw(inlines(cells[at] ?? "", at === cells.length - 1 ? ending : "closed")));
  }

  #cell(name: string, at: number): HTMLElement {
    const align = this.columns[at];
    return element(name, align || undefined);
  }

  #bodyFor(): HTMLElement {
    if (!this.#body) {
      this.#body = element("tbody");
      this.node.lastChild?.appendChild(this.#body);
    } else if (this.#rows > 0 && this.#rows % ROWS_MAX === 0) {
      this.#body = this.#continuation();
    }
    this.#rows += 1;
    return this.#body;
  }

  /** A table of the same widths, so that the rows before need not be laid out again. */
  #continuation(): HTMLElement {
    const before = this.node.lastChild as HTMLElement;
    const cells = [...(before.querySelectorAll?.("tr:first-child > *") ?? [])] as HTMLElement[];
    const widths = cells.map((cell) => cell.offsetWidth);
    const table = element("table", "more");
    if (widths.length > 0) {
      const group = element("colgroup");
      for (const width of widths) {
        const column = element("col");
        column.style.setProperty("width", `${width}px`);
        group.append(column);
      }
      table.append(group);
      table.style.setProperty("width", `${before.offsetWidth}px`);
    }
    const body = element("tbody");
    table.append(body);
    this.node.append(table);
    return body;
  }
}

function cellsOf(line: string): string[] {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

export type { Inline };
