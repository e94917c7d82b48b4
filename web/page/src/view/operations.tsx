// The operations page is loaded when it is opened for the first time.

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

let loaded: FunctionComponent | undefined;

export function Operations() {
  const [Part, set] = useState(() => loaded);
  useEffect(() => {
    if (!Part) void import("../inspect/operations.js").then((module) => set(() => (loaded = module.OperationsPage)));
  }, []);
  return Part ? <Part /> : <main class="main" id="main" tabIndex={-1} aria-busy="true" />;
}
