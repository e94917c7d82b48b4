// Characters that a person cannot see, or that change the order of those beside them. In calls, approvals and titles they
// are drawn as boxed code points, so that what is approved is what is read.

const HIDDEN =
  // Controls but tab and line feed; zero width, direction, invisible operators, variation and tag characters.
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

export interface VisiblePiece {
  text: string;
  isHidden: boolean;
}

/** The text in pieces: hidden characters are alone, by their names. */
export function visible(text: string): VisiblePiece[] {
  const pieces: VisiblePiece[] = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) pieces.push({ text: text.slice(from, found.index), isHidden: false });
    const point = found[0].codePointAt(0) as number;
    pieces.push({ text: `U+${point.toString(16).toUpperCase().padStart(4, "0")}`, isHidden: true });
    from = found.index + found[0].length;
  }
  if (from < text.length) pieces.push({ text: text.slice(from), isHidden: false });
  return pieces;
}

/** The value of a JSON text; nothing if drawing the value would show something else than the text, as with a name given twice. */
function exactValue(json: string): unknown {
  try {
    const value: unknown = JSON.parse(json);
    const written = json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return JSON.stringify(value) === written ? value : undefined;
  } catch {
    return undefined;
  }
}

/** JSON with line breaks, if it is JSON; else the text as it is. Never changes what it means. */
export function laidOut(json: string): string {
  const value = exactValue(json);
  return value === undefined ? json : JSON.stringify(value, null, 2);
}

/** A replacement of text in a file. */
export interface Replacement {
  old: string;
  new: string;
}

export interface InputField {
  name: string;
  /** Text with its own line breaks, or JSON. */
  text: string;
  /** What is replaced by what, if the field says that. */
  replaces: Replacement[] | undefined;
}

/** The fields of a call's input; nothing if it is no object, or not to be drawn as fields. */
export function fieldsOf(input: string): InputField[] | undefined {
  const value = exactValue(input);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  return Object.entries(value).map(([name, field]: [string, unknown]) => ({
    name,
    text: typeof field === "string" ? field : JSON.stringify(field, null, 2),
    replaces: Array.isArray(field) && field.length > 0 && field.every(isReplacement) ? field : undefined,
  }));
}

/** Nothing but the texts: a further field must be seen too. */
function isReplacement(value: unknown): value is Replacement {
  const fields = typeof value === "object" && value !== null ? Object.entries(value) : [];
  return fields.length === 2 && fields.every(([name, text]) => (name === "old" || name === "new") && typeof text === "string");
}
