// The inside of a line of Markdown: emphasis, code, links. A subset of CommonMark and GFM without raw HTML and references.

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "em" | "strong" | "del"; inside: Inline[] }
  | { kind: "link"; href: string; inside: Inline[] }
  | { kind: "image"; href: string; alt: string }
  | { kind: "break" };

interface Run {
  kind: "run";
  mark: string;
  count: number;
  whole: number;
  canOpen: boolean;
  canClose: boolean;
}

interface Bracket {
  kind: "bracket";
  isImage: boolean;
  isActive: boolean;
  at: number;
}

type Item = Inline | Run | Bracket;

/** `open`: more may come, so marks without an end are shown as if they ended here. */
export type Ending = "open" | "closed";

const SPECIAL = /[\\`*_~[\]!<&\n]|https?:\/\/|www\./g;
const ESCAPED = /[!-/:-@[-`{-~]/;
const SPACE = /\s/;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const SCHEMES = /^(https?:\/\/[^/]|mailto:)/i;
const ENTITIES: Record<string, string> = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", trade: "™", hellip: "…",
  mdash: "—", ndash: "–", larr: "←", rarr: "→", times: "×", deg: "°", euro: "€", para: "¶", sect: "§", middot: "·",
};

/** Parses a text without block structure. */
export function inlines(text: string, ending: Ending = "closed"): Inline[] {
  const parser = new Parser(text, ending);
  return merged(parser.parse());
}

/** Whether something in the text waits for its end: a mark, a bracket, or code. */
export function hasOpenMark(text: string): boolean {
  const parser = new Parser(text, "closed");
  const items = parser.scan();
  return parser.hasOpenCode || items.some((item) => item.kind === "bracket" || item.kind === "run" && item.canOpen);
}

class Parser {
  #at = 0;
  readonly #items: Item[] = [];
  hasOpenCode = false;

  constructor(readonly text: string, readonly ending: Ending) {}

  parse(): Inline[] {
    const items = this.scan();
    return settled(this.ending === "open" ? closedEarly(items) : items);
  }

