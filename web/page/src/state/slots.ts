// A browser has six connections to a server without TLS, over all tabs. So at most four tabs have a stream at once; the
// others take turns. Coming back costs a cursor and loses nothing.

/** The most streams over all tabs. */
const STREAMS_MAX = 4;
/** A visible tab keeps its stream for so long, if another one waits. */
const TURN_MS = 5000;

const NAME = "everturn-stream";
/** Said by a tab that waits. */
const WANTED = "wanted";

export interface Stream {
  start(): void;
  stop(): void;
}

/** Starts the stream of this tab when there is room for it, and stops it for others. */
export function shareStreams(stream: Stream): void {
  const { locks } = navigator;
  if (!locks || typeof BroadcastChannel === "undefined") return stream.start();
  const channel = new BroadcastChannel(NAME);
  let release: (() => void) | undefined;
  let since = 0;
  let isWaiting = false;
  let turn: ReturnType<typeof setTimeout> | undefined;

  /** Runs the stream for as long as the lock is held. */
  const hold = (): Promise<void> | undefined => {
    if (release) return undefined; // Two locks came at once: one is enough.
    since = performance.now();
    stream.start();
    return new Promise<void>((resolve) => (release = resolve));
  };
  const letGo = () => {
    clearTimeout(turn);
    turn = undefined;
    stream.stop();
    release?.();
    release = undefined;
  };
  const acquire = async () => {
    if (release || isWaiting) return;
    isWaiting = true;
    for (let slot = 0; slot < STREAMS_MAX && !release; slot++) {
      await new Promise<void>((tried) => {
        void locks.request(`${NAME}-${slot}`, { ifAvailable: true }, (lock) => {
          const held = lock ? hold() : undefined;
          tried();
          return held;
        });
      });
    }
    if (!release) await queued();
    isWaiting = false;
  };
  /** Waits for any of the locks. */
  const queued = async () => {
    const others = new AbortController();
    channel.postMessage(WANTED);
    await new Promise<void>((granted) => {
      for (let slot = 0; slot < STREAMS_MAX; slot++) {
        locks.request(`${NAME}-${slot}`, { signal: others.signal }, () => {
          const held = hold();
          granted();
          return held;
        }).catch(() => undefined); // Another lock came first.
      }
    });
    others.abort();
  };

  channel.onmessage = () => {
    if (!release || turn !== undefined) return;
    if (document.visibilityState === "hidden") return letGo();
    turn = setTimeout(() => {
      letGo();
      void acquire();
    }, Math.max(0, TURN_MS - (performance.now() - since)));
  };
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") void acquire();
  });
  void acquire();
}
