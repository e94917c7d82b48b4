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

/** JSON with line breaks, if it is JSON; else the text as it is. Never changes what it means. */
export function laidOut(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
