// As much of a document as the Markdown machine uses, so that it runs without a browser and what it makes can be read.

class FakeNode {
  parent: FakeElement | undefined;

  get nextSibling(): FakeNode | null {
    const all = this.parent?.childNodes ?? [];
    return all[all.indexOf(this) + 1] ?? null;
  }

  remove(): void {
    const all = this.parent?.childNodes;
    all?.splice(all.indexOf(this), 1);
    this.parent = undefined;
  }

  after(node: FakeNode): void {
    const all = this.parent?.childNodes;
    all?.splice(all.indexOf(this) + 1, 0, node);
    node.parent = this.parent;
  }

  replaceWith(node: FakeNode): void {
    const all = this.parent?.childNodes;
    all?.splice(all.indexOf(this), 1, node);
    node.parent = this.parent;
    this.parent = undefined;
  }
}

export class FakeText extends FakeNode {
  constructor(public data: string) {
    super();
  }

  get textContent(): string {
    return this.data;
  }

  appendData(text: string): void {
    this.data += text;
  }
}

export class FakeElement extends FakeNode {
  readonly childNodes: FakeNode[] = [];
  readonly attributes = new Map<string, string>();
  className = "";
  readonly style = { setProperty: (): void => {} };

  constructor(readonly name: string) {
    super();
  }

  append(...nodes: FakeNode[]): void {
    for (const node of nodes) {
      node.parent = this;
      this.childNodes.push(node);
    }
  }

  appendChild(node: FakeNode): void {
    this.append(node);
  }

  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }

  get firstChild(): FakeNode | null {
    return this.childNodes[0] ?? null;
  }

  get lastChild(): FakeNode | null {
    return this.childNodes.at(-1) ?? null;
  }

  get textContent(): string {
    return this.childNodes.map((node) => (node as FakeText | FakeElement).textContent).join("");
  }
}

/** How many nodes were made: what is made again shows. */
export let made = 0;

Object.assign(globalThis, {
  document: {
    createElement: (name: string) => (made++, new FakeElement(name)),
    createTextNode: (text: string) => (made++, new FakeText(text)),
  },
});

const VOID = new Set(["br", "hr", "input", "col"]);

/** The nodes as HTML, with neighbouring texts joined. */
export function html(node: FakeNode): string {
  if (node instanceof FakeText) return node.data.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const element = node as FakeElement;
  const attributes = [...(element.className ? [["class", element.className] as const] : []), ...element.attributes];
  const shown = attributes.map(([name, value]) => ` ${name}="${value.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}"`).join("");
  const inside = element.childNodes.map(html).join("");
  return VOID.has(element.name) ? `<${element.name}${shown}>` : `<${element.name}${shown}>${inside}</${element.name}>`;
}

/** All elements below a node. */
export function elements(node: FakeNode): FakeElement[] {
  if (!(node instanceof FakeElement)) return [];
  return node.childNodes.flatMap((each) => (each instanceof FakeElement ? [each, ...elements(each)] : []));
}
