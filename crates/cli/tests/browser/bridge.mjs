// A browser for the tests of the page, which are written in Rust. Reads requests as lines of JSON and answers each with a line:
// {"code": "…", "given": {…}} runs the code, an async function body, with `page`, `pages`, `context`, `given` and `helper`.
//
// Whatever the page must not do is collected and asked for at the end with `helper.complaints()`: requests to other hosts,
// reports of the content policy, errors of scripts.
import { createInterface } from "node:readline";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
];
/** Machines that run these tests are busy. */
const WAIT_MS = 90_000;

const [executablePath, origin] = process.argv.slice(2);
/** A directory with another build of the page, to see that the tests fail with a page that loses or doubles words. */
const sabotaged = process.env.BROWSER_TESTS_PAGE;
const profile = mkdtempSync(join(tmpdir(), "everturn-browser-"));
const context = await chromium.launchPersistentContext(profile, {
    executablePath, headless: true, args: FLAGS, viewport: { width: 1280, height: 800 },
});
context.setDefaultTimeout(WAIT_MS);
const complaints = [];
/** Problems that a test causes on purpose, such as failed requests while the server is away. */
const EXPECTED = /Failed to load resource|net::ERR_/;

await context.route("**/*", (route) => {
    const url = route.request().url();
    const { pathname } = new URL(url);
    if (sabotaged && /^\/(assets\/|c\/|$)/.test(pathname)) {
        return route.fulfill({ path: join(sabotaged, pathname.startsWith("/assets/") ? pathname : "index.html") });
    }
    const isOurs = url.startsWith(`${origin}/`) || /^(blob|data|about):/.test(url) || helper.allowed.some((each) => url.startsWith(each));
    if (isOurs) return route.fallback();
    complaints.push(`a request to ${url}`);
    return route.abort();
});

function watch(page) {
    page.on("console", (message) => {
        if (message.type() === "error" && !EXPECTED.test(message.text())) complaints.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => complaints.push(`error: ${error.stack ?? error}`));
}
context.on("page", watch);
const pages = context.pages();
pages.forEach(watch);

const helper = {
    /** Addresses beside the server's that a test allows. */
    allowed: [],
    complaints: () => complaints,
    /** Another tab. */
    tab: async () => {
        const page = await context.newPage();
        pages.push(page);
        return page;
    },
    /** Waits until a function of the page holds. */
    until: (page, hold, given) => page.waitForFunction(hold, given, { timeout: WAIT_MS, polling: 100 }),
    /** What axe-core finds, without the nodes. */
    axe: async (page) => {
        const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
        await page.evaluate(source);
        return page.evaluate(async () => {
            const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
            return violations.map(({ id, impact, nodes }) => `${id} (${impact}): ${nodes.map((node) => node.target.join(" ")).join(", ")}`);
        });
    },
};

const AsyncFunction = (async () => {}).constructor;
console.log(JSON.stringify({ ready: true }));
for await (const line of createInterface({ input: process.stdin })) {
    const { code, given } = JSON.parse(line);
    let answer;
    try {
        const value = await new AsyncFunction("page", "pages", "context", "given", "helper", code)(pages[0], pages, context, given, helper);
        answer = { value: value ?? null };
    } catch (error) {
        answer = { error: String(error.stack ?? error) };
    }
    console.log(JSON.stringify(answer));
}
await context.close();
rmSync(profile, { recursive: true, force: true });
