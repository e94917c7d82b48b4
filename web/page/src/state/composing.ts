/** Whether the person ends a composition of letters, rather than sending. WebKit says so by the code alone. */
export function isComposing(event: { isComposing: boolean; keyCode: number }): boolean {
  return event.isComposing || event.keyCode === 229;
}
