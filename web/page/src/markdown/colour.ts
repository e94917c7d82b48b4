// Colours of code, one line at a time. What a line leaves open, a comment or a string, is carried into the next line.
//
// Not a parser: words, strings, comments and numbers are enough to read code by, and cost the same for each line.

export interface Language {
  words: ReadonlySet<string>;
  /** Begin a comment up to the end of the line. */
  line: readonly string[];
  /** Begin and end of a comment over lines. */
  block?: readonly [string, string];
  /** Signs that enclose strings on one line. */
  strings: readonly string[];
  /** Signs that enclose strings over lines. */
  longStrings: readonly string[];
  /** Whether a quote may begin a lifetime or a label rather than a string. */
  hasLifetimes?: boolean;
  isDiff?: boolean;
  isMarkup?: boolean;
  /** Whether `#[…]`, `@name` and the like are marked. */
  ignoresCase?: boolean;
}

/** What is open at the end of a line: the sign that ends it. */
export type LineState = { ends: string; kind: string } | undefined;
export const START: LineState = undefined;

export interface Piece {
  text: string;
  kind: string;
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(" "));
const C = "if else for while do switch case default break continue return struct enum union typedef sizeof static const void int char long short float double unsigned signed extern volatile goto inline true false NULL nullptr";
const JS = "const let var function return if else for while do switch case default break continue new class extends super this import export from as async await yield try catch finally throw typeof instanceof in of delete void null undefined true false interface type enum implements private public protected readonly static abstract declare namespace keyof infer satisfies";

