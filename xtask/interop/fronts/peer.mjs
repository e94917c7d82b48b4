// What the checks of the fronts share: a daemon that can be killed, a proxy that cuts, and a line of JSON a check.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const say = (line) => console.log(JSON.stringify(line));

/** Tells which versions of which packages are tried. */
export function peer(packages, label) {
  const version = packages.map((name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
  say({ peer: `${label} (Node ${process.versions.node})`, version: version.join(", ") });
}

/** One check: what goes wrong inside is told, and the next one goes on. */
export async function check(name, body) {
  try {
    await body();
    say({ check: name, ok: true });
  } catch (error) {
    say({ check: name, ok: false, why: `${error.name}: ${error.message}` });
  }
}

export const same = (seen, expected, about = "") =>
  assert.deepEqual(seen, expected, `${about} saw ${JSON.stringify(seen)}, expected ${JSON.stringify(expected)}`);

/** Waits until something is so; there is no other way to learn it from these clients. */
export async function until(what, is, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  while (!(await is())) {
    if (Date.now() > end) throw new Error(`waited ${seconds} s until ${what}`);
    await new Promise((done) => setTimeout(done, 5));
  }
}

/** Numbers by chance, the same in every run. */
export function dice(seed) {
  let state = seed;
  return (sides) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** A daemon with a directory of its own, which can be killed and started again at the same address. */
export class Daemon {
  static async start(config = "") {
    const daemon = new Daemon();
    daemon.data = mkdtempSync(join(tmpdir(), "everturn-fronts-"));
    daemon.config = join(daemon.data, "config.toml");
    writeFileSync(daemon.config, config);
    [daemon.port, daemon.proxyPort] = [await freePort(), await freePort()];
    await daemon.again();
    daemon.token = readFileSync(join(daemon.data, "data", "token"), "utf8").trim();
    daemon.url = `http://127.0.0.1:${daemon.port}`;
    daemon.headers = { authorization: `Bearer ${daemon.token}` };
    return daemon;
  }

  async again() {
    const address = `127.0.0.1:${this.port}`;
    const args = ["serve", "--config", this.config, "--listen", address, "--data", join(this.data, "data")];
    const env = { ...process.env };
    for (const name of Object.keys(env)) if (/_API_KEY$|^DATABASE_URL$|^EVERTURN_/.test(name)) delete env[name];
    this.child = spawn(process.env.EVERTURN, [...args, "--host", `127.0.0.1:${this.proxyPort}`], { env });
    let told = "";
    for (const stream of [this.child.stdout, this.child.stderr]) stream.on("data", (bytes) => (told += bytes));
    await until(`the daemon listens: ${told}`, () => told.includes("listens on"));
  }

  end(signal) {
    return new Promise((done) => {
      this.child.once("exit", done);
      this.child.kill(signal);
    });
  }

  async json(path, body) {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    const headers = { ...this.headers, "content-type": "application/json" };
    const response = await fetch(`${this.url}${path}`, { ...init, headers });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }
}

/** Between client and daemon: cuts each connection behind so many bytes of an answer as `cut` says, if it says so. */
export function proxy(daemon, cut) {
  const sockets = new Set();
  const server = createServer((client) => {
    const upstream = connect(daemon.port, "127.0.0.1");
    let left = cut();
    const over = () => {
      client.resetAndDestroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", over).on("close", over);
    }
    client.on("data", (bytes) => upstream.write(bytes));
    upstream.on("data", (bytes) => {
      if (left === undefined || bytes.length < left) {
        if (left !== undefined) left -= bytes.length;
        return void client.write(bytes);
      }
      client.write(bytes.subarray(0, left), over);
    });
  });
  return new Promise((done) =>
    server.listen(daemon.proxyPort, "127.0.0.1", () =>
      done({
        url: `http://127.0.0.1:${daemon.proxyPort}`,
        close: () => {
          sockets.forEach((socket) => socket.destroy());
          return new Promise((closed) => server.close(closed));
        },
      }),
    ),
  );
}
