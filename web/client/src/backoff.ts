// How long to wait before the next try.

const FIRST_MS = 250;
const MAX_MS = 10_000;

/** Doubling waits with full jitter, so that clients of a server that comes back do not all come at once. */
export class Backoff {
  #tries = 0;
  readonly #random: () => number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** The next wait in milliseconds; never shorter than the server asked for. */
  next(retryAfterMs = 0): number {
    const bound = Math.min(MAX_MS, FIRST_MS * 2 ** this.#tries);
    this.#tries += 1;
    return Math.max(retryAfterMs, bound * (0.5 + this.#random() / 2));
  }

  reset(): void {
    this.#tries = 0;
  }

  get tries(): number {
    return this.#tries;
  }
}

/** `Retry-After` in milliseconds, if it names seconds. */
export function retryAfter(response: Response): number {
  const seconds = Number(response.headers.get("retry-after"));
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : 0;
}
