import { useEffect, useState } from "preact/hooks";

/** Draws a component once per second while it shows a time that runs. */
export function useSeconds(isRunning: boolean): void {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [isRunning]);
}
