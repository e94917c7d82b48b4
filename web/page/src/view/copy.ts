/** Copies text; also where the browser has no clipboard for pages without TLS. Returns whether it worked. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text: string): boolean {
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "off-screen";
  document.body.append(box);
  const before = document.activeElement as HTMLElement | null;
  box.select();
  const isCopied = document.execCommand("copy");
  box.remove();
  before?.focus();
  return isCopied;
}

/** The buttons of code blocks, which are made outside of any component. */
export function installCopy(): void {
  document.addEventListener("click", async (event) => {
    const button = (event.target as Element | null)?.closest?.<HTMLButtonElement>("button.copy");
    const code = button?.closest(".code")?.querySelector("code");
    if (!button || !code || !(await copyText(code.textContent ?? ""))) return;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}
