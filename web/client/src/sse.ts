// Cuts a stream of bytes into server-sent events, wherever the network cut it.

/** An event as it stands in the stream. */
export interface RawEvent {
  name: string;
  data: string;
  id: string | undefined;
}

/** The longest line, in characters. A longer one is no event of ours. */
const LINE_MAX = 8 * 1024 * 1024;

export class SseCutter {
  #decoder = new TextDecoder();
  #rest = "";
  #name = "";
  #data: string[] = [];
  #id: string | undefined;

  /** The events that are complete with these bytes. */
  push(bytes: Uint8Array): RawEvent[] {
    const events: RawEvent[] = [];
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    let from = 0;
    for (;;) {
      const end = this.#rest.indexOf("\n", from);
      if (end < 0) break;
      const line = this.#rest.slice(from, this.#rest[end - 1] === "\r" && end > from ? end - 1 : end);
      from = end + 1;
      this.#line(line, events);
    }
    this.#rest = this.#rest.slice(from);
    if (this.#rest.length > LINE_MAX) throw new Error(`the stream has a line over ${LINE_MAX} characters`);
    return events;
  }

  #line(line: string, events: RawEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        events.push({ name: this.#name || "message", data: this.#data.join("\n"), id: this.#id });
      }
      this.#name = "";
      this.#data = [];
      this.#id = undefined;
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return; // A comment.
    const field = colon < 0 ? line : line.slice(0, colon);
    const from = line[colon + 1] === " " ? colon + 2 : colon + 1;
    const value = colon < 0 ? "" : line.slice(from);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id") this.#id = value;
  }
}