  /** All items, with emphasis resolved; what is left of marks has no partner. */
  scan(): Item[] {
    const { text } = this;
    while (this.#at < text.length) {
      SPECIAL.lastIndex = this.#at;
      const found = SPECIAL.exec(text);
      const next = found ? found.index : text.length;
      if (next > this.#at) this.#say(text.slice(this.#at, next));
      this.#at = next;
      if (found) this.#special(found[0]);
    }
    emphasise(this.#items, 0);
    return this.#items;
  }

  #say(text: string): void {
    const last = this.#items.at(-1);
    if (last?.kind === "text") last.text += text;
    else this.#items.push({ kind: "text", text });
  }

  #special(sign: string): void {
    switch (sign) {
      case "\\": return this.#escape();
      case "`": return this.#code();
      case "*": case "_": case "~": return this.#run(sign);
      case "[": return this.#bracket(false);
      case "]": return this.#close();
      case "<": return this.#angle();
      case "&": return this.#entity();
      case "\n": return this.#newline();
      case "!":
        if (this.text[this.#at + 1] === "[") return this.#bracket(true);
        this.#at += 1;
        return this.#say("!");
      default: return this.#bare();
    }
  }

  #escape(): void {
    const next = this.text[this.#at + 1];
    if (next === "\n") {
      this.#items.push({ kind: "break" });
      this.#at += 2;
      this.#skipSpaces();
    } else if (next !== undefined && ESCAPED.test(next)) {
      this.#say(next);
      this.#at += 2;
    } else {
      if (next !== undefined || this.ending === "closed") this.#say("\\");
      this.#at += 1;
    }
  }

  #code(): void {
    const open = /^`+/.exec(this.text.slice(this.#at))?.[0] ?? "`";
    const from = this.#at + open.length;
    let end = -1;
    const runs = /`+/g;
    runs.lastIndex = from;
    for (let run = runs.exec(this.text); run; run = runs.exec(this.text)) {
      if (run[0].length === open.length) {
        end = run.index;
        break;
      }
    }
    if (end < 0) {
      this.hasOpenCode = true;
      if (this.ending === "open" && open.length < 3) {
        if (from < this.text.length) this.#items.push({ kind: "code", text: this.text.slice(from).replace(/`+$/, "") });
        this.#at = this.text.length;
        return;
      }
      this.#say(open);
      this.#at = from;
      return;
    }
    let inside = this.text.slice(from, end).replaceAll("\n", " ");
    if (inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "") inside = inside.slice(1, -1);
    this.#items.push({ kind: "code", text: inside });
    this.#at = end + open.length;
  }

  #run(mark: string): void {
    let end = this.#at;
    while (this.text[end] === mark) end += 1;
    const count = end - this.#at;
    const before = this.#before();
    const after = end < this.text.length ? String.fromCodePoint(this.text.codePointAt(end) as number) : " ";
    const isSpaceAfter = SPACE.test(after);
    const isSpaceBefore = SPACE.test(before);
    const isLeft = !isSpaceAfter && (!PUNCTUATION.test(after) || isSpaceBefore || PUNCTUATION.test(before));
    const isRight = !isSpaceBefore && (!PUNCTUATION.test(before) || isSpaceAfter || PUNCTUATION.test(after));
    const isWord = mark === "_";
    this.#at = end;
    if (mark === "~" && count !== 2 && count !== 1) return this.#say(mark.repeat(count));
    this.#items.push({
      kind: "run",
      mark,
      count,
      whole: count,
      canOpen: isLeft && (!isWord || !isRight || PUNCTUATION.test(before)),
      canClose: isRight && (!isWord || !isLeft || PUNCTUATION.test(after)),
    });
  }

  #before(): string {
    if (this.#at === 0) return " ";
    const low = this.text.charCodeAt(this.#at - 1);
    const isPair = low >= 0xdc00 && low <= 0xdfff && this.#at > 1;
    return this.text.slice(this.#at - (isPair ? 2 : 1), this.#at);
  }

  #bracket(isImage: boolean): void {
    this.#at += isImage ? 2 : 1;
    this.#items.push({ kind: "bracket", isImage, isActive: true, at: this.#at });
  }

  #close(): void {
    const place = this.#items.findLastIndex((item) => item.kind === "bracket");
    const bracket = this.#items[place];
    this.#at += 1;
    if (bracket?.kind !== "bracket") return this.#say("]");
    const target = bracket.isActive ? this.#target() : undefined;
    if (!target) {
      this.#items[place] = { kind: "text", text: bracket.isImage ? "![" : "[" };
      return this.#say("]");
    }
    const inside = this.#items.splice(place + 1);
    emphasise(inside, 0);
    this.#items.pop();
    this.#link(bracket, merged(settled(inside)), target);
  }

  #link(bracket: Bracket, inside: Inline[], { href, source }: { href: string; source: string }): void {
    if (!SCHEMES.test(href)) {
      this.#say(bracket.isImage ? "![" : "[");
      this.#items.push(...inside);
      return this.#say(`]${source}`);
    }
    if (bracket.isImage) {
      this.#items.push({ kind: "image", href, alt: plain(inside) });
      return;
    }
    this.#items.push({ kind: "link", href, inside });
    for (const item of this.#items) {
      if (item.kind === "bracket" && !item.isImage) item.isActive = false;
    }
  }

  /** What stands in the parentheses behind a closing bracket. */
  #target(): { href: string; source: string } | undefined {
    const { text } = this;
    if (text[this.#at] !== "(") return undefined;
    const rest = text.slice(this.#at);
    const found =
      /^\(\s*(?:<((?:[^<>\n\\]|\\.)*)>|((?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.)*\))(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)?)(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)/
        .exec(rest);
    if (found) {
      this.#at += found[0].length;
      return { href: unescaped(found[1] ?? found[2] ?? ""), source: found[0] };
    }
    // The address is still arriving: the words stand alone until it is there.
    if (this.ending === "open" && /^\([^\s()]*$/.test(rest)) {
      this.#at = text.length;
      return { href: "https://…", source: "" };
    }
    return undefined;
  }

  #angle(): void {
    const found = /^<((?:https?:\/\/|mailto:)[^\s<>]*)>/i.exec(this.text.slice(this.#at))
      ?? /^<([\w.!#$%&'*+/=?^`{|}~-]+@[\w-]+(?:\.[\w-]+)+)>/.exec(this.text.slice(this.#at));
    if (!found) {
      this.#at += 1;
      return this.#say("<");
    }
    const address = found[1] as string;
    const href = address.includes("://") || address.startsWith("mailto:") ? address : `mailto:${address}`;
    this.#items.push({ kind: "link", href, inside: [{ kind: "text", text: address }] });
    this.#at += found[0].length;
  }

  #bare(): void {
    const before = this.#before();
    const found = /^(?:https?:\/\/|www\.)[^\s<]*/.exec(this.text.slice(this.#at))?.[0] ?? "";
    const isAtStart = SPACE.test(before) || /[*_~(]/.test(before);
    const isInLink = this.#items.some((item) => item.kind === "bracket" && item.isActive);
    const address = trimmed(found);
    const host = address.replace(/^https?:\/\//, "");
    if (!isAtStart || isInLink || !/^[\w-]+(\.[\w-]+)*/.test(host) || !host.includes(".") && !host.startsWith("localhost")) {
      const length = found.startsWith("w") ? 4 : found.indexOf("//") + 2;
      this.#say(this.text.slice(this.#at, this.#at + length));
      this.#at += length;
      return;
    }
    const href = address.startsWith("www.") ? `https://${address}` : address;
    this.#items.push({ kind: "link", href, inside: [{ kind: "text", text: address }] });
    this.#at += address.length;
  }

  #entity(): void {
    const found = /^&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]{2,8}));/.exec(this.text.slice(this.#at));
    const point = found?.[1] ? Number(found[1]) : found?.[2] ? parseInt(found[2], 16) : undefined;
    const said = point === undefined ? ENTITIES[found?.[3] ?? ""] : character(point);
    this.#say(said ?? "&");
    this.#at += said === undefined ? 1 : (found?.[0].length ?? 1);
  }

  #newline(): void {
    const last = this.#items.at(-1);
    let isHard = false;
    if (last?.kind === "text") {
      isHard = last.text.endsWith("  ");
      last.text = last.text.trimEnd();
    }
    if (isHard) this.#items.push({ kind: "break" });
    else this.#say("\n");
    this.#at += 1;
    this.#skipSpaces();
  }

  #skipSpaces(): void {
    while (this.text[this.#at] === " " || this.text[this.#at] === "\t") this.#at += 1;
  }
}

/** Makes emphasis of the runs that have a partner, from an item on. */
function emphasise(items: Item[], from: number): void {
  let closer = from;
  while (closer < items.length) {
    const close = items[closer];
    const place = close?.kind === "run" && close.canClose ? openerOf(items, from, closer, close) : -1;
    if (close?.kind !== "run" || place < 0) {
      closer += 1;
      continue;
    }
    const open = items[place] as Run;
    const used = close.mark === "~" ? close.count : open.count >= 2 && close.count >= 2 ? 2 : 1;
    const inside = merged(settled(items.splice(place + 1, closer - place - 1)));
    const kind = close.mark === "~" ? "del" : used === 2 ? "strong" : "em";
    items.splice(place + 1, 0, { kind, inside });
    closer = place + 2;
    open.count -= used;
    close.count -= used;
    if (close.count === 0) items.splice(closer, 1);
    if (open.count === 0) {
      items.splice(place, 1);
      closer -= 1;
    }
  }
}

function openerOf(items: Item[], from: number, closer: number, close: Run): number {
  for (let at = closer - 1; at >= from; at--) {
    const open = items[at];
    if (open?.kind !== "run" || open.mark !== close.mark || !open.canOpen) continue;
    const isBoth = open.canClose || close.canOpen;
    const isThird = (open.whole + close.whole) % 3 === 0 && (open.whole % 3 !== 0 || close.whole % 3 !== 0);
    if (close.mark === "~" ? open.count === close.count : !(isBoth && isThird)) return at;
  }
  return -1;
}

/** Ends the marks that wait for their end, and hides a mark that has nothing behind it yet. */
function closedEarly(items: Item[]): Item[] {
  const last = items.at(-1);
  if (last?.kind === "run" && !last.canClose) items.pop();
  const at = items.findIndex((item) => item.kind === "run" && item.canOpen && item.mark !== "_" && item.count <= 3);
  const run = items[at];
  if (run?.kind !== "run" || run.mark === "~" && run.count !== 2) return items;
  const inside = merged(settled(closedEarly(items.splice(at + 1))));
  if (inside.length === 0) {
    items.pop();
    return items;
  }
  const kind = run.mark === "~" ? "del" : run.count === 1 ? "em" : "strong";
  const whole: Inline = run.count === 3 ? { kind: "em", inside: [{ kind, inside }] } : { kind, inside };
  items.splice(at, 1, whole);
  return items;
}

/** Makes text of marks without a partner. */
function settled(items: Item[]): Inline[] {
  return items.map((item) => {
    if (item.kind === "run") return { kind: "text", text: item.mark.repeat(item.count) };
    if (item.kind === "bracket") return { kind: "text", text: item.isImage ? "![" : "[" };
    return item;
  });
}

function merged(items: Inline[]): Inline[] {
  const out: Inline[] = [];
  for (const item of items) {
    const last = out.at(-1);
    if (item.kind === "text" && last?.kind === "text") last.text += item.text;
    else out.push(item);
  }
  return out;
}

/** The words of inline items. */
export function plain(items: Inline[]): string {
  return items.map((item) => {
    if (item.kind === "text" || item.kind === "code") return item.text;
    if (item.kind === "image") return item.alt;
    return item.kind === "break" ? "\n" : plain(item.inside);
  }).join("");
}

/** Punctuation at the end of a bare address belongs to the sentence. */
function trimmed(address: string): string {
  let end = address.length;
  for (;;) {
    const last = address[end - 1];
    if (last === undefined) break;
    const so = address.slice(0, end);
    const isExtraParenthesis = last === ")" && so.split(")").length > so.split("(").length;
    if (!/[?!.,:*_~'"\]]/.test(last) && !isExtraParenthesis) break;
    end -= 1;
  }
  return address.slice(0, end);
}

function unescaped(text: string): string {
  return text.replace(/\\([!-/:-@[-`{-~])/g, "$1").replaceAll("&amp;", "&");
}

function character(point: number): string {
  const isValid = point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
  return isValid ? String.fromCodePoint(point) : "\ufffd";
}
