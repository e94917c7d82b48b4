import type { InspectorProps } from "../view/inspector.js";

export function InspectorPanel(_: InspectorProps) {
  return <aside class="inspector" aria-label="Details" />;
}
