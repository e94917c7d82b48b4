// A server that says what a test tells it to. The model of the wire is the test's; the link and the outbox are the real ones.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Heard {
  method: string;
  url: URL;
  key: string | undefined;
  body: unknown;
}

export class TestServer {
  readonly heard: Heard[] = [];
  #server: Server | undefined;

  /** Answers each request with `answer`. */
  async start(answer: (heard: Heard, response: ServerResponse) => void): Promise<string> {
    this.#server = createServer((request, response) => void this.#take(request, response, answer));
    await new Promise<void>((resolve) => this.#server?.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #take(request: IncomingMessage, response: ServerResponse, answer: (heard: Heard, response: ServerResponse) => void) {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const text = Buffer.concat(pieces).toString();
    const url = new URL(request.url ?? "/", "http://server");
    const heard = { method: request.method ?? "", url, key: request.headers["idempotency-key"] as string | undefined, body: text ? JSON.parse(text) as unknown : undefined };
    this.heard.push(heard);
    answer(heard, response);
  }

  stop(): Promise<void> {
    this.#server?.closeAllConnections();
    return new Promise((resolve) => this.#server?.close(() => resolve()));
  }
}

/** Resolves when the condition holds; it is asked again after each event that calls `notify`. */
export class Until {
  #waiting: Array<() => void> = [];

  notify = (): void => {
    for (const check of [...this.#waiting]) check();
  };

  holds(condition: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if (!condition()) return;
        this.#waiting = this.#waiting.filter((each) => each !== check);
        resolve();
      };
      this.#waiting.push(check);
      check();
    });
  }
}
