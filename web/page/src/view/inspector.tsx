// The inspector is loaded when it is opened for the first time.

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { ChatState } from "../state/chats.js";

export interface InspectorProps {
  chat: ChatState;
  look: string;
}

let loaded: FunctionComponent<InspectorProps> | undefined;

export function Inspector(props: InspectorProps) {
  const [Part, set] = useState(() => loaded);
  useEffect(() => {
    if (!Part) void import("../inspect/inspector.js").then((module) => set(() => (loaded = module.InspectorPanel)));
  }, []);
  return Part ? <Part {...props} /> : <aside class="inspector" aria-busy="true" />;
}