const slashes = { line: ["//"], block: ["/*", "*/"] as const, strings: ['"', "'"], longStrings: [] };
const LANGUAGES: Record<string, Language> = {
  rust: { ...slashes, strings: ['"'], longStrings: ['"'], hasLifetimes: true, words: words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while") },
  js: { ...slashes, longStrings: ["`"], words: words(JS) },
  python: { line: ["#"], strings: ['"', "'"], longStrings: ['"""', "'''"], words: words("and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield") },
  go: { ...slashes, longStrings: ["`"], words: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false string int error bool byte rune any") },
  c: { ...slashes, words: words(C) },
  cpp: { ...slashes, words: words(`${C} auto bool class constexpr delete explicit friend namespace new noexcept operator override private protected public template this throw try catch typename using virtual`) },
  java: { ...slashes, longStrings: ['"""'], words: words("abstract assert boolean break byte case catch char class const continue default do double else enum extends final finally float for if implements import instanceof int interface long new null package private protected public record return short static super switch synchronized this throw throws true false try void volatile while var val fun when object override sealed data") },
  csharp: { ...slashes, words: words("abstract as async await base bool break case catch class const continue decimal default delegate do double else enum event false finally fixed float for foreach get if in int interface internal is lock long namespace new null object out override params private protected public readonly record ref return sealed set static string struct switch this throw true try using var virtual void while yield") },
  swift: { ...slashes, words: words("actor any as associatedtype async await break case catch class continue default defer do else enum extension fallthrough false for func guard if import in init inout is let nil private protocol public return self Self some static struct super switch throw throws true try var where while") },
  ruby: { line: ["#"], strings: ['"', "'"], longStrings: [], words: words("alias and begin break case class def do else elsif end ensure false for if in module next nil not or redo require rescue retry return self super then true undef unless until when while yield") },
  php: { ...slashes, line: ["//", "#"], words: words("abstract and array as break case catch class const continue default do echo else elseif extends false final finally fn for foreach function global if implements import include interface match namespace new null or private protected public require return static switch this throw trait true try use var while yield") },
  shell: { line: ["#"], strings: [], longStrings: ['"', "'"], words: words("if then else elif fi for in do done while until case esac function return export local readonly set unset echo cd exit source sudo true false") },
  sql: { line: ["--"], block: ["/*", "*/"], strings: ["'", '"'], longStrings: [], ignoresCase: true, words: words("select from where and or not null insert into values update set delete create table index view drop alter add primary key foreign references unique default join left right inner outer full on as group by order having limit offset union all distinct case when then else end begin commit rollback returning with in is like between exists integer text bigint boolean timestamp varchar true false") },
  json: { line: [], strings: ['"'], longStrings: [], words: words("true false null") },
  yaml: { line: ["#"], strings: ['"', "'"], longStrings: [], words: words("true false null yes no on off") },
  toml: { line: ["#"], strings: ['"', "'"], longStrings: ['"""', "'''"], words: words("true false") },
  css: { line: [], block: ["/*", "*/"], strings: ['"', "'"], longStrings: [], words: words("important media supports import font-face keyframes from to and not") },
  html: { line: [], block: ["<!--", "-->"], strings: ['"', "'"], longStrings: [], isMarkup: true, words: words("") },
  diff: { line: [], strings: [], longStrings: [], isDiff: true, words: words("") },
};

const NAMES: Record<string, string> = {
  rs: "rust", javascript: "js", jsx: "js", ts: "js", tsx: "js", typescript: "js", mjs: "js", cjs: "js", py: "python", python3: "python",
  golang: "go", h: "c", cc: "cpp", "c++": "cpp", hpp: "cpp", kotlin: "java", kt: "java", scala: "java", cs: "csharp", "c#": "csharp",
  rb: "ruby", sh: "shell", bash: "shell", zsh: "shell", console: "shell", fish: "shell", dockerfile: "shell", makefile: "shell",
  postgres: "sql", postgresql: "sql", sqlite: "sql", mysql: "sql", json5: "json", jsonc: "json", yml: "yaml", ini: "toml",
  scss: "css", less: "css", xml: "html", svg: "html", vue: "html", patch: "diff",
};

/** The language of a fence, if it is known. */
export function languageOf(name: string): Language | undefined {
  const lower = name.toLowerCase();
  const known = Object.hasOwn(NAMES, lower) ? (NAMES[lower] as string) : lower;
  return Object.hasOwn(LANGUAGES, known) ? LANGUAGES[known] : undefined;
}

/** The pieces of a line, and what is open behind it. */
export function colourLine(text: string, language: Language, state: LineState): { pieces: Piece[]; state: LineState } {
  if (language.isDiff) return { pieces: diffLine(text), state: undefined };
  const pieces: Piece[] = [];
  const say = (piece: string, kind = "") => {
    const last = pieces.at(-1);
    if (last && last.kind === kind) last.text += piece;
    else if (piece !== "") pieces.push({ text: piece, kind });
  };
  let at = 0;
  let open = state;
  while (at < text.length) {
    if (open) {
      const end = endOf(text, at, open.ends);
      say(text.slice(at, end.at), open.kind);
      at = end.at;
      if (end.isFound) open = undefined;
      continue;
    }
    const begun = beginning(text, at, language);
    if (begun) {
      say(text.slice(at, begun.at), begun.kind);
      at = begun.at;
      open = begun.open;
      continue;
    }
    const found = /^(?:[\p{L}_$][\p{L}\p{N}_$-]*|\d[\w.]*|\s+|[^])/u.exec(text.slice(at, at + 200))?.[0] ?? (text[at] as string);
    const word = language.isMarkup || found.includes("-") && language !== LANGUAGES["css"] ? found.split("-")[0] as string : found;
    const token = word === "" ? found : word;
    say(token, kindOf(token, text, at, language));
    at += token.length;
  }
  return { pieces, state: open };
}

/** A comment or a string that begins here. */
function beginning(text: string, at: number, language: Language): { at: number; kind: string; open: LineState } | undefined {
  const starts = (sign: string) => text.startsWith(sign, at);
  const isHash = language.line.includes("#") && at > 0 && !/\s/.test(text[at - 1] as string);
  if (language.line.some((sign) => starts(sign) && !(sign === "#" && isHash))) {
    return { at: text.length, kind: "comment", open: undefined };
  }
  if (language.block && starts(language.block[0])) {
    return { at: at + language.block[0].length, kind: "comment", open: { ends: language.block[1], kind: "comment" } };
  }
  const long = language.longStrings.find(starts);
  if (long) return { at: at + long.length, kind: "string", open: { ends: long, kind: "string" } };
  if (language.hasLifetimes && starts("'")) {
    const found = /^'(?:\\.[^']*|[^'\\])'/.exec(text.slice(at));
    return found ? { at: at + found[0].length, kind: "string", open: undefined } : undefined;
  }
  const short = language.strings.find(starts);
  if (!short) return undefined;
  const end = endOf(text, at + short.length, short);
  // An apostrophe without a partner is a word's, not a string's.
  if (!end.isFound && short === "'") return undefined;
  const isKey = language === LANGUAGES["json"] && /^\s*:/.test(text.slice(end.at));
  return { at: end.at, kind: isKey ? "name" : "string", open: undefined };
}

function endOf(text: string, from: number, sign: string): { at: number; isFound: boolean } {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\\" && sign.length < 3 && !sign.startsWith("*") && !sign.startsWith("-")) at += 1;
    else if (text.startsWith(sign, at)) return { at: at + sign.length, isFound: true };
  }
  return { at: text.length, isFound: false };
}

function kindOf(token: string, text: string, at: number, language: Language): string {
  if (/^\d/.test(token)) return "number";
  if (!/^[\p{L}_$]/u.test(token)) return "";
  if (language.isMarkup) {
    const before = text[at - 1];
    return before === "<" || before === "/" && text[at - 2] === "<" ? "keyword" : text[at + token.length] === "=" ? "name" : "";
  }
  if (language.words.has(language.ignoresCase ? token.toLowerCase() : token)) return "keyword";
  const rest = text.slice(at + token.length, at + token.length + 40);
  if (/^\s*:(?!:)/.test(rest) && (language === LANGUAGES["yaml"] || language === LANGUAGES["css"])) return "name";
  if (/^\s*=/.test(rest) && language === LANGUAGES["toml"]) return "name";
  if (/^!?\(/.test(rest)) return "function";
  return /^\p{Lu}/u.test(token) ? "type" : "";
}

function diffLine(text: string): Piece[] {
  const kind = /^(@@|diff |index |---|\+\+\+)/.test(text) ? "comment" : text.startsWith("+") ? "added" : text.startsWith("-") ? "removed" : "";
  return [{ text, kind }];
}
