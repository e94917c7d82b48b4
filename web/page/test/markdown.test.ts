import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { elements, FakeElement, html, made } from "./dom.js";
import { MarkdownStream } from "../src/markdown/lines.js";

/** What the text becomes, pushed in these pieces. */
function rendered(pieces: Iterable<string>): string {
  const root = new FakeElement("div");
  const stream = new MarkdownStream(root as unknown as HTMLElement);
  for (const piece of pieces) stream.push(piece);
  stream.finish();
  return root.childNodes.map(html).join("").replaceAll(/<div class="chunk">|<\/div>$/g, "");
}

function plainHtml(text: string): string {
  return rendered([text]).replaceAll(' class="tight"', "").replaceAll(' class="loose"', "").replaceAll(/ class="level-\d"/g, "")
    .replaceAll(' rel="noopener noreferrer" target="_blank"', "").replaceAll("</div>", "");
}

const LONG_LIST = Array.from({ length: 90 }, (_, at) => `${at + 1}. item ${at + 1}\n`).join("");

const EXAMPLES: Array<[string, string]> = [
  ["one\ntwo", "<p>one\ntwo</p>"],
  ["one\n\ntwo", "<p>one</p><p>two</p>"],
  ["# a #\n## b", "<h3>a</h3><h4>b</h4>"],
  ["a\n===\nb\n---", "<h3>a</h3><h4>b</h4>"],
  ["***\n---\n_ _ _", "<hr><hr><hr>"],
  ["**a** *b* _c_ ~~d~~ `e`", "<p><strong>a</strong> <em>b</em> <em>c</em> <del>d</del> <code>e</code></p>"],
  ["*a **b** c*", "<p><em>a <strong>b</strong> c</em></p>"],
  ["***a***", "<p><em><strong>a</strong></em></p>"],
  ["snake_case_name 2*3*4", "<p>snake_case_name 2<em>3</em>4</p>"],
  ["a  \nb\\\nc", "<p>a<br>b<br>c</p>"],
  ["\\*a\\* &amp; &lt; &#65;", "<p>*a* &amp; &lt; A</p>"],
  ["``a ` b`` ` `` `", "<p><code>a ` b</code> <code>``</code></p>"],
  ["- a\n- b\n  - c\n- d", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul></li><li><p>d</p></li></ul>"],
  ["3. a\n4. b", '<ol start="3"><li><p>a</p></li><li><p>b</p></li></ol>'],
  ["1) a\n2) b\n\n   c", "<ol><li><p>a</p></li><li><p>b</p><p>c</p></li></ol>"],
  ["- [ ] a\n- [x] b", '<ul><li class="task"><input type="checkbox" disabled=""><p>a</p></li><li class="task"><input type="checkbox" disabled="" checked=""><p>b</p></li></ul>'],
  ["> a\n> b\nc\n\nd", "<blockquote><p>a\nb\nc</p></blockquote><p>d</p>"],
  ["> - a\n> - b", "<blockquote><ul><li><p>a</p></li><li><p>b</p></li></ul></blockquote>"],
  ["- a\n\n      code\n", "<ul><li><p>a</p><div class=\"code\"><div class=\"code-head\"><span>text</span><button class=\"copy\" type=\"button\">Copy</button><pre tabindex=\"0\"><code><span class=\"box\"><span><span class=\"piece\">code</span>\n</span></span></code></pre></li></ul>"],
  ["[a](https://e.org/x \"t\")", '<p><a href="https://e.org/x">a<span class="host">e.org</span></a></p>'],
  ["<https://e.org> https://e.org/a_b_c.", '<p><a href="https://e.org">https://e.org</a> <a href="https://e.org/a_b_c">https://e.org/a_b_c</a>.</p>'],
  ["[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"],
  ["![a](https://e.org/i.png)", '<p><a class="image" href="https://e.org/i.png">a<span class="host">e.org</span></a></p>'],
  ["<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"],
  ["| a | b |\n|---|:-:|\n| 1 | `x` |\n| 2\n\nz", '<div class="table"><table><thead><tr><th>a</th><th class="center">b</th></tr></thead><tbody><tr><td>1</td><td class="center"><code>x</code></td></tr><tr><td>2</td><td class="center"></td></tr></tbody></table><p>z</p>'],
  ["a\n- b", "<p>a</p><ul><li><p>b</p></li></ul>"],
  ["a\n2. b", "<p>a\n2. b</p>"],
  ["* a\n\n* b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"],
  ["- a\n+ b", "<ul><li><p>a</p></li></ul><ul><li><p>b</p></li></ul>"],
];

/** PG32: the subset of CommonMark and GFM. */
test("examples give their nodes", () => {
  for (const [text, expected] of EXAMPLES) assert.equal(plainHtml(text), expected, text);
});

/** PG32: what is streamed in any pieces is what is given at once. */
test("the pieces do not matter", () => {
  for (const [text] of EXAMPLES) {
    const whole = rendered([text]);
    for (let cut = 1; cut < text.length; cut++) {
      assert.equal(rendered([text.slice(0, cut), text.slice(cut)]), whole, JSON.stringify([text.slice(0, cut), text.slice(cut)]));
    }
    assert.equal(rendered(text), whole, text);
  }
});

/** PG32: the same for long documents, letter by letter. */
test("the book of Everturn streams as it reads", () => {
  const docs = join(FIXTURES, "../../../../docs");
  for (const name of readdirSync(docs).filter((each) => each.endsWith(".md")).slice(0, 12)) {
    const text = readFileSync(join(docs, name), "utf8").slice(0, 20_000);
    assert.equal(rendered(text), rendered([text]), name);
  }
});

/** A pseudo-random number generator, the same in every run. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const ATOMS = ["a", "b c", "*", "**", "_", "`", "```", "~~~", "~~", "\n", "\n\n", "- ", "1. ", "2) ", "> ", "# ", "#", "|", "---", "|-|-|",
  "    ", "  ", "\t", "[", "](", ")", "https://e.org", "<", ">", "!", "\\", "&amp;", "[ ] ", "[x] ", "=", "+ ", ":", "\r\n", "é", "🙂", "."];

/** PG32, PG33: so do documents of random signs, and nothing throws. */
test("random documents stream as they read", () => {
  for (let seed = 0; seed < 3000; seed++) {
    const roll = dice(seed);
    const atoms = Array.from({ length: 1 + roll(40) }, () => ATOMS[roll(ATOMS.length)] as string);
    const text = atoms.join("");
    assert.equal(rendered(text), rendered([text]), JSON.stringify(text));
    assert.equal(rendered(atoms), rendered([text]), JSON.stringify(text));
  }
});

const ELEMENTS = new Set("div p h3 h4 h5 h6 ul ol li blockquote pre code span button table colgroup col thead tbody tr th td strong em del a br hr input".split(" "));
const ATTRIBUTES = new Set("href rel target start type disabled checked tabindex".split(" "));
const VECTORS = [
  "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](java\nscript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)", "<javascript:alert(1)>", "![x](javascript:alert(1))", "[x](&#106;avascript:alert(1))",
  "[x](\\javascript:alert(1))", "<a href=\"javascript:x\">y</a>", "[x](https://e.org\" onclick=\"alert(1))", "`<svg onload=alert(1)>`",
  "```\"><img src=x>\n<script>\n```", "[x](file:///etc/passwd)", "[x](//e.org)", "[x](https:javascript:alert(1))", "<https://e.org\"onmouseover=alert(1)>",
  "[a]: javascript:alert(1)\n\n[a]", "| <script> | [x](javascript:1) |\n|-|-|\n| <iframe> | ![](data:1) |", "https://e.org/\"><script>", "<!--\n-->", "<style>*{}</style>",
];

/** PG33: whatever the model says, only these elements and attributes are made, and links lead only to web and mail. */
test("no element or attribute off the list", () => {
  for (let seed = 0; seed < 2000; seed++) {
    const roll = dice(seed + 77);
    const text = seed < VECTORS.length ? (VECTORS[seed] as string)
      : Array.from({ length: 1 + roll(12) }, () => [...ATOMS, ...VECTORS][roll(ATOMS.length + VECTORS.length)] as string).join("");
    const root = new FakeElement("div");
    const stream = new MarkdownStream(root as unknown as HTMLElement);
    for (const letter of text) stream.push(letter);
    stream.finish();
    for (const each of elements(root)) {
      assert.ok(ELEMENTS.has(each.name), `${each.name} of ${JSON.stringify(text)}`);
      for (const [name, value] of each.attributes) {
        assert.ok(ATTRIBUTES.has(name), `${name} of ${JSON.stringify(text)}`);
        if (name === "href") assert.match(value, /^(https?:\/\/|mailto:)/i, JSON.stringify(text));
      }
    }
  }
});

test("a long list goes on with its numbers", () => {
  const root = new FakeElement("div");
  const stream = new MarkdownStream(root as unknown as HTMLElement);
  for (const letter of LONG_LIST) stream.push(letter);
  stream.finish();
  const lists = elements(root).filter((each) => each.name === "ol");
  assert.deepEqual(lists.map((list) => [list.attributes.get("start"), list.childNodes.length]), [[undefined, 40], ["41", 40], ["81", 10]]);
  assert.equal(root.textContent, Array.from({ length: 90 }, (_, at) => `item ${at + 1}`).join(""));
});

/** PG44: the text of a code block is the code, with its last line end. */
test("what is copied of a code block is its exact text", () => {
  const code = "fn a() {\n\n    \"x\" // ü\n}\n";
  const root = new FakeElement("div");
  const stream = new MarkdownStream(root as unknown as HTMLElement);
  for (const letter of `\`\`\`rust\n${code}\`\`\`\nafter`) stream.push(letter);
  stream.finish();
  assert.equal(elements(root).find((each) => each.name === "code")?.textContent, code);
});

/** PG31: a block that was closed is not made again. */
test("closed blocks keep their nodes", () => {
  const root = new FakeElement("div");
  const stream = new MarkdownStream(root as unknown as HTMLElement);
  stream.push(`first\n\n- a\n- b\n\n\`\`\`js\n${"let a = 1;\n".repeat(100)}`);
  const before = elements(root);
  const open = before.at(-1);
  stream.push(`let b = 2;\n`.repeat(50));
  stream.push("```\n\nlast");
  stream.finish();
  const after = new Set(elements(root));
  for (const each of before) assert.ok(each === open || after.has(each), each.name);
});

/** PG30: nodes that are made for a delta do not grow with the text. */
test("a delta costs the same at the end as at the beginning", () => {
  const shapes: Record<string, string> = {
    prose: "Some **bold** words and `code` in a sentence. ".repeat(10) + "\n\n",
    paragraph: "Some **bold** words and `code` in a sentence. ",
    list: "- an item with *emphasis*\n",
    table: "| one | two |\n",
    code: "let value = compute(1, \"two\"); // three\n",
    line: "abcdefghij ",
  };
  const heads: Record<string, string> = { table: "| a | b |\n|---|---|\n", code: "```rust\n", line: "```\n" };
  for (const [shape, piece] of Object.entries(shapes)) {
    const root = new FakeElement("div");
    const stream = new MarkdownStream(root as unknown as HTMLElement);
    stream.push(heads[shape] ?? "");
    const text = piece.repeat(Math.ceil(40_000 / piece.length));
    const costs: number[] = [];
    for (let at = 0; at < text.length; at += 4) {
      const from = made;
      stream.push(text.slice(at, at + 4));
      costs.push(made - from);
    }
    const mean = (from: number, to: number) => costs.slice(from, to).reduce((sum, each) => sum + each, 0) / (to - from);
    const early = mean(0, 500);
    const late = mean(costs.length - 500, costs.length);
    assert.ok(late <= 2 * early + 1, `${shape}: ${early} nodes per delta became ${late}`);
    assert.ok(Math.max(...costs) < 400, `${shape}: a delta made ${Math.max(...costs)} nodes`);
  }
});
